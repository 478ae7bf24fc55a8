package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"mcpx/internal/event"
	"mcpx/internal/fault"
)

// Client is the Service of a daemon, reached over its unix socket.
type Client struct {
	http   *http.Client
	socket string
}

var _ Service = (*Client)(nil)

// NewClient makes a client for the daemon that listens on the socket. It connects with the first call.
func NewClient(socket string) *Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		DisableKeepAlives: true, // one command, one call: nothing to reuse, nothing to leak
	}
	return &Client{http: &http.Client{Transport: transport}, socket: socket}
}

// DaemonStatus describes the running daemon.
func (c *Client) DaemonStatus(ctx context.Context, in None) (Daemon, error) {
	return call[Daemon](ctx, c, "daemon.status", in)
}

// DaemonRestart lets another process take the place of the daemon. It returns when that one serves.
func (c *Client) DaemonRestart(ctx context.Context, in RestartDaemon) (Restarted, error) {
	return call[Restarted](ctx, c, "daemon.restart", in)
}

// DaemonReload makes the daemon read settings and catalog again.
func (c *Client) DaemonReload(ctx context.Context, in None) (Reloaded, error) {
	return call[Reloaded](ctx, c, "daemon.reload", in)
}

// DaemonStop ends the daemon. It returns when the process has ended or ctx is done.
func (c *Client) DaemonStop(ctx context.Context, in StopDaemon) (Stopping, error) {
	response, err := c.send(ctx, "daemon.stop", in)
	if err != nil {
		return Stopping{}, err
	}
	defer response.Body.Close()
	d := json.NewDecoder(io.LimitReader(response.Body, MaxBody))
	var out Stopping
	if err := d.Decode(&out); err != nil {
		return Stopping{}, c.broken(err)
	}
	// The daemon keeps the connection open: whatever ends it, the process that held it is gone.
	_, _ = io.Copy(io.Discard, response.Body)
	if err := context.Cause(ctx); err != nil {
		return out, fault.New(fault.Unavailable, "stop-slow").Saying("the daemon (pid %d) is still stopping", out.Pid).
			Hinting("look at it with `mcpx daemon status`, or end it with `kill -KILL %d`", out.Pid).Because(err)
	}
	return out, nil
}

// Status gives the overview.
func (c *Client) Status(ctx context.Context, in None) (Status, error) {
	return call[Status](ctx, c, "status.show", in)
}

// Health gives the findings.
func (c *Client) Health(ctx context.Context, in HealthQuery) (Health, error) {
	return call[Health](ctx, c, "health.show", in)
}

// Processes gives the table of processes.
func (c *Client) Processes(ctx context.Context, in ProcessQuery) (ProcessPage, error) {
	return call[ProcessPage](ctx, c, "process.list", in)
}

// ConfigFiles lists the configuration files of agents.
func (c *Client) ConfigFiles(ctx context.Context, in ConfigQuery) (ConfigFiles, error) {
	return call[ConfigFiles](ctx, c, "config.discover", in)
}

// InspectConfig compares the configuration of agents with the catalog.
func (c *Client) InspectConfig(ctx context.Context, in ConfigQuery) (ConfigReport, error) {
	return call[ConfigReport](ctx, c, "config.inspect", in)
}

// Agents lists the coding agents.
func (c *Client) Agents(ctx context.Context, in ConfigQuery) (Agents, error) {
	return call[Agents](ctx, c, "agent.list", in)
}

// SetAgent says how far mcpx goes with an agent.
func (c *Client) SetAgent(ctx context.Context, in SetAgent) (Agent, error) {
	return call[Agent](ctx, c, "agent.set", in)
}

// RunAudit looks at the files of agents and makes plans.
func (c *Client) RunAudit(ctx context.Context, in RunAudit) (Audit, error) {
	return call[Audit](ctx, c, "audit.run", in)
}

// Events streams events of the log.
func (c *Client) Events(ctx context.Context, in EventsQuery, emit func(event.Event) error) error {
	return lines(ctx, c, "audit.list", in, emit)
}

// VerifyEvents says whether log and backups are whole.
func (c *Client) VerifyEvents(ctx context.Context, in VerifyEvents) (Verified, error) {
	return call[Verified](ctx, c, "audit.verify", in)
}

