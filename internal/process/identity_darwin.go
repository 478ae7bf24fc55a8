package process

import (
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// bootID is read once: it cannot change while we run.
var bootID = sync.OnceValues(func() (string, error) {
	tv, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(tv.Sec, 10), nil
})

// stat holds what the process table says about one process.
type stat struct {
	pid, ppid, pgid int
	start           uint64 // microseconds since 1970
}

const zombie = 5 // SZOMB of sys/proc.h

func statOf(k *unix.KinfoProc) stat {
	at := k.Proc.P_starttime
	return stat{
		pid: int(k.Proc.P_pid), ppid: int(k.Eproc.Ppid), pgid: int(k.Eproc.Pgid),
		start: uint64(at.Sec)*1e6 + uint64(at.Usec),
	}
}

func (s stat) identity() (Identity, error) {
	boot, err := bootID()
	return Identity{Boot: boot, Pid: s.pid, Start: s.start}, err
}

// Identify names the process that has this pid now, or returns ErrGone.
func Identify(pid int) (Identity, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil || int(k.Proc.P_pid) != pid || k.Proc.P_stat == zombie {
		return Identity{}, ErrGone
	}
	return statOf(k).identity()
}

// identifyChild names a child that is not reaped yet, so a zombie counts.
func identifyChild(pid int) Identity {
	id := Identity{Pid: pid}
	if k, err := unix.SysctlKinfoProc("kern.proc.pid", pid); err == nil && int(k.Proc.P_pid) == pid {
		id, _ = statOf(k).identity() // without a boot id the identity matches nothing later, which is the safe side
	}
	return id
}

// processes lists what runs now.
func processes() []stat {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	var all []stat
	for i := range list {
		if list[i].Proc.P_stat != zombie {
			all = append(all, statOf(&list[i]))
		}
	}
	return all
}
