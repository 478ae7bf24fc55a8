package wire

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/process"
	"mcpx/internal/test/rig"
)

// TestDaemonOfACommand: a daemon that is started within a command of another one, or gets the environment of such a command, has not
// its temporary directory: by that the remains of the command are found, and killed.
func TestDaemonOfACommand(t *testing.T) {
	g := rig.New(t)
	temp := filepath.Join(t.TempDir(), process.JobTemps(), "job_1.1")
	if err := os.MkdirAll(temp, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"daemon", "start", "--listen", g.Addr}, {"daemon", "restart", "--env"}} {
		cmd := exec.Command(g.Binary, args...)
		cmd.Env, cmd.Dir = g.Environ("TMPDIR="+temp, "MARK="+args[1]), g.Home
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		if args[1] == "start" {
			t.Cleanup(func() { g.Must("daemon", "stop") })
		}
		status, err := g.API().DaemonStatus(t.Context(), api.None{})
		if err != nil {
			t.Fatal(err)
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", status.Pid))
		if err != nil || !bytes.Contains(environ, []byte("MARK="+args[1]+"\x00")) {
			t.Fatalf("%v: %q, %v", args, environ, err)
		}
		if bytes.Contains(environ, []byte("TMPDIR=")) {
			t.Errorf("%v: the daemon has the temporary directory of a command", args)
		}
	}
}
