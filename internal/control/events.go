package control

import (
	"context"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// Events streams the log.
func (c *Control) Events(ctx context.Context, in api.EventsQuery, emit func(event.Event) error) error {
	if err := c.allow(ctx, "audit.list"); err != nil {
		return err
	}
	c.FlushRefusals()
	if in.Project != "" {
		err := c.cfg.DB.View(ctx, func(r store.Reader) (err error) {
			in.Project, err = projectID(ctx, r, in.Project)
			return err
		})
		if err != nil {
			return err
		}
	}
	list, err := eventsAsked(in)
	if err != nil {
		return err
	}
	after, err := c.eventsNow(ctx, list, in.Last, emit)
	if err != nil || !in.Follow {
		return err
	}
	list.After = after
	for {
		grown := c.cfg.DB.Changed()
		if list.After, err = c.eventsNow(ctx, list, 0, emit); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-grown:
		}
	}
}

func eventsAsked(in api.EventsQuery) (event.ListEvents, error) {
	invalid := func(format string, args ...any) (event.ListEvents, error) {
		return event.ListEvents{}, fault.New(fault.Invalid, "request-invalid").Saying(format, args...)
	}
	list := event.ListEvents{After: uint64(in.After), Kind: in.Kind, Refs: event.Refs{}}
	if in.Last > api.MaxLast {
		return invalid("last is %d, want at most %d", in.Last, api.MaxLast)
	}
	if in.Since != "" {
		at, err := time.Parse(time.RFC3339, in.Since)
		if err != nil {
			return invalid("since %q is no time", in.Since)
		}
		list.Since = at
	}
	for name, value := range map[event.Ref]string{
		event.RefAgent: in.Agent, event.RefPlan: in.Plan, event.RefPath: in.Path, event.RefServer: in.Server,
		event.RefOperation: in.Operation, event.RefJob: in.Job, event.RefSession: in.Session, event.RefProject: in.Project,
	} {
		if value != "" {
			list.Refs[name] = value
		}
	}
	return list, nil
}

// eventsNow emits what the log has now, or only the last ones of it, and gives the place from which to go on.
func (c *Control) eventsNow(ctx context.Context, list event.ListEvents, last int, emit func(event.Event) error) (uint64, error) {
	var kept []event.Event
	for {
		var page []event.Event
		var head event.Event
		err := c.cfg.DB.View(ctx, func(r store.Reader) error {
			var err error
			if page, err = r.Events(ctx, list); err == nil {
				head, err = r.EventHead(ctx)
			}
			return err
		})
		if err != nil {
			return list.After, err
		}
		for _, e := range page {
			list.After = e.Seq
			if last == 0 {
				if err := emit(e); err != nil {
					return list.After, err
				}
				continue
			}
			if kept = append(kept, e); len(kept) >= 2*last { // amortised: each event is moved at most once
				kept = append(kept[:0], kept[len(kept)-last:]...)
			}
		}
		if len(page) == list.PageLimit() {
			continue
		}
		for _, e := range kept[max(0, len(kept)-last):] {
			if err := emit(e); err != nil {
				return list.After, err
			}
		}
		return max(list.After, head.Seq), nil
	}
}

// VerifyEvents computes the chain again and compares every backup with its receipt.
func (c *Control) VerifyEvents(ctx context.Context, in api.VerifyEvents) (api.Verified, error) {
	if err := c.allow(ctx, "audit.verify"); err != nil {
		return api.Verified{}, err
	}
	out := api.Verified{OK: true}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		verdict, err := event.VerifyLog(ctx, r, uint64(in.From), uint64(in.To))
		out.Verdict, out.OK = verdict, verdict.Bad == nil
		if err != nil || in.From > 0 || in.To > 0 { // a part of the log says nothing about the backups
			return err
		}
		if out.Backups, err = c.backups(ctx, r); err != nil || !out.OK {
			return err
		}
		noted, err := c.cfg.NotedHead()
		if err != nil {
			return err
		}
		out.Bad, err = event.VerifyHead(ctx, r, noted)
		out.OK = out.Bad == nil
		return err
	})
	if err != nil {
		return api.Verified{}, err
	}
	out.OK = out.OK && len(out.Backups) == 0
	out.Text = api.VerdictText(out)
	return out, nil
}

// backups lists the backups that are not what their receipt says.
func (c *Control) backups(ctx context.Context, r store.Reader) ([]api.BackupIssue, error) {
	var issues []api.BackupIssue
	var list converge.ListReceipts
	for {
		page, err := r.Receipts(ctx, list)
		if err != nil {
			return nil, err
		}
		for _, receipt := range page {
			for _, f := range receipt.Files {
				if f.Backup == "" {
					continue
				}
				if err := c.cfg.CheckBackup(receipt.ID, f); err != nil {
					issues = append(issues, api.BackupIssue{Receipt: receipt.ID, Path: f.Path, Text: fault.From(err).Error()})
				}
			}
		}
		if len(page) < list.PageLimit() {
			return issues, nil
		}
		list.Before = page[len(page)-1].ID
	}
}
