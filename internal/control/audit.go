package control

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// recentReceipts is how far back the loop guard looks (governance.md section 5.1).
const recentReceipts = 24 * time.Hour

// RunAudit looks at the files of agents, keeps what was seen, and makes plans.
func (c *Control) RunAudit(ctx context.Context, in api.RunAudit) (api.Audit, error) {
	if err := c.allow(ctx, "audit.run"); err != nil {
		return api.Audit{}, err
	}
	c.files.Lock()
	defer c.files.Unlock()
	out, err := c.auditLocked(ctx, in)
	out.Operation = api.OperationOf(ctx)
	return out, err
}

// known is what the store knows when an audit begins.
type known struct {
	servers    []catalog.Server
	candidates []catalog.Candidate
	links      map[string]string
	agents     []converge.AgentRecord // with the mounts that their profiles ask for
	followed   []converge.AgentRecord // those of which that is new
	records    []converge.FileRecord
	projects   []session.Project // that are registered
	open       []converge.Plan   // ready, errored and applying
	asked      []approval.Approval
	receipts   []converge.Receipt // the recent ones
	pinned     map[string]bool
	secrets    map[string]bool // names of credentials
}

// auditLocked is one audit; the caller holds files.
func (c *Control) auditLocked(ctx context.Context, in api.RunAudit) (api.Audit, error) {
	var k known
	if err := c.cfg.DB.View(ctx, func(r store.Reader) error { return c.learn(ctx, r, &k) }); err != nil {
		return api.Audit{}, err
	}
	out := api.Audit{Revision: catalog.Revision(k.servers), Plans: []api.PlanRow{}}
	var w converge.World
	var made []converge.Plan
	for try, moved := 1, true; moved && try <= maxLooks; try++ {
		var err error
		if w, err = c.seenBy(ctx, &in, &k, &out); err != nil {
			return api.Audit{}, err
		}
		if moved = false; !in.NoPlan {
			if made, moved, err = c.drafted(ctx, w); err != nil {
				return api.Audit{}, err
			}
			made = slices.DeleteFunc(made, func(p converge.Plan) bool { return in.Path != "" && !touches(p, in.Path) })
		}
	}
	err := c.counted(ctx, &out, func(tx store.Tx) error {
		if err := c.keep(ctx, tx, w); err != nil {
			return err
		}
		if err := c.noteCertificates(ctx, tx); err != nil || in.NoPlan {
			return err
		}
		return c.settle(ctx, tx, in, w, made, &out)
	})
	if err != nil {
		return api.Audit{}, err
	}
	c.remember(w, in.Agent == "")
	out.Observed = unmanaged(k, in, w.Findings)
	out.Next = nextOfAudit(out)
	return out, nil
}

// maxLooks bounds the tries on a file that is written between the look at it and the draft of its change. After the last
// one its plans are left to the next audit.
const maxLooks = 3

// seenBy looks at the files, and stages as candidates what the catalog does not have: the plans of a promotion name them.
func (c *Control) seenBy(ctx context.Context, in *api.RunAudit, k *known, out *api.Audit) (converge.World, error) {
	look := c.lookOf(*k, in.Agent, in.Home, in.Project, in.Moved)
	seen, err := c.cfg.Observe(ctx, look)
	if err != nil {
		return converge.World{}, err
	}
	if look.Home == c.cfg.Look().Home {
		c.rememberProjects(ctx, seen)
	}
	if in.Agent != "" && len(seen.Files) > 0 {
		in.Agent = seen.Files[0].Agent // as the observer spells it
	}
	findings := converge.Classify(seen.Entries, k.servers, k.links)
	out.Files = slices.DeleteFunc(slices.Clone(seen.Files), func(f converge.File) bool { return f.State == converge.FileAbsent })
	out.Entries, out.Counts = findings, map[converge.Class]int{}
	for _, f := range findings {
		out.Counts[f.Class]++
	}
	err = c.counted(ctx, out, func(tx store.Tx) error {
		if err := c.keepFollowed(ctx, tx, k.followed); err != nil {
			return err
		}
		return c.stage(ctx, tx, k, seen, findings)
	})
	if err != nil {
		return converge.World{}, err
	}
	return c.world(ctx, *in, look, *k, seen, findings), nil
}

// counted is one change with the number of its events.
func (c *Control) counted(ctx context.Context, out *api.Audit, fn func(tx store.Tx) error) error {
	return c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		before, err := tx.EventHead(ctx)
		if err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		after, err := tx.EventHead(ctx)
		out.Events += int(after.Seq - before.Seq)
		return err
	})
}

// stage makes candidates of what the catalog does not have.
func (c *Control) stage(ctx context.Context, tx store.Tx, k *known, seen converge.Observation, findings []converge.Finding) error {
	looked := map[place]bool{}
	for _, f := range seen.Files {
		looked[place{f.Agent, f.Path}] = f.State == converge.FileReadable || f.State == converge.FileAbsent
	}
	if _, err := c.StageCandidates(ctx, tx, findings, func(agent, file string) bool { return looked[place{agent, file}] }); err != nil {
		return err
	}
	var err error
	k.candidates, err = catalog.AllCandidates(ctx, tx)
	return err
}

