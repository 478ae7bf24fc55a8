//go:build unix

package process

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// groupPoll is how often the end of a group is looked for. The kernel has no event for "the last member left", and a
// group lives on after its leader only when it misbehaves.
const groupPoll = 10 * time.Millisecond

// End ends the child and its group by the ladder: closeStdin is called first and must not block. It returns when all
// are gone or the ladder is through; survivors are the pids that still run. It may be called while the child's output
// is still being read.
func (c *Child) End(l Ladder, closeStdin func()) (survivors []int) {
	closeStdin()
	if c.gone(l.Stdin) {
		return nil
	}
	// Descendants that left the group are found now, while their parents live; each keeps its identity.
	strays := c.Strays(c.ID.Pid)
	c.signal(syscall.SIGTERM)
	if c.gone(l.Term) && !anyAlive(strays) {
		return nil
	}
	strays = append(strays, c.Strays(c.ID.Pid)...)
	c.signal(syscall.SIGKILL)
	for _, id := range strays {
		signalOne(id, syscall.SIGKILL)
	}
	c.gone(l.Kill)
	return c.survivors(strays)
}

// Signal sends sig to the whole group of the child.
func (c *Child) Signal(sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok {
		c.signal(s)
	}
}

// EndGroup kills what is left of the group after the leader has ended, and returns the pids that still run.
func (c *Child) EndGroup(wait time.Duration) (survivors []int) {
	if !c.Alive() {
		return nil
	}
	c.signal(syscall.SIGKILL)
	c.gone(wait)
	return c.survivors(nil)
}

func (c *Child) survivors(strays []Identity) (pids []int) {
	if c.Alive() {
		for _, s := range processes() {
			if s.pgid == c.ID.Pid {
				pids = append(pids, s.pid)
			}
		}
	}
	for _, id := range strays {
		if id.Alive() && !slices.Contains(pids, id.Pid) {
			pids = append(pids, id.Pid)
		}
	}
	return pids
}

// gone waits at most d for the end of the child and of its whole group.
func (c *Child) gone(d time.Duration) bool {
	if d < 0 {
		d = 0
	}
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-c.done:
	case <-limit.C:
		return false
	}
	poll := time.NewTicker(groupPoll)
	defer poll.Stop()
	for c.Alive() {
		select {
		case <-poll.C:
		case <-limit.C:
			return !c.Alive()
		}
	}
	return true
}

// Alive reports whether some member of the child's group runs.
func (c *Child) Alive() bool {
	select {
	case <-c.done:
	default:
		return true
	}
	// EPERM means that a member exists which changed its user.
	if err := syscall.Kill(-c.ID.Pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return false
	}
	alive := false
	for _, s := range processes() {
		if s.pgid == c.ID.Pid {
			alive = true
		}
		if s.pid == c.ID.Pid {
			// The leader was reaped and its pid is used again. The kernel gives out no pid that still names a group,
			// so our group had ended before and this is a stranger's.
			return false
		}
	}
	return alive
}

func (c *Child) signal(sig syscall.Signal) {
	if c.Alive() {
		_ = syscall.Kill(-c.ID.Pid, sig) // the group may end between the two lines; that is what was wanted
	}
}

// Strays are the processes below the process root that are not in the group of the child. A subreaper asks for those below
// itself: then what lost its parent is found, too.
func (c *Child) Strays(root int) []Identity { return strays(processes(), root, c.ID.Pid) }

// strays are the processes below root that are not in the group.
func strays(all []stat, root, group int) (ids []Identity) {
	children := map[int][]stat{}
	for _, s := range all {
		children[s.ppid] = append(children[s.ppid], s)
	}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, s := range children[queue[0]] {
			queue = append(queue, s.pid)
			if s.pgid == group {
				continue
			}
			if id, err := s.identity(); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func anyAlive(ids []Identity) bool { return slices.ContainsFunc(ids, Identity.Alive) }

func signalOne(id Identity, sig syscall.Signal) {
	if id.Alive() {
		_ = syscall.Kill(id.Pid, sig) // it may have ended between the two lines; that is what was wanted
	}
}

// KillOrphans kills the group that leader led, if that can be proved. It reports whether something was killed.
func KillOrphans(leader Identity) bool {
	ids, _ := orphans(leader)
	return len(ids) > 0 && syscall.Kill(-leader.Pid, syscall.SIGKILL) == nil
}

// orphans are the members of the group that leader led: the leader still runs with this identity, led, or it has ended and its
// group lives on with members that are younger.
func orphans(leader Identity) (ids []Identity, led bool) {
	boot, err := bootID()
	if err != nil || boot != leader.Boot || leader.Pid <= 1 {
		return nil, false
	}
	for _, s := range processes() {
		if s.pid == leader.Pid && s.start != leader.Start {
			return nil, false // the pid is used again, so the group had ended before
		}
		if s.pgid != leader.Pid || s.start < leader.Start {
			continue
		}
		if id, err := s.identity(); err == nil {
			ids = append(ids, id)
			led = led || id == leader
		}
	}
	return ids, led
}

// Remains are the processes that go on when nobody watches them any more: the group that leader led in the session of that
// number, and, where the system tells, those that were started with this variable, NAME=value, in their environment, wherever they
// went. They may be asked for days later, when the number of a leader that has ended may have become that of a stranger's group: then
// it is the session that proves whose it is.
func Remains(leader Identity, session int, variable string) []Identity {
	ids, led := orphans(leader)
	if !led {
		ids = slices.DeleteFunc(ids, func(id Identity) bool {
			sid, err := unix.Getsid(id.Pid)
			return err != nil || sid != session
		})
	}
	for _, id := range having(variable, leader.Start) { // what came from the leader is younger
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// Kill ends exactly the process that id names with SIGKILL. It reports whether it was there.
func Kill(id Identity) bool {
	if !id.Alive() {
		return false
	}
	return syscall.Kill(id.Pid, syscall.SIGKILL) == nil
}

// Notify sends sig to exactly the process that id names. It reports whether it was there.
func Notify(id Identity, sig os.Signal) bool {
	s, ok := sig.(syscall.Signal)
	return ok && id.Alive() && syscall.Kill(id.Pid, s) == nil
}
