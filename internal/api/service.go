package api

import (
	"context"

	"mcpx/internal/event"
)

// Service is the local API, one method for each row of Ops. Errors are *fault.Error.
type Service interface {
	DaemonStatus(ctx context.Context, in None) (Daemon, error)
	DaemonStop(ctx context.Context, in StopDaemon) (Stopping, error)
	DaemonRestart(ctx context.Context, in RestartDaemon) (Restarted, error)
	DaemonReload(ctx context.Context, in None) (Reloaded, error)
	Status(ctx context.Context, in None) (Status, error)
	Health(ctx context.Context, in HealthQuery) (Health, error)
	Processes(ctx context.Context, in ProcessQuery) (ProcessPage, error)

	ConfigFiles(ctx context.Context, in ConfigQuery) (ConfigFiles, error)
	InspectConfig(ctx context.Context, in ConfigQuery) (ConfigReport, error)

	Agents(ctx context.Context, in ConfigQuery) (Agents, error)
	SetAgent(ctx context.Context, in SetAgent) (Agent, error)
	RunAudit(ctx context.Context, in RunAudit) (Audit, error)
	// Events gives each event to emit, in order, and returns at the end of the log, or with Follow when ctx ends.
	Events(ctx context.Context, in EventsQuery, emit func(event.Event) error) error
	VerifyEvents(ctx context.Context, in VerifyEvents) (Verified, error)
	Prune(ctx context.Context, in PruneData) (PrunedData, error)
	Plans(ctx context.Context, in PlansQuery) (PlanPage, error)
	Plan(ctx context.Context, in PlanRef) (PlanView, error)
	ApplyPlan(ctx context.Context, in ApplyPlan) (PlanOutcome, error)
	ApplyPlans(ctx context.Context, in ApplyPlans) (PlansOutcome, error)
	Approvals(ctx context.Context, in ApprovalsQuery) (ApprovalPage, error)
	Approval(ctx context.Context, in ApprovalRef) (ApprovalView, error)
	Decide(ctx context.Context, in Decide) (ApprovalView, error)
	Receipts(ctx context.Context, in ReceiptsQuery) (ReceiptPage, error)
	RollBack(ctx context.Context, in RollBack) (PlanView, error)
	InstallService(ctx context.Context, in InstallService) (PlanView, error)

	Tokens(ctx context.Context, in TokensQuery) (TokenPage, error)
	IssueToken(ctx context.Context, in IssueToken) (TokenChange, error)
	RotateToken(ctx context.Context, in TokenRef) (TokenChange, error)
	RevokeToken(ctx context.Context, in TokenRef) (TokenChange, error)

	Remote(ctx context.Context, in None) (Remote, error)
	TurnRemoteOn(ctx context.Context, in RemoteOn) (Remote, error)
	TurnRemoteOff(ctx context.Context, in None) (RemoteOff, error)
	RemoteRequests(ctx context.Context, in None) (RemoteRequestPage, error)
	ApproveRemote(ctx context.Context, in ApproveRemote) (RemoteDecision, error)
	DenyRemote(ctx context.Context, in RemoteRequestRef) (RemoteDecision, error)
	RemoteClients(ctx context.Context, in RemoteClientsQuery) (RemoteClientPage, error)
	RevokeRemote(ctx context.Context, in RemoteClientRef) (RemoteClientChange, error)

	// What surrounds the tools of /mcp, see runtime.go.
	Projects(ctx context.Context, in ProjectsQuery) (ProjectPage, error)
	Project(ctx context.Context, in ProjectRef) (Project, error)
	AddProject(ctx context.Context, in AddProject) (ProjectChange, error)
	RemoveProject(ctx context.Context, in ProjectRef) (ProjectChange, error)
	RebindProject(ctx context.Context, in RebindProject) (ProjectChange, error)
	ProjectTrust(ctx context.Context, in ProjectRef) (ProjectTrust, error)
	TrustProject(ctx context.Context, in TrustProject) (ProjectTrust, error)
	GrantProject(ctx context.Context, in GrantProject) (Granted, error)
	RemoteSessions(ctx context.Context, in RemoteSessionsQuery) (RemoteSessionPage, error)
	RemoteSession(ctx context.Context, in RemoteSessionRef) (RemoteSession, error)
	GrantSession(ctx context.Context, in GrantSession) (Granted, error)
	HandOver(ctx context.Context, in HandOver) (HandedOver, error)
	CloseSession(ctx context.Context, in RemoteSessionRef) (RemoteSessionChange, error)
	Operations(ctx context.Context, in OperationsQuery) (OperationPage, error)
	Operation(ctx context.Context, in OperationRef) (OperationView, error)
	ResolveOperation(ctx context.Context, in ResolveOperation) (OperationView, error)
	Jobs(ctx context.Context, in JobsQuery) (JobPage, error)
	Job(ctx context.Context, in JobRef) (JobView, error)
	JobLogs(ctx context.Context, in JobLogsQuery, emit func(JobChunk) error) error
	StopJob(ctx context.Context, in StopJob) (JobStopped, error)
	Workspaces(ctx context.Context, in WorkspacesQuery) (WorkspacePage, error)
	Workspace(ctx context.Context, in WorkspaceRef) (WorkspaceView, error)
	WorkspaceDiff(ctx context.Context, in WorkspaceDiffQuery) (WorkspaceDiff, error)
	PlanIntegration(ctx context.Context, in PlanIntegration) (IntegrationOutcome, error)
	CreateWorkspace(ctx context.Context, in CreateWorkspace) (WorkspaceChanged, error)
	IntegrateWorkspace(ctx context.Context, in IntegrateWorkspace) (IntegrationOutcome, error)
	UndoIntegration(ctx context.Context, in UndoIntegration) (IntegrationOutcome, error)
	SuspendWorkspace(ctx context.Context, in SuspendWorkspace) (WorkspaceChanged, error)
	ResumeWorkspace(ctx context.Context, in WorkspaceRef) (WorkspaceChanged, error)
	RemoveWorkspace(ctx context.Context, in WorkspaceRef) (WorkspaceChanged, error)
	Generations(ctx context.Context, in GenerationsQuery) (GenerationPage, error)
	Generation(ctx context.Context, in GenerationRef) (GenerationView, error)
	VerifyGeneration(ctx context.Context, in GenerationRef, emit func(GenerationCheck) error) error
	ProduceGeneration(ctx context.Context, in ProduceGeneration) (GenerationStarted, error)
	ConsumeGeneration(ctx context.Context, in ConsumeGeneration) (GenerationStarted, error)
	RetainGeneration(ctx context.Context, in GenerationRef) (GenerationChanged, error)
	ReleaseGeneration(ctx context.Context, in GenerationRef) (GenerationChanged, error)

	AuthCapabilities(ctx context.Context, in None) (AuthCapabilities, error)
	InstallControl(ctx context.Context, in InstallControl) (ControlInstall, error)
	MountServer(ctx context.Context, in MountServer) (Mounted, error)

	Profiles(ctx context.Context, in None) (ProfilePage, error)
	Profile(ctx context.Context, in ProfileRef) (Profile, error)
	SetProfile(ctx context.Context, in SetProfile) (ProfileChange, error)

	// What an agent may read, see hub.go.
	CheckAgents(ctx context.Context, in ChecksQuery) (Checks, error)
	HubStatus(ctx context.Context, in HubQuery) (HubStatus, error)
	HubPlans(ctx context.Context, in HubPlansQuery) (HubPlans, error)
	HubPlan(ctx context.Context, in HubPlanRef) (HubPlanView, error)
	HubEntry(ctx context.Context, in HubEntryQuery) (HubEntry, error)
	HubRuntime(ctx context.Context, in HubRuntimeQuery) (HubRuntime, error)
	HubCredentials(ctx context.Context, in HubQuery) (HubCredentials, error)
	HubCatalog(ctx context.Context, in HubCatalogQuery) (HubCatalog, error)

	KeepCertificate(ctx context.Context, in KeepCertificate) (KeptCertificate, error)
	RecordCutover(ctx context.Context, in RecordCutover) (Cutover, error)

	Servers(ctx context.Context, in ServersQuery) (ServerPage, error)
	Server(ctx context.Context, in ServerRef) (Server, error)
	AddServer(ctx context.Context, in AddServer) (Server, error)
	EditServer(ctx context.Context, in EditServer) (Server, error)
	RemoveServer(ctx context.Context, in ServerRef) (Done, error)
	EnableServer(ctx context.Context, in ServerRef) (Done, error)
	DisableServer(ctx context.Context, in ServerRef) (Done, error)
	RestartServer(ctx context.Context, in ServerRef) (Done, error)
	ImportServers(ctx context.Context, in ImportServers) (ImportReport, error)
	// LogIn gives a line with the address for the browser, and one that says how it ended.
	LogIn(ctx context.Context, in LogIn, emit func(LogInStep) error) error
	LogOut(ctx context.Context, in ServerRef) (Done, error)

	Catalog(ctx context.Context, in CatalogQuery) (CatalogPage, error)
	CatalogServer(ctx context.Context, in ServerRef) (CatalogEntry, error)
	Candidates(ctx context.Context, in CandidatesQuery) (CandidatePage, error)
	Review(ctx context.Context, in Review) (Reviewed, error)
	LinkEntry(ctx context.Context, in LinkEntry) (Linked, error)
	ExportCatalog(ctx context.Context, in ExportQuery) (Export, error)
	ReviewTools(ctx context.Context, in ServerRef) (ToolsReview, error)
	AcceptTools(ctx context.Context, in AcceptTools) (ToolsReview, error)

	Credentials(ctx context.Context, in CredentialQuery) (CredentialPage, error)
	Credential(ctx context.Context, in CredentialRef) (Credential, error)
	SetCredential(ctx context.Context, in SetCredential) (Credential, error)
	CheckCredentials(ctx context.Context, in CheckCredentials) (CredentialPage, error)
	BindCredentials(ctx context.Context, in BindCredentials) (Server, error)
	GrantCredential(ctx context.Context, in GrantCredential) (Credential, error)
	RemoveCredential(ctx context.Context, in CredentialRef) (CredentialRemoved, error)

	// ServerLogs gives each line to emit and returns at the end of the log, or with Follow when ctx ends. An error of
	// emit ends it and is returned.
	ServerLogs(ctx context.Context, in LogsQuery, emit func(LogLine) error) error
	ServerTools(ctx context.Context, in ServerRef) (ToolPage, error)
	CallTool(ctx context.Context, in CallTool) (ToolResult, error)
}

