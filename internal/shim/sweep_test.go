//go:build unix

package shim_test

import (
	"context"
	"os/exec"
	"testing"

	"mcpx/internal/process"
	"mcpx/internal/shim"
)

func TestSweepEndsWhatWasLeft(t *testing.T) {
	r := newRig(t, nil)
	l, s := r.open(t, false)
	do(t, l, s, 1, "where", "", nil)
	child, err := process.Identify(l.Info().Pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.closed(t)
	ended, err := shim.Sweep(context.Background(), r.state)
	if err != nil || ended != 1 {
		t.Fatalf("ended %d, %v; want 1", ended, err)
	}
	if child.Alive() {
		t.Error("the child of the earlier daemon lives")
	}
	r.nothingLeft(t)
}

// sleeper starts a process that leads its own group.
func sleeper(t *testing.T) process.Identity {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip("no sleep command here")
	}
	c, err := process.Start(process.Command{File: path, Argv: []string{"sleep", "600"}, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.End(process.Ladder{Stdin: -1, Term: -1}, func() {})
		_, _, _ = c.Stdin.Close(), c.Stdout.Close(), c.Stderr.Close()
	})
	return c.ID
}
