package crashtest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// TestDW70Held: DW-70, of an integration that is held between two of its paths. reconcile_project_state does not wait for it: each
// answer comes, and says that it is in progress. Then it comes to its end.
func TestDW70Held(t *testing.T) {
	hold := filepath.Join(t.TempDir(), "hold")
	w := cut(t, "", script{"MCPX_RUNTIME_WORK=true", "MCPX_CRASH_AT=daemon/fs.exchange.after#3", "MCPX_CRASH_HOLD=" + hold}, "")
	w.heap()
	w.register()
	handle, dir := w.workspace("create-1")
	after := w.workIn(dir, rig.Tree(t, w.dir))
	args := map[string]any{"handle": handle}
	w.sends(t, false, "integrate_agent_workspace", "integrate-1", args)
	rig.Until(t, stepWithin, "the integration is held", func() bool { return there(hold) })
	var slowest time.Duration
	for range 50 {
		var is struct {
			Workspaces []struct {
				Handle string `json:"handle"`
				State  string `json:"state"`
				Why    string `json:"why"`
			} `json:"unfinished_workspaces"`
		}
		began := time.Now()
		w.reads("reconcile_project_state", map[string]any{}, &is)
		slowest = max(slowest, time.Since(began))
		if len(is.Workspaces) != 1 || is.Workspaces[0].State != "integrating" || is.Workspaces[0].Why != "integration in progress" {
			t.Fatalf("it is told as %+v", is)
		}
	}
	t.Logf("the slowest answer took %v", slowest)
	if !there(hold) {
		t.Error("the integration was not held all the time")
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if last := w.do("integrate_agent_workspace", "integrate-1", args, nil); !last.OK {
		t.Errorf("in the end: %+v", last)
	}
	w.holds("integrate-1", after)
}
