package converge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
)

var servers = []catalog.Server{
	{Name: "files", Stdio: &catalog.Stdio{Command: "npx", Args: []string{"files@1"}}, Aliases: []string{"fs"}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled},
	{Name: "one", Stdio: &catalog.Stdio{Command: "npx", Args: []string{"twin@1"}}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled},
	{Name: "two", Stdio: &catalog.Stdio{Command: "npx", Args: []string{"twin@1"}}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled},
	{Name: "old", Stdio: &catalog.Stdio{Command: "npx", Args: []string{"old@1"}}, Review: catalog.ReviewApproved, Lifecycle: catalog.Disabled},
	{Name: "docs", HTTP: &catalog.HTTP{URL: "https://example.com/mcp"}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled},
}

// stdio is an entry with a command line, http one with a URL.
func stdio(name, line string) Entry {
	argv := strings.Fields(line)
	e := Entry{Name: name, Enabled: true, Transport: "stdio", Command: argv[0], Args: argv[1:], Parse: "complete"}
	if p, ok := catalog.IdentifyCommand(e.Command, e.Args); ok {
		e.Package = &p
	}
	return e
}

func http(name, url string) Entry {
	p := catalog.IdentifyURL(url)
	return Entry{Name: name, Enabled: true, Transport: "http", URL: url, Package: &p, Parse: "complete"}
}

func routedTo(name string, state RoutedState) Entry {
	e := http(name, "http://127.0.0.1:30000/servers/"+name+"/mcp")
	e.Routed = &Routed{State: state, Server: name, Form: "http"}
	return e
}

func but(e Entry, change func(*Entry)) Entry { change(&e); return e }

