package work

import (
	"bytes"
	"context"
	"io/fs"
	"path"

	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// Bounds of looking for renames: they are hints, and each costs reading files.
const (
	maxRenamed   = 50       // deleted files that are looked at
	maxRenamedTo = 200      // new files that each is compared with
	maxRenameOf  = 1 << 20  // bytes of a file
	maxRenames   = 32 << 20 // bytes of all of them
)

// renames says of files that were deleted in the workspace under which new name it seems to have them: of one that the project
// has changed, and of one that seems to have another new name there. Nothing is applied by that: the bundle of the conflict has
// what the project changed, merged into the new file. The conflict on a changed file stands, although the caller has seen it,
// until that was done or the workspace's side was chosen. What cannot be read gives no hint.
func (g *integration) renames(ctx context.Context) {
	var gone []*pathPlan
	var added []string
	for i := range g.paths {
		one := &g.paths[i]
		switch {
		case one.base.Kind == tree.File && one.proposed.Kind == tree.Absent:
			if len(gone) < maxRenamed && g.renamable(*one) {
				gone = append(gone, one)
			}
		case one.base.Kind == tree.Absent && one.proposed.Kind == tree.File && one.proposed.Size <= maxRenameOf && len(added) < maxRenamedTo:
			added = append(added, one.path)
		}
	}
	if len(gone) == 0 || len(added) == 0 {
		return
	}
	h := &renamed{g: g, room: maxRenames}
	h.ours = h.read(ctx, g.copy, added)
	for _, one := range gone {
		h.hint(ctx, one)
	}
}

// renamable says whether a rename of a file that the workspace does not have any more is of interest: the project has changed it, or
// does not have it either.
func (g *integration) renamable(one pathPlan) bool {
	switch one.current.Kind {
	case tree.File:
		seen := one.decision.Action == workspace.Take && one.current.Digest != one.base.Digest && g.in.Accept[one.path] == ""
		return seen || one.decision.Conflict == workspace.ConflictDeleteModify
	case tree.Absent:
		return g.in.Seen[one.path] == ""
	case tree.Directory, tree.Link, tree.Other:
	}
	return false
}

// renamed looks for renames in one integration.
type renamed struct {
	g      *integration
	room   int     // bytes that may still be read
	ours   []lined // new files of the workspace
	theirs []lined // of the project
	looked bool    // for those
}

// lined is a file with its lines counted.
type lined struct {
	path  string
	data  []byte
	lines map[string]int
	count int
}

func linedOf(path string, data []byte) lined {
	l := lined{path: path, data: data, lines: map[string]int{}}
	for line := range bytes.SplitAfterSeq(data, []byte("\n")) {
		if len(line) > 0 {
			l.lines[string(line)]++
			l.count++
		}
	}
	return l
}

// like is the share of lines that two files have in common.
func (l lined) like(other lined) float64 {
	common := 0
	for line, n := range l.lines {
		common += min(n, other.lines[line])
	}
	return float64(common) / float64(max(l.count, other.count, 1))
}

// most is the file that is most like another one, and at least half of it.
func (l lined) most(all []lined) (best lined) {
	alike := 0.5
	for _, one := range all {
		if share := l.like(one); share >= alike {
			alike, best = share, one
		}
	}
	return best
}

// read reads those of some files that can be read, and for which there is room.
func (h *renamed) read(ctx context.Context, x *target, paths []string) (all []lined) {
	for _, path := range paths {
		got, err := h.g.s.bytes(ctx, x, path, min(maxRenameOf, int64(h.room)))
		if err != nil {
			continue
		}
		h.room -= len(got.Data)
		all = append(all, linedOf(path, got.Data))
	}
	return all
}

// hint looks whether one file seems to be renamed.
func (h *renamed) hint(ctx context.Context, one *pathPlan) {
	raw, err := h.g.p.dir.Bytes(one.base.Digest, maxRenameOf)
	if err != nil {
		return // too large for a hint, or not kept
	}
	base := linedOf(one.path, raw)
	to := base.most(h.ours)
	if to.path == "" {
		return
	}
	if one.current.Kind == tree.Absent {
		theirs := base.most(h.others(ctx))
		if theirs.path == "" || theirs.path == to.path {
			return
		}
		one.renamed, one.theirs = to.path, theirs.path
		one.decision = workspace.Decision{Action: workspace.Clash, Conflict: workspace.ConflictRenameRename}
		one.marked, _ = merged(raw, theirs.data, to.data)
		return
	}
	one.renamed = to.path
	seen := one.decision.Action == workspace.Take
	if !seen {
		one.decision.Conflict = workspace.ConflictRenameModify
	}
	current, err := h.g.s.bytes(ctx, h.g.at, one.path, maxRenameOf)
	if err != nil {
		return // without the project's bytes there is no merge to show, and the conflict stands
	}
	var clean bool
	one.marked, clean = merged(raw, current.Data, to.data)
	if seen && one.marked != "" && string(to.data) != one.marked && h.g.asShown(ctx, one, clean) {
		one.decision = workspace.Decision{Action: workspace.Clash, Conflict: workspace.ConflictRenameModify}
	}
}

// merged is the merge of two changes of a text, with marks where they touch.
func merged(base, current, proposed []byte) (marked string, clean bool) {
	m := text.Merge(text.Parse(base), text.Parse(current), text.Parse(proposed))
	if m.Outcome == text.Clean {
		return string(m.After.Raw()), true
	}
	return m.Marked, false
}

// others are the files in the scope that only the project has, and did not have before.
func (h *renamed) others(ctx context.Context) []lined {
	if h.looked {
		return h.theirs
	}
	h.looked = true
	top, err := h.g.at.root.Resolve(".", tree.List)
	if err != nil {
		return nil
	}
	defer top.Close()
	scope := h.g.p.Mutable
	var paths []string
	_ = top.Walk(ctx, tree.WalkOptions{Ignored: true}, func(v tree.Visit) error { // what it cannot go into has no hints
		switch {
		case len(paths) == maxRenamedTo:
			return fs.SkipAll
		case v.Kind == tree.Directory && !workspace.Inside(v.Path, scope) && !above(v.Path, scope):
			return fs.SkipDir
		case v.Kind == tree.File && workspace.Inside(v.Path, scope) && h.g.base.Find(v.Path).Kind == tree.Absent:
			paths = append(paths, v.Path)
		}
		return nil
	})
	h.theirs = h.read(ctx, h.g.at, paths)
	return h.theirs
}

// asShown says whether the merge of a renamed file is the one in its bundle: nothing was done about the conflict since. Without
// a bundle that can be told of a clean merge only: what the project changed is not in the new file.
func (g *integration) asShown(ctx context.Context, one *pathPlan, clean bool) bool {
	got, err := g.s.bytes(ctx, g.copy, path.Join(conflictsDir, one.path, "MERGED"), maxBundle)
	if err != nil {
		return clean
	}
	return bytes.Equal(got.Data, []byte(one.marked))
}
