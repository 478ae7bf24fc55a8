package process

import (
	"fmt"
	"time"
)

// Status is how a process ended.
type Status struct {
	Code   int    `json:"code"`             // exit code; meaningless when Signal is set
	Signal int    `json:"signal,omitempty"` // signal number, 0 for none
	Name   string `json:"name,omitempty"`   // name of the signal, for example SIGKILL
	Core   bool   `json:"core,omitempty"`   // a core image was written
}

// String is "code 3" or "signal 9 (SIGKILL)".
func (s Status) String() string {
	if s.Signal != 0 {
		return fmt.Sprintf("signal %d (%s)", s.Signal, s.Name)
	}
	return fmt.Sprintf("code %d", s.Code)
}

// Usage is the processor time of a process and of those that it waited for.
type Usage struct {
	User   time.Duration `json:"user"`
	System time.Duration `json:"system"`
}
