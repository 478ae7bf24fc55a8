package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/process"
)

func TestLoadPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	if p, err := LoadPolicy(path); err != nil || !cmp.Equal(p.Plans, converge.Policy{}) {
		t.Errorf("no file: %+v, %v", p, err)
	}
	for text, want := range map[string]converge.Policy{
		"":                                      {},
		"unknown = \"block\"\nauto = [\"low\"]": {Unknown: converge.UnlistedBlock, Auto: []converge.RiskClass{converge.RiskLow}},
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := LoadPolicy(path); err != nil || !cmp.Equal(p.Plans, want) {
			t.Errorf("%q: %+v, %v", text, p, err)
		}
	}
	if err := os.WriteFile(path, []byte("[tools]\nallow = [\"notes/add\"]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p, err := LoadPolicy(path); err != nil || !p.Tools.Allow("notes", "add") || p.Tools.Allow("notes", "remove") {
		t.Errorf("tools: %+v, %v", p, err)
	}
	for text, want := range map[string]string{
		"auto = [\"high\"]":                 "always need a person",
		"unknown = \"maybe\"":               "maybe",
		"\nauto = \"low\"":                  "line 2",
		"\nautos = []":                      "there is no autos",
		"[commands]\n\nlift = [\"rm.rot\"]": "line 3: commands.lift: \"rm.rot\" is no rule",
		"[[commands.rule]]\nid = \"a\"\ndecision = \"deny\"\nprogram = \"x\"\n[[commands.rule]]\nid = \"A\"":  "line 6: commands.rule[1].id: want small letters",
		"[[commands.rule]]\nid = \"a\"\ndecision = \"deny\"\nprogram = \"x\"\n[commands.rule.args]\nsome = 1": "line 6: commands.rule[0].args.some",
		"[[commands.rule]]\nid = \"a\"\nprogram = \"x\"":                                                      "line 1: commands.rule[0].decision",
		"[commands]\nrule = [\n{ id = \"a\" },\n{ id = 1 },\n]":                                               "line 3: commands.rule[0].decision",
		"[files]\ndeny = [\"a\",\n\"[b\"]":                                                                    "line 2: files.deny",
		"[command]\ncontained = \"allow\"":                                                                    "line 1: there is no command",
		"[tools]\nallow = [\"a/b*\"]":                                                                         "tools.allow: \"a/b*\" is neither SERVER/TOOL nor SERVER/*",
		"commands = 1":                                                                                        "line 1",
		"x":                                                                                                   "line 1",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := LoadPolicy(path)
		if f := fault.From(err); f == nil || f.Code != "policy-invalid" || !strings.Contains(f.Message, want) || f.Hint == "" {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestPerson: who has no terminal is no person, and neither is what this daemon has started, whatever terminal it has.
func TestPerson(t *testing.T) {
	if _, err := process.TerminalOf(os.Getpid()); errors.Is(err, process.ErrUnknown) {
		t.Skip("skip: this system does not tell the terminal of a process")
	}
	d := run(t, config(t))
	alone := exec.Command("sleep", "60")
	alone.SysProcAttr = detached()
	seated := exec.Command("sleep", "60")
	terminal, err := pty.Start(seated)
	if err := errors.Join(err, alone.Start()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = terminal.Close()
		for _, cmd := range []*exec.Cmd{alone, seated} {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	for pid, want := range map[int]string{0: "not known which program", alone.Process.Pid: "has no terminal", seated.Process.Pid: "was started by the daemon"} {
		_, err := d.person(pid)
		if f := fault.From(err); f == nil || f.Kind != fault.Denied || f.Code != "no-person" || !strings.Contains(f.Message, want) {
			t.Errorf("%d: %v, want %q", pid, err, want)
		}
	}
}

func TestCheckBackup(t *testing.T) {
	d := run(t, config(t))
	dir := filepath.Join(backups(d.cfg.Paths), "rcp_1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "0"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	written := func(name, sum string) converge.Written {
		return converge.Written{Backup: name, Before: converge.Expected{SHA256: sum}}
	}
	if err := d.checkBackup("rcp_1", written("0", abc)); err != nil {
		t.Error(err)
	}
	for name, f := range map[string]converge.Written{"differs": written("0", "00"), "gone": written("1", abc), "elsewhere": written("../0", abc)} {
		if err := d.checkBackup("rcp_1", f); fault.From(err).Code != "backup-differs" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
