//go:build unix

package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
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

// TestBuildsOfOneProducer: DW-8.
func TestBuildsOfOneProducer(t *testing.T) {
	w := newWorks(t)
	first := w.produce(t, "mkdir -p out; cp source.txt out/a", "")
	w.w.write(t, "source.txt", "two\n")
	second := w.produce(t, "mkdir -p out; cp source.txt out/a", "")
	if first.State != workspace.GenReady || second.State != workspace.GenReady || first.TreeHash == second.TreeHash || first.Producer != second.Producer {
		t.Fatalf("two builds: %+v, %+v", first, second)
	}
	audit, job, a := w.consume(t, first.Build, `["sha256sum","out/a"]`, "")
	if !strings.HasPrefix(job.Stdout.Text, digest([]byte("one\n"))) || audit.Build != first.Build || audit.Verdict != workspace.Pass || audit.Pre != first.TreeHash {
		t.Errorf("it saw %q, and the verdict is %+v", job.Stdout.Text, audit)
	}
	if len(a.Warnings) != 1 || !strings.HasPrefix(a.Warnings[0], "BUILD_SUPERSEDED") || !strings.Contains(a.Warnings[0], second.Build) {
		t.Errorf("the warnings %q", a.Warnings)
	}
	told := read[reconciled](t, w.call(t, "reconcile_project_state", `{"include":["generations"]}`)).Builds
	if len(told) != 1 || told[0].Build != second.Build || told[0].Audit != "" {
		t.Errorf("ready builds: %+v", told)
	}
	if first, second = w.became(t, first.Build), w.became(t, second.Build); first.State != workspace.GenSuperseded || len(first.Audits) != 1 || second.State != workspace.GenReady || len(second.Audits) != 0 {
		t.Errorf("afterwards: %+v, %+v", first, second)
	}
}

