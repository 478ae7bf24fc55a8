// Package key holds the names of log, metric and event fields, so that one fact has one name everywhere. It holds
// nothing else.
//
// Invariant: a name is snake_case and is never reused for another fact.
package key

// Names of structured fields. Units are part of the comment.
const (
	Addr      = "addr"
	Bytes     = "bytes"
	Build     = "build"
	Cause     = "cause"
	Child     = "child" // pid
	Count     = "count" // number of things
	Crash     = "crash_id"
	Epoch     = "epoch" // daemon start counter
	Era       = "era"
	Gaps      = "gaps" // of the sandbox
	Lane      = "lane"
	Mechanism = "mechanism" // of the sandbox; "" when none works
	Method    = "method"
	Job       = "job"
	Operation = "operation"
	Orphans   = "orphans_killed" // true: a process group outlived its supervisor
	Path      = "path"
	Pid       = "pid"
	Receipt   = "receipt"
	Server    = "server"
	Shim      = "shim"
	Stack     = "stack"
	State     = "state"
	Took      = "took" // duration
	Tool      = "tool"
	Version   = "version"
	Component = "component"

	Applied      = "applied"       // settings that a reload changed
	NeedsRestart = "needs_restart" // settings that wait for a restart
)
