//go:build unix

package shim_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/id"
	"mcpx/internal/process"
	"mcpx/internal/rpc"
	"mcpx/internal/shim"
)

// patience bounds every wait of a test; nothing waits that long when the code is right.
const patience = time.Minute

// sink records what a link reports.
type sink struct {
	mu       sync.Mutex // guards the fields below
	inbound  [][]byte
	answers  map[string][]byte // the messages that have an id, by it
	written  []uint64
	overlong []string
	stderr   bytes.Buffer
	exit     *gateway.Exit
	late     int // calls after Closed
	changed  chan struct{}
}

func newSink() *sink { return &sink{answers: map[string][]byte{}, changed: make(chan struct{})} }

func (s *sink) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exit != nil {
		s.late++
	}
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *sink) Deliver(in gateway.Inbound) {
	id, _, _ := rpc.Ends(in.Body)
	s.change(func() {
		s.inbound = append(s.inbound, in.Body)
		if id.Ok() {
			s.answers[string(id.Of(in.Body))] = in.Body
		}
	})
}
func (s *sink) Written(ref uint64) { s.change(func() { s.written = append(s.written, ref) }) }
func (s *sink) Failed(uint64, gateway.Failure) {
	s.change(func() { s.late++ }) // a stdio link has no reason to
}

func (s *sink) Overlong(id []byte, size int64) {
	s.change(func() { s.overlong = append(s.overlong, fmt.Sprintf("%s:%d", id, size)) })
}
func (s *sink) Stderr(chunk []byte)   { s.change(func() { s.stderr.Write(chunk) }) }
func (s *sink) Closed(e gateway.Exit) { s.change(func() { s.exit = &e }) }

// until waits for a condition on the recorded facts.
func (s *sink) until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	s.while(t, func() int64 { return 0 }, what, ok)
}

// while is until with a patience that begins anew as long as progress grows: for work that a busy machine makes long.
func (s *sink) while(t testing.TB, progress func() int64, what string, ok func() bool) {
	t.Helper()
	limit, before := time.NewTimer(patience), progress()
	defer limit.Stop()
	for {
		s.mu.Lock()
		done, changed := ok(), s.changed
		s.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit.C:
			if now := progress(); now > before {
				before = now
				limit.Reset(patience)
				continue
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Fatalf("waited in vain for %s: %d messages, written %v, exit %v, stderr %q", what, len(s.inbound), s.written, s.exit, s.stderr.String())
		}
	}
}

func (s *sink) closed(t testing.TB) gateway.Exit {
	t.Helper()
	s.until(t, "the end", func() bool { return s.exit != nil })
	return *s.exit
}

// answer waits for the message with the given id and returns its result.
func (s *sink) answer(t testing.TB, id int, result any) {
	t.Helper()
	var found []byte
	s.until(t, fmt.Sprintf("the answer %d", id), func() bool {
		found = s.answers[strconv.Itoa(id)]
		return found != nil
	})
	var m struct{ Result json.RawMessage }
	if err := json.Unmarshal(found, &m); err != nil {
		t.Fatal(err)
	}
	if result != nil {
		if err := json.Unmarshal(m.Result, result); err != nil {
			t.Fatal(err)
		}
	}
}

// rig is one Backend on directories of its own.
type rig struct {
	*shim.Backend
	state, run string
}

func newRig(t testing.TB, change func(*shim.Config)) *rig {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	c := shim.Config{
		StateDir: filepath.Join(root, "state"), RunDir: filepath.Join(root, "run"), Exe: exe, Version: "test", Epoch: 1,
		Environ: os.Environ(), Now: time.Now, IDs: id.NewSource(time.Now, rand.Reader), Log: slog.New(slog.DiscardHandler),
		Ladder: process.Ladder{Stdin: 300 * time.Millisecond, Term: 300 * time.Millisecond, Kill: 2 * time.Second},
	}
	if change != nil {
		change(&c)
	}
	b, err := shim.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Wait)
	return &rig{Backend: b, state: c.StateDir, run: c.RunDir}
}

