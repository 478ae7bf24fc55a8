//go:build unix

package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// TestDW15OneIDTwice: DW-15. Two clients of one person on different transports, a POST and `mcpx connect`, send the same call with the same
// id at the same moment, of each class of effects. It happens once, and both have the same answer, at once or by asking again. In full
// it is 50 rounds of each.
func TestDW15OneIDTwice(t *testing.T) {
	rounds := 6
	if full() {
		rounds = 50
	}
	g := rig.New(t)
	commanding(t, g)
	g.Extra = append(g.Extra, "MCPX_RUNTIME_EXTENSIONS=true", "MCPX_RUNTIME_WORK=true")
	policy, err := os.OpenFile(filepath.Join(g.Home, "config", "policy.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.WriteString("[tools]\nallow = [\"alpha/*\"]\n"); err != nil {
		t.Fatal(err)
	}
	if err := policy.Close(); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	record := filepath.Join(g.Home, "alpha.record")
	g.Add("alpha", rig.Fixture(t, fakemcp.Options{Record: record}))
	dir, session, b := inShop(t, g)
	plant(t, filepath.Join(dir, "once.sh"), "echo x >> $1\n")
	plant(t, filepath.Join(dir, "docs/a.txt"), "a\n")
	http := &agent{t: t, g: g}
	lines := func(path, of string) int {
		raw, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(raw), of)
	}
	for name, c := range map[string]struct {
		tool, args string
		times      func(key string) int
	}{
		"database": {"session", `"action":"open","project":"shop"`, func(string) int { return 1 }}, // both answers have the id of the one that was opened
		"files": {"edit_files", `"edits":[{"path":"KEY","op":"create","content":"x"}]`, func(key string) int {
			return lines(filepath.Join(dir, key), "x")
		}},
		"workspace": {"create_agent_workspace", `"purpose":"KEY","mutable":["docs"],"on_overlap":"allow"`, func(key string) int {
			var list struct {
				Unfinished []struct {
					Purpose string `json:"purpose"`
				} `json:"unfinished_workspaces"`
			}
			http.look(fmt.Sprintf(`{"remote_session_id":%q,"limit":100}`, session), &list)
			n := 0
			for _, w := range list.Unfinished {
				if w.Purpose == key {
					n++
				}
			}
			return n
		}},
		"command":  {"execute_command", `"argv":["/bin/sh","once.sh","KEY"]`, func(key string) int { return lines(filepath.Join(dir, key), "x") }},
		"upstream": {"call_tool", `"id":"alpha/echo","arguments":{"message":"KEY"}`, func(key string) int { return lines(record, `"message":"`+key+`"`) }},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range rounds {
				key := fmt.Sprintf("twice-%s-%03d", name, n)
				args := fmt.Sprintf(`{"operation_id":%q,%s`, key, strings.ReplaceAll(c.args, "KEY", key))
				if name != "database" {
					args += fmt.Sprintf(`,"remote_session_id":%q`, session)
				}
				args += "}"
				answers := make([]string, 2)
				var both sync.WaitGroup
				both.Go(func() { answers[0] = ended(t, func() []byte { return http.post(c.tool, args) }) })
				both.Go(func() {
					answers[1] = ended(t, func() []byte { return b.call(fmt.Sprint(200+n), tool(fmt.Sprint(200+n), c.tool, args)) })
				})
				both.Wait()
				if answers[0] != answers[1] || answers[0] == "" {
					t.Errorf("%s: two answers\n%s\n%s", key, answers[0], answers[1])
				}
				if times := c.times(key); times != 1 {
					t.Errorf("%s happened %d times", key, times)
				}
			}
		})
	}
}

// ended is what a call has come to: it is made again while it is under way.
func ended(t *testing.T, call func() []byte) string {
	t.Helper()
	for range 100 {
		var m struct {
			Result struct {
				Content json.RawMessage `json:"content"`
				Own     json.RawMessage `json:"structuredContent"`
				Meta    struct {
					Beside json.RawMessage `json:"mcpx/operation"`
				} `json:"_meta"`
			} `json:"result"`
		}
		raw := call()
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Errorf("%v: %s", err, raw)
			return ""
		}
		var a answered
		if m.Result.Meta.Beside != nil {
			m.Result.Own = m.Result.Meta.Beside
		}
		if err := json.Unmarshal(m.Result.Own, &a); err != nil {
			t.Errorf("%v: %s", err, raw)
			return ""
		}
		switch {
		case a.Error.Code == "OPERATION_IN_PROGRESS" || a.Status == "in_progress":
			continue
		case !a.OK:
			t.Errorf("%s", raw)
			return ""
		case m.Result.Meta.Beside != nil:
			return string(m.Result.Content)
		}
		return string(a.Data)
	}
	t.Error("the call does not end")
	return ""
}
