package story

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"mcpx/internal/daemon"
	"mcpx/internal/test/rig"
)

// person N ANSWER COMMAND... runs a command on a terminal of its own. ANSWER is what the person does when asked: agrees
// types the code back, refuses types something else, types=TEXT types the TEXT where what is typed is not shown. The story
// sees in stdout what the person saw.
func person(ts *testscript.TestScript, neg bool, args []string) {
	var hidden string
	if len(args) > 1 {
		hidden, _ = strings.CutPrefix(args[1], "types=")
	}
	if neg || len(args) < 3 || args[1] != "agrees" && args[1] != "refuses" && hidden == args[1] {
		ts.Fatalf("usage: person N agrees|refuses|types=TEXT COMMAND...")
	}
	path := filepath.Join(strings.Split(ts.Getenv("PATH"), string(filepath.ListSeparator))[0], args[2])
	if args[2] == "sh" {
		path = "/bin/sh"
	}
	cmd := exec.Command(path, args[3:]...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(environ(ts), "TERM=dumb")
	agrees, asked := rig.Agrees(), false
	seen, err := rig.OnTerminal(cmd, func(seen string) string {
		if hidden != args[1] && !asked && strings.Contains(seen, "not shown): ") {
			asked = true
			return hidden
		}
		if text := agrees(seen); text == "" || args[1] != "refuses" {
			return text
		}
		return "no"
	})
	ts.Check(err)
	_, _ = ts.Stdout().Write([]byte(seen))
	if code := cmd.ProcessState.ExitCode(); strconv.Itoa(code) != args[0] {
		ts.Fatalf("%s: exit code %d, want %s\n%s", strings.Join(args[2:], " "), code, args[0], seen)
	}
}

// typed ANSWER LINE runs a line as it was printed, word for word, on a terminal, with the ANSWER of person or - for none. It
// has to end with 0.
func typed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: typed -|agrees|types=TEXT LINE")
	}
	answer := args[0]
	if answer == "-" {
		answer = "refuses"
	}
	person(ts, false, []string{"0", answer, "sh", "-c", args[1]})
}

// environ is the environment of a command in a story.
func environ(ts *testscript.TestScript) []string {
	names := []string{"MCPX_HOME", "HOME", "PATH", "MCPX_WORKSPACE_SANDBOX", "MCPX_ENABLE_COMMAND_EXECUTION", "MCPX_BASE_DIR", "MCPX_CODEX_BIN", "PASSED_TOKEN"}
	for _, row := range daemon.Registry {
		names = append(names, row.Env())
	}
	var env []string
	for _, name := range names {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// edit FILE OLD NEW replaces a text in a file, as its agent would: it is written anew.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: edit FILE OLD NEW")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	next := strings.Replace(string(data), args[1], args[2], 1)
	if next == string(data) {
		ts.Fatalf("%s has no %q:\n%s", args[0], args[1], data)
	}
	ts.Check(os.WriteFile(path, []byte(next), 0o600))
}
