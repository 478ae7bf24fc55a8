package control

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/test/storetest"
)

// fakeGateway remembers what it was told.
type fakeGateway struct {
	mu        sync.Mutex
	applied   []catalog.Server
	restarted []string
	status    []gateway.ServerStatus
	call      func(server, method string, params []byte) ([]byte, error)
}

func (g *fakeGateway) Apply(entries []catalog.Server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.applied = slices.Clone(entries)
}

func (g *fakeGateway) names() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := []string{}
	for _, s := range g.applied {
		if s.Lifecycle != catalog.Disabled {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

func (g *fakeGateway) Restart(name string) error {
	g.restarted = append(g.restarted, name)
	return nil
}
func (g *fakeGateway) Status() []gateway.ServerStatus { return g.status }
func (g *fakeGateway) Counters() gateway.Counters     { return gateway.Counters{Requests: 7} }
func (g *fakeGateway) Call(_ context.Context, r gateway.Request) ([]byte, error) {
	return g.call(r.Server, r.Method, r.Params)
}

type fakeLogs struct{ forgotten []string }

func (l *fakeLogs) Read(_ context.Context, server string, lines int, _ bool, emit func(api.LogLine) error) error {
	return emit(api.LogLine{Text: server + " last " + string(rune('0'+lines%10))})
}
func (l *fakeLogs) Forget(server string) { l.forgotten = append(l.forgotten, server) }

type bench struct {
	*Control
	gateway *fakeGateway
	logs    *fakeLogs
	reach   error
	stopped []bool
	restart []api.RestartDaemon
	reloads int

	files        []catalog.File
	looked       converge.Look
	observed     converge.Observation
	target       fakeTarget
	policy       converge.Policy
	person       error // why the caller is none
	now          time.Time
	tokens       *fakeTokenFiles
	letIn        func(token string) (bool, error) // what mcp_hub answers
	certificates map[string]converge.Certificate
	dirs         fakeDirectories
	repos        fakeRepositories
	holds        fakeHolds
	work         fakeWork
	keeper       fakeRetention
	signIns      fakeSignIns
	remoted      fakeRemote
}

// fakeRemote notes where it listens.
type fakeRemote struct{ at auth.Remote }

func (r *fakeRemote) Open(at auth.Remote)   { r.at = at }
func (r *fakeRemote) Close()                { r.at = auth.Remote{} }
func (r *fakeRemote) State() (bool, string) { return r.at.On, "" }

// fakeHolds notes which approvals ended, and for which sessions they were withdrawn.
type fakeHolds struct{ ended, withdrawn []string }

func (h *fakeHolds) Ended(_ context.Context, _ store.Tx, _ event.Actor, a approval.Approval) error {
	h.ended = append(h.ended, a.ID+" "+string(a.State))
	return nil
}

func (h *fakeHolds) Resolve(_ context.Context, _ store.Tx, _ event.Actor, name operation.Name, v operation.Verdict) (operation.Operation, error) {
	if v != operation.Done {
		return operation.Operation{}, operation.Refuse(operation.ArgumentInvalid, "%q is no verdict", v)
	}
	return operation.Operation{Name: name, State: operation.Succeeded}, nil
}

func (h *fakeHolds) Withdraw(_ context.Context, _ store.Tx, _ event.Actor, session string) error {
	h.withdrawn = append(h.withdrawn, session)
	return nil
}

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func newBench(t *testing.T, overlay ...catalog.Server) (*bench, context.Context) {
	t.Helper()
	b := &bench{gateway: &fakeGateway{}, logs: &fakeLogs{}, now: start, tokens: newFakeTokenFiles(), dirs: fakeDirectories{}, repos: fakeRepositories{}, certificates: map[string]converge.Certificate{}}
	now := func() time.Time { return b.now }
	c, err := New(Config{
		DB: storetest.NewModel(), Gateway: b.gateway, Logs: b.logs, Daemon: api.Daemon{Pid: 42, Listener: "127.0.0.1:30000", Base: "http://127.0.0.1:30000"},
		Reach: func(context.Context, catalog.Server) error { return b.reach },
		Tools: &ToolGuard{}, CatalogFiles: func() []catalog.File { return b.files },
		Spell: func(agent string, forms []converge.Form) ([]byte, string, map[string]string, error) {
			return nil, "", nil, fault.New(fault.Invalid, "agent-unknown").Saying("%q", agent)
		},
		Observe: func(_ context.Context, look converge.Look) (converge.Observation, error) {
			b.looked = look
			return b.observed, nil
		},
		Target: &b.target, Look: func() converge.Look { return converge.Look{Home: "/h"} },
		Agents: func() []api.Agent {
			return []api.Agent{{Agent: "claude_code", Title: "Claude Code"}, {Agent: "codex", Title: "Codex"}}
		},
		ParseAgent: func(name string) (string, error) { return name, nil },
		Person:     func(int) (Asker, error) { return Asker{Terminal: "/dev/pts/1"}, b.person }, CheckBackup: func(string, converge.Written) error { return nil }, NotedHead: func() (event.Head, error) { return event.Head{}, nil },
		Policy: func() converge.Policy { return b.policy }, TokenOnly: func() bool { return false }, Adapter: "1", Program: "/bin/mcpx",
		Secrets: newFakeSecrets(), SignIns: &b.signIns,
		Certificates: func(context.Context) map[string]converge.Certificate { return b.certificates },
		KeepCertificate: func(agent string, data []byte) error {
			b.certificates[agent] = converge.Certificate{Version: string(data), Program: "p"}
			return nil
		},
		Watching: func() converge.Watching { return converge.Watching{} },
		Resident: func(pid int) int64 { return int64(pid) * 1000 },
		Stop:     func(children bool) { b.stopped = append(b.stopped, children) },
		Restart: func(_ context.Context, in api.RestartDaemon) (api.Restarted, error) {
			b.restart = append(b.restart, in)
			return api.Restarted{OldPid: 42}, nil
		},
		Reload: func(context.Context) (api.Reloaded, error) {
			b.reloads++
			return api.Reloaded{Applied: []string{"a.b"}}, nil
		},
		Remote: &b.remoted, RemoteKey: bytes.Repeat([]byte{7}, 32), Documents: func(context.Context, string) (auth.Client, error) { return auth.Client{}, nil },
		Issued:     func(context.Context, string, string, string) (auth.External, error) { return auth.External{}, nil },
		TokenFiles: b.tokens, Random: rand.Reader, Directories: b.dirs, HandoffKey: []byte("key of this daemon"), Holds: &b.holds, Work: &b.work, Repositories: b.repos, Retention: &b.keeper,
		ProbeHub: func(_ context.Context, token string) (bool, error) { return b.letIn(token) },
		IDs:      id.NewSource(now, bytes.NewReader(bytes.Repeat([]byte{1}, 1<<16))),
		Now:      now, Log: slog.New(slog.DiscardHandler), Overlay: overlay,
	})
	if err != nil {
		t.Fatal(err)
	}
	b.Control = c
	ctx := api.As(t.Context(), api.Owner)
	if err := c.Load(ctx); err != nil {
		t.Fatal(err)
	}
	return b, ctx
}

func stdio(name string, argv ...string) catalog.Server {
	return catalog.Server{Name: name, Stdio: &catalog.Stdio{Command: argv[0], Args: argv[1:]}}
}

func withEnv(name, ref string) catalog.Server {
	s := stdio(name, "x")
	s.Stdio.Env = map[string]catalog.Binding{"T": {Ref: ref}}
	return s
}

func (b *bench) add(ctx context.Context, t *testing.T, s catalog.Server) api.Server {
	t.Helper()
	out, err := b.AddServer(ctx, api.AddServer{Server: s})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refused checks kind, code and a part of message or hint.
func refused(t *testing.T, err error, kind fault.Kind, code, part string) {
	t.Helper()
	f := fault.From(err)
	if f == nil || f.Kind != kind || f.Code != code || !strings.Contains(f.Error()+" "+f.Hint, part) {
		t.Fatalf("got %#v, want %s %s with %q", f, kind, code, part)
	}
}

func TestNobodyProved(t *testing.T) {
	b, _ := newBench(t)
	calls := map[string]func() error{
		"config.inspect":  func() error { _, err := b.InspectConfig(t.Context(), api.ConfigQuery{}); return err },
		"config.discover": func() error { _, err := b.ConfigFiles(t.Context(), api.ConfigQuery{}); return err },
		"server.list":     func() error { _, err := b.Servers(t.Context(), api.ServersQuery{}); return err },
		"server.add":      func() error { _, err := b.AddServer(t.Context(), api.AddServer{}); return err },
		"server.remove":   func() error { _, err := b.RemoveServer(t.Context(), api.ServerRef{Name: "x"}); return err },
		"server.call":     func() error { _, err := b.CallTool(t.Context(), api.CallTool{Name: "x"}); return err },
		"daemon.restart":  func() error { _, err := b.DaemonRestart(t.Context(), api.RestartDaemon{}); return err },
		"daemon.reload":   func() error { _, err := b.DaemonReload(t.Context(), api.None{}); return err },
		"daemon.stop":     func() error { _, err := b.DaemonStop(t.Context(), api.StopDaemon{}); return err },
		"other": func() error {
			_, err := b.Servers(api.As(t.Context(), api.Principal{Name: "guest"}), api.ServersQuery{})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { refused(t, call(), fault.Denied, "not-allowed", "permission") })
	}
	if len(b.stopped) != 0 || len(b.restart) != 0 || b.reloads != 0 {
		t.Error("an unproved caller stopped or changed the daemon")
	}
}

func TestAdd(t *testing.T) {
	b, ctx := newBench(t)
	got := b.add(ctx, t, stdio("fs", "npx", "-y", "server"))
	if got.Review != catalog.ReviewApproved || got.Lifecycle != catalog.Enabled || got.Sharing != catalog.ShareSession || got.Source != "operator" {
		t.Errorf("what a person adds is reviewed, enabled and exclusive: %+v", got.Server)
	}
	if got.Route != "http://127.0.0.1:30000/servers/fs/mcp" || !got.Routable {
		t.Errorf("route %q, routable %v", got.Route, got.Routable)
	}
	if diff := cmp.Diff([]string{"fs"}, b.gateway.names()); diff != "" {
		t.Error("the gateway does not route it:", diff)
	}
}

func TestAddRefused(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("fs", "npx", "old thing"))
	unreachable := fault.New(fault.Unavailable, "url-unreachable").Saying("nobody there")
	for _, c := range []struct {
		name  string
		in    api.AddServer
		reach error
		kind  fault.Kind
		code  string
		part  string
	}{
		{"name taken", api.AddServer{Server: stdio("fs", "other")}, nil, fault.Conflict, "server-exists", "npx 'old thing'"},
		{"name taken, the way out", api.AddServer{Server: stdio("fs", "other")}, nil, fault.Conflict, "server-exists", "mcpx server edit fs"},
		{"taken before unreachable", api.AddServer{Server: stdio("fs", "other")}, unreachable, fault.Conflict, "server-exists", "fs"},
		{"bad name", api.AddServer{Server: stdio("a/b", "x")}, nil, fault.Invalid, "server-name", "a-b"},
		{"neither command nor URL", api.AddServer{Server: catalog.Server{Name: "x"}}, nil, fault.Invalid, "server-invalid", "--url"},
		{"our own URL", api.AddServer{Server: catalog.Server{Name: "x", HTTP: &catalog.HTTP{URL: "http://localhost:30000/servers/fs/mcp"}}, Unchecked: true}, nil, fault.Invalid, "server-is-mcpx", "behind it"},
		{"our own bridge", api.AddServer{Server: stdio("x", "/usr/bin/mcpx", "connect", "fs"), Unchecked: true}, nil, fault.Invalid, "server-is-mcpx", "behind it"},
		{"a reference of no kind", api.AddServer{Server: withEnv("x", "vault:a")}, nil, fault.Invalid, "reference-kind", "variable T: "},
		{"a reference to a relative file", api.AddServer{Server: withEnv("x", "file:a/b")}, nil, fault.Invalid, "reference-invalid", "write file:/PATH"},
		{
			"a reference in a header",
			api.AddServer{Server: catalog.Server{Name: "x", HTTP: &catalog.HTTP{
				URL: "https://example.com/", Headers: map[string]catalog.Binding{"Authorization": {Template: "Bearer {vault:a}"}},
			}}},
			nil, fault.Invalid, "reference-kind", "header Authorization: ",
		},
		{"unreachable", api.AddServer{Server: stdio("new", "x")}, unreachable, fault.Unavailable, "url-unreachable", "nobody"},
		{
			"global without a yes",
			api.AddServer{Server: catalog.Server{Name: "g", Stdio: &catalog.Stdio{Command: "x"}, Sharing: catalog.ShareGlobal}},
			nil, fault.NeedsApproval, "sharing-needs-yes", "--yes",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.reach = c.reach
			_, err := b.AddServer(ctx, c.in)
			refused(t, err, c.kind, c.code, c.part)
			page, err := b.Servers(ctx, api.ServersQuery{})
			if err != nil || len(page.Servers) != 1 {
				t.Fatalf("something was written: %+v, %v", page, err)
			}
		})
	}
	b.reach = unreachable
	if _, err := b.AddServer(ctx, api.AddServer{Server: stdio("later", "x"), Unchecked: true}); err != nil {
		t.Error("unchecked:", err)
	}
	b.reach = nil
	g := stdio("g", "x")
	g.Sharing = catalog.ShareGlobal
	if _, err := b.AddServer(ctx, api.AddServer{Server: g, Confirmed: true}); err != nil {
		t.Error("confirmed:", err)
	}
}

func TestEditAliases(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("fs", "npx", "a"))
	b.add(ctx, t, stdio("other", "x"))
	got, err := b.EditServer(ctx, api.EditServer{Name: "fs", Alias: []string{"files", "disk", "files"}})
	if err != nil || !slices.Equal(got.Aliases, []string{"files", "disk"}) {
		t.Fatalf("aliases %v, error %v", got.Aliases, err)
	}
	if got, err = b.EditServer(ctx, api.EditServer{Name: "disk", Unalias: []string{"files"}}); err != nil || !slices.Equal(got.Aliases, []string{"disk"}) {
		t.Errorf("one taken back: %v, error %v", got.Aliases, err)
	}
	for _, c := range []struct {
		in   api.EditServer
		code string
	}{
		{api.EditServer{Name: "fs", Alias: []string{"other"}}, "server-exists"},
		{api.EditServer{Name: "other", Alias: []string{"disk"}}, "server-exists"},
		{api.EditServer{Name: "fs", Alias: []string{"a b"}}, "server-name"},
		{api.EditServer{Name: "fs", Unalias: []string{"dsk"}}, "alias-unknown"},
	} {
		if _, err := b.EditServer(ctx, c.in); fault.From(err) == nil || fault.From(err).Code != c.code {
			t.Errorf("%+v: %v, want %s", c.in, err, c.code)
		}
	}
}

