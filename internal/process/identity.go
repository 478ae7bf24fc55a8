package process

import "errors"

// Identity names one process for ever: pids are used again, but not with the same start time in the same boot.
type Identity struct {
	Boot  string `json:"boot"`  // id of the boot of this machine
	Pid   int    `json:"pid"`   // process id
	Start uint64 `json:"start"` // start time: clock ticks since boot on Linux, microseconds since 1970 elsewhere
}

// ErrGone says that there is no such process, or only its exit status is left.
var ErrGone = errors.New("no such process")

// ErrUnknown says that this system cannot tell.
var ErrUnknown = errors.New("this system cannot tell")

// Alive reports whether exactly this process runs now. A zombie does not run.
func (i Identity) Alive() bool {
	now, err := Identify(i.Pid)
	return err == nil && now == i
}
