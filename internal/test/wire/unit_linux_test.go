package wire

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/converge"
	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// managerWithin is how long a fresh systemd may take to come up.
const managerWithin = 20 * time.Second

// insideUnit makes a test binary run TestUnit with a systemd of its own around it.
const insideUnit = "MCPX_TEST_INSIDE"

// TestUnit, DW-65 for commands and supervised servers: it runs the daemon as the systemd unit that is shipped, and as worse ones, with a real systemd: a user manager in
// namespaces of its own, so nothing of this machine is touched. Only root may make those.
func TestUnit(t *testing.T) {
	if os.Getenv(insideUnit) != "" {
		inUnit(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can give a systemd namespaces and a cgroup of its own")
	}
	for _, tool := range []string{"unshare", "mount", "systemctl", "systemd-run", systemd()} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	var groups []string
	for _, root := range cgroups(t) {
		dir := filepath.Join(root, fmt.Sprintf("mcpx-test-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skip("no cgroup can be made here: ", err)
		}
		t.Cleanup(func() { removeCgroup(t, dir) })
		groups = append(groups, dir)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unshare := []string{"--mount", "--cgroup", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-ec"}
	// /run/systemd/system is how programs know that a systemd is in charge.
	prelude := `for dir in ` + strings.Join(groups, " ") + `; do echo 0 >"$dir/cgroup.procs"; done
mount -t tmpfs none /run
mkdir -p -m 0755 /run/systemd/system /run/user
mkdir -m 0700 /run/user/0
exec "$0" "$@"`
	if err := exec.Command("unshare", append(unshare, prelude, "true")...).Run(); err != nil {
		t.Skip("no namespaces here: ", err)
	}
	cmd := exec.Command("unshare", append(unshare, prelude, self, "-test.run=^TestUnit$", "-test.v")...)
	cmd.Env = append(os.Environ(), insideUnit+"=1", "XDG_RUNTIME_DIR=/run/user/0", "DBUS_SESSION_BUS_ADDRESS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

func systemd() string {
	for _, path := range []string{"/usr/lib/systemd/systemd", "/lib/systemd/systemd"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "systemd"
}

// cgroups are the hierarchies that systemd uses to know its processes.
func cgroups(t *testing.T) (roots []string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		place, kind, _ := strings.Cut(line, " - ")
		fields, what := strings.Fields(place), strings.Fields(kind)
		if len(fields) > 4 && len(what) > 2 && (what[0] == "cgroup2" || what[0] == "cgroup" && strings.Contains(what[2], "name=systemd")) {
			roots = append(roots, fields[4])
		}
	}
	if len(roots) == 0 {
		t.Skip("no cgroups are mounted here")
	}
	return roots
}

// removeCgroup removes what a systemd that was killed left; the kernel takes a moment to empty the groups.
func removeCgroup(t *testing.T, root string) {
	t.Helper()
	rig.Until(t, slack, "the cgroup is gone", func() bool {
		var dirs []string
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, dir := range slices.Backward(dirs) { // the deepest first
			_ = os.Remove(dir)
		}
		_, err := os.Stat(root)
		return os.IsNotExist(err)
	})
}

// inUnit is TestUnit below its own systemd.
func inUnit(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	manager := exec.Command(systemd(), "--user", "--log-target=console", "--log-level=notice")
	log, err := os.Create(filepath.Join(config, "manager.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	manager.Stdout, manager.Stderr = log, log
	if err := manager.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			out, _ := os.ReadFile(log.Name())
			t.Logf("systemd:\n%s", out)
		}
		_ = exec.Command("systemctl", "--user", "exit").Run() // the namespaces end in any case
		_ = manager.Wait()
	}()
	rig.Until(t, managerWithin, "systemd is up", func() bool {
		state, _ := exec.Command("systemctl", "--user", "is-system-running").Output()
		return strings.HasPrefix(string(state), "running") || strings.HasPrefix(string(state), "degraded")
	})
	shipped, err := converge.InstallService(converge.Service{Manager: converge.Systemd, Program: "/opt/mcpx", Home: config})
	if err != nil {
		t.Fatal(err)
	}
	template := shipped.Files[0].Steps[0].Content
	for _, c := range []struct {
		name     string
		killMode string
		path     string
		group    string // part of the name of the child's cgroup
		lives    bool   // the child outlives the unit
	}{
		{"as shipped", "process", os.Getenv("PATH"), ".scope", true},
		{"scope alone", "control-group", os.Getenv("PATH"), ".scope", true},
		{"kill mode alone", "process", "/nowhere", "mcpx.service", true},
		{"neither", "control-group", "/nowhere", "mcpx.service", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := rig.New(t)
			commanding(t, g)
			unit := strings.Replace(template, "KillMode=process", "KillMode="+c.killMode, 1)
			exe := "ExecStart=" + g.Binary + " serve --listen " + g.Addr
			for _, kv := range g.Environ(append(g.Extra, "PATH="+c.path)...) {
				exe += "\nEnvironment=" + kv
			}
			unit = strings.Replace(unit, "ExecStart=/opt/mcpx serve", exe, 1)
			if !strings.Contains(unit, g.Addr) || !strings.Contains(unit, "\nKillMode="+c.killMode+"\n") {
				t.Fatalf("the template is another one than this test knows:\n%s", unit)
			}
			at := filepath.Join(config, "systemd", "user", "mcpx.service")
			if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(unit), 0o600); err != nil {
				t.Fatal(err)
			}
			systemctl(t, "daemon-reload")
			systemctl(t, "start", "mcpx")
			rig.Until(t, slack, "the unit serves", g.Listens)
			unitKeeps(t, g, c.group, c.lives)
		})
	}
}

func systemctl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("systemctl", append([]string{"--user"}, args...)...).CombinedOutput(); err != nil {
		status, _ := exec.Command("systemctl", "--user", "status", "mcpx").CombinedOutput()
		t.Fatalf("systemctl %v: %v\n%s%s", args, err, out, status)
	}
}

func unitKeeps(t *testing.T, g *rig.Gateway, group string, lives bool) {
	t.Helper()
	g.Add("kept", rig.Fixture(t, fakemcp.Options{}))
	c := rig.Open(t, g.URL("kept"), "2025-06-18", "{}")
	child := number(t, definite(t, c, tool("1", "pid", `{}`), slack, "answer"))
	if in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", child)); err != nil || !strings.Contains(string(in), group) {
		t.Errorf("the child is in %s, %v; want %s", in, err, group)
	}
	dir, session, b := inShop(t, g)
	job := startHeld(t, b, dir, session, "held-0001")
	systemctl(t, "stop", "mcpx")
	if rig.Alive(child) != lives {
		t.Fatalf("after a stop the child lives: %v, want %v", !lives, lives)
	}
	systemctl(t, "start", "mcpx")
	rig.Until(t, slack, "the unit serves again", g.Listens)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Of a command that the unit takes along its supervisor may still have seen the signal: exited, without a code.
	if j := endOf(t, b, job); lives && (j.State != "exited" || j.Code == nil || *j.Code != 7 || j.Stdout.Text != "begun\n") ||
		!lives && j.State != "lost" && j.State != "killed" && (j.State != "exited" || j.Code != nil) {
		t.Errorf("the command, which lives: %v, is %+v", lives, j)
	}
	if got := number(t, definite(t, c, tool("2", "pid", `{}`), slack, "answer")); (got == child) != lives {
		t.Errorf("pid %d before and %d after a stop and a start", child, got)
	}
	systemctl(t, "stop", "mcpx")
	g.Must("daemon", "stop", "--children")
}
