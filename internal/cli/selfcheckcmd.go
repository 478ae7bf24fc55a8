package cli

import (
	"context"
	"io"
	"os"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/certify"
	"mcpx/internal/converge"
	"mcpx/internal/daemon"
)

var agentsSelfCheck = Command{
	Path: "agents self-check", Short: "Say whether agents are configured as they should be", Op: "agent.check", Args: "[KIND]", Max: 1,
	Long: "For each agent that you manage or that has the control plane, or for KIND alone: its files, its problems, and whether it\n" +
		"reaches mcp_hub with its token, which is tried. Exit code 1 when something is wrong, and when there is no agent to check.\n" +
		"--run-client also runs the client's own status command, for a minute at most: what it connects to is what counts, and\n" +
		"mcpx has to see it come. The client may rewrite its own file when it runs.",
	Example: "mcpx agents self-check\nmcpx agents self-check codex --json\nmcpx agents self-check claude_code --run-client",
	Flags:   []Flag{{Name: "run-client", Kind: BoolFlag, Usage: "run the status command of each client, in an empty directory; it may rewrite its own file"}},
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		var out selfChecks
		if out.Checks, err = service.CheckAgents(ctx, api.ChecksQuery{Agent: a.Pos(0)}); err != nil {
			return err
		}
		if a.Bool("run-client") {
			for _, one := range out.Agents {
				seen, err := e.runClient(ctx, service, one.Agent)
				if err != nil {
					return err
				}
				out.Clients, out.OK = append(out.Clients, seen), out.OK && seen.State != clientFailed
			}
		}
		if err := e.Show(out, func(w io.Writer) { e.printChecks(w, out) }); err != nil {
			return err
		}
		if !out.OK {
			return errAnswerNo
		}
		return nil
	},
}

// selfChecks is the answer of agents self-check.
type selfChecks struct {
	api.Checks
	Clients []clientRun `json:"clients,omitempty"`
}

// What the run of a client has shown.
const (
	clientConnected = "connected"
	clientFailed    = "failed"
	clientSilent    = "not-asked" // it has no command that connects, or nothing of its files leads through mcpx
)

// clientRun is one run of a client.
type clientRun struct {
	State string `json:"state"`
	certify.Looked
	Requests uint64 `json:"requests"` // that came to mcpx meanwhile, from this client or another one
}

// runClient lets the client connect to the servers that its files lead to through mcpx. Its word alone counts for nothing:
// its requests have to have come.
func (e *Env) runClient(ctx context.Context, service api.Service, agent string) (clientRun, error) {
	home := e.Getenv("HOME")
	report, err := service.InspectConfig(ctx, api.ConfigQuery{Agent: agent, Home: home, Moved: daemon.Moves(e.Getenv, home, "")})
	if err != nil {
		return clientRun{}, err
	}
	var names []string
	for _, f := range report.Entries {
		if f.Class == converge.Compliant && f.Routed != nil && f.Scope != "project" {
			names = append(names, f.Name)
		}
	}
	before, err := service.Status(ctx, api.None{})
	if err != nil {
		return clientRun{}, err
	}
	out := clientRun{State: clientSilent}
	if out.Looked, err = certify.Look(ctx, agent, os.Environ(), names); err != nil {
		return clientRun{}, err
	}
	after, err := service.Status(ctx, api.None{})
	if err != nil {
		return clientRun{}, err
	}
	out.Output = withoutSecrets(out.Output)
	if out.Requests = after.Counters.Requests - before.Counters.Requests; out.Command == "" || len(names) == 0 {
		return out, nil
	}
	if out.State = clientConnected; len(out.Missing) > 0 || out.Requests == 0 {
		out.State = clientFailed
	}
	return out, nil
}

// withoutSecrets takes what looks like a secret out of the words of a client: some print whole commands.
func withoutSecrets(text string) string {
	return word().ReplaceAllStringFunc(text, func(w string) string {
		if holdsSecret([]byte(w)) {
			return "[redacted]"
		}
		return w
	})
}

func (e *Env) printClient(w io.Writer, c clientRun) {
	switch {
	case c.Command == "":
		line(w, "%s: its client has no command that connects to its servers and tells; start it and see `%s ps`", c.Agent, e.self())
		return
	case c.State == clientSilent:
		line(w, "%s: `%s` ran; nothing of its files leads through mcpx", c.Agent, c.Command)
	case c.State == clientConnected:
		line(w, "%s: `%s` connects to %s, and mcpx saw %d requests", c.Agent, c.Command, strings.Join(c.Connected, ", "), c.Requests)
	case len(c.Missing) > 0:
		line(w, "%s: `%s` does not call %s connected", c.Agent, c.Command, strings.Join(c.Missing, ", "))
	default:
		line(w, "%s: `%s` says that it is connected, and mcpx saw no request: it goes somewhere else", c.Agent, c.Command)
	}
	for row := range strings.Lines(c.Output) {
		line(w, "  | %s", plain(strings.TrimRight(row, "\r\n")))
	}
}

func (e *Env) printChecks(w io.Writer, out selfChecks) {
	for _, one := range out.Agents {
		state := e.paint(green, "ok")
		if !one.OK {
			state = e.paint(red, "not ok")
		}
		line(w, "%s: %s; %s, files: %d, plans that wait: %d", one.Agent, state, one.Level, len(one.Files), one.Plans)
		switch {
		case one.Control.Strategy == "":
			line(w, "  mcp_hub: not installed")
		case one.Control.Answers == "":
			line(w, "  mcp_hub: by %s", one.Control.Strategy)
		default:
			line(w, "  mcp_hub: by %s, %s", one.Control.Strategy, one.Control.Answers)
		}
		for _, p := range one.Problems {
			color := dim
			switch p.Severity {
			case converge.WeightBlocker:
				color = red
			case converge.WeightWarning:
				color = yellow
			case converge.WeightNotice, converge.WeightOK:
			}
			subject := ""
			if p.Entry != "" {
				subject = plain(p.Entry) + ": "
			}
			line(w, "  %s %s: %s%s", e.paint(color, string(p.Severity)), p.Code, subject, plain(p.Text))
			if p.Command != "" {
				line(w, "    %s", e.typed(p.Command))
			}
		}
	}
	for _, c := range out.Clients {
		e.printClient(w, c)
	}
	if out.Code != "" {
		line(w, "%s: %s", out.Code, out.Text)
	}
	e.next(w, out.Next)
}