func (r *rig) request(direct bool, args ...string) gateway.Open {
	exe, _ := os.Executable()
	return gateway.Open{
		Server: catalog.Server{ID: "srv_x", Name: "x", Direct: direct, Stdio: &catalog.Stdio{Command: exe, Args: append([]string{"child"}, args...)}},
		Lane:   "lane", Cwd: r.cwd(),
		Env: []string{"GORACE=atexit_sleep_ms=0"}, // else a child of this binary takes a second to exit
	}
}

func (r *rig) cwd() string { return filepath.Dir(r.state) }

// open starts a child, which is ended with the test.
func (r *rig) open(t testing.TB, direct bool, args ...string) (gateway.Link, *sink) {
	t.Helper()
	s := newSink()
	l, err := r.Open(context.Background(), r.request(direct, args...), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close("the test is over")
		s.closed(t)
	})
	return l, s
}

func send(t testing.TB, l gateway.Link, ref uint64, body string) {
	t.Helper()
	if err := l.Send(gateway.Outbound{Body: []byte(body), Kind: rpc.Request, Ref: ref}); err != nil {
		t.Fatal(err)
	}
}

// do asks the child for a verb and reads its result.
func do(t testing.TB, l gateway.Link, s *sink, id int, verb, arg string, result any) {
	t.Helper()
	send(t, l, uint64(id), fmt.Sprintf(`{"id":%d,"do":%q,"arg":%q}`, id, verb, arg))
	s.answer(t, id, result)
}

// modes runs a test for supervised and for direct children: they differ in survival only.
func modes(t *testing.T, test func(t *testing.T, r *rig, direct bool)) {
	for _, direct := range []bool{false, true} {
		t.Run(map[bool]string{false: "supervised", true: "direct"}[direct], func(t *testing.T) {
			if os.Getenv("SECRET_OF_THE_DAEMON") == "" {
				t.Parallel() // they mostly wait; a test that sets the environment must not
			}
			test(t, newRig(t, nil), direct)
		})
	}
}

// nothingLeft says that bundles and sockets are gone once the child is.
func (r *rig) nothingLeft(t *testing.T) {
	t.Helper()
	r.Wait()
	limit := time.Now().Add(patience)
	for {
		bundles, _ := os.ReadDir(filepath.Join(r.state, "bundles"))
		sockets, _ := os.ReadDir(filepath.Join(r.run, "shim"))
		if len(bundles)+len(sockets) == 0 {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("left behind: bundles %v, sockets %v", bundles, sockets)
		}
		time.Sleep(5 * time.Millisecond) // the supervisor removes them after its last word
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct)
		want := []string{
			`{"jsonrpc":"2.0","id":1,"method":"a"}`, `{"big":9007199254740993, "k" : "é\u0062"}`,
			`{"long":"` + strings.Repeat("z", 100<<10) + `"}`, `{"huge":"` + strings.Repeat("z", 5<<20) + `"}`, `[1]`,
		}
		for i, w := range want {
			send(t, l, uint64(i+1), w)
		}
		s.until(t, "all echoes", func() bool { return len(s.inbound) == len(want) && len(s.written) == len(want) })
		for i, w := range want {
			if string(s.inbound[i]) != w {
				t.Errorf("message %d: %.60q came back as %.60q", i, w, s.inbound[i])
			}
		}
		if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5}, s.written); diff != "" {
			t.Error(diff)
		}
		l.Close("done")
		if e := s.closed(t); e.Reason != gateway.Terminated || e.Code != 0 || e.Text != "done" {
			t.Errorf("exit %+v", e)
		}
		r.nothingLeft(t)
		if s.late > 0 {
			t.Errorf("%d calls after Closed", s.late)
		}
	})
}

func TestManyMessagesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct)
		const senders, each = 8, 100
		var all sync.WaitGroup
		for n := range senders {
			all.Go(func() {
				for i := range each {
					send(t, l, uint64(n*each+i+1), fmt.Sprintf(`{"sender":%d,"i":%d}`, n, i))
				}
			})
		}
		all.Wait()
		s.until(t, "all", func() bool { return len(s.inbound) == senders*each && len(s.written) == senders*each })
		next := make([]int, senders)
		for _, b := range s.inbound {
			var m struct{ Sender, I int }
			if err := json.Unmarshal(b, &m); err != nil {
				t.Fatal(err)
			}
			if m.I != next[m.Sender] {
				t.Fatalf("sender %d: message %d came when %d was due", m.Sender, m.I, next[m.Sender])
			}
			next[m.Sender]++
		}
	})
}

func TestOutputRules(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct, "print=Welcome to the server!", "print=", "print=  ", `print=  {"ok":1}`, "complain=warning: old")
		s.until(t, "message and log", func() bool {
			return len(s.inbound) == 1 && strings.Contains(s.stderr.String(), "warning: old\n") &&
				strings.Contains(s.stderr.String(), "stdout: Welcome to the server!\n")
		})
		if got := string(s.inbound[0]); got != `  {"ok":1}` {
			t.Errorf("message %q", got)
		}
		for end := time.Now().Add(5 * time.Second); l.Info().Skipped != 1; time.Sleep(time.Millisecond) {
			if time.Now().After(end) { // the supervisor's word travels beside the output
				t.Fatalf("%d skipped lines, want 1", l.Info().Skipped)
			}
		}
	})
}

func TestLastLineWithoutNewline(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		s := newSink()
		o := r.request(direct)
		o.Server.Stdio = &catalog.Stdio{Command: "/bin/sh", Args: []string{"-c", `printf '{"last":1}'; exit 3`}}
		if _, err := r.Open(context.Background(), o, s); err != nil {
			t.Fatal(err)
		}
		if e := s.closed(t); e.String() != "exited: code 3" {
			t.Errorf("exit %q", e.String())
		}
		if len(s.inbound) != 1 || string(s.inbound[0]) != `{"last":1}` {
			t.Errorf("messages %q", s.inbound)
		}
	})
}

// output is how many bytes a process has written so far; 0 where the system does not tell.
func output(pid int) (n int64) {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	_, rest, _ := strings.Cut(string(b), "wchar: ")
	_, _ = fmt.Sscan(rest, &n)
	return n
}

// TestOverlongLine: a line just above the limit costs one call. The race detector makes it seconds of work, so the
// patience is for a child that writes nothing more.
func TestOverlongLine(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct)
		send(t, l, 7, fmt.Sprintf(`{"id":7,"do":"big","arg":"%d"}`, rpc.MaxLine))
		send(t, l, 8, `{"id":8}`)
		child := l.Info().Pid
		s.while(t, func() int64 { return output(child) }, "the report", func() bool { return len(s.overlong) == 1 })
		s.answer(t, 8, nil)
		if want := fmt.Sprintf("7:%d", rpc.MaxLine+len(`{"result":"","jsonrpc":"2.0","id":7}`)); s.overlong[0] != want {
			t.Errorf("overlong %q, want %q", s.overlong, want)
		}
		if len(s.inbound) != 1 {
			t.Errorf("%d messages", len(s.inbound))
		}
	})
}

func TestExit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		verb, arg, want string
		signal          int
	}{
		{"exit", "0", "exited: code 0", 0},
		{"exit", "3", "exited: code 3", 0},
		{"exit", "255", "exited: code 255", 0},
		{"signal", "9", "exited: signal 9 (SIGKILL)", 9},
		{"signal", "10", "exited: signal 10 (SIGUSR1)", 10},
	} {
		t.Run(c.verb+c.arg, func(t *testing.T) {
			modes(t, func(t *testing.T, r *rig, direct bool) {
				l, s := r.open(t, direct)
				send(t, l, 1, `{"id":1,"do":"complain","arg":"last words"}`)
				send(t, l, 2, fmt.Sprintf(`{"id":2,"do":%q,"arg":%q}`, c.verb, c.arg))
				e := s.closed(t)
				if e.String() != c.want || e.Signal != c.signal || !strings.HasPrefix(string(e.Tail), "last words\n") {
					t.Errorf("exit %q, tail %q; want %q", e.String(), e.Tail, c.want)
				}
				if err := l.Send(gateway.Outbound{Body: []byte("{}")}); fault.KindOf(err) != fault.Unavailable {
					t.Errorf("sending to the dead: %v", err)
				}
				r.nothingLeft(t)
			})
		})
	}
}

func TestKilledChildIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct)
		do(t, l, s, 1, "where", "", nil)
		begin := time.Now()
		if err := syscall.Kill(l.Info().Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		e := s.closed(t)
		// The promise is 100 ms; the rest is for a machine that runs everything at once.
		if took := time.Since(begin); took > time.Second {
			t.Errorf("noticed after %v", took)
		} else {
			t.Logf("noticed after %v", took)
		}
		if e.String() != "exited: signal 9 (SIGKILL)" {
			t.Errorf("exit %q", e.String())
		}
	})
}

func TestPlaceInTheProcessTree(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct)
		var w struct {
			Pid, Ppid, Pgid, Sid int
			Wd                   string
		}
		do(t, l, s, 1, "where", "", &w)
		info := l.Info()
		if w.Pid != info.Pid || w.Pgid != w.Pid || w.Wd != r.cwd() {
			t.Errorf("child %+v, info %+v", w, info)
		}
		if direct {
			if w.Ppid != os.Getpid() || info.Supervisor != 0 {
				t.Errorf("parent %d, want us", w.Ppid)
			}
			return
		}
		if w.Ppid != info.Supervisor {
			t.Errorf("parent %d, want the supervisor %d", w.Ppid, info.Supervisor)
		}
		if w.Sid == os.Getpid() || w.Sid != info.Supervisor {
			t.Errorf("session %d, want the supervisor's own", w.Sid)
		}
		if parent := parentOf(t, info.Supervisor); parent == os.Getpid() {
			t.Error("the supervisor is our child")
		}
	})
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("no /proc here: the parent of a supervisor is not checked")
	}
	var parent int
	rest := string(b[bytes.LastIndexByte(b, ')')+1:])
	var state string
	if _, err := fmt.Sscan(rest, &state, &parent); err != nil {
		t.Fatal(err)
	}
	return parent
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_DAEMON", "x")
	modes(t, func(t *testing.T, r *rig, direct bool) {
		s := newSink()
		o := r.request(direct)
		o.Env = append(o.Env, "TOKEN=t0k3n-value")
		l, err := r.Open(context.Background(), o, s)
		if err != nil {
			t.Fatal(err)
		}
		var env []string
		do(t, l, s, 1, "env", "", &env)
		if !slices.Contains(env, "TOKEN=t0k3n-value") || slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, "SECRET_OF") }) {
			t.Errorf("environment %q", env)
		}
		// Nothing below the state directory may hold the value.
		_ = filepath.Walk(r.state, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			if b, _ := os.ReadFile(path); bytes.Contains(b, []byte("t0k3n-value")) {
				t.Errorf("%s holds the value of a variable", path)
			}
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return nil
		})
		l.Close("")
		s.closed(t)
	})
}

func TestCannotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, command, cwd, env, code, text string }{
		{"not in PATH", "npx", dir, "PATH=/a:/b", "command-not-found", "npx not found; looked in /a:/b"},
		{"no such file", "/no/npx", dir, "", "command-not-found", "/no/npx not found"},
		{"not executable", plain, dir, "", "command-not-executable", plain + " is not executable"},
		{"directory", dir, dir, "", "command-not-executable", dir + " is a directory, not a program"},
		{"no interpreter", script, dir, "", "command-not-executable", script + " could not be started: its interpreter /no/such/interpreter is missing: fork/exec " + script + ": no such file or directory"},
		{"no directory", "sh", "/no/dir", "", "cwd-missing", "the directory of the server, /no/dir, does not exist: stat /no/dir: no such file or directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, r *rig, direct bool) {
				s := newSink()
				o := r.request(direct)
				o.Server.Stdio, o.Cwd = &catalog.Stdio{Command: c.command}, c.cwd
				if c.env != "" {
					o.Env = []string{c.env}
				}
				_, err := r.Open(context.Background(), o, s)
				if err == nil {
					t.Fatal("it was started")
				}
				f := fault.From(err)
				if f.Kind != fault.Invalid || f.Code != c.code || f.Error() != c.text || f.Hint == "" {
					t.Errorf("error %q %q %q, hint %q", f.Kind, f.Code, f.Error(), f.Hint)
				}
				if s.exit != nil {
					t.Error("the sink was called")
				}
				r.nothingLeft(t)
			})
		})
	}
}