// Prune removes old data.
func (c *Client) Prune(ctx context.Context, in PruneData) (PrunedData, error) {
	return call[PrunedData](ctx, c, "audit.prune", in)
}

// Plans lists plans.
func (c *Client) Plans(ctx context.Context, in PlansQuery) (PlanPage, error) {
	return call[PlanPage](ctx, c, "plan.list", in)
}

// Plan gives one plan.
func (c *Client) Plan(ctx context.Context, in PlanRef) (PlanView, error) {
	return call[PlanView](ctx, c, "plan.show", in)
}

// ApplyPlan carries a plan out.
func (c *Client) ApplyPlan(ctx context.Context, in ApplyPlan) (PlanOutcome, error) {
	return call[PlanOutcome](ctx, c, "plan.apply", in)
}

// ApplyPlans carries several plans out.
func (c *Client) ApplyPlans(ctx context.Context, in ApplyPlans) (PlansOutcome, error) {
	return call[PlansOutcome](ctx, c, "plans.apply", in)
}

// Approvals lists approvals.
func (c *Client) Approvals(ctx context.Context, in ApprovalsQuery) (ApprovalPage, error) {
	return call[ApprovalPage](ctx, c, "approval.list", in)
}

// Approval gives one approval.
func (c *Client) Approval(ctx context.Context, in ApprovalRef) (ApprovalView, error) {
	return call[ApprovalView](ctx, c, "approval.show", in)
}

// Decide records the yes or no of a person.
func (c *Client) Decide(ctx context.Context, in Decide) (ApprovalView, error) {
	return call[ApprovalView](ctx, c, "approval.decide", in)
}

// Receipts lists receipts.
func (c *Client) Receipts(ctx context.Context, in ReceiptsQuery) (ReceiptPage, error) {
	return call[ReceiptPage](ctx, c, "receipt.list", in)
}

// RollBack makes the plan that takes a receipt back.
func (c *Client) RollBack(ctx context.Context, in RollBack) (PlanView, error) {
	return call[PlanView](ctx, c, "receipt.rollback", in)
}

// InstallService calls service.install.
func (c *Client) InstallService(ctx context.Context, in InstallService) (PlanView, error) {
	return call[PlanView](ctx, c, "service.install", in)
}

// Projects lists projects.
func (c *Client) Projects(ctx context.Context, in ProjectsQuery) (ProjectPage, error) {
	return call[ProjectPage](ctx, c, "project.list", in)
}

// Project gives one project.
func (c *Client) Project(ctx context.Context, in ProjectRef) (Project, error) {
	return call[Project](ctx, c, "project.show", in)
}

// AddProject registers a directory.
func (c *Client) AddProject(ctx context.Context, in AddProject) (ProjectChange, error) {
	return call[ProjectChange](ctx, c, "project.add", in)
}

// RemoveProject unregisters a directory.
func (c *Client) RemoveProject(ctx context.Context, in ProjectRef) (ProjectChange, error) {
	return call[ProjectChange](ctx, c, "project.remove", in)
}

// ProjectTrust gives what the repository of a project can start, and what a person agreed to of it.
func (c *Client) ProjectTrust(ctx context.Context, in ProjectRef) (ProjectTrust, error) {
	return call[ProjectTrust](ctx, c, "trust.show", in)
}

// TrustProject records that a person trusts the repository of a project, or does so no more.
func (c *Client) TrustProject(ctx context.Context, in TrustProject) (ProjectTrust, error) {
	return call[ProjectTrust](ctx, c, "trust.decide", in)
}

// RebindProject says which directory a project is from now on.
func (c *Client) RebindProject(ctx context.Context, in RebindProject) (ProjectChange, error) {
	return call[ProjectChange](ctx, c, "project.rebind", in)
}

// GrantProject gives somebody a role on a project, or takes it away.
func (c *Client) GrantProject(ctx context.Context, in GrantProject) (Granted, error) {
	return call[Granted](ctx, c, "project.grant", in)
}

// RemoteSessions lists remote sessions.
func (c *Client) RemoteSessions(ctx context.Context, in RemoteSessionsQuery) (RemoteSessionPage, error) {
	return call[RemoteSessionPage](ctx, c, "session.list", in)
}

