//go:build crash

package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) {
	if os.Getenv("MCPX_CRASH_TEST") != "" {
		for range 3 {
			Point("a")
			Point("b")
		}
		os.Exit(5)
	}
	os.Exit(m.Run())
}

// run starts this test binary as a process of the kind with a script and says how it ended.
func run(t *testing.T, kind string, script ...string) *os.ProcessState {
	t.Helper()
	cmd := exec.Command(os.Args[0], kind)
	cmd.Env = append(script, "MCPX_CRASH_TEST=1")
	if err := cmd.Run(); err == nil {
		t.Fatal("it ended with 0")
	}
	return cmd.ProcessState
}

func killed(p *os.ProcessState) bool {
	status, ok := p.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func TestPoint(t *testing.T) {
	dir := t.TempDir()
	record, once := filepath.Join(dir, "record"), filepath.Join(dir, "once")
	all := "a b a b a b"
	for _, test := range []struct {
		name, kind, at, once string
		killed               bool
		want                 string
	}{
		{"no script", "serve", "", "", false, all},
		{"another kind", "connect", "daemon/a#1", "", false, all},
		{"first pass", "serve", "daemon/a#1", "", true, "a"},
		{"third pass", "supervise", "supervise/b#3", "", true, all},
		{"a pass that never comes", "list", "cli/b#4", "", false, all},
		{"once, the first time", "serve", "daemon/b#2", once, true, "a b a b"},
		{"once, the second time", "serve", "daemon/b#2", once, false, all},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := run(t, test.kind, "MCPX_CRASH_RECORD="+record, "MCPX_CRASH_AT="+test.at, "MCPX_CRASH_ONCE="+test.once)
			if killed(p) != test.killed || !test.killed && p.ExitCode() != 5 {
				t.Errorf("it ended with %s, killed: want %v", p, test.killed)
			}
			raw, err := os.ReadFile(record)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(record); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
				var kind, name string
				var pid int
				if _, err := fmt.Sscan(line, &kind, &pid, &name); err != nil || kind != kindOf([]string{"", test.kind}) || pid != p.Pid() {
					t.Errorf("recorded as %q", line)
				}
				names = append(names, name)
			}
			if diff := cmp.Diff(test.want, strings.Join(names, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHeld: a process that is held at a point goes no further until it may, and ends as one that was not.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	record, hold := filepath.Join(dir, "record"), filepath.Join(dir, "hold")
	cmd := exec.Command(os.Args[0], "serve")
	cmd.Env = []string{"MCPX_CRASH_TEST=1", "MCPX_CRASH_RECORD=" + record, "MCPX_CRASH_AT=daemon/b#2", "MCPX_CRASH_HOLD=" + hold}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	passes := func() int {
		raw, err := os.ReadFile(record)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(raw), "\n")
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(hold); err == nil {
			break
		} else if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
	if n := passes(); n != 4 {
		t.Errorf("it is held after %d points, want 4", n)
	}
	if err := os.Remove(hold); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 5 || passes() != 6 {
		t.Errorf("it ended after %d points: %v", passes(), err)
	}
}

func TestBadScript(t *testing.T) {
	for _, at := range []string{"a", "daemon/a", "daemon/a#", "daemon/a#0", "a#1"} {
		t.Run(at, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("taken")
				}
			}()
			read([]string{"mcpx", "serve"}, func(name string) string {
				if name == envAt {
					return at
				}
				return ""
			})
		})
	}
}

func TestKinds(t *testing.T) {
	for args, want := range map[string]string{
		"": "cli", "serve": "daemon", "serve --listen x": "daemon", "serve --take-over --detached": "successor",
		"supervise b own": "supervise", "connect x": "connect", "server list": "cli",
	} {
		if got := kindOf(append([]string{"mcpx"}, strings.Fields(args)...)); got != want {
			t.Errorf("%q is a %s, want %s", args, got, want)
		}
	}
}

func TestEnviron(t *testing.T) {
	t.Setenv(envAt, "daemon/a#1")
	t.Setenv(envRecord, "")
	if diff := cmp.Diff([]string{envAt + "=daemon/a#1"}, Environ()); diff != "" {
		t.Error(diff)
	}
}