func TestEdit(t *testing.T) {
	b, ctx := newBench(t)
	s := stdio("fs", "npx", "a")
	s.Stdio.Env = map[string]catalog.Binding{"KEEP": {Literal: "1"}, "DROP": {Literal: "2"}}
	added := b.add(ctx, t, s)
	b.add(ctx, t, stdio("other", "x"))

	name, never := "files", time.Duration(-1)
	got, err := b.EditServer(ctx, api.EditServer{
		Name: "fs", Rename: &name, Command: []string{"uvx", "b", "c"}, Idle: &never,
		Env: map[string]*catalog.Binding{"DROP": nil, "NEW": {Ref: "env:NEW"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := added.Server
	want.Name, want.Limits.Idle = "files", -1
	want.Stdio = &catalog.Stdio{Command: "uvx", Args: []string{"b", "c"}, Env: map[string]catalog.Binding{"KEEP": {Literal: "1"}, "NEW": {Ref: "env:NEW"}}}
	want = typed(added.Server, want, got.Updated)
	if diff := cmp.Diff(want, got.Server); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"files", "other"}, b.gateway.names()); diff != "" {
		t.Error(diff)
	}

	// What may be handed on is added and taken away; a name that is not there is a typing error.
	got, err = b.EditServer(ctx, api.EditServer{Name: "files", EnvPass: []string{"TOKEN", "REGION", "TOKEN"}})
	if diff := cmp.Diff([]string{"TOKEN", "REGION"}, got.Stdio.EnvPass); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = b.EditServer(ctx, api.EditServer{Name: "files", Env: map[string]*catalog.Binding{"TOKEN": nil}})
	if diff := cmp.Diff([]string{"REGION"}, got.Stdio.EnvPass); diff != "" || err != nil {
		t.Error(diff, err)
	}
	_, err = b.EditServer(ctx, api.EditServer{Name: "files", Env: map[string]*catalog.Binding{"REGOIN": nil}})
	refused(t, err, fault.NotFound, "binding-unknown", "did you mean REGION?")
	_, err = b.EditServer(ctx, api.EditServer{Name: "files", Env: map[string]*catalog.Binding{"NEW": {Ref: "file:relative"}}})
	refused(t, err, fault.Invalid, "reference-invalid", "variable NEW")
	if _, err = b.EditServer(ctx, api.EditServer{Name: "files", Env: map[string]*catalog.Binding{"REGION": nil}}); err != nil {
		t.Fatal(err)
	}

	taken, url, cwd := "other", "http://localhost:1/mcp", "/tmp"
	global := catalog.ShareGlobal
	for _, c := range []struct {
		name string
		in   api.EditServer
		kind fault.Kind
		code string
	}{
		{"unknown", api.EditServer{Name: "fils", Cwd: &cwd}, fault.NotFound, "server-unknown"},
		{"taken", api.EditServer{Name: "files", Rename: &taken}, fault.Conflict, "server-exists"},
		{"both kinds", api.EditServer{Name: "files", URL: &url, Cwd: &cwd}, fault.Invalid, "edit-mixed"},
		{"header of a program", api.EditServer{Name: "files", Headers: map[string]*catalog.Binding{"A": nil}}, fault.Invalid, "edit-wrong-kind"},
		{"global", api.EditServer{Name: "files", Sharing: &global}, fault.NeedsApproval, "sharing-needs-yes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.EditServer(ctx, c.in)
			refused(t, err, c.kind, c.code, "")
		})
	}
	b.reach = errors.New("not asked")
	if got, err := b.EditServer(ctx, api.EditServer{Name: "files", Sharing: &global, Confirmed: true}); err != nil || got.Sharing != global {
		t.Errorf("a sharing edit does not look at the command: %v, %v", got.Sharing, err)
	}
}

// TestEditEffect: the answer says what the edit ended.
func TestEditEffect(t *testing.T) {
	title, cwd := "T", "/tmp"
	running := gateway.ServerStatus{
		Name: "fs", Sessions: 3, InFlight: 1,
		Lanes: []gateway.LaneStatus{{State: gateway.Ready}, {State: gateway.Starting}, {State: gateway.Wedged}},
	}
	for _, c := range []struct {
		name   string
		in     api.EditServer
		status gateway.ServerStatus
		want   api.EditEffect
	}{
		{"a title", api.EditServer{Title: &title}, running, api.EditEffect{Applied: api.AppliedLive}},
		{"a directory", api.EditServer{Cwd: &cwd}, running, api.EditEffect{Applied: api.AppliedRestart, Processes: 2, Sessions: 3, Calls: 1}},
		{"nothing runs", api.EditServer{Cwd: &cwd}, gateway.ServerStatus{Name: "fs"}, api.EditEffect{Applied: api.AppliedNextStart}},
		{"another one runs", api.EditServer{Cwd: &cwd}, gateway.ServerStatus{Name: "other", Sessions: 1}, api.EditEffect{Applied: api.AppliedNextStart}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, ctx := newBench(t)
			b.add(ctx, t, stdio("fs", "x"))
			b.gateway.status = []gateway.ServerStatus{c.status}
			c.in.Name = "fs"
			got, err := b.EditServer(ctx, c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got.Effect); diff != "" {
				t.Error(diff)
			}
			if shown, err := b.Server(ctx, api.ServerRef{Name: "fs"}); err != nil || shown.Effect != nil {
				t.Errorf("later it is shown with %+v, %v", shown.Effect, err)
			}
		})
	}
}

