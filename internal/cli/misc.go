package cli

import (
	"context"
	"io"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/bridge"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/demo"
	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
)

var connect = Command{
	Path: "connect", Short: "Connect one agent on stdin and stdout to a server, or to the tools of mcpx", Args: "[NAME]", Max: 1, Complete: serverNames,
	Long: "For agents that only speak stdio: put `mcpx connect NAME` where the command of a server stands. It survives a\n" +
		"restart of the daemon without the agent noticing, and starts the daemon when none runs. stdout carries the\n" +
		"protocol and nothing else; the end of stdin ends it. Without NAME the agent gets the tools for projects that are\n" +
		"served at /mcp; a call that a daemon did not answer is made again, and its operation_id makes it happen once.",
	Example: "mcpx connect memory\nmcpx connect\nmcpx connect --agent cline --pass GITHUB_TOKEN github",
	Flags: []Flag{
		{Name: "agent", Kind: StringFlag, Value: "KIND", Usage: "name of the agent, KIND, for sharing agent: any name, such as cline; agents of one name share"},
		{Name: "cwd", Kind: StringFlag, Value: "DIR", Usage: "the agent's project DIR, for sharing workspace (default: the current directory)"},
		{Name: "pass", Kind: StringsFlag, Value: "VAR", Usage: "hand the variable VAR of the agent on to a server that was added with --env-pass VAR; may be repeated"},
		{Name: "no-start", Kind: BoolFlag, Usage: "do not start a daemon when none runs, wait for one: 2s at first, 30s for one that went away"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		paths, err := e.Paths()
		if err != nil {
			return err
		}
		cwd, err := agentProject(a.String("cwd"))
		if err != nil {
			return err
		}
		if a.Given("agent") {
			if err := catalog.ValidName(a.String("agent")); err != nil {
				f := fault.From(err)
				return fault.New(fault.Invalid, "usage").Saying("--agent: %s", strings.TrimPrefix(f.Message, "name: ")).Hinting("%s", f.Hint)
			}
		}
		if a.Pos(0) == "" && a.Given("pass") {
			return fault.New(fault.Invalid, "usage").Saying("--pass hands variables on to a server, and none is named").
				Hinting("name it: mcpx connect --pass VAR NAME")
		}
		pass, err := e.passed(ctx, a.Pos(0), a.Strings("pass"))
		if err != nil {
			return err
		}
		c := bridge.Config{
			Server: a.Pos(0), Agent: a.String("agent"), Cwd: cwd, Pass: pass,
			Dial: func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", paths.Socket())
			},
			In: e.In, Out: e.Out, Err: e.Err, Now: e.Now,
		}
		if e.json {
			c.Err = notes{e}
		}
		if c.Server == converge.HubName && c.Agent != "" {
			c.Bearer = func() string {
				v, err := e.agentToken(c.Agent)
				if err != nil {
					return "" // the hub says what is missing
				}
				return v.Reveal()
			}
		}
		if !a.Bool("no-start") {
			c.Start = func(ctx context.Context) error {
				_, err := e.startDaemon(ctx, nil)
				return err
			}
		}
		return bridge.Run(ctx, c)
	},
}

// passed are the variables that connect hands on. What cannot arrive is told here: the agent sees a server without them
// and does not know why.
func (e *Env) passed(ctx context.Context, server string, names []string) (map[string]string, error) {
	values := make(map[string]string, len(names))
	for _, name := range names {
		switch value := e.Getenv(name); {
		case !variableName().MatchString(name):
			return nil, fault.New(fault.Invalid, "usage").Saying("--pass %q is no name of a variable", name).
				Hinting("give the name alone: --pass GITHUB_TOKEN hands on its value")
		case value == "":
			e.Note("mcpx connect %s: --pass %s: the variable is not set here, so nothing is handed on", server, name)
		default:
			values[name] = value
		}
	}
	if len(values) == 0 {
		return values, nil
	}
	client, err := e.Daemon()
	if err != nil {
		return nil, err
	}
	s, err := client.Server(ctx, api.ServerRef{Name: server})
	if err != nil || s.Stdio == nil {
		return values, nil //nolint:nilerr // no daemon yet, or no such server: the bridge tells that in its own words
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(s.Stdio.EnvPass, name) {
			e.Note("mcpx connect %s: --pass %s: the server does not take it; allow it with `mcpx server edit %s --env-pass %s`", server, name, s.Name, name)
		}
	}
	return values, nil
}

// variableName is what --pass accepts.
var variableName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// agentProject is the project of the agent: where it started the bridge, unless a flag says otherwise.
func agentProject(flag string) (string, error) {
	if flag != "" {
		return directory(flag)
	}
	cwd, err := os.Getwd()
	if err != nil {
		return "", nil // the directory was removed: the agent has no project that could be named
	}
	return cwd, nil
}

var demoServer = Command{
	Path: "demo-server", Short: "Run the built-in demonstration server on stdin and stdout",
	Long:    "A small stdio MCP server: add, echo, a slow task with progress, a question, an image, structured output.",
	Example: "mcpx server add demo -- mcpx demo-server",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		return demo.Run(ctx, e.Version, e.In, e.Out)
	},
}

// versions is what mcpx version prints with --json.
type versions struct {
	Version string `json:"version"`
	Level   int    `json:"api_level"`
	Go      string `json:"go"`
	System  string `json:"system"`
}

var version = Command{
	Path: "version", Short: "Print the version",
	Example: "mcpx version --json",
	Run: func(_ context.Context, e *Env, _ Args) error {
		v := versions{Version: e.Version, Level: api.Level, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH}
		return e.Show(v, func(w io.Writer) { line(w, "mcpx %s (API level %d, %s, %s)", v.Version, v.Level, v.Go, v.System) })
	},
}
