package cli

import (
	"context"
	"io"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/converge"
)

var agentsAuth = Command{
	Path: "agents auth-capabilities", Short: "Show how each agent can send its token", Op: "agent.capabilities",
	Long: "helper: the agent runs `mcpx token print` and sends what that prints. env: it takes the token from a variable, which you\n" +
		"set with `mcpx token env`. bridge: it starts `mcpx connect`, which reads the token itself. No way writes the token into\n" +
		"a configuration file. The first one is used unless you name another.",
	Example: "mcpx agents auth-capabilities --json",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		out, err := service.AuthCapabilities(ctx, api.None{})
		if err != nil {
			return err
		}
		return e.Show(out, func(w io.Writer) {
			rows := make([][]cell, 0, len(out.Agents))
			for _, a := range out.Agents {
				rows = append(rows, []cell{{a.Agent, bold}, {strings.Join(a.Strategies, ", "), ""}, {a.Variable, ""}, {dash(a.Installed), green}, {dash(strings.Join(a.Certified, ", ")), ""}})
			}
			e.table(w, []string{"AGENT", "WAYS", "VARIABLE", "IN USE", "CERTIFIED"}, rows)
		})
	},
}

var agentsControl = Command{
	Path: "agents install-control-plane", Short: "Give an agent the control plane, so that it can see how it is configured", Op: "agent.control",
	Long: "Makes the plan that adds mcp_hub to the agent's configuration, or corrects its entry, and shows it. Nothing is written\n" +
		"without --apply, which needs the yes of a person for the plan unless your policy allows it. An agent that has the control\n" +
		"plane gets no plan and keeps its token; one without a token gets it when the plan is applied.",
	Example: "mcpx agents install-control-plane --agent claude_code\nmcpx agents install-control-plane --agent codex --auth bridge --apply",
	Flags: []Flag{
		agentFlag,
		{Name: "auth", Kind: StringFlag, Value: "WAY", Usage: "how it sends its token, WAY: helper, env or bridge (default: the first that it knows)", Choices: []string{converge.StrategyHelper, converge.StrategyEnv, converge.StrategyBridge}},
		{Name: "apply", Kind: BoolFlag, Usage: "carry the plan out"},
		projectFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		agent, err := neededAgent(a)
		if err != nil {
			return err
		}
		service, query, err := e.configQuery(ctx, a)
		if err != nil {
			return err
		}
		out, err := service.InstallControl(e.operation(ctx), api.InstallControl{Agent: agent, Auth: a.String("auth"), Home: query.Home, Moved: query.Moved})
		if err != nil {
			return err
		}
		if a.Bool("apply") && out.Plan != nil {
			done, err := service.ApplyPlan(e.operation(ctx), api.ApplyPlan{Plan: out.Plan.ID})
			if err != nil {
				return err
			}
			return e.Show(done, func(w io.Writer) {
				line(w, "%s: %s.", done.Plan.ID, done.State)
				if out.Variable != "" {
					line(w, "Set %s where the agent is started: `%s`", out.Variable, e.typed("mcpx token env --agent "+out.Agent))
				}
				for _, effect := range done.Effects {
					line(w, "- %s", plain(effect))
				}
				e.next(w, []string{"mcpx agents self-check " + out.Agent})
			})
		}
		return e.Show(out, func(w io.Writer) {
			line(w, "%s (by %s).", plain(out.Text), out.Strategy)
			if out.Plan != nil {
				line(w, "")
				e.planText(w, looks{e.color}, *out.Plan)
			}
			if out.Variable != "" {
				line(w, "The agent takes its token from %s: `%s` sets it.", out.Variable, e.typed("mcpx token env --agent "+out.Agent))
			}
			e.next(w, out.Next)
		})
	},
}

var mountFlags = []Flag{
	{Name: "name", Kind: StringFlag, Value: "NAME", Usage: "the agent calls it NAME (default: as the catalog does)"},
	{Name: "scope", Kind: StringFlag, Value: "SCOPE", Usage: "in the files of SCOPE: user or project (default: user)", Choices: []string{"user", "project"}},
	projectFlag,
}

var agentsMount = Command{
	Path: "agents mount", Short: "Say that an agent shall have a server, and make the plan for it", Op: "agent.mount", Args: "KIND SERVER", Min: 2, Max: 2,
	Long: "What is said stays said: when the entry is lost, `mcpx audit run` makes the plan again. With --only everything that leads\n" +
		"through mcpx and was not mounted is one too many. Nothing is written before a plan is applied.",
	Example: "mcpx agents mount codex github\nmcpx agents mount claude_code memory --only",
	Flags: append([]Flag{{Name: "only", Kind: BoolFlag, Usage: "what was not mounted is one too many; --only=false ends that"}},
		mountFlags...),
	Run: func(ctx context.Context, e *Env, a Args) error { return e.mount(ctx, a, false) },
}

var agentsUnmount = Command{
	Path: "agents unmount", Short: "Say that an agent shall not have a server any more, and make the plan for it", Args: "KIND SERVER", Min: 2, Max: 2,
	Long:    "Only an entry that leads through mcpx goes: a server that the agent has by itself is yours. The plan needs your yes.",
	Example: "mcpx agents unmount codex github",
	Flags:   mountFlags,
	Run:     func(ctx context.Context, e *Env, a Args) error { return e.mount(ctx, a, true) },
}

func (e *Env) mount(ctx context.Context, a Args, absent bool) error {
	service, query, err := e.configQuery(ctx, a)
	if err != nil {
		return err
	}
	in := api.MountServer{
		Agent: a.Pos(0), Server: a.Pos(1), Name: a.String("name"), Scope: a.String("scope"), Absent: absent,
		Home: query.Home, Project: query.Project, Moved: query.Moved,
	}
	if !absent && a.Given("only") {
		only := a.Bool("only")
		in.Only = &only
	}
	out, err := service.MountServer(e.operation(ctx), in)
	if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) {
		switch out.State {
		case "mounted":
			line(w, "%s shall have %s.", out.Agent, plain(a.Pos(1)))
		case "unmounted":
			line(w, "%s shall not have %s any more.", out.Agent, plain(a.Pos(1)))
		default:
			line(w, "That was said already.")
		}
		if len(out.Plans) > 0 {
			e.planTable(w, out.Plans)
		} else {
			line(w, "Its files are that way: there is nothing to change.")
		}
		e.next(w, out.Next)
	})
}
