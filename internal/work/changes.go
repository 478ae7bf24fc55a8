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

// changes compares a working copy with its BASE. Both are in the order of walks, and so is what comes of it.
func changes(w workspace.Workspace, base, now tree.Manifest) ([]change, error) {
	excludes, err := ignore.ParseGlobs(w.Excludes)
	if err != nil {
		return nil, err
	}
	var all []change
	add := func(path string, b, p tree.Item) {
		if entryOf(b) == entryOf(p) {
			return
		}
		inside := workspace.Inside(path, w.Mutable) || b.Kind == tree.Absent && p.Kind == tree.Directory && above(path, w.Mutable)
		all = append(all, change{path, b, p, inside && !excluded(excludes, path)})
	}
	was, is := base.Items, now.Items // both are in the order of walks
	first := func() int {
		switch {
		case len(is) == 0:
			return -1
		case len(was) == 0:
			return 1
		}
		return tree.Order(string(was[0].Path), string(is[0].Path))
	}
	for len(was)+len(is) > 0 {
		switch order := first(); {
		case order < 0:
			add(string(was[0].Path), was[0], tree.Item{Path: was[0].Path, Kind: tree.Absent})
			was = was[1:]
		case order > 0:
			add(string(is[0].Path), tree.Item{Path: is[0].Path, Kind: tree.Absent}, is[0])
			is = is[1:]
		default:
			add(string(is[0].Path), was[0], is[0])
			was, is = was[1:], is[1:]
		}
	}
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
