package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/retention"
)

var auditRun = Command{
	Path: "audit run", Short: "Look at your agents' configuration and plan what has to change", Op: "audit.run",
	Long: "Reads every file again, compares every entry with the catalog, keeps what was seen, and makes plans for the agents\n" +
		"that you manage (`mcpx agents discover --manage KIND`), or for the one of --agent. It writes no file of an agent. A\n" +
		"second run without a change finds the same plans and writes no event. Exit code 0 whatever was found.",
	Example: "mcpx audit run\nmcpx audit run --agent codex",
	Flags: []Flag{
		{Name: "agent", Kind: StringFlag, Value: "KIND", Usage: "only the agent KIND, and plans for it also when it is not managed"},
		{Name: "path", Kind: StringFlag, Value: "FILE", Usage: "plans for FILE only"},
		{Name: "no-plan", Kind: BoolFlag, Usage: "make no plans"},
		projectFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, query, err := e.configQuery(ctx, a)
		if err != nil {
			return err
		}
		in := api.RunAudit{Agent: a.String("agent"), Home: query.Home, Project: query.Project, Moved: query.Moved, NoPlan: a.Bool("no-plan")}
		if in.Path, err = pathGiven(a); err != nil {
			return err
		}
		out, err := service.RunAudit(e.operation(ctx), in)
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) { e.printAudit(w, out) })
	},
}

func (e *Env) printAudit(w io.Writer, out api.Audit) {
	if len(out.Entries) == 0 {
		line(w, "No agent has a server configured here. `%s config discover --all` shows where it was looked.", e.self())
		e.printProblems(w, out.Files)
		return
	}
	type key struct {
		agent string
		class converge.Class
	}
	counts := map[key]int{}
	for _, f := range out.Entries {
		counts[key{f.Agent, f.Class}]++
	}
	var rows [][]cell
	seen := map[string]bool{}
	for _, f := range out.Entries { // in the order of the agents
		if seen[f.Agent] {
			continue
		}
		seen[f.Agent] = true
		var parts []string
		for _, class := range slices.Sorted(maps.Keys(out.Counts)) {
			if n := counts[key{f.Agent, class}]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, class))
			}
		}
		rows = append(rows, []cell{{f.Agent, bold}, {strings.Join(parts, ", "), ""}})
	}
	e.table(w, []string{"AGENT", "ENTRIES"}, rows)
	e.printProblems(w, out.Files)
	line(w, "")
	switch {
	case len(out.Plans) > 0:
		e.planTable(w, out.Plans)
		line(w, "")
		line(w, "%d plans, %d of them new; %d count no more.", len(out.Plans), out.Made, out.Superseded)
	case len(out.Observed) > 0:
		line(w, "No plans: %s can be changed, and nobody has said to manage them.", strings.Join(out.Observed, ", "))
	default:
		line(w, "No plans: nothing has to change.")
	}
	e.next(w, out.Next)
}

// lastEvents is how many events `mcpx audit list` shows without being told.
const lastEvents = 50

