//go:build unix

package process_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"mcpx/internal/fault"
	"mcpx/internal/process"
)

// TestMain makes the test binary a detached process, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "detached":
			os.Exit(detached(os.Args[2:]))
		case "as-init":
			os.Exit(asInit())
		case "hand-over":
			if err := process.HandOver(os.Args[0], []string{"detached", "ready"}); err != nil {
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	goleak.VerifyTestMain(m)
}

// detached answers on the ready pipe with what it sees.
func detached(args []string) int {
	if args[0] == "mute" {
		return 3
	}
	if args[0] == "hang" {
		time.Sleep(time.Hour)
	}
	in, _ := io.ReadAll(os.Stdin)
	sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
	pipe := os.NewFile(process.ReadyFD, "ready")
	_, _ = pipe.WriteString(strings.Join([]string{string(in), strconv.Itoa(os.Getppid()), strconv.FormatBool(int(sid) == os.Getpid())}, " "))
	return 0
}

func TestEnviron(t *testing.T) {
	got := process.Environ(
		[]string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "AWS_SECRET_ACCESS_KEY=s", "https_proxy=p", "LD_PRELOAD=x", "BROKEN", "LANG=a"},
		[]string{"TOKEN=a=b", "PATH=/own", "EMPTY=", "=nameless"},
	)
	want := []string{"EMPTY=", "HOME=/h", "LANG=a", "LC_ALL=C", "PATH=/own", "TOKEN=a=b", "https_proxy=p"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDaemonEnviron: only the temporary directory of a command stays behind.
func TestDaemonEnviron(t *testing.T) {
	own := "/tmp/" + process.JobTemps()
	keep := []string{"PATH=/bin", "TMPDIR=/tmp", "TMPDIR=" + own + "0/x", "OTHER=" + own + "/job_1.1", "TMPDIR"}
	all := append([]string{"TMPDIR=" + own + "/job_1.1", "TMPDIR=" + own + "/job_1.1/below"}, keep...)
	if diff := cmp.Diff(keep, process.DaemonEnviron(all)); diff != "" {
		t.Error(diff)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	bin, other := filepath.Join(dir, "bin"), filepath.Join(dir, "other")
	for _, d := range []string{bin, other} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{
		filepath.Join(bin, "tool"): 0o600, filepath.Join(other, "tool"): 0o700, filepath.Join(bin, "plain"): 0o600, filepath.Join(dir, "here"): 0o700,
	} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	path := "PATH=" + bin + ":relative:" + other
	for _, c := range []struct{ name, command, dir, env, want, code string }{
		{"second directory of PATH", "tool", dir, path, filepath.Join(other, "tool"), ""},
		{"relative to the child's directory", "./here", dir, path, filepath.Join(dir, "here"), ""},
		{"absolute", filepath.Join(dir, "here"), dir, "", filepath.Join(dir, "here"), ""},
		{"no PATH at all", "sh", dir, "X=1", "/bin/sh", ""},
		{"found but not executable", "plain", dir, path, "", "command-not-executable"},
		{"not there", "nothing", dir, path, "", "command-not-found"},
		{"empty", "", dir, path, "", "command-missing"},
		{"directory is a file", "sh", filepath.Join(dir, "here"), path, "", "cwd-missing"},
		{"directory is relative", "sh", "x", path, "", "cwd-not-absolute"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := process.Resolve(c.command, c.dir, []string{c.env})
			if c.code == "" {
				same := got == c.want || c.want == "/bin/sh" && filepath.Base(got) == "sh"
				if err != nil || !same {
					t.Errorf("Resolve = %q, %v; want %q", got, err, c.want)
				}
				return
			}
			f := fault.From(err)
			if f == nil || f.Code != c.code || f.Kind != fault.Invalid || f.Hint == "" {
				t.Errorf("error %+v, want code %s with a hint", f, c.code)
			}
		})
	}
}

func shell(t *testing.T, script string) *process.Child {
	t.Helper()
	c, err := process.Start(process.Command{File: "/bin/sh", Argv: []string{"sh", "-c", script}, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.End(process.Ladder{Stdin: -1, Term: -1}, func() {})
		_, _, _ = c.Stdin.Close(), c.Stdout.Close(), c.Stderr.Close()
	})
	return c
}

func TestStatus(t *testing.T) {
	for script, want := range map[string]process.Status{
		"exit 0":         {},
		"exit 7":         {Code: 7},
		"kill -TERM $$":  {Code: -1, Signal: 15, Name: "SIGTERM"},
		"kill -KILL $$":  {Code: -1, Signal: 9, Name: "SIGKILL"},
		"cat; exit 5 ":   {Code: 5},
		"exec sleep 0.0": {},
	} {
		c := shell(t, script)
		_ = c.Stdin.Close()
		<-c.Done()
		if diff := cmp.Diff(want, c.Status()); diff != "" {
			t.Errorf("%s: %s", script, diff)
		}
	}
}

func TestIdentity(t *testing.T) {
	c := shell(t, "read x")
	got, err := process.Identify(c.ID.Pid)
	if err != nil || got != c.ID || c.ID.Boot == "" || c.ID.Start == 0 {
		t.Errorf("Identify = %+v, %v; Start said %+v", got, err, c.ID)
	}
	if !c.ID.Alive() {
		t.Error("a running child is not alive")
	}
	for _, other := range []process.Identity{
		{Boot: c.ID.Boot, Pid: c.ID.Pid, Start: c.ID.Start + 1}, {Boot: "x", Pid: c.ID.Pid, Start: c.ID.Start},
	} {
		if other.Alive() || process.Kill(other) || process.KillOrphans(other) || process.Notify(other, syscall.SIGTERM) {
			t.Errorf("%+v was taken for %+v", other, c.ID)
		}
	}
	if !process.KillOrphans(c.ID) {
		t.Error("the group of a living leader was not killed")
	}
	<-c.Done()
	if c.ID.Alive() || process.Kill(c.ID) {
		t.Error("a dead child is alive")
	}
	if _, err := process.Identify(c.ID.Pid); !errors.Is(err, process.ErrGone) {
		t.Errorf("Identify of the dead: %v, want ErrGone", err)
	}
}

// A group whose leader has ended lives on; its members are ended although nothing with the leader's pid is left.
func TestKillOrphansWithoutLeader(t *testing.T) {
	c := shell(t, "sleep 600 & exit 0")
	<-c.Done()
	if !process.KillOrphans(c.ID) {
		t.Error("the group was not killed")
	}
	if left := c.EndGroup(5 * time.Second); left != nil {
		t.Errorf("survivors %v", left)
	}
}

// TestRemainsWithoutLeader: a group whose leader has ended is ours when its session is, or when its members tell so by their
// environment; a number alone may have come to a stranger.
func TestRemainsWithoutLeader(t *testing.T) {
	variable := "MCPX_REMAINS=" + t.TempDir()
	start := func(text string) *process.Child {
		c := shell(t, text)
		<-c.Done()
		return c
	}
	session, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	c := start("sleep 600 & exit 0")
	if left := process.Remains(c.ID, session, variable); len(left) != 1 {
		t.Errorf("of our session: %v", left)
	}
	if left := process.Remains(c.ID, c.ID.Pid, variable); len(left) != 0 {
		t.Errorf("of another session: %v", left)
	}
	if runtime.GOOS != "linux" {
		return // the environment of a process is not told
	}
	c = start("export " + variable + "; sleep 600 & exit 0")
	for limit := time.Now().Add(10 * time.Second); len(process.Remains(c.ID, c.ID.Pid, variable)) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) { // sleep has its environment when it is executed
			t.Fatal("not found by its environment")
		}
	}
}

