package daemon

import (
	"os"
	"slices"

	"mcpx/internal/control"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// person says at which terminal a caller is, or why its word does not count as that of a person. It is a restriction and
// no boundary: another program of the same user that has a terminal passes. What belongs to a job or server of ours is
// looked for first, so that the log names it.
func (d *Daemon) person(pid int) (control.Asker, error) {
	var asks control.Asker
	no := func(format string, args ...any) (control.Asker, error) {
		return asks, fault.New(fault.Denied, "no-person").Saying(format, args...).
			Hinting("only a person decides: type the command in a terminal of your own")
	}
	if pid <= 0 {
		return no("it is not known which program asks")
	}
	line := process.Lineage(pid)
	if d.jobAbove != nil {
		job, err := d.jobAbove(line)
		if err != nil {
			return no("it is not known whether a job started the program %d: %v", pid, err)
		}
		if job != "" {
			asks.Job = job
			return no("the program %d was started by the job %s", pid, job)
		}
	}
	for _, s := range d.gateway.Status() {
		for _, lane := range s.Lanes {
			for _, own := range []int{lane.Link.Pid, lane.Link.Supervisor} {
				if own > 0 && slices.Contains(line, own) {
					asks.Server = s.Name
					return no("the program %d was started by the server %s", pid, s.Name)
				}
			}
		}
	}
	terminal, err := process.TerminalOf(pid)
	switch {
	case err != nil:
		return no("it is not known at which terminal the program %d is", pid)
	case terminal == "":
		return no("the program %d has no terminal", pid)
	case slices.Contains(line, os.Getpid()):
		return no("the program %d was started by the daemon", pid)
	}
	asks.Terminal = terminal
	return asks, nil
}
