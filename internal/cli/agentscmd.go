package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

var agentsDiscover = Command{
	Path: "agents discover", Short: "List your coding agents, and say which of them mcpx manages", Op: "agent.list",
	Long: "For each agent: its level, its program, its files, and what is in them. observed is the default: mcpx only looks.\n" +
		"managed: `mcpx audit run` makes plans. auto: plans that the policy allows are applied by themselves; everything else\n" +
		"still asks. observed and managed are set at once, since nothing is written for them without a yes; auto needs a person\n" +
		"at a terminal, and the exit code is 3 without one.",
	Example: "mcpx agents discover\nmcpx agents discover --manage claude_code",
	Flags: []Flag{
		{Name: "manage", Kind: StringFlag, Value: "KIND", Usage: "make plans for the agent KIND"},
		{Name: "observe", Kind: StringFlag, Value: "KIND", Usage: "only look at the agent KIND"},
		{Name: "auto", Kind: StringFlag, Value: "KIND", Usage: "let plans for the agent KIND be applied by themselves where the policy allows it"},
		{Name: "all", Kind: BoolFlag, Usage: "also agents that are not here"},
		projectFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		kind, level, err := wantedLevel(a)
		if err != nil {
			return err
		}
		service, query, err := e.configQuery(ctx, a)
		if err != nil {
			return err
		}
		if kind != "" {
			return e.setLevel(ctx, service, kind, level)
		}
		found, err := service.Agents(ctx, query)
		if err != nil {
			return err
		}
		if !a.Bool("all") {
			found.Agents = slices.DeleteFunc(found.Agents, func(a api.Agent) bool {
				return len(a.Files) == 0 && a.Client == "" && a.Level == converge.LevelObserved
			})
		}
		return e.Show(found, func(w io.Writer) { e.printAgents(w, found) })
	},
}

func wantedLevel(a Args) (kind string, level converge.Level, err error) {
	for flag, to := range map[string]converge.Level{"manage": converge.LevelManaged, "observe": converge.LevelObserved, "auto": converge.LevelAuto} {
		switch {
		case a.String(flag) == "":
		case kind != "":
			return "", "", fault.New(fault.Invalid, "usage").Saying("--manage, --observe and --auto exclude each other").Hinting("give one of them")
		default:
			kind, level = a.String(flag), to
		}
	}
	return kind, level, nil
}

// setLevel asks the person and sets the level of an agent.
func (e *Env) setLevel(ctx context.Context, service api.Service, kind string, level converge.Level) error {
	flag := map[converge.Level]string{converge.LevelManaged: "manage", converge.LevelObserved: "observe", converge.LevelAuto: "auto"}[level]
	command := fmt.Sprintf("mcpx agents discover --%s %s", flag, kind)
	if level == converge.LevelAuto { // from here on nobody is asked for some plans
		p, err := e.person(command)
		if err != nil {
			return err
		}
		defer p.leave()
		line(p, "Plans for %s will be applied without asking you, as far as config/policy.toml allows it.", plain(kind))
		yes, err := p.confirm(ctx, "allow that")
		if err != nil {
			return err
		}
		if !yes {
			return notConfirmed(command)
		}
	}
	out, err := service.SetAgent(e.operation(ctx), api.SetAgent{Agent: kind, Level: level})
	if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) {
		if strings.HasPrefix(out.State, "already_") {
			line(w, "%s is %s already.", out.Title, out.Level)
		} else {
			line(w, "%s is %s.", out.Title, out.Level)
		}
		e.next(w, out.Next)
	})
}

func (e *Env) printAgents(w io.Writer, found api.Agents) {
	if len(found.Agents) == 0 {
		line(w, "No coding agent was found. `%s agents discover --all` lists those that mcpx knows.", e.self())
		return
	}
	rows := make([][]cell, 0, len(found.Agents))
	for _, a := range found.Agents {
		level := cell{string(a.Level), ""}
		if a.Level != converge.LevelObserved {
			level.color = green
		}
		var classes []string
		for _, class := range slices.Sorted(maps.Keys(a.Counts)) {
			classes = append(classes, fmt.Sprintf("%d %s", a.Counts[class], class))
		}
		rows = append(rows, []cell{
			{a.Agent, bold}, level, {number(len(a.Files)), ""}, {dash(strings.Join(classes, ", ")), ""}, {number(a.Plans), ""}, {dash(plain(a.Client)), ""},
		})
	}
	e.table(w, []string{"AGENT", "LEVEL", "FILES", "ENTRIES", "PLANS", "PROGRAM"}, rows)
	for _, a := range found.Agents {
		for _, f := range a.Files {
			line(w, "%s  %s (%s, %s)", a.Agent, plain(f.Path), f.Scope, f.State)
		}
	}
	e.next(w, found.Next)
}
