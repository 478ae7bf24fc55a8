package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/retention"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// Prune says what is removed.
type Prune struct {
	Periods retention.Periods
	At      time.Time // what is old is counted from here
	DryRun  bool      // nothing is removed
	By      event.Actor
}

// pruneStep bounds what one commit lets go: others want to write, too.
const pruneStep = 100

// pruning is one look for what is old.
type pruning struct {
	Prune
	s     *Service
	needs needs
}

// Prune removes what is old and what nobody needs. It goes in small steps, each a commit with an event that says what is
// removed. Bytes outside of the database go after that commit; when the daemon ends in between, the next look finds them.
func (s *Service) Prune(ctx context.Context, in Prune) (retention.Report, error) {
	s.prunes.Lock()
	defer s.prunes.Unlock()
	out := retention.Report{At: in.At.UTC(), DryRun: in.DryRun, Removed: []retention.Removed{}}
	n, err := s.needed(ctx)
	if err != nil {
		return out, err
	}
	p := &pruning{Prune: in, s: s, needs: n}
	for _, one := range []struct {
		data retention.Data
		step func(context.Context, *retention.Removed) error
	}{
		{retention.Displaced, func(ctx context.Context, out *retention.Removed) error {
			return errors.Join(p.displaced(ctx, out), p.retired(ctx, out))
		}},
		{retention.Operations, p.operations},
		{retention.Output, p.output},
		{retention.Results, p.results},
		{retention.Bodies, p.bodies},
	} {
		removed := retention.Removed{Data: one.data}
		err := one.step(ctx, &removed)
		out.Removed = append(out.Removed, removed)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

// before is the time before which something is old.
func (p *pruning) before(period time.Duration) time.Time { return p.At.Add(-period) }

// old says whether something that ended then is.
func (p *pruning) old(ended time.Time, period time.Duration) bool {
	return !ended.IsZero() && ended.Before(p.before(period))
}

// pruned is the body of an event about what was removed.
type pruned struct {
	Data   retention.Data `json:"data"`
	Count  int            `json:"count"`
	Bytes  int64          `json:"bytes"`
	Events event.Ranges   `json:"events,omitempty"` // whose bodies they were
	Of     []string       `json:"of,omitempty"`     // ids of operations or jobs, references of results

	needed int // old, too, and kept
}

// cut tells that the look for old data ends here: its caller left, or the daemon stops.
func (p *pruning) cut(ctx context.Context) error {
	select {
	case <-p.s.quit:
	case <-ctx.Done():
	default:
		return nil
	}
	return fault.New(fault.Canceled, "prune-cut").Saying("the look for old data was ended").Hinting("it goes on at the next one").Because(context.Cause(ctx))
}

// step looks for one lot of what is old, and lets it go in the same commit: what is looked at cannot change meanwhile. find
// is given no Tx in a dry run. It may be called again, when the commit that it shared with others failed.
func (p *pruning) step(ctx context.Context, into *retention.Removed, find func(r store.Reader, tx store.Tx) (pruned, error)) error {
	if err := p.cut(ctx); err != nil {
		return err
	}
	var found pruned
	err := func() (err error) {
		if p.DryRun {
			return p.s.cfg.DB.View(ctx, func(r store.Reader) error {
				found, err = find(r, nil)
				return err
			})
		}
		return p.s.cfg.DB.Change(ctx, func(tx store.Tx) error {
			if found, err = find(tx, tx); err != nil || found.Count == 0 {
				return err
			}
			found.Data = into.Data
			body, err := json.Marshal(found)
			if err != nil {
				return err
			}
			_, err = tx.AppendEvent(ctx, event.Draft{
				At: p.s.cfg.Now(), Kind: event.RetentionRemoved, Actor: p.By, Body: body, Summary: fmt.Sprintf("old data were removed: %d %s", found.Count, into.Data),
			})
			return err
		})
	}()
	if err == nil {
		into.Removed += found.Count
		into.Bytes += found.Bytes
		into.Needed += found.needed
	}
	return err
}

// bodies lets bodies of events go.
func (p *pruning) bodies(ctx context.Context, out *retention.Removed) error {
	list := event.ListBodies{Before: p.before(p.Periods.ShortestBody()), Limit: pruneStep}
	for {
		var page []event.Stored
		err := p.step(ctx, out, func(r store.Reader, tx store.Tx) (found pruned, err error) {
			if page, err = r.Bodies(ctx, list); err != nil {
				return found, err
			}
			var seqs []uint64
			for _, e := range page {
				switch {
				case !p.old(e.At, p.Periods.Body(e.Kind)):
				case p.needs.Any(e.Refs):
					found.needed++
				default:
					seqs = append(seqs, e.Seq)
					found.Count++
					found.Bytes += e.Size
					found.Events = found.Events.Add(e.Seq)
				}
			}
			if tx == nil || len(seqs) == 0 {
				return found, nil
			}
			return found, tx.DropBodies(ctx, event.DropBodies{Seqs: seqs})
		})
		if err != nil || len(page) < list.PageLimit() {
			return err
		}
		list.After = page[len(page)-1].Seq
	}
}

// results lets go of answers that were too large to be sent whole.
func (p *pruning) results(ctx context.Context, out *retention.Removed) error {
	list := operation.ListKept{Before: p.before(p.Periods.Results), Limit: pruneStep}
	for {
		var page []operation.KeptSize
		err := p.step(ctx, out, func(r store.Reader, tx store.Tx) (found pruned, err error) {
			if page, err = r.KeptBefore(ctx, list); err != nil {
				return found, err
			}
			for _, k := range page {
				if p.needs.results[k.Ref] {
					found.needed++
					continue
				}
				found.Count++
				found.Bytes += k.Size
				found.Of = append(found.Of, k.Ref)
				if tx != nil {
					if err := tx.DropResult(ctx, k.KeptByRef); err != nil {
						return found, err
					}
				}
			}
			return found, nil
		})
		if err != nil || len(page) < list.PageLimit() {
			return err
		}
		list.After = page[len(page)-1]
	}
}

// output lets go of what commands wrote: first the row of a job says so, then its directory goes.
func (p *pruning) output(ctx context.Context, out *retention.Removed) error {
	runner := p.s.cfg.Runner
	if runner == nil {
		return nil
	}
	all, err := runner.Attempts(ctx)
	if err != nil {
		return err
	}
	for _, ref := range all {
		size, idle, err := p.idle(ctx, ref)
		if err != nil {
			p.stays(ctx, slog.String(key.Job, ref.ID), err)
			continue
		}
		clear := false
		err = p.step(ctx, out, func(r store.Reader, tx store.Tx) (pruned, error) {
			clear = false
			j, err := r.JobByID(ctx, operation.JobByID{ID: ref.ID})
			switch {
			case fault.KindOf(err) == fault.NotFound:
				return pruned{}, nil // of an operation that was never recorded: its recovery decides
			case err != nil, !j.State.Final() || !idle:
				return pruned{}, err
			case !j.Cleared.IsZero():
				clear = true // an earlier look was cut off here, or it is another attempt of the same job
				return pruned{}, nil
			case !p.old(j.Ended, p.Periods.Results):
				return pruned{}, nil
			case p.needs.job(j):
				return pruned{needed: 1}, nil
			}
			clear = true
			found := pruned{Count: 1, Bytes: size, Of: []string{j.ID}}
			if tx == nil {
				return found, nil
			}
			j.Cleared = p.s.cfg.Now()
			return found, tx.PutJob(ctx, operation.PutJob{Job: j})
		})
		if err != nil {
			return err
		}
		if clear && !p.DryRun {
			crash.Point("retention.output.before")
			if err := runner.Discard(ctx, ref); err != nil {
				p.stays(ctx, slog.String(key.Job, ref.ID), err)
			}
			crash.Point("retention.output.after")
		}
	}
	return nil
}

// stays tells of bytes that could not be removed, or may not be. The next look tries again.
func (p *pruning) stays(ctx context.Context, of slog.Attr, why error) {
	p.s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "old data stay", of, slog.Any(key.Cause, why))
}

// idle says how much an attempt of a job has written, and that nothing of it lives.
func (p *pruning) idle(ctx context.Context, ref operation.JobRef) (size int64, idle bool, err error) {
	e, err := p.s.cfg.Runner.Look(ctx, ref)
	if err != nil || e.Held || e.GoesOn() {
		return 0, false, err
	}
	for _, stream := range []operation.Stream{operation.Stdout, operation.Stderr} {
		o, err := p.s.cfg.Runner.Output(ctx, operation.OutputAt{JobRef: ref, Stream: stream})
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return 0, false, err
		}
		size += o.Size - o.Dropped
	}
	return size, true, nil
}