func TestTurnAndRemove(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("fs", "x"))
	for _, step := range []struct {
		call func(context.Context, api.ServerRef) (api.Done, error)
		want api.Done
		left []string
	}{
		{b.DisableServer, api.Done{Server: "fs", State: "disabled"}, []string{}},
		{b.DisableServer, api.Done{Server: "fs", State: "already_disabled", Already: true}, []string{}},
		{b.EnableServer, api.Done{Server: "fs", State: "enabled"}, []string{"fs"}},
		{b.RestartServer, api.Done{Server: "fs", State: "restarted"}, []string{"fs"}},
		{b.RemoveServer, api.Done{Server: "fs", State: "removed"}, []string{}},
	} {
		got, err := step.call(ctx, api.ServerRef{Name: "fs"})
		if err != nil {
			t.Fatal(step.want, err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(step.left, b.gateway.names()); diff != "" {
			t.Error(step.want.State, diff)
		}
	}
	if diff := cmp.Diff([]string{"fs"}, b.logs.forgotten); diff != "" {
		t.Error(diff)
	}
	_, err := b.RemoveServer(ctx, api.ServerRef{Name: "fs"})
	refused(t, err, fault.NotFound, "server-unknown", "no servers yet")
}

func TestDisabledIsNotCalled(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("fs", "x"))
	if _, err := b.DisableServer(ctx, api.ServerRef{Name: "fs"}); err != nil {
		t.Fatal(err)
	}
	_, err := b.ServerTools(ctx, api.ServerRef{Name: "fs"})
	refused(t, err, fault.Conflict, "server-not-routed", "mcpx server enable fs")
}

