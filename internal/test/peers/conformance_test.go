package peers

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// httpFixture starts the everything-server of the Go SDK: with sessions it speaks the legacy era, without the modern one.
func httpFixture(t testing.TB, stateless bool) string {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", rig.Port(t))
	background(t, addr, nil, fixture(t, "everything-server"), "-http="+addr, fmt.Sprintf("-stateless=%v", stateless))
	return "http://" + addr + "/mcp"
}

// direct runs the suite without a gateway: what it gives is what the gateway has to give. It must be what the protocol
// document records, otherwise the fixture or the suite changed under us.
func direct(t testing.TB) map[string]checks {
	t.Helper()
	results := map[string]checks{}
	for revision, stateless := range map[string]bool{legacy: false, modern: true} {
		got, code, report := suite(t, httpFixture(t, stateless), "--requirements", revision)
		if code != 0 {
			t.Fatalf("the fixture itself fails %s:\n%s", revision, report)
		}
		for key, status := range got {
			if status == "FAILURE" && !strings.HasPrefix(key, "tasks-") {
				t.Errorf("%s: %s fails directly", revision, key)
			}
			if strings.HasPrefix(key, "tasks-") {
				delete(got, key) // no SDK has tasks; TestConformanceTasks runs them
			}
		}
		results[revision] = got
	}
	return results
}

// TestConformance runs the legs of the protocol document, section 14. Legs without a baseline have to exit 0 as well:
// every scored scenario passes.
func TestConformance(t *testing.T) {
	want := direct(t)
	g := rig.Start(t)
	server := fixture(t, "everything-server")
	stdio := func(name string, global bool, flags ...string) {
		g.Add(name, []string{server}, flags...)
		if global {
			g.Share(name)
		}
	}
	stdio("a-session", false)
	stdio("a-session-direct", false, "--supervised=false")
	stdio("a-global", true)
	stdio("a-global-direct", true, "--supervised=false")
	stdio("a-ml", false, "--protocol", "legacy")
	stdio("a-lm", false, "--protocol", "modern")
	g.AddURL("b", httpFixture(t, false))
	g.AddURL("b-ml", httpFixture(t, false), "--protocol", "legacy")
	g.AddURL("c", httpFixture(t, true))
	g.AddURL("c-lm", httpFixture(t, true), "--protocol", "modern")
	// A backend that speaks both eras on one URL over HTTP: no SDK serves one, another gateway does.
	behind := rig.Start(t)
	behind.Add("dual", []string{server})
	g.AddURL("h", behind.URL("dual"))

	for _, leg := range []struct {
		server   string
		revision string
		bridged  bool // fixtures name some tools by era: a short reviewed list is allowed
	}{
		{"a-session", legacy, false},
		{"a-session", modern, false},
		{"a-session-direct", legacy, false},
		{"a-session-direct", modern, false},
		{"a-global", legacy, false},
		{"a-global", modern, false},
		{"a-global-direct", legacy, false},
		{"a-global-direct", modern, false},
		{"b", legacy, false},
		{"c", modern, false},
		{"h", legacy, false},
		{"h", modern, false},
		{"a-ml", modern, true},
		{"a-lm", legacy, true},
		{"b-ml", modern, true},
		{"c-lm", legacy, true},
	} {
		t.Run(leg.server+"/"+leg.revision, func(t *testing.T) {
			got, code, report := suite(t, g.URL(leg.server), "--requirements", leg.revision)
			for key := range got {
				if strings.HasPrefix(key, "tasks-") {
					delete(got, key)
				}
			}
			if leg.bridged {
				settle(t, leg.server+"-"+leg.revision, want[leg.revision], got)
				return
			}
			for key, what := range differences(want[leg.revision], got) {
				t.Errorf("%s: %s", key, what)
			}
			if code != 0 {
				t.Errorf("exit code %d\n%s", code, report)
			}
		})
	}
}

