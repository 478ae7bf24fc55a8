package shim_test

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/gateway"
	"mcpx/internal/shim"
)

// TestScope starts servers below a systemd unit: with a systemd-run that does what the real one does, with one that
// fails, and without one.
func TestScope(t *testing.T) {
	good := "#!/bin/sh\necho \"$@\" >>\"$0.log\"\nwhile [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n"
	bad := "#!/bin/sh\necho \"$@\" >>\"$0.log\"\nexit 1\n"
	for name, c := range map[string]struct {
		script string
		asked  int // how often systemd-run is called for two servers
		warned bool
	}{
		"scope":         {good, 2, false},
		"failing":       {bad, 1, true},
		"not installed": {"", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.script != "" {
				if err := os.WriteFile(filepath.Join(dir, "systemd-run"), []byte(c.script), 0o700); err != nil {
					t.Fatal(err)
				}
				t.Setenv("PATH", dir+":/usr/bin:/bin")
			} else {
				t.Setenv("PATH", dir)
			}
			l, err := net.Listen("unix", filepath.Join(mkdir(filepath.Join(dir, "systemd")), "private"))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var log bytes.Buffer
			r := newRig(t, func(cfg *shim.Config) {
				cfg.Environ = append(os.Environ(), "INVOCATION_ID=1", "XDG_RUNTIME_DIR="+dir)
				cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
			})
			for range 2 {
				l, s := r.open(t, false)
				do(t, l, s, 1, "where", "", nil)
				if got := l.(gateway.Program).File(); got != gateway.FileSame {
					t.Errorf("the program of a child that runs is %s", got)
				}
			}
			asked, _ := os.ReadFile(filepath.Join(dir, "systemd-run.log"))
			if got := strings.Count(string(asked), "--user --scope --collect --quiet -- "); got != c.asked {
				t.Errorf("systemd-run was called %d times, want %d:\n%s", got, c.asked, asked)
			}
			if got := strings.Count(log.String(), "KillMode=process"); got != map[bool]int{false: 0, true: 1}[c.warned] {
				t.Errorf("%d warnings:\n%s", got, log.String())
			}
		})
	}
}
