package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

type brokenPipe struct{ err error }

func (b brokenPipe) Write([]byte) (int, error) { return 0, b.err }

func TestOutputIsLost(t *testing.T) {
	x := newTerminal(t)
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"help"}, {"ps"}, {"server", "logs", "a"}, {"server", "logs", "a", "--json"}} {
		x.env.Out = brokenPipe{syscall.ENOSPC}
		if code := x.types(args...); code != 75 || !strings.Contains(x.err.String(), "cannot write the output") {
			t.Errorf("%v on a full disk: exit code %d, %q", args, code, x.err.String())
		}
		x.env.Out = brokenPipe{syscall.EPIPE}
		if code := x.types(args...); code != 0 || x.err.Len() > 0 {
			t.Errorf("%v for a reader that left: exit code %d, %q", args, code, x.err.String())
		}
	}
}

func TestUnknownWords(t *testing.T) {
	x := newTerminal(t)
	for line, want := range map[string]string{
		"help nosuch":              "`mcpx -h` lists all commands",
		"help sevrer":              "did you mean `mcpx server`?",
		"help server lsit":         "did you mean `mcpx server list`?",
		"add x -- y":               "did you mean `mcpx server add` or `mcpx project add` or `mcpx credential add`?",
		"list":                     "did you mean `mcpx server list`",
		"tools x":                  "did you mean `mcpx server tools`?",
		"logs x":                   "did you mean `mcpx server logs` or `mcpx job logs`?",
		"call x y":                 "did you mean `mcpx server call`?",
		"import f":                 "did you mean `mcpx server import` or `mcpx catalog import`?",
		"rm x":                     "did you mean `mcpx server remove` or `mcpx workspace remove` or `mcpx project remove` or `mcpx profile remove` or `mcpx credential remove`?",
		"server rm x":              "did you mean `mcpx server remove`?",
		"server ls":                "did you mean `mcpx server list`?",
		"server delete x":          "did you mean `mcpx server remove`?",
		"restart":                  "did you mean `mcpx server restart` or `mcpx daemon restart`?",
		"server logs x -n -1":      "--lines -1",
		"connect x --agent a/b":    `use "a-b"`,
		"connect x --pass 1A":      `--pass "1A" is no name of a variable`,
		"server add http://h/mcp":  "`mcpx server add h --url http://h/mcp`",
		"server import no-such":    "`mcpx up` finds the files of agents by itself",
		"server --json":            "`mcpx server -h` lists them",
		"server":                   "Available Commands",
		"daemon start --listen :1": "not a loopback address",
		"server logs x -n many":    "want a number",

		"server edit x --supervised=maybe": "want true or false",
	} {
		if code := x.types(strings.Fields(line)...); code != 2 || x.out.Len() > 0 {
			t.Errorf("%s: exit code %d, stdout %q", line, code, x.out.String())
		}
		if !strings.Contains(x.err.String(), want) {
			t.Errorf("%s says %q, want %q", line, x.err.String(), want)
		}
	}
	for line, want := range map[string]string{
		"help server add": "--env-pass", "help": "Available Commands", "help daemon": "restart", "help exit-codes": "130",
	} {
		if code := x.types(strings.Fields(line)...); code != 0 || !strings.Contains(x.out.String(), want) {
			t.Errorf("%s: exit code %d\n%s%s", line, code, x.out.String(), x.err.String())
		}
	}
}

func TestNameOf(t *testing.T) {
	for host, want := range map[string]string{
		"mcp.example.com": "example", "example.com": "example", "www.api.x.org": "x", "localhost": "localhost", "127.0.0.1": "127.0.0.1",
		"::1": "1", "docs.example.com": "docs",
	} {
		if got := nameOf(host); got != want {
			t.Errorf("nameOf(%q) is %q, want %q", host, got, want)
		}
	}
}

