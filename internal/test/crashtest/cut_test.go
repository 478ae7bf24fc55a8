package crashtest

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/operation"
	"mcpx/internal/test/rig"
)

// cut is an agent whose daemon dies once, at a point, and is started again by the test: in between the test looks at what is
// there, or changes it. A point of another kind of process has its kind before it, as in supervise/NAME#1.
func cut(t *testing.T, at string, settings script, policy string) *worker {
	t.Helper()
	if rig.Look(os.Getpid()).Parent == 0 {
		t.Skip("skip: crash points: this system does not show its processes")
	}
	g := rig.New(t)
	g.Binary = rig.Tagged(t, "crash")
	if at != "" {
		if !strings.Contains(at, "/") {
			at = "daemon/" + at
		}
		settings = append(slices.Clone(settings), "MCPX_CRASH_AT="+at, "MCPX_CRASH_ONCE="+filepath.Join(t.TempDir(), "once"))
	}
	g.Extra = settings
	writePolicy(t, g, policy)
	g.Serve()
	p := &play{t: t, g: g, record: filepath.Join(g.Home, "alpha.record")}
	w := &worker{play: p, dir: filepath.Join(t.TempDir(), "shop"), is: map[string]string{}}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return w
}

// dies makes a call that its daemon does not survive.
func (w *worker) dies(tool, operation string, args map[string]any) {
	w.t.Helper()
	body, err := w.body(tool, operation, args)
	if err != nil {
		w.t.Fatal(err)
	}
	if r, err := w.post(body); err == nil {
		w.t.Fatalf("%s was answered: %+v", operation, r)
	}
	for deadline := time.Now().Add(stepWithin); !w.g.Ended(); time.Sleep(pollEvery) {
		if time.Now().After(deadline) {
			w.t.Fatalf("%s killed nobody", operation)
		}
	}
}

// again is the retry, at the next daemon.
func (w *worker) again(tool, operation string, args map[string]any) result {
	w.t.Helper()
	w.g.Serve()
	return w.do(tool, operation, args, nil)
}

// TestRT56EveryPath: RT-56. The daemon is killed after each of the ten paths of a batch. All ten are there after the
// restart. When somebody has changed one that was still to come, the nine that can be are taken back (docs/decisions/0028), and
// when one that cannot be, CONTESTED names exactly that one. A retry has the same answer.
func TestRT56EveryPath(t *testing.T) {
	for k := 1; k <= 10; k++ {
		for _, foreign := range []string{"nobody", "next", "both"} {
			if k == 10 && foreign != "nobody" {
				continue // nothing is still to come
			}
			t.Run(fmt.Sprintf("%d-%s", k, foreign), func(t *testing.T) {
				t.Parallel()
				everyPath(t, k, foreign)
			})
		}
	}
}

func everyPath(t *testing.T, k int, foreign string) {
	w := cut(t, fmt.Sprintf("fs.exchange.after#%d", k), nil, "")
	w.register()
	before, after := map[string]string{}, map[string]string{}
	var edits []edit
	for i := range 10 {
		name := fmt.Sprintf("f%d", i)
		switch i % 3 {
		case 0:
			edits = append(edits, edit{"op": "create", "path": name, "content": name + " new\n"})
		case 1:
			before[name] = name + "\n"
			edits = append(edits, edit{"path": name, "content": name + " new\n"})
		case 2:
			before[name] = name + " new\n"
			edits = append(edits, edit{"op": "rename", "path": name, "to": name + ".to"})
			name += ".to"
		}
		after[name] = fmt.Sprintf("f%d new\n", i)
	}
	for name, content := range before {
		w.write(name, content)
	}
	maps.Copy(w.is, before)
	for _, e := range edits {
		if e["op"] != "create" {
			e["expect_sha256"] = w.sum(e["path"].(string))
		}
	}
	args := map[string]any{"edits": edits}
	w.dies("edit_files", "edit-ten-1", args)

	done, next := w.cutOff(after)
	if len(done) != k {
		t.Fatalf("%d paths are done: %v", len(done), done)
	}
	want, code := maps.Clone(after), ""
	if foreign != "nobody" {
		w.write(next, "theirs\n")
		want, code = maps.Clone(before), "CANONICAL_MOVED"
		want[next] = "theirs\n"
	}
	disputed := ""
	if foreign == "both" {
		disputed = done[0]
		w.write(disputed, "theirs, too\n")
		want[disputed], code = "theirs, too\n", "CONTESTED"
	}
	first := w.again("edit_files", "edit-ten-1", args)
	if first.code() != code && (code != "CANONICAL_MOVED" || first.code() != "EXISTS") {
		t.Errorf("it ended as %q, want %q", first.code(), code)
	}
	if code == "" && !first.Operation.Recovered {
		t.Error("nothing says that it was recovered")
	}
	if code == "CONTESTED" {
		var paths []string
		for _, x := range first.Error.Details.Paths {
			paths = append(paths, x.Path)
		}
		from, renamed := strings.CutSuffix(disputed, ".to")
		if !slices.Equal(paths, []string{from}) {
			t.Errorf("contested are %q, want %s", paths, from)
		}
		if renamed { // it is not where it was
			delete(want, from)
		}
	}
	w.whole("edit-ten-1", want)
	if second := w.do("edit_files", "edit-ten-1", args, nil); second.code() != first.code() || string(second.Data) != string(first.Data) {
		t.Errorf("the retry has another answer: %q, %q", second.code(), first.code())
	}
	w.whole("edit-ten-1", want)
}

