// Package process decides how processes of this machine are started, named, looked at and ended. It is the only
// importer of os/exec. It refuses to know what a child speaks and why it should run.
//
// Invariant: a signal is sent only to a process or group that was proved to be the one meant, by boot, pid and start
// time; a pid that was used again is never hit.
package process