func TestLadderSteps(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   string
	}{
		"EOF":  {"cat", "code 0"},
		"TERM": {"echo; while :; do sleep 0.05; done", "signal 15 (SIGTERM)"},
		"KILL": {"trap '' TERM; echo; while :; do sleep 0.05; done", "signal 9 (SIGKILL)"},
	} {
		t.Run(name, func(t *testing.T) {
			child := shell(t, c.script)
			if name != "EOF" { // the trap is set when the line is there
				if _, err := child.Stdout.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
			steps := process.Ladder{Stdin: 5 * time.Second, Term: 5 * time.Second, Kill: 5 * time.Second}
			switch name {
			case "TERM":
				steps.Stdin = 50 * time.Millisecond
			case "KILL":
				steps.Stdin, steps.Term = -1, 50*time.Millisecond
			}
			if left := child.End(steps, func() { _ = child.Stdin.Close() }); left != nil {
				t.Errorf("survivors %v", left)
			}
			if got := child.Status().String(); got != c.want {
				t.Errorf("status %q, want %q", got, c.want)
			}
		})
	}
}

// A descendant that left the group is ended with it.
func TestLadderFindsStrays(t *testing.T) {
	if _, err := process.Resolve("setsid", "/", nil); err != nil {
		t.Skip("no setsid command here")
	}
	c := shell(t, "trap '' TERM; setsid sleep 600 & echo $!; wait")
	b := make([]byte, 32)
	n, err := c.Stdout.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	if err != nil {
		t.Fatal(err)
	}
	stray, err := process.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	c.End(process.Ladder{Stdin: -1, Term: 50 * time.Millisecond, Kill: 5 * time.Second}, func() {})
	for limit := time.Now().Add(5 * time.Second); stray.Alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			process.Kill(stray)
			t.Fatal("the stray lives")
		}
	}
}

func TestStartDetached(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	start := func(within time.Duration, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), within)
		defer cancel()
		b, err := process.StartDetached(ctx, process.Detached{Exe: exe, Args: args, Env: os.Environ(), Stdin: []byte("secret")})
		return string(b), err
	}
	me := strconv.Itoa(os.Getpid())
	if got, err := start(20*time.Second, "detached", "ready"); err != nil || got != "secret "+me+" true" {
		t.Errorf("direct: %q, %v", got, err)
	}
	got, err := start(20*time.Second, "hand-over")
	if err != nil || !strings.HasPrefix(got, "secret ") || !strings.HasSuffix(got, " true") {
		t.Errorf("handed over: %q, %v", got, err)
	}
	if strings.Contains(got, " "+me+" ") {
		t.Errorf("handed over: the parent is still us: %q", got)
	}
	if _, err := start(20*time.Second, "detached", "mute"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("ended without a word: %v", err)
	}
	if _, err := start(100*time.Millisecond, "detached", "hang"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("never ready: %v", err)
	}
}

func TestPeerOf(t *testing.T) {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	want := process.Peer{UID: os.Geteuid(), Pid: os.Getpid()}
	if got, err := process.PeerOf(conn); err != nil || got != want {
		t.Errorf("PeerOf = %+v, %v; want %+v", got, err, want)
	}
}
