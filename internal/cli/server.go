package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// serverNames completes the name of a server from a daemon that runs; it starts none.
func serverNames(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Servers(ctx, api.ServersQuery{})
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(page.Servers))
	for _, s := range page.Servers {
		names = append(names, s.Name)
	}
	return names
}

var serverList = Command{
	Path: "server list", Short: "List the servers", Op: "server.list",
	Example: "mcpx server list\nmcpx server list --json",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Servers(ctx, api.ServersQuery{})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Servers) == 0 {
				line(w, "No servers yet. Add one: %s server add NAME -- COMMAND ARGS...", e.self())
				return
			}
			rows := make([][]cell, 0, len(page.Servers))
			for _, s := range page.Servers {
				rows = append(rows, []cell{{s.Name, bold}, e.stateCell(stateOf(s)), {string(s.Sharing), ""}, {short(s.Definition(), 60), ""}, {s.Route, dim}})
			}
			e.table(w, []string{"NAME", "STATE", "SHARING", "SERVER", "URL FOR AGENTS"}, rows)
		})
	},
}

// stateOf is the one word about a server.
func stateOf(s api.Server) string {
	if !s.Routable {
		if s.Lifecycle == catalog.Disabled {
			return "disabled"
		}
		return "not routed"
	}
	return string(s.Status.State)
}

func (e *Env) stateCell(state string) cell {
	switch state {
	case "ready":
		return cell{state, green}
	case "backoff", "starting":
		return cell{state, yellow}
	case "crash_loop", "not routed":
		return cell{state, red}
	}
	return cell{state, ""}
}

var serverShow = Command{
	Path: "server show", Short: "Show everything about a server", Op: "server.show", Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
	Example: "mcpx server show memory",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		s, err := service.Server(ctx, api.ServerRef{Name: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(s, func(w io.Writer) { e.printServer(w, s) })
	},
}

func (e *Env) printServer(w io.Writer, s api.Server) {
	limits := s.Limits.OrDefault()
	idle := age(limits.Idle)
	if limits.Idle < 0 {
		idle = "never"
	}
	rows := [][2]string{{"name", s.Name}, {"url", s.Route}, {"state", stateOf(s)}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, plain(value)})
		}
	}
	for _, reason := range s.Reasons {
		if reason != "lifecycle-disabled" { // the state says that
			add("reason", wordsFor(reason))
		}
	}
	add("title", s.Title)
	add("notes", s.Notes)
	add("aliases", strings.Join(s.Aliases, ", "))
	if s.Stdio != nil {
		add("command", s.Definition())
		add("directory", orElse(s.Stdio.Cwd, "(your home)"))
		add("environment", bindingLines(s.Stdio.Env))
		add("passed on", strings.Join(s.Stdio.EnvPass, ", "))
		if s.Direct {
			add("supervised", "no: it ends with the daemon")
		}
	}
	if s.HTTP != nil {
		add("remote", s.HTTP.URL)
		add("headers", bindingLines(s.HTTP.Headers))
		add("transport", string(s.HTTP.Transport))
	}
	add("sharing", string(s.Sharing))
	add("protocol", string(s.Protocol))
	add("timeouts", fmt.Sprintf("start %s, call %s (at most %s), idle %s", age(limits.Start), age(limits.Call), age(limits.Max), idle))
	add("review", string(s.Review))
	switch {
	case s.Overlay && s.Notes == builtInNotes:
		add("source", "built in; gone when `mcpx up` ends")
	case s.Overlay:
		add("source", "the configuration of an agent; gone when `mcpx up` ends")
	default:
		add("source", wordsFor(s.Source))
	}
	add("sessions", number(s.Status.Sessions))
	add("in flight", number(s.Status.InFlight))
	add("restarts", number(s.Status.Restarts))
	if s.Status.LastError != "" {
		add("last error", fmt.Sprintf("%s ago: %s", age(e.Now().Sub(s.Status.ErrorAt)), s.Status.LastError))
	}
	for _, lane := range s.Status.Lanes {
		what := string(lane.State)
		if lane.Link.Pid > 0 {
			what += fmt.Sprintf(", pid %d", lane.Link.Pid)
		}
		if lane.Version != "" {
			what += ", protocol " + lane.Version
		}
		add("process", what)
	}
	for _, note := range s.Status.Notes {
		add("note", wordsFor(note))
	}
	for _, text := range s.Advice {
		add("advice", text)
	}
	pairs(w, rows)
}

