package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/daemon"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/telemetry"
)

// demoName and builtInNotes mark the built-in server in `mcpx up`.
const (
	demoName     = "demo"
	builtInNotes = "built in"
)

var up = Command{
	Path: "up", Short: "Start here: offer the servers that your agents have already, and a demo",
	Long: "It runs the daemon in the foreground and reads the MCP servers that are configured in your agents (Claude Code,\n" +
		"Codex, Gemini CLI, Cline, OpenCode and ten more). Each gets its own URL for as long as this command runs. No file of an\n" +
		"agent is written, nothing is added to the catalog, and secrets in those files stay in memory. Ctrl-C ends it\n" +
		"together with everything it started.",
	Example: "mcpx up\nmcpx up --listen 127.0.0.1:31000",
	Flags:   []Flag{listenFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		exe, err := os.Executable()
		if err != nil {
			return err
		}
		ids := id.NewSource(e.Now, rand.Reader)
		project, err := agentProject("")
		if err != nil {
			return err
		}
		offered := daemon.Observe(e.Getenv, project, []string{demoName}, ids)
		offered.Servers = append(offered.Servers, builtIn(exe, ids))
		d, err := e.serve(ctx, a, false, func(c *daemon.Config) {
			c.Overlay = offered
			if e.Getenv("MCPX_LOG") == "" { // the table is what a newcomer should see
				quiet := telemetry.Levels{Default: slog.LevelWarn}
				c.Log = telemetry.NewLogger(e.Err, e.logs, quiet)
			}
		})
		if err != nil {
			return err
		}
		for _, note := range offered.Notes {
			e.Note("note: %s", note)
		}
		if err := e.welcome(ctx, d); err != nil {
			return errors.Join(err, d.Stop(context.WithoutCancel(ctx), true))
		}
		return e.untilStopped(ctx, d, true)
	},
}

// builtIn is the demonstration server: this program again.
func builtIn(exe string, ids *id.Source) catalog.Server {
	return catalog.Server{
		ID: ids.New(id.Server), Name: demoName, Notes: builtInNotes,
		Stdio:   &catalog.Stdio{Command: exe, Args: []string{"demo-server"}},
		Sharing: catalog.ShareSession, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled, Source: "observed",
	}
}

// welcome prints what is offered and the next step.
func (e *Env) welcome(ctx context.Context, d *daemon.Daemon) error {
	client, err := e.Daemon()
	if err != nil {
		return err
	}
	page, err := client.Servers(ctx, api.ServersQuery{})
	if err != nil {
		return err
	}
	return e.Show(page, func(w io.Writer) {
		line(w, "mcpx is up at %s. Every server has a URL of its own:\n", d.About().Base)
		rows := make([][]cell, 0, len(page.Servers))
		demo := demoName
		for _, s := range page.Servers {
			from := "catalog"
			if s.Overlay {
				from = s.Notes
			}
			definition := short(s.Definition(), 50)
			if s.Overlay && s.Notes == builtInNotes {
				demo, definition = s.Name, "mcpx demo-server"
			}
			if !s.Routable {
				definition += " (" + stateOf(s) + ")"
			} else if err := d.Startable(ctx, s.Server); err != nil {
				reason, _, _ := strings.Cut(fault.From(err).Message, ";") // the places that were searched follow
				definition += " (cannot start: " + short(reason, 40) + ")"
			}
			rows = append(rows, []cell{{s.Name, bold}, {from, ""}, {definition, ""}, {s.Route, ""}})
		}
		e.table(w, []string{"NAME", "FROM", "SERVER", "URL"}, rows)
		call := fmt.Sprintf(`%s server call %s add '{"a":2,"b":3}'`, e.self(), demo)
		if home := e.Getenv("MCPX_HOME"); home != "" {
			call = "MCPX_HOME=" + api.ShellWord(home) + " " + call
		}
		line(w, "\nNext, in another terminal:\n\n    %s\n", e.paint(bold, call))
		line(w, "Or give an agent a URL: claude mcp add --transport http %s %s/servers/%s/mcp", demo, d.About().Base, demo)
		line(w, "No file of an agent was changed. Ctrl-C ends everything.")
	})
}
