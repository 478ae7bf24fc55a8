//go:build unix

package work

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// works is a bench with a workspace in which builds are made.
type works struct {
	*bench
	handle string
	w      openedWorkspace
	n      int
}

func newWorks(t *testing.T) *works {
	t.Helper()
	w := &works{bench: newBench(t)}
	if err := os.WriteFile(filepath.Join(w.root, "source.txt"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	a := w.call(t, "create_agent_workspace", `{"project":"app","purpose":"builds","mutable":["."],"operation_id":"create-01"}`)
	w.handle, w.w = a.Handle, read[openedWorkspace](t, a)
	return w
}

// produce starts a producer, and waits for what becomes of it.
func (w *works) produce(t *testing.T, shell, more string) generationShown {
	t.Helper()
	return w.became(t, w.start(t, shell, more).Candidate)
}

func (w *works) start(t *testing.T, shell, more string) startedJob {
	t.Helper()
	w.n++
	return read[startedJob](t, w.call(t, producerTool,
		`{"handle":%q,"shell":%q,"outputs":["out"],"operation_id":"produce-%03d","distinct_from":"produce-%03d"%s}`, w.handle, shell, w.n, w.n-1, more))
}

// became waits until a candidate is ready or rejected.
func (w *works) became(t *testing.T, candidate string) generationShown {
	t.Helper()
	for {
		g := read[generationShown](t, w.call(t, "generation_status", `{"build_id":%q,"wait_ms":20000}`, candidate))
		if !g.State.UnderWay() {
			return g
		}
	}
}

// consume runs a consumer on a build to its verdict.
func (w *works) consume(t *testing.T, build, argv, more string) (briefAudit, jobShown, operation.Answer) {
	t.Helper()
	w.n++
	a := w.call(t, "start_verified_workspace_consumer", `{"build_id":%q,"argv":%s,"operation_id":"consume-%03d"%s}`, build, argv, w.n, more)
	if a.Refusal != nil {
		return briefAudit{}, jobShown{}, a
	}
	job := read[startedJob](t, a)
	shown := w.until(t, job.Job, "its verdict", func(j jobShown) bool { return j.Audit != nil && j.Audit.State.Final() })
	return *shown.Audit, shown, a
}

// TestBuild: a producer's outputs are sealed, found by their exact id, seen by a consumer, and given up.
func TestBuild(t *testing.T) {
	w := newWorks(t)
	g := w.produce(t, `mkdir -p out/empty; cp source.txt out/a; printf '#!/bin/sh\n' > out/run; chmod 700 out/run; ln -s a out/latest`, `,"validators":[{"argv":["test","-f","out/a"]}]`)
	if g.State != workspace.GenReady || !workspace.IsBuildID(g.Build) || g.Files != 2 || !strings.HasSuffix(g.Build, g.TreeHash[:12]) {
		t.Fatalf("the build: %+v", g)
	}
	raw, err := os.ReadFile(filepath.Join(g.Path, "manifest"))
	if err != nil || digest(raw) != g.TreeHash || !strings.Contains(string(raw), "\nd out/empty\n") {
		t.Errorf("the manifest %s: %v", raw, err)
	}
	for name, mode := range map[string]os.FileMode{"out/a": 0o444, "out/run": 0o555, "out": 0o555 | os.ModeDir, ".": 0o555 | os.ModeDir} {
		if info, err := os.Lstat(filepath.Join(g.Path, "tree", name)); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	verified := read[actedOn](t, w.call(t, "verify_generation", `{"build_id":%q}`, g.Build))
	if verified.Build != g.Build {
		t.Errorf("verified: %+v", verified)
	}
	audit, job, _ := w.consume(t, g.Build, `["cat","out/a"]`, "")
	if audit.State != workspace.AuditDone || audit.Verdict != workspace.Pass || audit.Pre != g.TreeHash || audit.Post != g.TreeHash || job.Stdout.Text != "one\n" {
		t.Errorf("the audit: %+v, %+v", audit, job.Stdout)
	}
	if audit, _, _ := w.consume(t, g.Build, `["false"]`, ""); audit.Verdict != workspace.Fail {
		t.Errorf("an audit that fails: %+v", audit)
	}
	if audit, _, _ := w.consume(t, g.Build, `["sh","-c","echo two > out/a; cat out/a"]`, `,"view":"private_copy"`); audit.Verdict != workspace.Pass {
		t.Errorf("an audit of a copy that is changed: %+v", audit)
	}
	for _, id := range []string{g.Build[:len(g.Build)-1] + "x", "latest", g.Build[:9]} {
		a := w.call(t, "start_verified_workspace_consumer", `{"build_id":%q,"argv":["true"],"operation_id":"consume-bad"}`, id)
		refused(t, a, workspace.UnknownBuild, fault.AfterFix)
		if newest, _ := a.Refusal.Details["newest"].([]string); !slices.Equal(newest, []string{g.Build}) {
			t.Errorf("%s: %+v", id, a.Refusal.Details)
		}
	}
	retained := read[actedOn](t, w.call(t, "retain_generation", `{"build_id":%q,"operation_id":"retain-01"}`, g.Build))
	if !retained.Retained {
		t.Errorf("retained: %+v", retained)
	}
	read[actedOn](t, w.call(t, "release_generation", `{"build_id":%q,"operation_id":"release-01"}`, g.Build))
	if _, err := os.Lstat(filepath.Join(g.Path, "tree")); !os.IsNotExist(err) {
		t.Errorf("its bytes: %v", err)
	}
	for _, name := range []string{"manifest", "statement.json"} {
		if _, err := os.Lstat(filepath.Join(g.Path, name)); err != nil {
			t.Error(err)
		}
	}
	if after := w.became(t, g.Build); after.State != workspace.GenReleased || len(after.Audits) != 3 || after.Retained {
		t.Errorf("after its release: %+v", after)
	}
	_, _, a := w.consume(t, g.Build, `["true"]`, "")
	refused(t, a, workspace.UnknownBuild, fault.AfterFix)
}

var _ = tree.Build{}