// wordsFor replaces a word for programs by one for people.
func wordsFor(word string) string {
	people, ok := map[string]string{
		"operator": "you added it", "import": "imported from a file", "observed": "the configuration of an agent",
		"review-pending": "nobody has agreed to it yet", "review-rejected": "it was rejected", "review-quarantined": "it is in quarantine",
		"sharing-narrowed": "some callers have a process of their own, because their agent, project or account is not known",
		"asks":             "it asks questions that do not say which call they belong to, so calls of different clients run one after the other",
	}[word]
	if !ok {
		return word
	}
	return people
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func bindingLines(bindings map[string]catalog.Binding) string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		b := bindings[name]
		switch {
		case b.Ref != "":
			lines = append(lines, name+" from "+b.Ref)
		case b.Template != "":
			lines = append(lines, name+" = "+b.Template)
		case catalog.SecretName(name) || catalog.SecretValue(b.Literal):
			lines = append(lines, name+" = (looks like a secret, not shown; --json shows it)")
		default:
			lines = append(lines, name+" = "+b.Literal)
		}
	}
	return strings.Join(lines, "\n")
}

// change makes a command that changes the state of one server.
func change(word, short, long, op string, call func(api.Service, context.Context, api.ServerRef) (api.Done, error)) Command {
	return Command{
		Path: "server " + word, Short: short, Long: long, Op: op, Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
		Example: "mcpx server " + word + " memory",
		Run: func(ctx context.Context, e *Env, a Args) error {
			service, err := e.API(ctx)
			if err != nil {
				return err
			}
			done, err := call(service, e.operation(ctx), api.ServerRef{Name: a.Pos(0)})
			if err != nil {
				return err
			}
			return e.Show(done, func(w io.Writer) {
				if done.Already {
					line(w, "%s was %s already.", done.Server, strings.TrimPrefix(done.State, "already_"))
				} else {
					line(w, "%s: %s.", done.Server, done.State)
				}
			})
		},
	}
}

var (
	serverRemove = change("remove", "Remove a server", "Its processes end. Calls in flight get a definite answer first.", "server.remove", api.Service.RemoveServer)
	serverEnable = change("enable", "Put a server into use again", "", "server.enable", api.Service.EnableServer)
	// An entry that is disabled keeps its definition and its review.
	serverDisable = change("disable", "Take a server out of use", "Its processes end; its definition stays.", "server.disable", api.Service.DisableServer)
	serverRestart = change("restart", "End the processes of a server", "The next call starts new ones. A crash loop is forgotten.", "server.restart", api.Service.RestartServer)
)

var serverLogs = Command{
	Path: "server logs", Short: "Show what a server wrote to stderr", Op: "server.logs", Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
	Long: "The newest lines since the daemon started. Lines on stdout that are no messages are here too, marked.\n" +
		"With --json each line is one JSON document, with -f too: {\"time\": ..., \"text\": ...}.",
	Example: "mcpx server logs memory\nmcpx server logs memory -f",
	Flags: []Flag{
		{Name: "follow", Letter: "f", Kind: BoolFlag, Usage: "stay and show new lines"},
		{Name: "lines", Letter: "n", Kind: IntFlag, Default: api.DefaultLogLines, Usage: "how many of the newest lines"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		if a.Int("lines") < 1 {
			return fault.New(fault.Invalid, "usage").Saying("--lines %d shows nothing", a.Int("lines")).Hinting("want a number of at least 1")
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		stream := json.NewEncoder(e.Out)
		return service.ServerLogs(ctx, api.LogsQuery{Name: a.Pos(0), Lines: a.Int("lines"), Follow: a.Bool("follow")}, func(l api.LogLine) error {
			if e.json {
				return stream.Encode(l)
			}
			_, err := fmt.Fprintf(e.Out, "%s  %s\n", e.paint(dim, l.Time.Local().Format("15:04:05.000")), plain(l.Text))
			return err
		})
	},
}

var serverTools = Command{
	Path: "server tools", Short: "List the tools of a server", Op: "server.tools", Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
	Long:    "The server is started when it does not run. --json has the schemas of the arguments.",
	Example: "mcpx server tools memory\nmcpx server tools memory --json",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		done := e.waiting("waiting for %s to start and answer; `mcpx server logs -f %s` shows what it says ...", a.Pos(0), a.Pos(0))
		page, err := service.ServerTools(ctx, api.ServerRef{Name: a.Pos(0)})
		done()
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Tools) == 0 {
				line(w, "%s has no tools.", page.Server)
				return
			}
			rows := make([][]cell, 0, len(page.Tools))
			for _, t := range page.Tools {
				rows = append(rows, []cell{{plain(t.Name), bold}, {argumentsOf(t.Raw), ""}, {short(t.Description, 80), ""}})
			}
			e.table(w, []string{"TOOL", "ARGUMENTS", "DESCRIPTION"}, rows)
		})
	},
}