func TestPassed(t *testing.T) {
	x := newTerminal(t)
	x.daemon.server = catalog.Server{Name: "s", Stdio: &catalog.Stdio{EnvPass: []string{"TAKEN"}}}
	home := x.env.Getenv
	x.env.Getenv = func(name string) string {
		if v, ok := map[string]string{"TAKEN": "1", "OTHER": "2"}[name]; ok {
			return v
		}
		return home(name)
	}
	got, err := x.env.passed(t.Context(), "s", []string{"TAKEN", "OTHER", "UNSET"})
	if diff := cmp.Diff(map[string]string{"TAKEN": "1", "OTHER": "2"}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, want := range []string{"--pass UNSET: the variable is not set here", "`mcpx server edit s --env-pass OTHER`"} {
		if !strings.Contains(x.err.String(), want) {
			t.Errorf("stderr %q, want %q", x.err.String(), want)
		}
	}
	if strings.Contains(x.err.String(), "TAKEN") {
		t.Errorf("a warning about what is right: %q", x.err.String())
	}
}

func TestImportNotes(t *testing.T) {
	x := newTerminal(t)
	file := filepath.Join(t.TempDir(), "mcp.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {
		"a": {"command": "x", "env": {"API_TOKEN": "hunter2hunter2"}}, "b": {"command": "x -y"}, "bad": {"command": 1}
	}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	x.daemon.imported = api.ImportReport{Entries: []api.ImportEntry{
		{Name: "a", Outcome: api.ImportCreated, Notes: []string{"it cannot be started yet: x not found"}},
		{Name: "b", Outcome: api.ImportUnchanged},
	}}
	if code := x.types("server", "import", file, "--json"); code != 1 || x.err.Len() > 0 {
		t.Fatalf("exit code %d, stderr %q", code, x.err.String())
	}
	var got api.ImportReport
	if err := json.Unmarshal(x.out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Entries) != 3 || len(got.Entries[0].Notes) != 2 || !strings.Contains(got.Entries[0].Notes[0], "mcpx daemon start") || len(got.Entries[1].Notes) != 0 {
		t.Errorf("%+v", got.Entries)
	}
	if !strings.HasPrefix(got.Entries[2].Text, "the field command is a number, want a text; ") {
		t.Errorf("%+v", got.Entries[2])
	}
	if x.types("server", "import", file); !strings.Contains(x.err.String(), "note: a: it cannot be started yet") {
		t.Errorf("stderr %q", x.err.String())
	}
}

func TestNotesForPrograms(t *testing.T) {
	x := newTerminal(t)
	if code := x.types("server", "add", "a", "--json", "--env", "API_TOKEN=ghp_0123456789abcdef0123456789abcdef0123", "--", "x"); code != 0 {
		t.Fatal(x.err.String())
	}
	var note noteLine
	if err := json.Unmarshal(x.err.Bytes(), &note); err != nil || !strings.HasPrefix(note.Note, "warning: ") {
		t.Errorf("%q: %v", x.err.String(), err)
	}
}

func TestErrorOfSeveralLines(t *testing.T) {
	x := newTerminal(t)
	x.env.report(errors.Join(fault.New(fault.Unavailable, "x").Saying("it ended:\n one\n two\n").Hinting("look")), false)
	if want := "mcpx: it ended:\n       one\n       two\n      look\n"; x.err.String() != want {
		t.Errorf("got %q, want %q", x.err.String(), want)
	}
}

func TestMayRestart(t *testing.T) {
	x := newTerminal(t)
	for _, c := range []struct {
		old    api.Daemon
		listen string
		code   string
		part   string
	}{
		{api.Daemon{Pid: 1, Detached: true, Listener: "127.0.0.1:1"}, "127.0.0.1:1", "", ""},
		{api.Daemon{}, "127.0.0.1:0", "", ""},
		{api.Daemon{Pid: 1, Up: true}, "", "daemon-foreground", "Ctrl-C"},
		{api.Daemon{Pid: 1}, "", "daemon-foreground", "mcpx serve"},
		{api.Daemon{Pid: 1, Detached: true}, "0.0.0.0:1", "setting-invalid", "only this machine"},
	} {
		err := x.env.mayRestart(c.old, c.listen)
		if (err == nil) != (c.code == "") {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if f := fault.From(err); err != nil && (f.Code != c.code || !strings.Contains(f.Error()+f.Hint, c.part)) {
			t.Errorf("%+v: %v", c, f)
		}
	}
}