// TestConformanceTypeScript is leg D: a dual-era server on the TypeScript SDK. It lacks much of what the suite asks for,
// so not the exit code counts but that the same checks fail directly and through the gateway.
func TestConformanceTypeScript(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", rig.Port(t))
	_, port, _ := strings.Cut(addr, ":")
	background(t, addr, nil, node(t), filepath.Join("testdata", "dualserver.mjs"), modules(t), port)
	g := rig.Start(t)
	g.AddURL("d", "http://"+addr+"/mcp")
	for _, revision := range []string{legacy, modern} {
		t.Run(revision, func(t *testing.T) {
			want, _, _ := suite(t, "http://"+addr+"/mcp", "--requirements", revision)
			got, _, report := suite(t, g.URL("d"), "--requirements", revision)
			settle(t, "d-"+revision, want, got)
			if t.Failed() {
				t.Log(report)
			}
		})
	}
}

// TestConformanceOlderRevisions is leg E: what the suite still has of older wires, as directly.
func TestConformanceOlderRevisions(t *testing.T) {
	url := httpFixture(t, false)
	g := rig.Start(t)
	g.Add("e", []string{fixture(t, "everything-server")})
	g.Add("e-global", []string{fixture(t, "everything-server")})
	g.Share("e-global")
	for _, revision := range []string{"2025-06-18", "2025-03-26"} {
		want, _, _ := suite(t, url, "--suite", "all", "--spec-version", revision)
		for _, name := range []string{"e", "e-global"} {
			t.Run(name+"/"+revision, func(t *testing.T) {
				got, _, report := suite(t, g.URL(name), "--suite", "all", "--spec-version", revision)
				for key, what := range differences(want, got) {
					t.Errorf("%s: %s", key, what)
				}
				if t.Failed() {
					t.Log(report)
				}
			})
		}
	}
}

// TestConformanceRepeated is leg G: twenty runs in a row, on one daemon, without a hang or a failure.
func TestConformanceRepeated(t *testing.T) {
	g := rig.Start(t)
	g.Add("repeated", []string{fixture(t, "everything-server")})
	for i := range 20 {
		if _, code, report := suite(t, g.URL("repeated"), "--requirements", legacy); code != 0 {
			t.Fatalf("run %d of 20: exit code %d\n%s", i+1, code, report)
		}
	}
}

// TestConformanceTasks compares the tasks scenarios, which no SDK serves, on our own raw fixture: directly, through the
// gateway over HTTP, and through the gateway over stdio.
func TestConformanceTasks(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", rig.Port(t))
	o := fakemcp.Options{Era: fakemcp.Dual, Name: "tasks", Tasks: true}
	g := rig.Start(t)
	g.Add("t-stdio", rig.Fixture(t, o))
	g.Add("t-global", rig.Fixture(t, o))
	g.Share("t-global")
	o.Serve = addr
	background(t, addr, nil, rig.Fixture(t, o)...)
	g.AddURL("t-http", "http://"+addr+"/mcp")
	for _, scenario := range []string{
		"tasks-lifecycle", "tasks-capability-negotiation", "tasks-wire-fields", "tasks-request-state-removal", "tasks-mrtr-input",
		"tasks-request-headers", "tasks-dispatch-and-envelope", "tasks-status-notifications", "tasks-required-task-error", "tasks-mrtr-composition",
	} {
		t.Run(scenario, func(t *testing.T) {
			args := []string{"--scenario", scenario, "--spec-version", modern, "--force"}
			want, code, report := suite(t, "http://"+addr+"/mcp", args...)
			if code != 0 {
				t.Fatalf("the fixture itself fails:\n%s", report)
			}
			for _, name := range []string{"t-stdio", "t-global", "t-http"} {
				got, code, report := suite(t, g.URL(name), args...)
				for key, what := range differences(want, got) {
					t.Errorf("%s: %s: %s", name, key, what)
				}
				if code != 0 {
					t.Errorf("%s: exit code %d\n%s", name, code, report)
				}
			}
		})
	}
}
