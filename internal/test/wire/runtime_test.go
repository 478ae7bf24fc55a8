package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// TestRT1Defaults: RT-1, what is listed without a setting. The budgets are those of TestRT1Budgets in tools.
func TestRT1Defaults(t *testing.T) {
	b := bridged{rig.Start(t).Connect(""), t}
	b.Initialize(`{}`)
	var list struct {
		Result struct {
			Tools []struct {
				Name string `json:"name"`
			} `json:"tools"`
		} `json:"result"`
	}
	if err := json.Unmarshal(b.call("1", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range list.Result.Tools {
		names = append(names, one.Name)
	}
	want := []string{
		"session", "plan", "operation_status", "resolve_operation", "read_result", "observe",
		"read_file", "list_files", "search_files", "edit_files", "remove_files",
		"reconcile_project_state", "create_agent_workspace", "workspace_status", "integrate_agent_workspace", "suspend_workspace", "resume_workspace", "amend_workspace_scope", "remove_agent_workspace",
	}
	slices.Sort(want) // the list is sorted
	if !slices.Equal(names, want) {
		t.Errorf("listed by default: %v\nwant %v", names, want)
	}
}

// TestRT19StdioOutlivesTheDaemon: an agent at `mcpx connect` works in a session that was opened elsewhere, while the daemon
// is killed again and again in the middle of its calls. Every call has its answer, and every effect happens once.
func TestRT19StdioOutlivesTheDaemon(t *testing.T) {
	const rounds = 8
	g := rig.Start(t)
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.Must("project", "add", dir)
	opener := bridged{g.Connect(""), t}
	opener.Initialize(`{}`)
	var opened struct {
		Session struct {
			ID string `json:"remote_session_id"`
		} `json:"session"`
	}
	worked(t, opener.call("1", tool("1", "session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`)), &opened)

	b := bridged{g.Connect(""), t}
	b.Initialize(`{}`)
	var again struct {
		Session struct {
			ID string `json:"remote_session_id"`
		} `json:"session"`
	}
	worked(t, b.call("2", tool("2", "session", fmt.Sprintf(`{"action":"attach","remote_session_id":%q}`, opened.Session.ID))), &again)
	if again.Session.ID != opened.Session.ID || opened.Session.ID == "" {
		t.Fatalf("attached to %q, opened %q", again.Session.ID, opened.Session.ID)
	}
	sum := "" // of the log of all edits
	for n := range rounds {
		var daemon sync.WaitGroup
		daemon.Go(func() {
			time.Sleep(time.Duration(n) * 2 * time.Millisecond) // another moment of the call each time
			g.Kill()
			g.Serve()
		})
		id := fmt.Sprint(100 + n)
		edit := fmt.Sprintf(`{"path":"log.txt","op":"create","content":"%d\n"}`, n)
		if sum != "" {
			edit = fmt.Sprintf(`{"path":"log.txt","expect_sha256":%q,"append":"%d\n"}`, sum, n)
		}
		var edited struct {
			Files []struct {
				After string `json:"after_sha256"`
			} `json:"files"`
		}
		worked(t, b.call(id, tool(id, "edit_files", fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"edit-log-%d","edits":[%s]}`, opened.Session.ID, n, edit))), &edited)
		daemon.Wait()
		sum = edited.Files[0].After
	}
	raw, err := os.ReadFile(filepath.Join(dir, "log.txt"))
	var want strings.Builder
	for n := range rounds {
		fmt.Fprintln(&want, n)
	}
	if err != nil || string(raw) != want.String() {
		t.Errorf("the file is %q (%v)", raw, err)
	}
}

// worked reads the data of an answer that says that the call has succeeded.
func worked(t *testing.T, answer []byte, into any) {
	t.Helper()
	var m struct {
		Result struct {
			Structured struct {
				OK   bool            `json:"ok"`
				Data json.RawMessage `json:"data"`
			} `json:"structuredContent"`
		} `json:"result"`
	}
	err := json.Unmarshal(answer, &m)
	if err == nil && m.Result.Structured.OK {
		err = json.Unmarshal(m.Result.Structured.Data, into)
	}
	if err != nil || !m.Result.Structured.OK {
		t.Fatalf("%v: %s", err, answer)
	}
}
