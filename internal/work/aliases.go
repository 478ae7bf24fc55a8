package work

import (
	"context"
	"path"
	"slices"

	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// splits says whether a file of the project with several names may be replaced under one of them: the others keep the old bytes
// then. It may where its workspace says so, and where all of its names are in the scope.
func (g *integration) splits(ctx context.Context, at string) (linked, splits bool, err error) {
	p, err := g.at.root.Resolve(at, tree.Look)
	if err != nil {
		return false, false, err
	}
	defer p.Close()
	if p.Kind != tree.File || p.Links < 2 {
		return false, false, nil
	}
	if g.p.Break {
		return true, true, nil
	}
	if g.names == nil {
		if g.names, err = g.linked(ctx); err != nil {
			return false, false, err
		}
	}
	return true, g.names[p.ID] == p.Links, nil
}

// linked counts the names in the scope of each file of the project that has several.
func (g *integration) linked(ctx context.Context) (map[tree.ID]uint64, error) {
	top, err := g.at.root.Resolve(".", tree.List)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	names := map[tree.ID]uint64{}
	return names, top.Walk(ctx, tree.WalkOptions{Ignored: true}, func(v tree.Visit) error {
		if v.Kind != tree.File || !workspace.Inside(v.Path, g.p.Mutable) {
			return nil
		}
		if seen, err := v.Look(); err == nil && seen.Links > 1 { // one that is gone has no name
			names[seen.ID]++
		}
		return nil
	})
}

// aliases are the files of a copy with several names, and the links that lead out of the project or, from within the scope, out
// of that.
func (c *creation) aliases(got tree.Copied) []workspace.Left {
	all := slices.Clone(got.Linked)
	for _, i := range got.Manifest.Items {
		at := string(i.Path)
		if i.Kind != tree.Link || !c.mutable(at) || slices.ContainsFunc(got.Linked, func(l tree.Skipped) bool { return l.Path == at }) {
			continue
		}
		if !c.mutable(path.Join(path.Dir(at), i.Link)) {
			all = append(all, tree.Skipped{Path: at, Why: "symlink_out_of_scope"})
		}
	}
	return lefts(all)
}
