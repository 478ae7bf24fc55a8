package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"regexp"
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
		"variable of the same name, and a note says so. Exit code 1 when an entry could not be imported.",
	Example: "mcpx server import ~/.cursor/mcp.json\nmcpx server import --dry-run mcp.json",
	Flags:   []Flag{{Name: "dry-run", Kind: BoolFlag, Usage: "only say what would be done"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		data, err := e.readInput(a.Pos(0))
		if err != nil {
			return err
		}
		servers, notes, err := parseServers(data)
		if err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		report, err := service.ImportServers(e.operation(ctx), api.ImportServers{Servers: servers, DryRun: a.Bool("dry-run")})
		if err != nil {
			return err
		}
		for _, note := range notes {
			e.Note("note: %s", note)
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

func (e *Env) readInput(name string) ([]byte, error) {
	in := e.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fault.New(fault.Invalid, "file-unreadable").Saying("the file cannot be read").Because(err)
		}
		defer file.Close()
		in = file
	}
	data, err := io.ReadAll(io.LimitReader(in, maxImportFile+1))
	if err != nil {
		return nil, fault.New(fault.Invalid, "file-unreadable").Saying("%s cannot be read", name).Because(err)
	}
	if len(data) > maxImportFile {
		return nil, fault.New(fault.Invalid, "file-too-large").Saying("%s is larger than %d bytes", name, maxImportFile)
	}
	return data, nil
}

// usual is one entry of an mcpServers file, with the spellings that are in use.
type usual struct {
	Type    string            `json:"type"`
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Cwd     string            `json:"cwd"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	HTTPURL string            `json:"httpUrl"`
	Headers map[string]string `json:"headers"`
}

// parseServers reads an mcpServers file, also with the key "servers". The notes say what was not copied.
func parseServers(data []byte) ([]catalog.Server, []string, error) {
	var file struct {
		MCPServers map[string]json.RawMessage `json:"mcpServers"`
		Servers    map[string]json.RawMessage `json:"servers"`
	}
	bad := fault.New(fault.Invalid, "import-unreadable").Hinting(`want {"mcpServers": {"NAME": {"command": "...", "args": ["..."]}}}`)
	if err := json.Unmarshal(data, &file); err != nil {
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			before := string(data[:min(int(syntax.Offset), len(data))])
			return nil, nil, bad.Saying("the file is no JSON: %v in line %d", syntax, 1+strings.Count(before, "\n"))
		}
		return nil, nil, bad.Saying("the file is JSON, but not of the usual shape").Because(err)
	}
	entries := file.MCPServers
	if entries == nil {
		entries = file.Servers
	}
	if entries == nil {
		return nil, nil, bad.Saying("the file has no mcpServers")
	}
	var servers []catalog.Server
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		var u usual
		if err := json.Unmarshal(entries[name], &u); err != nil {
			return nil, nil, bad.Saying("the entry %q is not of the usual shape", name).Because(err)
		}
		s, lost := u.server(name)
		servers = append(servers, s)
		for _, variable := range lost {
			notes = append(notes, name+": the value of "+variable+" looks like a secret and was not copied; set the environment variable "+
				envName(variable)+" for the daemon, or choose another place with `mcpx server edit`")
		}
	}
	return servers, notes, nil
}

func (u usual) server(name string) (s catalog.Server, lost []string) {
	s = catalog.Server{Name: name, Sharing: catalog.ShareSession}
	if safe := catalog.SafeName(name); catalog.ValidName(name) != nil {
		s.Name, s.Title = safe, name
	}
	url := u.URL
	if u.HTTPURL != "" {
		url = u.HTTPURL
	}
	if url != "" && u.Command == "" {
		transport := catalog.TransportAuto
		if u.Type == "sse" {
			transport = catalog.TransportSSE
		}
		s.HTTP = &catalog.HTTP{URL: url, Transport: transport}
		s.HTTP.Headers, lost = imported(u.Headers)
		return s, lost
	}
	s.Stdio = &catalog.Stdio{Command: u.Command, Args: u.Args, Cwd: u.Cwd}
	s.Stdio.Env, lost = imported(u.Env)
	return s, lost
}

// variable is a reference to an environment variable, as the agents spell it: ${NAME}, ${env:NAME}.
var variable = regexp.MustCompile(`\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}`)

// imported turns values into bindings. Secret-shaped values become references and are listed.
func imported(values map[string]string) (map[string]catalog.Binding, []string) {
	if len(values) == 0 {
		return nil, nil
	}
	out := make(map[string]catalog.Binding, len(values))
	var lost []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		switch {
		case variable.MatchString(value) && !strings.ContainsAny(variable.ReplaceAllString(value, ""), "{}"):
			out[name] = catalog.Binding{Template: variable.ReplaceAllString(value, "{env:$1}")}
		case looksSecret(name, value):
			out[name] = catalog.Binding{Ref: "env:" + envName(name)}
			lost = append(lost, name)
		default:
			out[name] = catalog.Binding{Literal: value}
		}
	}
	return out, lost
}

// envName is the name of an environment variable for a value that was not copied: a header has other characters.
func envName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '.' || r == ' ' {
			return '_'
		}
		return r
	}, name)
}
