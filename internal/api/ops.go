package api

import "mcpx/internal/event"

// Need is the permission that an operation asks for.
type Need string

// The permissions. The person who owns the daemon has all of them.
const (
	Read   Need = "read"   // see state
	Use    Need = "use"    // make a server work: list or call its tools
	Change Need = "change" // change the catalog or the daemon
	// Judge is the permission to say yes or no for a person. No token of an agent has it.
	Judge Need = "approve"
)

// Op is one row of the table: one operation of the local API.
type Op struct {
	Name   string // noun.verb
	Method string // GET changes nothing
	Path   string // with {name} for the fields tagged path:"name"
	Need   Need
	In     any  // zero value of the request type
	Out    any  // zero value of the response type; for streams, of one line
	Keyed  bool // a mutation: carries Idempotency-Key
	Stream bool // NDJSON with an explicit end line
	Short  string
}

// Ops lists every operation of the local API.
var Ops = []Op{
	{Name: "daemon.status", Method: "GET", Path: "/v1/daemon", Need: Read, In: None{}, Out: Daemon{}, Short: "Describe the running daemon"},
	{Name: "daemon.stop", Method: "POST", Path: "/v1/daemon/stop", Need: Change, In: StopDaemon{}, Out: Stopping{}, Keyed: true, Short: "End the daemon; the connection stays open until it has ended"},
	{Name: "daemon.restart", Method: "POST", Path: "/v1/daemon/restart", Need: Change, In: RestartDaemon{}, Out: Restarted{}, Keyed: true, Short: "Let another process take the place of the daemon; no call fails"},
	{Name: "daemon.reload", Method: "POST", Path: "/v1/daemon/reload", Need: Change, In: None{}, Out: Reloaded{}, Keyed: true, Short: "Read settings and catalog again"},
	{Name: "status.show", Method: "GET", Path: "/v1/status", Need: Read, In: None{}, Out: Status{}, Short: "Overview: daemon, health, servers, counters"},
	{Name: "health.show", Method: "GET", Path: "/v1/health", Need: Read, In: HealthQuery{}, Out: Health{}, Short: "Findings from live state"},
	{Name: "process.list", Method: "GET", Path: "/v1/processes", Need: Read, In: ProcessQuery{}, Out: ProcessPage{}, Short: "Processes and upstream sessions of all servers"},
	{Name: "config.discover", Method: "GET", Path: "/v1/config/files", Need: Read, In: ConfigQuery{}, Out: ConfigFiles{}, Short: "Configuration files of the agents of this user"},
	{Name: "config.inspect", Method: "GET", Path: "/v1/config/entries", Need: Read, In: ConfigQuery{}, Out: ConfigReport{}, Short: "Servers in the configuration of agents, compared with the catalog"},
	{Name: "agent.list", Method: "GET", Path: "/v1/agents", Need: Read, In: ConfigQuery{}, Out: Agents{}, Short: "Coding agents, their files, and how far mcpx goes with each"},
	{Name: "agent.set", Method: "POST", Path: "/v1/agents/{agent}", Need: Judge, In: SetAgent{}, Out: Agent{}, Keyed: true, Short: "Say how far mcpx goes with an agent"},
	{Name: "audit.run", Method: "POST", Path: "/v1/audits", Need: Change, In: RunAudit{}, Out: Audit{}, Keyed: true, Short: "Look at the files of agents and make plans"},
	{Name: "audit.list", Method: "GET", Path: "/v1/events", Need: Read, In: EventsQuery{}, Out: event.Event{}, Stream: true, Short: "Events of the log"},
	{Name: "audit.verify", Method: "GET", Path: "/v1/events/verification", Need: Read, In: VerifyEvents{}, Out: Verified{}, Short: "Say whether the log and the backups are whole"},
	{Name: "audit.prune", Method: "POST", Path: "/v1/events/prune", Need: Change, In: PruneData{}, Out: PrunedData{}, Keyed: true, Short: "Remove data that are older than their period and that nobody needs"},
	{Name: "plan.list", Method: "GET", Path: "/v1/plans", Need: Read, In: PlansQuery{}, Out: PlanPage{}, Short: "Plans, the newest first"},
	{Name: "plan.show", Method: "GET", Path: "/v1/plans/{plan}", Need: Read, In: PlanRef{}, Out: PlanView{}, Short: "One plan whole: the diff, the reasons, what comes next"},
	{Name: "plan.apply", Method: "POST", Path: "/v1/plans/{plan}/apply", Need: Change, In: ApplyPlan{}, Out: PlanOutcome{}, Keyed: true, Short: "Carry a plan out, whole or not at all"},
	{Name: "plans.apply", Method: "POST", Path: "/v1/plans/apply", Need: Change, In: ApplyPlans{}, Out: PlansOutcome{}, Keyed: true, Short: "Carry several plans out, one after the other, each whole or not at all"},
	{Name: "approval.list", Method: "GET", Path: "/v1/approvals", Need: Read, In: ApprovalsQuery{}, Out: ApprovalPage{}, Short: "Questions to a person and what became of them"},
	{Name: "approval.show", Method: "GET", Path: "/v1/approvals/{approval}", Need: Read, In: ApprovalRef{}, Out: ApprovalView{}, Short: "One approval with what it is about"},
	{Name: "approval.decide", Method: "POST", Path: "/v1/approvals/{approval}/decision", Need: Judge, In: Decide{}, Out: ApprovalView{}, Keyed: true, Short: "Record the yes or no of a person"},
	{Name: "receipt.list", Method: "GET", Path: "/v1/receipts", Need: Read, In: ReceiptsQuery{}, Out: ReceiptPage{}, Short: "What was applied and rolled back, the newest first"},
	{Name: "service.install", Method: "POST", Path: "/v1/service", Need: Change, In: InstallService{}, Out: PlanView{}, Keyed: true, Short: "Make the plan that makes the daemon a service of its user, or takes that back"},
	{Name: "receipt.rollback", Method: "POST", Path: "/v1/receipts/{receipt}/rollback", Need: Change, In: RollBack{}, Out: PlanView{}, Keyed: true, Short: "Make the plan that takes a receipt back"},
	{Name: "remote.show", Method: "GET", Path: "/v1/remote", Need: Read, In: None{}, Out: Remote{}, Short: "Whether clients on other machines reach this one"},
	{Name: "remote.on", Method: "POST", Path: "/v1/remote/on", Need: Judge, In: RemoteOn{}, Out: Remote{}, Keyed: true, Short: "Let clients on other machines ask for access"},
	{Name: "remote.off", Method: "POST", Path: "/v1/remote/off", Need: Change, In: None{}, Out: RemoteOff{}, Keyed: true, Short: "End the access of every client, and close the listener"},
	{Name: "remote.requests", Method: "GET", Path: "/v1/remote/requests", Need: Read, In: None{}, Out: RemoteRequestPage{}, Short: "Clients that ask for access"},
	{Name: "remote.approve", Method: "POST", Path: "/v1/remote/requests/{request}/approve", Need: Judge, In: ApproveRemote{}, Out: RemoteDecision{}, Keyed: true, Short: "Say yes to a client: a code for the browser that asks"},
	{Name: "remote.deny", Method: "POST", Path: "/v1/remote/requests/{request}/deny", Need: Change, In: RemoteRequestRef{}, Out: RemoteDecision{}, Keyed: true, Short: "Say no to a client"},
	{Name: "remote.list", Method: "GET", Path: "/v1/remote/clients", Need: Read, In: RemoteClientsQuery{}, Out: RemoteClientPage{}, Short: "Clients that have access"},
	{Name: "remote.revoke", Method: "POST", Path: "/v1/remote/clients/{access}/revoke", Need: Change, In: RemoteClientRef{}, Out: RemoteClientChange{}, Keyed: true, Short: "End the access of a client at once"},
	{Name: "token.list", Method: "GET", Path: "/v1/tokens", Need: Read, In: TokensQuery{}, Out: TokenPage{}, Short: "Tokens of agents, without their values"},
	{Name: "token.issue", Method: "POST", Path: "/v1/tokens", Need: Change, In: IssueToken{}, Out: TokenChange{}, Keyed: true, Short: "Make the token of an agent; one that has a token keeps it"},
	{Name: "token.rotate", Method: "POST", Path: "/v1/tokens/{token}/rotate", Need: Change, In: TokenRef{}, Out: TokenChange{}, Keyed: true, Short: "Put another token in the place of one, which counts ten minutes more"},
	{Name: "token.revoke", Method: "POST", Path: "/v1/tokens/{token}/revoke", Need: Change, In: TokenRef{}, Out: TokenChange{}, Keyed: true, Short: "End a token at once"},
	{Name: "agent.check", Method: "GET", Path: "/v1/agents/checks", Need: Read, In: ChecksQuery{}, Out: Checks{}, Short: "Say how agents do: files, problems, control plane"},
	{Name: "agent.capabilities", Method: "GET", Path: "/v1/agents/capabilities", Need: Read, In: None{}, Out: AuthCapabilities{}, Short: "How each agent can send the token of mcp_hub"},
	{Name: "agent.control", Method: "POST", Path: "/v1/agents/{agent}/control-plane", Need: Change, In: InstallControl{}, Out: ControlInstall{}, Keyed: true, Short: "Make the plan that gives an agent the control plane"},
	{Name: "agent.mount", Method: "POST", Path: "/v1/agents/{agent}/mounts", Need: Change, In: MountServer{}, Out: Mounted{}, Keyed: true, Short: "Say that an agent shall have a server, or not any more"},
	{Name: "profile.list", Method: "GET", Path: "/v1/profiles", Need: Read, In: None{}, Out: ProfilePage{}, Short: "Sets of servers that agents can be given at once"},
	{Name: "profile.show", Method: "GET", Path: "/v1/profiles/{profile}", Need: Read, In: ProfileRef{}, Out: Profile{}, Short: "One profile: its servers, and the agents that shall have them"},
	{Name: "profile.set", Method: "POST", Path: "/v1/profiles/{profile}", Need: Change, In: SetProfile{}, Out: ProfileChange{}, Keyed: true, Short: "Say which servers a profile has and which agents shall have them, and make the plans"},
	{Name: "hub.status", Method: "GET", Path: "/v1/hub/{agent}/status", Need: Read, In: HubQuery{}, Out: HubStatus{}, Short: "The state of mcpx as far as it concerns one agent"},
	{Name: "hub.plans", Method: "GET", Path: "/v1/hub/{agent}/plans", Need: Read, In: HubPlansQuery{}, Out: HubPlans{}, Short: "Plans for one agent, the newest first"},
	{Name: "hub.plan", Method: "GET", Path: "/v1/hub/{agent}/plans/{plan}", Need: Read, In: HubPlanRef{}, Out: HubPlanView{}, Short: "One plan for an agent: the diff, the reasons, what a person does next"},
	{Name: "hub.entry", Method: "GET", Path: "/v1/hub/{agent}/entries/{server}", Need: Read, In: HubEntryQuery{}, Out: HubEntry{}, Short: "How an agent reaches a server through mcpx, as its file spells it"},
	{Name: "hub.runtime", Method: "GET", Path: "/v1/hub/{agent}/runtime", Need: Read, In: HubRuntimeQuery{}, Out: HubRuntime{}, Short: "What runs for one agent"},
	{Name: "hub.credentials", Method: "GET", Path: "/v1/hub/{agent}/credentials", Need: Read, In: HubQuery{}, Out: HubCredentials{}, Short: "Credentials that the servers of one agent need, without values"},
	{Name: "hub.catalog", Method: "GET", Path: "/v1/hub/{agent}/catalog", Need: Read, In: HubCatalogQuery{}, Out: HubCatalog{}, Short: "Search the catalog for one agent"},
	{Name: "agent.certify", Method: "POST", Path: "/v1/agents/{agent}/certificate", Need: Judge, In: KeepCertificate{}, Out: KeptCertificate{}, Keyed: true, Short: "Let the certificate of a run with a real client count"},
	{Name: "cutover.record", Method: "POST", Path: "/v1/cutovers/{from}", Need: Judge, In: RecordCutover{}, Out: Cutover{}, Keyed: true, Short: "Record that a person retires another hub"},
	{Name: "server.list", Method: "GET", Path: "/v1/servers", Need: Read, In: ServersQuery{}, Out: ServerPage{}, Short: "All servers, sorted by name"},
	{Name: "server.show", Method: "GET", Path: "/v1/servers/{server}", Need: Read, In: ServerRef{}, Out: Server{}, Short: "One server by name or alias"},
	{Name: "server.add", Method: "POST", Path: "/v1/servers", Need: Change, In: AddServer{}, Out: Server{}, Keyed: true, Short: "Add a server; a name that is taken is a conflict"},
	{Name: "server.edit", Method: "PATCH", Path: "/v1/servers/{server}", Need: Change, In: EditServer{}, Out: Server{}, Keyed: true, Short: "Change fields of a server"},
	{Name: "server.remove", Method: "DELETE", Path: "/v1/servers/{server}", Need: Change, In: ServerRef{}, Out: Done{}, Keyed: true, Short: "Remove a server and end its processes"},
	{Name: "server.enable", Method: "POST", Path: "/v1/servers/{server}/enable", Need: Change, In: ServerRef{}, Out: Done{}, Keyed: true, Short: "Route a server again"},
	{Name: "server.disable", Method: "POST", Path: "/v1/servers/{server}/disable", Need: Change, In: ServerRef{}, Out: Done{}, Keyed: true, Short: "Stop routing a server and end its processes"},
	{Name: "server.restart", Method: "POST", Path: "/v1/servers/{server}/restart", Need: Change, In: ServerRef{}, Out: Done{}, Keyed: true, Short: "End the processes of a server; the next call starts new ones"},
	{Name: "server.login", Method: "POST", Path: "/v1/servers/{server}/login", Need: Change, In: LogIn{}, Out: LogInStep{}, Keyed: true, Stream: true, Short: "Sign in at a server behind a URL (OAuth)"},
	{Name: "server.logout", Method: "POST", Path: "/v1/servers/{server}/logout", Need: Change, In: ServerRef{}, Out: Done{}, Keyed: true, Short: "Forget the sign-in at a server"},
	{Name: "server.import", Method: "POST", Path: "/v1/servers/import", Need: Change, In: ImportServers{}, Out: ImportReport{}, Keyed: true, Short: "Add several servers; what is there already is not touched"},
	{Name: "catalog.list", Method: "GET", Path: "/v1/catalog", Need: Read, In: CatalogQuery{}, Out: CatalogPage{}, Short: "Entries of the catalog as they are governed, without values"},
	{Name: "catalog.show", Method: "GET", Path: "/v1/catalog/{server}/entry", Need: Read, In: ServerRef{}, Out: CatalogEntry{}, Short: "One entry of the catalog as it is governed, without values"},
	{Name: "catalog.candidates", Method: "GET", Path: "/v1/catalog/candidates", Need: Read, In: CandidatesQuery{}, Out: CandidatePage{}, Short: "Servers that were seen and are not in the catalog"},
	{Name: "catalog.review", Method: "POST", Path: "/v1/catalog/review", Need: Change, In: Review{}, Out: Reviewed{}, Keyed: true, Short: "Carry out what a person decides about a candidate or a server"},
	{Name: "catalog.link", Method: "POST", Path: "/v1/catalog/links", Need: Change, In: LinkEntry{}, Out: Linked{}, Keyed: true, Short: "Remember that an entry of an agent's file is a server"},
	{Name: "catalog.export", Method: "GET", Path: "/v1/catalog/export", Need: Read, In: ExportQuery{}, Out: Export{}, Short: "Write servers as a document, without values"},
	{Name: "catalog.tools", Method: "GET", Path: "/v1/catalog/{server}/tools", Need: Use, In: ServerRef{}, Out: ToolsReview{}, Short: "Compare the tools of a server with those that a person has agreed to; starts it when needed"},
	{Name: "catalog.accept", Method: "POST", Path: "/v1/catalog/{server}/tools", Need: Change, In: AcceptTools{}, Out: ToolsReview{}, Keyed: true, Short: "Agree to the tools that a server offers now"},
	{Name: "credential.list", Method: "GET", Path: "/v1/credentials", Need: Read, In: CredentialQuery{}, Out: CredentialPage{}, Short: "All credentials by name, never a value"},
	{Name: "credential.show", Method: "GET", Path: "/v1/credentials/{credential}", Need: Read, In: CredentialRef{}, Out: Credential{}, Short: "One credential, never its value"},
	{Name: "credential.set", Method: "POST", Path: "/v1/credentials", Need: Change, In: SetCredential{}, Out: Credential{}, Keyed: true, Short: "Give a credential a reference, or a value in the encrypted store"},
	{Name: "credential.check", Method: "POST", Path: "/v1/credentials/check", Need: Change, In: CheckCredentials{}, Out: CredentialPage{}, Keyed: true, Short: "Look whether credentials would give a value; nobody is asked"},
	{Name: "credential.bind", Method: "POST", Path: "/v1/servers/{server}/bindings", Need: Change, In: BindCredentials{}, Out: Server{}, Keyed: true, Short: "Let variables or headers of a server take their values from credentials"},
	{Name: "credential.grant", Method: "POST", Path: "/v1/credentials/{credential}/grant", Need: Change, In: GrantCredential{}, Out: Credential{}, Keyed: true, Short: "Say which commands of agents may be given a credential"},
	{Name: "credential.remove", Method: "DELETE", Path: "/v1/credentials/{credential}", Need: Change, In: CredentialRef{}, Out: CredentialRemoved{}, Keyed: true, Short: "Remove a credential that nothing takes"},
	{Name: "project.list", Method: "GET", Path: "/v1/projects", Need: Read, In: ProjectsQuery{}, Out: ProjectPage{}, Short: "Registered directories, with what is at their paths now"},
	{Name: "project.show", Method: "GET", Path: "/v1/projects/{project}", Need: Read, In: ProjectRef{}, Out: Project{}, Short: "One project by name, id or path, with the roles of others on it"},
	{Name: "project.add", Method: "POST", Path: "/v1/projects", Need: Change, In: AddProject{}, Out: ProjectChange{}, Keyed: true, Short: "Register a directory; one that was registered before gets its records back"},
	{Name: "project.remove", Method: "DELETE", Path: "/v1/projects/{project}", Need: Change, In: ProjectRef{}, Out: ProjectChange{}, Keyed: true, Short: "Unregister a directory; its records stay"},
	{Name: "project.rebind", Method: "POST", Path: "/v1/projects/{project}/rebind", Need: Change, In: RebindProject{}, Out: ProjectChange{}, Keyed: true, Short: "Say which directory a project is from now on"},
	{Name: "trust.show", Method: "GET", Path: "/v1/projects/{project}/trust", Need: Read, In: ProjectRef{}, Out: ProjectTrust{}, Short: "What the repository of a project can start, and what a person agreed to of it"},
	{Name: "trust.decide", Method: "POST", Path: "/v1/projects/{project}/trust", Need: Judge, In: TrustProject{}, Out: ProjectTrust{}, Keyed: true, Short: "Record that a person trusts the repository of a project, or does so no more"},
	{Name: "project.grant", Method: "POST", Path: "/v1/projects/{project}/grants", Need: Judge, In: GrantProject{}, Out: Granted{}, Keyed: true, Short: "Give somebody a role on a project, or take it away"},
	{Name: "session.list", Method: "GET", Path: "/v1/sessions", Need: Read, In: RemoteSessionsQuery{}, Out: RemoteSessionPage{}, Short: "Remote sessions of everybody, the last used first"},
	{Name: "session.show", Method: "GET", Path: "/v1/sessions/{session}", Need: Read, In: RemoteSessionRef{}, Out: RemoteSession{}, Short: "One remote session with its plans and the roles of others in it"},
	{Name: "session.grant", Method: "POST", Path: "/v1/sessions/{session}/grants", Need: Judge, In: GrantSession{}, Out: Granted{}, Keyed: true, Short: "Give somebody a role in a remote session, or take it away"},
	{Name: "session.handoff", Method: "POST", Path: "/v1/sessions/{session}/handoffs", Need: Judge, In: HandOver{}, Out: HandedOver{}, Keyed: true, Short: "Make a token that lets somebody into a remote session once"},
	{Name: "session.close", Method: "POST", Path: "/v1/sessions/{session}/close", Need: Change, In: RemoteSessionRef{}, Out: RemoteSessionChange{}, Keyed: true, Short: "Close a remote session; what is stored of it stays readable"},
	{Name: "operation.list", Method: "GET", Path: "/v1/operations", Need: Read, In: OperationsQuery{}, Out: OperationPage{}, Short: "Operations at /mcp, the newest first"},
	{Name: "operation.show", Method: "GET", Path: "/v1/operations/{operation}", Need: Read, In: OperationRef{}, Out: OperationView{}, Short: "One operation at /mcp with its recorded answer"},
	{Name: "operation.resolve", Method: "POST", Path: "/v1/operations/{operation}/resolve", Need: Change, In: ResolveOperation{}, Out: OperationView{}, Keyed: true, Short: "Say how an operation ended whose outcome nobody knows, or give up one that waits"},
	{Name: "job.list", Method: "GET", Path: "/v1/jobs", Need: Read, In: JobsQuery{}, Out: JobPage{}, Short: "Commands that agents run or have run, the newest first"},
	{Name: "job.show", Method: "GET", Path: "/v1/jobs/{job}", Need: Read, In: JobRef{}, Out: JobView{}, Short: "One job, with the end of what it wrote"},
	{Name: "job.logs", Method: "GET", Path: "/v1/jobs/{job}/logs", Need: Read, In: JobLogsQuery{}, Out: JobChunk{}, Stream: true, Short: "What a job wrote to one stream, from its beginning"},
	{Name: "job.stop", Method: "POST", Path: "/v1/jobs/{job}/stop", Need: Change, In: StopJob{}, Out: JobStopped{}, Keyed: true, Short: "End a job, with all that it started"},
	{Name: "workspace.list", Method: "GET", Path: "/v1/workspaces", Need: Read, In: WorkspacesQuery{}, Out: WorkspacePage{}, Short: "Workspaces of everybody, the newest first"},
	{Name: "workspace.show", Method: "GET", Path: "/v1/workspaces/{workspace}", Need: Read, In: WorkspaceRef{}, Out: WorkspaceView{}, Short: "One workspace: its scope, its changes, its jobs, its conflicts"},
	{Name: "workspace.diff", Method: "GET", Path: "/v1/workspaces/{workspace}/diff", Need: Read, In: WorkspaceDiffQuery{}, Out: WorkspaceDiff{}, Short: "What was done in a workspace, as names or as a diff"},
	{Name: "workspace.plan", Method: "GET", Path: "/v1/workspaces/{workspace}/integration", Need: Read, In: PlanIntegration{}, Out: IntegrationOutcome{}, Short: "What an integration of a workspace would do; nothing is changed"},
	{Name: "workspace.create", Method: "POST", Path: "/v1/workspaces", Need: Change, In: CreateWorkspace{}, Out: WorkspaceChanged{}, Keyed: true, Short: "Copy a project to work in, and claim what is to be changed"},
	{Name: "workspace.integrate", Method: "POST", Path: "/v1/workspaces/{workspace}/integration", Need: Change, In: IntegrateWorkspace{}, Out: IntegrationOutcome{}, Keyed: true, Short: "Bring the changes of a workspace into its project, all or none"},
	{Name: "workspace.undo", Method: "POST", Path: "/v1/workspaces/{workspace}/undo", Need: Change, In: UndoIntegration{}, Out: IntegrationOutcome{}, Keyed: true, Short: "Take back what a workspace brought into its project last, all or none"},
	{Name: "workspace.suspend", Method: "POST", Path: "/v1/workspaces/{workspace}/suspend", Need: Change, In: SuspendWorkspace{}, Out: WorkspaceChanged{}, Keyed: true, Short: "Put a workspace aside; its scope is free for others"},
	{Name: "workspace.resume", Method: "POST", Path: "/v1/workspaces/{workspace}/resume", Need: Change, In: WorkspaceRef{}, Out: WorkspaceChanged{}, Keyed: true, Short: "Go on with a workspace that was suspended, put into quarantine or removed with a snapshot"},
	{Name: "workspace.remove", Method: "DELETE", Path: "/v1/workspaces/{workspace}", Need: Change, In: WorkspaceRef{}, Out: WorkspaceChanged{}, Keyed: true, Short: "Remove a workspace; what is only in it is kept in a snapshot"},
	{Name: "generation.list", Method: "GET", Path: "/v1/generations", Need: Read, In: GenerationsQuery{}, Out: GenerationPage{}, Short: "Builds and candidates of everybody, the newest first"},
	{Name: "generation.show", Method: "GET", Path: "/v1/generations/{build}", Need: Read, In: GenerationRef{}, Out: GenerationView{}, Short: "One build or candidate: how it was made, and the verdicts about it"},
	{Name: "generation.verify", Method: "GET", Path: "/v1/generations/{build}/verification", Need: Read, In: GenerationRef{}, Out: GenerationCheck{}, Stream: true, Short: "Read a whole build and compare it with its manifest"},
	{Name: "generation.produce", Method: "POST", Path: "/v1/generations", Need: Change, In: ProduceGeneration{}, Out: GenerationStarted{}, Keyed: true, Short: "Run a command in a workspace and make a build of its outputs"},
	{Name: "generation.consume", Method: "POST", Path: "/v1/generations/{build}/audits", Need: Change, In: ConsumeGeneration{}, Out: GenerationStarted{}, Keyed: true, Short: "Run a command on a build, for its verdict"},
	{Name: "generation.retain", Method: "POST", Path: "/v1/generations/{build}/retain", Need: Change, In: GenerationRef{}, Out: GenerationChanged{}, Keyed: true, Short: "Keep a build until it is released"},
	{Name: "generation.release", Method: "POST", Path: "/v1/generations/{build}/release", Need: Change, In: GenerationRef{}, Out: GenerationChanged{}, Keyed: true, Short: "Give up the bytes of a build; its manifest and its verdicts are kept"},
	{Name: "server.logs", Method: "GET", Path: "/v1/servers/{server}/logs", Need: Read, In: LogsQuery{}, Out: LogLine{}, Stream: true, Short: "What a server wrote to stderr"},
	{Name: "server.tools", Method: "GET", Path: "/v1/servers/{server}/tools", Need: Use, In: ServerRef{}, Out: ToolPage{}, Short: "Tools of a server; starts it when needed"},
	{Name: "server.call", Method: "POST", Path: "/v1/servers/{server}/tools/{tool}/call", Need: Use, In: CallTool{}, Out: ToolResult{}, Keyed: true, Short: "Call one tool"},
}

// Find gives the row of an operation.
func Find(name string) (Op, bool) {
	for _, op := range Ops {
		if op.Name == name {
			return op, true
		}
	}
	return Op{}, false
}
