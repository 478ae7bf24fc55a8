package localapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a Service whose answers show what arrived.
type echo struct {
	api.Service // nil: a method that a test does not expect panics
	got         []any
	operation   string
	principal   api.Principal
	caller      api.Caller
	fail        error
	lines       int
	stops       chan struct{} // closed by DaemonStop
}

func (e *echo) note(ctx context.Context, in any) error {
	e.got = append(e.got, in)
	e.operation = api.OperationOf(ctx)
	e.principal, _ = api.PrincipalOf(ctx)
	e.caller = api.CallerOf(ctx)
	return e.fail
}

func (e *echo) Servers(ctx context.Context, in api.ServersQuery) (api.ServerPage, error) {
	return api.ServerPage{Servers: []api.Server{{Server: catalog.Server{Name: "a"}}}}, e.note(ctx, in)
}

func (e *echo) AddServer(ctx context.Context, in api.AddServer) (api.Server, error) {
	return api.Server{Server: in.Server}, e.note(ctx, in)
}

func (e *echo) EditServer(ctx context.Context, in api.EditServer) (api.Server, error) {
	return api.Server{}, e.note(ctx, in)
}

func (e *echo) RemoveServer(ctx context.Context, in api.ServerRef) (api.Done, error) {
	return api.Done{Server: in.Name}, e.note(ctx, in)
}

func (e *echo) CallTool(ctx context.Context, in api.CallTool) (api.ToolResult, error) {
	return api.ToolResult{Raw: in.Arguments}, e.note(ctx, in)
}

func (e *echo) DaemonStop(ctx context.Context, in api.StopDaemon) (api.Stopping, error) {
	close(e.stops)
	return api.Stopping{Pid: 7}, e.note(ctx, in)
}

func (e *echo) ServerLogs(ctx context.Context, in api.LogsQuery, emit func(api.LogLine) error) error {
	if err := e.note(ctx, in); err != nil && e.lines == 0 {
		return err
	}
	for range e.lines {
		if err := emit(api.LogLine{Text: "line"}); err != nil {
			return err
		}
	}
	if in.Follow {
		<-ctx.Done()
	}
	return e.fail
}

func serve(t *testing.T, service api.Service, same func(net.Conn) (bool, error)) (*Server, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "mx") //nolint:usetesting // the path of a socket is short, that of t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Service: service, SameUser: same, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.Serve(l)
	t.Cleanup(s.Close)
	return s, path
}

func ours(net.Conn) (bool, error) { return true, nil }

