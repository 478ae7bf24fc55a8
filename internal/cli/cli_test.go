package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/localapi"
)

// daemonOf is a daemon that only remembers what it was asked.
type daemonOf struct {
	api.Service // nil: an operation that a test does not expect panics
	added       []api.AddServer
	edited      []api.EditServer
	called      []api.CallTool
	operations  map[string]bool
	result      api.ToolResult
	health      api.Health
	processes   api.ProcessPage
	server      catalog.Server
	imported    api.ImportReport
	asked       api.ConfigQuery
	files       api.ConfigFiles
	report      api.ConfigReport
}

func (d *daemonOf) Server(context.Context, api.ServerRef) (api.Server, error) {
	return api.Server{Server: d.server}, nil
}

func (d *daemonOf) ImportServers(context.Context, api.ImportServers) (api.ImportReport, error) {
	return d.imported, nil
}

func (d *daemonOf) ConfigFiles(_ context.Context, in api.ConfigQuery) (api.ConfigFiles, error) {
	d.asked = in
	return d.files, nil
}

func (d *daemonOf) InspectConfig(_ context.Context, in api.ConfigQuery) (api.ConfigReport, error) {
	d.asked = in
	return d.report, nil
}

func (d *daemonOf) DaemonStatus(context.Context, api.None) (api.Daemon, error) {
	return api.Daemon{Pid: 42, Base: "http://127.0.0.1:1"}, nil
}

func (d *daemonOf) AddServer(ctx context.Context, in api.AddServer) (api.Server, error) {
	d.added = append(d.added, in)
	d.operations[api.OperationOf(ctx)] = true
	return api.Server{Server: in.Server, Route: "http://127.0.0.1:1/servers/" + in.Server.Name + "/mcp"}, nil
}

func (d *daemonOf) EditServer(_ context.Context, in api.EditServer) (api.Server, error) {
	d.edited = append(d.edited, in)
	return api.Server{Server: catalog.Server{Name: in.Name}}, nil
}

func (d *daemonOf) CallTool(_ context.Context, in api.CallTool) (api.ToolResult, error) {
	d.called = append(d.called, in)
	return d.result, nil
}

// ServerLogs writes lines until nobody reads them.
func (d *daemonOf) ServerLogs(_ context.Context, _ api.LogsQuery, emit func(api.LogLine) error) error {
	for {
		if err := emit(api.LogLine{Time: now, Text: "line"}); err != nil {
			return err
		}
	}
}

func (d *daemonOf) Health(context.Context, api.HealthQuery) (api.Health, error) { return d.health, nil }

func (d *daemonOf) Processes(context.Context, api.ProcessQuery) (api.ProcessPage, error) {
	return d.processes, nil
}

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// terminalOf is one person at one terminal, with a daemon.
type terminalOf struct {
	t        *testing.T
	env      *Env
	daemon   *daemonOf
	out, err bytes.Buffer
}

