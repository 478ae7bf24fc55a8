package work

import (
	"context"
	"slices"

	"mcpx/internal/ignore"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// change is a path that differs between BASE and the working copy.
type change struct {
	path           string
	base, proposed tree.Item
	inside         bool // of the scope
}

// changes compares a working copy with its BASE, in the order of walks.
func changes(w workspace.Workspace, base, now tree.Manifest) ([]change, error) {
	excludes, err := ignore.ParseGlobs(w.Excludes)
	if err != nil {
		return nil, err
	}
	was := byPath(base)
	var all []change
	add := func(path string, b, p tree.Item) {
		if entryOf(b) == entryOf(p) {
			return
		}
		inside := workspace.Inside(path, w.Mutable) || b.Kind == tree.Absent && p.Kind == tree.Directory && above(path, w.Mutable)
		all = append(all, change{path, b, p, inside && !excluded(excludes, path)})
	}
	for _, i := range now.Items {
		path := string(i.Path)
		b, ok := was[path]
		if !ok {
			b = tree.Item{Path: i.Path, Kind: tree.Absent}
		}
		delete(was, path)
		add(path, b, i)
	}
	for path, b := range was {
		add(path, b, tree.Item{Path: b.Path, Kind: tree.Absent})
	}
	slices.SortFunc(all, func(a, b change) int { return walkOrder(a.path, b.path) })
	return all, nil
}

// above says whether a directory leads to one of the scopes: it may be new with what is in it.
func above(dir string, scopes []workspace.Scope) bool {
	return slices.ContainsFunc(scopes, func(s workspace.Scope) bool { return workspace.Below(s.Path, dir) })
}

// excluded says whether a path, or a directory that it is in, fits a glob.
func excluded(globs ignore.Globs, path string) bool {
	for i := range len(path) {
		if path[i] == '/' && globs.Fit(path[:i]) {
			return true
		}
	}
	return globs.Fit(path)
}

// kind says in a word what was done to a path.
func (c change) kind() string {
	switch {
	case c.base.Kind == tree.Absent:
		return "added"
	case c.proposed.Kind == tree.Absent:
		return "deleted"
	case c.base.Kind != c.proposed.Kind:
		return "type"
	case c.base.Digest == c.proposed.Digest:
		return "mode"
	}
	return "modified"
}

// split are the changes inside and outside of the scope.
func split(all []change) (inside, outside []change) {
	for _, c := range all {
		if c.inside {
			inside = append(inside, c)
		} else {
			outside = append(outside, c)
		}
	}
	return inside, outside
}

// diffOf is how a working copy differs from its BASE.
func (s *Service) diffOf(ctx context.Context, p packet, x *target) (base tree.Manifest, all []change, err error) {
	if base, err = p.base(); err != nil {
		return base, nil, err
	}
	now, err := proposed(ctx, p, x)
	if err != nil {
		return base, nil, err
	}
	all, err = changes(p.Workspace, base, now)
	return base, all, err
}

// pathsOf names changes.
func pathsOf(all []change) []string {
	paths := make([]string, len(all))
	for i, c := range all {
		paths[i] = text.EncodePath(c.path)
	}
	return paths
}

// firstOf is a list cut to what an answer may name, with how many are left out.
func firstOf(paths []string, most int) ([]string, int) {
	if len(paths) <= most {
		return paths, 0
	}
	return paths[:most], len(paths) - most
}
