package cli

// groups are the words that only have commands below them.
var groups = []Group{
	{Path: "catalog", Short: "Decide which servers there are: review, import, export"},
	{Path: "config", Short: "See what the agents are configured with"},
	{Path: "daemon", Short: "Start, stop, restart, upgrade and look at the daemon"},
	{Path: "server", Short: "Add, change and use MCP servers"},
}

// commands is the table of everything that can be typed.
func commands() []Command {
	return []Command{
		up, serve, connect,
		daemonStart, daemonStop, daemonRestart, daemonUpgrade, daemonReload, daemonStatus,
		status, health, ps,
		configDiscover, configInspect,
		catalogList, catalogSearch, catalogCandidates, catalogReview, catalogImport, catalogExport,
		serverAdd, serverList, serverShow, serverEdit, serverRemove, serverEnable, serverDisable, serverRestart,
		serverLogs, serverTools, serverCall, serverImport,
		demoServer, version,
	}
}
