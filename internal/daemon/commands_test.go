package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/process"
	"mcpx/internal/work"
)

// yard is a project beside a running daemon, and the gate of that daemon.
type yard struct {
	*Daemon
	gate *commandGate
	root string
	home string
	temp string
}

func newYard(t *testing.T, variables ...string) *yard {
	t.Helper()
	c := config(t, variables...)
	d := run(t, c)
	y := &yard{Daemon: d, gate: d.newGate(), home: withoutLinks(d.home()), root: withoutLinks(t.TempDir()), temp: withoutLinks(t.TempDir())}
	for name, content := range map[string]string{"shop/notes.txt": "notes\n", "shop/.env": "TOKEN=canary-project\n"} {
		y.put(t, filepath.Join(y.root, name), content)
	}
	y.root = filepath.Join(y.root, "shop")
	y.put(t, filepath.Join(y.home, ".ssh/id_ed25519"), "canary-key\n")
	return y
}

func (y *yard) put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (y *yard) shell(t *testing.T, text string) work.Command {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("skipped by name: no bash")
	}
	return work.Command{
		Command: policy.Command{Shell: text, Project: "shop"}, Target: y.root, Root: y.root, Temp: y.temp, Program: bash,
		Args: []string{"bash", "--noprofile", "--norc", "-c", text}, Environ: process.Environ([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + y.home}, []string{"TMPDIR=" + y.temp}),
	}
}

func (y *yard) judge(t *testing.T, text string) work.Ruling {
	t.Helper()
	r, err := y.gate.Judge(t.Context(), y.shell(t, text))
	y.need(t, err)
	return r
}

// need skips what the kernel or the machine has no mechanism for.
func (y *yard) need(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, missing := range []string{"the kernel has no Landlock", "bwrap is not on the PATH"} {
		if r, ok := errors.AsType[*operation.Refusal](err); ok && r.Code == "SANDBOX_UNAVAILABLE" && strings.Contains(r.Message, missing) {
			t.Skip("skipped by name: " + r.Message)
		}
	}
	t.Fatal(err)
}

// start runs a command in its sandbox, whatever was decided: a yes does not widen it.
func (y *yard) start(t *testing.T, text string) (string, error) {
	t.Helper()
	c := y.shell(t, text)
	l, err := y.gate.Contain(t.Context(), c, y.judge(t, text))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(l.File)
	cmd.Args, cmd.Env, cmd.Dir = l.Argv, l.Env, y.root
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 125 {
		t.Fatalf("the sandbox was not applied: %s", out)
	}
	return string(out), err
}

func ruleOf(r work.Ruling) string {
	for _, u := range r.Units {
		if u.Decision == r.Decision {
			return u.Rule
		}
	}
	return ""
}

// TestDW66ControlPlane reaches from a command for what is ours and for the keys of the user. With a yes of a person it is the
// same (RT-98).
func TestDW66ControlPlane(t *testing.T) {
	for _, mechanism := range []string{"bwrap", "landlock"} {
		t.Run(mechanism, func(t *testing.T) {
			y := newYard(t, "MCPX_SANDBOX_MECHANISM", mechanism)
			_ = y.judge(t, "ls") // skips what is not there
			_, port, _ := strings.Cut(y.about.Listener, ":")
			for name, text := range map[string]string{
				"database":     "cat " + y.cfg.Paths.Database(),
				"settings":     "cat " + y.cfg.Paths.Config + "/* || ls " + y.cfg.Paths.Config + "/*",
				"key":          "cat " + filepath.Join(y.home, ".ssh/id_ed25519"),
				"key by /proc": "cat /proc/self/root" + filepath.Join(y.home, ".ssh/id_ed25519"),
				"port":         "echo > /dev/tcp/127.0.0.1/" + port,
				"state":        "echo x > " + filepath.Join(y.cfg.Paths.State, "new"),
				"project":      "echo x > notes.txt",
				"chmod":        "chmod 777 notes.txt",
			} {
				if out, err := y.start(t, text); err == nil {
					t.Errorf("%s: %s could be done: %s", name, text, out)
				}
			}
			// A directory in /tmp may be a private one with the same name: what counts is that nothing is there.
			_, _ = y.start(t, "echo x > "+filepath.Join(y.home, "new"))
			if _, err := os.Stat(filepath.Join(y.home, "new")); err == nil {
				t.Error("a file was made in the home directory")
			}
			for name, text := range map[string]string{
				"reading": "cat notes.txt", "its temporary directory": "echo x > $TMPDIR/f && cat $TMPDIR/f",
			} {
				if out, err := y.start(t, text); err != nil {
					t.Errorf("%s: %s cannot be done: %v: %s", name, text, err, out)
				}
			}
		})
	}
}

