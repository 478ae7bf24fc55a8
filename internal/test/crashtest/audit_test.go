package crashtest

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/test/rig"
)

// childrenOf is what `mcpx ps` shows: pid of the child to pid of its supervisor.
func childrenOf(ctx context.Context, g *rig.Gateway) (map[int]int, error) {
	page, err := g.API().Processes(ctx, api.ProcessQuery{})
	if err != nil {
		return nil, err
	}
	all := map[int]int{}
	for _, p := range page.Processes {
		if p.Pid != 0 {
			all[p.Pid] = p.Supervisor
		}
	}
	return all, nil
}

// children is childrenOf for a daemon that runs.
func children(t *testing.T, g *rig.Gateway) map[int]int {
	t.Helper()
	all, err := childrenOf(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// leftovers are bundles, sockets and temporary files below a home whose daemon has ended with its children. A copy of a project that was
// cut off is none: it is put aside, and told of.
func leftovers(t *testing.T, home string) []string {
	t.Helper()
	var left []string
	err := filepath.WalkDir(home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(home, path) // path begins with home
		switch {
		case strings.HasPrefix(name, filepath.Join("state", "quarantine", "ws_")),
			strings.HasPrefix(name, filepath.Join("state", "quarantine", "cand_")): // what was sealed before a kill is put aside
			return fs.SkipDir
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
