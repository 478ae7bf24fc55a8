// Package story decides whether the promises of the README hold: each file in testdata is one promise, told with the
// real binary, real sockets and real children. It refuses to look inside: what a person cannot see is not tested here.
//
// Invariant: each story has a home and ports of its own, and leaves no process behind.
package story

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"mcpx/internal/test/rig"
)

func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }

// within bounds the wait for something that happens by itself, such as the report of a killed child.
const within = 10 * time.Second

func TestStories(t *testing.T) {
	binary := rig.Binary(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			home, err := os.MkdirTemp("", "mx") //nolint:usetesting // the path of a unix socket has about 100 bytes
			if err != nil {
				return err
			}
			user := filepath.Join(env.WorkDir, "user")
			if err := os.Mkdir(user, 0o700); err != nil {
				return err
			}
			env.Setenv("MCPX_HOME", home)
			env.Setenv("HOME", user)
			env.Setenv("MCPX_LISTENER_ADDRESS", "127.0.0.1:0")
			env.Setenv("MCPX_GOVERNANCE_WATCH", "false") // a story types what happens; those of the loop turn it on
			env.Setenv("PATH", filepath.Dir(binary)+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("MCPX", binary)
			env.Setenv("RIG_TOKEN", rig.Canary+"environment")
			env.Setenv("FAKE", self) // exec $FAKE run-fakemcp FLAGS...
			env.Defer(func() { tidy(t, binary, home, env.Vars) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode": exitcode, "json": jsonValue, "until": until, "http": request, "killchild": killChild, "mode": mode, "busyport": busyPort, "alive": alive, "gone": gone, "person": person, "typed": typed, "edit": edit, "certify": certify,
		},
	})
}

// tidy ends the daemon of a story and looks for what is left.
func tidy(t *testing.T, binary, home string, environ []string) {
	stop := exec.Command(binary, "daemon", "stop", "--children")
	stop.Env = environ
	if out, err := stop.CombinedOutput(); err != nil {
		t.Errorf("mcpx daemon stop --children: %v\n%s", err, out)
	}
	if left := rig.Survivors(home); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
	for _, leak := range rig.Leaks(home) {
		t.Errorf("a secret was written down: %s", leak)
	}
	if err := os.RemoveAll(home); err != nil {
		t.Error(err)
	}
}

// run runs a program of a story to its end.
func run(ts *testscript.TestScript, args []string) (stdout, stderr string, code int) {
	var out, complaints bytes.Buffer
	path, err := exec.LookPath(args[0])
	if err != nil {
		path = filepath.Join(strings.Split(ts.Getenv("PATH"), string(filepath.ListSeparator))[0], args[0])
	}
	cmd := exec.Command(path, args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), &out, &complaints
	cmd.Env = environ(ts)
	rig.OwnSession(cmd) // no terminal of whoever runs the tests: there is nobody to ask
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

// exitcode N COMMAND... runs a command and checks its exit code; stdout and stderr can be looked at afterwards.
func exitcode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N COMMAND...")
	}
	out, complaints, code := run(ts, args[1:])
	_, _ = ts.Stdout().Write([]byte(out))
	_, _ = ts.Stderr().Write([]byte(complaints))
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s: exit code %d, want %s\nstdout: %s\nstderr: %s", strings.Join(args[1:], " "), code, args[0], out, complaints)
	}
}

// value follows a path such as servers.0.name.
func value(doc any, path string) (string, error) {
	for word := range strings.SplitSeq(path, ".") {
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[word]
			if !ok {
				return "", fmt.Errorf("no %q in %v", word, v)
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(word)
			if err != nil || i >= len(v) {
				return "", fmt.Errorf("no element %q of %d", word, len(v))
			}
			doc = v[i]
		default:
			return "", fmt.Errorf("%q in a value that has no parts", word)
		}
	}
	if text, ok := doc.(string); ok {
		return text, nil
	}
	data, err := json.Marshal(doc)
	return string(data), err
}

// json PATH VALUE looks at the last stdout; json PATH -> NAME keeps a value in a variable of the story.
func jsonValue(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: json PATH VALUE, json PATH -> NAME")
	}
	var doc any
	if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &doc); err != nil {
		ts.Fatalf("stdout is not one JSON document: %v\n%s", err, ts.ReadFile("stdout"))
	}
	got, err := value(doc, args[0])
	if err != nil {
		ts.Fatalf("%v", err)
	}
	if args[1] == "->" && len(args) == 3 {
		ts.Setenv(args[2], got)
		return
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %q, want %q (negated: %v)", args[0], got, args[1], neg)
	}
}

// until REGEXP COMMAND... repeats a command until its stdout matches.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND...")
	}
	want := regexp.MustCompile(args[0])
	deadline := time.Now().Add(within)
	for {
		out, complaints, _ := run(ts, args[1:])
		if want.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not show %s within %s\nstdout: %s\nstderr: %s", strings.Join(args[1:], " "), args[0], within, out, complaints)
		}
		time.Sleep(20 * time.Millisecond) // a person would look again, too
	}
}

// http STATUS METHOD URL [HEADER:VALUE...] [BODY] sends a request; the body of the answer is in the file http.
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: http STATUS METHOD URL [HEADER:VALUE...] [BODY]")
	}
	var body io.Reader
	rest := args[3:]
	if n := len(rest); n > 0 && strings.HasPrefix(rest[n-1], "{") {
		body, rest = strings.NewReader(rest[n-1]), rest[:n-1]
	}
	r, err := http.NewRequest(args[1], args[2], body)
	ts.Check(err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range rest {
		name, v, _ := strings.Cut(h, ":")
		if r.Header.Set(name, v); name == "Host" {
			r.Host = v
		}
	}
	client := &http.Client{Timeout: within, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	ts.Check(err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("http"), data, 0o600))
	if strconv.Itoa(resp.StatusCode) != args[0] {
		ts.Fatalf("%s %s: status %d, want %s\n%s", args[1], args[2], resp.StatusCode, args[0], data)
	}
}

// killchild SERVER sends SIGKILL to the process of a server.
func killChild(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: killchild SERVER")
	}
	out, complaints, code := run(ts, []string{"mcpx", "ps", "--json"})
	if code != 0 {
		ts.Fatalf("mcpx ps: %s", complaints)
	}
	var page struct {
		Processes []struct {
			Server string
			Pid    int
		}
	}
	ts.Check(json.Unmarshal([]byte(out), &page))
	for _, p := range page.Processes {
		if p.Server == args[0] && p.Pid > 0 {
			process, err := os.FindProcess(p.Pid)
			ts.Check(err)
			ts.Check(process.Kill())
			return
		}
	}
	ts.Fatalf("%s has no process:\n%s", args[0], out)
}

// alive PID fails when there is no such process.
func alive(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: alive PID")
	}
	if !lives(ts, args[0]) {
		ts.Fatalf("process %s is gone", args[0])
	}
}

// gone PID waits until there is no such process.
func gone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone PID")
	}
	for deadline := time.Now().Add(within); lives(ts, args[0]); time.Sleep(10 * time.Millisecond) { // a process table has no event
		if time.Now().After(deadline) {
			ts.Fatalf("process %s lives on after %s", args[0], within)
		}
	}
}

// lives says whether a process runs; a zombie that nobody has reaped does not.
func lives(ts *testscript.TestScript, pid string) bool {
	n, err := strconv.Atoi(pid)
	ts.Check(err)
	if process, err := os.FindProcess(n); err != nil || process.Signal(syscall.Signal(0)) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// mode PERM FILE checks the permission bits.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode PERM FILE")
	}
	info, err := os.Lstat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}