func TestRoundTrip(t *testing.T) {
	e := &echo{}
	_, path := serve(t, e, ours)
	c := api.NewClient(path)
	ctx := api.Under(t.Context(), "op_1")

	if page, err := c.Servers(ctx, api.ServersQuery{}); err != nil || page.Servers[0].Name != "a" {
		t.Errorf("%+v, %v", page, err)
	}
	if e.operation != "" {
		t.Errorf("a read carries the operation id %q", e.operation)
	}
	if e.principal != api.Owner {
		t.Errorf("principal %+v", e.principal)
	}
	want := catalog.Server{Name: "n", Stdio: &catalog.Stdio{Command: "x", Env: map[string]catalog.Binding{"A": {Ref: "env:A"}}}, Limits: catalog.Limits{Idle: -1}}
	if got, err := c.AddServer(ctx, api.AddServer{Server: want, Confirmed: true}); err != nil || !reflect.DeepEqual(got.Server, want) {
		t.Errorf("%+v, %v", got.Server, err)
	}
	if e.operation != "op_1" {
		t.Errorf("operation id %q", e.operation)
	}
	// A null removes a variable, an absent one is kept: the difference must survive the wire.
	edit := api.EditServer{Name: "a b/c", Env: map[string]*catalog.Binding{"GONE": nil}}
	if _, err := c.EditServer(ctx, edit); err != nil {
		t.Error(err)
	}
	raw := json.RawMessage(`{"n":9007199254740993,"s":"<&>"}`)
	if got, err := c.CallTool(ctx, api.CallTool{Name: "a", Tool: "t/1 ü", Arguments: raw}); err != nil || string(got.Raw) != string(raw) {
		t.Errorf("%s, %v", got.Raw, err)
	}
	if got, err := c.RemoveServer(ctx, api.ServerRef{Name: "a%2fb"}); err != nil || got.Server != "a%2fb" {
		t.Errorf("%+v, %v", got, err)
	}
	if diff := cmp.Diff([]any{edit, api.CallTool{Name: "a", Tool: "t/1 ü", Arguments: raw}}, e.got[2:4]); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsTravel(t *testing.T) {
	e := &echo{}
	_, path := serve(t, e, ours)
	c := api.NewClient(path)
	for kind := range statuses {
		e.fail = fault.New(kind, "some-code").Saying("what happened").Hinting("what to do").Retrying(fault.AfterWait).Because(errors.New("why"))
		_, err := c.Servers(t.Context(), api.ServersQuery{})
		f := fault.From(err)
		if f.Kind != kind || f.Code != "some-code" || f.Error() != "what happened: why" || f.Hint != "what to do" || f.Retry != fault.AfterWait {
			t.Errorf("%s: %#v", kind, f)
		}
	}
	if n := len(statuses); n != 12 {
		t.Errorf("the table has %d kinds, want all 12", n)
	}
}

func TestWhoGetsIn(t *testing.T) {
	get := func(path string, header ...string) (status int, level string) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", path)
			},
			DisableKeepAlives: true,
		}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://mcpx/v1/servers", nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode, resp.Header.Get(api.HeaderLevel)
	}
	e := &echo{}
	_, path := serve(t, e, ours)
	for _, header := range [][]string{{"Origin", "http://localhost:30000"}, {"Origin", "null"}, {"Referer", "http://x/"}} {
		if status, _ := get(path, header...); status != http.StatusForbidden {
			t.Errorf("%v: status %d", header, status)
		}
	}
	_, other := serve(t, e, func(net.Conn) (bool, error) { return false, nil })
	if status, _ := get(other); status != http.StatusForbidden {
		t.Errorf("another user: status %d", status)
	}
	_, unsure := serve(t, e, func(net.Conn) (bool, error) { return true, errors.New("no answer") })
	if status, _ := get(unsure); status != http.StatusForbidden {
		t.Errorf("unknown user: status %d", status)
	}
	if len(e.got) != 0 {
		t.Errorf("the service was asked: %v", e.got)
	}
	if status, level := get(path); status != http.StatusOK || level != "1" {
		t.Errorf("our own user: status %d, level %q", status, level)
	}
}

