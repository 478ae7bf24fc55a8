package catalog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"mcpx/internal/fault"
)

func stdio(change func(*Server)) Server {
	s := Server{
		Name: "git", Stdio: &Stdio{Command: "uvx", Args: []string{"mcp-server-git"}},
		Sharing: ShareSession, Review: ReviewApproved, Lifecycle: Enabled, Source: "operator",
	}
	if change != nil {
		change(&s)
	}
	return s
}

func remote(url string, change func(*HTTP)) Server {
	return stdio(func(s *Server) {
		s.Stdio, s.HTTP = nil, &HTTP{URL: url}
		if change != nil {
			change(s.HTTP)
		}
	})
}

func header(name string, b Binding) Server {
	return remote("https://example.com/mcp", func(h *HTTP) { h.Headers = map[string]Binding{name: b} })
}

func env(name string, b Binding) Server {
	return stdio(func(s *Server) { s.Stdio.Env = map[string]Binding{name: b} })
}

func TestValidateAccepts(t *testing.T) {
	for name, s := range map[string]Server{
		"plain":             stdio(nil),
		"path with a space": stdio(func(s *Server) { s.Stdio.Command = "/opt/My Tools/run" }),
		"drive letter":      stdio(func(s *Server) { s.Stdio.Command = `C:\Program Files\run.exe` }),
		"64 characters":     stdio(func(s *Server) { s.Name = strings.Repeat("a", 64) }),
		"all of a name":     stdio(func(s *Server) { s.Name = "A.b_c-9" }),
		"alias":             stdio(func(s *Server) { s.Aliases = []string{"vcs", "Git"} }),
		"empty variable":    env("CI", Binding{}),
		"reference":         env("TOKEN", Binding{Ref: "env:TOKEN"}),
		"odd variable":      env("npm_config_@acme:registry", Binding{Literal: "x"}),
		"template":          header("Authorization", Binding{Template: "Bearer {file:/run/secrets/t#KEY}"}),
		"query":             remote("https://example.com/mcp?workspace=1&a=b", nil),
		"ipv6":              remote("http://[::1]:4000/mcp", nil),
		"sse":               remote("http://127.0.0.1:1/sse", func(h *HTTP) { h.Transport = TransportSSE }),
		"never idle":        stdio(func(s *Server) { s.Limits.Idle = -1 }),
		"overrides":         stdio(func(s *Server) { s.IDStyle, s.Retry, s.Protocol = "int", "idempotent", ProtocolModern }),
	} {
		if err := Validate(s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		s    Server
		code string
		says string // in the message
		hint string // in the hint
	}{
		"no name":             {stdio(func(s *Server) { s.Name = "" }), "server-name", "empty", "choose"},
		"dot":                 {stdio(func(s *Server) { s.Name = ".." }), "server-name", "URL path", "choose"},
		"reserved":            {stdio(func(s *Server) { s.Name = "mcp_hub" }), "server-name", "mcpx's own", "another"},
		"slash":               {stdio(func(s *Server) { s.Name = "github.com/a" }), "server-name", "may hold only", `"github.com-a"`},
		"unicode":             {stdio(func(s *Server) { s.Name = "größe" }), "server-name", "may hold only", `"gr--e"`},
		"65 characters":       {stdio(func(s *Server) { s.Name = strings.Repeat("a", 65) }), "server-name", "65", "shorten"},
		"bad alias":           {stdio(func(s *Server) { s.Aliases = []string{"a b"} }), "server-name", "alias", `"a-b"`},
		"own alias":           {stdio(func(s *Server) { s.Aliases = []string{"git"} }), "server-invalid", "twice", "remove"},
		"no backend":          {stdio(func(s *Server) { s.Stdio = nil }), "server-invalid", "neither", "--url"},
		"two backends":        {stdio(func(s *Server) { s.HTTP = &HTTP{URL: "http://x"} }), "server-invalid", "both", "keep one"},
		"no command":          {stdio(func(s *Server) { s.Stdio.Command = " " }), "server-invalid", "command", "--"},
		"shell line":          {stdio(func(s *Server) { s.Stdio.Command = "npx -y @a/b" }), "server-invalid", "shell", "-- npx -y @a/b"},
		"relative command":    {stdio(func(s *Server) { s.Stdio.Command = "./run" }), "server-invalid", "relative", "absolute"},
		"NUL argument":        {stdio(func(s *Server) { s.Stdio.Args = []string{"a", "b\x00"} }), "server-invalid", "number 2", "correct"},
		"relative cwd":        {stdio(func(s *Server) { s.Stdio.Cwd = "src" }), "server-invalid", "cwd", "whole path"},
		"variable with =":     {env("A=B", Binding{Literal: "x"}), "server-invalid", "A=B", "NAME=VALUE"},
		"variable with digit": {env("1A", Binding{Literal: "x"}), "server-invalid", "1A", "NAME=VALUE"},
		"empty variable name": {env("", Binding{Literal: "x"}), "server-invalid", "env", "NAME=VALUE"},
		"two values":          {env("A", Binding{Literal: "x", Ref: "env:A"}), "server-invalid", "several", "keep one"},
		"bad reference":       {env("A", Binding{Ref: "TOKEN"}), "server-invalid", "KIND:WHERE", "env:"},
		"open template":       {env("A", Binding{Template: "Bearer {env:A"}), "server-invalid", "not closed", "{env:NAME}"},
		"template of nothing": {env("A", Binding{Template: "Bearer"}), "server-invalid", "no reference", "{env:NAME}"},
		"passed and set": {stdio(func(s *Server) {
			s.Stdio.Env, s.Stdio.EnvPass = map[string]Binding{"A": {Literal: "1"}}, []string{"A"}
		}), "server-invalid", "A has a value", "keep one"},
		"passed to everybody": {stdio(func(s *Server) {
			s.Stdio.EnvPass, s.Sharing = []string{"A"}, ShareGlobal
		}), "server-invalid", "one process for many", "--env-from"},
		"url without scheme": {remote("example.com/mcp", nil), "server-invalid", "scheme", "https://"},
		"url with port only": {remote("localhost:80/mcp", nil), "server-invalid", "scheme", "https://"},
		"websocket":          {remote("ws://example.com/mcp", nil), "server-invalid", "scheme", "not supported"},
		"url without host":   {remote("https:///mcp", nil), "server-invalid", "no host", "HOST"},
		"url with password":  {remote("https://u:hunter2@example.com/", nil), "server-invalid", "password", "--header"},
		"url with fragment":  {remote("https://example.com/#a", nil), "server-invalid", "fragment", "remove"},
		"url with secret":    {remote("https://example.com/?api_key=hunter2", nil), "server-invalid", "api_key", "--header"},
		"unreadable url":     {remote("https://exa mple.com/%zz", nil), "server-invalid", "cannot be read", "https://"},
		"header name":        {header("X Y", Binding{Literal: "1"}), "server-invalid", "X Y", "NAME=VALUE"},
		"own header":         {header("Content-length", Binding{Literal: "1"}), "server-invalid", "itself", "remove"},
		"protocol header":    {header("mcp-protocol-version", Binding{Literal: "1"}), "server-invalid", "itself", "remove"},
		"session header":     {header("Mcp-Session-Id", Binding{Literal: "1"}), "server-invalid", "itself", "remove"},
		"empty header":       {header("X-A", Binding{}), "server-invalid", "no value", "X-A=VALUE"},
		"header with line":   {header("X-A", Binding{Literal: "a\r\nX-B: 1"}), "server-invalid", "line end", "remove"},
		"header twice": {remote("https://example.com/", func(h *HTTP) {
			h.Headers = map[string]Binding{"X-A": {Literal: "1"}, "x-a": {Literal: "2"}}
		}), "server-invalid", "same header", "keep one"},
		"sharing":     {stdio(func(s *Server) { s.Sharing = "globl" }), "server-invalid", "sharing", `"global"`},
		"no sharing":  {stdio(func(s *Server) { s.Sharing = "" }), "server-invalid", "sharing", "session"},
		"protocol":    {stdio(func(s *Server) { s.Protocol = "Legacy" }), "server-invalid", "protocol", `"legacy"`},
		"transport":   {remote("http://x", func(h *HTTP) { h.Transport = "streamable" }), "server-invalid", "transport", "auto"},
		"id style":    {stdio(func(s *Server) { s.IDStyle = "integer" }), "server-invalid", "id-style", "int"},
		"review":      {stdio(func(s *Server) { s.Review = "" }), "server-invalid", "review", "pending"},
		"direct http": {remote("http://x", nil), "", "", ""},
		"negative":    {stdio(func(s *Server) { s.Limits.Call = -time.Second }), "server-invalid", "call-timeout", "90s"},
		"call above max": {
			stdio(func(s *Server) { s.Limits.Call = time.Hour }), "server-invalid", "longer",
			"raise",
		},
		"long notes": {stdio(func(s *Server) { s.Notes = strings.Repeat("x", maxText+1) }), "server-invalid", "bytes", "shorten"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "direct http" {
				tc.s.Direct = true
				tc.code, tc.says, tc.hint = "server-invalid", "supervise", "leave"
			}
			err := Validate(tc.s)
			f, ok := errors.AsType[*fault.Error](err)
			if !ok {
				t.Fatalf("error %v, want a fault", err)
			}
			if f.Kind != fault.Invalid || f.Code != tc.code || !strings.Contains(f.Message, tc.says) || !strings.Contains(f.Hint, tc.hint) {
				t.Errorf("%s %s: %s\nhint: %s\nwant %s, %q, hint %q", f.Kind, f.Code, f.Message, f.Hint, tc.code, tc.says, tc.hint)
			}
			if strings.Contains(f.Error()+f.Hint, "hunter2") {
				t.Errorf("the error shows a secret: %v", f)
			}
		})
	}
}

