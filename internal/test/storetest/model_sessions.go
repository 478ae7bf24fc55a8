package storetest

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"mcpx/internal/session"
	"mcpx/internal/store"
)

// remote is the part of the state that projects, remote sessions and work plans are in.
type remote struct {
	projects  map[string]session.Project // by id
	sessions  map[string]session.Session // by id
	used      uint64                     // the last Use that was given
	grants    map[grantKey]session.Grant
	handoffs  map[string]session.Handoff  // by id
	workPlans map[string]session.WorkPlan // by id
	trusts    map[string]session.Trust    // by project
	artifacts map[string]session.Artifact // by id
}

type grantKey struct{ principal, about string }

func newRemote() remote {
	return remote{
		projects: map[string]session.Project{}, sessions: map[string]session.Session{}, grants: map[grantKey]session.Grant{},
		handoffs: map[string]session.Handoff{}, workPlans: map[string]session.WorkPlan{}, trusts: map[string]session.Trust{}, artifacts: map[string]session.Artifact{},
	}
}

func (r *remote) clone() remote {
	return remote{
		projects: maps.Clone(r.projects), sessions: maps.Clone(r.sessions), used: r.used, grants: maps.Clone(r.grants),
		handoffs: maps.Clone(r.handoffs), workPlans: maps.Clone(r.workPlans), trusts: maps.Clone(r.trusts), artifacts: maps.Clone(r.artifacts),
	}
}

func (r *remote) Projects(_ context.Context, p session.ListProjects) ([]session.Project, error) {
	all := slices.DeleteFunc(sortedValues(r.projects), func(v session.Project) bool {
		return v.ID <= p.After || v.State == session.ProjectRemoved && !p.Removed
	})
	return twins(all[:min(len(all), p.PageLimit())])
}

func (r *remote) ProjectByID(_ context.Context, p session.ByID) (session.Project, error) {
	return find(r.projects, p.ID, session.ProjectUnknown, session.ProjectAmbiguous)
}

func (r *remote) PutProject(_ context.Context, p session.PutProject) error {
	v := deep(p.Project)
	for id, other := range r.projects {
		if id != v.ID && other.Name == v.Name && other.State != session.ProjectRemoved && v.State != session.ProjectRemoved {
			return session.ProjectExists(v.Name)
		}
	}
	v.Added, v.Removed = store.CutTime(v.Added), store.CutTime(v.Removed)
	r.projects[v.ID] = v
	return nil
}

func (r *remote) RemoteSessions(_ context.Context, p session.ListSessions) ([]session.Session, error) {
	all := slices.DeleteFunc(slices.Collect(maps.Values(r.sessions)), func(v session.Session) bool {
		_, granted := r.grants[grantKey{p.Principal, v.ID}]
		return p.Before > 0 && v.Use >= p.Before || p.Project != "" && v.Project != p.Project || p.State != "" && v.State != p.State ||
			p.Principal != "" && v.Principal != p.Principal && !granted
	})
	slices.SortFunc(all, func(a, b session.Session) int { return cmp.Compare(b.Use, a.Use) })
	return twins(all[:min(len(all), p.PageLimit())])
}

func (r *remote) RemoteSessionByID(_ context.Context, p session.ByID) (session.Session, error) {
	return find(r.sessions, p.ID, session.Unknown, session.Ambiguous)
}

func (r *remote) PutRemoteSession(_ context.Context, p session.PutSession) error {
	v := deep(p.Session)
	v.Created, v.Used, v.Closed = store.CutTime(v.Created), store.CutTime(v.Used), store.CutTime(v.Closed)
	old, ok := r.sessions[v.ID]
	if old.State == session.Closed && v.State != session.Closed {
		return session.Final(v.ID)
	}
	v.Use = old.Use
	if !ok || !old.Used.Equal(v.Used) {
		r.used++
		v.Use = r.used
	}
	r.sessions[v.ID] = v
	return nil
}