func TestNearestName(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("github", "x"))
	_, err := b.Server(ctx, api.ServerRef{Name: "githbu"})
	refused(t, err, fault.NotFound, "server-unknown", "did you mean github?")
}

func TestTools(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("fs", "x"))
	var params []string
	pages := []string{`{"tools":[{"name":"a","description":"first","inputSchema":{"x":9007199254740993}}],"nextCursor":""}`, `{"tools":[{"name":"b"}]}`}
	b.gateway.call = func(server, method string, p []byte) ([]byte, error) {
		params = append(params, method+string(p))
		return []byte(pages[len(params)-1]), nil
	}
	page, err := b.ServerTools(ctx, api.ServerRef{Name: "fs"})
	if err != nil {
		t.Fatal(err)
	}
	want := api.ToolPage{Server: "fs", Tools: []api.Tool{
		{Name: "a", Description: "first", Raw: json.RawMessage(`{"name":"a","description":"first","inputSchema":{"x":9007199254740993}}`)},
		{Name: "b", Raw: json.RawMessage(`{"name":"b"}`)},
	}}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`tools/list`, `tools/list{"cursor":""}`}, params); diff != "" {
		t.Error("an empty cursor is a cursor:", diff)
	}

	b.gateway.call = func(string, string, []byte) ([]byte, error) { return []byte(`{"tools":[],"nextCursor":"again"}`), nil }
	_, err = b.ServerTools(ctx, api.ServerRef{Name: "fs"})
	refused(t, err, fault.Unavailable, "tools-endless", "100 pages")
}

