// Package crash decides where a process may be killed, or held, by a test: at points that stand before and after every durable or
// visible effect. It refuses to know what the effects are; the harness in internal/test/crashtest enumerates the points
// by a record run and kills a real process at each.
//
// A point costs nothing in a release: without the build tag `crash` Point is empty and inlined, and the names of the
// points are not even in the binary (points-are-gone of TestCrashPoints). With the tag the environment decides:
//
//	MCPX_CRASH_RECORD=FILE      appends "KIND PID NAME" to FILE at every pass
//	MCPX_CRASH_AT=KIND/NAME#N   ends the process with SIGKILL at its N-th pass, counted from 1
//	MCPX_CRASH_ONCE=FILE        makes FILE before the kill; while it is there nobody is killed
//	MCPX_CRASH_HOLD=FILE        makes FILE instead of the kill, and goes on when somebody has removed it
//
// KIND is the kind of process: daemon, successor (a daemon that takes the place of another), supervise, connect or cli.
//
// Invariant: with the tag, a process without these variables behaves as one without the tag.
package crash
