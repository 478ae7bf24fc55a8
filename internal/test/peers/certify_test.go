package peers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"mcpx/internal/certify"
	"mcpx/internal/test/rig"
)

// certifyWithin is the deadline of one certification: a dozen runs of an agent, the slowest of which needs a minute.
const certifyWithin = 20 * time.Minute

// shownCode is what a person is asked to type back.
var shownCode = regexp.MustCompile(`type (\w{4}) and press Enter`)

// TestCertify certifies agents with `mcpx certify`, on a terminal where this test is the person who agrees. CI tries two;
// `make certify` tries all, with the packages of `.ci/install agents`, and keeps the certificates.
func TestCertify(t *testing.T) {
	agents, out, all := []string{"claude_code", "codex"}, t.TempDir(), false
	if os.Getenv("MCPX_CERTIFY") != "" {
		agents, all = certify.Agents(), true
		if only := os.Getenv("MCPX_CERTIFY"); only != "all" {
			agents = strings.Split(only, ",")
		}
		out = filepath.Join(rig.Root(t), "docs", "certifications")
	}
	path := programs(t, all)
	for _, agent := range agents {
		t.Run(agent, func(t *testing.T) {
			c, seen := certified(t, agent, out, path)
			if c.Outcome != certify.Passed || c.Level != certify.LevelCalled {
				t.Errorf("%s, level %s\n%s", c.Outcome, c.Level, seen)
			}
		})
	}
	if all {
		listCertificates(t, out)
	}
}

// TestCertifyOneThatWrites: an agent that writes its file anew whenever it runs gets its entries back, and its bytes when
// it does not run in between.
func TestCertifyOneThatWrites(t *testing.T) {
	dir := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\n'%s' \"$@\"; code=$?\n[ \"$1\" = exec ] && echo '# one more run' >>\"$HOME/.codex/config.toml\"\nexit $code\n", modules(t, ".bin", "codex"))
	if err := os.WriteFile(filepath.Join(dir, "codex"), []byte(wrapper), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	c, seen := certified(t, "codex", t.TempDir(), dir+string(os.PathListSeparator)+programs(t, false))
	if c.Outcome != certify.Passed || c.Restored() != "entries, bytes" || c.Config.Used == c.Config.Applied {
		t.Errorf("%s, %q, %+v\n%s", c.Outcome, c.Restored(), c.Config, seen)
	}
}

// programs is a PATH with the agents. No install script ran, so two of them are called where their packages have them.
func programs(t *testing.T, all bool) string {
	system := runtime.GOOS + "-" + strings.Replace(runtime.GOARCH, "amd64", "x64", 1)
	dirs := []string{modules(t, "@anthropic-ai", "claude-code-"+system), modules(t, ".bin")}
	if all {
		dirs = append(dirs, rig.Cached(t, "agents", "package-lock.json", "node_modules", "opencode-"+system, "bin"),
			rig.Cached(t, "agents", "package-lock.json", "node_modules", ".bin"))
	}
	return strings.Join(append(dirs, os.Getenv("PATH")), string(os.PathListSeparator))
}

// certified runs the command and agrees to whatever it asks.
func certified(t *testing.T, agent, out, path string) (c certify.Certificate, seen string) {
	cmd := exec.Command(rig.Binary(t), "certify", agent, "--out", out, "--json")
	dir := t.TempDir()
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "MCPX_HOME=" + dir, "PATH=" + path, "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1"}
	var answer bytes.Buffer
	cmd.Stdout = &answer
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	stop := time.AfterFunc(certifyWithin, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop.Stop()
	var text strings.Builder
	answered := 0
	for chunk := make([]byte, 4096); ; {
		n, err := terminal.Read(chunk)
		text.Write(chunk[:n])
		if codes := shownCode.FindAllStringSubmatch(text.String(), -1); len(codes) > answered {
			answered = len(codes)
			if _, err := io.WriteString(terminal, codes[answered-1][1]+"\n"); err != nil {
				t.Fatalf("the terminal cannot be written: %v", err)
			}
		}
		if err != nil { // the system tells the end of the other side by an error
			break
		}
	}
	failed := cmd.Wait()
	if err := json.Unmarshal(answer.Bytes(), &c); err != nil {
		t.Fatalf("no certificate: %v, %v\n%s", failed, err, text.String())
	}
	if (failed == nil) != (c.Outcome == certify.Passed) {
		t.Errorf("%v, and the certificate says %s", failed, c.Outcome)
	}
	if answered < 2*2 {
		t.Errorf("a person was asked %d times, want for each apply and each rollback of two servers", answered)
	}
	return c, text.String()
}

// listCertificates writes the table of all that are kept.
func listCertificates(t *testing.T, dir string) {
	var b strings.Builder
	b.WriteString(certificatesIntro)
	for _, agent := range certify.Agents() {
		raw, err := os.ReadFile(filepath.Join(dir, agent+".json"))
		if err != nil {
			t.Error(err)
			continue
		}
		var c certify.Certificate
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Errorf("%s: %v", agent, err)
			continue
		}
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s | %s | %s | %s | %s |\n", agent, agent, c.Version, c.Outcome, c.Level, c.Restored(), c.System, c.Date.Format(time.DateOnly))
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), []byte(b.String()), 0o644); err != nil {
		t.Error(err)
	}
}

const certificatesIntro = `# Certificates

Written by ` + "`make certify`" + `: ` + "`mcpx certify AGENT`" + ` for each agent, with the packages that ` + "`.ci/agents` and `.ci/peers`" + ` pin. The
agent runs in a scratch home, with a stub in place of its model. It writes its own configuration, is run without mcpx,
through mcpx after a plan was approved on a terminal and applied, over a kill and a restart of the daemon between two calls
of one run, and without mcpx again after the rollback. Each page has the steps and the hashes of the file; the JSON beside
it is the same for programs. *File* says how the rollback left it: ` + "`bytes`" + `, as it was before the apply, byte for byte;
` + "`entries, bytes`" + `, the agent wrote it anew meanwhile, so the entries were put back, and an apply and rollback without a run in
between was exact.

| agent | version | outcome | level | file | system | date |
|---|---|---|---|---|---|---|
`