// cutOff says which paths of a batch are as they shall be, by the names that they have then, and one that is not.
func (w *worker) cutOff(after map[string]string) (done []string, next string) {
	w.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(after)) {
		raw, err := os.ReadFile(filepath.Join(w.dir, name))
		switch {
		case err == nil && string(raw) == after[name]:
			done = append(done, name)
		case next == "":
			next = strings.TrimSuffix(name, ".to")
		}
	}
	return done, next
}

func (w *worker) write(name, content string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// TestRT65RenameKilled: RT-65. Wherever a rename is cut off, the file is under its old name until it is under the new one, and
// in the end under that alone, with its permissions.
func TestRT65RenameKilled(t *testing.T) {
	for _, at := range []string{"fs.exchange.before#1", "fs.renamed#1", "fs.exchange.after#1", "fs.dirsync.after#1", "op.record.before#1"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			w := cut(t, at, nil, "")
			w.register()
			w.write("run.sh", "#!/bin/sh\n")
			if err := os.Chmod(filepath.Join(w.dir, "run.sh"), 0o750); err != nil {
				t.Fatal(err)
			}
			w.is["run.sh"] = "#!/bin/sh\n"
			args := map[string]any{"edits": []edit{{"op": "rename", "path": "run.sh", "to": "start.sh", "expect_sha256": w.sum("run.sh")}}}
			w.dies("edit_files", "rename-one-1", args)
			found := 0
			for _, name := range []string{"run.sh", "start.sh"} {
				raw, err := os.ReadFile(filepath.Join(w.dir, name))
				if err == nil && string(raw) == w.is["run.sh"] {
					found++
				}
			}
			if found == 0 {
				t.Error("the file is under neither name")
			}
			if last := w.again("edit_files", "rename-one-1", args); !last.OK {
				t.Errorf("%+v", last)
			}
			w.whole("rename-one-1", map[string]string{"start.sh": w.is["run.sh"]})
			if info, err := os.Stat(filepath.Join(w.dir, "start.sh")); err != nil || info.Mode().Perm() != 0o750 {
				t.Errorf("%v, %v", info, err)
			}
			w.clean()
		})
	}
}

// effects are one operation of each class, with what is there before and after it.
var effects = []struct {
	name     string
	settings script
	policy   string
	servers  bool // alpha is added
	tool     string
	args     func(w *worker) map[string]any
	times    func(w *worker) int // how often it happened
}{
	{name: "files", tool: "edit_files", args: func(*worker) map[string]any {
		return map[string]any{"edits": []edit{{"op": "create", "path": "a", "content": "a\n"}}}
	}, times: func(w *worker) int {
		found, err := filepath.Glob(filepath.Join(w.dir, "*"))
		if err != nil {
			w.t.Fatal(err)
		}
		return len(found)
	}},
	{name: "command", settings: commands, policy: allowTee, tool: "execute_command", args: func(*worker) map[string]any {
		return tee("cut-00001")
	}, times: func(w *worker) int { return w.runs("cut-00001") }},
	{name: "upstream", settings: extensions, policy: allowAlpha, servers: true, tool: "call_tool", args: func(*worker) map[string]any {
		return map[string]any{"id": "alpha/echo", "arguments": map[string]any{"message": "x", "key": "cut-00001"}}
	}, times: func(w *worker) int { return readRecords(w.t, w.record).times["cut-00001"] }},
}