// RemoteSession gives one remote session.
func (c *Client) RemoteSession(ctx context.Context, in RemoteSessionRef) (RemoteSession, error) {
	return call[RemoteSession](ctx, c, "session.show", in)
}

// GrantSession gives somebody a role in a remote session, or takes it away.
func (c *Client) GrantSession(ctx context.Context, in GrantSession) (Granted, error) {
	return call[Granted](ctx, c, "session.grant", in)
}

// HandOver makes a token that lets somebody into a remote session once.
func (c *Client) HandOver(ctx context.Context, in HandOver) (HandedOver, error) {
	return call[HandedOver](ctx, c, "session.handoff", in)
}

// CloseSession closes a remote session.
func (c *Client) CloseSession(ctx context.Context, in RemoteSessionRef) (RemoteSessionChange, error) {
	return call[RemoteSessionChange](ctx, c, "session.close", in)
}

// Operations lists operations at /mcp.
func (c *Client) Operations(ctx context.Context, in OperationsQuery) (OperationPage, error) {
	return call[OperationPage](ctx, c, "operation.list", in)
}

// Operation shows one operation at /mcp.
func (c *Client) Operation(ctx context.Context, in OperationRef) (OperationView, error) {
	return call[OperationView](ctx, c, "operation.show", in)
}

// ResolveOperation writes down how an operation ended whose outcome nobody knew.
func (c *Client) ResolveOperation(ctx context.Context, in ResolveOperation) (OperationView, error) {
	return call[OperationView](ctx, c, "operation.resolve", in)
}

// Jobs lists jobs.
func (c *Client) Jobs(ctx context.Context, in JobsQuery) (JobPage, error) {
	return call[JobPage](ctx, c, "job.list", in)
}

// Job shows one job.
func (c *Client) Job(ctx context.Context, in JobRef) (JobView, error) {
	return call[JobView](ctx, c, "job.show", in)
}

// JobLogs streams what a job wrote.
func (c *Client) JobLogs(ctx context.Context, in JobLogsQuery, emit func(JobChunk) error) error {
	return lines(ctx, c, "job.logs", in, emit)
}

// StopJob ends a job.
func (c *Client) StopJob(ctx context.Context, in StopJob) (JobStopped, error) {
	return call[JobStopped](ctx, c, "job.stop", in)
}

// Workspaces lists workspaces.
func (c *Client) Workspaces(ctx context.Context, in WorkspacesQuery) (WorkspacePage, error) {
	return call[WorkspacePage](ctx, c, "workspace.list", in)
}

// Workspace shows one workspace.
func (c *Client) Workspace(ctx context.Context, in WorkspaceRef) (WorkspaceView, error) {
	return call[WorkspaceView](ctx, c, "workspace.show", in)
}

// WorkspaceDiff shows what was done in a workspace.
func (c *Client) WorkspaceDiff(ctx context.Context, in WorkspaceDiffQuery) (WorkspaceDiff, error) {
	return call[WorkspaceDiff](ctx, c, "workspace.diff", in)
}

// PlanIntegration says what an integration would do.
func (c *Client) PlanIntegration(ctx context.Context, in PlanIntegration) (IntegrationOutcome, error) {
	return call[IntegrationOutcome](ctx, c, "workspace.plan", in)
}

// CreateWorkspace makes a workspace.
func (c *Client) CreateWorkspace(ctx context.Context, in CreateWorkspace) (WorkspaceChanged, error) {
	return call[WorkspaceChanged](ctx, c, "workspace.create", in)
}

// IntegrateWorkspace brings the changes of a workspace into its project.
func (c *Client) IntegrateWorkspace(ctx context.Context, in IntegrateWorkspace) (IntegrationOutcome, error) {
	return call[IntegrationOutcome](ctx, c, "workspace.integrate", in)
}

// UndoIntegration takes back what a workspace brought into its project last.
func (c *Client) UndoIntegration(ctx context.Context, in UndoIntegration) (IntegrationOutcome, error) {
	return call[IntegrationOutcome](ctx, c, "workspace.undo", in)
}

