//go:build unix

package shim_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
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
	ended, err := shim.Sweep(context.Background(), r.state, true)
	if err != nil || ended != 1 {
		t.Fatalf("ended %d, %v; want 1", ended, err)
	}
	if child.Alive() {
		t.Error("the child of the earlier daemon lives")
	}
	r.nothingLeft(t)
}

// TestSweepOfTheDead has bundles without a living owner: one whose child's pid was used again, one whose direct child
// lives on, one without a record, and things that are no bundles at all.
func TestSweepOfTheDead(t *testing.T) {
	r := newRig(t, nil)
	bundles := filepath.Join(r.state, "bundles")
	stranger := sleeper(t)
	reused := stranger
	reused.Start-- // the recorded process is another one with the same pid
	orphan := sleeper(t)
	write := func(name, kind string, child process.Identity) {
		dir := filepath.Join(bundles, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		b, _ := json.Marshal(map[string]any{"format": 1, "id": name, "kind": kind, "child": child})
		if err := os.WriteFile(filepath.Join(dir, "record"), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("shim_reused", "stdio", reused)
	write("shim_orphan", "direct", orphan)
	write("shim_unknown", "stdio", reused)
	if err := os.WriteFile(filepath.Join(bundles, "shim_unknown", "record"), []byte(`{"format":99,"id":"shim_unknown"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(bundles, "shim_unborn"), 0o700); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(bundles, "shim_link")); err != nil {
		t.Fatal(err)
	}
	ended, err := shim.Sweep(context.Background(), r.state, true)
	if err != nil || ended != 1 {
		t.Fatalf("ended %d, %v; want 1", ended, err)
	}
	if !stranger.Alive() {
		t.Error("a stranger with a recorded pid was killed")
	}
	if orphan.Alive() {
		t.Error("the orphan of a direct server lives")
	}
	left := map[string]bool{}
	entries, _ := os.ReadDir(bundles)
	for _, e := range entries {
		left[e.Name()] = true
	}
	if len(left) != 2 || !left["shim_unknown"] || !left["shim_link"] {
		t.Errorf("left: %v, want the unknown format and the link, untouched", left)
	}
	if _, err := os.Stat(elsewhere); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
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
