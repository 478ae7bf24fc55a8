package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// TestRT145Observe: RT-145. Claimed, decided, dispatched and ended are told in this order for an edit, a command and a call
// of another server's tool, and `mcpx observe` of the operation shows exactly what the log has of it.
func TestRT145Observe(t *testing.T) {
	g := rig.New(t)
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(g.Home, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	policy := "[commands]\nlift = [\"program.untrusted\"]\n[[commands.rule]]\nid = \"echo\"\ndecision = \"allow\"\nprogram = \"echo\"\noperands = \"any\"\n[tools]\nallow = [\"files/*\"]\n"
	if err := os.WriteFile(filepath.Join(g.Home, "config", "policy.toml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Extra = []string{"MCPX_RUNTIME_COMMANDS=true", "MCPX_RUNTIME_EXTENSIONS=true", "MCPX_SANDBOX_MECHANISM=none"}
	g.Serve()
	g.Must("project", "add", dir)
	g.Add("files", rig.Fixture(t, fakemcp.Options{}))
	b := bridged{g.Connect(""), t}
	b.Initialize(`{}`)
	var opened struct {
		Session struct {
			ID string `json:"remote_session_id"`
		} `json:"session"`
	}
	worked(t, b.call("1", tool("1", "session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`)), &opened)
	for n, one := range []struct{ tool, arguments, block string }{
		{"edit_files", `"edits":[{"path":"a.txt","op":"create","content":"x\n"}]`, "create a.txt  +1 -0"},
		{"execute_command", `"argv":["echo","hello"]`, "1  hello"},
		{"call_tool", `"id":"files/echo","arguments":{"message":"m"}`, "succeeded"},
	} {
		id := fmt.Sprintf("observed-%d", n)
		answer := b.call(fmt.Sprint(n+2), tool(fmt.Sprint(n+2), one.tool, fmt.Sprintf(`{"remote_session_id":%q,"operation_id":%q,"activity":{"intent":"look on"},%s}`, opened.Session.ID, id, one.arguments)))
		var stored []event.Event
		if err := g.API().Events(t.Context(), api.EventsQuery{Operation: id}, func(e event.Event) error { stored = append(stored, e); return nil }); err != nil {
			t.Fatal(err)
		}
		var kinds []event.Kind
		for _, e := range stored {
			if k := string(e.Kind); strings.HasPrefix(k, "operation.") || strings.HasPrefix(k, "policy.") || strings.HasPrefix(k, "activity.") {
				kinds = append(kinds, e.Kind)
			}
		}
		want := []event.Kind{event.ActivityIntent, event.OperationClaimed, event.PolicyDecided, event.OperationDispatched, event.OperationEnded}
		if !slices.Equal(kinds, want) {
			t.Errorf("%s told %v, want %v: %s", one.tool, kinds, want, answer)
		}
		var lines bytes.Buffer
		for _, e := range stored {
			raw, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(raw, '\n'))
		}
		if got := g.Must("observe", "--no-follow", "--operation", id, "--format", "json"); got != lines.String() {
			t.Errorf("observe shows\n%s\nand stored is\n%s", got, lines.String())
		}
		text := g.Must("observe", "--no-follow", "--operation", id, "--project", "shop", "--session", opened.Session.ID)
		if !strings.Contains(text, one.tool) || !strings.Contains(text, "claims intent: look on") || !strings.Contains(text, one.block) || strings.Contains(text, "\x1b") {
			t.Errorf("observe shows\n%s", text)
		}
	}
	g.Must("audit", "verify")
}