// SuspendWorkspace puts a workspace aside.
func (c *Client) SuspendWorkspace(ctx context.Context, in SuspendWorkspace) (WorkspaceChanged, error) {
	return call[WorkspaceChanged](ctx, c, "workspace.suspend", in)
}

// ResumeWorkspace goes on with a workspace.
func (c *Client) ResumeWorkspace(ctx context.Context, in WorkspaceRef) (WorkspaceChanged, error) {
	return call[WorkspaceChanged](ctx, c, "workspace.resume", in)
}

// RemoveWorkspace removes a workspace.
func (c *Client) RemoveWorkspace(ctx context.Context, in WorkspaceRef) (WorkspaceChanged, error) {
	return call[WorkspaceChanged](ctx, c, "workspace.remove", in)
}

// Generations lists builds and candidates.
func (c *Client) Generations(ctx context.Context, in GenerationsQuery) (GenerationPage, error) {
	return call[GenerationPage](ctx, c, "generation.list", in)
}

// Generation shows one build or candidate.
func (c *Client) Generation(ctx context.Context, in GenerationRef) (GenerationView, error) {
	return call[GenerationView](ctx, c, "generation.show", in)
}

// VerifyGeneration reads a whole build, and tells how far it has come.
func (c *Client) VerifyGeneration(ctx context.Context, in GenerationRef, emit func(GenerationCheck) error) error {
	return lines(ctx, c, "generation.verify", in, emit)
}

// ProduceGeneration starts a producer.
func (c *Client) ProduceGeneration(ctx context.Context, in ProduceGeneration) (GenerationStarted, error) {
	return call[GenerationStarted](ctx, c, "generation.produce", in)
}

// ConsumeGeneration starts a consumer.
func (c *Client) ConsumeGeneration(ctx context.Context, in ConsumeGeneration) (GenerationStarted, error) {
	return call[GenerationStarted](ctx, c, "generation.consume", in)
}

// RetainGeneration keeps a build.
func (c *Client) RetainGeneration(ctx context.Context, in GenerationRef) (GenerationChanged, error) {
	return call[GenerationChanged](ctx, c, "generation.retain", in)
}

// ReleaseGeneration gives up the bytes of a build.
func (c *Client) ReleaseGeneration(ctx context.Context, in GenerationRef) (GenerationChanged, error) {
	return call[GenerationChanged](ctx, c, "generation.release", in)
}

// Tokens lists tokens.
func (c *Client) Tokens(ctx context.Context, in TokensQuery) (TokenPage, error) {
	return call[TokenPage](ctx, c, "token.list", in)
}

// Remote says whether clients on other machines reach this one.
func (c *Client) Remote(ctx context.Context, in None) (Remote, error) {
	return call[Remote](ctx, c, "remote.show", in)
}

// TurnRemoteOn lets clients on other machines ask for access.
func (c *Client) TurnRemoteOn(ctx context.Context, in RemoteOn) (Remote, error) {
	return call[Remote](ctx, c, "remote.on", in)
}

// TurnRemoteOff ends the access of every client.
func (c *Client) TurnRemoteOff(ctx context.Context, in None) (RemoteOff, error) {
	return call[RemoteOff](ctx, c, "remote.off", in)
}

// RemoteRequests lists clients that ask for access.
func (c *Client) RemoteRequests(ctx context.Context, in None) (RemoteRequestPage, error) {
	return call[RemoteRequestPage](ctx, c, "remote.requests", in)
}

// ApproveRemote says yes to a client.
func (c *Client) ApproveRemote(ctx context.Context, in ApproveRemote) (RemoteDecision, error) {
	return call[RemoteDecision](ctx, c, "remote.approve", in)
}

// DenyRemote says no to a client.
func (c *Client) DenyRemote(ctx context.Context, in RemoteRequestRef) (RemoteDecision, error) {
	return call[RemoteDecision](ctx, c, "remote.deny", in)
}

// RemoteClients lists clients that have access.
func (c *Client) RemoteClients(ctx context.Context, in RemoteClientsQuery) (RemoteClientPage, error) {
	return call[RemoteClientPage](ctx, c, "remote.list", in)
}

// RevokeRemote ends the access of a client.
func (c *Client) RevokeRemote(ctx context.Context, in RemoteClientRef) (RemoteClientChange, error) {
	return call[RemoteClientChange](ctx, c, "remote.revoke", in)
}