// TestDW7Claimed: DW-7. Killed after the claim, nothing has happened; the same call is the second attempt, and it happens
// once.
func TestDW7Claimed(t *testing.T) {
	for _, e := range effects {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			w := cut(t, "op.claim.after#1", e.settings, e.policy)
			if e.servers {
				w.add("alpha")
			}
			w.register()
			w.dies(e.tool, "cut-00001", e.args(w))
			if n := e.times(w); n != 0 {
				t.Errorf("it happened %d times before its claim was used", n)
			}
			w.g.Serve()
			if n := e.times(w); n != 0 {
				t.Errorf("it happened %d times by itself", n)
			}
			last := w.do(e.tool, "cut-00001", e.args(w), nil)
			if n := e.times(w); !last.OK || n != 1 || last.Operation.Attempts != 2 {
				t.Errorf("the second attempt: %+v, it happened %d times", last, n)
			}
			w.clean()
		})
	}
}

// clean fails when something that was staged is left over.
func (w *worker) clean() {
	w.t.Helper()
	left, err := filepath.Glob(filepath.Join(w.g.Home, "state", "txn", "*"))
	if err != nil || len(left) > 0 {
		w.t.Errorf("left over: %v, %v", left, err)
	}
}

// TestDW16Unrecorded: DW-16. Killed between the effect and its record, an edit, a removal and an integration are told as they would have
// been.
func TestDW16Unrecorded(t *testing.T) {
	batch := func(w *worker) map[string]any {
		maps.Copy(w.is, map[string]string{"b": "b\n", "c": "c\n"})
		return map[string]any{"edits": []edit{
			{"op": "create", "path": "a", "content": "a\n"},
			{"path": "b", "expect_sha256": w.sum("b"), "append": "more\n"},
			{"op": "rename", "path": "c", "to": "d", "expect_sha256": w.sum("c")},
		}}
	}
	run := func(t *testing.T, at string) (*worker, result) {
		w := cut(t, at, nil, "")
		w.register()
		w.write("b", "b\n")
		w.write("c", "c\n")
		if at == "" {
			return w, w.do("edit_files", "edit-00001", batch(w), nil)
		}
		w.dies("edit_files", "edit-00001", batch(w))
		return w, w.again("edit_files", "edit-00001", batch(w))
	}
	_, twin := run(t, "")
	w, last := run(t, "op.record.before#1")
	if !last.OK || !last.Operation.Recovered || string(last.Data) != string(twin.Data) {
		t.Errorf("an edit that was cut off: %+v\n%s\nits twin\n%s", last, last.Data, twin.Data)
	}
	w.whole("edit-00001", map[string]string{"a": "a\n", "b": "b\nmore\n", "d": "c\n"})
	w.clean()

	remove := func(t *testing.T, at string) (*worker, result, map[string]string, string) {
		w := cut(t, at, nil, "")
		w.heap()
		w.register()
		all := rig.Tree(t, w.dir)
		manifest, asked := w.prepared("prepare-1")
		w.yes(asked)
		args := map[string]any{"action": "submit", "manifest_id": manifest}
		if at == "" {
			return w, w.do("remove_files", "remove-1", args, nil), all, manifest
		}
		w.dies("remove_files", "remove-1", args)
		return w, w.again("remove_files", "remove-1", args), all, manifest
	}
	told := func(w *worker, r result, manifest string) string {
		return strings.NewReplacer(w.g.Home, "HOME", manifest, "MANIFEST").Replace(string(r.Data))
	}
	tw, twin, _, twins := remove(t, "")
	w, last, all, manifest := remove(t, "op.record.before#2") // the first is of prepare
	if !last.OK || !last.Operation.Recovered || told(w, last, manifest) != told(tw, twin, twins) {
		t.Errorf("a removal that was cut off: %+v\n%s\nits twin\n%s", last, told(w, last, manifest), told(tw, twin, twins))
	}
	none := map[string]string{"README.md": all["README.md"]}
	w.holds("remove-1", none)
	w.kept(all, none)

	bring := func(t *testing.T, at string) (*worker, result, map[string]string) {
		w := cut(t, at, script{"MCPX_RUNTIME_WORK=true"}, "")
		w.heap()
		w.register()
		handle, dir := w.workspace("create-1")
		after := w.workIn(dir, rig.Tree(t, w.dir))
		args := map[string]any{"handle": handle, "keep_open": true}
		if at == "" {
			return w, w.do("integrate_agent_workspace", "integrate-1", args, nil), after
		}
		w.dies("integrate_agent_workspace", "integrate-1", args)
		w.holds("integrate-1", after)
		return w, w.again("integrate_agent_workspace", "integrate-1", args), after
	}
	_, twin, _ = bring(t, "")
	w, last, after := bring(t, "op.record.before#2") // the first is of the workspace
	ids := regexp.MustCompile(`int_[0-9A-Z]+`)
	if plain := func(r result) string { return ids.ReplaceAllString(string(r.Data), "int_") }; !last.OK || !last.Operation.Recovered || plain(last) != plain(twin) {
		t.Errorf("an integration that was cut off: %+v\n%s\nits twin\n%s", last, last.Data, twin.Data)
	}
	w.holds("integrate-1", after)
	if _, rev, _ := strings.Cut(last.Handle, "@"); rev != "2" {
		t.Errorf("its handle is %s", last.Handle)
	}
	w.stands(last.Handle, "open")
	w.clean()
}