var auditList = Command{
	Path: "audit list", Short: "Show what happened: the events of the log", Op: "audit.list",
	Long: "The newest events, the oldest of them first. Each is chained to the one before by a hash; `mcpx audit verify` checks\n" +
		"the chain. With --json it is one document, with --follow one for each line.",
	Example: "mcpx audit list\nmcpx audit list --kind apply --since 24h\nmcpx audit list --plan plan_abcd --json",
	Flags: []Flag{
		{Name: "kind", Kind: StringFlag, Value: "KIND", Usage: "only this KIND, or all of an area: plan.made, plan"},
		{Name: "agent", Kind: StringFlag, Value: "AGENT", Usage: "only about AGENT"},
		{Name: "plan", Kind: StringFlag, Value: "PLAN", Usage: "only about PLAN, with its whole id"},
		{Name: "path", Kind: StringFlag, Value: "FILE", Usage: "only about FILE"},
		{Name: "server", Kind: StringFlag, Value: "NAME", Usage: "only about the server NAME"},
		{Name: "since", Kind: StringFlag, Value: "WHEN", Usage: "only since WHEN: 24h, 2026-11-01, 2026-11-01T12:00:00Z"},
		{Name: "last", Letter: "n", Kind: IntFlag, Default: lastEvents, Usage: "at most so many; 0 all"},
		{Name: "follow", Letter: "f", Kind: BoolFlag, Usage: "stay and show new ones"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		query := api.EventsQuery{
			Kind: a.String("kind"), Agent: a.String("agent"), Plan: a.String("plan"), Server: a.String("server"), Last: a.Int("last"), Follow: a.Bool("follow"),
		}
		var err error
		if query.Since, err = e.moment("--since", a.String("since")); err != nil {
			return err
		}
		if query.Path, err = pathGiven(a); err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		if query.Follow {
			return service.Events(ctx, query, func(ev event.Event) error {
				if e.json {
					return json.NewEncoder(e.Out).Encode(ev)
				}
				line(e.Out, "%s", e.eventLine(ev))
				return e.Out.(*output).failed()
			})
		}
		list := eventList{Events: []event.Event{}}
		if err := service.Events(ctx, query, func(ev event.Event) error {
			list.Events = append(list.Events, ev)
			if ev.Pruned() {
				list.Pruned = list.Pruned.Add(ev.Seq)
			}
			return nil
		}); err != nil {
			return err
		}
		return e.Show(list, func(w io.Writer) {
			for _, ev := range list.Events {
				line(w, "%s", e.eventLine(ev))
			}
			for _, r := range list.Pruned {
				line(w, "%s", prunedText(r))
			}
			if len(list.Events) == 0 {
				line(w, "No events.")
			}
		})
	},
}

// eventList is the answer of audit list.
type eventList struct {
	Events []event.Event `json:"events"`
	Pruned event.Ranges  `json:"pruned,omitempty"` // of them: what they told is not kept any more
}

func prunedText(r [2]uint64) string {
	return fmt.Sprintf("pruned: what the events %d to %d told is not kept any more", r[0], r[1])
}

func (e *Env) eventLine(ev event.Event) string {
	who := ev.Actor.Principal
	if ev.Actor.Channel != "" {
		who += "/" + ev.Actor.Channel
	}
	return fmt.Sprintf("%6d  %s  %-20s  %-12s  %s", ev.Seq, ev.At.Local().Format("2006-01-02 15:04:05"), ev.Kind, who, plain(ev.Summary))
}

// moment reads a time as a person writes it: how long ago, a day, or a whole time.
func (e *Env) moment(flag, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return e.Now().Add(-d).UTC().Format(time.RFC3339), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at.UTC().Format(time.RFC3339), nil
		}
	}
	return "", fault.New(fault.Invalid, "usage").Saying("%s %q is no time", flag, text).
		Hinting("write how long ago (90m, 24h), a day (2026-11-01), or a time (2026-11-01T12:00:00Z)")
}

var auditVerify = Command{
	Path: "audit verify", Short: "Check that the log and the backups are whole", Op: "audit.verify",
	Long: "Computes the chain of hashes again, compares every body with its hash, and every backup with its receipt. Exit code 1\n" +
		"with the first event that does not fit. --file checks an export alone, without a daemon.",
	Example: "mcpx audit verify\nmcpx audit verify --file audit.ndjson",
	Flags: []Flag{
		{Name: "from", Kind: IntFlag, Value: "SEQ", Usage: "begin at SEQ"},
		{Name: "to", Kind: IntFlag, Value: "SEQ", Usage: "end at SEQ"},
		{Name: "file", Kind: StringFlag, Value: "FILE", Usage: "check FILE, made by `mcpx audit export`"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		var out api.Verified
		var err error
		if file := a.String("file"); file != "" {
			out, err = e.verifyFile(file)
		} else {
			var service api.Service
			if service, err = e.API(ctx); err == nil {
				out, err = service.VerifyEvents(ctx, api.VerifyEvents{From: a.Int("from"), To: a.Int("to")})
			}
		}
		if err != nil {
			return err
		}
		if err := e.Show(out, func(w io.Writer) {
			line(w, "%s", plain(out.Text))
			for _, b := range out.Backups {
				line(w, "%s %s: %s", b.Receipt, plain(b.Path), plain(b.Text))
			}
		}); err != nil {
			return err
		}
		if !out.OK {
			return errAnswerNo
		}
		return nil
	},
}

var auditPrune = Command{
	Path: "audit prune", Short: "Remove data that are older than their period", Op: "audit.prune",
	Long: "The daemon does it by itself once a day; the periods are settings (retention.* in docs/settings.md). Envelopes of events\n" +
		"and outcomes of operations always stay, and so does what an open plan, a question that waits, unfinished work or an\n" +
		"artifact refers to. The log says what was removed: `mcpx audit list --kind retention`.",
	Example: "mcpx audit prune --dry-run\nmcpx audit prune --dry-run --at 2027-06-01",
	Flags: []Flag{
		{Name: "dry-run", Kind: BoolFlag, Usage: "remove nothing; show what would be"},
		{Name: "at", Kind: StringFlag, Value: "WHEN", Usage: "with --dry-run: as if it were WHEN, a day or a time"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		at, err := e.moment("--at", a.String("at"))
		if err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.Prune(e.operation(ctx), api.PruneData{DryRun: a.Bool("dry-run"), At: at})
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) {
			table := make([][]cell, 0, len(out.Removed))
			for _, r := range out.Removed {
				table = append(table, []cell{{prunedData[r.Data], bold}, {strconv.Itoa(r.Removed), ""}, {size(r.Bytes), ""}, {strconv.Itoa(r.Needed), ""}})
			}
			removed := "REMOVED"
			if out.DryRun {
				removed = "OLD"
			}
			e.table(w, []string{"WHAT", removed, "BYTES", "OLD BUT NEEDED"}, table)
			if out.HeldSeconds > 0 {
				line(w, "The clock may have jumped by %s: nothing is removed until mcpx has run for %s more.", seconds(out.JumpSeconds), seconds(out.HeldSeconds))
			}
			e.next(w, out.Next)
		})
	},
}

