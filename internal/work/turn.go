package work

import (
	"context"
	"strings"

	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// turns says whether a path that is taken becomes a directory, or was one.
func (p pathPlan) turns() bool {
	return p.decision.Action == workspace.Take && p.current.Kind != tree.Absent && p.proposed.Kind != tree.Absent &&
		(p.current.Kind == tree.Directory) != (p.proposed.Kind == tree.Directory)
}

// frozen gives a directory of the project for which something else is proposed the digest of all that is in it: what a
// caller says that he has seen, and what has to be there when it goes.
func (g *integration) frozen(ctx context.Context, one *pathPlan) (tree.Manifest, error) {
	p, err := g.at.root.Resolve(one.path, tree.Look)
	if err != nil {
		return tree.Manifest{}, err
	}
	defer p.Close()
	m, err := p.Freeze(ctx, nil)
	one.current.Digest = m.Digest()
	return m, err
}

// turn makes one change of a directory that takes the place of something else, or the other way round, and all that is
// decided about paths below it. A directory in which the project has something that is not to be deleted stays: TYPE.
func (g *integration) turn(ctx context.Context, n int) error {
	one := &g.paths[n]
	below := g.paths[n+1:]
	end := 0
	for end < len(below) && workspace.Below(below[end].path, one.path) {
		end++
	}
	below = below[:end]
	in := tree.Intent{Kind: tree.Replace, Path: one.path}
	if one.proposed.Kind == tree.Directory {
		in.Dir = new([]tree.Below)
	} else if leaves, err := g.leavesNothing(ctx, one, below); err != nil || !leaves {
		one.decision = workspace.Decision{Action: workspace.Clash, Conflict: workspace.ConflictType}
		return err
	}
	for i := range below {
		b := &below[i]
		if b.decision.Action == workspace.Clash {
			continue // nothing is applied then
		}
		if err := g.allowed(ctx, *b); err != nil {
			return err
		}
		b.within = true
		if in.Dir != nil && b.proposed.Kind != tree.Absent {
			*in.Dir = append(*in.Dir, tree.Below{
				Path: strings.TrimPrefix(b.path, one.path+"/"), Kind: b.proposed.Kind, Exec: b.proposed.Mode&0o100 != 0, Link: b.proposed.Link, From: g.from(ctx, *b),
			})
		}
	}
	if err := g.allowed(ctx, *one); err != nil {
		return err
	}
	one.within, in.Expect = true, one.current.Digest
	switch one.proposed.Kind {
	case tree.Link:
		in.Link = &one.proposed.Link
	case tree.File:
		in.From, in.Exec = g.from(ctx, *one), one.proposed.Mode&0o100 != 0
	case tree.Directory, tree.Other, tree.Absent:
	}
	return g.will(ctx, in)
}

// leavesNothing says whether all that the project has in a directory is to be deleted, or was seen by the caller.
func (g *integration) leavesNothing(ctx context.Context, one *pathPlan, below []pathPlan) (bool, error) {
	m, err := g.frozen(ctx, one)
	if err != nil || g.in.Seen[one.path] == one.current.Digest {
		return err == nil, err
	}
	deleted := map[string]tree.Item{}
	for _, b := range below {
		if b.decision.Action == workspace.Take && b.proposed.Kind == tree.Absent {
			deleted[b.path] = b.current
		}
	}
	for _, i := range m.Items {
		if i.Path == "." {
			continue
		}
		if d, ok := deleted[one.path+"/"+string(i.Path)]; !ok || entryOf(d) != entryOf(i) {
			return false, nil
		}
	}
	return true, nil
}
