package crashtest

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// TestRecoveryWaitsForProject: a batch that was cut off is not carried on in another directory that has the place of its project
// meanwhile. When the project is back, it is.
func TestRecoveryWaitsForProject(t *testing.T) {
	w := cut(t, "fs.exchange.after#1", nil, "")
	w.register()
	args := map[string]any{"edits": []edit{{"op": "create", "path": "a", "content": "a"}, {"op": "create", "path": "b", "content": "b"}, {"op": "create", "path": "c", "content": "c"}}}
	w.dies("edit_files", "edit-three", args)
	away := w.dir + "-away"
	if err := os.Rename(w.dir, away); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w.write("a", "somebody else's")
	w.g.Serve()
	body, err := w.body("edit_files", "edit-three", args)
	if err != nil {
		t.Fatal(err)
	}
	if waits, err := w.post(body); err != nil || waits.code() != "OPERATION_IN_PROGRESS" {
		t.Errorf("in another directory: %+v, %v", waits, err)
	}
	w.whole("in another directory", map[string]string{"a": "somebody else's"})
	w.g.Must("daemon", "stop")
	w.g.Wait()
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, w.dir); err != nil {
		t.Fatal(err)
	}
	if done := w.again("edit_files", "edit-three", args); !done.OK || !done.Operation.Recovered {
		t.Errorf("when it is back: %+v", done)
	}
	is := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		raw, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		is[name] = string(raw)
	}
	if want := map[string]string{"a": "a", "b": "b", "c": "c"}; !maps.Equal(is, want) {
		t.Errorf("the project holds %q", is)
	}
}
