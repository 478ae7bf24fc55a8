package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
)

// reconnectAfter is how long observe waits before it asks a daemon that went away once more.
const reconnectAfter = 500 * time.Millisecond

var observe = Command{
	Path: "observe", Short: "Look on while agents work: each call with what it did and how it ended",
	Long: "One block for each call, when it has ended or when a person is asked; what a model says about it is marked as its\n" +
		"claim. It stays and shows what comes, over restarts of the daemon, too; --no-follow shows what there is and ends.\n" +
		"Without --since it begins with the last events. With --format json, or --json, each stored event is one line.",
	Example: "mcpx observe\nmcpx observe --project shop --diff full\nmcpx observe --since 1 --operation op-0001 --no-follow --full",
	Flags: []Flag{
		{Name: "project", Kind: StringFlag, Value: "PROJECT", Usage: "only in PROJECT: a name or id"},
		ofSession,
		{Name: "since", Kind: StringFlag, Value: "SEQ", Usage: "only after the event SEQ, or since a time: 24h, 2026-11-01T12:00:00Z"},
		{Name: "kind", Kind: StringFlag, Value: "KIND", Usage: "only this KIND, or all of an area: job.ended, job"},
		{Name: "operation", Kind: StringFlag, Value: "ID", Usage: "only of the operation ID"},
		{Name: "path", Kind: StringFlag, Value: "FILE", Usage: "only about FILE"},
		{Name: "text", Kind: StringFlag, Value: "TEXT", Usage: "only events with TEXT in what they tell"},
		{Name: "format", Kind: StringFlag, Default: "text", Choices: []string{"text", "json"}, Usage: "how they are shown"},
		{Name: "diff", Kind: StringFlag, Default: "summary", Choices: []string{"none", "summary", "full"}, Usage: "how much is shown of files that are changed"},
		{Name: "full", Kind: BoolFlag, Usage: "all lines of outputs and differences, not only the first 50"},
		{Name: "no-follow", Kind: BoolFlag, Usage: "end with the last event that there is"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		query := api.EventsQuery{
			Kind: a.String("kind"), Project: a.String("project"), Session: a.String("session"), Operation: a.String("operation"),
			Follow: !a.Bool("no-follow"), Beat: true,
		}
		var err error
		if since := a.String("since"); since == "" {
			query.Last = lastEvents
		} else {
			if query.After, err = strconv.Atoi(since); err != nil || query.After < 0 {
				query.After = 0
				if query.Since, err = e.moment("--since", since); err != nil {
					return err
				}
			}
		}
		if query.Path, err = pathGiven(a); err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		view := &observer{
			w: e.Out, looks: looks{e.color}, diff: a.String("diff"), full: a.Bool("full"),
			output: func(job string) (api.JobView, error) { return service.Job(ctx, api.JobRef{Job: job}) },
		}
		if e.columns != nil {
			view.columns = e.columns()
		}
		show := view.add
		if e.json || a.String("format") == "json" {
			show = func(ev event.Event) error { return json.NewEncoder(e.Out).Encode(ev) }
		}
		wanted := strings.ToLower(a.String("text"))
		err = e.follow(ctx, service, query, func(ev event.Event) error {
			if !strings.Contains(strings.ToLower(ev.Summary), wanted) && !strings.Contains(strings.ToLower(string(ev.Body)), wanted) {
				return nil
			}
			if err := show(ev); err != nil {
				return err
			}
			return e.Out.(*output).failed()
		})
		view.flush()
		return err
	},
}

// follow gives every event once, in order. When the daemon goes away it waits for the next one, and goes on where it was cut
// off; it ends with its caller.
func (e *Env) follow(ctx context.Context, service api.Service, query api.EventsQuery, emit func(event.Event) error) error {
	away := false
	for {
		err := service.Events(ctx, query, func(ev event.Event) error {
			away = false
			query.After, query.Last, query.Since = int(ev.Seq), 0, ""
			return emit(ev)
		})
		switch {
		case ctx.Err() != nil, !query.Follow:
			return err
		case err != nil && fault.KindOf(err) != fault.Unavailable:
			return err
		}
		if !away {
			away = true
			e.Note("The daemon went away; waiting for it.")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(reconnectAfter):
		}
		if service, err = e.Daemon(); err != nil { // one that somebody else starts: who looks on starts none
			return err
		}
	}
}