// prunedData are kinds of data as people call them.
var prunedData = map[retention.Data]string{
	retention.Displaced: "bytes that edits displaced", retention.Operations: "details of operations", retention.Output: "output of commands",
	retention.Results: "large answers", retention.Bodies: "bodies of events",
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

var auditExport = Command{
	Path: "audit export", Short: "Write the log to a file that can be checked anywhere",
	Long: "One event for each line as JSON, and a last line with their number and the hash of the last one. FILE must not exist;\n" +
		"it can be read by you only. - is stdout.",
	Example: "mcpx audit export --to audit.ndjson",
	Flags: []Flag{
		{Name: "to", Kind: StringFlag, Value: "FILE", Usage: "write to FILE"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		w := e.Out
		switch to := a.String("to"); to {
		case "":
			return fault.New(fault.Invalid, "usage").Saying("--to is required").Hinting("name a file, or - for stdout")
		case "-":
		default:
			f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fault.New(fault.Conflict, "export-unwritable").Saying("%s cannot be made", to).Because(err).Hinting("choose a file that does not exist")
			}
			defer f.Close()
			w = f
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		closing, err := exportEvents(ctx, service, w)
		if err != nil || a.String("to") == "-" {
			return err
		}
		return e.Show(exported{File: a.String("to"), Closing: closing}, func(w io.Writer) {
			line(w, "%d events in %s", closing.Count, a.String("to"))
			e.next(w, []string{"mcpx audit verify --file " + api.ShellWord(a.String("to"))})
		})
	},
}

// exported is the answer of audit export.
type exported struct {
	File string `json:"file"`
	event.Closing
}

// exportEvents writes the log as event.Export does. Every line must be byte for byte what that writes.
func exportEvents(ctx context.Context, service api.Service, w io.Writer) (event.Closing, error) {
	return event.Export(ctx, remoteLog{service}, w, 0, 0)
}

// remoteLog reads the log of the daemon page by page.
type remoteLog struct{ service api.Service }

func (l remoteLog) Events(ctx context.Context, p event.ListEvents) ([]event.Event, error) {
	var page []event.Event
	enough := errors.New("the page is full")
	err := l.service.Events(ctx, api.EventsQuery{After: int(p.After)}, func(ev event.Event) error {
		if page = append(page, ev); len(page) == p.PageLimit() {
			return enough
		}
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return page, err
}

func (l remoteLog) EventHead(context.Context) (event.Event, error) { return event.Event{}, nil }

// verifyFile checks an export alone.
func (e *Env) verifyFile(path string) (api.Verified, error) {
	f, err := os.Open(path)
	if err != nil {
		return api.Verified{}, fault.New(fault.NotFound, "file-unreadable").Saying("%s cannot be read", path).Because(err).Hinting("name a file that `mcpx audit export` made")
	}
	defer f.Close()
	verdict, err := event.VerifyExport(f)
	if err != nil {
		return api.Verified{}, fault.New(fault.Unavailable, "file-unreadable").Saying("%s cannot be read to its end", path).Because(err).Hinting("try again")
	}
	out := api.Verified{OK: verdict.Bad == nil, Verdict: verdict}
	out.Text = api.VerdictText(out)
	return out, nil
}
