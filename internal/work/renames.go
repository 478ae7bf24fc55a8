package work

import (
	"bytes"
	"context"
	"path"

	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// Bounds of looking for renames: they are hints, and each costs reading two files.
const (
	maxRenamed   = 50      // conflicts that are looked at
	maxRenamedTo = 200     // new files that each is compared with
	maxRenameOf  = 1 << 20 // bytes of a file
)

// renames says of each file that was deleted in the workspace and changed in the project under which new name the workspace
// seems to have it. Nothing is applied by that: the bundle of the conflict has what the project changed, merged into the new file.
// The conflict stands, although the caller has seen it, until that was done or the workspace's side was chosen.
func (g *integration) renames(ctx context.Context) error {
	var added []pathPlan
	for _, one := range g.paths {
		if one.base.Kind == tree.Absent && one.proposed.Kind == tree.File && one.proposed.Size <= maxRenameOf && len(added) < maxRenamedTo {
			added = append(added, one)
		}
	}
	looked := 0
	for i := range g.paths {
		one := &g.paths[i]
		if one.base.Kind != tree.File || one.current.Kind != tree.File || one.proposed.Kind != tree.Absent || len(added) == 0 || looked == maxRenamed {
			continue
		}
		seen := one.decision.Action == workspace.Take && one.current.Digest != one.base.Digest && g.in.Accept[one.path] == ""
		if one.decision.Conflict != workspace.ConflictDeleteModify && !seen {
			continue
		}
		looked++
		if err := g.rename(ctx, one, added); err != nil {
			return err
		}
	}
	return nil
}

func (g *integration) rename(ctx context.Context, one *pathPlan, added []pathPlan) error {
	base, err := g.p.dir.Bytes(one.base.Digest, maxRenameOf)
	if err != nil {
		return nil // too large for a hint, or not kept
	}
	best, data := 0.5, []byte(nil)
	for _, to := range added {
		got, err := g.s.bytes(ctx, g.copy, to.path, maxRenameOf)
		if err != nil {
			return err
		}
		if alike := likeness(base, got.Data); alike >= best {
			best, one.renamed, data = alike, to.path, got.Data
		}
	}
	if one.renamed == "" {
		return nil
	}
	seen := one.decision.Action == workspace.Take
	if !seen {
		one.decision.Conflict = workspace.ConflictRenameModify
	}
	current, err := g.s.bytes(ctx, g.at, one.path, maxRenameOf)
	if err != nil {
		return nil // without the project's bytes there is no merge to show, and the conflict stands
	}
	m := text.Merge(text.Parse(base), text.Parse(current.Data), text.Parse(data))
	if one.marked = m.Marked; m.Outcome == text.Clean {
		one.marked = string(m.After.Raw())
	}
	if seen && one.marked != "" && !bytes.Equal(data, []byte(one.marked)) && g.asShown(ctx, one, m.Outcome == text.Clean) {
		one.decision = workspace.Decision{Action: workspace.Clash, Conflict: workspace.ConflictRenameModify}
	}
	return nil
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

// likeness is the share of lines that two files have in common.
func likeness(a, b []byte) float64 {
	lines := map[string]int{}
	of := bytes.SplitAfter(a, []byte("\n"))
	for _, l := range of {
		lines[string(l)]++
	}
	other, common := bytes.SplitAfter(b, []byte("\n")), 0
	for _, l := range other {
		if len(l) > 0 && lines[string(l)] > 0 {
			lines[string(l)]--
			common++
		}
	}
	return float64(common) / float64(max(lineCount(of), lineCount(other), 1))
}

// lineCount leaves out what stands behind the last line end, if that is nothing.
func lineCount(lines [][]byte) int {
	if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
		return n - 1
	}
	return len(lines)
}
