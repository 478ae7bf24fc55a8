// Package key holds the names of log, metric and event fields, so that one fact has one name everywhere. It holds
// nothing else.
//
// Invariant: a name is snake_case and is never reused for another fact.
package key

// Names of structured fields. Units are part of the comment.
const (
	Addr      = "addr"
	Agent     = "agent"
	Cause     = "cause"
	Child     = "child"    // pid
	Code      = "code"     // fault code
	Count     = "count"    // number of things
	DownFor   = "down_for" // duration
	Epoch     = "epoch"    // daemon start counter
	Era       = "era"
	Exit      = "exit"
	Lane      = "lane"
	Method    = "method"
	Op        = "op"             // row of the API table
	Orphans   = "orphans_killed" // true: a process group outlived its supervisor
	Path      = "path"
	Pid       = "pid"
	Server    = "server"
	Session   = "session" // short form, never the whole secret id
	Shim      = "shim"
	State     = "state"
	Took      = "took" // duration
	Version   = "version"
	Component = "component"

	Applied      = "applied"       // settings that a reload changed
	NeedsRestart = "needs_restart" // settings that wait for a restart
)