// TestRelayedCaller: the kernel names the daemon that passes a request on, which says nothing about who asks. A yes must
// not count as that of whoever started the daemon in a terminal.
func TestRelayedCaller(t *testing.T) {
	e := &echo{}
	s, err := New(Config{
		Service: e, SameUser: ours, Log: slog.New(slog.DiscardHandler),
		Relayed: func(r *http.Request) bool { return r.Header.Get("Relayed") != "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ctx := api.CalledBy(s.identify(t.Context(), nil), api.Caller{Pid: 7})
	for relayed, want := range map[string]int{"": 7, "1": 0} {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/servers", nil)
		r.Header.Set("Relayed", relayed)
		w := httptest.NewRecorder()
		s.http.Handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK || e.caller.Pid != want || e.principal != api.Owner {
			t.Errorf("relayed %q: status %d, caller %+v, want pid %d", relayed, w.Code, e.caller, want)
		}
	}
}

func TestRequestsRefused(t *testing.T) {
	e := &echo{}
	_, path := serve(t, e, ours)
	for _, c := range []struct {
		name, method, target, key, body, code string
		status                                int
	}{
		{"unknown member", "POST", "/v1/servers", "", `{"sever":{}}`, "request-invalid", 400},
		{"two values", "POST", "/v1/servers", "", `{} {}`, "request-invalid", 400},
		{"no JSON", "POST", "/v1/servers", "", `{`, "request-invalid", 400},
		{"bad query", "GET", "/v1/servers/a/logs?lines=-1", "", "", "request-invalid", 400},
		{"bad query", "GET", "/v1/servers/a/logs?follow=perhaps", "", "", "request-invalid", 400},
		{"key with a space", "DELETE", "/v1/servers/a", "a b", "", "request-invalid", 400},
		{"long key", "DELETE", "/v1/servers/a", strings.Repeat("k", api.MaxKey+1), "", "request-invalid", 400},
		{"unknown operation", "GET", "/v1/nothing", "", "", "op-unknown", 404},
		{"wrong method", "PUT", "/v1/servers", "", "", "op-unknown", 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			r, err := http.NewRequest(c.method, "http://mcpx"+c.target, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Close = true
			if c.key != "" {
				r.Header.Set(api.HeaderKey, c.key)
			}
			if err := r.Write(conn); err != nil {
				t.Fatal(err)
			}
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			status, body, _ := strings.Cut(string(answer), "\r\n")
			if !strings.Contains(status, http.StatusText(c.status)) || !strings.Contains(body, `"code":"`+c.code+`"`) {
				t.Errorf("%s\n%s", status, body)
			}
		})
	}
	if len(e.got) != 0 {
		t.Errorf("the service was asked: %v", e.got)
	}
}

func TestStream(t *testing.T) {
	e := &echo{lines: 3}
	_, path := serve(t, e, ours)
	c := api.NewClient(path)
	count := 0
	one := func(api.LogLine) error { count++; return nil }
	if err := c.ServerLogs(t.Context(), api.LogsQuery{Name: "a", Lines: 5}, one); err != nil || count != 3 {
		t.Errorf("%d lines, %v", count, err)
	}
	if diff := cmp.Diff([]any{api.LogsQuery{Name: "a", Lines: 5}}, e.got); diff != "" {
		t.Error(diff)
	}
	e.fail = fault.New(fault.Busy, "x").Saying("later")
	if err := c.ServerLogs(t.Context(), api.LogsQuery{Name: "a"}, one); fault.KindOf(err) != fault.Busy {
		t.Errorf("an error after the first line: %v", err)
	}
	e.lines = 0
	if err := c.ServerLogs(t.Context(), api.LogsQuery{Name: "a"}, one); fault.KindOf(err) != fault.Busy {
		t.Errorf("an error before the first line: %v", err)
	}
	leave := errors.New("enough")
	e.lines, e.fail = 3, nil
	if err := c.ServerLogs(t.Context(), api.LogsQuery{Name: "a"}, func(api.LogLine) error { return leave }); !errors.Is(err, leave) {
		t.Errorf("a reader that has enough: %v", err)
	}
}

func TestStreamEndsWithTheDaemon(t *testing.T) {
	e := &echo{lines: 1}
	s, path := serve(t, e, ours)
	got := make(chan error, 1)
	first := make(chan struct{})
	go func() {
		got <- api.NewClient(path).ServerLogs(t.Context(), api.LogsQuery{Name: "a", Follow: true}, func(api.LogLine) error {
			close(first)
			return nil
		})
	}()
	<-first
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Errorf("an orderly stop ends a stream with its end line: %v", err)
	}
	if _, err := api.NewClient(path).Servers(t.Context(), api.ServersQuery{}); fault.From(err).Code != "daemon-stopping" {
		t.Errorf("a request after the stop: %v", err)
	}
}

func TestStreamCutIsNoSuccess(t *testing.T) {
	e := &echo{lines: 1}
	s, path := serve(t, e, ours)
	err := api.NewClient(path).ServerLogs(t.Context(), api.LogsQuery{Name: "a", Follow: true}, func(api.LogLine) error {
		_ = s.http.Close() // the daemon dies
		return nil
	})
	if fault.From(err).Code != "stream-cut" {
		t.Errorf("got %v", err)
	}
}

func TestStopCallerWaitsForTheEnd(t *testing.T) {
	e := &echo{stops: make(chan struct{})}
	s, path := serve(t, e, ours)
	got := make(chan error, 1)
	go func() {
		_, err := api.NewClient(path).DaemonStop(t.Context(), api.StopDaemon{Children: true})
		got <- err
	}()
	<-e.stops
	// Stop waits for requests in work, and not for this one: the daemon would wait for itself.
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		t.Fatalf("the caller returned before the end: %v", err)
	default:
	}
	s.Close()
	if err := <-got; err != nil {
		t.Errorf("after the end: %v", err)
	}
}

// TestTable checks the rows against the interface: one method, one handler, the types of the row.
func TestTable(t *testing.T) {
	methods := map[string]string{
		"daemon.status": "DaemonStatus", "daemon.stop": "DaemonStop", "daemon.restart": "DaemonRestart", "daemon.reload": "DaemonReload", "status.show": "Status", "health.show": "Health", "process.list": "Processes",
		"config.discover": "ConfigFiles", "config.inspect": "InspectConfig",
		"agent.list": "Agents", "agent.set": "SetAgent", "audit.run": "RunAudit", "audit.list": "Events", "audit.verify": "VerifyEvents", "audit.prune": "Prune",
		"plan.list": "Plans", "plan.show": "Plan", "plan.apply": "ApplyPlan", "plans.apply": "ApplyPlans", "approval.list": "Approvals", "approval.show": "Approval", "approval.decide": "Decide",
		"receipt.list": "Receipts", "receipt.rollback": "RollBack", "cutover.record": "RecordCutover", "agent.certify": "KeepCertificate",
		"credential.list": "Credentials", "credential.show": "Credential", "credential.set": "SetCredential", "credential.check": "CheckCredentials",
		"credential.bind": "BindCredentials", "credential.grant": "GrantCredential", "credential.remove": "RemoveCredential",
		"server.list": "Servers", "server.show": "Server", "server.add": "AddServer", "server.edit": "EditServer", "server.remove": "RemoveServer",
		"server.enable": "EnableServer", "server.disable": "DisableServer", "server.restart": "RestartServer", "server.import": "ImportServers", "server.login": "LogIn", "server.logout": "LogOut",
		"catalog.list": "Catalog", "catalog.show": "CatalogServer", "catalog.candidates": "Candidates", "catalog.review": "Review", "catalog.link": "LinkEntry",
		"catalog.export": "ExportCatalog", "catalog.tools": "ReviewTools", "catalog.accept": "AcceptTools",
		"project.list": "Projects", "project.show": "Project", "project.add": "AddProject", "project.remove": "RemoveProject", "project.rebind": "RebindProject", "trust.show": "ProjectTrust", "trust.decide": "TrustProject", "project.grant": "GrantProject",
		"session.list": "RemoteSessions", "session.show": "RemoteSession", "session.grant": "GrantSession", "session.handoff": "HandOver", "session.close": "CloseSession",
		"operation.list": "Operations", "operation.show": "Operation", "operation.resolve": "ResolveOperation",
		"job.list": "Jobs", "job.show": "Job", "job.logs": "JobLogs", "job.stop": "StopJob",
		"workspace.list": "Workspaces", "workspace.show": "Workspace", "workspace.diff": "WorkspaceDiff", "workspace.plan": "PlanIntegration", "workspace.create": "CreateWorkspace", "workspace.integrate": "IntegrateWorkspace", "workspace.undo": "UndoIntegration", "workspace.suspend": "SuspendWorkspace", "workspace.resume": "ResumeWorkspace", "workspace.remove": "RemoveWorkspace",
		"generation.list": "Generations", "generation.show": "Generation", "generation.verify": "VerifyGeneration", "generation.produce": "ProduceGeneration", "generation.consume": "ConsumeGeneration", "generation.retain": "RetainGeneration", "generation.release": "ReleaseGeneration",
		"remote.show": "Remote", "remote.on": "TurnRemoteOn", "remote.off": "TurnRemoteOff", "remote.requests": "RemoteRequests", "remote.approve": "ApproveRemote", "remote.deny": "DenyRemote", "remote.list": "RemoteClients", "remote.revoke": "RevokeRemote",
		"token.list": "Tokens", "token.issue": "IssueToken", "token.rotate": "RotateToken", "token.revoke": "RevokeToken", "agent.check": "CheckAgents", "agent.capabilities": "AuthCapabilities", "agent.control": "InstallControl", "agent.mount": "MountServer",
		"service.install": "InstallService", "profile.list": "Profiles", "profile.show": "Profile", "profile.set": "SetProfile",
		"hub.status": "HubStatus", "hub.plans": "HubPlans", "hub.plan": "HubPlan", "hub.entry": "HubEntry", "hub.runtime": "HubRuntime",
		"hub.credentials": "HubCredentials", "hub.catalog": "HubCatalog",
		"server.logs": "ServerLogs", "server.tools": "ServerTools", "server.call": "CallTool",
	}
	service := reflect.TypeFor[api.Service]()
	if service.NumMethod() != len(api.Ops) || len(handlers) != len(api.Ops) {
		t.Errorf("%d methods, %d handlers, %d rows", service.NumMethod(), len(handlers), len(api.Ops))
	}
	for _, op := range api.Ops {
		m, ok := service.MethodByName(methods[op.Name])
		if !ok || handlers[op.Name] == nil {
			t.Errorf("%s: method %v, handler %v", op.Name, ok, handlers[op.Name] != nil)
			continue
		}
		if in := m.Type.In(1); in != reflect.TypeOf(op.In) {
			t.Errorf("%s takes %v, the row says %T", op.Name, in, op.In)
		}
		out := m.Type.Out(0)
		if op.Stream {
			out = m.Type.In(2).In(0)
		}
		if out != reflect.TypeOf(op.Out) {
			t.Errorf("%s gives %v, the row says %T", op.Name, out, op.Out)
		}
		if changes := op.Need == api.Change || op.Need == api.Judge; changes != op.Keyed && op.Name != "server.call" || (op.Method == http.MethodGet) == op.Keyed {
			t.Errorf("%s: method %s, need %s, keyed %v do not fit", op.Name, op.Method, op.Need, op.Keyed)
		}
	}
}

// TestSettle: streams end, operations are waited for, but not those that a hand-over must not wait for; a connection that
// is there is served on after the listener was closed.
func TestSettle(t *testing.T) {
	hold := make(chan struct{})
	begun := make(chan string, 2)
	e := &slow{hold: hold, begun: begun}
	s, path := serve(t, e, ours)
	client := api.NewClient(path)
	ended := make(chan error, 2)
	go func() {
		_, err := client.CallTool(t.Context(), api.CallTool{Name: "a", Tool: "t"})
		ended <- err
	}()
	<-begun
	s.StopAccepting()
	if err := s.Settle(t.Context()); err != nil {
		t.Errorf("it waits for a tool: %v", err)
	}
	close(hold)
	if err := <-ended; err != nil {
		t.Errorf("the call in flight: %v", err)
	}

	hold = make(chan struct{})
	e = &slow{hold: hold, begun: begun}
	s, path = serve(t, e, ours)
	go func() {
		_, err := api.NewClient(path).Servers(t.Context(), api.ServersQuery{})
		ended <- err
	}()
	<-begun
	short, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := s.Settle(short); err == nil {
		t.Error("it does not wait for an operation")
	}
	close(hold)
	if err := s.Settle(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the operation in flight: %v", err)
	}
}

// slow is a daemon whose operations wait.
type slow struct {
	api.Service
	hold  chan struct{}
	begun chan string
}

func (s *slow) CallTool(context.Context, api.CallTool) (api.ToolResult, error) {
	s.begun <- "call"
	<-s.hold
	return api.ToolResult{}, nil
}

func (s *slow) Servers(context.Context, api.ServersQuery) (api.ServerPage, error) {
	s.begun <- "list"
	<-s.hold
	return api.ServerPage{}, nil
}

// configService remembers what it was asked.
type configService struct {
	api.Service
	asked api.ConfigQuery
}

func (s *configService) ConfigFiles(_ context.Context, in api.ConfigQuery) (api.ConfigFiles, error) {
	s.asked = in
	return api.ConfigFiles{}, nil
}

// TestListInQuery: a parameter that is a list comes through whole, and one that is no list is not split.
func TestListInQuery(t *testing.T) {
	service := &configService{}
	_, path := serve(t, service, ours)
	want := api.ConfigQuery{Agent: "codex", Home: "/h", Project: "/a, b&c", Moved: []string{"A=/x,y", "B=/z z"}}
	if _, err := api.NewClient(path).ConfigFiles(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, service.asked); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if _, err := api.NewClient(path).ConfigFiles(t.Context(), api.ConfigQuery{}); err != nil || service.asked.Moved != nil {
		t.Errorf("%v, %+v", err, service.asked)
	}
}