func TestCallTool(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("fs", "x"))
	b.gateway.call = func(_, _ string, p []byte) ([]byte, error) {
		return append([]byte(`{"isError":true,"echo":`), append(p, '}')...), nil
	}
	got, err := b.CallTool(ctx, api.CallTool{Name: "fs", Tool: "t", Arguments: json.RawMessage(`{"n":9007199254740993}`)})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"isError":true,"echo":{"name":"t","arguments":{"n":9007199254740993}}}`; string(got.Raw) != want || !got.IsError {
		t.Errorf("got %s, is error %v; want %s", got.Raw, got.IsError, want)
	}
	for code, want := range map[int]fault.Kind{
		-32602: fault.Invalid, -32601: fault.NotFound, -31901: fault.Unavailable, -31902: fault.UnknownOutcome, -31903: fault.UnknownOutcome,
		-31904: fault.UnknownOutcome, -31905: fault.Unavailable, -31907: fault.Busy, -1: fault.Unavailable,
	} {
		b.gateway.call = func(string, string, []byte) ([]byte, error) {
			return nil, &gateway.RPCError{Code: code, Message: "why"}
		}
		_, err := b.CallTool(ctx, api.CallTool{Name: "fs", Tool: "t"})
		if f := fault.From(err); f == nil || f.Kind != want || !strings.Contains(f.Error(), "why") {
			t.Errorf("code %d: %v (%s), want %s", code, err, fault.KindOf(err), want)
		}
	}
}

func TestImport(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("same", "x"))
	b.add(ctx, t, stdio("other", "x"))
	in := api.ImportServers{Servers: []catalog.Server{
		stdio("new", "n"), stdio("same", "x"), stdio("other", "y"), stdio("bad name", "x"), stdio("new", "z"), stdio("loop", "mcpx", "connect", "fs"),
		stdio("third", "x"),
	}, DryRun: true}
	outcomes := func(r api.ImportReport) (all []api.ImportOutcome) {
		for _, e := range r.Entries {
			all = append(all, e.Outcome)
		}
		return all
	}
	b.reach = fault.New(fault.Invalid, "command-not-found").Saying("x not found")
	want := []api.ImportOutcome{api.ImportWouldCreate, api.ImportUnchanged, api.ImportConflict, api.ImportError, api.ImportConflict, api.ImportError, api.ImportConflict}
	dry, err := b.ImportServers(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, outcomes(dry)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"it cannot be started yet: x not found"}, dry.Entries[0].Notes); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"other", "same"}, b.gateway.names()); diff != "" {
		t.Error("a dry run wrote:", diff)
	}
	in.DryRun = false
	done, err := b.ImportServers(ctx, in)
	if err != nil || done.Entries[0].Outcome != api.ImportCreated || len(done.Entries[0].Notes) != 1 {
		t.Fatalf("%+v, %v", done.Entries, err)
	}
	again, err := b.ImportServers(ctx, api.ImportServers{Servers: in.Servers[:1]})
	if err != nil || again.Entries[0].Outcome != api.ImportUnchanged {
		t.Errorf("the second import: %+v, %v", again, err)
	}
}

func TestOverlay(t *testing.T) {
	offered := func(id, name, token string) catalog.Server {
		s := stdio(name, "x")
		s.ID, s.Sharing, s.Review, s.Lifecycle = id, catalog.ShareSession, catalog.ReviewApproved, catalog.Enabled
		s.Stdio.Env = map[string]catalog.Binding{"TOKEN": {Literal: token}}
		return s
	}
	github := offered("srv_1", "github", "hunter22")
	github.Aliases = []string{"hub"}
	github.Stdio = &catalog.Stdio{Command: "npx", Args: []string{"-y", "@upstash/context7-mcp"}, Env: github.Stdio.Env}
	b, ctx := newBench(t, github, offered("srv_2", "mine", "hunter33"))
	got, err := b.Server(ctx, api.ServerRef{Name: "github"})
	if err != nil || !got.Overlay || !got.Routable {
		t.Fatalf("%+v, %v", got, err)
	}
	data, err := json.Marshal(got)
	if err != nil || bytes.Contains(data, []byte("hunter22")) {
		t.Errorf("the value of an observed variable is shown: %s, %v", data, err)
	}
	_, err = b.RemoveServer(ctx, api.ServerRef{Name: "github"})
	refused(t, err, fault.Conflict, "server-overlay", "mcpx up")
	if diff := cmp.Diff("hunter33", b.gateway.applied[1].Stdio.Env["TOKEN"].Literal); diff != "" {
		t.Error("the gateway needs the value:", diff)
	}

	if len(got.Advice) != 0 {
		t.Errorf("advice for what cannot be changed: %v", got.Advice)
	}
	_, err = b.RemoveServer(ctx, api.ServerRef{Name: "hub"})
	refused(t, err, fault.Conflict, "server-overlay", "mcpx up")

	// What a person adds under the same name wins, under the same alias too.
	b.add(ctx, t, stdio("hub", "z"))
	if aliases := b.gateway.applied[1].Aliases; len(aliases) != 0 {
		t.Errorf("two servers have a name: %v", aliases)
	}
	b.add(ctx, t, stdio("mine", "y"))
	if got, err := b.Server(ctx, api.ServerRef{Name: "mine"}); err != nil || got.Overlay || got.Stdio.Command != "y" {
		t.Errorf("%+v, %v", got.Server, err)
	}
}

func TestOverlayBesideCatalog(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("demo", "x"))
	b.add(ctx, t, stdio("same", "z"))
	clash, same := stdio("demo", "y"), stdio("same", "z")
	clash.ID, same.ID = "srv_1", "srv_2"
	b.cfg.Overlay = []catalog.Server{clash, same}
	if err := b.Load(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"demo", "demo-2", "same"}, b.gateway.names()); diff != "" {
		t.Error(diff)
	}
}

func TestLive(t *testing.T) {
	b, ctx := newBench(t)
	for _, name := range []string{"bad", "fine", "off", "slow"} {
		b.add(ctx, t, stdio(name, "x"))
	}
	if _, err := b.DisableServer(ctx, api.ServerRef{Name: "off"}); err != nil {
		t.Fatal(err)
	}
	b.gateway.status = []gateway.ServerStatus{
		{Name: "bad", State: gateway.CrashLoop, LastError: "exited: code 3", ErrorAt: start, Restarts: 5},
		{Name: "fine", State: gateway.Ready, Lanes: []gateway.LaneStatus{
			{State: gateway.Ready, Version: "2025-11-25", Adopted: true, Link: gateway.LinkInfo{Pid: 11, Supervisor: 12, Version: "0.9", Started: start.Add(time.Second)}},
			{State: gateway.Starting, Link: gateway.LinkInfo{Pid: 10, Started: start}},
		}},
		{Name: "off", State: gateway.Off, LastError: "old"},
		{Name: "slow", State: gateway.Idle},
	}
	health, err := b.Health(ctx, api.HealthQuery{})
	if err != nil {
		t.Fatal(err)
	}
	want := api.Health{State: api.HealthDegraded, Findings: []api.Finding{{
		Code: "server-crash-loop", Severity: converge.WeightBlocker, Subject: "bad", Since: start, Text: "exited: code 3",
		Hint: "see `mcpx server logs bad`; try again at once with `mcpx server restart bad`",
	}}}
	health.Findings = health.Findings[:1] // of the agents' files: govern_test.go
	if diff := cmp.Diff(want, health); diff != "" {
		t.Error(diff)
	}
	if b.Live(ctx) != api.HealthDegraded {
		t.Error("one word: not degraded")
	}
	status, err := b.Status(ctx, api.None{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(api.ServerCounts{Total: 4, Disabled: 1, Running: 1, Idle: 1, Failing: 1}, status.Servers); diff != "" {
		t.Error(diff)
	}
	page, err := b.Processes(ctx, api.ProcessQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var rows [][3]any
	for _, p := range page.Processes {
		rows = append(rows, [3]any{p.Server, p.State, p.Pid})
	}
	if diff := cmp.Diff([][3]any{{"bad", "crash_loop", 0}, {"fine", "starting", 10}, {"fine", "ready", 11}, {"off", "disabled", 0}, {"slow", "idle", 0}}, rows); diff != "" {
		t.Error(diff)
	}
	if p := page.Processes[2]; p.Resident != 11000 || p.Supervisor != 12 || p.Version != "0.9" || !p.Adopted {
		t.Errorf("%+v", page.Processes[2])
	}
}

// TestWedged: a process of an earlier daemon that does not answer is a finding, with its reason.
func TestWedged(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("stuck", "x"))
	b.gateway.status = []gateway.ServerStatus{{Name: "stuck", State: gateway.Wedged, Lanes: []gateway.LaneStatus{{State: gateway.Wedged, Note: "no answer"}}}}
	health, err := b.Health(ctx, api.HealthQuery{})
	if err != nil || health.Findings[0].Code != "server-wedged" || health.Findings[0].Text != "no answer" {
		t.Errorf("%+v, %v", health, err)
	}
	page, err := b.Processes(ctx, api.ProcessQuery{})
	if err != nil || len(page.Processes) != 1 || page.Processes[0].LastError != "no answer" {
		t.Errorf("%+v, %v", page.Processes, err)
	}
}

func TestAdvice(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("docs", "npx", "-y", "@upstash/context7-mcp"))
	show := func() api.Server {
		got, err := b.Server(ctx, api.ServerRef{Name: "docs"})
		if err != nil || len(got.Advice) != 1 {
			t.Fatalf("%v, %v", got.Advice, err)
		}
		return got
	}
	if text := show().Advice[0]; !strings.Contains(text, "mcpx server edit docs --sharing") {
		t.Error(text)
	}
	quiet, err := b.Processes(ctx, api.ProcessQuery{})
	if err != nil || len(quiet.Advice) != 0 {
		t.Errorf("ps has advice for a server that does not run often: %v, %v", quiet.Advice, err)
	}
	b.gateway.status = []gateway.ServerStatus{{Name: "docs", State: gateway.Ready, Lanes: make([]gateway.LaneStatus, 3)}}
	if text := show().Advice[0]; !strings.HasPrefix(text, "it runs 3 times; ") {
		t.Error(text)
	}
	if page, err := b.Processes(ctx, api.ProcessQuery{}); err != nil || len(page.Advice) != 1 {
		t.Errorf("%v, %v", page.Advice, err)
	}
}

func TestStop(t *testing.T) {
	b, ctx := newBench(t)
	got, err := b.DaemonStop(ctx, api.StopDaemon{Children: true})
	if err != nil || got.Pid != 42 {
		t.Errorf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]bool{true}, b.stopped); diff != "" {
		t.Error(diff)
	}
}

func TestRestart(t *testing.T) {
	b, ctx := newBench(t)
	_, err := b.DaemonRestart(ctx, api.RestartDaemon{Binary: "mcpx"})
	refused(t, err, fault.Invalid, "request-invalid", "absolute")
	in := api.RestartDaemon{Binary: "/bin/mcpx", Listen: "127.0.0.1:1"}
	if got, err := b.DaemonRestart(ctx, in); err != nil || got.OldPid != 42 {
		t.Errorf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]api.RestartDaemon{in}, b.restart); diff != "" {
		t.Error(diff)
	}
}

func TestReload(t *testing.T) {
	b, ctx := newBench(t)
	got, err := b.DaemonReload(ctx, api.None{})
	if err != nil || len(got.Applied) != 1 || b.reloads != 1 {
		t.Errorf("%+v, %v, %d reloads", got, err, b.reloads)
	}
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	if _, err := New(Config{}); err == nil || !strings.Contains(err.Error(), "Config.DB") {
		t.Error(err)
	}
}
