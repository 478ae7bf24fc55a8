package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/sandbox"
)

// TestMain lets the test binary be the stub of a sandbox.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sandbox.Subcommand {
		os.Exit(sandbox.Main(os.Args[2:], os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// config is a daemon in a directory of its own, on any free port.
func config(t *testing.T, variables ...string) Config {
	t.Helper()
	home, err := os.MkdirTemp("", "mx") //nolint:usetesting // the path of a socket is short, that of t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	getenv := func(name string) string {
		all := append([]string{"MCPX_HOME", home, "HOME", home, "MCPX_LISTENER_ADDRESS", "127.0.0.1:0"}, variables...)
		value := ""
		for i := 0; i < len(all); i += 2 {
			if all[i] == name {
				value = all[i+1]
			}
		}
		return value
	}
	paths, err := api.FindPaths(getenv)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Paths: paths, Version: "test", Exe: exe, Environ: []string{"PATH=" + os.Getenv("PATH")}, Getenv: getenv, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
	}
}

func run(t *testing.T, c Config) *Daemon {
	t.Helper()
	d, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(context.Background(), true); err != nil {
			t.Error(err)
		}
		d.Close()
	})
	return d
}

func TestOneOwner(t *testing.T) {
	c := config(t)
	d := run(t, c)
	_, err := Start(t.Context(), c)
	f := fault.From(err)
	if f.Code != "daemon-running" || f.Kind != fault.Unavailable || !strings.Contains(f.Message, "version test") || !strings.Contains(f.Message, "pid ") {
		t.Errorf("the second daemon: %#v", f)
	}
	// The refusal took nothing away from the first one.
	about, err := api.NewClient(c.Paths.Socket()).DaemonStatus(t.Context(), api.None{})
	if err != nil || about.Epoch != 1 || about.Listener != d.About().Listener {
		t.Errorf("%+v, %v", about, err)
	}
	if err := d.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	d.Close()
	for _, path := range []string{c.Paths.Owner(), c.Paths.Socket()} {
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	next := run(t, c)
	if next.About().Epoch != 2 {
		t.Errorf("epoch %d after a restart, want 2", next.About().Epoch)
	}
}

func TestStartFailsWhole(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	c := config(t)
	c.Listen = busy.Addr().String()
	_, err = Start(t.Context(), c)
	if f := fault.From(err); f.Code != "port-in-use" || f.Kind != fault.Unavailable || !strings.Contains(f.Hint, "--listen") {
		t.Errorf("%#v", f)
	}
	c.Listen = "192.0.2.1:1"
	if _, err = Start(t.Context(), c); fault.From(err).Code != "setting-invalid" {
		t.Errorf("an address of another machine: %v", err)
	}
	if err := os.WriteFile(c.Paths.Database(), []byte("no database at all, and long enough to be looked at as one............................................."), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Listen = ""
	if _, err = Start(t.Context(), c); err == nil {
		t.Fatal("a broken database was accepted")
	}
	if err := os.Remove(c.Paths.Database()); err != nil {
		t.Fatal(err)
	}
	run(t, c) // each failed start gave lock, port and socket back
}

func TestRehearse(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	taken := busy.Addr().String()
	for _, c := range []struct{ name, listen, running, file, code string }{
		{"any port", "", "", "", ""},
		{"taken", taken, "", "", "port-in-use"},
		{"taken by the one that ends", taken, taken, "", ""},
		{"taken by the one that ends, as a name", strings.Replace(taken, "127.0.0.1", "localhost", 1), taken, "", ""},
		{"of another machine", "192.0.2.1:1", "", "", "setting-invalid"},
		{"a broken file", "", "127.0.0.1:1", "[listener", "settings-broken"},
	} {
		cfg := config(t)
		if c.file != "" {
			if err := os.MkdirAll(cfg.Paths.Config, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(cfg.Paths.Settings(), []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := Rehearse(cfg.Paths, cfg.Getenv, c.listen, c.running)
		if (err == nil) != (c.code == "") || err != nil && fault.From(err).Code != c.code {
			t.Errorf("%s: %v, want code %q", c.name, err, c.code)
		}
		if _, err := os.Stat(cfg.Paths.State); err == nil {
			t.Errorf("%s: a rehearsal wrote", c.name)
		}
	}
	if err := CheckListen("30000"); fault.From(err).Code != "setting-invalid" {
		t.Errorf("an address without a host: %v", err)
	}
}

func TestAskStop(t *testing.T) {
	c := config(t)
	d := run(t, c)
	ended := make(chan error, 1)
	go func() {
		_, err := api.NewClient(c.Paths.Socket()).DaemonStop(context.Background(), api.StopDaemon{Children: true})
		ended <- err
	}()
	if children := <-d.StopAsked(); !children {
		t.Error("children were not asked for")
	}
	if err := d.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestReload(t *testing.T) {
	var log strings.Builder
	c := config(t)
	c.Log = slog.New(slog.NewJSONHandler(&log, nil))
	d := run(t, c)
	for _, step := range []struct{ file, want string }{
		{"[listener]\nallowed_hosts = [\"a.example\"]\n", `"applied":["listener.allowed_hosts"],"needs_restart":null`},
		{"[listener]\nallowed_hosts = [\"a.example\"]\n", `"applied":null,"needs_restart":null`},
		{"[supervisor]\norphan_ttl = \"1h\"\n", `"applied":["listener.allowed_hosts","supervisor.orphan_ttl"],"needs_restart":null`},
		{"[listener]\nnonsense = 1\n", "settings not reloaded"},
	} {
		if err := os.MkdirAll(c.Paths.Config, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(c.Paths.Settings(), []byte(step.file), 0o600); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		d.Reload(t.Context())
		if !strings.Contains(log.String(), step.want) {
			t.Errorf("%s\nlogged %s, want %s", step.file, log.String(), step.want)
		}
	}
}

func TestReach(t *testing.T) {
	d := &Daemon{cfg: config(t)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	http := func(url string) catalog.Server { return catalog.Server{HTTP: &catalog.HTTP{URL: url}} }
	stdio := func(command, cwd string) catalog.Server {
		return catalog.Server{Stdio: &catalog.Stdio{Command: command, Cwd: cwd}}
	}
	open := "http://" + l.Addr().String() + "/mcp"
	for _, c := range []struct {
		name string
		s    catalog.Server
		code string
	}{
		{"there", stdio("sh", ""), ""},
		{"missing", stdio("no-such-program", ""), "command-not-found"},
		{"no directory", stdio("sh", "/no/such/directory"), "cwd-missing"},
		{"listening", http(open), ""},
	} {
		if err := d.reach(t.Context(), c.s); (err == nil) != (c.code == "") || err != nil && fault.From(err).Code != c.code {
			t.Errorf("%s: %v, want code %q", c.name, err, c.code)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.reach(t.Context(), http(open)); fault.From(err).Code != "url-unreachable" || fault.KindOf(err) != fault.Unavailable {
		t.Errorf("closed: %v", err)
	}
	// A PATH of the entry counts, as it will for the child.
	tool := filepath.Join(t.TempDir(), "own-tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	own := stdio("own-tool", "")
	own.Stdio.Env = map[string]catalog.Binding{"PATH": {Literal: filepath.Dir(tool)}}
	if err := d.reach(t.Context(), own); err != nil {
		t.Error(err)
	}
	// Behind a proxy a direct connection proves nothing, and none is tried.
	d.cfg = config(t, "https_proxy", "http://127.0.0.1:1")
	if err := d.reach(t.Context(), http("https://does-not-exist.invalid/mcp")); err != nil {
		t.Error(err)
	}
}

func TestRunner(t *testing.T) {
	r := runner{home: t.TempDir(), environ: []string{"PATH=" + os.Getenv("PATH"), "WHO=me"}}
	sh := func(ctx context.Context, script string) (string, error) {
		out, err := r.Output(ctx, []string{"sh", "-c", script}, 10)
		return string(out), err
	}
	if out, err := sh(t.Context(), "printf $WHO; echo noise >&2"); err != nil || out != "me" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := sh(t.Context(), "exit 3"); err == nil || !strings.Contains(err.Error(), "code 3") {
		t.Errorf("exit 3: %v", err)
	}
	if _, err := sh(t.Context(), "printf 12345678901; exec sleep 60"); err == nil || !strings.Contains(err.Error(), "more than 10 bytes") {
		t.Errorf("too much: %v", err)
	}
	late := errors.New("too late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer cancel()
	if _, err := sh(ctx, "sleep 60 & wait"); !errors.Is(err, late) {
		t.Errorf("a program that hangs: %v", err)
	}
	if _, err := r.Output(t.Context(), []string{"no-such-program"}, 10); fault.From(err).Code != "command-not-found" {
		t.Error(err)
	}
}

func TestOwnerFileOfAnotherVersion(t *testing.T) {
	c := config(t)
	run(t, c)
	for _, content := range []string{"", "{", `{"pid":0}`} {
		if err := os.WriteFile(c.Paths.Owner(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if f := fault.From(heldBy(c.Paths)); f.Code != "daemon-running" || strings.Contains(f.Message, "pid") {
			t.Errorf("%q: %v", content, f)
		}
	}
	var o owner
	if err := (owner{Pid: 5, Version: "v"}).write(c.Paths); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(c.Paths.Owner())
	if err != nil || json.Unmarshal(data, &o) != nil || o.Pid != 5 {
		t.Errorf("%s, %v", data, err)
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	if _, err := Start(t.Context(), Config{}); err == nil || !strings.Contains(err.Error(), "Config.Paths") {
		t.Error(err)
	}
}

func TestLoadSettings(t *testing.T) {
	load := func(file string, variables ...string) (Settings, error) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "mcpx.toml")
		if file != "" {
			if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return LoadSettings(path, func(name string) string {
			for i := 0; i < len(variables); i += 2 {
				if variables[i] == name {
					return variables[i+1]
				}
			}
			return ""
		})
	}
	s, err := load("")
	if err != nil || s.ListenerAddress != "127.0.0.1:30000" || s.LoopbackAuth != AuthSameUser || s.AllowedHosts != nil || !s.Watch {
		t.Errorf("defaults: %+v, %v", s, err)
	}
	s, err = load("[listener]\naddress = \"[::1]:1\"\nallowed_hosts = [\"a\", \"b\"]\n[governance]\nwatch = false\n", "MCPX_LISTENER_ADDRESS", "localhost:2", "MCPX_LISTENER_LOOPBACK_AUTH", "token")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Override("listener.address", "--listen", "127.0.0.1:3"); err != nil {
		t.Fatal(err)
	}
	want := map[string]Origin{
		"listener.address": FromFlag, "listener.loopback_auth": FromEnvironment, "listener.allowed_hosts": FromFile, "governance.watch": FromFile,
	}
	for _, row := range Registry {
		if want[row.Key] == "" {
			want[row.Key] = FromDefault
		}
	}
	if diff := cmp.Diff(want, s.origin); diff != "" {
		t.Error(diff)
	}
	if s.ListenerAddress != "127.0.0.1:3" || s.LoopbackAuth != AuthToken || len(s.AllowedHosts) != 2 || s.Watch {
		t.Errorf("%+v", s)
	}
	for _, c := range []struct{ name, file, variable, value, code, part string }{
		{"no TOML", "[listener", "", "", "settings-broken", "line 1"},
		{"unknown key", "[listener]\nadddress = \"x\"", "", "", "setting-unknown", "did you mean listener.address?"},
		{"unknown section", "[public]\nport = 1", "", "", "setting-unknown", "public.port"},
		{"key without a section", "address = \"x\"", "", "", "setting-unknown", "address"},
		{"wrong type", "[listener]\naddress = 1", "", "", "setting-invalid", "host:port"},
		{"wrong list", "[listener]\nallowed_hosts = \"a\"", "", "", "setting-invalid", "list"},
		{"wrong element", "[listener]\nallowed_hosts = [1]", "", "", "setting-invalid", "list"},
		{"not loopback", "", "MCPX_LISTENER_ADDRESS", "0.0.0.0:1", "setting-invalid", "only this machine"},
		{"a name", "", "MCPX_LISTENER_ADDRESS", "example.com:1", "setting-invalid", "loopback"},
		{"no port", "", "MCPX_LISTENER_ADDRESS", "127.0.0.1", "setting-invalid", "host:port"},
		{"bad port", "", "MCPX_LISTENER_ADDRESS", "127.0.0.1:99999", "setting-invalid", "port"},
		{"bad auth", "", "MCPX_LISTENER_LOOPBACK_AUTH", "none", "setting-invalid", "same-user"},
		{"a URL as host", "", "MCPX_LISTENER_ALLOWED_HOSTS", "https://a", "setting-invalid", "no scheme"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(c.file, c.variable, c.value)
			f := fault.From(err)
			if f == nil || f.Kind != fault.Invalid || f.Code != c.code || !strings.Contains(f.Error()+" "+f.Hint, c.part) {
				t.Errorf("%#v, want %s with %q", f, c.code, c.part)
			}
		})
	}
}

func FuzzSettings(f *testing.F) {
	for _, seed := range []string{"[listener]\naddress = \"127.0.0.1:1\"\n", "[listener]\nallowed_hosts = [\"a\"]", "a = 1", "[a.b]\nc = []", "\xff"} {
		f.Add(seed)
	}
	path := filepath.Join(f.TempDir(), "mcpx.toml")
	f.Fuzz(func(t *testing.T, file string) {
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := LoadSettings(path, func(string) string { return "" })
		if err != nil {
			if _, ok := errors.AsType[*fault.Error](err); !ok {
				t.Fatalf("an error that is no fault: %v", err)
			}
			return
		}
		if err := loopbackOnly(s.ListenerAddress); err != nil {
			t.Fatalf("a file opened the listener: %v", err)
		}
	})
}
