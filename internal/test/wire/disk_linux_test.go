package wire

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// insideDisk makes a test binary run TestDisk where it may mount.
	insideDisk = "MCPX_TEST_DISK"
	// diskBytes is the size of the state's disk: the database needs 1 MiB.
	diskBytes = "size=16m,mode=0700"
)

// TestDisk runs daemons on a state directory whose disk is full, or cannot be written to. It mounts that disk in a
// namespace of its own, which only root may make.
func TestDisk(t *testing.T) {
	if os.Getenv(insideDisk) != "" {
		t.Run("full", fullDisk)
		t.Run("read-only", readOnlyDisk)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	unshare := []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if err := exec.Command("unshare", append(unshare, "true")...).Run(); err != nil {
		t.Skip("no namespaces here: ", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", append(unshare, self, "-test.run=^TestDisk$", "-test.v")...)
	cmd.Env = append(os.Environ(), insideDisk+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

// onDisk is a daemon that does not run yet, with a state directory on a disk of its own.
func onDisk(t *testing.T) (g *rig.Gateway, state string) {
	t.Helper()
	g = rig.New(t)
	state = filepath.Join(g.Home, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Must("daemon", "stop", "--children")
		if !g.Ended() {
			g.Wait()
		}
		rig.Survivors(g.Home) // it waits for supervisors that are just ending
		if err := syscall.Unmount(state, 0); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mount("none", state, "tmpfs", 0, diskBytes); err != nil {
		t.Fatal(err)
	}
	return g, state
}

func fullDisk(t *testing.T) {
	g, state := onDisk(t)
	g.Serve()
	k := keep(t, g, "kept", fakemcp.Options{})
	g.Add("fresh", rig.Fixture(t, fakemcp.Options{}))
	g.Add("shared", rig.Fixture(t, fakemcp.Options{}))
	g.Share("shared")
	rig.Open(t, g.URL("shared"), "2025-11-25", "{}")

	repair := rig.FillDisk(t, state)
	// What runs goes on.
	k.unchanged(t, "2")
	late := rig.Open(t, g.URL("shared"), "2025-11-25", "{}")
	definite(t, late, tool("1", "pid", `{}`), slack, "answer")
	// A start is refused with a reason and a next step.
	if r := g.Run("server", "call", "fresh", "pid"); r.Code == 0 {
		t.Error("a server was started")
	} else {
		t.Logf("start of a server: %d %s", r.Code, r.Stderr)
		says(t, r.Stderr, state, "free space")
	}
	// A daemon that could not come back does not make room for the next one.
	if r := g.Run("daemon", "restart"); r.Code != 75 {
		t.Errorf("the restart ended with %d: %s", r.Code, r.Stderr)
	} else {
		t.Logf("restart: %s", r.Stderr)
		says(t, r.Stderr, state, "goes on as before", "free space")
	}
	if g.Ended() {
		t.Fatal("the daemon has ended")
	}
	definite(t, late, tool("2", "pid", `{}`), slack, "answer")
	repair()
	if r := g.Run("server", "call", "fresh", "pid"); r.Code != 0 {
		t.Errorf("after the repair: %s", r.Stderr)
	}

	time.Sleep(delivered) // or a supervisor whose child ends waits for a daemon that fetches the answers
	// The daemon itself is refused, and leaves the disk as it was.
	g.Kill()
	before := files(t, state)
	repair = rig.FillDisk(t, state)
	r := g.Run("serve", "--listen", g.Addr)
	if r.Code != 75 {
		t.Errorf("the daemon ended with %d", r.Code)
	}
	t.Logf("start of the daemon: %s", r.Stderr)
	says(t, r.Stderr, state, "free space")
	repair()
	if after := files(t, state); after != before {
		t.Errorf("before the refusal:\n%s\nafter it:\n%s", before, after)
	}
	if !rig.Alive(k.child) {
		t.Error("the child did not outlive the refusal")
	}
	g.Serve()
	k.unchanged(t, "3")

	// A child ends while nobody can write down how: its caller gets a class all the same.
	end := k.begun(t, "4", "lost", work("4", "lost", `"wait_ms":60000`))
	time.Sleep(delivered)
	g.Kill()
	repair = rig.FillDisk(t, state)
	kill(t, k.child)
	rig.Until(t, slack, "the supervisor has ended", func() bool { return !rig.Alive(k.supervisor) })
	repair()
	g.Serve()
	if o := <-end; o.Class != "sent_unknown" {
		t.Errorf("the call in flight ended with %+v", o)
	}
	if got := number(t, definite(t, k.c, tool("5", "pid", `{}`), slack, "answer")); got == k.child {
		t.Error("the dead child answers")
	}
}

// readOnlyDisk starts daemons on a disk that cannot be written to. A disk cannot turn read-only below a daemon: the system
// refuses that while files are open for writing.
func readOnlyDisk(t *testing.T) {
	g, state := onDisk(t)
	g.Serve()
	g.Add("kept", rig.Fixture(t, fakemcp.Options{}))
	g.Must("daemon", "stop", "--children")
	g.Wait()
	before := files(t, state)
	remount := func(flags uintptr) {
		t.Helper()
		if err := syscall.Mount("", state, "", syscall.MS_REMOUNT|syscall.MS_BIND|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	remount(syscall.MS_RDONLY)
	for _, command := range [][]string{{"serve", "--listen", g.Addr}, {"daemon", "start", "--listen", g.Addr}} {
		r := g.Run(command...)
		if r.Code != 75 {
			t.Errorf("%v ended with %d", command, r.Code)
		}
		t.Logf("%v: %s", command, r.Stderr)
		says(t, r.Stderr, state, "write")
	}
	if after := files(t, state); after != before {
		t.Errorf("before the refusal:\n%s\nafter it:\n%s", before, after)
	}
	remount(0)
	g.Serve()
	g.Must("server", "call", "kept", "pid")
}

// says wants every part in a text for people.
func says(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

// files lists the names below dir, but for the database and the file that names the owner.
func files(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !strings.Contains(d.Name(), "mcpx.db") && d.Name() != "owner.json" {
			all = append(all, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}
