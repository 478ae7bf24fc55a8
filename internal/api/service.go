package api

import "context"

// Service is the local API, one method for each row of Ops. Errors are *fault.Error.
type Service interface {
	DaemonStatus(ctx context.Context, in None) (Daemon, error)
	DaemonStop(ctx context.Context, in StopDaemon) (Stopping, error)
	DaemonRestart(ctx context.Context, in RestartDaemon) (Restarted, error)
	DaemonReload(ctx context.Context, in None) (Reloaded, error)
	Status(ctx context.Context, in None) (Status, error)
	Health(ctx context.Context, in None) (Health, error)
	Processes(ctx context.Context, in ProcessQuery) (ProcessPage, error)

	ConfigFiles(ctx context.Context, in ConfigQuery) (ConfigFiles, error)
	InspectConfig(ctx context.Context, in ConfigQuery) (ConfigReport, error)

	Servers(ctx context.Context, in ServersQuery) (ServerPage, error)
	Server(ctx context.Context, in ServerRef) (Server, error)
	AddServer(ctx context.Context, in AddServer) (Server, error)
	EditServer(ctx context.Context, in EditServer) (Server, error)
	RemoveServer(ctx context.Context, in ServerRef) (Done, error)
	EnableServer(ctx context.Context, in ServerRef) (Done, error)
	DisableServer(ctx context.Context, in ServerRef) (Done, error)
	RestartServer(ctx context.Context, in ServerRef) (Done, error)
	ImportServers(ctx context.Context, in ImportServers) (ImportReport, error)

	Catalog(ctx context.Context, in CatalogQuery) (CatalogPage, error)
	Candidates(ctx context.Context, in CandidatesQuery) (CandidatePage, error)
	Review(ctx context.Context, in Review) (Reviewed, error)
	LinkEntry(ctx context.Context, in LinkEntry) (Linked, error)
	ExportCatalog(ctx context.Context, in ExportQuery) (Export, error)
	ReviewTools(ctx context.Context, in ServerRef) (ToolsReview, error)
	AcceptTools(ctx context.Context, in AcceptTools) (ToolsReview, error)

	// ServerLogs gives each line to emit and returns at the end of the log, or with Follow when ctx ends. An error of
	// emit ends it and is returned.
	ServerLogs(ctx context.Context, in LogsQuery, emit func(LogLine) error) error
	ServerTools(ctx context.Context, in ServerRef) (ToolPage, error)
	CallTool(ctx context.Context, in CallTool) (ToolResult, error)
}

// Principal is who asks, as the edge proved it.
type Principal struct {
	Name string // "owner" for the user who owns the daemon
}

// Owner is the user who owns the daemon: proved by the peer credentials of the unix socket.
var Owner = Principal{Name: "owner"}

type contextKey int

const (
	principalKey contextKey = iota
	operationKey
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
