//go:build crash && unix

package secret

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// envKillDir makes this test binary a process that stores a value in a directory.
const envKillDir = "MCPX_KILL_TEST_DIR"

const exitDone, exitFailed = 5, 6

// TestAsProcess is the other process of TestRealKills.
func TestAsProcess(t *testing.T) {
	dir := os.Getenv(envKillDir)
	if dir == "" {
		t.Skip("skip: it is for TestRealKills")
	}
	v := newVault(t, dir, newRing(&fakeRing{err: errNoRing}, keyringTime))
	if _, err := v.put(context.Background(), "a", "new "+hidden); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	os.Exit(exitDone)
}

// stores runs such a process with a script of package crash. True: it was killed.
func stores(t *testing.T, dir string, script ...string) bool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestAsProcess$")
	cmd.Env = append(script, envKillDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return true
	}
	if cmd.ProcessState.ExitCode() != exitDone {
		t.Fatalf("it ended with %v: %s", err, out)
	}
	return false
}

// TestRealKills ends real processes at every crash point of a first and of a later value: the old value is there or the
// new one, and the store goes on to work.
func TestRealKills(t *testing.T) {
	for _, first := range []bool{true, false} {
		prepare := func(t *testing.T) string {
			t.Helper()
			dir := filepath.Join(t.TempDir(), "secrets")
			if !first {
				keep(t, newVault(t, dir, newRing(&fakeRing{err: errNoRing}, keyringTime)), "a", "old "+hidden)
			}
			return dir
		}
		record := filepath.Join(t.TempDir(), "record")
		if stores(t, prepare(t), "MCPX_CRASH_RECORD="+record) {
			t.Fatal("it was killed although nobody asked for it")
		}
		raw, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		passes := map[string]int{}
		for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
			name := line[strings.LastIndexByte(line, ' ')+1:]
			passes[name]++
			dir := prepare(t)
			if !stores(t, dir, fmt.Sprintf("MCPX_CRASH_AT=cli/%s#%d", name, passes[name])) {
				t.Errorf("first %v: nobody was killed at %s", first, name)
			}
			v := newVault(t, dir, newRing(&fakeRing{err: errNoRing}, keyringTime))
			got, err := v.get(t.Context(), "a")
			switch {
			case first && ReadinessOf(err) == "missing", err == nil && got == "new "+hidden, !first && err == nil && got == "old "+hidden:
			default:
				t.Errorf("first %v, killed at %s: %q, %v", first, name, got, err)
			}
			if _, err := v.put(t.Context(), "a", "next"); err != nil {
				t.Errorf("first %v, killed at %s: the store does not go on: %v", first, name, err)
			}
			holds(t, v, "a", "next")
		}
		if least := map[bool]int{true: 5, false: 3}[first]; len(passes) < least {
			t.Errorf("first %v: %d points, want at least %d: %v", first, len(passes), least, passes)
		}
	}
}
