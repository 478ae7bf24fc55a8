package cli

// groups are the words that only have commands below them.
var groups = []Group{
	{Path: "catalog", Short: "Decide which servers there are: review, import, export"},
	{Path: "agents", Short: "See your coding agents, and say which of them mcpx manages"},
	{Path: "approval", Short: "Say yes or no to what mcpx proposes"},
	{Path: "audit", Short: "Look at the agents' configuration, and at what happened to it"},
	{Path: "cutover", Short: "Come here from another hub"},
	{Path: "config", Short: "See what the agents are configured with"},
	{Path: "credential", Short: "Keep secrets out of configurations: add, check, bind"},
	{Path: "daemon", Short: "Start, stop, restart, upgrade and look at the daemon"},
	{Path: "plan", Short: "See what mcpx proposes"},
	{Path: "policy", Short: "See what agents may do, and try it without running anything"},
	{Path: "profile", Short: "Give agents sets of servers at once"},
	{Path: "project", Short: "Say which directories the tools of /mcp may reach"},
	{Path: "server", Short: "Add, change and use MCP servers"},
	{Path: "session", Short: "See and share the remote sessions at /mcp"},
	{Path: "operation", Short: "See what agents do at /mcp, and say how it ended"},
	{Path: "job", Short: "See the commands that agents run at /mcp"},
	{Path: "workspace", Short: "See and move the work of agents in copies of a project"},
	{Path: "generation", Short: "Make, check and audit builds of what commands in workspaces produce"},
	{Path: "remote", Short: "Access of web chats and other machines: let clients in, and end it"},
	{Path: "token", Short: "Make, rotate and end the tokens of agents"},
}

// commands is the table of everything that can be typed.
func commands() []Command {
	return []Command{
		up, serve, connect,
		daemonStart, daemonStop, daemonRestart, daemonUpgrade, daemonReload, daemonStatus, daemonInstallService,
		status, health, doctor, ps,
		releaseGate, retirementGate,
		cutoverDryRun, cutoverImport, cutoverApply, cutoverStatus,
		configDiscover, configInspect,
		catalogList, catalogSearch, catalogShow, catalogCandidates, catalogReview, catalogImport, catalogExport,
		agentsDiscover, certifyAgent, agentsSelfCheck, agentsAuth, agentsControl, agentsMount, agentsUnmount,
		profileList, profileShow, profileSet, profileRemove,
		auditRun, auditList, auditVerify, auditPrune, auditExport, observe,
		planList, planShow,
		policyExplain, policyCheck,
		approvalList, approvalShow, approvalApprove, approvalDeny,
		apply, rollback,
		credentialAdd, credentialSet, credentialList, credentialShow, credentialCheck, credentialBind, credentialGrant, credentialRotate, credentialMove, credentialRemove,
		serverAdd, serverList, serverShow, serverEdit, serverRemove, serverEnable, serverDisable, serverRestart, serverLogin, serverLogout,
		serverLogs, serverTools, serverCall, serverImport,
		projectAdd, projectList, projectShow, projectRemove, projectRebind, projectGrant, projectTrust,
		sessionList, sessionShow, sessionGrant, sessionHandoff, sessionClose,
		operationList, operationShow, operationResolve,
		jobList, jobShow, jobLogs, jobStop,
		workspaceList, workspaceShow, workspaceDiff, workspaceCreate, workspaceIntegrate, workspaceUndo, workspaceSuspend, workspaceResume, workspaceRemove,
		generationList, generationShow, generationVerify, generationProduce, generationConsume, generationRetain, generationRelease,
		remoteOn, remoteOff, remoteShow, remoteRequests, remoteApprove, remoteDeny, remoteList, remoteRevoke,
		tokenIssue, tokenList, tokenRotate, tokenRevoke, tokenPrint, tokenEnv,
		tui,
		demoServer, version,
	}
}
