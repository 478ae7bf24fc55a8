//go:build unix

package crashtest

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mcpx/internal/test/rig"
)

// TestLastWordKilled: the child of a supervisor ends while there is no daemon, and the supervisor is killed when it has written down how.
// The next daemon clears up after it, and clients are served.
func TestLastWordKilled(t *testing.T) {
	once := filepath.Join(t.TempDir(), "once")
	w := cut(t, "", script{"MCPX_CRASH_AT=supervise/supervisor.exit-written#1", "MCPX_CRASH_ONCE=" + once}, "")
	w.add("alpha")
	w.open()
	w.call(0)
	all := children(t, w.g)
	if len(all) != 1 {
		t.Fatalf("children and their supervisors: %v", all)
	}
	w.g.Kill()
	for child, supervisor := range all {
		if err := syscall.Kill(child, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		rig.Until(t, stepWithin, "the supervisor is killed after its last word", func() bool {
			_, err := os.Stat(once)
			return err == nil && !rig.Alive(supervisor)
		})
	}
	bundles := func() []string { return found(t, []string{filepath.Join(w.g.Home, "state", "bundles", "*")}) }
	dead := bundles()
	if len(dead) != 1 {
		t.Fatalf("there are %q", dead)
	}
	w.g.Serve()
	w.open()
	w.call(0)
	if now := bundles(); len(now) != 1 || now[0] == dead[0] {
		t.Errorf("there are %q, and were %q", now, dead)
	}
}
