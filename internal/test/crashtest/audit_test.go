package crashtest

import (
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/test/rig"
)

// children is what `mcpx ps` shows: pid of the child to pid of its supervisor.
func children(t *testing.T, g *rig.Gateway) map[int]int {
	t.Helper()
	page, err := g.API().Processes(t.Context(), api.ProcessQuery{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[int]int{}
	for _, p := range page.Processes {
		if p.Pid != 0 {
			all[p.Pid] = p.Supervisor
		}
	}
	return all
}

// leftovers are bundles, sockets and temporary files below a home whose daemon has ended with its children.
func leftovers(t *testing.T, home string) []string {
	t.Helper()
	var left []string
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(home, path) // path begins with home
		switch {
		case strings.HasPrefix(name, filepath.Join("state", "bundles")+"/"),
			strings.HasPrefix(name, filepath.Join("state", "quarantine")+"/"),
			d.Type() == fs.ModeSocket,
			strings.Contains(d.Name(), ".tmp-"):
			left = append(left, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return left
}
