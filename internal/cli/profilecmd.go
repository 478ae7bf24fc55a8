package cli

import (
	"context"
	"io"
	"strings"

	"mcpx/internal/api"
)

var profileList = Command{
	Path: "profile list", Short: "List the sets of servers that agents can be given at once", Op: "profile.list",
	Example: "mcpx profile list",
	Run: func(ctx context.Context, e *Env, _ Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		page, err := service.Profiles(ctx, api.None{})
		if err != nil {
			return err
		}
		return e.Show(page, func(w io.Writer) {
			if len(page.Profiles) == 0 {
				line(w, "There are no profiles. Make one: %s profile set NAME --server SERVER --agent KIND", e.self())
				return
			}
			rows := make([][]cell, 0, len(page.Profiles))
			for _, p := range page.Profiles {
				rows = append(rows, []cell{{p.Name, bold}, {dash(strings.Join(serversOf(p), ", ")), ""}, {dash(strings.Join(p.Agents, ", ")), ""}})
			}
			e.table(w, []string{"PROFILE", "SERVERS", "AGENTS"}, rows)
		})
	},
}

func serversOf(p api.Profile) []string {
	var names []string
	for _, s := range p.Servers {
		names = append(names, s.Name)
	}
	return names
}

var profileShow = Command{
	Path: "profile show", Short: "Show the servers of a profile and the agents that shall have them", Op: "profile.show", Args: "NAME", Min: 1, Max: 1, Complete: profileNames,
	Example: "mcpx profile show work",
	Run: func(ctx context.Context, e *Env, a Args) error {
		service, err := e.API(ctx)
		if err != nil {
			return err
		}
		p, err := service.Profile(ctx, api.ProfileRef{Profile: a.Pos(0)})
		if err != nil {
			return err
		}
		return e.Show(p, func(w io.Writer) { e.printProfile(w, p) })
	},
}

func (e *Env) printProfile(w io.Writer, p api.Profile) {
	pairs(w, [][2]string{{"profile", p.Name}, {"agents", dash(strings.Join(p.Agents, ", "))}})
	if len(p.Servers) == 0 {
		line(w, "It has no servers.")
		return
	}
	rows := make([][]cell, 0, len(p.Servers))
	for _, s := range p.Servers {
		rows = append(rows, []cell{{s.Name, bold}, {dash(strings.Join(s.Reasons, ", ")), yellow}, {dash(plain(s.File)), ""}})
	}
	e.table(w, []string{"SERVER", "NOT ROUTED", "STANDS IN"}, rows)
}

var profileSet = Command{
	Path: "profile set", Short: "Say which servers a profile has and which agents shall have them, and make the plans", Op: "profile.set", Args: "NAME", Min: 1, Max: 1, Complete: profileNames,
	Long: "An agent shall have the servers of its profiles, and those of `mcpx agents mount`, which count for more. Each audit compares that\n" +
		"with its files: a server that comes into a profile is planned for its agents, one that leaves it is planned away. What is\n" +
		"not given stays as it is. Nothing is written before a plan is applied.",
	Example: "mcpx profile set work --server github --server docs --agent claude_code --agent codex\nmcpx profile set work --add memory",
	Flags: []Flag{
		{Name: "server", Kind: StringsFlag, Value: "S", Usage: "the profile has the server S; repeated for all that it shall have"},
		{Name: "add", Kind: StringsFlag, Value: "S", Usage: "put the server S into it, too; may be repeated"},
		{Name: "drop", Kind: StringsFlag, Value: "S", Usage: "take the server S out of it; may be repeated"},
		{Name: "agent", Kind: StringsFlag, Value: "KIND", Usage: "the agent KIND shall have it; repeated for all that shall"},
		{Name: "no-agents", Kind: BoolFlag, Usage: "no agent shall have it"},
		projectFlag,
	},
	Run: func(ctx context.Context, e *Env, a Args) error {
		in := api.SetProfile{Profile: a.Pos(0), Add: a.Strings("add"), Drop: a.Strings("drop")}
		if a.Given("server") {
			servers := a.Strings("server")
			in.Servers = &servers
		}
		switch {
		case a.Given("agent") && a.Bool("no-agents"):
			return misused("--agent and --no-agents exclude each other", "profile set")
		case a.Given("agent") || a.Bool("no-agents"):
			agents := append([]string{}, a.Strings("agent")...)
			in.Agents = &agents
		case in.Servers == nil && len(in.Add)+len(in.Drop) == 0:
			return misused("nothing is set: give --server, --add, --drop, --agent or --no-agents", "profile set")
		}
		return e.setProfile(ctx, a, in)
	},
}

var profileRemove = Command{
	Path: "profile remove", Short: "Take all servers out of a profile, and the profile from all agents", Op: "profile.set", Args: "NAME", Min: 1, Max: 1, Complete: profileNames,
	Long:    "The servers stay in the catalog. For the agents that had the profile plans are made that take its servers away.",
	Example: "mcpx profile remove work",
	Flags:   []Flag{projectFlag},
	Run: func(ctx context.Context, e *Env, a Args) error {
		return e.setProfile(ctx, a, api.SetProfile{Profile: a.Pos(0), Servers: &[]string{}, Agents: &[]string{}})
	},
}

func (e *Env) setProfile(ctx context.Context, a Args, in api.SetProfile) error {
	service, query, err := e.configQuery(ctx, a)
	if err != nil {
		return err
	}
	in.Home, in.Project, in.Moved = query.Home, query.Project, query.Moved
	out, err := service.SetProfile(e.operation(ctx), in)
	if err != nil {
		return err
	}
	return e.Show(out, func(w io.Writer) {
		if out.State == "removed" {
			line(w, "The profile %s is gone.", plain(in.Profile))
		} else {
			if out.Already {
				line(w, "It is so already.")
			}
			e.printProfile(w, out.Profile)
		}
		if len(out.Plans) > 0 {
			e.planTable(w, out.Plans)
		}
		e.next(w, out.Next)
	})
}

// profileNames are the candidates for completion.
func profileNames(ctx context.Context, e *Env) []string {
	client, err := e.Daemon()
	if err != nil {
		return nil
	}
	page, err := client.Profiles(ctx, api.None{})
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range page.Profiles {
		names = append(names, p.Name)
	}
	return names
}
