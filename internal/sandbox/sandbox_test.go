//go:build unix

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/policy"
)

// TestMain lets the test binary be the stub, and a client of sockets.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Subcommand {
		os.Exit(Main(os.Args[2:], os.Stderr))
	}
	if len(os.Args) == 4 && os.Args[1] == "dial" {
		if err := dial(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

type runner struct{}

func (runner) Output(ctx context.Context, argv []string, _ int) ([]byte, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return out, err
}

// opened are the sandboxes that were made: each costs a trial.
var opened = map[string]*Sandbox{}

// open makes a sandbox. A mechanism that this machine cannot have is skipped by its name, with what the kernel says; one
// that is there and fails is a failure.
func open(t *testing.T, m Mechanism, accept ...string) *Sandbox {
	t.Helper()
	name := fmt.Sprint(m, accept)
	s := opened[name]
	if s == nil {
		s = try(t, m, exec.LookPath, accept...)
		opened[name] = s
	}
	r := s.Report()
	if r.Applied != "" {
		return s
	}
	why, fix := r.refusal()
	for _, refusal := range []string{errNoLandlock.Error(), errNoBwrap.Error(), "Operation not permitted", "No permissions to create"} {
		if strings.Contains(why, refusal) {
			if refusal == errNoBwrap.Error() && os.Getenv("CI") == "true" {
				t.Fatalf("missing in CI: %s", why)
			}
			t.Skipf("skipped by name: sandbox %s: %s (%s)", m, why, fix)
		}
	}
	t.Fatalf("%s does not work: %s", m, why)
	return nil
}

func try(t *testing.T, m Mechanism, find func(string) (string, error), accept ...string) *Sandbox {
	t.Helper()
	s, err := New(t.Context(), Config{Exe: self(t), Mechanism: m, Accept: accept, Run: runner{}, Find: find, Scratch: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

var mechanisms = []Mechanism{Bubblewrap, Landlock}

// TestCheckSees runs the check without any sandbox: it has to find that everything can be done, else what it says below
// one means nothing.
func TestCheckSees(t *testing.T) {
	y, err := newYard(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer y.close()
	s := &Sandbox{cfg: Config{Exe: self(t), Run: unconfined{}}}
	found, err := s.runCheck(t.Context(), Landlock, y)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		actWrite, actCreate, actLink, actTruncate, actMode, actMode, actHardLink, actRemove, actRead, actRoot, actRoot, actEnviron, actSignal,
		actConnect, actSocket,
	}
	for _, act := range want {
		if !slices.Contains(found.Done, act) {
			t.Errorf("the check does not see %q without a sandbox; it saw %q", act, found.Done)
		}
	}
	if len(y.changed()) == 0 || !y.reached.Load() {
		t.Errorf("the yard does not see what was changed: %q", y.changed())
	}
}

// unconfined runs the command of a wrapped argument list as it is.
type unconfined struct{}

func (unconfined) Output(ctx context.Context, argv []string, n int) ([]byte, error) {
	return runner{}.Output(ctx, argv[3:], n)
}

// TestProbe wants at least one mechanism wherever the kernel has Landlock.
func TestProbe(t *testing.T) {
	if _, err := landlockABI(); err == nil && try(t, Auto, exec.LookPath).Report().Applied == "" {
		t.Fatalf("no mechanism works here: %+v", try(t, Auto, exec.LookPath).Report())
	}
	for _, m := range append(mechanisms, Auto) {
		t.Run(string(m), func(t *testing.T) {
			r := open(t, m).Report()
			if len(r.Gaps) != 0 || m != Auto && r.Applied != m {
				t.Errorf("report %+v", r)
			}
		})
	}
}

// TestNeverDowngrades asks for what is not there.
func TestNeverDowngrades(t *testing.T) {
	nowhere := func(string) (string, error) { return "", exec.ErrNotFound }
	s := try(t, Bubblewrap, nowhere)
	_, err := s.Plan(Request{Level: policy.SandboxWorkspace, File: "/bin/true", Argv: []string{"true"}})
	if f := fault.From(err); f.Code != "sandbox-unavailable" || !strings.Contains(f.Hint, "apt-get install bubblewrap") {
		t.Errorf("without bwrap: %v, hint %q", err, f.Hint)
	}
	if s := try(t, Auto, nowhere); s.Report().Applied == Bubblewrap {
		t.Error("bwrap is applied and there is none")
	}
	none := try(t, None, nowhere)
	if w, err := none.Plan(Request{Level: policy.SandboxNone, File: "/bin/true", Argv: []string{"true"}}); err != nil || w.File != "/bin/true" || w.Applied.Applied != "none" {
		t.Errorf("level none: %+v, %v", w, err)
	}
	if _, err := none.Plan(Request{Level: policy.SandboxStrict}); fault.From(err).Code != "sandbox-unavailable" {
		t.Errorf("strict where the mechanism is none: %v", err)
	}
	if _, err := s.Applies(policy.SandboxNone, false); fault.From(err).Code != "sandbox-unavailable" {
		t.Errorf("level none where a mechanism is asked for: %v", err)
	}
}

// ground is a project with something beside it.
type ground struct {
	*yard
	victim *exec.Cmd
	ended  chan struct{} // closed when the victim is dead
}

func newGround(t *testing.T) *ground {
	t.Helper()
	y, err := newYard(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{yard: y, victim: exec.Command("sleep", "600"), ended: make(chan struct{})}
	g.victim.Env = []string{"PATH=/usr/bin:/bin", "CANARY=" + canary}
	if err := g.victim.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = g.victim.Wait() // it is killed
		close(g.ended)
	}()
	t.Cleanup(func() {
		_ = g.victim.Process.Kill()
		<-g.ended
		y.close()
	})
	return g
}

// run starts a shell text, below a sandbox when there is one.
func (g *ground) run(t *testing.T, s *Sandbox, level string, network bool, text string, env ...string) (string, int) {
	t.Helper()
	cmd := g.command(t, s, level, network, text, env...)
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	} else if ok && exit.ExitCode() == exitUnconfined {
		t.Fatalf("the sandbox was not applied: %s", out)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func (g *ground) command(t *testing.T, s *Sandbox, level string, network bool, text string, env ...string) *exec.Cmd {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped by name: no bash")
	}
	text = strings.NewReplacer("$OUT", g.outside, "$HID", g.hidden, "$PID", fmt.Sprint(g.victim.Process.Pid), "$DIAL", self(t)+" dial",
		"$SOCKET", g.check.Socket, "$PORT", g.check.Address[strings.LastIndexByte(g.check.Address, ':')+1:]).Replace(text)
	w := Wrapped{File: bash, Argv: []string{"bash", "-c", text}, Env: append(env, "PATH="+os.Getenv("PATH"), "HOME=/nowhere")}
	if s != nil {
		w, err = s.Plan(Request{
			Level: level, Writable: []string{g.check.Inside}, Readable: []string{g.outside, self(t)}, Hidden: []string{g.hidden}, Network: network,
			Dir: g.check.Inside, File: w.File, Argv: w.Argv, Env: w.Env,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(w.File)
	cmd.Args, cmd.Env, cmd.Dir = w.Argv, w.Env, g.check.Inside
	return cmd
}

// harm tells what has happened outside, and what of it is known inside.
func (g *ground) harm() []string {
	acts := g.changed()
	for _, name := range []string{"got", "disk"} {
		info, err := os.Lstat(g.check.Inside + "/" + name)
		if err != nil {
			continue
		}
		if data, err := os.ReadFile(g.check.Inside + "/" + name); name == "got" && err == nil && strings.Contains(string(data), canary) {
			acts = append(acts, actRead)
		}
		if info.Mode()&os.ModeDevice != 0 {
			acts = append(acts, "making a device")
		}
	}
	select {
	case <-g.ended:
		acts = append(acts, actSignal)
	default:
	}
	return acts
}

// TestDW66Escapes tries to get out of each mechanism. The same text without a sandbox has to do its harm, so that a try
// which could never succeed does not pass for one that was prevented.
func TestDW66Escapes(t *testing.T) {
	root := os.Geteuid() == 0
	for _, try := range []struct {
		name string
		text string
		env  []string
		root bool // only root can do it at all
		free bool // without a sandbox it does no harm: it is about undoing one
	}{
		{name: "write", text: `echo x > $OUT/file`},
		{name: "write by ..", text: `echo x > ../outside/file`},
		{name: "write through a symlink", text: `echo x > link`},
		{name: "write through a new symlink", text: `ln -s $OUT d; echo x > d/file`},
		{name: "write through a hard link", text: `ln $OUT/file hard && echo x > hard`},
		{name: "write through /proc/self/root", text: `echo x > /proc/self/root$OUT/file`},
		{name: "write through /proc of another", text: `echo x > /proc/$PID/root$OUT/file`},
		{name: "create", text: `touch $OUT/new`},
		{name: "mkdir", text: `mkdir $OUT/new`},
		{name: "remove", text: `rm -f $OUT/file`},
		{name: "move away", text: `mv $OUT/file moved`},
		{name: "truncate", text: `truncate -s 0 $OUT/file`},
		{name: "chmod", text: `chmod 777 $OUT/file`},
		{name: "utime", text: `touch -d 2001-01-01 $OUT/file`},
		{name: "read what is hidden", text: `cat $HID/file > got`},
		{name: "read through /proc/self/root", text: `cat /proc/self/root$HID/file > got`},
		{name: "read through /proc of another", text: `cat /proc/$PID/root$HID/file > got`},
		{name: "read a copy by a hard link", text: `ln $HID/file got`},
		{name: "variables of another process", text: `cat /proc/$PID/environ > got`},
		{name: "kill", text: `kill -9 $PID; sleep 0.2`},
		{name: "tcp", text: `echo hi > /dev/tcp/127.0.0.1/$PORT; sleep 0.1`},
		{name: "socket of the file system", text: `$DIAL unix $SOCKET; sleep 0.1`},
		{name: "loader of a program before the sandbox", text: `true`, env: []string{"LD_DEBUG=libs", "LD_DEBUG_OUTPUT=$OUT/ld"}},
		{name: "device", text: `mknod disk b 8 0`, root: true},
		{name: "bind mount", text: `mkdir m && unshare -m bash -c 'mount --bind $OUT m && echo x > m/file'`, root: true},
		{name: "bind mount as root of a namespace", text: `mkdir m && unshare -Urm bash -c 'mount --bind $OUT m && echo x > m/file'`},
		{name: "remount", text: `unshare -Urm bash -c 'mount -o remount,bind,rw /; mount -o remount,bind,rw $OUT; echo x > $OUT/file'`, free: true},
		{name: "unmount what hides", text: `unshare -Urm bash -c 'umount $HID; cat $HID/file > got'`, free: true},
	} {
		t.Run(try.name, func(t *testing.T) {
			if try.root && !root {
				t.Skip("skipped by name: only root can try this")
			}
			g := newGround(t)
			env := func(g *ground) (out []string) {
				for _, v := range try.env {
					out = append(out, strings.ReplaceAll(v, "$OUT", g.outside))
				}
				return out
			}
			if out, _ := g.run(t, nil, "", false, try.text, env(g)...); len(g.harm()) == 0 && !try.free {
				t.Fatalf("without a sandbox nothing happens: %s", out)
			}
			for _, m := range mechanisms {
				for _, level := range []string{policy.SandboxWorkspace, policy.SandboxStrict} {
					t.Run(string(m)+" "+level, func(t *testing.T) {
						s := open(t, m)
						g := newGround(t)
						out, _ := g.run(t, s, level, false, try.text, env(g)...)
						if harm := g.harm(); len(harm) > 0 {
							t.Errorf("it did: %q (it printed %q)", harm, out)
						}
					})
				}
			}
		})
	}
}

// TestDW66AbstractSocket reaches for a socket without a place in the file system.
func TestDW66AbstractSocket(t *testing.T) {
	l, err := net.Listen("unix", fmt.Sprintf("@mcpx-test-%d", os.Getpid()))
	if err != nil {
		t.Skipf("skipped by name: no abstract sockets: %v", err)
	}
	defer l.Close()
	text := "$DIAL unix " + l.Addr().String()
	if out, code := newGround(t).run(t, nil, "", false, text); code != 0 {
		t.Fatalf("without a sandbox: %s", out)
	}
	for _, m := range mechanisms {
		t.Run(string(m), func(t *testing.T) {
			s := open(t, m)
			for _, network := range []bool{false, true} {
				if out, code := newGround(t).run(t, s, policy.SandboxWorkspace, network, text); code == 0 {
					t.Errorf("reached with network %v: %s", network, out)
				}
			}
		})
	}
}

// TestWork does what a command has to be able to do.
func TestWork(t *testing.T) {
	for _, m := range mechanisms {
		for _, level := range []string{policy.SandboxWorkspace, policy.SandboxStrict} {
			t.Run(string(m)+" "+level, func(t *testing.T) {
				s := open(t, m)
				g := newGround(t)
				for _, one := range []struct {
					text, want string
					code       int
				}{
					{"echo hello", "hello\n", 0},
					{"exit 3", "", 3},
					{"no-such-program 2>/dev/null", "", 127},
					{"echo $GREETING", "hi\n", 0},
					{"env | grep -c '^+'", "0\n", 1},
					{"mkdir -p d/e && echo x > d/e/f && mv d/e/f d/f && rm -r d/e && cat d/f", "x\n", 0},
					{"cat $OUT/file", outsideText, 0},
					{"echo lost > /dev/null && head -c 3 /dev/zero | wc -c", "3\n", 0},
					{"pwd", g.check.Inside + "\n", 0},
					{"cat <(echo piped)", "piped\n", 0},
					{"kill -TERM $BASHPID", "", map[Mechanism]int{Bubblewrap: 143, Landlock: -1}[m]},
				} {
					out, code := g.run(t, s, level, false, one.text, "GREETING=hi")
					if out != one.want || code != one.code {
						t.Errorf("%s: printed %q and ended with %d, want %q and %d", one.text, out, code, one.want, one.code)
					}
				}
				if out, code := g.run(t, s, level, true, "echo hi > /dev/tcp/127.0.0.1/$PORT"); code != 0 {
					t.Errorf("with the network on: %s", out)
				}
			})
		}
	}
}

// TestStrictReads hides everything that is not the system's and the command's own.
func TestStrictReads(t *testing.T) {
	for _, m := range mechanisms {
		t.Run(string(m), func(t *testing.T) {
			s := open(t, m)
			g := newGround(t)
			home := t.TempDir()
			if err := os.WriteFile(home+"/note", []byte("private"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, code := g.run(t, s, policy.SandboxStrict, false, "cat "+home+"/note"); code == 0 {
				t.Errorf("read: %s", out)
			}
			if out, code := g.run(t, s, policy.SandboxStrict, false, "test -r /usr/bin/env && cat /etc/passwd >/dev/null"); code != 0 {
				t.Errorf("the system cannot be read: %s", out)
			}
		})
	}
}

// TestSignals sends what ends a command in order: its handler runs, and nothing before it takes the signal.
func TestSignals(t *testing.T) {
	for _, m := range mechanisms {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(fmt.Sprint(m, " ", sig), func(t *testing.T) {
				s := open(t, m)
				g := newGround(t)
				cmd := g.command(t, s, policy.SandboxWorkspace, false, `trap 'echo handled; exit 7' INT TERM HUP; echo ready; sleep 60 & wait`)
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				stop := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
				defer stop.Stop()
				buf := make([]byte, 64)
				n, _ := out.Read(buf)
				if string(buf[:n]) != "ready\n" {
					t.Fatalf("printed %q", buf[:n])
				}
				if err := syscall.Kill(-cmd.Process.Pid, sig); err != nil {
					t.Fatal(err)
				}
				n, _ = out.Read(buf)
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); string(buf[:n]) != "handled\n" || code != 7 {
					t.Errorf("printed %q and ended with %d", buf[:n], code)
				}
			})
		}
	}
}

// TestGapIsNamed accepts that metadata can be changed: it can then, and the report says so.
func TestGapIsNamed(t *testing.T) {
	s := open(t, Landlock, GapMetadata)
	if got := s.Report().Gaps; !slices.Equal(got, []string{GapMetadata}) {
		t.Errorf("gaps %q", got)
	}
	g := newGround(t)
	if out, code := g.run(t, s, policy.SandboxWorkspace, false, "touch f && chmod 700 f"); code != 0 {
		t.Errorf("chmod in its own directory: %s", out)
	}
}
