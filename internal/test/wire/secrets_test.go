package wire

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"mcpx/internal/test/rig"
)

// TestLeaksAreFound: what every test of the program does at its end, looking for planted values, finds them.
func TestLeaksAreFound(t *testing.T) {
	home := t.TempDir()
	value := rig.Canary + "of-this-test"
	for path, data := range map[string]string{
		"state/mcpx.db": "\x00\x01" + value, "state/log/daemon.log": "user:" + value, "state/jobs/j/stdout": strings.Repeat("x", 9<<20) + value,
		"state/a": base64.StdEncoding.EncodeToString([]byte(value)), "state/b": base64.StdEncoding.EncodeToString([]byte("a" + value)),
		"state/c": base64.StdEncoding.EncodeToString([]byte("ab" + value)), "state/d": fmt.Sprintf("%x", value), "state/e": "hunter2hunter2",
		"state/f":          "mcpx_at_" + strings.Repeat("a", 49),
		"config/mcpx.toml": value, "user/.env": value, "state/backups/1": value, "state/secrets/agents/a.token": value, "state/clean": "rig",
	} {
		path = filepath.Join(home, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if leaks := rig.Leaks(home); len(leaks) != 9 {
		t.Errorf("%d were found, want 9:\n%s", len(leaks), strings.Join(leaks, "\n"))
	}
}

// TestSecretsOfCommands: RT-119, RT-122, DW-68 with the real program and its log at debug. Values come by secrets, by env and
// by stdin_text; their commands end well, end badly, and go on while the daemon is killed. Then no file of the home has one of
// them, no answer, and no argument of a process.
func TestSecretsOfCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("commands run on unix")
	}
	const value, given, text = rig.Canary + "secret", rig.Canary + "given", rig.Canary + "text"
	g := rig.New(t)
	g.Extra = []string{"MCPX_RUNTIME_COMMANDS=true", "MCPX_SANDBOX_MECHANISM=none", "MCPX_LOG=debug", "KEY_OF_THE_DAEMON=" + value}
	config := filepath.Join(g.Home, "config")
	if err := os.Mkdir(config, 0o700); err != nil {
		t.Fatal(err)
	}
	rules := "[commands]\nlift = [\"env.sensitive\", \"env.dump\"]\n"
	for _, program := range []string{"printenv", "sleep"} {
		rules += fmt.Sprintf("[[commands.rule]]\nid = %q\ndecision = \"allow\"\nprogram = %q\n", program, program)
		rules += fmt.Sprintf("[[commands.rule]]\nid = \"key-%s\"\ndecision = \"allow\"\nprogram = %q\nsecrets = [\"deploy-key\"]\nproject = \"shop\"\n", program, program)
	}
	if err := os.WriteFile(filepath.Join(config, "policy.toml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	parent := t.TempDir()
	for _, name := range []string{"shop", "site"} {
		if err := os.Mkdir(filepath.Join(parent, name), 0o700); err != nil {
			t.Fatal(err)
		}
		g.Must("project", "add", filepath.Join(parent, name))
	}
	g.Must("credential", "add", "deploy-key", "--ref", "env:KEY_OF_THE_DAEMON")
	g.Must("credential", "grant", "deploy-key", "--project", "shop", "--program", "printenv", "--program", "sleep")
	if out := g.Must("credential", "check", "--json"); !strings.Contains(out, `"variable": "DEPLOY_KEY"`) || !strings.Contains(out, `"readiness": "ready"`) {
		t.Errorf("credential check: %s", out)
	}

	b := bridged{g.Connect(""), t}
	b.Initialize(`{}`)
	n := 0
	call := func(name, args string) []byte {
		t.Helper()
		n++
		answer := b.call(fmt.Sprint(n), tool(fmt.Sprint(n), name, args))
		if strings.Contains(string(answer), rig.Canary) {
			t.Errorf("%s answers with a value: %s", name, answer)
		}
		return answer
	}
	session := func(project string) string {
		t.Helper()
		var opened struct {
			Session struct {
				ID string `json:"remote_session_id"`
			} `json:"session"`
		}
		worked(t, call("session", fmt.Sprintf(`{"action":"open","project":%q,"operation_id":"open-%s-1"}`, project, project)), &opened)
		return opened.Session.ID
	}
	shop, site := session("shop"), session("site")
	run := func(name, in, more string) []byte {
		t.Helper()
		return call(name, fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"run-%04d",%s}`, in, n, more))
	}

	var printed struct {
		Stdout struct {
			Text       string `json:"text"`
			Redactions int    `json:"redactions"`
		} `json:"stdout"`
	}
	worked(t, run("execute_command", shop, `"argv":["printenv","DEPLOY_KEY"],"secrets":["deploy-key"],"wait_ms":25000`), &printed)
	if printed.Stdout.Text != "[redacted:deploy-key]\n" || printed.Stdout.Redactions != 1 {
		t.Errorf("it printed %+v", printed)
	}
	values := fmt.Sprintf(`"env":{"GIVEN":%q},"stdin_text":%q`, given, text)
	worked(t, run("execute_command", shop, `"argv":["wc","-c"],"wait_ms":25000,`+values), &printed)
	if want := fmt.Sprintln(len(text)); strings.TrimLeft(printed.Stdout.Text, " ") != want {
		t.Errorf("it read %q, want %q", printed.Stdout.Text, want)
	}
	for args, want := range map[string]string{
		`"argv":["printenv","NOT_SET"],"secrets":["deploy-key"],"wait_ms":25000,` + values: `"exit_code":1`,
		`"argv":["printenv"],"secrets":["no-such-key"]`:                                    "SECRET_UNKNOWN",
		`"argv":["id"],"secrets":["deploy-key"]`:                                           "is not for",
	} {
		if answer := run("execute_command", shop, args); !strings.Contains(string(answer), want) {
			t.Errorf("%s: %s, want %s", args, answer, want)
		}
	}
	if answer := run("execute_command", site, `"argv":["printenv"],"secrets":["deploy-key"]`); !strings.Contains(string(answer), "POLICY_DENIED") {
		t.Errorf("another project: %s", answer)
	}

	var started struct {
		Job string `json:"job_id"`
	}
	worked(t, run("start_command", shop, `"argv":["sleep","300"],"secrets":["deploy-key"],`+values), &started)
	if runtime.GOOS == "linux" {
		sleeps := 0
		for _, p := range processes(t) {
			if strings.Contains(p.args, rig.Canary) {
				t.Errorf("a value is an argument: %q", p.args)
			}
			if strings.HasPrefix(p.args, "sleep\x00300\x00") && strings.Contains(p.environ, "DEPLOY_KEY="+value+"\x00") && strings.Contains(p.environ, "GIVEN="+given+"\x00") {
				sleeps++
			}
		}
		if sleeps != 1 {
			t.Errorf("%d commands have the value in their environment, want 1", sleeps)
		}
	}
	g.Kill()
	g.Serve()
	if answer := call("command_status", fmt.Sprintf(`{"job_id":%q}`, started.Job)); !strings.Contains(string(answer), `"state":"running"`) {
		t.Errorf("after a crash: %s", answer)
	}
	call("stop_command", fmt.Sprintf(`{"job_id":%q,"operation_id":"stop-0001"}`, started.Job))
	if out := g.Must("audit", "list", "--json"); !strings.Contains(out, "secret.used") || strings.Contains(out, rig.Canary) {
		t.Errorf("the events: %s", out)
	}
	for _, leak := range rig.Leaks(g.Home) {
		t.Errorf("while the daemon runs: %s", leak)
	}
}

// processShown is what the system tells of a process.
type processShown struct{ args, environ string }

func processes(t *testing.T) (all []processShown) {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue // it has ended
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ")) // of others it cannot be read
		all = append(all, processShown{string(args), string(environ)})
	}
	return all
}