func (r *remote) Grants(_ context.Context, p session.ListGrants) ([]session.Grant, error) {
	all := slices.DeleteFunc(slices.Collect(maps.Values(r.grants)), func(v session.Grant) bool {
		if p.Principal != "" {
			return v.Principal != p.Principal || p.About != "" && v.About != p.About || v.About <= p.After.About
		}
		return v.About != p.About || v.Principal <= p.After.Principal
	})
	slices.SortFunc(all, func(a, b session.Grant) int {
		return cmp.Or(cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.About, b.About))
	})
	return twins(all[:min(len(all), p.PageLimit())])
}

func (r *remote) PutGrant(_ context.Context, p session.PutGrant) error {
	v := deep(p.Grant)
	v.At = store.CutTime(v.At)
	r.grants[grantKey{v.Principal, v.About}] = v
	return nil
}

func (r *remote) DeleteGrant(_ context.Context, p session.DeleteGrant) error {
	delete(r.grants, grantKey{p.Principal, p.About})
	return nil
}

func (r *remote) HandoffByID(_ context.Context, p session.ByID) (session.Handoff, error) {
	v, ok := r.handoffs[p.ID]
	if !ok {
		return v, session.HandoffUnknown(p.ID)
	}
	return deep(v), nil
}

func (r *remote) PutHandoff(_ context.Context, p session.PutHandoff) error {
	v := deep(p.Handoff)
	if r.handoffs[v.ID].UsedBy != "" {
		return session.HandoffUsed(v.ID)
	}
	v.Made, v.Expires, v.Used = store.CutTime(v.Made), store.CutTime(v.Expires), store.CutTime(v.Used)
	r.handoffs[v.ID] = v
	return nil
}

func (r *remote) WorkPlans(_ context.Context, p session.ListWorkPlans) ([]session.WorkPlan, error) {
	all := slices.DeleteFunc(sortedValues(r.workPlans), func(v session.WorkPlan) bool {
		return v.Session != p.Session || v.ID <= p.After || p.State != "" && v.State != p.State
	})
	return twins(all[:min(len(all), p.PageLimit())])
}

func (r *remote) WorkPlanByID(_ context.Context, p session.ByID) (session.WorkPlan, error) {
	return find(r.workPlans, p.ID, session.WorkPlanUnknown, session.WorkPlanAmbiguous)
}

func (r *remote) PutWorkPlan(_ context.Context, p session.PutWorkPlan) error {
	v := deep(p.Plan)
	old, ok := r.workPlans[v.ID]
	switch {
	case ok && old.State != session.PlanOpen:
		return session.WorkPlanFinal(v.ID)
	case v.Version != old.Version+1:
		return session.WorkPlanStale(v.ID)
	}
	v.Created, v.Changed = store.CutTime(v.Created), store.CutTime(v.Changed)
	r.workPlans[v.ID] = v
	return nil
}

func (r *remote) Artifacts(_ context.Context, p session.ListArtifacts) ([]session.Artifact, error) {
	all := slices.DeleteFunc(sortedValues(r.artifacts), func(v session.Artifact) bool {
		other := v.Project != p.Project
		if p.Session != "" {
			other = v.Session != p.Session
		}
		return other || p.Before != "" && v.ID >= p.Before
	})
	slices.Reverse(all)
	return twins(all[:min(len(all), p.PageLimit())])
}

func (r *remote) ArtifactByID(_ context.Context, p session.ByID) (session.Artifact, error) {
	v, ok := r.artifacts[p.ID]
	if !ok {
		return v, session.ArtifactUnknown(p.ID)
	}
	return twin(v)
}

func (r *remote) PutArtifact(_ context.Context, p session.PutArtifact) error {
	v := deep(p.Artifact)
	if _, there := r.artifacts[v.ID]; there {
		return session.ArtifactFinal(v.ID)
	}
	v.Registered = store.CutTime(v.Registered)
	r.artifacts[v.ID] = v
	return nil
}

func (r *remote) AllTrusts(context.Context) ([]session.Trust, error) {
	return twins(sortedValues(r.trusts))
}

func (r *remote) TrustOf(_ context.Context, p session.TrustOf) (session.Trust, error) {
	return twin(r.trusts[p.Project])
}

func (r *remote) PutTrust(_ context.Context, p session.PutTrust) error {
	v := deep(p.Trust)
	v.At = store.CutTime(v.At)
	r.trusts[v.Project] = v
	return nil
}
