//go:build unix

package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

func (w *works) integrate(t *testing.T, more string) operation.Answer {
	t.Helper()
	w.n++
	return w.call(t, integrateTool, `{"handle":%q,"operation_id":"integrate-%03d"%s}`, w.handle, w.n, more)
}

// TestRequireBuild: a workspace comes into its project with a build only as that is, and with require_audit only when a consumer
// has passed exactly it.
func TestRequireBuild(t *testing.T) {
	w := newWorks(t)
	const shell = `mkdir -p out/empty; cp source.txt out/a; printf '#!/bin/sh\n' > out/run; chmod 700 out/run; ln -sf a out/latest`
	g := w.produce(t, shell, "")
	build := `,"require_build":"` + g.Build + `"`
	audited := build + `,"require_audit":"pass"`
	plan := func(more string) operation.Answer {
		return w.call(t, integrateTool, `{"handle":%q,"mode":"plan"%s}`, w.handle, more)
	}
	is := func(a operation.Answer, code operation.Code, word string) {
		t.Helper()
		refused(t, a, code, fault.AfterFix)
		if !strings.Contains(a.Refusal.Message, word) {
			t.Errorf("%s: %q is missing", a.Refusal.Message, word)
		}
	}
	for more, word := range map[string]string{`,"require_audit":"pass"`: "require_build", build + `,"require_audit":"fail"`: "pass is"} {
		is(w.integrate(t, more), operation.ArgumentInvalid, word)
	}
	is(w.integrate(t, `,"require_build":"b_none"`), workspace.UnknownBuild, "there is no build")
	if a := plan(build); a.Refusal != nil || read[integrated](t, a).Build != g.Build {
		t.Errorf("a plan with what the build is: %+v", a.Refusal)
	}
	is(plan(audited), workspace.AuditRequired, "no consumer has passed it")
	w.consume(t, g.Build, `["false"]`, "")
	is(w.integrate(t, audited), workspace.AuditRequired, "no consumer has passed it")
	audit, _, _ := w.consume(t, g.Build, `["true"]`, "")

	// whatever differs is named: another byte, another mode, another target, something more, something less
	at := func(name string) string { return filepath.Join(w.w.Path, "out", name) }
	for what, change := range map[string]struct {
		path     string
		do, undo func() error
	}{
		"bytes":   {"out/a is changed", func() error { return os.WriteFile(at("a"), []byte("onf\n"), 0o644) }, func() error { return os.WriteFile(at("a"), []byte("one\n"), 0o644) }},
		"mode":    {"out/run is changed", func() error { return os.Chmod(at("run"), 0o600) }, func() error { return os.Chmod(at("run"), 0o700) }},
		"target":  {"out/latest is changed", func() error { return relink(at("latest"), "run") }, func() error { return relink(at("latest"), "a") }},
		"added":   {"out/new is added", func() error { return os.WriteFile(at("new"), nil, 0o644) }, func() error { return os.Remove(at("new")) }},
		"removed": {"out/empty is gone", func() error { return os.Remove(at("empty")) }, func() error { return os.Mkdir(at("empty"), 0o755) }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		a := w.integrate(t, audited)
		is(a, workspace.AuditRequired, change.path)
		if d, _ := a.Refusal.Details["difference"].(workspace.Difference); len(slices.Concat(d.Added, d.Changed, d.Gone)) != 1 {
			t.Errorf("%s: the difference %+v", what, a.Refusal.Details)
		}
		if err := change.undo(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(w.root, "out")); !os.IsNotExist(err) {
		t.Errorf("something was applied: %v", err)
	}
	// what is beside its outputs is not a part of the build
	w.w.write(t, "notes.txt", "beside\n")
	done := read[integrated](t, w.integrate(t, audited+`,"keep_open":true`))
	if done.Build != g.Build || done.Audit != audit.ID || !slices.ContainsFunc(done.Applied, func(a appliedPath) bool { return a.Path == "out/a" }) {
		t.Errorf("integrated: %+v", done)
	}
	if raw, err := os.ReadFile(filepath.Join(w.root, "out/a")); string(raw) != "one\n" || err != nil {
		t.Errorf("in the project: %q, %v", raw, err)
	}
}

func relink(path, target string) error {
	if err := os.Remove(path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

// TestRequireBuildPlanned: what is held against the build is what would be applied. A workspace that is something else while it is
// compared with its BASE, and the build while it is compared with that, does not come in.
func TestRequireBuildPlanned(t *testing.T) {
	w := newWorks(t)
	g := w.produce(t, `mkdir -p out/empty; cp source.txt out/a; printf '#!/bin/sh\n' > out/run; chmod 700 out/run; ln -sf a out/latest`, "")
	at := func(name string) string { return filepath.Join(w.w.Path, "out", name) }
	asPlanned := operation.Refuse(operation.ArgumentInvalid, "as planned")
	whole := w.tools[integrateTool].begin
	held := func(what, path string, do, undo func() error) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		w.tools[integrateTool].begin = func(ctx context.Context, s *Service, t *turn) (effect, error) {
			i, err := s.planIntegration(ctx, t, session.ActRead)
			if err != nil {
				return nil, err
			}
			defer i.close()
			if err := undo(); err != nil {
				return nil, err
			}
			i.in.Build = g.Build
			if err := i.required(ctx); err != nil {
				return nil, err
			}
			return nil, asPlanned
		}
		a := w.integrate(t, "")
		w.tools[integrateTool].begin = whole
		if path == "" {
			refused(t, a, asPlanned.Code, fault.AfterFix)
			return
		}
		refused(t, a, workspace.AuditRequired, fault.AfterFix)
		if !strings.Contains(a.Refusal.Message, path+" would not come into the project") {
			t.Errorf("%s: %s", what, a.Refusal.Message)
		}
	}
	nothing := func() error { return nil }
	held("all of it is planned", "", nothing, nothing)
	aside := filepath.Join(filepath.Dir(w.w.Path), "aside")
	held("nothing is planned", "out", func() error { return os.Rename(at(""), aside) }, func() error { return os.Rename(aside, at("")) })
	for _, base := range []bool{false, true} { // whether BASE has the build
		if base {
			read[integrated](t, w.integrate(t, `,"keep_open":true`))
			held("nothing is to be done", "", nothing, nothing)
		}
		for what, change := range map[string]struct {
			path     string
			do, undo func() error
		}{
			"bytes":     {"out/a", func() error { return os.WriteFile(at("a"), []byte("onf\n"), 0o644) }, func() error { return os.WriteFile(at("a"), []byte("one\n"), 0o644) }},
			"mode":      {"out/run", func() error { return os.Chmod(at("run"), 0o600) }, func() error { return os.Chmod(at("run"), 0o700) }},
			"target":    {"out/latest", func() error { return relink(at("latest"), "run") }, func() error { return relink(at("latest"), "a") }},
			"added":     {"out/new", func() error { return os.WriteFile(at("new"), nil, 0o644) }, func() error { return os.Remove(at("new")) }},
			"removed":   {"out/a", func() error { return os.Remove(at("a")) }, func() error { return os.WriteFile(at("a"), []byte("one\n"), 0o644) }},
			"directory": {"out/empty", func() error { return os.Remove(at("empty")) }, func() error { return os.Mkdir(at("empty"), 0o755) }},
		} {
			held(what, change.path, change.do, change.undo)
		}
	}
}

// TestRequireBuildMerged: what is merged with a change of the project is in no build; a build that is released meanwhile is none.
func TestRequireBuildMerged(t *testing.T) {
	w := &works{bench: newBench(t)}
	lines := ""
	for n := range 20 {
		lines += fmt.Sprintf("line %d\n", n)
	}
	if err := os.WriteFile(filepath.Join(w.root, "source.txt"), []byte("first\n"+lines+"last\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a := w.call(t, "create_agent_workspace", `{"project":"app","purpose":"builds","mutable":["."],"operation_id":"create-01"}`)
	w.handle, w.w = a.Handle, read[openedWorkspace](t, a)
	w.n++
	job := read[startedJob](t, w.call(t, producerTool, `{"handle":%q,"shell":"sed -i s/first/FIRST/ source.txt","outputs":["source.txt"],"operation_id":"produce-001"}`, w.handle))
	g := w.became(t, job.Candidate)
	if err := os.WriteFile(filepath.Join(w.root, "source.txt"), []byte("first\n"+lines+"LAST\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	refusal := w.integrate(t, `,"require_build":"`+g.Build+`"`)
	refused(t, refusal, workspace.AuditRequired, fault.AfterFix)
	if !strings.Contains(refusal.Refusal.Message, "source.txt would be merged") {
		t.Errorf("%s", refusal.Refusal.Message)
	}
	// A merge that comes to what the project has is one, too: the project has more than was built.
	if err := os.WriteFile(filepath.Join(w.root, "source.txt"), []byte("FIRST\n"+lines+"LAST\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if refusal = w.integrate(t, `,"require_build":"`+g.Build+`"`); refusal.Refusal == nil || !strings.Contains(refusal.Refusal.Message, "source.txt would be merged") {
		t.Errorf("%+v %v", refusal, refusal.Refusal)
	}
	if err := os.WriteFile(filepath.Join(w.root, "source.txt"), []byte("first\n"+lines+"last\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	whole := w.tools[integrateTool].begin
	w.tools[integrateTool].begin = func(ctx context.Context, s *Service, t *turn) (effect, error) {
		e, err := whole(ctx, s, t)
		if err == nil {
			s.Do(ctx, Call{Tool: "release_generation", Args: json.RawMessage(`{"build_id":"` + g.Build + `","operation_id":"release-01"}`), Principal: t.Principal})
		}
		return e, err
	}
	refused(t, w.integrate(t, `,"require_build":"`+g.Build+`"`), workspace.UnknownBuild, fault.AfterFix)
	if raw, err := os.ReadFile(filepath.Join(w.root, "source.txt")); !strings.HasPrefix(string(raw), "first") || err != nil {
		t.Errorf("in the project: %.20q, %v", raw, err)
	}
}

// TestBaseBuild: a workspace begins with the bytes of a build in place of what the project has there; what is done then is told
// against them, and comes into the project where that has not gone on itself.
func TestBaseBuild(t *testing.T) {
	w := newWorks(t)
	g := w.produce(t, `mkdir -p out/sub/empty; cp source.txt out/a; cp source.txt out/sub/b; printf '#!/bin/sh\n' > out/run; chmod 700 out/run; ln -s a out/latest`, "")
	read[integrated](t, w.integrate(t, `,"keep_open":true`))
	for name, bytes := range map[string]string{"out/sub/b": "the project has gone on\n", "out/other": "only in the project\n"} {
		if err := os.WriteFile(filepath.Join(w.root, name), []byte(bytes), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	create := func(base, id, mutable string) operation.Answer {
		return w.call(t, "create_agent_workspace", `{"project":"app","purpose":"a repair","mutable":[%q],"on_overlap":"allow","base":%q,"operation_id":%q,"distinct_from":"create-01"}`, mutable, base, id)
	}
	w.call(t, "suspend_workspace", `{"handle":%q,"reason":"later","operation_id":"suspend-01"}`, w.call(t, "workspace_status", `{"handle":%q}`, w.w.ID).Handle)
	refused(t, create("b_none", "create-02", "out"), workspace.UnknownBuild, fault.AfterFix)
	a := create(g.Build, "create-03", "out")
	made := read[created](t, a)
	if made.Build != g.Build || made.Files != g.Files+1 {
		t.Fatalf("%+v", made)
	}
	for name, want := range map[string]string{"out/a": "one\n", "out/sub/b": "one\n", "source.txt": "one\n"} {
		if raw, err := os.ReadFile(filepath.Join(made.Path, name)); string(raw) != want || err != nil {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
	}
	for name, mode := range map[string]os.FileMode{"out/a": 0o644, "out/run": 0o755, "out": os.ModeDir | 0o755, "out/sub/empty": os.ModeDir | 0o755} {
		if info, err := os.Lstat(filepath.Join(made.Path, name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(made.Path, "out/other")); !os.IsNotExist(err) {
		t.Errorf("what the project has at the outputs: %v", err)
	}
	if all, err := os.ReadDir(filepath.Dir(made.Path)); err != nil || slices.ContainsFunc(all, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), ".laid") }) {
		t.Errorf("what is left beside the copy: %v, %v", all, err)
	}
	clean := read[workspaceShown](t, w.call(t, "workspace_status", `{"handle":%q}`, a.Handle))
	if clean.Dirty != "no" || len(clean.Changes) != 0 {
		t.Errorf("a new one: %+v", clean)
	}
	one := openedWorkspace{ID: made.ID, Path: made.Path}
	one.write(t, "out/a", "repaired\n")
	if shown := read[workspaceShown](t, w.call(t, "workspace_status", `{"handle":%q,"diff":"patch"}`, a.Handle)); len(shown.Changes) != 1 || !strings.Contains(shown.Patch, "-one\n+repaired\n") {
		t.Errorf("what was done: %+v", shown)
	}
	done := read[integrated](t, w.call(t, integrateTool, `{"handle":%q,"operation_id":"integrate-07"}`, a.Handle))
	if len(done.Applied) != 1 || len(done.Conflicts) != 0 {
		t.Errorf("integrated: %+v", done)
	}
	for name, want := range map[string]string{"out/a": "repaired\n", "out/sub/b": "the project has gone on\n", "out/other": "only in the project\n"} {
		if raw, err := os.ReadFile(filepath.Join(w.root, name)); string(raw) != want || err != nil {
			t.Errorf("in the project, %s: %q, %v", name, raw, err)
		}
	}

	// a link where the outputs are would lead out of the workspace: it is refused, and nothing of the attempt is left
	if err := errors.Join(os.RemoveAll(filepath.Join(w.root, "out")), os.Symlink(t.TempDir(), filepath.Join(w.root, "out"))); err != nil {
		t.Fatal(err)
	}
	sub := read[startedJob](t, w.call(t, producerTool, `{"handle":%q,"argv":["true"],"outputs":["deep/a"],"operation_id":"produce-08"}`, w.open(t, `mkdir deep; echo x > deep/a`)))
	deep := w.became(t, sub.Candidate)
	if err := os.Symlink("out", filepath.Join(w.root, "deep")); err != nil {
		t.Fatal(err)
	}
	refused(t, create(deep.Build, "create-09", "source.txt"), operation.Code(tree.NotADirectory), fault.AfterFix)

	// and one bit of the build is one too many
	stored := filepath.Join(g.Path, "tree/out/a")
	if err := errors.Join(os.Chmod(stored, 0o644), os.WriteFile(stored, []byte("onf\n"), 0o644), os.Chmod(stored, 0o444)); err != nil {
		t.Fatal(err)
	}
	refused(t, create(g.Build, "create-10", "source.txt"), workspace.BuildCorrupt, fault.Never)
	refused(t, create(g.Build, "create-11", "source.txt"), workspace.BuildCorrupt, fault.Never)
}

// open makes another workspace, and does something in it.
func (w *works) open(t *testing.T, shell string) (handle string) {
	t.Helper()
	w.n++
	a := w.call(t, "create_agent_workspace", `{"project":"app","purpose":"another","mutable":["deep"],"on_overlap":"allow","operation_id":"open-%04d"}`, w.n)
	cmd := exec.Command("sh", "-c", shell)
	cmd.Dir = read[openedWorkspace](t, a).Path
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return a.Handle
}