// IssueToken makes the token of an agent.
func (c *Client) IssueToken(ctx context.Context, in IssueToken) (TokenChange, error) {
	return call[TokenChange](ctx, c, "token.issue", in)
}

// RotateToken puts another token in the place of one.
func (c *Client) RotateToken(ctx context.Context, in TokenRef) (TokenChange, error) {
	return call[TokenChange](ctx, c, "token.rotate", in)
}

// RevokeToken ends a token.
func (c *Client) RevokeToken(ctx context.Context, in TokenRef) (TokenChange, error) {
	return call[TokenChange](ctx, c, "token.revoke", in)
}

// CheckAgents says how agents do.
func (c *Client) CheckAgents(ctx context.Context, in ChecksQuery) (Checks, error) {
	return call[Checks](ctx, c, "agent.check", in)
}

// HubStatus gives the state of mcpx for one agent.
func (c *Client) HubStatus(ctx context.Context, in HubQuery) (HubStatus, error) {
	return call[HubStatus](ctx, c, "hub.status", in)
}

// HubPlans lists plans of one agent.
func (c *Client) HubPlans(ctx context.Context, in HubPlansQuery) (HubPlans, error) {
	return call[HubPlans](ctx, c, "hub.plans", in)
}

// HubPlan gives one plan of an agent.
func (c *Client) HubPlan(ctx context.Context, in HubPlanRef) (HubPlanView, error) {
	return call[HubPlanView](ctx, c, "hub.plan", in)
}

// HubEntry says how an agent reaches a server.
func (c *Client) HubEntry(ctx context.Context, in HubEntryQuery) (HubEntry, error) {
	return call[HubEntry](ctx, c, "hub.entry", in)
}

// HubRuntime says what runs for one agent.
func (c *Client) HubRuntime(ctx context.Context, in HubRuntimeQuery) (HubRuntime, error) {
	return call[HubRuntime](ctx, c, "hub.runtime", in)
}

// HubCredentials says which credentials the servers of an agent need.
func (c *Client) HubCredentials(ctx context.Context, in HubQuery) (HubCredentials, error) {
	return call[HubCredentials](ctx, c, "hub.credentials", in)
}

// HubCatalog searches the catalog for one agent.
func (c *Client) HubCatalog(ctx context.Context, in HubCatalogQuery) (HubCatalog, error) {
	return call[HubCatalog](ctx, c, "hub.catalog", in)
}

// AuthCapabilities says how agents can send their token.
func (c *Client) AuthCapabilities(ctx context.Context, in None) (AuthCapabilities, error) {
	return call[AuthCapabilities](ctx, c, "agent.capabilities", in)
}

// InstallControl makes the plan that gives an agent the control plane.
func (c *Client) InstallControl(ctx context.Context, in InstallControl) (ControlInstall, error) {
	return call[ControlInstall](ctx, c, "agent.control", in)
}

// MountServer says that an agent shall have a server, or not any more.
func (c *Client) MountServer(ctx context.Context, in MountServer) (Mounted, error) {
	return call[Mounted](ctx, c, "agent.mount", in)
}

// KeepCertificate lets the certificate of a run count.
func (c *Client) KeepCertificate(ctx context.Context, in KeepCertificate) (KeptCertificate, error) {
	return call[KeptCertificate](ctx, c, "agent.certify", in)
}

// RecordCutover calls cutover.record.
func (c *Client) RecordCutover(ctx context.Context, in RecordCutover) (Cutover, error) {
	return call[Cutover](ctx, c, "cutover.record", in)
}

// Servers lists the servers.
func (c *Client) Servers(ctx context.Context, in ServersQuery) (ServerPage, error) {
	return call[ServerPage](ctx, c, "server.list", in)
}

// Server gives one server.
func (c *Client) Server(ctx context.Context, in ServerRef) (Server, error) {
	return call[Server](ctx, c, "server.show", in)
}

// AddServer adds a server.
func (c *Client) AddServer(ctx context.Context, in AddServer) (Server, error) {
	return call[Server](ctx, c, "server.add", in)
}

