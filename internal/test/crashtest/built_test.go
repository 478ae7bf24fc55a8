package crashtest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/api"
)

// builds turns on what an agent needs to make builds here.
var builds = script{"MCPX_RUNTIME_COMMANDS=true", "MCPX_RUNTIME_WORK=true", "MCPX_RUNTIME_VERIFIED=true", "MCPX_SANDBOX_MECHANISM=none"}

// allowCopies lets the producer, the validator and the consumer of the scenario run without a person.
const allowCopies = "[[commands.rule]]\nid = \"copies\"\ndecision = \"allow\"\nprogram = \"cp\"\n" +
	"[[commands.rule]]\nid = \"looks\"\ndecision = \"allow\"\nprogram = \"cmp\"\n"

// built is what an agent does with builds at /mcp (DW-56): it makes one, has it audited, lets it go, and repeats the identical
// calls until it has an answer. Whatever is killed, there is one build, it verifies, and what is ready is never anything else.
func (p *play) built() {
	w := &worker{play: p, dir: filepath.Join(p.t.TempDir(), "shop"), is: map[string]string{}}
	for name, content := range map[string]string{"a.txt": "one\n", "b.txt": "two\n"} {
		if err := os.MkdirAll(filepath.Join(w.dir, "source"), 0o700); err != nil {
			p.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.dir, "source", name), []byte(content), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	w.register()
	made := w.do("create_agent_workspace", "create-ws-1", map[string]any{"purpose": "a build", "mutable": []string{"out"}}, nil)
	if !made.OK {
		p.t.Fatalf("the workspace: %+v", made)
	}
	candidate := w.startOf("start_verified_workspace_producer", "produce-1", map[string]any{
		"handle": made.Handle, "argv": []string{"cp", "-r", "source", "out"}, "outputs": []string{"out"},
		"validators": []map[string]any{{"argv": []string{"cmp", "out/a.txt", "out/a.txt"}}},
	}).Candidate
	g := w.generation(candidate, func(g generation) bool { return g.State == "ready" || g.State == "rejected" })
	if g.State != "ready" {
		p.t.Fatalf("the candidate is %s: %s, %s", g.State, g.Why, g.Text)
	}
	w.verifies(g)
	audit := w.startOf("start_verified_workspace_consumer", "consume-1", map[string]any{"build_id": g.Build, "argv": []string{"cmp", "out/a.txt", "out/b.txt"}}).Audit
	after := w.generation(g.Build, func(g generation) bool {
		return !slices.ContainsFunc(g.Audits, func(a auditOf) bool {
			return a.State == "bound" || a.State == "pre_verified" || a.State == "running"
		})
	})
	i := slices.IndexFunc(after.Audits, func(a auditOf) bool { return a.ID == audit })
	if i < 0 || after.Audits[i].State != "post_verified" || after.Audits[i].Verdict != "fail" || after.Audits[i].Post != g.TreeHash {
		p.t.Errorf("the audit %s is one of %+v", audit, after.Audits)
	}
	for _, a := range after.Audits {
		if a.ID != audit && a.State != "lost" { // of an attempt that was cut off before its consumer began
			p.t.Errorf("another audit: %+v", a)
		}
	}
	w.verifies(after)
	names, err := os.ReadDir(filepath.Dir(g.Path))
	if err != nil || len(names) != 1 || names[0].Name() != g.Build {
		p.t.Errorf("among the builds are %v: %v", names, err)
	}
	w.released(after)
}

// released lets the bytes of a build go: its manifest and the verdicts about it stay.
func (w *worker) released(g generation) {
	w.t.Helper()
	if last := w.do("release_generation", "release-1", map[string]any{"build_id": g.Build}, nil); !last.OK {
		w.t.Fatalf("release-1: %+v", last)
	}
	now := w.generation(g.Build, func(g generation) bool { return g.State == "released" })
	if !slices.Equal(now.Audits, g.Audits) || now.TreeHash != g.TreeHash {
		w.t.Errorf("what is known of %s is %+v, it was %+v", g.Build, now, g)
	}
	for name, stays := range map[string]bool{"tree": false, "manifest": true, "statement.json": true} {
		if _, err := os.Stat(filepath.Join(g.Path, name)); stays != (err == nil) {
			w.t.Errorf("%s of a build that was released: %v", name, err)
		}
	}
}

// startedOf is what an agent is told about a producer or a consumer.
type startedOf struct {
	Job       string `json:"job_id"`
	Candidate string `json:"candidate_id"`
	Audit     string `json:"audit_id"`
}

type auditOf struct {
	ID      string `json:"audit_id"`
	State   string `json:"state"`
	Verdict string `json:"verdict"`
	Post    string `json:"post_hash"`
}

// generation is what an agent is told about a candidate or a build.
type generation struct {
	Candidate string    `json:"candidate_id"`
	Build     string    `json:"build_id"`
	State     string    `json:"state"`
	Why       string    `json:"why"`
	Text      string    `json:"text"`
	TreeHash  string    `json:"tree_hash"`
	Path      string    `json:"path"`
	Audits    []auditOf `json:"audits"`
}

func (w *worker) startOf(tool, operation string, args map[string]any) (s startedOf) {
	w.t.Helper()
	last := w.do(tool, operation, args, nil)
	if !last.OK || json.Unmarshal(last.Data, &s) != nil {
		w.t.Fatalf("%s: %+v", operation, last)
	}
	return s
}

// ask makes a call that changes nothing.
func (w *worker) ask(tool string, args map[string]any) (result, error) {
	args["remote_session_id"] = w.session
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args}})
	if err != nil {
		return result{}, err
	}
	return w.post(body)
}

// generation waits until a generation is as it shall be.
func (w *worker) generation(id string, ok func(generation) bool) (g generation) {
	w.t.Helper()
	w.change("", func(context.Context, *api.Client) error {
		r, err := w.ask("generation_status", map[string]any{"build_id": id, "wait_ms": 5000})
		if err != nil {
			return err
		}
		g = generation{}
		if err := json.Unmarshal(r.Data, &g); err != nil {
			return fmt.Errorf("%s: %w", r.code(), err)
		}
		if !ok(g) {
			return fmt.Errorf("%s is %s", id, g.State)
		}
		return nil
	})
	return g
}

// verifies fails unless a build that is ready is its manifest.
func (w *worker) verifies(g generation) {
	w.t.Helper()
	w.change("", func(context.Context, *api.Client) error {
		r, err := w.ask("verify_generation", map[string]any{"build_id": g.Build})
		if err == nil && !r.OK {
			w.t.Errorf("%s does not verify: %+v", g.Build, r.Error)
		}
		return err
	})
	if !strings.HasSuffix(g.Build, g.TreeHash[:12]) {
		w.t.Errorf("%s has the tree hash %s", g.Build, g.TreeHash)
	}
}
