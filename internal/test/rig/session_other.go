//go:build !unix

package rig

import (
	"os/exec"
	"testing"
)

// OwnSession does nothing here.
func OwnSession(*exec.Cmd) {}

// Pause needs a signal that this system does not have.
func Pause(t testing.TB, _ int) { t.Skip("skip: no SIGSTOP") }

// Continue needs a signal that this system does not have.
func Continue(t testing.TB, _ int) { t.Skip("skip: no SIGCONT") }

// KillHard needs a signal that this system does not have.
func KillHard(t testing.TB, _ int) { t.Skip("skip: no SIGKILL") }

// HangUp needs a signal that this system does not have.
func HangUp(t testing.TB, _ int) { t.Skip("skip: no SIGHUP") }

// KillGroup needs a signal that this system does not have.
func KillGroup(t testing.TB, _ int) { t.Skip("skip: no SIGKILL") }