func TestSafeName(t *testing.T) {
	for name, want := range map[string]string{
		"fs": "fs", "-fs-": "-fs-", "@scope/fs": "scope-fs", "files (mine)": "files--mine", "": "server", "é": "server", "mcp_hub": "server-mcp_hub",
	} {
		if got := SafeName(name); got != want {
			t.Errorf("SafeName(%q) is %q, want %q", name, got, want)
		}
	}
}

func TestSafeNameIsValid(t *testing.T) {
	for _, name := range []string{"", ".", "..", "mcp_hub", "a/b", "größe", strings.Repeat("ä", 200), "-.-", "a\x00b", "ok"} {
		if err := ValidName(SafeName(name)); err != nil {
			t.Errorf("SafeName(%q): %v", name, err)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"session", "agent", "workspace", "account", "global"}
	for word, want := range map[string]string{
		"globel": "global", "gobal": "global", "sesion": "session", "worksapce": "workspace", "acount": "account",
		"global": "global", "x": "", "": "", "completely": "",
	} {
		if got := Nearest(word, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for name, tc := range map[string]struct {
		s    Server
		want string
	}{
		"dot":            {stdio(func(s *Server) { s.Name = "ev.dot" }), "name-dot"},
		"long":           {stdio(func(s *Server) { s.Name = strings.Repeat("a", 40) }), "name-long"},
		"raw secret":     {env("GITHUB_TOKEN", Binding{Literal: "hunter2"}), "raw-secret"},
		"secret header":  {header("Authorization", Binding{Literal: "Bearer hunter2"}), "raw-secret"},
		"secret in argv": {stdio(func(s *Server) { s.Stdio.Args = []string{"--token", "hunter2"} }), "secret-argument"},
		"files":          {stdio(nil), "workspace-bound"},
		"relative":       {stdio(func(s *Server) { s.Stdio = &Stdio{Command: "x", Args: []string{"."}} }), "workspace-bound"},
		"plain http":     {remote("http://example.com/mcp", nil), "plain-http"},
		"shared browser": {stdio(func(s *Server) {
			s.Sharing, s.Stdio = ShareGlobal, &Stdio{Command: "npx", Args: []string{"@playwright/mcp@latest"}}
		}), "sharing"},
	} {
		found := false
		for _, w := range Warnings(tc.s) {
			found = found || w.Code == tc.want
			if strings.Contains(w.Text, "hunter2") {
				t.Errorf("%s: the warning shows the secret: %s", name, w.Text)
			}
		}
		if !found {
			t.Errorf("%s: warnings %v, want %s", name, Warnings(tc.s), tc.want)
		}
	}
	quiet := stdio(func(s *Server) {
		s.Stdio = &Stdio{Command: "npx", Args: []string{"-y", "some-mcp"}, Env: map[string]Binding{"TOKEN": {Ref: "env:T"}, "A": {Literal: "1"}}}
	})
	if w := Warnings(quiet); len(w) != 0 {
		t.Errorf("warnings %v for a quiet entry", w)
	}
}

func TestRevision(t *testing.T) {
	a, b := stdio(func(s *Server) { s.ID = "srv_a" }), stdio(func(s *Server) { s.ID = "srv_b" })
	want := Revision([]Server{a, b})
	if got := Revision([]Server{b, a}); got != want {
		t.Error("the order of the entries changes the revision")
	}
	later := a
	later.Updated = time.Now()
	if Revision([]Server{later, b}) != want {
		t.Error("a time changes the revision")
	}
	changed := stdio(func(s *Server) { s.ID = "srv_a"; s.Stdio.Env = map[string]Binding{"A": {Literal: "1"}} })
	if Revision([]Server{changed, b}) == want || Revision([]Server{a}) == want || Revision(nil) == want {
		t.Error("a change keeps the revision")
	}
}

func TestNotRoutable(t *testing.T) {
	for _, tc := range []struct {
		want   string
		change func(*Server)
	}{
		{"", func(*Server) {}},
		{"", func(s *Server) { s.Lifecycle = Deprecated }}, // it routes, and is mounted nowhere new
		{"review-pending", func(s *Server) { s.Review = ReviewPending }},
		{"review-rejected", func(s *Server) { s.Review = ReviewRejected }},
		{"quarantined-tools-changed lifecycle-disabled backend-incomplete", func(s *Server) { s.Review, s.Lifecycle, s.Stdio = ReviewQuarantined, Disabled, nil }},
		{"backend-unsafe-url", func(s *Server) { s.Stdio, s.HTTP = nil, &HTTP{URL: "https://ada:hunter2@example.com/mcp"} }},
		{"binding-unresolved:A binding-unresolved:B", func(s *Server) {
			s.Stdio.Env = map[string]Binding{"B": {Unresolved: true}, "A": {Unresolved: true}, "C": {Ref: "env:NOT_SET"}}
		}},
		{"binding-unresolved:Authorization", func(s *Server) {
			s.Stdio, s.HTTP = nil, &HTTP{URL: "https://example.com/mcp", Headers: map[string]Binding{"Authorization": {Unresolved: true}}}
		}},
		{"sharing-none", func(s *Server) { s.Sharing = ShareNone }},
		{"name-conflict", func(s *Server) { s.Name = reserved }},
	} {
		if got := strings.Join(NotRoutable(stdio(tc.change)), " "); got != tc.want {
			t.Errorf("reasons %q, want %q", got, tc.want)
		}
	}
}

func TestBindingValue(t *testing.T) {
	resolve := func(ref string) (string, error) {
		if ref == "env:GONE" {
			return "", errors.New("gone")
		}
		return "<" + ref + ">", nil
	}
	for _, tc := range []struct {
		b    Binding
		want string
	}{
		{Binding{}, ""},
		{Binding{Literal: "{env:A}"}, "{env:A}"},
		{Binding{Ref: "env:A"}, "<env:A>"},
		{Binding{Template: "a {env:A} b {file:/x#/y/z} c"}, "a <env:A> b <file:/x#/y/z> c"},
	} {
		if got, err := tc.b.Value(resolve); err != nil || got != tc.want {
			t.Errorf("%+v: %q, %v; want %q", tc.b, got, err, tc.want)
		}
	}
	if _, err := (Binding{Template: "x {env:GONE}"}).Value(resolve); err == nil {
		t.Error("a reference that fails gives a value")
	}
}
