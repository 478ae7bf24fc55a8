package process

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// bootID is read once: it cannot change while we run.
var bootID = sync.OnceValues(func() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
})

// stat holds the fields of /proc/<pid>/stat that are needed here (proc(5)).
type stat struct {
	pid, ppid, pgid, sid int
	tty                  int // device number of the controlling terminal; 0 none
	state                byte
	start                uint64 // clock ticks since boot
}

func readStat(pid int) (stat, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return stat{}, ErrGone
	}
	if err != nil {
		return stat{}, err
	}
	return parseStat(pid, b)
}

func parseStat(pid int, b []byte) (stat, error) {
	// The second field is the name in parentheses and may hold anything, so count from the last parenthesis.
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return stat{}, fmt.Errorf("/proc/%d/stat has no name", pid)
	}
	f := strings.Fields(string(b[end+1:]))
	const startField = 19 // field 22 of the line
	if len(f) <= startField || len(f[0]) != 1 {
		return stat{}, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(f))
	}
	s := stat{pid: pid, state: f[0][0]}
	var errs [5]error
	s.ppid, errs[0] = strconv.Atoi(f[1])
	s.pgid, errs[1] = strconv.Atoi(f[2])
	s.sid, errs[2] = strconv.Atoi(f[3])
	s.tty, errs[4] = strconv.Atoi(f[4])
	s.start, errs[3] = strconv.ParseUint(f[startField], 10, 64)
	return s, errors.Join(errs[:]...)
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' || s.state == 'x' }

func (s stat) identity() (Identity, error) {
	boot, err := bootID()
	return Identity{Boot: boot, Pid: s.pid, Start: s.start}, err
}

// Identify names the process that has this pid now, or returns ErrGone.
func Identify(pid int) (Identity, error) {
	s, err := readStat(pid)
	if err != nil {
		return Identity{}, err
	}
	if s.dead() {
		return Identity{}, ErrGone
	}
	return s.identity()
}

// identifyChild names a child that is not reaped yet, so a zombie counts.
func identifyChild(pid int) Identity {
	id := Identity{Pid: pid}
	if s, err := readStat(pid); err == nil {
		id, _ = s.identity() // without a boot id the identity matches nothing later, which is the safe side
	}
	return id
}

// processes lists what runs now. Entries that vanish while reading are left out.
func processes() []stat {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	var all []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil && !s.dead() {
			all = append(all, s)
		}
	}
	return all
}