// put writes rows like that of a build, of a principal.
func (w *works) put(t *testing.T, build, principal string, n int) {
	t.Helper()
	if err := w.db.Change(t.Context(), func(tx store.Tx) error {
		g, err := tx.GenerationByID(t.Context(), workspace.ByID{ID: build})
		for i := 0; i < n && err == nil; i++ {
			g.Candidate, g.ID, g.Principal = fmt.Sprintf("cand_%s_%d", principal, i), fmt.Sprintf("b_%s_%d", principal, i), principal
			err = tx.PutGeneration(t.Context(), workspace.PutGeneration{Generation: g})
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// TestSuperseded: a build supersedes those that its principal has begun before it, not those of others, and not later ones.
func TestSuperseded(t *testing.T) {
	w := newWorks(t)
	const shell = "mkdir -p out; cp source.txt out/a"
	first := w.produce(t, shell, "")
	w.put(t, first.Build, "eve", 1)
	flag := filepath.Join(t.TempDir(), "go-on")
	slow := w.start(t, shell, `,"validators":[{"argv":["sh","-c","until test -e `+flag+`; do sleep 0.02; done"]}]`)
	for validating := false; !validating; {
		g := read[generationShown](t, w.call(t, "generation_status", `{"build_id":%q}`, slow.Candidate))
		validating = g.State == workspace.GenValidating
	}
	quick := w.produce(t, shell, "")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := w.became(t, slow.Candidate)
	if second.State != workspace.GenSuperseded || second.Ready == "" || w.became(t, quick.Build).State != workspace.GenReady || w.became(t, first.Build).State != workspace.GenSuperseded {
		t.Errorf("the slow one is %+v, the quick one %+v", second, w.became(t, quick.Build))
	}
	if err := w.db.View(t.Context(), func(r store.Reader) error {
		g, err := r.GenerationByID(t.Context(), workspace.ByID{ID: "b_eve_0"})
		if g.State != workspace.GenReady {
			t.Errorf("the one of somebody else is %s", g.State)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestListedGenerations: a list has the caller's own generations, however many there are of others, and says when there are more.
func TestListedGenerations(t *testing.T) {
	w := newWorks(t)
	mine := w.produce(t, "mkdir out; echo one > out/a", "")
	type list struct {
		Generations []briefGeneration
		More        bool
	}
	w.put(t, mine.Build, "eve", mostListed+1)
	if got := read[list](t, w.call(t, "generation_status", `{"producer":%q}`, mine.Producer)); got.More || len(got.Generations) != 1 || got.Generations[0].Build != mine.Build {
		t.Errorf("mine are %+v", got)
	}
	w.put(t, mine.Build, session.Operator, mostListed)
	if got := read[list](t, w.call(t, "generation_status", `{"producer":%q}`, mine.Producer)); !got.More || len(got.Generations) == 0 {
		t.Errorf("%d are told, and more: %t", len(got.Generations), got.More)
	}
}

// TestRulingOfAProducer: what the rules said of the producer and of every validator is in the log.
func TestRulingOfAProducer(t *testing.T) {
	w := newWorks(t)
	w.produce(t, "mkdir out", `,"validators":[{"argv":["true","first"]},{"argv":["true","second"]}]`)
	all := w.events(t, string(event.PolicyDecided))
	var told struct{ Units []policy.Unit }
	if err := json.Unmarshal(all[len(all)-1].Body, &told); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, u := range told.Units {
		texts = append(texts, u.Text)
	}
	if !slices.Equal(texts, []string{"mkdir out", "true first", "true second"}) {
		t.Errorf("the log has %q", texts)
	}
}

// left are the directories of builds and drafts.
func (w *works) left(t *testing.T) (names []string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(w.state, "generations"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// TestRejected: DW-52, DW-55, and outputs that can be no build.
func TestRejected(t *testing.T) {
	for _, tt := range []struct{ name, shell, more, why, text string }{
		{"DW-52: a background writer", "mkdir out; echo > out/a; (while sleep 0.05; do echo >> out/a; done) >/dev/null 2>&1 & exit 0", "", workspace.RejectedWriting, "goes on"},
		{"the producer fails", "mkdir out; exit 3", "", workspace.RejectedExit, "exit code 3"},
		{"the producer is not there", "exec nothing-like-this", "", workspace.RejectedExit, "exit code 127"},
		{"no output", "true", "", workspace.RejectedOutput, "is not there"},
		{"a pipe", "mkdir out; mkfifo out/p", "", workspace.RejectedOutput, "special"},
		{"a link that leads out", "mkdir out; ln -s ../../x out/l", "", workspace.RejectedOutput, "leads out"},
		{"two names that are one", "mkdir out; : > out/A; : > out/a", "", workspace.RejectedOutput, "one name"},
		{"DW-55: exit 1", "mkdir out; : > out/a", `,"validators":[{"argv":["true"]},{"argv":["false"]}]`, workspace.RejectedValidation, "exit code 1"},
		{"DW-55: too long", "mkdir out; : > out/a", `,"validators":[{"argv":["sleep","60"],"timeout_s":1}]`, workspace.RejectedValidation, "took too long"},
		{"DW-55: a signal", "mkdir out; : > out/a", `,"validators":[{"argv":["sh","-c","kill -KILL $$"]}]`, workspace.RejectedValidation, "SIGKILL"},
		{"DW-55: it changes a file", "mkdir out; : > out/a", `,"validators":[{"argv":["sh","-c","chmod u+w out out/a; echo x > out/a; touch -d 2001-01-01 out/a"]}]`, workspace.RejectedChanged, "changed"},
		{"DW-55: it adds a file", "mkdir out; : > out/a", `,"validators":[{"argv":["sh","-c","chmod u+w out; echo x > out/b; chmod u-w out; chmod 444 out/b"]}]`, workspace.RejectedChanged, "added"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorks(t)
			g := w.produce(t, tt.shell, tt.more)
			if g.State != workspace.GenRejected || g.Why != tt.why || !strings.Contains(g.Text, tt.text) || g.Build != "" {
				t.Errorf("it is %s, %s: %s", g.State, g.Why, g.Text)
			}
			if left := w.left(t); len(left) != 0 {
				t.Errorf("it left %q", left)
			}
			shown := w.status(t, g.Job, "")
			if shown.Generation == nil || shown.Generation.Why != tt.why {
				t.Errorf("command_status tells %+v", shown.Generation)
			}
		})
	}
}

// TestValidatorOfTheProducer: a program that the producer can write is no validator, whatever it is called by.
func TestValidatorOfTheProducer(t *testing.T) {
	w := newWorks(t)
	program := filepath.Join(w.w.Path, "source.txt")
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "check")
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	for i, called := range []string{"./source.txt", program, link} {
		a := w.call(t, producerTool, `{"handle":%q,"shell":"mkdir out","outputs":["out"],"validators":[{"argv":["true"]},{"argv":[%q]}],"operation_id":"produce-%03d"}`, w.handle, called, 100+i)
		refused(t, a, operation.ArgumentInvalid, fault.AfterFix)
		if a.Refusal != nil && !strings.Contains(a.Refusal.Message, called+" is a file that the producer can write") {
			t.Errorf("%s: %s", called, a.Refusal.Message)
		}
	}
	if _, err := os.Stat(filepath.Join(w.w.Path, "out")); err == nil {
		t.Error("the producer ran")
	}
}

// TestTampered: DW-54.
func TestTampered(t *testing.T) {
	w := newWorks(t)
	for _, tt := range []struct{ name, do, named string }{
		{"one byte", "chmod u+w out/a; printf O | dd of=out/a conv=notrunc status=none; chmod u-w out/a", "out/a"},
		{"a file more", "chmod u+w out; echo > out/c; chmod 444 out/c; chmod u-w out", "out/c"},
		{"permissions", "chmod u+w out/b", "out/b"},
		{"two files exchanged", "chmod u+w out; mv out/a out/x; mv out/b out/a; mv out/x out/b; chmod u-w out", "out/a"},
		{"its manifest", "cd ..; rm -f manifest", "../manifest"},
		{"another manifest", "cd ..; chmod u+w manifest; echo >> manifest", "../manifest"},
		{"its bytes", "cd ..; chmod -R u+w tree; rm -r tree", "."},
		{"all of it", "cd ..; chmod -R u+w .; rm -r \"$PWD\"", "."},
		{"the time alone", "touch -d 2001-01-01 out/a out", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := w.produce(t, "rm -rf out; mkdir out; echo one > out/a; echo two > out/b; echo "+tt.name+" > out/n", "")
			if audit, _, _ := w.consume(t, g.Build, `["true"]`, fmt.Sprintf(`,"distinct_from":"consume-%03d"`, w.n-1)); audit.Verdict != workspace.Pass {
				t.Fatalf("the verdict: %+v", audit)
			}
			do := exec.Command("sh", "-ec", tt.do)
			do.Dir = filepath.Join(g.Path, "tree")
			if out, err := do.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			a := w.call(t, "verify_generation", `{"build_id":%q}`, g.Build)
			after := w.became(t, g.Build)
			if tt.named == "" {
				if !a.OK || after.State != workspace.GenReady || after.Audits[0].EvidenceLost {
					t.Errorf("it is %+v, and %+v", a.Refusal, after)
				}
				return
			}
			refused(t, a, workspace.BuildCorrupt, fault.Never)
			d, _ := a.Refusal.Details["difference"].(workspace.Difference)
			if !slices.Contains(slices.Concat(d.Added, d.Changed, d.Gone), tt.named) {
				t.Errorf("the difference: %+v", d)
			}
			if after.State != workspace.GenCorrupt || len(after.Audits) != 1 || after.Audits[0].Verdict != workspace.Pass || !after.Audits[0].EvidenceLost {
				t.Errorf("afterwards: %+v", after)
			}
			_, _, a = w.consume(t, g.Build, `["cat","out/n"]`, "")
			refused(t, a, workspace.BuildCorrupt, fault.Never)
		})
	}
}

// TestConsumerChangesTheBuild: I17: what changes while a consumer runs has no verdict, whatever its exit code.
func TestConsumerChangesTheBuild(t *testing.T) {
	w := newWorks(t)
	g := w.produce(t, "mkdir out; echo one > out/a", "")
	audit, _, _ := w.consume(t, g.Build, `["sh","-c","chmod u+w out/a; echo two > out/a; chmod u-w out/a"]`, "")
	if audit.State != workspace.AuditInvalid || audit.Why != workspace.InvalidChanged || audit.Verdict != "" || audit.Post == g.TreeHash || audit.Pre != g.TreeHash {
		t.Errorf("the audit: %+v", audit)
	}
	if after := w.became(t, g.Build); after.State != workspace.GenCorrupt {
		t.Errorf("the build: %+v", after)
	}
}

// TestReleaseInUse: DW-58.
func TestReleaseInUse(t *testing.T) {
	w := newWorks(t)
	g := w.produce(t, "mkdir out; echo one > out/a", "")
	flag := filepath.Join(t.TempDir(), "go-on")
	job := read[startedJob](t, w.call(t, "start_verified_workspace_consumer",
		`{"build_id":%q,"argv":["sh","-c","until test -e %s; do sleep 0.02; done"],"operation_id":"consume-100"}`, g.Build, flag))
	w.until(t, job.Job, "its run", func(j jobShown) bool { return j.State == operation.JobRunning })
	a := w.call(t, "release_generation", `{"build_id":%q,"operation_id":"release-1"}`, g.Build)
	refused(t, a, workspace.BuildInUse, fault.AfterWait)
	if a.Refusal.Details["audit_id"] != job.Audit || job.Audit == "" {
		t.Errorf("it names %v, want %s", a.Refusal.Details, job.Audit)
	}
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.until(t, job.Job, "its verdict", func(j jobShown) bool { return j.Audit != nil && j.Audit.State.Final() })
	if a := w.call(t, "release_generation", `{"build_id":%q,"operation_id":"release-1"}`, g.Build); !a.OK {
		t.Fatalf("the release: %+v", a.Refusal)
	}
	if after := w.became(t, g.Build); after.State != workspace.GenReleased || len(after.Audits) != 1 || after.Audits[0].Verdict != workspace.Pass || after.TreeHash != g.TreeHash {
		t.Errorf("afterwards: %+v", after)
	}
	if raw, err := os.ReadFile(filepath.Join(g.Path, "manifest")); err != nil || digest(raw) != g.TreeHash {
		t.Errorf("the manifest: %v", err)
	}
	_, _, a = w.consume(t, g.Build, `["true"]`, "")
	refused(t, a, workspace.UnknownBuild, fault.AfterFix)
}

// copyGate does something when a command is judged once more, in its private copy.
type copyGate struct {
	openGate
	then func()
}

func (g copyGate) Judge(ctx context.Context, c Command) (Ruling, error) {
	if filepath.Base(c.Dir) == "build" {
		g.then()
	}
	return g.openGate.Judge(ctx, c)
}

// TestReleaseInUseAfterAYes: DW-58, of a consumer that a person was asked about: it has its build from the claim on.
func TestReleaseInUseAfterAYes(t *testing.T) {
	w := newWorks(t)
	g := w.produce(t, "mkdir out; echo one > out/a", "")
	var release operation.Answer
	w.cfg.Gate = copyGate{then: func() {
		release = w.call(t, "release_generation", `{"build_id":%q,"operation_id":"release-1"}`, g.Build)
	}}
	asked := fmt.Sprintf(`{"build_id":%q,"argv":["echo","asked"],"view":"private_copy","operation_id":"consume-100"}`, g.Build)
	w.decide(t, w.waits(t, "start_verified_workspace_consumer", asked), true)
	job := read[startedJob](t, w.call(t, "start_verified_workspace_consumer", "%s", asked))
	refused(t, release, workspace.BuildInUse, fault.AfterWait)
	shown := w.until(t, job.Job, "its verdict", func(j jobShown) bool { return j.Audit != nil && j.Audit.State.Final() })
	if shown.Audit.Verdict != workspace.Pass {
		t.Errorf("the audit: %+v", shown.Audit)
	}
	again := fmt.Sprintf(`{"build_id":%q,"argv":["echo","asked again"],"operation_id":"consume-101"}`, g.Build)
	question := w.waits(t, "start_verified_workspace_consumer", again)
	read[actedOn](t, w.call(t, "release_generation", `{"build_id":%q,"operation_id":"release-2"}`, g.Build))
	w.decide(t, question, true)
	refused(t, w.call(t, "start_verified_workspace_consumer", "%s", again), approvalRevoked, fault.NewID)
}

// TestSecretInAValidator: what a validator is given in clear is not in the statement, which is kept, and not in an answer.
func TestSecretInAValidator(t *testing.T) {
	w := newWorks(t)
	const canary = "canary-7741"
	w.cfg.RedactText = func(text string) string { return strings.ReplaceAll(text, canary, "[redacted]") }
	g := w.produce(t, "mkdir out; echo one > out/a", `,"validators":[{"argv":["test","`+canary+`"]}]`)
	if g.State != workspace.GenReady || len(g.Validators) != 1 || g.Validators[0].Argv[1] != "[redacted]" {
		t.Errorf("it is %+v", g)
	}
	raw, err := os.ReadFile(filepath.Join(g.Path, "statement.json"))
	if sum := argvDigest(operation.JobCommand{Argv: []string{"test", canary}}); err != nil || strings.Contains(string(raw), canary) || !strings.Contains(string(raw), sum) {
		t.Errorf("the statement: %s, %v", raw, err)
	}
}

// documented are the commands of docs/generations.md that check a build.
func documented(t *testing.T) (all []string) {
	t.Helper()
	raw, err := os.ReadFile("../../docs/generations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(raw), "```sh\n")[1:] {
		all = append(all, strings.Split(part, "```")[0])
	}
	if len(all) != 2 {
		t.Fatalf("docs/generations.md has %d commands", len(all))
	}
	return all
}

// TestSumsOfABuild: the part of DW-32 that is about builds: every byte of every name is kept, and what docs/generations.md says
// checks it with sha256sum alone. The names in workspaces are elsewhere.
func TestSumsOfABuild(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skip: no bash: ", err)
	}
	names := []string{"plain", "with space", "tail ", "-dash", "new\nline", "per%cent", "back\\slash", "bad\xff\xfe", strings.Repeat("x", 255), "tail\n", "中"}
	w := newWorks(t)
	for _, name := range names {
		w.w.write(t, "out/"+name, "content of "+name)
	}
	g := w.produce(t, "true", "")
	if g.State != workspace.GenReady || g.Files != len(names) {
		t.Fatalf("the build: %+v", g)
	}
	for _, name := range names {
		if raw, err := os.ReadFile(filepath.Join(g.Path, "tree/out", name)); err != nil || string(raw) != "content of "+name {
			t.Errorf("%q: %q, %v", name, raw, err)
		}
	}
	check := func() string {
		var said strings.Builder
		for i, text := range documented(t) {
			c := exec.Command(bash, "-c", text)
			c.Dir = g.Path
			if i == 1 {
				c.Dir = filepath.Join(g.Path, "tree")
			}
			out, err := c.CombinedOutput()
			said.Write(out)
			if err != nil {
				said.WriteString("FAILED")
			}
		}
		return said.String()
	}
	if said := check(); strings.Contains(said, "FAILED") || strings.Contains(said, "differs") || !strings.Contains(said, "out/plain: OK") {
		t.Errorf("a good build: %s", said)
	}
	for _, name := range []string{"plain", "tail\n"} {
		path := filepath.Join(g.Path, "tree/out", name)
		if err := errors.Join(os.Chmod(path, 0o600), os.WriteFile(path, []byte("x"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if said := check(); !strings.Contains(said, "out/plain: FAILED") || !strings.Contains(said, "differs: out/tail") {
		t.Errorf("a bad build: %s", said)
	}
}

// TestBuildsAfterARestart: a candidate goes on with the next daemon, wherever the one before was, and what no record knows is
// put aside.
func TestBuildsAfterARestart(t *testing.T) {
	w := newWorks(t)
	job := w.start(t, "mkdir out; sleep 0.5; echo one > out/a", `,"validators":[{"argv":["sleep","0.5"]}]`)
	stray := filepath.Join(w.state, "generations", ".tmp-cand_none")
	if err := os.MkdirAll(filepath.Join(stray, "tree"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 4 { // while it runs, while it is sealed or validated, and later
		time.Sleep(300 * time.Millisecond)
		w.restart(t)
	}
	g := w.became(t, job.Candidate)
	if g.State != workspace.GenReady {
		t.Fatalf("it became %+v", g)
	}
	if verified := w.call(t, "verify_generation", `{"build_id":%q}`, g.Build); !verified.OK {
		t.Errorf("verified: %+v", verified.Refusal)
	}
	if left := w.left(t); !slices.Equal(left, []string{g.Build}) {
		t.Errorf("there are %q", left)
	}
	if _, err := os.Lstat(stray); !os.IsNotExist(err) {
		t.Error("a directory without a record stays among the builds")
	}
}

// TestVerifyForPerson: the owner of the daemon checks the build of an agent, and is told how much of it is read.
func TestVerifyForPerson(t *testing.T) {
	w := newWorks(t)
	g := w.produce(t, "mkdir -p out; cp source.txt out/a; head -c 300000 /dev/zero > out/b", "")
	err := w.cfg.DB.Change(t.Context(), func(tx store.Tx) error {
		row, err := tx.GenerationByID(t.Context(), workspace.ByID{ID: g.Build})
		if err != nil {
			return err
		}
		row.Principal = "ann"
		return tx.PutGeneration(t.Context(), workspace.PutGeneration{Generation: row})
	})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, w.call(t, "verify_generation", `{"build_id":%q}`, g.Build), workspace.UnknownBuild, fault.AfterFix)
	var read atomic.Int64
	by := event.Actor{Principal: session.Operator, Channel: "cli"}
	a := w.Verify(t.Context(), by, g.Build, func(bytes int) { read.Add(int64(bytes)) })
	if a.Refusal != nil || read.Load() != g.Bytes || g.Bytes != 300004 {
		t.Errorf("%+v; %d of %d bytes were told", a, read.Load(), g.Bytes)
	}
	if a := w.Verify(t.Context(), by, "b_none", func(int) {}); a.Refusal == nil || fmt.Sprint(a.Refusal.Details["newest"]) != "["+g.Build+"]" {
		t.Errorf("one that is not there: %+v", a.Refusal)
	}
}

// spoken is a log that is read while it is written.
type spoken struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (s *spoken) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *spoken) says(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), part)
}

// TestSealedWhenItCan: what the disk refuses for a while, be it before outputs are copied or when they are published, decides about no
// candidate: the same daemon goes on with it, and the workspace is kept from others until its outputs are ours.
func TestSealedWhenItCan(t *testing.T) {
	for name, c := range map[string]struct {
		begun bool // the outputs are sealed before the disk refuses
		path  func(state string) string
	}{
		"the draft": {false, func(state string) string { return filepath.Join(state, "generations") }},
		"the statement": {true, func(state string) string {
			drafts, _ := filepath.Glob(filepath.Join(state, "generations", ".tmp-*"))
			return filepath.Join(drafts[0], "statement.json")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorks(t)
			w.Stop()
			var log spoken
			was := w.with
			w.with = func(c *Config) {
				was(c)
				c.Log = slog.New(slog.NewTextHandler(&log, nil))
			}
			w.bench.start(t, w.db)
			flag := filepath.Join(t.TempDir(), "go-on")
			waits := "until test -e " + flag + "; do sleep 0.02; done"
			shell, more := waits+"; mkdir -p out; cp source.txt out/a", ""
			if c.begun {
				shell, more = "mkdir -p out; cp source.txt out/a", `,"validators":[{"argv":["sh","-c","`+waits+`"]}]`
			}
			candidate := w.start(t, shell, more).Candidate
			is := func() generationShown {
				return read[generationShown](t, w.call(t, "generation_status", `{"build_id":%q}`, candidate))
			}
			for limit := time.Now().Add(patience); c.begun && is().State != workspace.GenValidating; time.Sleep(time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("it stays %+v", is())
				}
			}
			inTheWay := c.path(w.state)
			if c.begun { // a directory stands where a file is to be
				plant(t, map[string]string{filepath.Join(inTheWay, "x"): ""})
			} else {
				plant(t, map[string]string{inTheWay: ""})
			}
			if err := os.WriteFile(flag, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for limit := time.Now().Add(patience); !log.says("tried again"); time.Sleep(time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatalf("nothing was refused: %+v", is())
				}
			}
			if !c.begun {
				refused(t, w.call(t, "remove_agent_workspace", `{"handle":%q,"operation_id":"remove-01"}`, w.handle), workspace.Busy, fault.AfterWait)
			}
			if err := os.RemoveAll(inTheWay); err != nil {
				t.Fatal(err)
			}
			g := w.became(t, candidate)
			if verified := w.call(t, "verify_generation", `{"build_id":%q}`, g.Build); g.State != workspace.GenReady || !verified.OK {
				t.Errorf("it is %+v, %v", g, verified.Refusal)
			}
			if left := w.left(t); !slices.Equal(left, []string{g.Build}) {
				t.Errorf("there are %q", left)
			}
		})
	}
}
