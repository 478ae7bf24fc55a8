package gateway

import "slices"

// Caller is who sent a request, as the edge proved it. Nothing in it comes from a header that a caller may invent:
// Agent, Workspace and Passed are filled only for mcpx connect on the unix socket.
type Caller struct {
	Principal string            // the person; "owner" for our own uid
	Agent     string            // the agent's name, "" unknown
	Workspace string            // canonical workspace root, "" unknown
	Passed    map[string]string // variables that mcpx connect carries for the entry's env_pass
	Instance  string            // which mcpx connect process, "" for HTTP
	Local     bool              // the daemon's own client (server tools, server call)
	Limited   bool              // only the servers in Only are for this caller: its token says so
	Only      []string          // names in the catalog
}

// May says whether the caller may use a server.
func (c Caller) May(server string) bool { return !c.Limited || slices.Contains(c.Only, server) }