// journal is what the evidence of an operation says of the bytes that it has displaced.
type journal struct {
	Project   string     `json:"project_id"`
	Workspace string     `json:"workspace_id"`
	Batch     tree.Batch `json:"batch"`
}

// journalOf reads it; false: the operation has displaced nothing that is still ours.
func journalOf(o operation.Operation) (j journal, ok bool) {
	if o.Class != operation.FS || o.State != operation.Succeeded && o.State != operation.Failed || json.Unmarshal(o.Evidence, &j) != nil {
		return j, false
	}
	if o.Tool == "integrate_agent_workspace" {
		j.Workspace = "" // where it came from
	}
	return j, len(j.Batch.Changes) > 0
}

// eachWhole goes through the operations of which there is more than the outcome.
func (p *pruning) eachWhole(ctx context.Context, look func([]operation.Operation) error) error {
	for list := (operation.ListWhole{Limit: pruneStep}); ; {
		var page []operation.Operation
		err := p.s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
			page, err = r.WholeOperations(ctx, list)
			return err
		})
		if err == nil {
			err = look(page)
		}
		if err != nil || len(page) < list.PageLimit() {
			return err
		}
		list.After = page[len(page)-1].Seq
	}
}

// displaced lets go of bytes that edits have taken out of projects: first the row of the operation says so, then the bytes
// go, then the journal by which they are found.
func (p *pruning) displaced(ctx context.Context, out *retention.Removed) error {
	return p.eachWhole(ctx, func(page []operation.Operation) error {
		var due []operation.Operation
		there := p.there(ctx, page)
		err := p.step(ctx, out, func(_ store.Reader, tx store.Tx) (pruned, error) {
			var found pruned
			due = nil
			for _, o := range page {
				_, ok := journalOf(o)
				switch {
				case !ok:
				case !o.Purged.IsZero():
					due = append(due, o) // an earlier look was cut off here, or somebody has written to them
				case !p.old(o.Ended, p.Periods.Displaced):
				case p.needs.Has(event.RefOperation, o.ID) || !there[o.Name]:
					found.needed++
				default:
					found.Count++
					found.Of = append(found.Of, o.ID)
					if tx == nil {
						continue
					}
					o.Purged = p.s.cfg.Now()
					due = append(due, o)
					if err := tx.PutOperation(ctx, operation.PutOperation{Operation: o}); err != nil {
						return found, err
					}
				}
			}
			return found, nil
		})
		if err != nil || p.DryRun || len(due) == 0 {
			return err
		}
		crash.Point("retention.displaced.before")
		gone := due[:0]
		for _, o := range due {
			if p.cut(ctx) != nil {
				break // what is gone is written down
			}
			kept, err := p.s.purge(ctx, o)
			if err != nil || kept > 0 {
				p.stays(ctx, slog.String(key.Operation, o.ID), cmp.Or(err, fmt.Errorf("%d of its displaced files were written to since", kept)))
				out.Needed++
				continue
			}
			gone = append(gone, o)
		}
		crash.Point("retention.displaced.after")
		return p.s.cfg.DB.Change(ctx, func(tx store.Tx) error {
			for _, o := range gone {
				o.Evidence = nil
				if err := tx.PutOperation(ctx, operation.PutOperation{Operation: o}); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// there says of which operations the place is there whose bytes they have displaced: those of a project or a workspace that is
// gone are found by nobody, and stay. It is looked at before, for it takes a while.
func (p *pruning) there(ctx context.Context, page []operation.Operation) map[operation.Name]bool {
	all := map[operation.Name]bool{}
	for _, o := range page {
		j, ok := journalOf(o)
		if !ok || !o.Purged.IsZero() || !p.old(o.Ended, p.Periods.Displaced) {
			continue
		}
		x, err := p.s.reopen(ctx, j.Project, j.Workspace)
		if err != nil {
			p.stays(ctx, slog.String(key.Operation, o.ID), err)
			continue
		}
		x.close()
		all[o.Name] = true
	}
	return all
}

// purge removes what an operation has displaced. It says how much stays, because somebody has written to it since.
func (s *Service) purge(ctx context.Context, o operation.Operation) (kept int, err error) {
	j, ok := journalOf(o)
	if !ok {
		return 0, nil
	}
	x, err := s.reopen(ctx, j.Project, j.Workspace)
	if err != nil {
		return 0, err
	}
	defer x.close()
	area, err := x.root.Area(s.cfg.State)
	if err != nil {
		return 0, err
	}
	defer area.Close()
	late, err := x.root.Purge(ctx, area, j.Batch)
	return len(late), err
}

// operations lets go of all but the outcome of operations. What the others hold is needed by them.
func (p *pruning) operations(ctx context.Context, out *retention.Removed) error {
	return p.eachWhole(ctx, func(page []operation.Operation) error {
		restores := map[operation.Name]bool{} // looked up before, for it takes a while
		for _, o := range page {
			restores[o.Name] = p.restores(ctx, o)
		}
		return p.step(ctx, out, func(_ store.Reader, tx store.Tx) (pruned, error) {
			var found pruned
			for _, o := range page {
				old := p.old(o.Ended, p.Periods.Results)
				if restores[o.Name] || !old || p.needs.operation(o) {
					p.needs.refer(o.Args, o.Evidence, o.Result)
					if old {
						found.needed++
					}
					continue
				}
				small := p.small(o)
				if size := len(o.Args) + len(o.Evidence) + len(o.Result) - len(small.Evidence); size > 0 {
					found.Count++
					found.Bytes += int64(size)
					found.Of = append(found.Of, o.ID)
				}
				if tx == nil {
					continue
				}
				if err := tx.PutOperation(ctx, operation.PutOperation{Operation: small}); err != nil {
					return found, err
				}
			}
			return found, nil
		})
	})
}

// small is what is left of an operation. The journal of bytes that are still there stays: they are found by it.
func (p *pruning) small(o operation.Operation) operation.Operation {
	if o.Result != nil {
		o.Digest = digest(o.Result)
	}
	o.Args, o.Result = nil, nil
	if _, holds := journalOf(o); !holds {
		o.Evidence = nil
	}
	if o.Shrunk.IsZero() {
		o.Shrunk = p.s.cfg.Now()
	}
	return o
}

// restores says whether an operation is a removal that may still be taken back. When nobody can look, it may.
func (p *pruning) restores(ctx context.Context, o operation.Operation) bool {
	var e removeEvidence
	if o.Tool != "remove_files" || json.Unmarshal(o.Evidence, &e) != nil || e.Removed == nil {
		return false
	}
	if !p.old(o.Ended, p.Periods.Removals) {
		return true
	}
	x, err := p.s.reopen(ctx, e.Removed.Project, e.Removed.Workspace)
	if codeIn(err) == workspace.WrongState {
		return false // the workspace is gone
	}
	if err != nil {
		return true
	}
	defer x.close()
	found, err := p.s.binned(x, *e.Removed)
	if err != nil {
		return true
	}
	defer found.close()
	return slices.ContainsFunc(e.Removed.Batch.Names(), func(b tree.Binned) bool { return found.of(b) != nil })
}
