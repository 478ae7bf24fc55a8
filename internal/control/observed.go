package control

import (
	"context"
	"fmt"

	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/store"
)

// place is one file of one agent.
type place struct{ agent, path string }

// keep stores what was seen and what is wrong with it where that differs from what was known, and tells of it. An
// observation that equals the last one writes nothing.
func (c *Control) keep(ctx context.Context, tx store.Tx, w converge.World) error {
	before := map[place]converge.FileRecord{}
	for _, r := range w.Records {
		before[place{r.File.Agent, r.File.Path}] = r
	}
	troubles := converge.Drift(w)
	told := map[place][]converge.Trouble{}
	for _, t := range troubles {
		told[place{t.Agent, t.Path}] = append(told[place{t.Agent, t.Path}], t)
	}
	for _, next := range converge.Records(w, troubles) {
		at := place{next.File.Agent, next.File.Path}
		old, there := before[at]
		if there && next.Same(old) {
			continue
		}
		if err := tx.PutFileRecord(ctx, converge.PutFileRecord{Record: next}); err != nil {
			return err
		}
		if err := c.tellFile(ctx, tx, old, next, told[at], there); err != nil {
			return err
		}
	}
	return nil
}

// tellFile tells what is new about one file.
func (c *Control) tellFile(ctx context.Context, tx store.Tx, old, next converge.FileRecord, troubles []converge.Trouble, there bool) error {
	f := next.File
	refs := event.Refs{event.RefAgent: f.Agent, event.RefPath: f.Path}
	silent := old
	silent.Troubles = next.Troubles
	if !there || !next.Same(silent) {
		if err := c.tell(ctx, tx, event.ConfigObserved, refs, observedText(f, there), observedBody(f)); err != nil {
			return err
		}
	}
	before, now := troublesOf(old), troublesOf(next)
	for _, t := range troubles {
		if t.Severity == converge.WeightNotice || before[drifted{Code: t.Code, Entry: t.Entry}] {
			continue
		}
		if err := c.tell(ctx, tx, event.ConfigDrift, refs, fmt.Sprintf("%s: %s %s", f.Agent, t.Entry, t.Text), drifted{t.Code, t.Severity, t.Entry}); err != nil {
			return err
		}
	}
	for _, t := range old.Troubles {
		if now[drifted{Code: t.Code, Entry: t.Entry}] {
			continue
		}
		if err := c.tell(ctx, tx, event.ConfigResolved, refs, fmt.Sprintf("%s: %s: %s is over", f.Agent, t.Entry, t.Code), drifted{Code: t.Code, Entry: t.Entry}); err != nil {
			return err
		}
	}
	return nil
}

// troublesOf are those of a file, each without how bad it is.
func troublesOf(r converge.FileRecord) map[drifted]bool {
	all := make(map[drifted]bool, len(r.Troubles))
	for _, t := range r.Troubles {
		all[drifted{Code: t.Code, Entry: t.Entry}] = true
	}
	return all
}

// drifted is the body of an event about one trouble.
type drifted struct {
	Code     string          `json:"code"`
	Severity converge.Weight `json:"severity,omitempty"`
	Entry    string          `json:"entry"`
}

func observedText(f converge.File, there bool) string {
	switch {
	case f.State == converge.FileAbsent:
		return fmt.Sprintf("%s: %s is not there", f.Agent, f.Path)
	case !there:
		return fmt.Sprintf("%s: %s was found, entries: %d", f.Agent, f.Path, f.Entries)
	}
	return fmt.Sprintf("%s: %s changed, entries: %d", f.Agent, f.Path, f.Entries)
}

// observedBody is what is told of a file: no entry and no value of it.
func observedBody(f converge.File) any {
	codes := []string{}
	for _, p := range f.Problems {
		codes = append(codes, p.Code)
	}
	return struct {
		State    converge.FileState `json:"state"`
		Entries  int                `json:"entries"`
		Problems []string           `json:"problems"`
	}{f.State, f.Entries, codes}
}
