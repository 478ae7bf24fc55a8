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
	case "backoff", "starting", "adopting":
		return cell{state, yellow}
	case "crash_loop", "not routed", "wedged":
		return cell{state, red}
	}
	return cell{state, ""}
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
	Long: "The newest lines. What a running server wrote before the daemon was restarted comes first, marked and with the time of\n" +
		"the restart; more of it is in stderr.log in its directory below state/bundles. Lines on stdout that are no messages\n" +
		"are here too, marked.\n" +
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