func TestLadder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"ends at EOF", "terminated: code 0", nil},
		{"ends at SIGTERM", "terminated: signal 15 (SIGTERM)", []string{"ignore-eof"}},
		{"needs SIGKILL", "terminated: signal 9 (SIGKILL)", []string{"ignore-term", "ignore-eof"}},
		{"reads nothing", "terminated: signal 9 (SIGKILL)", []string{"ignore-term", "deaf"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			modes(t, func(t *testing.T, r *rig, direct bool) {
				l, s := r.open(t, direct, append(slices.Clone(c.args), "print={}")...)
				if len(c.args) == 0 {
					s.until(t, "the child", func() bool { return len(s.inbound) == 1 })
				}
				if slices.Contains(c.args, "deaf") { // a stop must get through although nothing else does
					for range 300 {
						_ = l.Send(gateway.Outbound{Body: bytes.Repeat([]byte("1"), 10<<10)})
					}
				}
				waitIgnoring(t, l.Info().Pid, c.args)
				l.Close("stop")
				if e := s.closed(t); e.String() != c.want || e.Text != "stop" {
					t.Errorf("exit %q, %q; want %q", e.String(), e.Text, c.want)
				}
				r.nothingLeft(t)
			})
		})
	}
}

// waitIgnoring waits until the child has set up what it ignores, as far as the kernel shows that.
func waitIgnoring(t *testing.T, pid int, args []string) {
	t.Helper()
	if !slices.Contains(args, "ignore-term") {
		return
	}
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Skip("no /proc here: whether a signal is ignored cannot be seen")
		}
		for line := range strings.Lines(string(b)) {
			var mask uint64
			if n, _ := fmt.Sscanf(line, "SigIgn:\t%x", &mask); n == 1 && mask&(1<<(15-1)) != 0 {
				return
			}
		}
	}
	t.Fatal("the child never ignored SIGTERM")
}

func TestGroupIsEnded(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct)
		var pid int
		do(t, l, s, 1, "grandchild", "", &pid)
		who, err := process.Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		waitIgnoring(t, pid, []string{"ignore-term"})
		l.Close("stop")
		s.closed(t)
		if who.Alive() {
			t.Error("a grandchild outlived the group")
		}
	})
}

func TestGrandchildHoldsStdout(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct)
		var pid int
		do(t, l, s, 1, "grandchild", "", &pid)
		who, err := process.Identify(pid)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		send(t, l, 2, `{"id":2,"do":"exit","arg":"4"}`)
		if e := s.closed(t); e.String() != "exited: code 4" {
			t.Errorf("exit %q", e.String())
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the end was told after %v", took)
		}
		if who.Alive() {
			t.Error("the grandchild lives")
		}
	})
}

func TestStdoutClosed(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		_, s := r.open(t, direct, "close-stdout", "deaf")
		begin := time.Now()
		e := s.closed(t)
		if e.Reason != gateway.StdoutClosed {
			t.Errorf("exit %+v", e)
		}
		if took := time.Since(begin); took > 8*time.Second {
			t.Errorf("ended after %v", took)
		}
	})
}