// EditServer changes a server.
func (c *Client) EditServer(ctx context.Context, in EditServer) (Server, error) {
	return call[Server](ctx, c, "server.edit", in)
}

// RemoveServer removes a server.
func (c *Client) RemoveServer(ctx context.Context, in ServerRef) (Done, error) {
	return call[Done](ctx, c, "server.remove", in)
}

// EnableServer routes a server again.
func (c *Client) EnableServer(ctx context.Context, in ServerRef) (Done, error) {
	return call[Done](ctx, c, "server.enable", in)
}

// DisableServer stops routing a server.
func (c *Client) DisableServer(ctx context.Context, in ServerRef) (Done, error) {
	return call[Done](ctx, c, "server.disable", in)
}

// RestartServer ends the processes of a server.
func (c *Client) RestartServer(ctx context.Context, in ServerRef) (Done, error) {
	return call[Done](ctx, c, "server.restart", in)
}

// ImportServers adds several servers.
func (c *Client) ImportServers(ctx context.Context, in ImportServers) (ImportReport, error) {
	return call[ImportReport](ctx, c, "server.import", in)
}

// Catalog lists entries of the catalog.
func (c *Client) Catalog(ctx context.Context, in CatalogQuery) (CatalogPage, error) {
	return call[CatalogPage](ctx, c, "catalog.list", in)
}

// Profiles lists the sets of servers.
func (c *Client) Profiles(ctx context.Context, in None) (ProfilePage, error) {
	return call[ProfilePage](ctx, c, "profile.list", in)
}

// Profile shows one of them.
func (c *Client) Profile(ctx context.Context, in ProfileRef) (Profile, error) {
	return call[Profile](ctx, c, "profile.show", in)
}

// SetProfile says which servers a profile has and which agents shall have them.
func (c *Client) SetProfile(ctx context.Context, in SetProfile) (ProfileChange, error) {
	return call[ProfileChange](ctx, c, "profile.set", in)
}

// CatalogServer shows one entry of the catalog.
func (c *Client) CatalogServer(ctx context.Context, in ServerRef) (CatalogEntry, error) {
	return call[CatalogEntry](ctx, c, "catalog.show", in)
}

// Candidates lists the servers that are not in the catalog.
func (c *Client) Candidates(ctx context.Context, in CandidatesQuery) (CandidatePage, error) {
	return call[CandidatePage](ctx, c, "catalog.candidates", in)
}

// Review carries out what a person decides.
func (c *Client) Review(ctx context.Context, in Review) (Reviewed, error) {
	return call[Reviewed](ctx, c, "catalog.review", in)
}

// LinkEntry remembers that an entry is a server.
func (c *Client) LinkEntry(ctx context.Context, in LinkEntry) (Linked, error) {
	return call[Linked](ctx, c, "catalog.link", in)
}

// ExportCatalog writes servers as a document.
func (c *Client) ExportCatalog(ctx context.Context, in ExportQuery) (Export, error) {
	return call[Export](ctx, c, "catalog.export", in)
}

// ReviewTools compares the tools of a server with its pins.
func (c *Client) ReviewTools(ctx context.Context, in ServerRef) (ToolsReview, error) {
	return call[ToolsReview](ctx, c, "catalog.tools", in)
}

// AcceptTools pins the tools of a server.
func (c *Client) AcceptTools(ctx context.Context, in AcceptTools) (ToolsReview, error) {
	return call[ToolsReview](ctx, c, "catalog.accept", in)
}

// ServerTools lists the tools of a server.
func (c *Client) ServerTools(ctx context.Context, in ServerRef) (ToolPage, error) {
	return call[ToolPage](ctx, c, "server.tools", in)
}

// CallTool calls a tool.
func (c *Client) CallTool(ctx context.Context, in CallTool) (ToolResult, error) {
	return call[ToolResult](ctx, c, "server.call", in)
}

// ServerLogs streams the log of a server.
func (c *Client) ServerLogs(ctx context.Context, in LogsQuery, emit func(LogLine) error) error {
	return lines(ctx, c, "server.logs", in, emit)
}

