//go:build unix

package work

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/workspace"
)

// cut is an effect that loses its disk when it was dispatched.
type cut struct {
	effect
	keeper
	lose func()
}

func (c cut) run(ctx context.Context) (any, error) {
	c.lose()
	return c.effect.run(ctx)
}

// TestDiskDoesNotAnswer: a disk that does not answer while a batch is applied decides nothing. The operation stays begun, nothing
// of it is cleared away, and it is carried to its end when the disk answers again: by the daemon itself, and by the next one.
func TestDiskDoesNotAnswer(t *testing.T) {
	for _, c := range []struct{ tool, by string }{
		{"edit_files", "the next daemon"},
		{integrateTool, "the next daemon"},
		{"resume_workspace", "the next daemon"},
		{"edit_files", "itself"},
		{integrateTool, "itself"},
		{"resume_workspace", "itself"},
	} {
		tool := c.tool
		t.Run(tool+" by "+c.by, func(t *testing.T) {
			s := newShop(t)
			handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
			call := `"edits":[{"op":"create","path":"docs/new.md","content":"new\n"}],"operation_id":"op-000001"`
			want := filepath.Join(s.root, "docs/new.md")
			switch tool {
			case integrateTool:
				w.write(t, "docs/new.md", "new\n")
				call = `"handle":"` + handle + `","operation_id":"op-000001"`
			case "resume_workspace":
				s.do(t, "suspend_workspace", `"handle":%q,"reason":"later","operation_id":"suspend-1"`, handle)
				plant(t, map[string]string{want: "new\n"})
				want = filepath.Join(w.Path, "docs/new.md")
				call = `"ws":"` + w.ID + `","rebase":true,"operation_id":"op-000001"`
			}
			txn := filepath.Join(s.state, "txn")
			begin := s.tools[tool].begin
			s.tools[tool].begin = func(ctx context.Context, svc *Service, t2 *turn) (effect, error) {
				e, err := begin(ctx, svc, t2)
				if err != nil {
					return nil, err
				}
				return cut{e, e.(keeper), func() {
					if err := os.Rename(txn, txn+".away"); err != nil {
						t.Error(err)
					}
					plant(t, map[string]string{txn: "in the way"})
				}}, nil
			}
			for range 2 { // the same call does not repeat it
				a := s.do(t, tool, "%s", call)
				if a.Status != operation.OutcomeInProgress || a.Refusal.Code != operation.OperationInProgress {
					t.Fatalf("%+v (%v)", a, a.Refusal)
				}
			}
			if o := s.operations(t)[0]; o.ID != "op-000001" || o.State != operation.Dispatched || o.Result != nil {
				t.Errorf("%+v", o)
			}
			if _, err := os.Stat(want); err == nil {
				t.Error("something was applied without its staging")
			}
			if c.by != "itself" {
				s.Stop() // so that the daemon does not decide it before
			}
			if err := os.Remove(txn); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(txn+".away", txn); err != nil {
				t.Fatal(err)
			}
			if c.by != "itself" {
				s.next(t)
			}
			for until := time.Now().Add(patience); s.operations(t)[0].State == operation.Dispatched && time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
			}
			if got, err := os.ReadFile(want); err != nil || string(got) != "new\n" {
				t.Errorf("%q, %v", got, err)
			}
			if a := s.do(t, tool, "%s", call); !a.OK || !a.Operation.Recovered {
				t.Errorf("%+v, %v", a.Operation, a.Refusal)
			}
		})
	}
}

// TestIntegrationQuestion: a person who is asked about an integration sees modes and lines, and the yes is to those alone.
func TestIntegrationQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		then func(s *shop, w openedWorkspace) error // after the yes
		ok   bool
	}{
		"nothing": {func(*shop, openedWorkspace) error { return nil }, true},
		"mode":    {func(_ *shop, w openedWorkspace) error { return os.Chmod(filepath.Join(w.Path, "run.sh"), 0o644) }, false},
		"proposed": {func(_ *shop, w openedWorkspace) error {
			return os.WriteFile(filepath.Join(w.Path, "run.sh"), []byte("other\n"), 0o755)
		}, false},
		"merged": {func(s *shop, _ openedWorkspace) error {
			return os.WriteFile(filepath.Join(s.root, "README.md"), []byte("zero\none\ntwo\nthree\n"), 0o644)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
			w.write(t, "README.md", "one\ntwo\nthree\nfour\n")
			w.write(t, ".mcp.json", "{\"servers\":{}}\n")
			w.write(t, "run.sh", "echo run\n")
			if err := os.Chmod(filepath.Join(w.Path, "run.sh"), 0o755); err != nil {
				t.Fatal(err)
			}
			plant(t, map[string]string{filepath.Join(s.root, "README.md"): "ONE\ntwo\nthree\n"})
			integrate := func() operation.Answer {
				return s.do(t, integrateTool, `"handle":%q,"operation_id":"integrate-1"`, handle)
			}
			if a := integrate(); a.Status != operation.OutcomeWaiting {
				t.Fatalf("%+v (%v)", a, a.Refusal)
			}
			asked := s.pending(t)
			for _, want := range []string{"added .mcp.json\n", "added run.sh, executable\n", "+{\"servers\":{}}", "+echo run", "modified README.md\n", " ONE", "+four"} {
				if !strings.Contains(asked.Display, want) {
					t.Errorf("the question has no %q:\n%s", want, asked.Display)
				}
			}
			s.decide(t, asked, true)
			if err := c.then(s, w); err != nil {
				t.Fatal(err)
			}
			if a := integrate(); a.OK != c.ok {
				t.Errorf("%+v (%v)", a, a.Refusal)
			}
			if row := s.row(t, w.ID); !c.ok && row.State != workspace.Open {
				t.Errorf("%s", row.State)
			}
		})
	}
}