// TestProjectWrites lets commands change the project, and nothing else.
func TestProjectWrites(t *testing.T) {
	y := newYard(t, "MCPX_SANDBOX_PROJECT_WRITES", "true")
	if out, err := y.start(t, "echo x > made && mkdir d && mv made d/"); err != nil {
		t.Errorf("in the project: %v: %s", err, out)
	}
	_, _ = y.start(t, "echo x > ../beside") // in /tmp it may be a private one with this name
	if _, err := os.Stat(filepath.Join(y.root, "..", "beside")); err == nil {
		t.Error("a file was made beside the project")
	}
	if _, err := os.Stat(filepath.Join(y.root, "d", "made")); err != nil {
		t.Errorf("what was made in the project is not there: %v", err)
	}
}

func TestRT77NothingRunsWhileJudged(t *testing.T) {
	y := newYard(t)
	r := y.judge(t, "touch started; rm -rf /")
	if r.Decision != policy.Deny || len(r.Units) != 2 || r.Units[0].Rule != "default" || r.Units[1].Rule != "rm.root" || r.Units[1].Reason == "" {
		t.Errorf("ruling %+v", r)
	}
	if _, err := os.Stat(filepath.Join(y.root, "started")); err == nil {
		t.Error("it ran")
	}
	if !r.Sandbox.Contained() {
		t.Errorf("sandbox %+v", r.Sandbox)
	}
}

