package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of the times in /proc/PID/stat; Linux reports them in hundredths on every architecture.
const tick = 10 * time.Millisecond

func ownGroup(cmd *exec.Cmd)  { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
func interrupt(cmd *exec.Cmd) { _ = cmd.Process.Signal(syscall.SIGTERM) }
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
func killPid(pid int)         { _ = syscall.Kill(pid, syscall.SIGKILL) }

// stat are the fields of /proc/PID/stat behind the name, from the state on.
func stat(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
}

func processes() []int {
	var pids []int
	entries, _ := filepath.Glob("/proc/[0-9]*") // a constant pattern
	for _, e := range entries {
		if pid, err := strconv.Atoi(filepath.Base(e)); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// tree is the roots and everything below them, each once.
func tree(roots []int) []int {
	below := map[int][]int{}
	for _, pid := range processes() {
		if f := stat(pid); len(f) > 1 {
			parent, _ := strconv.Atoi(f[1]) // 0 is nobody's root
			below[parent] = append(below[parent], pid)
		}
	}
	seen := map[int]bool{}
	var all []int
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		if pid := queue[0]; !seen[pid] {
			seen[pid] = true
			all = append(all, pid)
			queue = append(queue, below[pid]...)
		}
	}
	return all
}

// naming are the processes whose command line names the directory.
func naming(dir string) []int {
	var found []int
	for _, pid := range processes() {
		args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && bytes.Contains(args, []byte(dir+"/")) {
			found = append(found, pid)
		}
	}
	return found
}

// cpu is the processor time of the processes so far.
func cpu(pids []int) time.Duration {
	var ticks int64
	for _, pid := range pids {
		if f := stat(pid); len(f) > 12 {
			user, _ := strconv.ParseInt(f[11], 10, 64)
			system, _ := strconv.ParseInt(f[12], 10, 64)
			ticks += user + system
		}
	}
	return time.Duration(ticks) * tick
}

// resident, proportional and anonymous are the memory of a process in bytes: all its pages, its share of them, and those
// that belong to no file.
func resident(pid int) int64     { return memory(pid, "Rss:") }
func proportional(pid int) int64 { return memory(pid, "Pss:") }
func anonymous(pid int) int64    { return memory(pid, "Anonymous:") }

func memory(pid int, field string) int64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field {
			kb, _ := strconv.ParseInt(f[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}
