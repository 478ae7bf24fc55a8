package clientfile

import (
	"slices"
	"strings"
	"testing"

	"mcpx/internal/converge"
)

// TestSpell: what is written for each agent is read by that agent as the entries that were meant.
func TestSpell(t *testing.T) {
	forms := []converge.Form{
		{Kind: converge.FormDirect, Server: "files", Command: "npx", Args: []string{"-y", "@a/fs", "/srv/with space"}, Cwd: "/srv", Env: map[string]string{"A": "x"}},
		{Kind: converge.FormDirect, Server: "plain", Command: "uvx", Args: []string{"mcp-server-time"}},
		{Kind: converge.FormHTTP, Server: "gw", URL: "http://127.0.0.1:1/servers/gw/mcp"},
		{Kind: converge.FormDirect, Server: "old", URL: "http://127.0.0.1:2/sse", SSE: true},
	}
	for _, row := range agents {
		t.Run(string(row.agent), func(t *testing.T) {
			document, format, dropped, err := Spell(string(row.agent), forms)
			if err != nil {
				t.Fatal(err)
			}
			if d := dialectOf(row.agent); d.format != format || !strings.HasSuffix(string(document), "\n") {
				t.Errorf("format %s, document %q", format, document)
			}
			root, err := dialectOf(row.agent).parse(document)
			if err != nil {
				t.Fatalf("%v\n%s", err, document)
			}
			var names []string
			for _, e := range dialectOf(row.agent).list(root).entries {
				names = append(names, e.name)
			}
			want := []string{"files", "plain", "gw"}
			if dropped["old"] == "" {
				want = append(want, "old")
			}
			if !slices.Equal(names, want) {
				t.Errorf("entries %q, want %q in\n%s", names, want, document)
			}
			if lost := dropped["files"] != ""; lost == spellings[row.agent].cwd {
				t.Errorf("the directory is lost: %t", lost)
			}
		})
	}
	if _, _, _, err := Spell("emacs", nil); err == nil {
		t.Error("an agent that is not known has a file")
	}
}
