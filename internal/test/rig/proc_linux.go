package rig

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endWithin is how long a process may take to vanish after the daemon reported that it is gone: reaping by init.
const endWithin = 2 * time.Second

// Survivors lists the processes whose command line or environment names the directory, after a moment for those that
// are just ending. Only Linux can tell.
func Survivors(dir string) []string {
	deadline := time.Now().Add(endWithin)
	for {
		left := Naming(dir)
		if len(left) == 0 || time.Now().After(deadline) {
			var lines []string
			for pid, args := range left {
				lines = append(lines, fmt.Sprintf("pid %d: %s", pid, args))
			}
			return lines
		}
		time.Sleep(20 * time.Millisecond) // a process table has no event to wait for
	}
}

// endSurvivors kills what Survivors found, by pid.
func endSurvivors(dir string) {
	for pid := range Naming(dir) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
	}
}

// Naming lists the processes whose command line or environment names the directory, with their command lines.
func Naming(dir string) map[int]string {
	found := map[int]string{}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // a constant pattern
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(filepath.Base(entry))
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, err := os.ReadFile(entry + "/cmdline")
		if err != nil || len(args) == 0 {
			continue // ended, or a zombie that its parent will reap
		}
		env, _ := os.ReadFile(entry + "/environ") // another user's: not ours either
		if bytes.Contains(args, []byte(dir)) || bytes.Contains(env, []byte(dir)) {
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))
		}
	}
	return found
}

// Alive says whether the process runs: a zombie does not.
func Alive(pid int) bool {
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(args) > 0
}

// Descriptors counts the open files of a process.
func Descriptors(pid int) int {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return -1
	}
	return len(entries)
}

// Opened names the open files of a process, as far as the system does.
func Opened(pid int) []string {
	dir := fmt.Sprintf("/proc/%d/fd/", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		name, err := os.Readlink(dir + e.Name())
		if err != nil {
			name = "closed meanwhile"
		}
		names = append(names, e.Name()+" "+name)
	}
	return names
}

// Process is what the system tells of one.
type Process struct {
	State                  byte // R, S, Z, …
	Parent, Group, Session int
}

// Look reads the state of a process; the zero Process: there is none.
func Look(pid int) Process {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}
	}
	var p Process
	after := raw[bytes.LastIndexByte(raw, ')')+1:] // the name may contain anything
	if _, err := fmt.Sscanf(string(after), " %c %d %d %d", &p.State, &p.Parent, &p.Group, &p.Session); err != nil {
		return Process{}
	}
	return p
}

// Memory is the anonymous resident memory of a process, and its proportional share of all (PSS), in bytes.
func Memory(pid int) (anonymous, proportional int64) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return -1, -1
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		var kib int64
		if _, err := fmt.Sscanf(line, "Anonymous: %d kB", &kib); err == nil {
			anonymous = kib << 10
		}
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &kib); err == nil {
			proportional = kib << 10
		}
	}
	return anonymous, proportional
}

// Written is how many bytes a process has written since it began.
func Written(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return -1
	}
	var n int64
	for line := range strings.SplitSeq(string(raw), "\n") {
		if _, err := fmt.Sscanf(line, "wchar: %d", &n); err == nil {
			return n
		}
	}
	return -1
}
