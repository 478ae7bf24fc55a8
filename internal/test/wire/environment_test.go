package wire

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// refuses wants a start of the daemon to fail with exit code 7 or 75, and with every part in its complaint.
func refuses(t *testing.T, g *rig.Gateway, parts ...string) {
	t.Helper()
	r := g.Run("serve", "--listen", "127.0.0.1:0")
	if r.Code != 7 && r.Code != 75 {
		t.Fatalf("the daemon ended with code %d, want a refusal\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, part := range parts {
		if !strings.Contains(r.Stderr, part) {
			t.Errorf("the refusal does not say %q:\n%s", part, r.Stderr)
		}
	}
}

// TestS18Directories has other things in the places of the daemon's own directories. It starts nothing there, follows no
// link and deletes nothing.
func TestS18Directories(t *testing.T) {
	for _, c := range []struct {
		name string
		root bool // only root can make it
		put  func(g *rig.Gateway, elsewhere string) error
		at   string // what the refusal names
		hint string
	}{
		{name: "state is a link", at: "state", hint: "MCPX_HOME", put: func(g *rig.Gateway, elsewhere string) error {
			return os.Symlink(elsewhere, filepath.Join(g.Home, "state"))
		}},
		{name: "state is a file", at: "state", hint: "MCPX_HOME", put: func(g *rig.Gateway, _ string) error {
			return os.WriteFile(filepath.Join(g.Home, "state"), nil, 0o600)
		}},
		{name: "state of another user", root: true, at: "state", hint: "MCPX_HOME", put: func(g *rig.Gateway, _ string) error {
			return giveAway(filepath.Join(g.Home, "state"))
		}},
		{name: "run is a link", at: "run", hint: "MCPX_HOME", put: func(g *rig.Gateway, elsewhere string) error {
			return os.Symlink(elsewhere, filepath.Join(g.Home, "run"))
		}},
		{name: "run of another user", root: true, at: "run", hint: "MCPX_HOME", put: func(g *rig.Gateway, _ string) error {
			return giveAway(filepath.Join(g.Home, "run"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root can give a directory away")
			}
			g := rig.New(t)
			elsewhere := t.TempDir()
			if err := os.WriteFile(filepath.Join(elsewhere, "lock"), []byte("theirs"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.put(g, elsewhere); err != nil {
				t.Fatal(err)
			}
			refuses(t, g, filepath.Join(g.Home, c.at), c.hint)
			entries, err := os.ReadDir(elsewhere)
			if err != nil || len(entries) != 1 {
				t.Errorf("elsewhere holds %v, %v; want the one file", entries, err)
			}
		})
	}
}

func giveAway(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.Chown(dir, 65534, 65534)
}

// TestS18Bundles has a link in the place of the bundles: the daemon serves, starts no server, and says why.
func TestS18Bundles(t *testing.T) {
	g := rig.New(t)
	elsewhere := t.TempDir()
	if err := os.MkdirAll(filepath.Join(elsewhere, "shim_theirs"), 0o700); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(g.Home, "state")
	if err := errors.Join(os.Mkdir(state, 0o700), os.Chmod(state, 0o777)); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(g.Home, "state", "bundles")
	if err := os.Symlink(elsewhere, at); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state directory was open to all and has mode %v, %v", info.Mode(), err)
	}
	if !strings.Contains(g.Log(), at) {
		t.Errorf("the log does not name %s:\n%s", at, g.Log())
	}
	g.Add("linked", rig.Fixture(t, fakemcp.Options{}))
	if r := g.Run("server", "call", "linked", "pid"); r.Code == 0 || !strings.Contains(r.Stdout+r.Stderr, at) {
		t.Errorf("a call: exit code %d, want an error that names %s\n%s%s", r.Code, at, r.Stdout, r.Stderr)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) != 1 {
		t.Errorf("elsewhere holds %v, %v; want what was there", entries, err)
	}
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	keep(t, g, "plain", fakemcp.Options{}) // no restart is needed once the link is gone
}

// TestS21LongPath keeps a child over the death of a daemon whose state lies below a path of 150 bytes with spaces and
// letters that are not ASCII.
func TestS21LongPath(t *testing.T) {
	base, first := t.TempDir(), ""
	t.Cleanup(func() { _ = os.RemoveAll(first) }) // after the daemon
	g := rig.New(t)
	first = g.Home
	g.Home = filepath.Join(base, "Ärger mit Größe ", strings.Repeat("ü x", 40))[:150]
	g.Home = strings.ToValidUTF8(g.Home, "") + strings.Repeat("z", 2)
	if err := os.MkdirAll(filepath.Join(g.Home, "user"), 0o700); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	k := keep(t, g, "long", fakemcp.Options{})
	g.Kill()
	if !rig.Alive(k.child) {
		t.Fatal("the child did not outlive the daemon")
	}
	g.Serve()
	k.unchanged(t, "2")
	info, err := os.Stat(filepath.Dir(shimSocket(t, g)))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o700 {
		t.Errorf("the directory of the supervisor's socket has mode %#o", info.Mode().Perm())
	}
	if at := shimSocket(t, g); len(at) > 100 || strings.HasPrefix(at, g.Home) {
		t.Errorf("the supervisor's socket is %s", at)
	}
	g.Must("server", "restart", "long")
	g.Must("daemon", "status")
}

// shimSocket is the socket of the only supervisor.
func shimSocket(t *testing.T, g *rig.Gateway) string {
	t.Helper()
	records, err := filepath.Glob(filepath.Join(g.Home, "state", "bundles", "*", "record"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %v, %v; want one", records, err)
	}
	raw, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), `"socket":"`)
	socket, _, _ := strings.Cut(rest, `"`)
	return socket
}

// TestS9Leftovers starts a daemon among bundles of every kind: what lives is used, what is not ours is put aside.
func TestS9Leftovers(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "kept", fakemcp.Options{})
	socket := shimSocket(t, g)
	g.Kill()
	bundles := filepath.Join(g.Home, "state", "bundles")
	elsewhere := t.TempDir()
	for name, record := range map[string]string{
		"shim_newer": `{"format":99,"id":"shim_newer"}`, "shim_broken": `{`,
		// A recorded pid that is another process now: this test.
		"shim_reused": `{"format":1,"id":"shim_reused","kind":"stdio","child":{"boot":"x","pid":` + strconv.Itoa(os.Getpid()) + `,"start":1}}`,
	} {
		if err := os.Mkdir(filepath.Join(bundles, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(bundles, name, "record"), []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(bundles, "shim_link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	k.unchanged(t, "2")
	for _, name := range []string{"shim_newer", "shim_broken", "shim_link"} {
		if _, err := os.Lstat(filepath.Join(g.Home, "state", "quarantine", name)); err != nil {
			t.Error(err)
		}
		if !strings.Contains(g.Log(), name) {
			t.Errorf("the log does not name %s", name)
		}
	}
	if _, err := os.Lstat(filepath.Join(bundles, "shim_reused")); err == nil {
		t.Error("a dead bundle is still there")
	}
}

// TestS15Files changes the program of a server while no daemon runs.
func TestS15Files(t *testing.T) {
	g := rig.Start(t)
	dir := t.TempDir()
	fixture := rig.Fixture(t, fakemcp.Options{})
	data, err := os.ReadFile(fixture[0])
	if err != nil {
		t.Fatal(err)
	}
	type files struct{ program, link, twin string }
	cases := map[string]struct {
		change func(f files) error
		stays  bool
	}{
		"touched": {func(f files) error { return os.Chtimes(f.program, time.Unix(1, 0), time.Unix(1, 0)) }, true},
		"equal":   {func(f files) error { return os.Rename(f.twin, f.program) }, true},
		"linked":  {func(f files) error { return errors.Join(os.Remove(f.link), os.Symlink(f.twin, f.link)) }, true},
		"removed": {func(f files) error { return os.Remove(f.program) }, true},
		"replaced": {func(f files) error {
			return errors.Join(os.WriteFile(f.twin, append(data, 0), 0o700), os.Rename(f.twin, f.program))
		}, false},
	}
	servers, sessions := map[string]files{}, map[string]*kept{}
	for name := range cases {
		f := files{filepath.Join(dir, name), filepath.Join(dir, name+".link"), filepath.Join(dir, name+".twin")}
		for _, path := range []string{f.program, f.twin} {
			if err := os.WriteFile(path, data, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(f.program, f.link); err != nil {
			t.Fatal(err)
		}
		g.Add(name, append([]string{f.link}, fixture[1:]...))
		c := rig.Open(t, g.URL(name), "2025-11-25", "{}")
		servers[name] = f
		sessions[name] = &kept{c: c, child: number(t, definite(t, c, tool("1", "pid", `{}`), slack, "answer"))}
	}
	g.Kill()
	for name, c := range cases {
		if err := c.change(servers[name]); err != nil {
			t.Fatal(err)
		}
	}
	g.Serve()
	for name, c := range cases {
		k := sessions[name]
		if got := number(t, definite(t, k.c, tool("2", "pid", `{}`), slack, "answer")); (got == k.child) != c.stays {
			t.Errorf("%s: pid %d answers, it was %d", name, got, k.child)
		}
	}
	if log := g.Log(); strings.Count(log, "was removed; the server goes on") != 1 {
		t.Errorf("the log does not say once that a program was removed:\n%s", log)
	}
}
