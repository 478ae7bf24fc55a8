package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// shopOf makes a project.
func shopOf(t *testing.T, g *rig.Gateway) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.Must("project", "add", dir)
	return dir
}

type openedShop struct {
	Session struct {
		ID string `json:"remote_session_id"`
	} `json:"session"`
}

// TestRT20DoorsOfOnePerson: RT-20 as far as it needs no OAuth, and DW-15. Whatever program a person uses, and however often it
// is started anew, it lists and attaches the same session; one operation that two of them ask for at once happens once.
func TestRT20DoorsOfOnePerson(t *testing.T) {
	const rounds = 20
	g := rig.Start(t)
	dir := shopOf(t, g)
	var doors []bridged
	for range 3 {
		b := bridged{g.Connect(""), t}
		b.Initialize(`{}`)
		doors = append(doors, b)
	}
	var opened openedShop
	worked(t, doors[0].call("1", tool("1", "session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`)), &opened)
	for i, door := range doors {
		var list struct {
			Sessions []struct {
				ID string `json:"remote_session_id"`
			} `json:"sessions"`
		}
		worked(t, door.call("2", tool("2", "session", `{"action":"list"}`)), &list)
		if len(list.Sessions) != 1 || list.Sessions[0].ID != opened.Session.ID {
			t.Errorf("door %d lists %+v, opened was %s", i, list.Sessions, opened.Session.ID)
		}
		var again openedShop
		worked(t, door.call("3", tool("3", "session", fmt.Sprintf(`{"action":"attach","remote_session_id":%q}`, opened.Session.ID))), &again)
		if again.Session.ID != opened.Session.ID {
			t.Errorf("door %d attaches to %q", i, again.Session.ID)
		}
	}
	for n := range rounds {
		answers := make([]json.RawMessage, 2)
		var both sync.WaitGroup
		for i := range answers {
			both.Go(func() {
				id := fmt.Sprint(100 + n)
				worked(t, doors[i].call(id, tool(id, "edit_files", fmt.Sprintf(
					`{"remote_session_id":%q,"operation_id":"edit-once-%d","edits":[{"path":"f%d","op":"create","content":"x"}]}`, opened.Session.ID, n, n))), &answers[i])
			})
		}
		both.Wait()
		if string(answers[0]) != string(answers[1]) {
			t.Errorf("round %d: two answers\n%s\n%s", n, answers[0], answers[1])
		}
	}
	if made, err := filepath.Glob(filepath.Join(dir, "f*")); err != nil || len(made) != rounds {
		t.Errorf("%d files, %v", len(made), err)
	}
}

// TestRT132LongCall: RT-132. A call that takes longer than its server's own limit, and than an agent waits for an answer, ends as
// it says, and its process lives on. In full the call takes 90 s, and the process is there ten minutes after its start.
func TestRT132LongCall(t *testing.T) {
	limit, takes, lives := "1s", 4000, 5*time.Second
	if full() {
		limit, takes, lives = "20s", 90000, 10*time.Minute
	}
	g := rig.New(t)
	g.Extra = []string{"MCPX_RUNTIME_EXTENSIONS=true"}
	if err := os.MkdirAll(filepath.Join(g.Home, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.Home, "config", "policy.toml"), []byte("[tools]\nallow = [\"slow/*\"]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	record := filepath.Join(g.Home, "slow.record")
	g.Add("slow", rig.Fixture(t, fakemcp.Options{Record: record}), "--call-timeout", limit)
	shopOf(t, g)
	b := bridged{g.Connect(""), t}
	b.Initialize(`{}`)
	var opened openedShop
	worked(t, b.call("1", tool("1", "session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`)), &opened)
	said := func(id, name, arguments, operation string) string {
		for n := 0; ; n++ {
			one := fmt.Sprintf("%s%d", id, n)
			answer := b.call(one, tool(one, "call_tool", fmt.Sprintf(
				`{"remote_session_id":%q,"id":"slow/%s","arguments":%s,"operation_id":%q,"timeout_s":300,"wait_ms":1000}`, opened.Session.ID, name, arguments, operation)))
			var m struct {
				Result struct {
					Content    []struct{ Text string }
					Structured struct{ Status string } `json:"structuredContent"`
					IsError    bool
				}
			}
			if err := json.Unmarshal(answer, &m); err != nil || m.Result.IsError {
				t.Fatalf("%s: %v %s", operation, err, answer)
			}
			if m.Result.Structured.Status != "in_progress" && len(m.Result.Content) > 0 {
				return m.Result.Content[0].Text
			}
		}
	}
	before := said("2", "pid", `{}`, "pid-before")
	old := time.After(lives)
	if got, want := said("3", "sleep", fmt.Sprintf(`{"ms":%d}`, takes), "sleep-long"), fmt.Sprintf("slept %d ms", takes); got != want {
		t.Errorf("the long call says %q, want %q", got, want)
	}
	for n, due := 0, false; ; n++ {
		if after := said(fmt.Sprint("4", n), "pid", `{}`, fmt.Sprint("pid-after-", n)); after != before || before == "" {
			t.Fatalf("the process was %q and is %q", before, after)
		}
		if n := len(g.Processes("slow")); n != 1 {
			t.Errorf("%d processes", n)
		}
		if due {
			break
		}
		select {
		case <-old:
			due = true
		case <-time.After(time.Minute): // an idle one is ended after five, as it should be
		}
	}
}
