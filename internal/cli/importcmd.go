package cli

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// maxImportFile bounds the file of an import, in bytes. The largest files of this kind also hold the history of an
// agent and have some MB.
const maxImportFile = 32 << 20

var serverImport = Command{
	Path: "server import", Short: "Add the servers of an mcpServers file", Op: "server.import", Args: "FILE", Min: 1, Max: 1,
	Long: "FILE is the JSON that most agents and README files use: {\"mcpServers\": {\"NAME\": {\"command\": ..., \"args\": [...]}}}.\n" +
		"- reads it from stdin. Servers that are there already are not touched, so the same import twice changes nothing.\n" +
		"A variable or header whose value looks like a secret is not copied: it becomes a reference to the environment\n" +
		"variable, and a note says which: it is a variable of the daemon, so of whoever runs `mcpx daemon start`. Exit code 1 when an entry could not be imported.",
	Example: "mcpx server import ~/.cursor/mcp.json\nmcpx server import --dry-run mcp.json",
	Flags:   []Flag{{Name: "dry-run", Kind: BoolFlag, Usage: "only say what would be done: the outcome is would-create"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		data, err := e.readInput(a.Pos(0))
		if err != nil {
			return err
		}
		parsed, err := catalog.ParseImport(data)
		if err != nil {
			return err
		}
		var servers []catalog.Server
		for _, p := range parsed {
			if p.Err == nil {
				servers = append(servers, p.Server)
			}
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		report, err := service.ImportServers(e.operation(ctx), api.ImportServers{Servers: servers, DryRun: a.Bool("dry-run")})
		if err != nil {
			return err
		}
		report.Entries = withFindings(report.Entries, parsed)
		if !e.json { // with --json the notes are part of the answer
			for _, entry := range report.Entries {
				for _, note := range entry.Notes {
					e.Note("note: %s: %s", entry.Name, note)
				}
			}
		}
		if err := e.Show(report, func(w io.Writer) {
			rows := make([][]cell, 0, len(report.Entries))
			for _, entry := range report.Entries {
				rows = append(rows, []cell{{entry.Name, bold}, {string(entry.Outcome), ""}, {entry.Text, ""}})
			}
			e.table(w, []string{"NAME", "OUTCOME", ""}, rows)
		}); err != nil {
			return err
		}
		if slices.ContainsFunc(report.Entries, func(entry api.ImportEntry) bool {
			return entry.Outcome == api.ImportConflict || entry.Outcome == api.ImportError
		}) {
			return errAnswerNo
		}
		return nil
	},
}

// withFindings adds to the answer of the daemon what was found out while the file was read.
func withFindings(entries []api.ImportEntry, parsed []catalog.Imported) []api.ImportEntry {
	for _, p := range parsed {
		if p.Err != nil {
			f := fault.From(p.Err)
			entries = append(entries, api.ImportEntry{Name: p.Name, Outcome: api.ImportError, Text: strings.TrimPrefix(f.Error(), p.Name+": ") + "; " + f.Hint})
			continue
		}
		i := slices.IndexFunc(entries, func(e api.ImportEntry) bool { return e.Name == p.Server.Name })
		if i < 0 || entries[i].Outcome != api.ImportCreated && entries[i].Outcome != api.ImportWouldCreate {
			continue // nothing was written: there is nothing to note
		}
		var texts []string
		for _, note := range p.Notes {
			texts = append(texts, note.Text)
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
