package wire

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// versioned builds the mcpx of a source tree with a version.
func versioned(t *testing.T, source, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcpx")
	cmd := exec.Command("go", "build", "-ldflags", "-X mcpx/internal/cli.release="+version, "-o", path, ".")
	cmd.Dir = source
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// TestUpgrade: another binary takes over; the supervisors stay of the old version until their server restarts, and ps
// shows it. The way back is the same.
func TestUpgrade(t *testing.T) {
	g := rig.Start(t)
	k, other := keep(t, g, "s", fakemcp.Options{}), keep(t, g, "other", fakemcp.Options{})
	old := g.Binary
	next := versioned(t, rig.Root(t), "9.9.9")
	if out := g.Must("daemon", "upgrade", "--binary", next); !strings.Contains(out, "version 9.9.9") {
		t.Errorf("the upgrade says %s", out)
	}
	k.unchanged(t, "2")
	g.Binary = next // the commands of the new version
	defer func() { g.Binary = old }()
	was := other.child
	g.Must("server", "restart", "other")
	c := rig.Open(t, g.URL("other"), "2025-11-25", `{}`)
	if got := number(t, definite(t, c, tool("3", "pid", `{}`), slack, "answer")); got == was {
		t.Errorf("pid %d answers after a restart of the server", got)
	}
	versions := map[string]bool{}
	for _, name := range []string{"s", "other"} {
		for _, p := range g.Processes(name) {
			versions[name+" "+p.Version] = true
		}
	}
	if len(versions) != 2 || !versions["other 9.9.9"] || versions["s 9.9.9"] {
		t.Errorf("the supervisors have versions %v", versions)
	}
	if out := g.Must("ps"); !strings.Contains(out, "VERSION") || !strings.Contains(out, "9.9.9") {
		t.Errorf("ps does not show that versions differ:\n%s", out)
	}
	g.Must("daemon", "upgrade", "--binary", old)
	k.unchanged(t, "4")
	if out := g.Must("daemon", "status", "--json"); strings.Contains(out, `"version": "9.9.9"`) {
		t.Errorf("the way back: %s", out)
	}
}
