package daemon

import (
	"os"
	"slices"

	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// person says at which terminal a caller is, or why its word does not count as that of a person. It is a restriction and
// no boundary: another program of the same user that has a terminal passes.
func (d *Daemon) person(pid int) (terminal string, err error) {
	no := func(format string, args ...any) (string, error) {
		return "", fault.New(fault.Denied, "no-person").Saying(format, args...).
			Hinting("only a person decides: type the command in a terminal of your own")
	}
	if pid <= 0 {
		return no("it is not known which program asks")
	}
	terminal, err = process.TerminalOf(pid)
	switch {
	case err != nil:
		return no("it is not known at which terminal the program %d is", pid)
	case terminal == "":
		return no("the program %d has no terminal", pid)
	}
	line := process.Lineage(pid)
	for _, s := range d.gateway.Status() {
		for _, lane := range s.Lanes {
			for _, own := range []int{lane.Link.Pid, lane.Link.Supervisor} {
				if own > 0 && slices.Contains(line, own) {
					return no("the program %d was started by the server %s", pid, s.Name)
				}
			}
		}
	}
	if slices.Contains(line, os.Getpid()) {
		return no("the program %d was started by the daemon", pid)
	}
	return terminal, nil
}