// lookOf fills in where the daemon itself would look, so that a plan says where its files are, whoever applies it, and all
// projects that are known: what is seen does not depend on where somebody was when he asked.
func (c *Control) lookOf(k known, agent, home, project string, moved []string) converge.Look {
	look := converge.Look{Agent: agent, Home: home, Project: project, Moved: moved, Projects: []string{}, Names: namesOf(k.servers)}
	own := c.cfg.Look()
	if home == "" {
		look.Home, look.Moved = own.Home, append(own.Moved, moved...)
	}
	add := func(dir string) {
		if dir != "" && !slices.Contains(look.Projects, dir) {
			look.Projects = append(look.Projects, dir)
		}
	}
	add(project)
	if look.Home != own.Home {
		return look // what is known is known of the daemon's own home
	}
	for _, a := range k.agents {
		for _, m := range a.Mounts {
			add(m.Project)
		}
	}
	for _, p := range k.projects {
		if p.State == session.ProjectOK {
			add(p.Path)
		}
	}
	for _, r := range k.records {
		add(r.File.Project)
	}
	return look
}

// learn reads what an audit has to know.
func (c *Control) learn(ctx context.Context, r store.Reader, k *known) error {
	var err error
	if k.servers, err = catalog.All(ctx, r); err != nil {
		return err
	}
	if k.links, err = linked(ctx, r); err != nil {
		return err
	}
	if k.secrets, err = KnownCredentials(ctx, r); err != nil {
		return err
	}
	if k.agents, err = r.AgentRecords(ctx); err != nil {
		return err
	}
	if k.projects, err = session.AllProjects(ctx, r, false); err != nil {
		return err
	}
	k.agents, k.followed = following(k.agents, k.servers)
	if k.records, err = r.FileRecords(ctx, converge.ListFileRecords{}); err != nil {
		return err
	}
	for _, state := range openStates {
		plans, err := converge.AllPlans(ctx, r, converge.ListPlans{State: state})
		if err != nil {
			return err
		}
		k.open = append(k.open, plans...)
	}
	for _, state := range []approval.State{approval.Pending, approval.Approved} {
		all, err := approval.All(ctx, r, approval.ListApprovals{State: state})
		if err != nil {
			return err
		}
		k.asked = append(k.asked, all...)
	}
	if k.pinned, err = pinned(ctx, r, k.servers); err != nil {
		return err
	}
	k.receipts, err = receiptsSince(ctx, r, c.cfg.Now().Add(-recentReceipts))
	return err
}

// pinned names the servers whose tools are all as a person agreed to, or that nobody compares.
func pinned(ctx context.Context, r catalog.PinReader, servers []catalog.Server) (map[string]bool, error) {
	all, err := r.AllPins(ctx)
	if err != nil {
		return nil, err
	}
	agreed := map[string]bool{}
	for _, p := range all {
		agreed[p.Server] = !p.Wanted && len(p.Held) == 0
	}
	out := map[string]bool{}
	for _, s := range servers {
		out[s.Name] = agreed[s.ID] || s.PinMode() == catalog.PinsOff
	}
	return out, nil
}

// openStates are those of plans that wait for something.
var openStates = []converge.PlanState{converge.PlanReady, converge.PlanErrored, converge.PlanApplying}

func isOpen(p converge.Plan) bool { return slices.Contains(openStates, p.State) }

// receiptsSince reads the receipts that began after a moment, the newest first.
func receiptsSince(ctx context.Context, r converge.Reader, since time.Time) ([]converge.Receipt, error) {
	var all []converge.Receipt
	for one, err := range converge.EachReceipt(ctx, r, converge.ListReceipts{}) {
		if err != nil {
			return nil, err
		}
		if one.Started.Before(since) {
			break
		}
		all = append(all, one)
	}
	return all, nil
}

func namesOf(servers []catalog.Server) map[string]bool {
	names := map[string]bool{}
	for _, s := range servers {
		names[s.Name] = false
		for _, alias := range s.Aliases {
			names[alias] = true
		}
	}
	return names
}

// world is everything that decides what is planned.
func (c *Control) world(ctx context.Context, in api.RunAudit, look converge.Look, k known, seen converge.Observation, findings []converge.Finding) converge.World {
	look.Names, look.Project, look.Projects = nil, "", nil // those of the revision, and of each file
	w := converge.World{
		Files: seen.Files, Findings: findings, Servers: k.servers, Revision: catalog.Revision(k.servers), Agents: k.agents,
		Policy: c.cfg.Policy(), Adapter: c.cfg.Adapter, Port: c.port(), Token: c.cfg.TokenOnly(), Program: c.cfg.Program, Look: look,
		Staged: converge.StagedFrom(k.candidates), Pinned: k.pinned, Known: k.secrets, Waiting: map[string]bool{}, Certified: certified(c.cfg.Certificates(ctx)),
		Receipts: k.receipts, Records: k.records, Now: c.cfg.Now(),
	}
	w.Asked.Retry = actorOf(ctx).Channel != channelLoop // a person who asks again wants what failed, too
	w.Asked.Entry, w.Asked.Mounts = in.Entry, in.Mounts
	if in.Agent != "" {
		w.Asked.Agents = []string{in.Agent}
	}
	asked := map[string]bool{}
	for _, a := range k.asked {
		asked[a.About] = true
	}
	for _, p := range k.open {
		// What was asked for once goes on to be asked for while its plans are open: they are made anew when a file changes.
		if p.Agent != "" && p.Kind != converge.PlanControlPlane && !slices.Contains(w.Asked.Agents, p.Agent) {
			w.Asked.Agents = append(w.Asked.Agents, p.Agent)
		}
		for _, change := range p.Changes {
			if asked[p.ID] {
				w.Waiting[change.Real] = true
			}
		}
	}
	slices.Sort(w.Asked.Agents)
	return w
}