// TestRT80ProjectPolicy: a repository only tightens.
func TestRT80ProjectPolicy(t *testing.T) {
	y := newYard(t)
	file := filepath.Join(y.root, work.ProjectPolicy)
	y.put(t, file, "[commands]\nlift = [\"rm.root\"]\n[[commands.rule]]\nid = \"a\"\ndecision = \"allow\"\nprogram = \"npm\"\n[[commands.rule]]\nid = \"b\"\ndecision = \"deny\"\nprogram = \"cat\"\n")
	for text, want := range map[string]string{"npm test": "default", "rm -rf /": "rm.root", "cat notes.txt": "b", "ls": "vetted.ls"} {
		if got := ruleOf(y.judge(t, text)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	y.put(t, file, "[commands\n")
	if r := y.judge(t, "ls"); r.Decision != policy.Confirm || ruleOf(r) != "policy.broken" {
		t.Errorf("with a broken file: %+v", r)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", file); err != nil {
		t.Fatal(err)
	}
	if r := y.judge(t, "ls"); ruleOf(r) != "policy.broken" {
		t.Errorf("with a link: %+v", r)
	}
}

// TestPolicyReload keeps the last good policy.
func TestPolicyReload(t *testing.T) {
	y := newYard(t)
	path := y.cfg.Paths.Policy()
	y.put(t, path, "[[commands.rule]]\nid = \"npm-test\"\ndecision = \"allow\"\nprogram = \"npm\"\n")
	if _, err := y.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r := y.judge(t, "npm test"); r.Decision != policy.Allow {
		t.Errorf("after the reload: %+v", r)
	}
	y.put(t, path, "[[commands.rule]]\nid = \"npm-test\"\n")
	if _, err := y.reload(t.Context()); err == nil || !strings.Contains(err.Error(), "line 1: commands.rule[0].decision") {
		t.Errorf("a broken file: %v", err)
	}
	if r := y.judge(t, "npm test"); r.Decision != policy.Allow {
		t.Errorf("after a reload that failed: %+v", r)
	}
}

// TestContained lets what no rule knows run without asking where the sandbox holds everything, and only there.
func TestContained(t *testing.T) {
	for _, c := range []struct {
		variables []string
		want      policy.Decision
	}{
		{nil, policy.Allow},
		{[]string{"MCPX_SANDBOX_NETWORK", "true", "MCPX_LISTENER_LOOPBACK_AUTH", "token"}, policy.Confirm},
		{[]string{"MCPX_SANDBOX_MECHANISM", "landlock", "MCPX_SANDBOX_ACCEPT_GAPS", "metadata_writes"}, policy.Confirm},
		{[]string{"MCPX_SANDBOX_MECHANISM", "none"}, policy.Confirm},
	} {
		y := newYard(t, c.variables...)
		y.put(t, y.cfg.Paths.Policy(), "[commands]\ncontained = \"allow\"\n")
		if _, err := y.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := y.judge(t, "npm run build"); r.Decision != c.want {
			t.Errorf("%q: %s, sandbox %+v", c.variables, r.Decision, r.Sandbox)
		}
	}
}

// TestRT86Frozen: the record of what a person is asked.
func TestRT86Frozen(t *testing.T) {
	y := newYard(t)
	for _, text := range []string{"git config core.fsmonitor x", "git commit", "npm run build"} {
		r := y.judge(t, text)
		f := r.Frozen
		if r.Decision != policy.Confirm || f.Shell != text || f.Dir != y.root || f.Project != "shop" || f.Sandbox != "workspace" || f.Env == nil {
			t.Errorf("%s: %s, %+v", text, r.Decision, f)
		}
	}
	c := y.shell(t, "")
	c.Shell, c.Argv, c.Env = "", []string{"git", "commit"}, []string{"GIT_DIR"}
	r, err := y.gate.Judge(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Frozen.Argv, c.Argv) || !slices.Equal(r.Frozen.Env, c.Env) || r.Frozen.Form != policy.FormArgv || len(r.Frozen.Programs) != 1 || r.Frozen.Programs[0].Identity == "" {
		t.Errorf("frozen %+v", r.Frozen)
	}
	if again, err := y.gate.Judge(t.Context(), c); err != nil || again.Frozen.Digest() != r.Frozen.Digest() {
		t.Errorf("the same command has another record: %q, %v", again.Frozen.Differences(r.Frozen), err)
	}
}

// TestSandboxUnavailable refuses a level that cannot be kept, and says what to do.
func TestSandboxUnavailable(t *testing.T) {
	y := newYard(t, "MCPX_SANDBOX_MECHANISM", "none")
	c := y.shell(t, "ls")
	c.Level = policy.SandboxStrict
	_, err := y.gate.Judge(t.Context(), c)
	if r, ok := errors.AsType[*operation.Refusal](err); !ok || r.Code != "SANDBOX_UNAVAILABLE" || r.Details["fix"] == nil {
		t.Errorf("strict without a mechanism: %v", err)
	}
	if r := y.judge(t, "ls"); r.Sandbox.Applied != policy.SandboxNone || r.Sandbox.Contained() {
		t.Errorf("level none: %+v", r.Sandbox)
	}
	if _, err := y.gate.Judge(t.Context(), y.shell(t, `echo "open`)); err == nil {
		t.Error("a text that is no command is judged")
	} else if r, ok := errors.AsType[*operation.Refusal](err); !ok || r.Code != "COMMAND_SYNTAX" || r.Details["line"] == nil {
		t.Errorf("a text that is no command: %v", err)
	}
}
