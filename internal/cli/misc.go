package cli

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"

	"mcpx/internal/api"
	"mcpx/internal/bridge"
	"mcpx/internal/demo"
)

var connect = Command{
	Path: "connect", Short: "Connect one agent on stdin and stdout to a server", Args: "NAME", Min: 1, Max: 1, Complete: serverNames,
	Long: "For agents that only speak stdio: put `mcpx connect NAME` where the command of a server stands. It survives a\n" +
		"restart of the daemon without the agent noticing, and starts the daemon when none runs. stdout carries the\n" +
		"protocol and nothing else; the end of stdin ends it.",
	Example: "mcpx connect memory\nmcpx connect --agent cline --pass GITHUB_TOKEN github",
	Flags: []Flag{
		{Name: "agent", Kind: StringFlag, Value: "KIND", Usage: "name of the agent, KIND, for sharing agent"},
		{Name: "cwd", Kind: StringFlag, Value: "DIR", Usage: "the agent's project DIR, for sharing workspace (default: the current directory)"},
		{Name: "pass", Kind: StringsFlag, Value: "VAR", Usage: "hand the variable VAR of the agent on to the server; may be repeated"},
		{Name: "no-start", Kind: BoolFlag, Usage: "do not start a daemon when none runs"},
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		paths, err := e.Paths()
		if err != nil {
			return err
		}
		cwd, err := workspace(a.String("cwd"))
		if err != nil {
			return err
		}
		c := bridge.Config{
			Server: a.Pos(0), Agent: a.String("agent"), Cwd: cwd, Pass: map[string]string{},
			Dial: func(ctx context.Context) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", paths.Socket())
			},
			In: e.In, Out: e.Out, Err: e.Err, Now: e.Now,
		}
		for _, name := range a.Strings("pass") {
			if value := e.Getenv(name); value != "" {
				c.Pass[name] = value
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

// workspace is the project of the agent: where it started the bridge, unless a flag says otherwise.
func workspace(flag string) (string, error) {
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