// Principal is who asks, as the edge proved it.
type Principal struct {
	Name string // "owner" for the user who owns the daemon
	// Agent is the agent that proved itself with its token and acts for that user; "" the user asks.
	Agent string
}

// Owner is the user who owns the daemon: proved by the peer credentials of the unix socket.
var Owner = Principal{Name: "owner"}

type contextKey int

const (
	principalKey contextKey = iota
	operationKey
	callerKey
)

// As returns a context that carries the principal.
func As(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey, p)
}

// PrincipalOf gives the principal of a request; false means that nobody proved who asks.
func PrincipalOf(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey).(Principal)
	return p, ok
}

// Under returns a context that carries an operation id.
func Under(ctx context.Context, operation string) context.Context {
	return context.WithValue(ctx, operationKey, operation)
}

// OperationOf gives the operation id of a request, "" without one.
func OperationOf(ctx context.Context) string {
	id, _ := ctx.Value(operationKey).(string)
	return id
}

// Caller is the process at the other end of the socket.
type Caller struct {
	Pid     int    // by the word of the kernel at the time of connect; 0: not known
	Client  string // program, as it calls itself
	Channel string // how it asks; "" is cli
}

// CalledBy returns a context that carries the caller.
func CalledBy(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey, c)
}

// CallerOf gives the caller of a request, the zero Caller when nobody knows.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey).(Caller)
	return c
}
