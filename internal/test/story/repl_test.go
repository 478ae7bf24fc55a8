package story

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"mcpx/internal/test/rig"
)

// replHome is a home for one session of the REPL, and the environment that leads there.
func replHome(t *testing.T) (binary string, environ []string) {
	t.Helper()
	binary = rig.Binary(t)
	home, err := os.MkdirTemp("", "mx") //nolint:usetesting // the path of a unix socket has about 100 bytes
	if err != nil {
		t.Fatal(err)
	}
	environ = []string{
		"MCPX_HOME=" + home, "HOME=" + t.TempDir(), "MCPX_LISTENER_ADDRESS=127.0.0.1:0", "TERM=xterm",
		"PATH=" + filepath.Dir(binary) + string(filepath.ListSeparator) + os.Getenv("PATH"),
	}
	t.Cleanup(func() { tidy(t, binary, home, environ) })
	return binary, environ
}

// TestREPLOnATerminal: a person gets a prompt, mistypes, goes on, and Ctrl-C ends what runs and nothing else.
func TestREPLOnATerminal(t *testing.T) {
	binary, environ := replHome(t)
	cmd := exec.Command(binary, "tui", "--repl")
	cmd.Env = environ
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 160})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	stop := time.AfterFunc(within, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	var seen strings.Builder
	at := 0 // behind what was waited for last
	until := func(what string) {
		t.Helper()
		chunk := make([]byte, 4096)
		for !strings.Contains(seen.String()[at:], what) {
			n, err := terminal.Read(chunk)
			seen.Write(chunk[:n])
			if err != nil {
				t.Fatalf("waiting for %q: %v\n%s", what, err, seen.String())
			}
		}
		at += strings.Index(seen.String()[at:], what) + len(what)
	}
	types := func(text string) {
		t.Helper()
		if _, err := io.WriteString(terminal, text); err != nil {
			t.Fatal(err)
		}
	}
	until("mcpx> ")
	types("plnas\n")
	until("did you mean `plans`?")
	until("mcpx> ")
	types("/plans\n")
	until("No plans.")
	until("mcpx> ")
	types("watch\n")
	until("watch")
	types("\x03") // while it watches, or before it does: either way the next prompt comes
	until("mcpx> ")
	types("help quit\n")
	until("end")
	until("mcpx> ")
	types("quit\n")
	_, err = io.Copy(&seen, terminal)
	if waited := cmd.Wait(); waited != nil {
		t.Errorf("%v (%v)\n%s", waited, err, seen.String())
	}
}

// TestREPLInTmux drives the same program in tmux, as a person would.
func TestREPLInTmux(t *testing.T) {
	tmux, err := exec.LookPath("tmux")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("tmux is not installed")
		}
		t.Skip("tmux is not installed")
	}
	binary, environ := replHome(t)
	socket := filepath.Join(t.TempDir(), "tmux")
	do := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(tmux, append([]string{"-S", socket, "-f", "/dev/null"}, args...)...)
		cmd.Env = environ
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("tmux %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	do("new-session", "-d", "-s", "repl", "-x", "160", "-y", "50", binary+" tui --repl; echo ended with $?; read wait")
	t.Cleanup(func() {
		cmd := exec.Command(tmux, "-S", socket, "kill-server")
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Error(err)
		}
	})
	shows := func(what string) {
		t.Helper()
		var screen string
		for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if screen = do("capture-pane", "-p", "-t", "repl"); strings.Contains(screen, what) {
				return
			}
		}
		t.Fatalf("the screen never shows %q:\n%s", what, screen)
	}
	shows("mcpx>")
	do("send-keys", "-t", "repl", "dashboard", "Enter")
	shows("mcpx: ")
	do("send-keys", "-t", "repl", "/aprovals", "Enter")
	shows("did you mean `approvals`?")
	do("send-keys", "-t", "repl", "approvals", "Enter")
	shows("Nothing waits for a person.")
	do("send-keys", "-t", "repl", "quit", "Enter")
	shows("ended with 0")
}
