package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/daemon"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gate"
)

var fromFlag = Flag{Name: "from", Kind: StringFlag, Value: "NAME", Usage: "the other hub: its rule is [cutover.NAME] in mcpx.toml"}

// hub is the rule that --from names.
func (e *Env) hub(a Args) (gate.Hub, error) {
	if a.String("from") == "" {
		return gate.Hub{}, fault.New(fault.Invalid, "usage").Saying("--from is required").Hinting("name the rule of the other hub: --from NAME for [cutover.NAME] in mcpx.toml")
	}
	paths, err := e.Paths()
	if err != nil {
		return gate.Hub{}, err
	}
	return daemon.Hub(paths.Settings(), a.String("from"))
}

var cutoverDryRun = Command{
	Path: "cutover dry-run", Short: "Say which entries lead to another hub, and change nothing", Op: "config.inspect",
	Long: "Reads the files of the agents, finds the entries that the rule [cutover.NAME] of mcpx.toml names, and says what the catalog\n" +
		"has for them. The hash of every file is taken before and after; exit code 1 when one differs.",
	Example: "mcpx cutover dry-run --from oldhub",
	Flags:   []Flag{fromFlag, {Name: "root", Kind: StringFlag, Value: "DIR", Usage: "look below DIR as the home directory"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		hub, err := e.hub(a)
		if err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		query := api.ConfigQuery{}
		if root := a.String("root"); root != "" {
			if query.Home, err = directory(root); err != nil {
				return err
			}
		}
		before, err := service.InspectConfig(ctx, query)
		if err != nil {
			return err
		}
		out := rehearsal{From: hub.Name, Entries: []rehearsed{}, Files: hashesOf(before.Files), Unchanged: true}
		for _, f := range before.Entries {
			if why := hub.Leads(f.Command, f.URL); why != "" {
				out.Entries = append(out.Entries, rehearsed{f.Agent, f.Name, f.File, why, f.Class, f.Match.Server})
			}
		}
		for i, f := range out.Files {
			out.Files[i].After = hashOf(f.Path)
			out.Unchanged = out.Unchanged && f.Before == out.Files[i].After
		}
		if err := e.Show(out, func(w io.Writer) { e.rehearsalText(w, out) }); err != nil {
			return err
		}
		if !out.Unchanged {
			return errAnswerNo
		}
		return nil
	},
}

// rehearsal is the answer of cutover dry-run.
type rehearsal struct {
	From      string       `json:"from"`
	Entries   []rehearsed  `json:"entries"` // that lead to the hub
	Files     []fileHashes `json:"files"`
	Unchanged bool         `json:"unchanged"`
}

type rehearsed struct {
	Agent  string         `json:"agent"`
	Entry  string         `json:"entry"`
	File   string         `json:"file"`
	Why    string         `json:"why"`
	Class  converge.Class `json:"class"`
	Server string         `json:"server,omitempty"` // of the catalog
}

type fileHashes struct {
	Path   string `json:"path"`
	Before string `json:"sha256_before"`
	After  string `json:"sha256_after"`
}

func hashesOf(files []converge.File) []fileHashes {
	out := []fileHashes{}
	for _, f := range files {
		if f.SHA256 != "" {
			out = append(out, fileHashes{Path: f.Path, Before: f.SHA256})
		}
	}
	return out
}

func hashOf(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (e *Env) rehearsalText(w io.Writer, out rehearsal) {
	var rows [][]cell
	for _, r := range out.Entries {
		rows = append(rows, []cell{{r.Agent, bold}, {plain(r.Entry), ""}, {plain(r.Why), ""}, {string(r.Class), ""}, {dash(r.Server), ""}})
	}
	if len(rows) == 0 {
		line(w, "No entry leads to %s.", out.From)
	} else {
		e.table(w, []string{"AGENT", "ENTRY", "LEADS THERE BY", "CLASS", "SERVER"}, rows)
	}
	word := "all are unchanged"
	if !out.Unchanged {
		word = "some were changed meanwhile, not by mcpx"
	}
	line(w, "\n%d files were hashed before and after: %s.", len(out.Files), word)
	e.next(w, []string{"mcpx cutover import-catalog --from " + out.From + " FILE"})
}

var cutoverImport = Command{
	Path: "cutover import-catalog", Short: "Import the servers of another hub", Op: "server.import", Args: "FILE", Min: 1, Max: 1,
	Long:    "`mcpx catalog import FILE` for the hub of --from: without --apply it only says what would be done, and new servers wait for a review.",
	Example: "mcpx cutover import-catalog --from oldhub hub.json --apply",
	Flags:   []Flag{fromFlag, {Name: "apply", Kind: BoolFlag, Usage: "write; without it nothing is changed"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		hub, err := e.hub(a)
		if err != nil {
			return err
		}
		return e.importFile(ctx, a.Pos(0), importing{
			format: "auto", apply: a.Bool("apply"), next: "mcpx cutover import-catalog --from " + api.ShellWord(a.String("from")), from: hub.Name,
		})
	},
}

var cutoverApply = Command{
	Path: "cutover apply", Short: "Record that another hub is retired, once the release gate is open", Op: "cutover.record",
	Long:    "Asks the release gate again, and records your decision. Nothing of the other hub is stopped or removed. It needs a person at a terminal.",
	Example: "mcpx cutover apply --from oldhub --confirm-retire",
	Flags:   []Flag{fromFlag, {Name: "confirm-retire", Kind: BoolFlag, Usage: "yes, the other hub is retired"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		hub, err := e.hub(a)
		if err != nil {
			return err
		}
		if !a.Bool("confirm-retire") {
			return fault.New(fault.NeedsApproval, "needs-yes").Saying("retire %s?", hub.Name).Hinting("add --confirm-retire if you are sure")
		}
		facts, err := e.releaseFacts(ctx)
		if err != nil {
			return err
		}
		v := gate.OfRelease(facts)
		if !v.Open {
			return e.showGate(v)
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		in := api.RecordCutover{From: hub.Name}
		for _, c := range v.Checks {
			in.Evidence = append(in.Evidence, c.Name+": "+c.Evidence)
		}
		out, err := service.RecordCutover(e.operation(ctx), in)
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) {
			line(w, "Recorded: %s is retired.", out.From)
			e.next(w, []string{"mcpx doctor retirement-gate --from " + out.From})
		})
	},
}

var cutoverStatus = Command{
	Path: "cutover status", Short: "Say how far the cut-over from another hub is",
	Long: "Whether the decision is recorded; with the flags also what the gate says and what is left of the other hub, with the commands\n" +
		"that remove it: mcpx runs none of them. Exit code 1 when a check did not pass.",
	Example: "mcpx cutover status --from oldhub --check-gate --check-footprint",
	Flags: []Flag{
		fromFlag,
		{Name: "check-gate", Kind: BoolFlag, Usage: "also the checks of the release gate"},
		{Name: "check-footprint", Kind: BoolFlag, Usage: "also connections, units, programs, processes, files and entries that are left"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		f, err := e.retirementFacts(ctx, a)
		if err != nil {
			return err
		}
		out := cutoverProgress{Verdict: gate.OfRetirement(f)}
		out.Gate = "cut-over"
		out.Checks = slices.DeleteFunc(out.Checks, func(c gate.Check) bool {
			left := strings.HasPrefix(c.Name, "footprint-")
			return left && !a.Bool("check-footprint") || !left && c.Name != "cutover-recorded" && !a.Bool("check-gate")
		})
		out.Open = !slices.ContainsFunc(out.Checks, func(c gate.Check) bool { return c.State != gate.Passed })
		if a.Bool("check-footprint") {
			out.Cleanup = cleanup(f.Left)
		}
		if err := e.Show(out, func(w io.Writer) { e.progressText(w, out) }); err != nil {
			return err
		}
		if !out.Open {
			return errAnswerNo
		}
		return nil
	},
}

// cutoverProgress is the answer of cutover status.
type cutoverProgress struct {
	gate.Verdict
	Cleanup []cleanupStep `json:"cleanup,omitempty"`
}

func (e *Env) progressText(w io.Writer, out cutoverProgress) {
	e.gateText(w, out.Verdict)
	if len(out.Cleanup) == 0 {
		return
	}
	line(w, "\nWhat is left is removed by you; mcpx runs none of this:")
	for _, s := range out.Cleanup {
		line(w, "  %-40s # %s", s.Command, s.Why)
	}
}

var retirementGate = Command{
	Path: "doctor retirement-gate", Short: "Say whether another hub can be removed",
	Long:    "The release gate, the recorded decision, and nothing left of the other hub. Exit code 1 when the gate is closed.",
	Example: "mcpx doctor retirement-gate --from oldhub",
	Flags:   []Flag{fromFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		f, err := e.retirementFacts(ctx, a)
		if err != nil {
			return err
		}
		return e.showGate(gate.OfRetirement(f))
	},
}

func (e *Env) retirementFacts(ctx context.Context, a Args) (gate.Retirement, error) {
	hub, err := e.hub(a)
	if err != nil {
		return gate.Retirement{}, err
	}
	f := gate.Retirement{From: hub.Name}
	if f.Release, err = e.releaseFacts(ctx); err != nil {
		return f, err
	}
	client, err := e.Daemon()
	if err != nil {
		return f, err
	}
	var at time.Time
	err = client.Events(ctx, api.EventsQuery{Kind: string(event.CutoverApplied)}, func(ev event.Event) error {
		var body struct{ From string }
		if json.Unmarshal(ev.Body, &body) == nil && body.From == hub.Name {
			at = ev.At
		}
		return nil
	})
	f.Recorded = told(at, err, func(at time.Time) time.Time { return at })
	f.Left = e.footprint(ctx, client, hub)
	return f, nil
}

// footprint is what is left of the hub on this machine. Programs are known by their files, never by a word in a command
// line, and none of them is run.
func (e *Env) footprint(ctx context.Context, client api.Service, hub gate.Hub) []gate.Footprint {
	report, err := client.InspectConfig(ctx, api.ConfigQuery{})
	home := e.Getenv("HOME")
	return []gate.Footprint{
		{Kind: "entries", Found: told(report, err, func(r api.ConfigReport) []string {
			var all []string
			for _, f := range r.Entries {
				if hub.Leads(f.Command, f.URL) != "" {
					all = append(all, f.Agent+":"+f.Name)
				}
			}
			return all
		})},
		{Kind: "connections", Found: connectionsTo(hub)},
		{Kind: "processes", Found: processesOf(hub)},
		{Kind: "units", Found: gate.Known(present(home, hub.Units, []string{filepath.Join(home, ".config/systemd/user"), "/etc/systemd/system", filepath.Join(home, "Library/LaunchAgents")}))},
		{Kind: "programs", Found: gate.Known(present(home, hub.Commands, filepath.SplitList(e.Getenv("PATH"))))},
		{Kind: "files", Found: gate.Known(present(home, hub.Files, []string{home}))},
	}
}

// present lists where names exist: as they are, or in each of the directories.
func present(home string, names, dirs []string) []string {
	var all []string
	for _, name := range names {
		places := []string{name}
		if below, ok := strings.CutPrefix(name, "~/"); ok {
			places = []string{filepath.Join(home, below)}
		} else if !filepath.IsAbs(name) {
			places = nil
			for _, dir := range dirs {
				places = append(places, filepath.Join(dir, name))
			}
		}
		for _, path := range places {
			// What cannot be looked at may be there.
			if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) && !slices.Contains(all, path) {
				all = append(all, path)
			}
		}
	}
	return all
}
