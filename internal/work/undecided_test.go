//go:build unix

package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
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

// TestUndecidedKeepsOut: nobody gets into a workspace before it is decided about what was begun there, whether the disk did not answer
// or the end could not be written down. It is tried until it is.
func TestUndecidedKeepsOut(t *testing.T) {
	for _, c := range []struct {
		name, tool string
		prepare    func(t *testing.T, s *shop, handle string, w openedWorkspace) string // the call
	}{
		{"edit", "edit_files", func(_ *testing.T, _ *shop, handle string, _ openedWorkspace) string {
			return `"edits":[{"op":"create","path":"docs/new.md","content":"new\n"}],"handle":"` + handle + `"`
		}},
		{"integrate", integrateTool, func(_ *testing.T, _ *shop, handle string, w openedWorkspace) string {
			w.write(t, "docs/new.md", "new\n")
			return `"keep_open":true,"handle":"` + handle + `"`
		}},
		{"resume", "resume_workspace", func(t *testing.T, s *shop, handle string, w openedWorkspace) string {
			s.do(t, "suspend_workspace", `"handle":%q,"reason":"later","operation_id":"suspend-1"`, handle)
			s.save(t, "docs/new.md", "new\n")
			return `"rebase":true,"ws":"` + w.ID + `"`
		}},
		{"restore", "remove_files", func(t *testing.T, s *shop, handle string, _ openedWorkspace) string {
			p := read[prepared](t, s.do(t, "remove_files", `"operation_id":"prepare-1","handle":%q,"action":"prepare","targets":[{"path":"docs"}]`, handle))
			read[removed](t, s.submit(t, "submit-01", p.Manifest))
			return `"action":"restore","manifest_id":"` + p.Manifest + `"`
		}},
	} {
		for _, unwritten := range []bool{false, true} {
			if unwritten && c.tool != "edit_files" {
				continue // it is the same for all of them
			}
			t.Run(fmt.Sprintf("%s, unwritten %v", c.name, unwritten), func(t *testing.T) {
				t.Parallel()
				s := newShop(t)
				handle, w := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
				call := c.prepare(t, s, handle, w) + `,"operation_id":"op-000001"`
				var gone atomic.Bool
				var tried atomic.Int32
				s.cfg.DB = roomlessStore{s.cfg.DB, &gone}
				begin, again := s.tools[c.tool].begin, s.tools[c.tool].recover
				s.tools[c.tool].begin = func(ctx context.Context, svc *Service, t *turn) (effect, error) {
					e, err := begin(ctx, svc, t)
					if err != nil {
						return nil, err
					}
					return unended{e, e.(keeper), unwritten, &gone}, nil
				}
				s.tools[c.tool].recover = func(ctx context.Context, svc *Service, t *turn) (any, ending, error) {
					if tried.Add(1); !unwritten && gone.Load() {
						return nil, nil, undecided(errors.New("no answer"))
					}
					return again(ctx, svc, t)
				}
				if a := s.do(t, c.tool, "%s", call); a.Status != operation.OutcomeInProgress {
					t.Fatalf("%+v (%v)", a, a.Refusal)
				}
				comes(t, func() bool { return tried.Load() > 1 })
				if _, err := s.leases.take(w.ID, false); codeIn(err) != workspace.Busy {
					t.Errorf("before it is decided: %v", err)
				}
				if o := s.operations(t)[0]; o.ID != "op-000001" || o.State != operation.Dispatched {
					t.Errorf("%+v", o)
				}
				gone.Store(false)
				comes(t, func() bool {
					release, err := s.leases.take(w.ID, true)
					if err == nil {
						release()
					}
					return err == nil
				})
				if a := s.do(t, c.tool, "%s", call); !a.OK || !a.Operation.Recovered {
					t.Errorf("%+v, %v", a.Operation, a.Refusal)
				}
			})
		}
	}
}

// unended is an effect whose end is not known: it did not run, or its record cannot be written.
type unended struct {
	effect
	keeper
	ran  bool
	gone *atomic.Bool
}

func (u unended) run(ctx context.Context) (data any, err error) {
	if err = undecided(errors.New("no answer")); u.ran {
		data, err = u.effect.run(ctx)
	}
	u.gone.Store(true)
	return data, err
}

// comes waits until something is so.
func comes(t *testing.T, so func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it never happened")
		}
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
