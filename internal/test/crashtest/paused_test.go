package crashtest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/test/rig"
)

// paused is what an agent does with a workspace that it comes back to: it changes the scope, puts it aside, goes on, removes it
// with work in it, and goes on with what was kept. After every kill its work is as it was, in one workspace, and the project is
// untouched.
func (p *play) paused() {
	w := &worker{play: p, dir: filepath.Join(p.t.TempDir(), "shop"), is: map[string]string{}}
	w.heap()
	w.register()
	before := rig.Tree(w.t, w.dir)
	handle, dir := w.workspace("create-1")
	w.workIn(dir, before)
	mine := rig.Tree(w.t, dir)
	untouched := func(operation string) func() {
		return func() { w.holds(operation, before) }
	}
	acts := func(tool, operation string, args map[string]any) result {
		w.t.Helper()
		last := w.do(tool, operation, args, untouched(operation))
		if !last.OK {
			w.t.Fatalf("%s: %s", operation, last.code())
		}
		return last
	}
	amended := acts("amend_workspace_scope", "amend-01", map[string]any{"handle": handle, "add": []string{"old"}, "remove": []string{"."}})
	away := acts("suspend_workspace", "suspend-1", map[string]any{"handle": amended.Handle, "reason": "tomorrow"})
	w.stands(away.Handle, "suspended")
	id, _, _ := strings.Cut(away.Handle, "@")
	back := acts("resume_workspace", "resume-1", map[string]any{"ws": id})
	w.stands(back.Handle, "open")
	if now := rig.Tree(w.t, dir); !maps.Equal(now, mine) {
		w.t.Errorf("the copy holds %q, it held %q", now, mine)
	}
	var kept struct {
		Preserved string `json:"preserved"`
	}
	gone := acts("remove_agent_workspace", "retire-1", map[string]any{"handle": back.Handle})
	if err := json.Unmarshal(gone.Data, &kept); err != nil || kept.Preserved == "" {
		w.t.Fatalf("removed: %s, %v", gone.Data, err)
	}
	w.stands(back.Handle, "retired")
	var restored struct {
		Path string `json:"path"`
	}
	again := acts("resume_workspace", "resume-2", map[string]any{"ws": kept.Preserved})
	if err := json.Unmarshal(again.Data, &restored); err != nil {
		w.t.Fatal(err)
	}
	if now := rig.Tree(w.t, restored.Path); !maps.Equal(now, mine) {
		w.t.Errorf("the copy of what was kept holds %q, it held %q", now, mine)
	}
	w.stands(again.Handle, "open")
	drafts, err := filepath.Glob(filepath.Join(w.g.Home, "state", "snapshots", ".draft-*"))
	if err != nil || len(drafts) > 1 { // one of a daemon that still runs is cleared by the next one
		w.t.Errorf("left over: %q, %v", drafts, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		w.t.Errorf("the copy that was removed: %v", err)
	}
	w.aside()
	w.looked()
}
