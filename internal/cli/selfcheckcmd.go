package cli

import (
	"context"
	"io"

	"mcpx/internal/api"
	"mcpx/internal/converge"
)

var agentsSelfCheck = Command{
	Path: "agents self-check", Short: "Say whether agents are configured as they should be", Op: "agent.check", Args: "[KIND]", Max: 1,
	Long: "For each agent that you manage or that has the control plane, or for KIND alone: its files, its problems, and whether it\n" +
		"reaches mcp_hub with its token, which is tried. Exit code 1 when something is wrong, and when there is no agent to check.",
	Example: "mcpx agents self-check\nmcpx agents self-check codex --json",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.CheckAgents(ctx, api.ChecksQuery{Agent: a.Pos(0)})
		if err != nil {
			return err
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

func (e *Env) printChecks(w io.Writer, out api.Checks) {
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
	if out.Code != "" {
		line(w, "%s: %s", out.Code, out.Text)
	}
	e.next(w, out.Next)
}