func newTerminal(t *testing.T) *terminalOf {
	t.Helper()
	home, err := os.MkdirTemp("", "mx") //nolint:usetesting // the path of a socket is short, that of t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	x := &terminalOf{t: t, daemon: &daemonOf{operations: map[string]bool{}}}
	x.env = &Env{
		In: strings.NewReader(""), Out: &x.out, Err: &x.err, Version: "test", Now: func() time.Time { return now },
		Getenv: func(name string) string { return map[string]string{"MCPX_HOME": home, "HOME": home}[name] },
	}
	paths, err := x.env.Paths()
	if err != nil {
		t.Fatal(err)
	}
	if err := api.MakePrivate(filepath.Dir(paths.Socket())); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", paths.Socket())
	if err != nil {
		t.Fatal(err)
	}
	s, err := localapi.New(localapi.Config{
		Service: x.daemon, SameUser: func(net.Conn) (bool, error) { return true, nil }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(l)
	t.Cleanup(s.Close)
	return x
}

// types runs one command and gives its exit code.
func (x *terminalOf) types(args ...string) int {
	x.t.Helper()
	x.out.Reset()
	x.err.Reset()
	err := run(x.t.Context(), x.env, args)
	x.env.report(err, x.env.json)
	return exitCode(err)
}

func TestAddArguments(t *testing.T) {
	x := newTerminal(t)
	for _, c := range []struct {
		args []string
		want api.AddServer
	}{
		{
			[]string{"server", "add", "a", "--", "npx", "-y", "--flag", "--", "x"},
			api.AddServer{Server: catalog.Server{Name: "a", Sharing: "session", Stdio: &catalog.Stdio{Command: "npx", Args: []string{"-y", "--flag", "--", "x"}}}},
		},
		{
			[]string{
				"server", "add", "b", "--env-pass", "REGION", "--env", "A=1=2", "--env", "EMPTY=", "--env-from", "T=env:T", "--cwd", "/tmp", "--sharing", "workspace",
				"--supervised=false", "--idle-timeout", "never", "--call-timeout", "90s", "--protocol", "legacy", "--title", "B", "--no-check", "--", "/bin/x",
			},
			api.AddServer{Server: catalog.Server{
				Name: "b", Title: "B", Sharing: "workspace", Direct: true, Protocol: "legacy", Limits: catalog.Limits{Idle: -1, Call: 90 * time.Second},
				Stdio: &catalog.Stdio{Command: "/bin/x", Args: []string{}, Cwd: "/tmp", Env: map[string]catalog.Binding{"A": {Literal: "1=2"}, "EMPTY": {}, "T": {Ref: "env:T"}}, EnvPass: []string{"REGION"}},
			}, Unchecked: true},
		},
		{
			[]string{"server", "add", "c", "--url", "https://h/mcp", "--header", "X-A=1", "--header", "Authorization: Bearer {env:T}", "--transport", "sse"},
			api.AddServer{Server: catalog.Server{Name: "c", Sharing: "session", HTTP: &catalog.HTTP{
				URL: "https://h/mcp", Transport: "sse", Headers: map[string]catalog.Binding{"X-A": {Literal: "1"}, "Authorization": {Template: "Bearer {env:T}"}},
			}}},
		},
		{
			[]string{"server", "add", "d", "--sharing", "global", "--yes", "--", "x"},
			api.AddServer{Server: catalog.Server{Name: "d", Sharing: "global", Stdio: &catalog.Stdio{Command: "x", Args: []string{}}}, Confirmed: true},
		},
	} {
		if code := x.types(c.args...); code != 0 {
			t.Errorf("%v: exit code %d\n%s", c.args, code, x.err.String())
			continue
		}
		got := x.daemon.added[len(x.daemon.added)-1]
		if got.Server.Stdio != nil && got.Server.Stdio.Args == nil {
			got.Server.Stdio.Args = []string{} // the wire does not tell an empty list from none
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v\n%s", c.args, diff)
		}
	}
	if len(x.daemon.operations) != 4 || x.daemon.operations[""] {
		t.Errorf("operation ids %v, want one for each command", x.daemon.operations)
	}
}

func TestRelativePathsBecomeAbsolute(t *testing.T) {
	x := newTerminal(t)
	dir := t.TempDir()
	t.Chdir(dir)
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if code := x.types("server", "add", "a", "--cwd", "sub", "--", "./run.sh", "./data"); code != 0 {
		t.Fatal(x.err.String())
	}
	got := x.daemon.added[0].Server.Stdio
	if got.Command != filepath.Join(dir, "run.sh") || got.Cwd != filepath.Join(dir, "sub") || got.Args[0] != "./data" {
		t.Errorf("%+v: command and directory count from here, arguments are the server's own affair", got)
	}
}

// An argument that is a path from here: so is the directory of the server, unless somebody else says.
func TestRelativeArguments(t *testing.T) {
	x := newTerminal(t)
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile("fake.py", nil, 0o600), os.Mkdir("sub", 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--", "npx", "server-filesystem", "."}, dir},
		{[]string{"--", "python3", "fake.py"}, dir},
		{[]string{"--", "x", "--root=../y"}, dir},
		{[]string{"--", "npx", "sub", "1.5", "other.py", "/tmp", "-v"}, ""},
		{[]string{"--cwd", "/tmp", "--", "x", "."}, "/tmp"},
		{[]string{"--sharing", "workspace", "--", "x", "."}, ""},
	} {
		if code := x.types(append([]string{"server", "add", "a"}, c.args...)...); code != 0 {
			t.Fatal(x.err.String())
		}
		if got := x.daemon.added[len(x.daemon.added)-1].Server.Stdio.Cwd; got != c.want {
			t.Errorf("%v starts in %q, want %q", c.args, got, c.want)
		}
		if said := strings.Contains(x.out.String(), "It starts in "+dir); said != (c.want == dir) {
			t.Errorf("%v says %q", c.args, x.out.String())
		}
	}
	x.daemon.server.Stdio = &catalog.Stdio{}
	for _, want := range []string{dir, ""} {
		if code := x.types("server", "edit", "a", "--", "x", "."); code != 0 {
			t.Fatal(x.err.String())
		}
		if got := x.daemon.edited[len(x.daemon.edited)-1].Cwd; (got == nil) != (want == "") || got != nil && *got != want {
			t.Errorf("an edited command starts in %v, want %q", got, want)
		}
		x.daemon.server.Stdio = &catalog.Stdio{Cwd: "/srv"} // an entry with a directory keeps it
	}
}

func TestEditArguments(t *testing.T) {
	x := newTerminal(t)
	text := func(s string) *string { return &s }
	direct, idle, sharing := true, time.Duration(-1), catalog.ShareGlobal
	for _, c := range []struct {
		args []string
		want api.EditServer
	}{
		{[]string{"server", "edit", "a", "--env-pass", "A", "--env-pass", "B"}, api.EditServer{Name: "a", EnvPass: []string{"A", "B"}}},
		{[]string{"server", "edit", "a", "--name", "b", "--title", ""}, api.EditServer{Name: "a", Rename: text("b"), Title: text("")}},
		{
			[]string{"server", "edit", "a", "--unset-env", "X", "--env", "Y=1", "--supervised=false", "--idle-timeout", "never", "--", "y", "z"},
			api.EditServer{Name: "a", Command: []string{"y", "z"}, Env: map[string]*catalog.Binding{"X": nil, "Y": {Literal: "1"}}, Direct: &direct, Idle: &idle},
		},
		{[]string{"server", "edit", "a", "--sharing", "global", "-y"}, api.EditServer{Name: "a", Sharing: &sharing, Confirmed: true}},
		{[]string{"server", "edit", "a", "--url", "http://h", "--unset-header", "H"}, api.EditServer{Name: "a", URL: text("http://h"), Headers: map[string]*catalog.Binding{"H": nil}}},
	} {
		if code := x.types(c.args...); code != 0 {
			t.Errorf("%v: exit code %d\n%s", c.args, code, x.err.String())
			continue
		}
		if diff := cmp.Diff(c.want, x.daemon.edited[len(x.daemon.edited)-1]); diff != "" {
			t.Errorf("%v\n%s", c.args, diff)
		}
	}
	if code := x.types("server", "edit", "a"); code != 2 || !strings.Contains(x.err.String(), "nothing to change") {
		t.Errorf("an edit without a change: exit code %d\n%s", code, x.err.String())
	}
}

// TestEditEffect: a person is told what an edit did to clients.
func TestEditEffect(t *testing.T) {
	stdio, http := catalog.Server{Stdio: &catalog.Stdio{}}, catalog.Server{HTTP: &catalog.HTTP{}}
	for _, c := range []struct {
		server catalog.Server
		effect *api.EditEffect
		want   string
	}{
		{stdio, nil, ""},
		{stdio, &api.EditEffect{Applied: api.AppliedLive}, "It counts at once; nothing was interrupted.\n"},
		{stdio, &api.EditEffect{Applied: api.AppliedNextStart}, "Nothing of it was running; it counts from the next start on.\n"},
		{stdio, &api.EditEffect{Applied: api.AppliedRestart, Processes: 2, Sessions: 3, Calls: 1}, "It ended processes: 2, sessions: 3, calls in flight: 1. Clients begin a new session, the next call starts anew.\n"},
		{http, &api.EditEffect{Applied: api.AppliedRestart, Processes: 1}, "It ended connections: 1, sessions: 0, calls in flight: 0. Clients begin a new session, the next call starts anew.\n"},
	} {
		var out bytes.Buffer
		printEffect(&out, api.Server{Server: c.server, Effect: c.effect})
		if out.String() != c.want {
			t.Errorf("%+v: %q, want %q", c.effect, out.String(), c.want)
		}
	}
}

func TestGlobalIsAsked(t *testing.T) {
	x := newTerminal(t)
	x.env.asks = true
	for _, c := range []struct {
		answer string
		code   int
		added  int
	}{{"n\n", 3, 0}, {"\n", 3, 0}, {"", 3, 0}, {"yes\n", 0, 1}, {"Y", 0, 2}} {
		x.env.In = strings.NewReader(c.answer)
		if code := x.types("server", "add", "a", "--sharing", "global", "--", "x"); code != c.code || len(x.daemon.added) != c.added {
			t.Errorf("answer %q: exit code %d, %d added; want %d, %d\n%s", c.answer, code, len(x.daemon.added), c.code, c.added, x.err.String())
		}
		if !strings.Contains(x.err.String(), "[y/N]") || x.out.Len() > 0 && c.code != 0 {
			t.Errorf("the question belongs to stderr: %q, %q", x.out.String(), x.err.String())
		}
	}
}

func TestCallOutput(t *testing.T) {
	x := newTerminal(t)
	for _, c := range []struct {
		result, want string
		isError      bool
		code         int
	}{
		{`{"content":[{"type":"text","text":"a\nb"},{"type":"image","mimeType":"image/png","data":"AAAA"}]}`, "a\nb\n[image image/png 3 bytes]\n", false, 0},
		{`{"content":[{"type":"audio","mimeType":"audio/wav","data":"AAA="}],"isError":true}`, "[audio audio/wav 2 bytes]\n", true, 1},
		{`{"content":[{"type":"resource_link","uri":"file:///a","name":"A"},{"type":"resource","resource":{"uri":"u","text":"t"}},{"type":"resource","resource":{"uri":"u","mimeType":"m","blob":"AA=="}}]}`, "[link file:///a A]\n[resource u]\nt\n[resource u m 1 bytes]\n", false, 0},
		{`{"content":[],"structuredContent":{"n":9007199254740993}}`, "{\"n\":9007199254740993}\n", false, 0},
		{`{"content":[{"type":"hologram"}]}`, "[hologram]\n", false, 0},
		{`{"other":1}`, "{\"other\":1}\n", false, 0},
		{`{"content":[{"type":"text","text":"\u001b[2Jclear\u202e"}]}`, "\uFFFD[2Jclear\uFFFD\n", false, 0},
	} {
		x.daemon.result = api.ToolResult{Raw: json.RawMessage(c.result), IsError: c.isError}
		if code := x.types("server", "call", "s", "t", `{"n":9007199254740993}`); code != c.code || x.out.String() != c.want {
			t.Errorf("%s\nexit code %d, %q; want %d, %q", c.result, code, x.out.String(), c.code, c.want)
		}
		code := x.types("server", "call", "s", "t", "--json")
		var got, want any
		if json.Unmarshal(x.out.Bytes(), &got) != nil || json.Unmarshal([]byte(c.result), &want) != nil || code != c.code {
			t.Fatalf("--json: exit code %d\n%s", code, x.out.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if got := string(x.daemon.called[0].Arguments); got != `{"n":9007199254740993}` {
		t.Errorf("the arguments became %s", got)
	}
}

func TestHealthOutput(t *testing.T) {
	x := newTerminal(t)
	x.daemon.health = api.Health{State: api.HealthDegraded, Findings: []api.Finding{{Code: "server-failing", Severity: converge.WeightBlocker, Subject: "s", Since: now.Add(-90 * time.Second), Text: "exited\x1b[1m", Hint: "look"}}}
	if code := x.types("health"); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if want := "health      degraded\n  blocker s server-failing (since 1m30s): exited\uFFFD[1m\n    look\n"; x.out.String() != want {
		t.Errorf("got %q\nwant %q", x.out.String(), want)
	}
}

func TestProcessOutput(t *testing.T) {
	x := newTerminal(t)
	x.daemon.processes = api.ProcessPage{
		Processes: []api.Process{
			{Server: "a", State: string(gateway.Ready), Pid: 10, Supervisor: 9, Era: "legacy", Protocol: "2025-11-25", Sharing: "session", Sessions: 1, InFlight: 2, Resident: 20 << 20, Started: now.Add(-time.Hour)},
			{Server: "b", State: string(gateway.Waiting), Sharing: "global", Restarts: 3, LastError: "exited:\ncode 3", ErrorAt: now.Add(-time.Second), NextTry: now.Add(5 * time.Second)},
		},
		Advice: []string{"a: it runs 2 times", "a: it runs 2 times"},
	}
	if code := x.types("ps"); code != 0 {
		t.Fatal(x.err.String())
	}
	want := strings.TrimPrefix(`
SERVER  STATE    PID  SUPERVISOR  ERA         SHARING  SESSIONS  CALLS  RESTARTS  MEMORY  AGE    LAST ERROR
a       ready    10   9           2025-11-25  session  1         2      -         20M     1h00m  -
b       backoff  -    -           -           global   -         -      3         -       -      1s ago: exited: code 3 (next try in 5s)
note: a: it runs 2 times
`, "\n")
	if diff := cmp.Diff(want, x.out.String()); diff != "" {
		t.Error(diff)
	}
	x.env.color = true
	if x.types("ps"); !strings.Contains(x.out.String(), "\x1b[32mready\x1b[0m    10") {
		t.Errorf("colours move the columns: %q", x.out.String())
	}
}

func TestExitCodes(t *testing.T) {
	for _, kind := range []fault.Kind{
		fault.Invalid, fault.Unauthenticated, fault.Denied, fault.NeedsApproval, fault.NotFound, fault.Conflict, fault.Stale, fault.Busy,
		fault.Unavailable, fault.UnknownOutcome, fault.Canceled, fault.Internal,
	} {
		want := map[fault.Kind]int{
			fault.Invalid: 2, fault.Unauthenticated: 8, fault.Denied: 7, fault.NeedsApproval: 3, fault.NotFound: 4, fault.Conflict: 5, fault.Stale: 6,
			fault.Busy: 75, fault.Unavailable: 75, fault.UnknownOutcome: 9, fault.Canceled: 130, fault.Internal: 70,
		}[kind]
		if got := exitCode(fault.New(kind, "x")); got != want {
			t.Errorf("%s: exit code %d, want %d", kind, got, want)
		}
	}
	if got := exitCode(errors.New("not ours")); got != 70 {
		t.Errorf("an error that is no fault: %d, want 70", got)
	}
	x := newTerminal(t)
	if code := x.types("help", "exit-codes"); code != 0 || !strings.Contains(x.out.String(), "130  canceled") {
		t.Errorf("exit code %d\n%s", code, x.out.String())
	}
}

func TestErrorOutput(t *testing.T) {
	x := newTerminal(t)
	x.types("server", "call", "s", "t", `{"a":1,}`)
	want := "mcpx: the arguments are no JSON: invalid character '}' looking for beginning of object key string at character 8, after \"{\\\"a\\\":1,}\"\n" +
		"      the arguments are one JSON object in single quotes: '{\"name\": \"value\"}'\n"
	if x.err.String() != want || x.out.Len() > 0 {
		t.Errorf("stdout %q, stderr %q", x.out.String(), x.err.String())
	}
	x.types("server", "call", "s", "t", `[]`, "--json")
	var failure api.Failure
	if err := json.Unmarshal(x.err.Bytes(), &failure); err != nil || failure.Error.Code != "arguments-invalid" || failure.Error.Hint == "" {
		t.Errorf("%q, %v", x.err.String(), err)
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 25 * time.Hour: "1d01h", 3*time.Hour + 4*time.Minute: "3h04m",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%s) is %s, want %s", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "-", 2048: "2K", 3 << 19: "1.5M", 300 << 20: "300M"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) is %s, want %s", n, got, want)
		}
	}
	if got := short("a  b\nc äöü", 6); got != "a b c…" {
		t.Errorf("short: %q", got)
	}
	// Controls, characters that turn the direction of text, marks of direction, and what is not seen at all.
	for _, hidden := range []rune{0x1B, 0x7F, 0x9B, '\r', 0xAD, 0x61C, 0x200B, 0x200D, 0x200E, 0x200F, 0x2028, 0x202E, 0x2060, 0x2066, 0xFEFF, 0xE0041} {
		if got, want := plain("a"+string(hidden)+"b"), "a\uFFFDb"; got != want {
			t.Errorf("plain shows %U as %q, want %q", hidden, got, want)
		}
	}
	if text := "ä\t漢字\n🙂 \u00A0 e\u0301"; plain(text) != text {
		t.Errorf("plain changed %q to %q", text, plain(text))
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		e := &Env{Err: &out, logs: true}
		done := e.waiting("waiting for %s", "it")
		time.Sleep(patience / 2)
		done()
		if out.Len() > 0 {
			t.Errorf("said %q before a second had passed", out.String())
		}
		done = e.waiting("waiting for %s", "it")
		time.Sleep(2 * patience)
		done()
		if got := out.String(); got != "waiting for it\n" {
			t.Errorf("said %q", got)
		}
	})
}
