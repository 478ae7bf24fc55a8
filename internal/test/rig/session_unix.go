//go:build unix

package rig

import (
	"os/exec"
	"syscall"
	"testing"
)

// OwnSession starts a process in a session of its own, so without a controlling terminal.
func OwnSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// Pause stops a process with SIGSTOP, so that whoever writes to it fills its pipes and waits.
func Pause(t testing.TB, pid int) { signal(t, pid, syscall.SIGSTOP) }

// Continue lets a paused process go on.
func Continue(t testing.TB, pid int) { signal(t, pid, syscall.SIGCONT) }

// KillHard ends a process with SIGKILL.
func KillHard(t testing.TB, pid int) { signal(t, pid, syscall.SIGKILL) }

// HangUp tells the process group of a leader that its terminal closed, and KillGroup ends it with SIGKILL.
func HangUp(t testing.TB, leader int) { signal(t, -leader, syscall.SIGHUP) }

// KillGroup ends every process of a group.
func KillGroup(t testing.TB, leader int) { signal(t, -leader, syscall.SIGKILL) }

func signal(t testing.TB, pid int, s syscall.Signal) {
	t.Helper()
	if pid == 0 || pid == 1 || pid == -1 {
		t.Fatalf("rig: signal %s to pid %d", s, pid)
	}
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatalf("signal %s to %d: %v", s, pid, err)
	}
}
