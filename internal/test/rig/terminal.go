package rig

import (
	"errors"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/creack/pty"
)

// codeShown is what a person is asked to type back.
var codeShown = regexp.MustCompile(`type (\w{4}) and press Enter`)

// Agrees types back every code that a person is asked for, for OnTerminal.
func Agrees() func(seen string) string {
	answered := 0
	return func(seen string) string {
		codes := codeShown.FindAllStringSubmatch(seen, -1)
		if len(codes) <= answered {
			return ""
		}
		answered = len(codes)
		return codes[answered-1][1]
	}
}

// OnTerminal runs a command on a terminal of its own and gives all that a person saw there. says is asked for the line that
// the person types, "" none, with what has been seen until then. That the command failed is no error: its state says so.
func OnTerminal(cmd *exec.Cmd, says func(seen string) string) (string, error) {
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 50, Cols: 200})
	if err != nil {
		return "", err
	}
	defer terminal.Close()
	stop := time.AfterFunc(runWithin, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	var seen strings.Builder
	chunk := make([]byte, 4096)
	for err == nil { // the system tells the end of the other side by an error
		var n int
		n, err = terminal.Read(chunk)
		seen.Write(chunk[:n])
		if text := says(seen.String()); text != "" {
			if _, err := io.WriteString(terminal, text+"\n"); err != nil {
				return seen.String(), err
			}
		}
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = nil
	}
	return strings.ReplaceAll(seen.String(), "\r\n", "\n"), err
}

// Person runs a command that has to succeed at a terminal, where a person agrees to what it asks, and gives what was seen.
func (g *Gateway) Person(args ...string) string {
	g.t.Helper()
	cmd := exec.Command(g.Binary, args...)
	cmd.Env, cmd.Dir = append(g.Environ(), "TERM=dumb", "NO_COLOR=1"), g.Home
	seen, err := OnTerminal(cmd, Agrees())
	if err != nil || cmd.ProcessState.ExitCode() != 0 {
		g.t.Fatalf("mcpx %s: %v\n%s", strings.Join(args, " "), err, seen)
	}
	return seen
}
