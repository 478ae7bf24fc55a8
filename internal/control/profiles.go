package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// maxProfiles bounds the profiles of one agent.
const maxProfiles = 32

// following gives the records with the mounts that their profiles ask for, and those of which that is new.
func following(records []converge.AgentRecord, servers []catalog.Server) (all, changed []converge.AgentRecord) {
	for _, r := range records {
		now := r.Follow(servers)
		if !now.Same(r) {
			changed = append(changed, now)
		}
		all = append(all, now)
	}
	return all, changed
}

// keepFollowed writes down what the profiles of agents ask for.
func (c *Control) keepFollowed(ctx context.Context, tx store.Tx, changed []converge.AgentRecord) error {
	for _, r := range changed {
		if err := tx.PutAgentRecord(ctx, converge.PutAgentRecord{Record: r}); err != nil {
			return err
		}
		given, taken := []string{}, []string{}
		for _, m := range r.Mounts {
			switch {
			case m.Profile == "":
			case m.Absent:
				taken = append(taken, m.Name)
			default:
				given = append(given, m.Name)
			}
		}
		text := fmt.Sprintf("%s shall have what its profiles name: %s", r.Agent, strings.Join(given, ", "))
		if err := c.tell(ctx, tx, event.AgentMounted, event.Refs{event.RefAgent: r.Agent}, text, struct {
			Profiles []string `json:"profiles"`
			Given    []string `json:"given"`
			Taken    []string `json:"taken"`
		}{orEmpty(r.Profiles), given, taken}); err != nil {
			return err
		}
	}
	return nil
}

// profilesOf gathers the profiles that servers and agents name, in order of name.
func profilesOf(servers []catalog.Server, records []converge.AgentRecord) []api.Profile {
	found := map[string]*api.Profile{}
	at := func(name string) *api.Profile {
		if found[name] == nil {
			found[name] = &api.Profile{Name: name, Servers: []api.ProfileServer{}, Agents: []string{}}
		}
		return found[name]
	}
	for _, s := range servers { // in order of name
		for _, name := range s.Profiles {
			reasons := orEmpty(catalog.NotRoutable(s))
			p := at(name)
			p.Servers = append(p.Servers, api.ProfileServer{Name: s.Name, Routable: len(reasons) == 0, Reasons: reasons, File: s.File})
		}
	}
	for _, r := range records {
		for _, name := range r.Profiles {
			p := at(name)
			p.Agents = append(p.Agents, r.Agent)
		}
	}
	out := []api.Profile{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		out = append(out, *found[name])
	}
	return out
}

func readProfiles(ctx context.Context, r store.Reader) ([]api.Profile, error) {
	servers, err := catalog.All(ctx, r)
	if err != nil {
		return nil, err
	}
	records, err := r.AgentRecords(ctx)
	return profilesOf(servers, records), err
}

// Profiles lists the sets of servers that agents can be given at once.
func (c *Control) Profiles(ctx context.Context, _ api.None) (api.ProfilePage, error) {
	if err := c.allow(ctx, "profile.list"); err != nil {
		return api.ProfilePage{}, err
	}
	var page api.ProfilePage
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		page.Profiles, err = readProfiles(ctx, r)
		return err
	})
	return page, err
}

// Profile shows one of them.
func (c *Control) Profile(ctx context.Context, in api.ProfileRef) (api.Profile, error) {
	if err := c.allow(ctx, "profile.show"); err != nil {
		return api.Profile{}, err
	}
	var all []api.Profile
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		all, err = readProfiles(ctx, r)
		return err
	})
	if err != nil {
		return api.Profile{}, err
	}
	p, there := profileIn(all, in.Profile)
	if !there {
		return p, profileUnknown(in.Profile, all)
	}
	return p, nil
}

// profileIn finds a profile; one that is not there is empty.
func profileIn(all []api.Profile, name string) (p api.Profile, there bool) {
	if i := slices.IndexFunc(all, func(p api.Profile) bool { return p.Name == name }); i >= 0 {
		return all[i], true
	}
	return api.Profile{Name: name, Servers: []api.ProfileServer{}, Agents: []string{}}, false
}

func profileUnknown(name string, all []api.Profile) error {
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	f := fault.New(fault.NotFound, "profile-unknown").Saying("there is no profile %q", name)
	if near := catalog.Nearest(name, names); near != "" {
		return f.Hinting("did you mean %s? `mcpx profile list` shows all names", near)
	}
	return f.Hinting("`mcpx profile set NAME --server SERVER` makes one")
}