// lines reads the stream of one row.
func lines[Line any](ctx context.Context, c *Client, name string, in any, emit func(Line) error) error {
	response, err := c.send(ctx, name, in)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	stream := json.NewDecoder(bufio.NewReader(response.Body))
	for {
		var line StreamLine
		if err := stream.Decode(&line); err != nil {
			if ctx.Err() != nil {
				return nil // the caller has seen enough
			}
			return fault.New(fault.Unavailable, "stream-cut").Saying("the daemon went away before the end of the log").
				Hinting("look at it with `mcpx daemon status`").Retrying(fault.AfterWait).Because(err)
		}
		switch {
		case line.Error != nil:
			return line.Error.Fault()
		case line.End:
			return nil
		case line.Beat:
			continue
		}
		var out Line
		if err := json.Unmarshal(line.Line, &out); err != nil {
			return c.broken(err)
		}
		if err := emit(out); err != nil {
			return err
		}
	}
}

func call[Out any](ctx context.Context, c *Client, name string, in any) (Out, error) {
	var out Out
	response, err := c.send(ctx, name, in)
	if err != nil {
		return out, err
	}
	defer response.Body.Close()
	if err := json.NewDecoder(io.LimitReader(response.Body, MaxBody)).Decode(&out); err != nil {
		return out, c.broken(err)
	}
	return out, nil
}

// send makes the request of one row and returns the response when it is a success; the caller closes its body.
func (c *Client) send(ctx context.Context, name string, in any) (*http.Response, error) {
	op, ok := Find(name)
	if !ok {
		panic("api: no row " + name)
	}
	target, err := op.target(in)
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if op.Method == http.MethodPost || op.Method == http.MethodPatch {
		data, err := Marshal(in)
		if err != nil {
			return nil, fault.New(fault.Invalid, "request-invalid").Saying("the request cannot be written as JSON").Because(err)
		}
		body = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, op.Method, "http://mcpx"+target, body)
	if err != nil {
		return nil, fault.New(fault.Invalid, "request-invalid").Saying("the request cannot be made").Because(err)
	}
	request.Header.Set(HeaderLevel, strconv.Itoa(Level))
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if id := OperationOf(ctx); id != "" && op.Keyed {
		request.Header.Set(HeaderKey, id)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(ctx, op, err)
	}
	if response.StatusCode == http.StatusOK {
		return response, nil
	}
	defer response.Body.Close()
	return nil, c.refused(response)
}

// refused reads the error of an answer that is no success.
func (c *Client) refused(response *http.Response) error {
	data, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20)) // a short read gives the same "not understood" below
	var failure Failure
	if err := json.Unmarshal(data, &failure); err != nil || failure.Error.Code == "" {
		return c.broken(fmt.Errorf("status %s", response.Status))
	}
	err := failure.Error.Fault()
	if level, _ := strconv.Atoi(response.Header.Get(HeaderLevel)); level < Level && err.Code == "op-unknown" {
		err = err.Hinting("the daemon is older than this mcpx: run `mcpx daemon restart`")
	}
	return err
}

func (c *Client) unreachable(ctx context.Context, op Op, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fault.New(fault.Canceled, "canceled").Saying("canceled before the daemon had answered (%s)", lower(op.Short)).Because(cause)
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "dial" {
		return NotRunning(c.socket) // the text of a failed dial says nothing more
	}
	kind := fault.Unavailable
	if op.Keyed {
		kind = fault.UnknownOutcome // the request may have been carried out before the connection broke
	}
	return fault.New(kind, "daemon-gone").Saying("the daemon went away before it answered (%s)", lower(op.Short)).
		Hinting("look at it with `mcpx daemon status`, then look at the outcome before you repeat the command").Because(err)
}

// lower is the text of an operation inside of a sentence.
func lower(text string) string { return strings.ToLower(text[:1]) + text[1:] }

func (c *Client) broken(err error) error {
	return fault.New(fault.Internal, "answer-not-understood").Saying("the answer of the daemon on %s was not understood", c.socket).
		Hinting("is it another version? run `mcpx daemon restart`").Because(err)
}

// NotRunning is the error for a socket without a daemon.
func NotRunning(socket string) *fault.Error {
	return fault.New(fault.Unavailable, "daemon-down").Saying("no daemon is running (nothing listens on %s)", socket).
		Hinting("start it with `mcpx daemon start`").Retrying(fault.AfterFix)
}