func TestBackPressure(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct, "deaf")
		body := bytes.Repeat([]byte("1"), 64<<10)
		var refs []uint64
		var err error
		for ref := uint64(1); ref < 3000 && err == nil; ref++ {
			err = l.Send(gateway.Outbound{Body: body, Kind: rpc.Request, Ref: ref})
			refs = append(refs, ref)
		}
		if fault.KindOf(err) != fault.Busy {
			t.Fatalf("after %d messages: %v, want busy", len(refs), err)
		}
		last := refs[len(refs)-2]
		if !l.Abort(last) {
			t.Error("a queued request could not be taken back")
		}
		if l.Abort(last) || l.Abort(1) {
			t.Error("a request that is not queued was taken back")
		}
		s.mu.Lock()
		written := len(s.written)
		s.mu.Unlock()
		if written > 8 {
			t.Errorf("%d messages written to a child that reads nothing", written)
		}
	})
}

func TestSlowSinkLosesNothing(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, r *rig, direct bool) {
		l, s := r.open(t, direct)
		const n = 20000
		send(t, l, 1, fmt.Sprintf(`{"id":1,"do":"flood","arg":"%d"}`, n))
		s.mu.Lock() // the reader blocks on the sink, so the child's pipe fills
		time.Sleep(50 * time.Millisecond)
		s.mu.Unlock()
		s.answer(t, 1, nil)
		if len(s.inbound) != n+1 {
			t.Errorf("%d messages, want %d", len(s.inbound), n+1)
		}
	})
}

func TestSupervisorKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for _, args := range [][]string{nil, {"ignore-term", "ignore-eof"}} {
		l, s := r.open(t, false, args...)
		waitIgnoring(t, l.Info().Pid, args)
		child, err := process.Identify(l.Info().Pid)
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := syscall.Kill(l.Info().Supervisor, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if e := s.closed(t); e.Reason != gateway.SupervisorLost {
			t.Errorf("exit %+v", e)
		}
		if took := time.Since(begin); took > time.Second {
			t.Errorf("noticed after %v", took)
		}
		r.nothingLeft(t)
		if child.Alive() {
			t.Error("the orphan lives")
		}
	}
}

// TestSupervisorKilledUnacknowledged: a request that a supervisor was handed completely may have run, although it died
// before it could say so; one that is too large to be handed over did not.
func TestSupervisorKilledUnacknowledged(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	l, s := r.open(t, false)
	do(t, l, s, 1, "where", "", nil)
	s.mu.Lock()
	before := len(s.written)
	s.mu.Unlock()
	if err := syscall.Kill(l.Info().Supervisor, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	send(t, l, 2, `{"id":2,"do":"where"}`)
	send(t, l, 3, `{"id":3,"do":"where","arg":"`+strings.Repeat("x", 4<<20)+`"}`)
	if err := syscall.Kill(l.Info().Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := s.closed(t); e.Reason != gateway.SupervisorLost {
		t.Errorf("exit %+v", e)
	}
	if diff := cmp.Diff([]uint64{2}, s.written[before:]); diff != "" {
		t.Errorf("may have run: %s", diff)
	}
	r.nothingLeft(t)
}

func TestDetachLeavesTheChild(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *shim.Config) { c.OrphanTTL = 300 * time.Millisecond })
	l, s := r.open(t, false)
	do(t, l, s, 1, "where", "", nil)
	child, err := process.Identify(l.Info().Pid)
	if err != nil {
		t.Fatal(err)
	}
	supervisor, err := process.Identify(l.Info().Supervisor)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	if e := s.closed(t); e.Reason != gateway.Detached {
		t.Errorf("exit %+v", e)
	}
	if !child.Alive() {
		t.Fatal("detach ended the child")
	}
	// Nobody comes: the orphan lease ends it and leaves an exit file.
	for limit := time.Now().Add(patience); child.Alive() || supervisor.Alive(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the orphan outlived its lease")
		}
	}
	if left, err := filepath.Glob(filepath.Join(r.state, "bundles", "*", "exit")); err != nil || len(left) != 1 {
		t.Errorf("exit files %v, %v; want one", left, err)
	}
}