// TestDW17Unanswered: DW-17. Killed between the record and the answer, the retry has what was recorded, and nothing happens
// again.
func TestDW17Unanswered(t *testing.T) {
	for _, e := range effects {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			w := cut(t, "op.record.after#2", e.settings, e.policy) // the first is of the session
			if e.servers {
				w.add("alpha")
			}
			w.register()
			w.dies(e.tool, "cut-00001", e.args(w))
			n := e.times(w)
			last := w.again(e.tool, "cut-00001", e.args(w))
			if !last.OK || !last.Operation.Replayed || last.Operation.Recovered || n != 1 || e.times(w) != 1 {
				t.Errorf("%+v, it happened %d times before, %d in the end", last, n, e.times(w))
			}
		})
	}
}

// TestDW74BegunElsewhere: DW-74. An edit that a daemon on another machine had begun is neither carried on nor undone by a daemon
// on a copy of its state, and no byte of the database changes, until a person says that the state belongs here.
func TestDW74BegunElsewhere(t *testing.T) {
	if raw, err := os.ReadFile("/etc/machine-id"); err != nil || len(bytes.TrimSpace(raw)) == 0 {
		t.Skip("skip: another host: this machine has no name of its own in /etc/machine-id")
	}
	w := cut(t, "op.dispatch.after#1", nil, "")
	w.register()
	args := map[string]any{"edits": []edit{{"op": "create", "path": "new.txt", "content": "new\n"}}}
	w.dies("edit_files", "edit-else-1", args)
	host := filepath.Join(w.g.Home, "state", "host")
	if err := os.WriteFile(host, []byte(strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := func() map[string]string {
		all := map[string]string{}
		for _, name := range []string{"mcpx.db", "mcpx.db-wal"} {
			raw, err := os.ReadFile(filepath.Join(w.g.Home, "state", name))
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(raw)
		}
		return all
	}
	before := files()
	w.g.Serve()
	body, err := w.body("edit_files", "edit-else-1", args)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := w.post(body); err != nil || r.OK || r.code() != "OPERATION_IN_PROGRESS" {
		t.Errorf("the same call on the copy: %+v, %v", r, err)
	}
	if o, err := w.g.API().Operation(t.Context(), api.OperationRef{Operation: "edit-else-1"}); err != nil || o.State != operation.Dispatched {
		t.Errorf("on the copy it is %s, %v", o.State, err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "new.txt")); err == nil {
		t.Error("it was carried on")
	}
	w.g.Kill()
	if !maps.Equal(files(), before) {
		t.Error("the database has changed")
	}
	w.g.Run("doctor", "--rehome") // what else it finds on this machine is another matter
	if r := w.again("edit_files", "edit-else-1", args); !r.OK || !r.Operation.Recovered {
		t.Errorf("after the rehome: %+v (%s)", r, r.code())
	}
	if raw, err := os.ReadFile(filepath.Join(w.dir, "new.txt")); err != nil || string(raw) != "new\n" {
		t.Errorf("the file is %q, %v", raw, err)
	}
}
