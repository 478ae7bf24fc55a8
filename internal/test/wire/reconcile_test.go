package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"mcpx/internal/sqlite"
	"mcpx/internal/test/rig"
	"mcpx/internal/test/storetest"
)

// TestDW69Load: DW-69. With 10,000 operations and 1,000 workspaces each answer of reconcile_project_state has at most 8 KB, and
// one that has nothing new at most 300 bytes. How long they take is told, and held to its bars by `make bench`.
func TestDW69Load(t *testing.T) {
	g := rig.Start(t)
	a := openAgent(t, g)
	g.Must("daemon", "stop")
	g.Wait()
	load := storetest.Load{Principal: "owner", Project: a.project, State: filepath.Join(g.Home, "state"), At: time.Now().Add(-time.Hour), Operations: 10_000, Workspaces: 1000}
	for n := range load.Workspaces {
		if err := os.MkdirAll(load.Dir(n), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(g.Home, "state", "mcpx.db"), Backups: filepath.Join(t.TempDir(), "backups"), Now: time.Now})
	if err == nil {
		err = load.Fill(t.Context(), db)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	g.Extra = append(g.Extra, "MCPX_RUNTIME_WORK=true")
	g.Serve()
	var first struct {
		Cursor     string `json:"cursor"`
		More       bool   `json:"more"`
		Workspaces []struct {
			Handle string `json:"handle"`
			State  string `json:"state"`
		} `json:"unfinished_workspaces"`
		Operations []struct {
			ID    string          `json:"id"`
			Retry json.RawMessage `json:"retry"`
		} `json:"unfinished_operations"`
		Integrations []json.RawMessage `json:"recent_integrations"`
	}
	a.look(`{}`, &first)
	if len(first.Workspaces) < 5 || len(first.Operations) < 3 || len(first.Integrations) == 0 || !first.More || first.Workspaces[0].State != "open" || len(first.Operations[0].Retry) == 0 {
		t.Errorf("%+v", first)
	}
	for what, c := range map[string]struct {
		args string
		most int
	}{"without a cursor": {`{}`, 8 << 10}, "with the current one": {fmt.Sprintf(`{"since":%q}`, first.Cursor), 300}} {
		var took []time.Duration
		for range 100 {
			began := time.Now()
			size := a.look(c.args, &struct{}{})
			took = append(took, time.Since(began))
			if size > c.most {
				t.Fatalf("%s: an answer of %d bytes, at most %d may be", what, size, c.most)
			}
		}
		slices.Sort(took)
		t.Logf("%s: p50 %v, p99 %v", what, took[len(took)/2], took[len(took)*99/100])
	}
}

// agent is a session on a project, at the tools of a daemon.
type agent struct {
	t                     *testing.T
	g                     *rig.Gateway
	dir, project, session string
	n                     int
}

// openAgent registers a directory and opens a session on it.
func openAgent(t *testing.T, g *rig.Gateway) *agent {
	t.Helper()
	a := &agent{t: t, g: g, dir: filepath.Join(t.TempDir(), "shop")}
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.Must("project", "add", a.dir)
	var opened struct {
		Session struct {
			ID      string `json:"remote_session_id"`
			Project string `json:"project_id"`
		} `json:"session"`
		Project struct {
			ID string `json:"project_id"`
		} `json:"project"`
	}
	a.read("session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`, &opened)
	a.session, a.project = opened.Session.ID, opened.Session.Project+opened.Project.ID
	return a
}

// read makes a call that has to succeed. It gives the size of the answer without the protocol around it.
func (a *agent) read(tool, args string, into any) int {
	a.t.Helper()
	answer := a.call(tool, args)
	if !answer.OK {
		a.t.Fatalf("%s %s: %s", tool, args, answer.raw)
	}
	if err := json.Unmarshal(answer.Data, into); err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	return len(answer.raw)
}

func (a *agent) look(args string, into any) int {
	a.t.Helper()
	return a.read("reconcile_project_state", args, into)
}

// answered is an answer of a tool.
type answered struct {
	OK     bool            `json:"ok"`
	Status string          `json:"status"`
	Handle string          `json:"handle"`
	Data   json.RawMessage `json:"data"`
	Error  struct {
		Code    string         `json:"code"`
		Details map[string]any `json:"details"`
	} `json:"error"`
	Operation struct {
		Replayed bool `json:"replayed"`
	} `json:"operation"`
	raw json.RawMessage
}

// post makes a call, and gives its answer as it came; nil: there was none.
func (a *agent) post(tool, args string) []byte {
	a.t.Helper()
	ctx, stop := context.WithTimeout(a.t.Context(), time.Minute)
	defer stop()
	a.n++
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, a.n, tool, args)
	c := rig.NewClient(a.t, "http://"+a.g.Addr+"/mcp")
	c.Version = "2025-11-25"
	reply, err := c.Try(ctx, body)
	if err != nil {
		a.t.Error(err)
		return nil
	}
	return reply.Body
}

func (a *agent) call(tool, args string) (out answered) {
	a.t.Helper()
	raw := a.post(tool, args)
	if raw == nil {
		return out
	}
	var m struct {
		Result struct {
			Structured json.RawMessage `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		a.t.Errorf("%s: %v", raw, err)
		return out
	}
	out.raw = m.Result.Structured
	if err := json.Unmarshal(out.raw, &out); err != nil {
		a.t.Errorf("%s: %v", raw, err)
	}
	return out
}

// TestDW70DuringIntegration: DW-70. While an integration of many files is applied, reconcile_project_state answers again and
// again, and says that it is in progress: it waits for nobody.
func TestDW70DuringIntegration(t *testing.T) {
	const files = 400
	g := rig.New(t)
	g.Extra = []string{"MCPX_RUNTIME_WORK=true"}
	g.Serve()
	a := openAgent(t, g)
	made := a.call("create_agent_workspace", fmt.Sprintf(`{"remote_session_id":%q,"purpose":"much","mutable":["."],"operation_id":"create-01"}`, a.session))
	var w struct {
		ID   string `json:"workspace_id"`
		Path string `json:"path"`
	}
	if err := json.Unmarshal(made.Data, &w); err != nil {
		t.Fatalf("%s: %v", made.raw, err)
	}
	for n := range files {
		if err := os.WriteFile(filepath.Join(w.Path, fmt.Sprintf("%04d.txt", n)), fmt.Appendf(nil, "%d\n", n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	end := make(chan answered, 1)
	var caller sync.WaitGroup
	defer caller.Wait()
	caller.Go(func() {
		b := agent{t: t, g: g}
		for {
			last := b.call("integrate_agent_workspace", fmt.Sprintf(`{"handle":%q,"operation_id":"integrate-1"}`, made.Handle))
			if last.Status != "in_progress" {
				end <- last
				return
			}
		}
	})
	answers, during := 0, 0
	var slowest time.Duration
	for {
		select {
		case last := <-end:
			if !last.OK {
				t.Fatalf("%s", last.raw)
			}
			if during < 3 {
				t.Errorf("of %d answers while it was under way %d said so", answers, during)
			}
			t.Logf("%d answers, %d of them during the application, the slowest after %v", answers, during, slowest)
			return
		default:
		}
		began := time.Now()
		var is struct {
			Workspaces []struct {
				State string `json:"state"`
				Why   string `json:"why"`
			} `json:"unfinished_workspaces"`
		}
		a.look(`{}`, &is)
		slowest = max(slowest, time.Since(began))
		answers++
		if len(is.Workspaces) == 1 && is.Workspaces[0].State == "integrating" && is.Workspaces[0].Why == "integration in progress" {
			during++
		}
		time.Sleep(2 * time.Millisecond) // the other one wants to get on, too
	}
}
