package clientfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/converge"
)

// many is a file with entries s0, s1 and so on.
func many(a Agent, n int) string {
	var all []string
	for i := range n {
		switch a { //nolint:exhaustive // one agent of each syntax
		case Codex:
			all = append(all, fmt.Sprintf("[mcp_servers.s%d]\ncommand = \"npx\"\nargs = [\"package-%d@1\"]\n", i, i))
		case Continue:
			all = append(all, fmt.Sprintf("  - name: s%d\n    command: npx\n    args: [package-%d@1]\n", i, i))
		default:
			all = append(all, fmt.Sprintf("    \"s%d\": {\n      \"command\": \"npx\",\n      \"args\": [\"package-%d@1\"]\n    }", i, i))
		}
	}
	switch a { //nolint:exhaustive // as above
	case Codex:
		return strings.Join(all, "\n")
	case Continue:
		return "name: block\nversion: 1.0.0\nschema: v1\nmcpServers:\n" + strings.Join(all, "")
	}
	return "{\n  \"mcpServers\": {\n" + strings.Join(all, ",\n") + "\n  }\n}\n"
}

// TestOneLargeFile: a draft costs about the same however many entries its file has.
func TestOneLargeFile(t *testing.T) {
	if raceOn {
		t.Skip("the race detector distorts times")
	}
	const drafts = 100
	for a, name := range map[Agent]string{Claude: ".claude.json", Codex: ".codex/config.toml", Continue: ".continue/config.yaml"} {
		t.Run(string(a), func(t *testing.T) {
			cost := func(n int) time.Duration {
				desk := newDesk(t)
				path := filepath.Join(desk.look.Home, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(many(a, n)), 0o600); err != nil {
					t.Fatal(err)
				}
				r := desk.Read(desk.look)
				draft := func(i int) {
					step := converge.Step{Op: converge.StepSet, Name: fmt.Sprintf("s%d", i), Want: viaHTTP}
					if _, err := r.Draft(t.Context(), converge.Drafting{Agent: string(a), Path: path, Steps: []converge.Step{step}}); err != nil {
						t.Fatal(err)
					}
				}
				draft(0) // reads and parses the file
				best := time.Hour
				for range 3 {
					began := time.Now()
					for i := range drafts {
						draft(i * n / drafts)
					}
					best = min(best, time.Since(began))
				}
				return best
			}
			small, big := cost(500), cost(5000)
			t.Logf("%d drafts: %v in a file of 500 entries, %v in one of 5,000: %.1f times", drafts, small, big, float64(big)/float64(small))
			if big > 7*small { // ten times if each looked at all entries
				t.Errorf("%v with 500 entries, %v with 5,000", small, big)
			}
		})
	}
}

// TestReadingIsOfOneTime: a file that is written meanwhile is drafted as it was read.
func TestReadingIsOfOneTime(t *testing.T) {
	desk := newDesk(t)
	path := filepath.Join(desk.look.Home, ".claude.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(many(Claude, 2))
	r := desk.Read(desk.look)
	draft := func(r converge.Drafter, name string) converge.Change {
		t.Helper()
		c, err := r.Draft(t.Context(), converge.Drafting{Agent: string(Claude), Path: path, Steps: []converge.Step{{Op: converge.StepSet, Name: name, Want: viaHTTP}}})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := draft(r, "s0")
	write(many(Claude, 3))
	if second := draft(r, "s1"); second.Expected != first.Expected {
		t.Errorf("two drafts of one look expect %+v and %+v", first.Expected, second.Expected)
	}
	if later := draft(desk.Read(desk.look), "s1"); later.Expected.SHA256 == first.Expected.SHA256 {
		t.Error("another look is of the old bytes")
	}
}
