package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
)

// maxImportFile bounds the file of an import, in bytes. The largest files of this kind also hold the history of an
// agent and have some MB.
const maxImportFile = 32 << 20

var serverImport = Command{
	Path: "server import", Short: "Add the servers of a file that is yours", Op: "server.import", Args: "FILE", Min: 1, Max: 1,
	Long: "The short form of `mcpx catalog import FILE --apply --trust`: the servers count as reviewed, since you run this, and\n" +
		"values of variables that do not look like secrets are taken over. FILE is what any agent or README has, such as\n" +
		"{\"mcpServers\": {\"NAME\": {\"command\": ..., \"args\": [...]}}}; - reads it from stdin. Servers that are there already\n" +
		"are not touched, so the same import twice changes nothing. A variable or header whose value looks like a secret is not\n" +
		"copied: it becomes a reference to the environment variable, and a note says which: it is a variable of the daemon, so\n" +
		"of whoever runs `mcpx daemon start`. Exit code 1 when an entry could not be imported.",
	Example: "mcpx server import ~/.cursor/mcp.json\nmcpx server import --dry-run mcp.json",
	Flags:   []Flag{{Name: "dry-run", Kind: BoolFlag, Usage: "only say what would be done: the outcome is would-create"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		return e.importFile(ctx, a.Pos(0), importing{format: "auto", apply: !a.Bool("dry-run"), trust: true})
	},
}

// defaultImportLimit is how many entries an import shows without being told: a screen full. The counts are of all.
const defaultImportLimit = 50

var catalogImport = Command{
	Path: "catalog import", Short: "Import the servers of a file of an agent, a hub or another mcpx", Op: "server.import", Args: "FILE", Min: 1, Max: 1,
	Long: "Without --apply it only says what would be done. FILE (- is stdin) is the configuration of any agent in JSON, TOML or\n" +
		"YAML, an export of another hub, or our own (`mcpx catalog export`). Each entry is created, linked (the catalog has it\n" +
		"under another name), unchanged, a conflict or an error; docs/catalog.md explains the codes. New servers wait for\n" +
		"`mcpx catalog review NAME --approve`. Values of variables and headers are never imported: their names are, and\n" +
		"`mcpx catalog review NAME --bind VARIABLE=REF` says where the values come from. What a person has decided about a\n" +
		"server stays, and the same import twice changes nothing. Exit code 1 when an entry is a conflict or an error.",
	Example: "mcpx catalog import ~/.codex/config.toml\nmcpx catalog import hub.json --apply --all-or-nothing\nmcpx catalog import - --format yaml < config.yaml",
	Flags: []Flag{
		{Name: "apply", Kind: BoolFlag, Usage: "write; without it nothing is changed"},
		{Name: "format", Kind: StringFlag, Default: "auto", Usage: "syntax of the file; auto goes by its name or its text", Choices: daemon.ImportFormats},
		{Name: "all-or-nothing", Kind: BoolFlag, Usage: "write nothing when one entry is a conflict or an error"},
		{Name: "limit", Kind: IntFlag, Default: defaultImportLimit, Value: "N", Usage: "show at most N entries, those with a problem first; 0 shows all"},
		{Name: "trust", Kind: BoolFlag, Usage: "the file is yours: its servers count as reviewed, and values that do not look like secrets are taken over"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.Int("limit") < 0 {
			return misused("--limit is less than 0", "catalog import")
		}
		return e.importFile(ctx, a.Pos(0), importing{
			format: a.String("format"), apply: a.Bool("apply"), whole: a.Bool("all-or-nothing"), trust: a.Bool("trust"), limit: a.Int("limit"), next: "mcpx catalog import",
		})
	},
}

// importing is how a file is imported.
type importing struct {
	format string
	apply  bool
	whole  bool // all or nothing
	trust  bool
	limit  int    // of entries that are shown; 0 is no limit
	from   string // the other hub whose file it is; "" none
	next   string // the command, which is named again with --apply; "" none is
}

// again is the command line that writes what a dry run has shown.
func (i importing) again(name string) string {
	words := []string{i.next, api.ShellWord(name)}
	if i.format != "auto" {
		words = append(words, "--format "+i.format)
	}
	if i.whole {
		words = append(words, "--all-or-nothing")
	}
	if i.trust {
		words = append(words, "--trust")
	}
	return strings.Join(append(words, "--apply"), " ")
}

func (e *Env) importFile(ctx context.Context, name string, how importing) error {
	data, err := e.readInput(name)
	if err != nil {
		return err
	}
	if data, err = daemon.ImportJSON(name, data, how.format); err != nil {
		return err
	}
	parsed, err := catalog.ParseImport(data, how.trust)
	if err != nil {
		return err
	}
	in := api.ImportServers{DryRun: !how.apply, Pending: !how.trust, AllOrNothing: how.whole, From: how.from, Servers: []catalog.Server{}}
	if name != "-" {
		if in.Ref, err = filepath.Abs(name); err != nil {
			in.Ref = name // only for the provenance
		}
	}
	for _, p := range parsed {
		if p.Err == nil {
			in.Servers = append(in.Servers, p.Server)
		} else {
			in.Unread++
		}
	}
	service, err := e.API(ctx)
	if err != nil {
		return err
	}
	report, err := service.ImportServers(e.operation(ctx), in)
	if err != nil {
		return err
	}
	report.Entries = withFindings(report.Entries, parsed)
	failed := slices.ContainsFunc(report.Entries, importFailed)
	report = bounded(report, how.limit)
	if !e.json { // with --json the notes are part of the answer
		for _, entry := range report.Entries {
			for _, note := range entry.Notes {
				e.Note("note: %s: %s", entry.Name, note)
			}
		}
	}
	if err := e.Show(report, func(w io.Writer) { e.printImport(w, name, report, how) }); err != nil {
		return err
	}
	if failed {
		return errAnswerNo
	}
	return nil
}

func importFailed(entry api.ImportEntry) bool {
	return entry.Outcome == api.ImportConflict || entry.Outcome == api.ImportError
}

// bounded counts all entries and keeps as many as are shown, those with a problem first.
func bounded(report api.ImportReport, limit int) api.ImportReport {
	report.Counts = map[string]int{}
	for _, entry := range report.Entries {
		report.Counts[string(entry.Outcome)]++
		for _, code := range slices.Compact(slices.Sorted(slices.Values(entry.Codes))) {
			report.Counts[code]++
		}
	}
	if limit == 0 || len(report.Entries) <= limit {
		return report
	}
	slices.SortStableFunc(report.Entries, func(a, b api.ImportEntry) int {
		weight := map[bool]int{true: 0, false: 1}
		return weight[importFailed(a)] - weight[importFailed(b)]
	})
	report.LeftOut = len(report.Entries) - limit
	report.Entries = report.Entries[:limit]
	return report
}

func (e *Env) printImport(w io.Writer, name string, report api.ImportReport, how importing) {
	rows := make([][]cell, 0, len(report.Entries))
	for _, entry := range report.Entries {
		rows = append(rows, []cell{{plain(entry.Name), bold}, {string(entry.Outcome), ""}, {plain(entry.Text), ""}})
	}
	e.table(w, []string{"NAME", "OUTCOME", ""}, rows)
	if report.LeftOut > 0 {
		line(w, "... and %d more; --limit 0 shows all", report.LeftOut)
	}
	if how.next == "" {
		return
	}
	var counts []string
	for _, code := range slices.Sorted(maps.Keys(report.Counts)) {
		counts = append(counts, fmt.Sprintf("%d %s", report.Counts[code], code))
	}
	line(w, "\n%s", strings.Join(counts, ", "))
	switch {
	case report.Refused:
		line(w, "Nothing was written: --all-or-nothing, and an entry is a conflict or an error.")
	case report.DryRun && report.Counts[string(api.ImportWouldCreate)]+report.Counts[string(api.ImportWouldLink)] == 0:
		line(w, "Nothing was written, and with --apply nothing would be.")
		e.next(w, nextOfConflicts(report.Entries))
	case report.DryRun:
		line(w, "Nothing was written.")
		e.next(w, []string{how.again(name)})
	case report.Counts[string(api.ImportCreated)] > 0 && !how.trust:
		e.next(w, []string{"mcpx catalog list --review pending"})
	default:
		e.next(w, nextOfConflicts(report.Entries))
	}
}

// nextOfConflicts shows the server that has the name of an entry, when one has it.
func nextOfConflicts(entries []api.ImportEntry) []string {
	i := slices.IndexFunc(entries, func(entry api.ImportEntry) bool { return entry.Outcome == api.ImportConflict && entry.Server != "" })
	if i < 0 {
		return nil
	}
	return []string{"mcpx catalog show " + entries[i].Server}
}

// withFindings adds to the answer of the daemon what was found out while the file was read.
func withFindings(entries []api.ImportEntry, parsed []catalog.Imported) []api.ImportEntry {
	for _, p := range parsed {
		if p.Err != nil {
			f := fault.From(p.Err)
			entries = append(entries, api.ImportEntry{
				Name: p.Name, Outcome: api.ImportError, Text: strings.TrimPrefix(f.Error(), p.Name+": ") + "; " + f.Hint, Codes: []string{f.Code},
			})
			continue
		}
		i := slices.IndexFunc(entries, func(e api.ImportEntry) bool { return e.Name == p.Server.Name })
		if i < 0 || entries[i].Outcome != api.ImportCreated && entries[i].Outcome != api.ImportWouldCreate {
			continue // nothing was written: there is nothing to note
		}
		var texts []string
		for _, note := range p.Notes {
			texts = append(texts, note.Text)
			entries[i].Codes = append(entries[i].Codes, note.Code)
		}
		entries[i].Notes = append(texts, entries[i].Notes...)
	}
	return entries
}

func (e *Env) readInput(name string) ([]byte, error) {
	in := e.In
	if name != "-" {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.Invalid, "file-unreadable").Saying("there is no file %s", name).
				Hinting("give the path of a file with mcpServers in it, such as ~/.cursor/mcp.json, or - for stdin. `mcpx up` finds the files of agents by itself")
		}
		if err != nil {
			return nil, fault.New(fault.Invalid, "file-unreadable").Saying("the file cannot be read").Hinting("check its owner and mode").Because(err)
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxImportFile+1))
	if err != nil {
		return nil, fault.New(fault.Invalid, "file-unreadable").Saying("%s cannot be read", name).Hinting("give the path of a file with mcpServers in it").Because(err)
	}
	if len(data) > maxImportFile {
		return nil, fault.New(fault.Invalid, "file-too-large").Saying("%s is larger than %d bytes", name, maxImportFile)
	}
	return data, nil
}
