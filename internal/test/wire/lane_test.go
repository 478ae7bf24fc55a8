package wire

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// lane is one way from a client to a fixture.
type lane struct {
	name    string
	modern  bool // era of the client
	cross   bool // the backend speaks the other era only
	stdio   bool
	control bool // no gateway in between
	url     string
	record  string // what the backend read
}

// answersFile writes raw answers by method for a fixture.
func answersFile(t *testing.T, answers map[string][]string) string {
	t.Helper()
	raw, err := json.Marshal(answers)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "answers.json")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// everyLane runs a test against the fixture alone, as control, and then through one daemon with a server for each lane.
// Lanes that skip refuses are left out.
func everyLane(t *testing.T, skip func(l lane) bool, run func(t *testing.T, l lane)) {
	t.Helper()
	answers := answersFile(t, map[string][]string{
		"tools/list": {`{"jsonrpc":"2.0","id":@ID@,"zeta":true,"result":{` + toolsResult + `}}`},
	})
	t.Run("control", func(t *testing.T) {
		for _, modern := range []bool{false, true} {
			l := lane{name: fmt.Sprintf("modern=%v", modern), modern: modern, control: true}
			if skip != nil && skip(l) {
				continue
			}
			l.record = filepath.Join(t.TempDir(), "record")
			l.url = serve(t, fakemcp.Options{Era: fakemcp.Dual, Record: l.record, Answers: answers, Name: "lane", Tasks: true})
			t.Run(l.name, func(t *testing.T) { run(t, l) })
		}
	})
	t.Run("through", func(t *testing.T) {
		g := rig.Start(t)
		for _, p := range plans() {
			l := p.lane
			if skip != nil && skip(l) {
				continue
			}
			l.record = filepath.Join(g.Home, l.name+".record")
			l.url = g.URL(l.name)
			o := fakemcp.Options{Era: p.era, Record: l.record, Answers: answers, Name: "lane", Tasks: true}
			if l.stdio {
				g.Add(l.name, rig.Fixture(t, o), p.flags...)
			} else {
				o.Stateful = true
				g.AddURL(l.name, serve(t, o), p.flags...)
			}
			if p.global {
				g.Share(l.name)
			}
			t.Run(l.name, func(t *testing.T) { run(t, l) })
		}
	})
}

// plan is how a lane is set up.
type plan struct {
	lane
	era    fakemcp.Era
	global bool
	flags  []string
}

func plans() []plan {
	var all []plan
	for _, kind := range []string{"supervised", "direct"} {
		flags := []string{fmt.Sprintf("--supervised=%v", kind == "supervised")}
		all = append(all,
			plan{lane{name: "ll-session-" + kind, stdio: true}, fakemcp.Legacy, false, flags},
			plan{lane{name: "ll-global-" + kind, stdio: true}, fakemcp.Legacy, true, flags},
			plan{lane{name: "mm-session-" + kind, stdio: true, modern: true}, fakemcp.Modern, false, flags},
			plan{lane{name: "mm-global-" + kind, stdio: true, modern: true}, fakemcp.Modern, true, flags},
			plan{lane{name: "dual-l-" + kind, stdio: true}, fakemcp.Dual, false, flags},
			plan{lane{name: "dual-m-" + kind, stdio: true, modern: true}, fakemcp.Dual, true, flags},
			plan{lane{name: "ml-" + kind, stdio: true, modern: true, cross: true}, fakemcp.Legacy, false, flags},
			plan{lane{name: "lm-" + kind, stdio: true, cross: true}, fakemcp.Modern, false, flags},
		)
	}
	return append(all,
		plan{lane{name: "ll-http"}, fakemcp.Legacy, false, nil},
		plan{lane{name: "mm-http", modern: true}, fakemcp.Modern, false, nil},
	)
}

// serve runs a fixture as an HTTP server inside the test.
func serve(t *testing.T, o fakemcp.Options) string {
	t.Helper()
	s, err := fakemcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.CloseClientConnections() // a hanging handler would hold Close
		web.Close()
	})
	return web.URL + "/mcp"
}

// client is a fresh client of the lane's era.
func (l lane) client(t *testing.T, capabilities string) *rig.Client {
	t.Helper()
	if l.modern {
		return rig.NewClient(t, l.url)
	}
	return rig.Open(t, l.url, "2025-11-25", capabilities)
}

// meta is the _meta member of a request in this lane with further members, "" for none.
func (l lane) meta(more ...string) string {
	if l.modern {
		more = append([]string{rig.Envelope(`{"elicitation":{"form":{}},"sampling":{},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)}, more...)
	}
	if len(more) == 0 {
		return ""
	}
	return `"_meta":{` + strings.Join(more, ",") + `}`
}

// params is a params object with the lane's metadata last.
func (l lane) params(members ...string) string {
	if meta := l.meta(); meta != "" {
		members = append(members, meta)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// recorded is the last line the backend read that contains the mark.
func (l lane) recorded(t *testing.T, mark string) string {
	t.Helper()
	raw, err := os.ReadFile(l.record)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	for _, line := range slices.Backward(lines) {
		if strings.Contains(line, mark) {
			return line
		}
	}
	t.Fatalf("the backend never read a line with %q; it read %d lines", mark, len(lines))
	return ""
}
