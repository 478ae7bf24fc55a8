package work

import (
	"context"
	"encoding/json"
	"strings"

	"mcpx/internal/approval"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// question asks a person when a path makes other programs act. The yes is to exactly what will be in the project afterwards.
func (g *integration) question() *Question {
	if len(g.reasons) == 0 {
		return nil
	}
	type frozen struct {
		Path              string
		Decision          workspace.Decision
		Current, Proposed workspace.Entry
		Merged            string // digest of the bytes of a merge
	}
	var all []frozen
	for _, one := range g.paths {
		f := frozen{Path: one.path, Decision: one.decision, Current: entryOf(one.current), Proposed: entryOf(one.proposed)}
		if one.merged != nil {
			f.Merged = digest(one.merged.Raw())
		}
		all = append(all, f)
	}
	raw, err := json.Marshal(all)
	if err != nil {
		panic("work: a record of texts cannot be written: " + err.Error())
	}
	return &Question{Kind: approval.KindFileWrite, Subject: digest(append([]byte("mcpx integration 2\n"+g.p.ID+"\n"), raw...)), Display: g.display, Reasons: few(g.reasons, maxReasons)}
}

// show says what a person is asked about: each path with its mode, and the lines that change.
func (g *integration) show(ctx context.Context) string {
	var names, lines strings.Builder
	for _, one := range g.paths {
		if one.decision.Action == workspace.Keep {
			continue
		}
		names.WriteString(one.line() + "\n")
		if lines.Len() <= maxPatches {
			lines.WriteString(g.lines(ctx, one))
		}
	}
	return names.String() + lines.String()
}

// line is what becomes of a path in short.
func (p pathPlan) line() string {
	line := change{path: p.path, base: p.current, proposed: p.proposed}.kind() + " " + text.EncodePath(p.path)
	was, now := entryOf(p.current).Exec, entryOf(p.proposed).Exec
	if p.decision.Action != workspace.Take {
		now = p.decision.Exec
	}
	switch {
	case p.proposed.Kind == tree.Link:
		return line + " -> " + text.EncodePath(p.proposed.Link)
	case p.proposed.Kind == tree.File && now && !was:
		return line + ", executable"
	case p.proposed.Kind == tree.File && was && !now:
		return line + ", not executable any more"
	}
	return line
}

// lines are the lines of the project's file that change; "" those of one that is no text, or too large, or has none.
func (g *integration) lines(ctx context.Context, p pathPlan) string {
	from, to := text.Parse(nil), p.merged
	if p.current.Kind == tree.File {
		got, err := g.s.bytes(ctx, g.at, p.path, maxPatch)
		if err != nil {
			return ""
		}
		from = text.Parse(got.Data)
	}
	switch {
	case to != nil:
	case p.decision.Action == workspace.Mix && !p.decision.Proposed:
		return "" // its mode alone
	case p.proposed.Kind == tree.File:
		got, err := g.s.bytes(ctx, g.copy, p.path, maxPatch)
		if err != nil {
			return ""
		}
		to = text.Parse(got.Data)
	default:
		to = text.Parse(nil)
	}
	return text.Diff(p.path, p.path, from, to)
}
