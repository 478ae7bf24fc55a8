package wire

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// TestEditsApplyLive: limits and words reach a running server without a restart; what its process was started from does
// not, and no other server notices.
func TestEditsApplyLive(t *testing.T) {
	g := rig.Start(t)
	k, other := keep(t, g, "s", fakemcp.Options{}), keep(t, g, "other", fakemcp.Options{})
	for i, edit := range [][]string{
		{"--call-timeout", "300ms"}, {"--idle-timeout", "never"}, {"--title", "A title"}, {"--notes", "words"}, {"--on-change", "keep"},
	} {
		g.Must(append([]string{"server", "edit", "s"}, edit...)...)
		k.unchanged(t, fmt.Sprint(10+i))
	}
	start := time.Now()
	_, class := class(t, k.c.Post(tool("20", "hang", `{}`)).Answer(t))
	if took := time.Since(start); class != "timeout" || took > slack {
		t.Errorf("with a timeout of 300ms a call that hangs ended with %q after %s", class, took)
	}
	k.unchanged(t, "21")
	g.Must("server", "edit", "s", "--env", "MORE=1")
	rig.Until(t, slack, "the child is gone", func() bool { return !rig.Alive(k.child) })
	c := rig.Open(t, g.URL("s"), "2025-11-25", `{}`)
	if got := number(t, definite(t, c, tool("1", "pid", `{}`), slack, "answer")); got == k.child {
		t.Errorf("pid %d answers still, with the old environment", got)
	}
	other.unchanged(t, "22")
}

// TestReload: SIGHUP and `mcpx daemon reload` read the settings again; what cannot be read changes nothing.
func TestReload(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "s", fakemcp.Options{})
	if out := g.Must("daemon", "reload"); !strings.Contains(out, "No setting changed") {
		t.Errorf("a reload of nothing: %s", out)
	}
	settings := filepath.Join(g.Home, "config", "mcpx.toml")
	if err := os.MkdirAll(filepath.Dir(settings), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host := func() int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.Addr+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "tunnel.example"
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if status := host(); status != http.StatusForbidden {
		t.Errorf("a host that is not allowed: HTTP %d", status)
	}
	write("[listener]\nallowed_hosts = [\"tunnel.example\"]\n")
	if out := g.Must("daemon", "reload"); !strings.Contains(out, "In force now: listener.allowed_hosts") {
		t.Errorf("a reload: %s", out)
	}
	if status := host(); status != http.StatusOK {
		t.Errorf("a host that is allowed now: HTTP %d", status)
	}
	hangup, err := os.FindProcess(g.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := hangup.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	rig.Until(t, slack, "SIGHUP reloads", func() bool { return strings.Count(g.Log(), `"settings reloaded"`) == 3 })
	write("[listener\n")
	if r := g.Run("daemon", "reload"); r.Code == 0 || !strings.Contains(r.Stderr, "line 1") {
		t.Errorf("a broken file: exit code %d\n%s", r.Code, r.Stderr)
	}
	k.unchanged(t, "2")
}

// TestForegroundOutlivesItsDaemon: after a restart of a daemon in the foreground the first process stays, leads signals on
// and ends with the daemon that runs then.
func TestForegroundOutlivesItsDaemon(t *testing.T) {
	g := rig.Start(t)
	k := keep(t, g, "s", fakemcp.Options{})
	first, err := os.FindProcess(g.PID())
	if err != nil {
		t.Fatal(err)
	}
	g.Must("daemon", "restart")
	g.Must("daemon", "restart")
	k.unchanged(t, "2")
	if !rig.Alive(g.PID()) {
		t.Fatal("the first process has ended")
	}
	if err := first.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	rig.Until(t, slack, "SIGHUP reaches the daemon", func() bool { return strings.Contains(g.Log(), `"settings reloaded"`) })
	if err := first.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if how := g.Wait(); how != "" {
		t.Errorf("the first process ended with %s", how)
	}
	if r := g.Run("daemon", "status"); r.Code != 1 {
		t.Errorf("a daemon is left: %s", r.Stdout)
	}
	if !rig.Alive(k.child) {
		t.Error("the server ended with the daemon")
	}
	g.Must("daemon", "stop", "--children")
}

// TestReplacedProgram: a server whose program was replaced on disk is started anew when its calls have ended, and none of
// them fails; with --on-change keep it goes on.
func TestReplacedProgram(t *testing.T) {
	if !full() {
		t.Skip("skip: up to 15 s of waiting only with MCPX_TEST_FULL")
	}
	g := rig.Start(t)
	program := filepath.Join(g.Home, "program")
	install := func(more string) {
		t.Helper()
		script := "#!/bin/sh\n# " + more + "\nexec \"$@\"\n"
		if err := os.WriteFile(program+".new", []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(program+".new", program); err != nil {
			t.Fatal(err)
		}
	}
	install("one")
	command := append([]string{program}, rig.Fixture(t, fakemcp.Options{})...)
	g.Add("replaced", command)
	g.Add("kept", command, "--on-change", "keep")
	open := func(name string) (*caller, string) {
		c := &caller{client: rig.Open(t, g.URL(name), "2025-11-25", `{}`), name: name}
		return c, fmt.Sprint(number(t, definite(t, c.client, tool("1000000", "pid", `{}`), slack, "answer")))
	}
	replaced, was := open("replaced")
	kept, stays := open("kept")
	stop := make(chan struct{})
	ended := make(chan struct{}, 2)
	for _, c := range []*caller{replaced, kept} {
		c.any = true
		go func() {
			c.run(stop, &noRestarts)
			ended <- struct{}{}
		}()
	}
	install("two")
	rig.Until(t, 20*time.Second, "the program is replaced", func() bool {
		ps := g.Processes("replaced")
		return len(ps) == 1 && ps[0].Pid != 0 && fmt.Sprint(ps[0].Pid) != was
	})
	close(stop)
	<-ended
	<-ended
	for _, c := range []*caller{replaced, kept} {
		if c.failed != nil {
			t.Error(c.failed)
		}
	}
	if ps := g.Processes("kept"); len(ps) != 1 || fmt.Sprint(ps[0].Pid) != stays {
		t.Errorf("the server that is kept: %+v, want pid %s", ps, stays)
	}
}