func TestClassify(t *testing.T) {
	off := func(e *Entry) { e.Enabled = false }
	for _, c := range []struct {
		name  string
		entry Entry
		want  string // class, weight, reasons, confidence and server of the match
	}{
		{"routed", routedTo("files", RoutedHere), "compliant ok routed exact files"},
		{"routed by alias", routedTo("fs", RoutedAlias), "compliant ok routed-alias exact files"},
		{"routed in another spelling", but(routedTo("files", RoutedSpelling), func(e *Entry) { e.Problems = []Problem{{Code: "routed-spelling"}} }), "compliant notice routed-spelling exact files"},
		{"routed to another port", routedTo("files", RoutedStalePort), "ineffective warning routed-stale-port exact files"},
		{"routed to nothing", routedTo("gone", RoutedUnknown), "unknown blocker routed-unknown none "},
		{"routed to another hub", routedTo("files", RoutedForeign), "unknown warning routed-foreign weak files"},
		{"routed and off", but(routedTo("files", RoutedDisabled), off), "dormant notice disabled-by-agent,routed-disabled exact files"},
		{"routed to a server that is off", routedTo("old", RoutedHere), "compliant warning routed,server-not-routable exact old"},
		{"direct, equal", stdio("files", "npx files@1"), "bypass warning direct high files"},
		{"direct, another version", stdio("files", "npx files@2"), "bypass warning direct medium files"},
		{"direct, same URL", http("docs", "https://example.com/mcp/"), "bypass warning direct medium docs"},
		{"direct and off", but(stdio("files", "npx files@1"), off), "dormant notice disabled-by-agent high files"},
		{"unknown", stdio("new", "npx new"), "unknown warning not-in-catalog none "},
		{"only the name can be compared", stdio("files", "npx --odd files@1"), "unknown warning same-name,identity-weak weak files"},
		{"two servers fit", stdio("x", "npx twin@1"), "ambiguous warning several-servers ambiguous "},
		{"name of another server", stdio("files", "npx new"), "name-conflict warning name-conflict weak files"},
		{"alias of another server", stdio("fs", "npx new"), "name-conflict warning alias-conflict weak files"},
		{"the name wins over a match", stdio("files", "npx old@1"), "name-conflict warning name-conflict high old"},
		{"a name does not break a tie", stdio("one", "npx twin@1"), "ambiguous warning several-servers ambiguous "},
		{
			"broken",
			Entry{Name: "x", Enabled: true, Parse: "broken", Problems: []Problem{{Code: "missing-field", Field: "command"}, {Code: "missing-field", Field: "url"}}},
			"broken warning missing-field none ",
		},
		{"in a broken file", but(stdio("files", "npx files@1"), func(e *Entry) { e.Facts.FileBroken = true }), "bypass warning direct,file-broken high files"},
		{"hidden by a stronger file", but(stdio("files", "npx files@1"), func(e *Entry) { e.Facts.Shadowed = true }), "bypass warning direct,shadowed high files"},
		{"one of several layers", but(stdio("files", "npx files@1"), func(e *Entry) { e.Facts.Layered = true }), "bypass warning direct,layered high files"},
		{"websocket", but(http("x", "wss://example.com/"), func(e *Entry) { e.Transport = "ws" }), "unsupported warning websocket none "},
		{"OAuth of the agent", but(http("x", "https://example.com/o"), func(e *Entry) { e.Auth = "oauth" }), "unsupported warning client-oauth none "},
		{"only a layer", Entry{Name: "x", Enabled: true, Parse: "complete"}, "dormant notice layer-only none "},
		{
			"a field without effect", but(stdio("x", "npx new"), func(e *Entry) { e.Problems = []Problem{{Code: "ineffective-field", Field: "disabled"}} }),
			"ineffective warning not-in-catalog,ineffective-field none ",
		},
		{
			"known, with a field without effect", but(stdio("files", "npx files@1"), func(e *Entry) { e.Problems = []Problem{{Code: "ineffective-field"}} }),
			"bypass warning direct,ineffective-field high files",
		},
		{"plain http", http("x", "http://example.com/mcp"), "unsafe blocker plain-http none "},
		{"plain http on this machine", http("x", "http://localhost:1/mcp"), "unknown warning not-in-catalog none "},
		{"plain http to a host that is a reference", http("x", "http://$HOST/mcp"), "unknown warning not-in-catalog none "},
		{"plain http behind a program", stdio("x", "npx mcp-remote http://example.com/mcp"), "unsafe blocker plain-http none "},
		{"credentials in the URL", but(http("x", "https://redacted@h/"), func(e *Entry) { e.Facts.URLCredentials = true }), "unsafe blocker url-credentials none "},
		{"TLS checks off by variable", but(stdio("x", "npx new"), func(e *Entry) { e.Variables = []string{"NODE_TLS_REJECT_UNAUTHORIZED"} }), "unsafe blocker tls-checks-off none "},
		{"TLS checks off by flag", stdio("x", "npx new --insecure=true"), "unsafe blocker tls-checks-off none "},
		{"shell", stdio("x", "/bin/bash -lc npx"), "unsafe blocker shell-string none "},
		{"script of a shell", stdio("x", "bash /opt/run.sh"), "unknown warning not-in-catalog none "},
		{"everybody writes the file", but(routedTo("files", RoutedHere), func(e *Entry) { e.Facts.FileWritable = true }), "unsafe blocker routed,file-world-writable exact files"},
		{"everybody writes the program", but(stdio("x", "/opt/x"), func(e *Entry) { e.Facts.ProgramWritable = true }), "unsafe blocker program-world-writable none "},
		{"unsafe and off", but(http("x", "http://example.com/mcp"), off), "dormant notice disabled-by-agent,plain-http none "},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Classify([]Entry{c.entry}, servers, nil)[0]
			got := fmt.Sprintf("%s %s %s %s %s", f.Class, f.Weight, strings.Join(f.Reasons, ","), f.Match.Confidence, f.Match.Server)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			for _, code := range slices.Concat([]string{string(f.Class)}, f.Reasons, f.Match.Reasons) {
				if _, ok := Explain(code); !ok {
					t.Errorf("%s is not explained", code)
				}
			}
		})
	}
}

// TestClassifyOrder: findings are in the order of the entries, and one entry does not change another.
func TestClassifyOrder(t *testing.T) {
	entries := []Entry{stdio("files", "npx files@1"), {Name: "x", Parse: "broken"}, routedTo("files", RoutedHere)}
	var got []Class
	for _, f := range Classify(entries, servers, nil) {
		got = append(got, f.Class)
	}
	if d := cmp.Diff([]Class{Bypass, Broken, Compliant}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if out := Classify(nil, nil, nil); out == nil || len(out) != 0 {
		t.Errorf("no entries give %v, want an empty list", out)
	}
}

// BenchmarkClassify: the time for each entry does not depend on the size of the catalog, apart from reading it once.
func BenchmarkClassify(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		var all []catalog.Server
		var entries []Entry
		for i := range n {
			argv := []string{fmt.Sprintf("package-%d@1", i), "--x"}
			all = append(all, catalog.Server{Name: fmt.Sprintf("s%d", i), Stdio: &catalog.Stdio{Command: "npx", Args: argv}, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled})
			entries = append(entries, stdio(fmt.Sprintf("s%d", i), "npx "+strings.Join(argv, " ")))
		}
		b.Run(fmt.Sprintf("%d servers", n), func(b *testing.B) {
			for b.Loop() {
				if found := Classify(entries, all, nil); found[n-1].Match.Confidence != catalog.MatchHigh {
					b.Fatal(found[n-1])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "µs/entry")
		})
	}
}