// port is that of the listener; "" when it has none.
func (c *Control) port() string {
	_, port, err := net.SplitHostPort(c.cfg.Daemon.Listener)
	if err != nil {
		return ""
	}
	return port
}

// drafted makes the plans of a world. A proposal that cannot be drafted becomes a plan that is not offered and says why.
// Moved: some are left out, since a file or an entry was no longer what the world says when its change was drafted.
func (c *Control) drafted(ctx context.Context, w converge.World) (plans []converge.Plan, moved bool, err error) {
	all := rounds{}
	for _, p := range converge.Propose(w) {
		plan, differs, err := c.sealedIn(ctx, all, w, p)
		switch {
		case err != nil:
			return nil, false, err
		case !differs:
		case len(all[plan.Look.Project].Stale(plan)) > 0:
			moved = true
		default:
			plans = append(plans, plan)
		}
	}
	return plans, moved, nil
}

// sealed drafts one proposal and makes it a plan. False: the files are as they should be already.
func (c *Control) sealed(ctx context.Context, w converge.World, p converge.Proposal) (converge.Plan, bool, error) {
	return c.sealedIn(ctx, rounds{}, w, p)
}

// round is what the plans of one world share: reading it costs as much as it is large, and its files are read once.
type round struct {
	*converge.Sealer
	converge.Drafter
}

// rounds are those of one world, by the project of its look.
type rounds map[string]round

func (c *Control) sealedIn(ctx context.Context, all rounds, w converge.World, p converge.Proposal) (converge.Plan, bool, error) {
	w.Look = narrowed(w, p)
	one, begun := all[w.Look.Project]
	if !begun {
		one = round{converge.NewSealer(w), c.cfg.Target.Read(w.Look)}
		all[w.Look.Project] = one
	}
	var changes []converge.Change
	var problems []converge.Problem
	for _, d := range p.Files {
		change, err := one.Draft(ctx, d)
		switch {
		case err == nil:
			changes = append(changes, change)
		case ctx.Err() != nil:
			return converge.Plan{}, false, err
		default:
			f := fault.From(err)
			problems = append(problems, converge.Problem{Code: f.Code, Text: f.Message})
			if conflicts, ok := errors.AsType[converge.Conflicts](err); ok {
				p.Conflicts = append(p.Conflicts, conflicts...)
			}
		}
	}
	plan, differs := one.Seal(p, changes, problems)
	return plan, differs, nil
}

// narrowed is the look of a plan: that of the project for which its files or entries count. One that is made of the look of
// another plan keeps it.
func narrowed(w converge.World, p converge.Proposal) converge.Look {
	look := w.Look
	for _, d := range p.Files {
		for _, f := range w.Files {
			if f.Agent == d.Agent && f.Path == d.Path && f.Project != "" {
				look.Project = f.Project
			}
		}
		for _, s := range d.Steps {
			if s.Project != "" {
				look.Project = s.Project
			}
		}
	}
	return look
}

// Scopes of files, as package clientfile spells them: one user everywhere, and one project.
const (
	scopeUser    = "user"
	scopeProject = "project"
)

func touches(p converge.Plan, path string) bool {
	return slices.ContainsFunc(p.Changes, func(ch converge.Change) bool { return ch.Path == path || ch.Real == path })
}

// unmanaged lists the agents with entries that go around mcpx for which nothing was planned.
func unmanaged(k known, in api.RunAudit, findings []converge.Finding) []string {
	levels := map[string]converge.Level{}
	for _, a := range k.agents {
		levels[a.Agent] = a.Level
	}
	var agents []string
	for _, f := range findings {
		idle := levels[f.Agent] == "" || levels[f.Agent] == converge.LevelObserved
		if idle && in.Agent == "" && f.Class == converge.Bypass && !slices.Contains(agents, f.Agent) {
			agents = append(agents, f.Agent)
		}
	}
	return agents
}

// nextOfAudit are the commands that follow.
func nextOfAudit(out api.Audit) []string {
	if next := nextOfRows(out.Plans); next != nil {
		return next
	}
	if len(out.Plans) > 0 {
		return []string{"mcpx plan show " + out.Plans[0].ID}
	}
	if len(out.Observed) > 0 {
		return []string{"mcpx agents discover --manage " + out.Observed[0], "mcpx audit run --agent " + out.Observed[0]}
	}
	return []string{"mcpx config inspect"}
}
