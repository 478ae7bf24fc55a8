package crashtest

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpx/internal/test/rig"
)

// removed is what an agent does with the trash at /mcp: it removes two things after a yes, brings one part back, then the
// rest. After every kill a removal has happened as a whole or not at all, and what is not in the project is in the trash.
func (p *play) removed() {
	w := &worker{play: p, dir: filepath.Join(p.t.TempDir(), "shop"), is: map[string]string{}}
	w.heap()
	w.register()
	all := rig.Tree(w.t, w.dir)
	manifest, asked := w.prepared("prepare-1")
	w.yes(asked)
	none := map[string]string{"README.md": all["README.md"]}
	w.trash("remove-1", map[string]any{"action": "submit", "manifest_id": manifest}, all, none)
	w.kept(all, none)
	part := maps.Clone(none)
	for _, name := range []string{"old", "old/sub", "old/sub/run"} {
		part[name] = all[name]
	}
	w.trash("restore-1", map[string]any{"action": "restore", "manifest_id": manifest, "paths": []string{"old/sub"}}, none, part)
	w.kept(all, part)
	w.trash("restore-2", map[string]any{"action": "restore", "manifest_id": manifest}, part, all)
	w.kept(all, all)
	w.looked()
}

// heap makes the project: a file that stays, a tree, and a file.
func (w *worker) heap() {
	w.t.Helper()
	for name, content := range map[string]string{"README.md": "stays\n", "old/a.txt": "a\n", "old/sub/run": "#!/bin/sh\n", "old.txt": "old\n"} {
		path := filepath.Join(w.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o640); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := os.Symlink("../README.md", filepath.Join(w.dir, "old", "link")); err != nil {
		w.t.Fatal(err)
	}
}

// holds fails unless the project is as one of the trees.
func (w *worker) holds(operation string, trees ...map[string]string) {
	w.t.Helper()
	if now := rig.Tree(w.t, w.dir); !slices.ContainsFunc(trees, func(one map[string]string) bool { return maps.Equal(one, now) }) {
		w.t.Errorf("%s: the project holds %q, want one of %q", operation, now, trees)
	}
}

// prepared freezes what is to be removed. It gives the manifest and the question about it.
func (w *worker) prepared(operation string) (manifest, asked string) {
	w.t.Helper()
	w.is["old.txt"] = "old\n"
	last := w.do("remove_files", operation, map[string]any{"action": "prepare", "targets": []map[string]any{
		{"path": "old"}, {"path": "old.txt", "expect_sha256": w.sum("old.txt")},
	}}, nil)
	var answer struct {
		Manifest string `json:"manifest_id"`
		Waiting  struct {
			Approval string `json:"approval_id"`
		} `json:"waiting"`
	}
	if err := json.Unmarshal(last.Data, &answer); err != nil || answer.Waiting.Approval == "" {
		w.t.Fatalf("%s: %+v %s (%v)", operation, last, last.Data, err)
	}
	return answer.Manifest, answer.Waiting.Approval
}

// yes is a person who approves, again when the daemon is killed meanwhile.
func (w *worker) yes(id string) {
	w.t.Helper()
	var why error
	for deadline := time.Now().Add(stepWithin); time.Now().Before(deadline); time.Sleep(pollEvery) {
		if why = w.sayYes(id); why == nil {
			return
		}
	}
	w.t.Fatalf("%s is not approved: %v", id, why)
}

// trash makes a call that takes the project from one tree to another.
func (w *worker) trash(operation string, args map[string]any, from, to map[string]string) {
	w.t.Helper()
	if last := w.do("remove_files", operation, args, func() { w.holds(operation, from, to) }); !last.OK {
		w.t.Fatalf("%s: %s", operation, last.code())
	}
	w.holds(operation, to)
}

// kept fails unless the trash of the user holds what the project had and has not, and nothing else.
func (w *worker) kept(had, has map[string]string) {
	w.t.Helper()
	var want, found []string
	for name, one := range had {
		if _, still := has[name]; !still && !strings.HasPrefix(one, "d") {
			want = append(want, one)
		}
	}
	trash := filepath.Join(w.g.Home, "user", ".local", "share", "Trash")
	for _, one := range rig.Tree(w.t, filepath.Join(trash, "files")) {
		if !strings.HasPrefix(one, "d") {
			found = append(found, one)
		}
	}
	slices.Sort(want)
	slices.Sort(found)
	if !slices.Equal(found, want) {
		w.t.Errorf("the trash holds %q, want %q", found, want)
	}
	if told := rig.Tree(w.t, filepath.Join(trash, "info")); len(want) == 0 && len(told) > 0 {
		w.t.Errorf("the trash is empty and tells of %q", told)
	}
}