// SetProfile says which servers a profile has and which agents shall have them, and makes the plans for these agents.
func (c *Control) SetProfile(ctx context.Context, in api.SetProfile) (api.ProfileChange, error) {
	if err := c.allow(ctx, "profile.set"); err != nil {
		return api.ProfileChange{}, err
	}
	if in.Servers == nil && in.Agents == nil && len(in.Add)+len(in.Drop) == 0 {
		return api.ProfileChange{}, fault.New(fault.Invalid, "request-invalid").Saying("neither servers nor agents are given")
	}
	if err := catalog.ValidProfile(in.Profile); err != nil {
		return api.ProfileChange{}, err
	}
	c.files.Lock()
	defer c.files.Unlock()
	var before, after api.Profile
	var concerned []string
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		all, err := readProfiles(ctx, tx)
		if err != nil {
			return err
		}
		var there bool
		if before, there = profileIn(all, in.Profile); !there && in.Servers != nil && len(*in.Servers)+len(in.Add) == 0 && (in.Agents == nil || len(*in.Agents) == 0) {
			return profileUnknown(in.Profile, all)
		}
		if err := c.setServers(ctx, tx, in); err != nil {
			return err
		}
		if err := c.setAgents(ctx, tx, in); err != nil {
			return err
		}
		all, err = readProfiles(ctx, tx)
		after, _ = profileIn(all, in.Profile)
		return err
	})
	if err != nil {
		return api.ProfileChange{}, err
	}
	concerned = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(before.Agents), after.Agents...))))
	out := api.ProfileChange{State: "set", Profile: after, Plans: []api.PlanRow{}, Operation: api.OperationOf(ctx)}
	switch {
	case equalJSON(before, after):
		out.State, out.Already = "already_set", true
	case len(after.Servers)+len(after.Agents) == 0:
		out.State = "removed"
	}
	for _, agent := range concerned {
		audit, err := c.auditLocked(ctx, api.RunAudit{Agent: agent, Mounts: true, Home: in.Home, Project: in.Project, Moved: in.Moved})
		if err != nil {
			return api.ProfileChange{}, err
		}
		out.Plans = append(out.Plans, slices.DeleteFunc(audit.Plans, func(p api.PlanRow) bool { return p.Agent != agent })...)
	}
	out.Next = []string{"mcpx profile show " + in.Profile}
	if next := nextOfRows(out.Plans); next != nil {
		out.Next = next
	} else if out.State == "removed" {
		out.Next = []string{"mcpx profile list"}
	}
	return out, nil
}

// setServers puts servers into a profile and takes others out of it.
func (c *Control) setServers(ctx context.Context, tx store.Tx, in api.SetProfile) error {
	wanted := map[string]bool{} // ids
	servers, err := catalog.All(ctx, tx)
	if err != nil {
		return err
	}
	if in.Servers == nil {
		for _, s := range servers {
			wanted[s.ID] = slices.Contains(s.Profiles, in.Profile)
		}
	}
	note := func(names []string, in bool) error {
		for _, name := range names {
			s, err := c.find(ctx, tx, name)
			if err != nil {
				return err
			}
			wanted[s.ID] = in
		}
		return nil
	}
	if in.Servers != nil {
		if err := note(*in.Servers, true); err != nil {
			return err
		}
	}
	if err := note(in.Add, true); err != nil {
		return err
	}
	if err := note(in.Drop, false); err != nil {
		return err
	}
	for _, old := range servers {
		if slices.Contains(old.Profiles, in.Profile) == wanted[old.ID] {
			continue
		}
		if err := c.inFile(old); err != nil {
			return err
		}
		s := old
		s.Profiles = slices.DeleteFunc(slices.Clone(old.Profiles), func(name string) bool { return name == in.Profile })
		if wanted[old.ID] {
			s.Profiles = append(s.Profiles, in.Profile)
		}
		if err := valid(s); err != nil {
			return err
		}
		s.Updated = c.cfg.Now()
		if _, err := c.putEdited(ctx, tx, old, s); err != nil {
			return err
		}
	}
	return nil
}

// setAgents gives a profile to agents and takes it from others.
func (c *Control) setAgents(ctx context.Context, tx store.Tx, in api.SetProfile) error {
	if in.Agents == nil {
		return nil
	}
	var wanted []string
	for _, name := range *in.Agents {
		agent, err := c.cfg.ParseAgent(name)
		if err != nil {
			return err
		}
		wanted = append(wanted, agent)
	}
	records, err := tx.AgentRecords(ctx)
	if err != nil {
		return err
	}
	agents := slices.Clone(wanted)
	for _, r := range records {
		agents = append(agents, r.Agent)
	}
	for _, agent := range slices.Compact(slices.Sorted(slices.Values(agents))) {
		r := recordOf(records, agent)
		has, shall := slices.Contains(r.Profiles, in.Profile), slices.Contains(wanted, agent)
		if has == shall {
			continue
		}
		text := fmt.Sprintf("%s shall have the servers of the profile %s", agent, in.Profile)
		r.Profiles = slices.DeleteFunc(slices.Clone(r.Profiles), func(name string) bool { return name == in.Profile })
		if shall {
			if r.Profiles = append(r.Profiles, in.Profile); len(r.Profiles) > maxProfiles {
				return fault.New(fault.Conflict, "profiles-too-many").Saying("%s has %d profiles, which is the most", agent, maxProfiles).
					Hinting("put their servers together")
			}
		} else {
			text = fmt.Sprintf("%s shall not have the servers of the profile %s any more", agent, in.Profile)
		}
		if err := tx.PutAgentRecord(ctx, converge.PutAgentRecord{Record: r}); err != nil {
			return err
		}
		if err := c.tell(ctx, tx, event.AgentMounted, event.Refs{event.RefAgent: agent}, text, struct {
			Profile  string   `json:"profile"`
			Profiles []string `json:"profiles"`
		}{in.Profile, orEmpty(r.Profiles)}); err != nil {
			return err
		}
	}
	return nil
}
