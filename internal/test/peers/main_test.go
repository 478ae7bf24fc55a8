// Package peers decides whether published software works through the gateway: the official conformance suite, clients
// and servers from npm, real agents with a stub model. It refuses to know how the gateway works, and installs nothing:
// .ci/install brings the pinned versions; what is missing is skipped by name, and fails in CI.
//
// Invariant: what passes directly passes through the gateway; the lists in .ci/baselines name every exception and fail
// the test as soon as one is no longer needed.
package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == clientVerb {
		if err := runClient(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(rig.Main(m))
}

// modules is the path of something below the installed npm packages.
func modules(t testing.TB, more ...string) string {
	t.Helper()
	return rig.Cached(t, "peers", "package-lock.json", append([]string{"node_modules"}, more...)...)
}

// node is the Node that the peers need: the pinned one, where it is published for this platform.
func node(t testing.TB) string {
	t.Helper()
	if pinned := filepath.Join(modules(t), ".bin", "node"); exists(pinned) {
		return pinned
	}
	path, err := exec.LookPath("node")
	if err != nil {
		rig.Missing(t, "node")
	}
	return path
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// fixture is a program of the Go SDK that .ci/install built.
func fixture(t testing.TB, name string) string {
	t.Helper()
	return rig.Cached(t, "fixtures", "go.sum", name)
}

// output is how a peer's process ended.
type output struct {
	stdout, stderr string
	code           int
}

// run runs a peer to its end, with nothing on stdin, in a directory and an environment of its own. A peer that does
// not end within the time fails the test: it is ended with whatever it started.
func run(t testing.TB, within time.Duration, dir string, env []string, argv ...string) output {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), within)
	defer stop()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, env
	ownGroup(cmd)
	cmd.WaitDelay = 5 * time.Second // a grandchild may hold the pipes
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	endGroup(cmd)
	var exit *exec.ExitError
	if ctx.Err() != nil {
		t.Fatalf("%s: no end within %s\n%s\n%s", strings.Join(argv, " "), within, &out, &complaints)
	}
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
	return output{out.String(), complaints.String(), cmd.ProcessState.ExitCode()}
}

// must is run for a peer that has to succeed.
func must(t testing.TB, within time.Duration, dir string, env []string, argv ...string) string {
	t.Helper()
	o := run(t, within, dir, env, argv...)
	if o.code != 0 {
		t.Fatalf("%s: exit code %d\n%s\n%s", strings.Join(argv, " "), o.code, o.stdout, o.stderr)
	}
	return o.stdout
}

// home is an empty home directory and an environment that knows nothing else of this machine.
func home(t testing.TB, extra ...string) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	env = []string{"HOME=" + dir, "PATH=" + modules(t, ".bin") + string(os.PathListSeparator) + os.Getenv("PATH"), "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1"}
	return dir, append(env, extra...)
}

// background starts a peer that serves on addr until the test ends, and waits until it accepts connections.
func background(t testing.TB, addr string, env []string, argv ...string) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = env
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endGroup(cmd)
		_ = cmd.Wait() // it was killed
	})
	deadline := time.Now().Add(20 * time.Second)
	for {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			_ = conn.Close() // only asked whether it listens
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen on %s", strings.Join(argv, " "), addr)
		}
		time.Sleep(10 * time.Millisecond) // another program's start has no event
	}
}
