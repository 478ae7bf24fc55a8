package catalog

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// served is a server of the catalog from a command line or a URL.
func served(name, line string, aliases ...string) Server {
	s := Server{Name: name, Aliases: aliases, Review: ReviewApproved, Lifecycle: Enabled}
	if strings.HasPrefix(line, "http") {
		s.HTTP = &HTTP{URL: line}
		return s
	}
	argv := strings.Fields(line)
	s.Stdio = &Stdio{Command: argv[0], Args: argv[1:]}
	return s
}

func sighted(name, line string) Sighting { return Sight(served(name, line)) }

func TestMatch(t *testing.T) {
	with := func(s Server, change func(*Server)) Server { change(&s); return s }
	seen := func(s Sighting, change func(*Sighting)) Sighting { change(&s); return s }
	for _, c := range []struct {
		name    string
		catalog []Server
		entry   Sighting
		want    string // confidence, server, then each candidate's reasons
	}{
		{"empty catalog", nil, sighted("a", "npx a"), "none  not-in-catalog"},
		{"nothing in common", []Server{served("a", "npx a")}, sighted("b", "npx b"), "none  not-in-catalog"},
		{"equal", []Server{served("a", "npx -y a@1 --x")}, sighted("a", "npx -y a@1 --x"), "high a same-name,same-package"},
		{"another launcher", []Server{served("a", "npx a@1")}, sighted("b", "/opt/bin/bunx --bun a@1"), "high a other-name,same-package"},
		{"both unpinned", []Server{served("a", "npx a")}, sighted("a", "npx a@latest"), "high a same-name,same-package,unpinned"},
		{"pinned in one", []Server{served("a", "npx a")}, sighted("a", "npx a@1.0.0"), "medium a same-name,same-package,version-differs"},
		{"two ranges", []Server{served("a", "npx a@^1")}, sighted("a", "npx a@^2"), "medium a same-name,same-package,version-differs"},
		{"two tags of an image", []Server{served("a", "docker run r/a:1")}, sighted("a", "docker run r/a:2"), "medium a same-name,same-package,version-differs"},
		{"other arguments", []Server{served("a", "npx a@1 --ro")}, sighted("a", "npx a@1"), "medium a same-name,same-package,arguments-differ"},
		{"other registry", []Server{served("a", "npx a@1")}, sighted("a", "npx --registry https://r a@1"), "medium a same-name,same-package,options-differ"},
		{"other extras", []Server{served("a", "uvx a==1")}, sighted("a", "uvx a[x]==1"), "medium a same-name,same-package,options-differ"},
		{
			"other variables",
			[]Server{with(served("a", "npx a@1"), func(s *Server) { s.Stdio.Env = map[string]Binding{"T": {Ref: "env:T"}} })},
			sighted("a", "npx a@1"), "medium a same-name,same-package,variables-differ",
		},
		{
			"variables before the launcher, and passed ones",
			[]Server{with(served("a", "npx a@1"), func(s *Server) {
				s.Stdio.Env, s.Stdio.EnvPass = map[string]Binding{"T": {Ref: "env:T"}}, []string{"P"}
			})},
			seen(sighted("a", "env T=1 npx a@1"), func(s *Sighting) { s.Variables = []string{"P"} }), "high a same-name,same-package",
		},
		{
			"other directory",
			[]Server{served("a", "npx a@1")},
			seen(sighted("a", "npx a@1"), func(s *Sighting) { s.Cwd = "/src" }), "medium a same-name,same-package,cwd-differs",
		},
		{"relative script", []Server{served("a", "node a.js")}, sighted("a", "node a.js"), "medium a same-name,same-package,relative-path"},
		{"absolute script", []Server{served("a", "node /a.js")}, sighted("a", "node /a.js"), "high a same-name,same-package"},
		{"secret argument", []Server{served("a", "npx a@1 --token x1")}, sighted("a", "npx a@1 --token x2"), "medium a same-name,same-package,secret-not-compared"},
		{"another program of the package", []Server{served("a", "npx -p a@1 one")}, sighted("a", "npx -p a@1 two"), "weak a same-name,same-package,entry-differs"},
		{"absolute program against PATH", []Server{served("a", "a-server")}, sighted("a", "/opt/bin/a-server"), "weak a same-name,same-package,program-path-differs"},
		{"absolute program", []Server{served("a", "/opt/bin/a-server")}, sighted("b", "/opt/bin/a-server"), "high a other-name,same-package"},
		{"unknown launcher option", []Server{served("a", "npx a@1")}, sighted("a", "npx --odd a@1"), "weak a same-name,identity-weak"},
		{"nothing but a name", []Server{served("a", "npx a@1")}, Sighting{Name: "a"}, "weak a same-name,identity-weak"},
		{"same URL", []Server{served("a", "https://H/x")}, sighted("b", "https://h:443/x/"), "medium a other-name,same-url"},
		{"wrapped URL", []Server{served("a", "https://h/x")}, sighted("a", "npx mcp-remote https://h/x"), "medium a same-name,same-url,wrapped-remote"},
		{
			"other headers",
			[]Server{with(served("a", "https://h/x"), func(s *Server) { s.HTTP.Headers = map[string]Binding{"X-A": {Literal: "1"}} })},
			seen(sighted("a", "https://h/x"), func(s *Sighting) { s.Headers = []string{"x-b"} }), "medium a same-name,same-url,headers-differ",
		},
		{
			"headers in another case",
			[]Server{with(served("a", "https://h/x"), func(s *Server) { s.HTTP.Headers = map[string]Binding{"X-A": {Literal: "1"}} })},
			seen(sighted("a", "https://h/x"), func(s *Sighting) { s.Headers = []string{"x-a"} }), "medium a same-name,same-url",
		},
		{"secret in the URL", []Server{served("a", "https://h/x?token=abc1")}, sighted("a", "https://h/x?token=abc2"), "medium a same-name,same-url,secret-not-compared"},
		{"name of another server", []Server{served("a", "npx a")}, sighted("a", "npx b"), "weak a same-name,name-conflict"},
		{"alias of another server", []Server{served("a", "npx a", "b")}, sighted("b", "npx b"), "weak a same-alias,alias-conflict"},
		{"alias", []Server{served("a", "npx a@1", "b")}, sighted("b", "npx a@1"), "high a same-alias,same-package"},
		{
			"the name of one and the package of another",
			[]Server{served("a", "npx a@1"), served("b", "npx b@1")},
			sighted("a", "npx b@1"), "high b other-name,same-package same-name,name-conflict",
		},
		{
			"two equal servers",
			[]Server{served("a", "npx a@1"), served("b", "npx a@1")},
			sighted("a", "npx a@1"), "ambiguous  same-name,same-package other-name,same-package",
		},
		{
			"two servers, one nearer",
			[]Server{served("a", "npx a@1"), served("b", "npx a@2")},
			sighted("c", "npx a@2"), "high b other-name,same-package other-name,same-package,version-differs",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewIndex(c.catalog).Match(c.entry)
			got := fmt.Sprintf("%s %s", m.Confidence, m.Server)
			for _, candidate := range m.Candidates {
				got += " " + strings.Join(candidate.Reasons, ",")
			}
			if len(m.Candidates) == 0 {
				got += " " + strings.Join(m.Reasons, ",")
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// TestMatchOrder: the order of the catalog decides nothing.
func TestMatchOrder(t *testing.T) {
	servers := []Server{served("a", "npx x@1"), served("b", "npx x@1"), served("c", "npx x@2"), served("d", "npx y"), served("e", "npx z", "x")}
	entry := sighted("x", "npx x@1")
	want := NewIndex(servers).Match(entry)
	if want.Confidence != MatchAmbiguous || len(want.Candidates) != 4 {
		t.Fatalf("%+v", want)
	}
	slices.Reverse(servers)
	if d := cmp.Diff(want, NewIndex(servers).Match(entry)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestMatchBoundsCandidates(t *testing.T) {
	var servers []Server
	for i := range 3 * MaxCandidates {
		servers = append(servers, served(fmt.Sprintf("s%02d", i), "npx x@1"))
	}
	m := NewIndex(servers).Match(sighted("x", "npx x@1"))
	if m.Confidence != MatchAmbiguous || len(m.Candidates) != MaxCandidates {
		t.Errorf("%s with %d candidates", m.Confidence, len(m.Candidates))
	}
}

func TestMatchRouted(t *testing.T) {
	x := NewIndex([]Server{served("a", "npx a", "alias")})
	for name, want := range map[string]Confidence{"a": MatchExact, "alias": MatchExact, "b": MatchNone} {
		if m := x.Routed(name); m.Confidence != want || (m.Server == "a") != (want == MatchExact) {
			t.Errorf("%s: %+v", name, m)
		}
	}
}