// argumentsOf is a short form of a tool's input schema: names, with ? after optional ones.
func argumentsOf(tool json.RawMessage) string {
	var t struct {
		InputSchema struct {
			Properties map[string]json.RawMessage `json:"properties"`
			Required   []string                   `json:"required"`
		} `json:"inputSchema"`
	}
	if err := json.Unmarshal(tool, &t); err != nil {
		return "?" // a schema that we do not understand is still usable
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(t.InputSchema.Properties)) {
		if !slices.Contains(t.InputSchema.Required, name) {
			name += "?"
		}
		names = append(names, name)
	}
	return dash(short(strings.Join(names, " "), 40))
}

var serverCall = Command{
	Path: "server call", Short: "Call a tool of a server", Op: "server.call", Args: "NAME TOOL [JSON]", Min: 2, Max: 3, Complete: serverNames,
	Long:    "JSON is an object with the arguments; without it the tool is called without arguments. A result that is an\nerror ends with exit code 1. --json prints the result as the server sent it.",
	Example: "mcpx server call demo add '{\"a\":2,\"b\":3}'\nmcpx server call memory read_graph --json",
	Run: func(ctx context.Context, e *Env, a Args) error {
		arguments, err := object(a.Pos(2))
		if err != nil {
			return err
		}
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		done := e.waiting("waiting for %s ...", a.Pos(0))
		result, err := service.CallTool(e.operation(ctx), api.CallTool{Name: a.Pos(0), Tool: a.Pos(1), Arguments: arguments})
		done()
		if err != nil {
			return err
		}
		if err := e.Show(result.Raw, func(w io.Writer) { printResult(w, result.Raw) }); err != nil {
			return err
		}
		if result.IsError {
			return errAnswerNo
		}
		return nil
	},
}

// object checks the JSON argument of server call, so that a typing error is found here and named with its place.
func object(text string) (json.RawMessage, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var v map[string]json.RawMessage
	err := json.Unmarshal([]byte(text), &v)
	if err == nil && v != nil {
		return json.RawMessage(text), nil
	}
	f := fault.New(fault.Invalid, "arguments-invalid").Hinting(`the arguments are one JSON object in single quotes: '{"name": "value"}'`)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		at := min(int(syntax.Offset), len(text))
		return nil, f.Saying("the arguments are no JSON: %v at character %d, after %q", syntax, syntax.Offset, text[max(0, at-20):at])
	}
	return nil, f.Saying("the arguments are JSON, but no object")
}

// printResult shows the content of a tool result to a person.
func printResult(w io.Writer, raw json.RawMessage) {
	var result struct {
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			Data     string `json:"data"`
			MIMEType string `json:"mimeType"`
			URI      string `json:"uri"`
			Name     string `json:"name"`
			Resource struct {
				URI      string `json:"uri"`
				MIMEType string `json:"mimeType"`
				Text     string `json:"text"`
				Blob     string `json:"blob"`
			} `json:"resource"`
		} `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
	}
	if err := json.Unmarshal(raw, &result); err != nil || result.Content == nil && result.StructuredContent == nil {
		line(w, "%s", plain(string(raw))) // not the usual shape: shown as it is
		return
	}
	for _, c := range result.Content {
		switch c.Type {
		case "text":
			line(w, "%s", plain(c.Text))
		case "image", "audio":
			line(w, "[%s %s %d bytes]", c.Type, plain(c.MIMEType), base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(c.Data, "="))))
		case "resource_link":
			line(w, "[link %s %s]", plain(c.URI), plain(c.Name))
		case "resource":
			if c.Resource.Blob != "" {
				line(w, "[resource %s %s %d bytes]", plain(c.Resource.URI), plain(c.Resource.MIMEType), base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(c.Resource.Blob, "="))))
			} else {
				line(w, "[resource %s]\n%s", plain(c.Resource.URI), plain(c.Resource.Text))
			}
		default:
			line(w, "[%s]", plain(c.Type))
		}
	}
	if len(result.Content) == 0 {
		line(w, "%s", plain(string(result.StructuredContent)))
	}
}
