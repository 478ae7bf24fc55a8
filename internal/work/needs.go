package work

import (
	"context"
	"slices"

	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/operation"
	"mcpx/internal/retention"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// needs are what is kept however old it is.
type needs struct {
	retention.Needed
	results    map[string]bool // references to kept results
	workspaces map[string]bool // that are not closed
	builds     map[string]bool // operations and jobs of builds that are there
}

// The forms of references in what an operation says.
var (
	resultForm    = lazyregexp.New(`\br_[0-9a-f]{24}\b`)
	workspaceForm = lazyregexp.New(`\bws_[0-9A-Za-z]+`)
)

// refer makes the results needed that some JSON names.
func (n needs) refer(all ...[]byte) {
	for _, raw := range all {
		for _, ref := range resultForm().FindAll(raw, -1) {
			n.results[string(ref)] = true
		}
	}
}

// inWorkspace says whether some JSON names a workspace that is not closed.
func (n needs) inWorkspace(all ...[]byte) bool {
	for _, raw := range all {
		for _, id := range workspaceForm().FindAll(raw, -1) {
			if n.workspaces[string(id)] {
				return true
			}
		}
	}
	return false
}

// operation says whether an operation that has ended is needed: somebody who is not done refers to it.
func (n needs) operation(o operation.Operation) bool {
	return n.Has(event.RefOperation, o.ID) || n.builds[o.ID] || n.inWorkspace(o.Args, o.Result, o.Evidence)
}

// job says the same of a job. Of one that is lost somebody has to look how it ended.
func (n needs) job(j operation.Job) bool {
	return n.Has(event.RefJob, j.ID) || n.Has(event.RefOperation, j.By.ID) || n.workspaces[j.Workspace] || n.builds[j.ID] || j.Outside == operation.OutsideUnknown
}

// needed finds what unfinished work refers to, and the parts of artifacts.
func (s *Service) needed(ctx context.Context) (needs, error) {
	n := needs{Needed: retention.Needed{}, results: map[string]bool{}, workspaces: map[string]bool{}, builds: map[string]bool{}}
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		for _, find := range []func(context.Context, store.Reader) error{n.ofOperations, n.ofJobs, n.ofApprovals, n.ofPlans, n.ofWorkPlans, n.ofWorkspaces, n.ofBuilds, n.ofArtifacts} {
			if err := find(ctx, r); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

func (n needs) ofOperations(ctx context.Context, r store.Reader) error {
	for o, err := range operation.Each(ctx, r, operation.ListOperations{Open: true}) {
		if err != nil {
			return err
		}
		n.Add(event.RefOperation, o.ID)
		n.Add(event.RefApproval, o.Approval)
		n.refer(o.Args, o.Evidence, o.Result)
	}
	return nil
}

func (n needs) ofJobs(ctx context.Context, r store.Reader) error {
	live, err := operation.AllJobs(ctx, r, operation.ListJobs{Live: true})
	for _, j := range live {
		n.Add(event.RefJob, j.ID)
		n.Add(event.RefOperation, j.By.ID)
	}
	return err
}

func (n needs) ofApprovals(ctx context.Context, r store.Reader) error {
	for _, state := range []approval.State{approval.Pending, approval.Approved} {
		for a, err := range approval.Each(ctx, r, approval.ListApprovals{State: state}) {
			if err != nil {
				return err
			}
			for kind, id := range a.Refs() {
				if kind == event.RefApproval || kind == event.RefOperation || kind == event.RefPlan {
					n.Add(kind, id)
				}
			}
			n.results[a.Full] = true
			if a.Kind == approval.KindRemove {
				n.results[keptRef(a.Subject)] = true
			}
		}
	}
	return nil
}

// ofPlans are the plans of configuration files that can still be carried out.
func (n needs) ofPlans(ctx context.Context, r store.Reader) error {
	for _, state := range []converge.PlanState{converge.PlanReady, converge.PlanApplying} {
		for p, err := range converge.EachPlan(ctx, r, converge.ListPlans{State: state}) {
			if err != nil {
				return err
			}
			n.Add(event.RefPlan, p.ID)
			n.Add(event.RefApproval, p.Approval)
		}
	}
	return nil
}

// ofWorkPlans are the open plans of sessions and the evidence in them, whether or not the session is open.
func (n needs) ofWorkPlans(ctx context.Context, r store.Reader) error {
	for one, err := range session.EachSession(ctx, r, session.ListSessions{}) {
		if err != nil {
			return err
		}
		plans, err := session.AllWorkPlans(ctx, r, session.ListWorkPlans{Session: one.ID, State: session.PlanOpen})
		if err != nil {
			return err
		}
		for _, p := range plans {
			for _, task := range p.Tasks {
				for _, e := range task.Evidence {
					if err := n.ofEvidence(ctx, r, e); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

func (n needs) ofEvidence(ctx context.Context, r store.Reader, e session.Evidence) error {
	var by string
	var err error
	switch e.Kind {
	case session.EvidenceEdit:
		by = e.Ref
	case session.EvidenceJob:
		n.Add(event.RefJob, e.Ref)
		var j operation.Job
		j, err = r.JobByID(ctx, operation.JobByID{ID: e.Ref})
		by = j.By.ID
	case session.EvidenceArtifact:
		var a session.Artifact
		a, err = r.ArtifactByID(ctx, session.ByID{ID: e.Ref})
		by = a.Operation
	case session.EvidenceBuild:
		var g workspace.Generation
		g, err = r.GenerationByID(ctx, workspace.ByID{ID: e.Ref})
		n.Add(event.RefJob, g.Job)
		by = g.By.ID
	case session.EvidenceRead, session.EvidenceSource:
	}
	n.Add(event.RefOperation, by)
	if fault.KindOf(err) == fault.NotFound {
		err = nil
	}
	return err
}

func (n needs) ofWorkspaces(ctx context.Context, r store.Reader) error {
	all, err := workspace.All(ctx, r, workspace.ListWorkspaces{States: append([]workspace.State{workspace.Integrated}, workspace.Unfinished...)})
	for _, w := range all {
		n.workspaces[w.ID] = true
	}
	return err
}

// ofBuilds are what made a build that is there, and what was tried out on it.
func (n needs) ofBuilds(ctx context.Context, r store.Reader) error {
	states := slices.Concat(workspace.GenerationsUnderWay, workspace.GenerationsThere, []workspace.GenerationState{workspace.GenCorrupt})
	builds, err := workspace.AllGenerations(ctx, r, workspace.ListGenerations{States: states})
	if err != nil {
		return err
	}
	there := map[string]bool{}
	for _, g := range builds {
		there[g.ID] = true
		n.builds[g.Job], n.builds[g.By.ID] = true, true
		for _, v := range g.Validators {
			n.builds[v.Job] = true
		}
	}
	audits, err := workspace.AllAudits(ctx, r, workspace.ListAudits{})
	for _, a := range audits {
		if there[a.Build] {
			n.builds[a.Job], n.builds[a.By.ID] = true, true
		}
	}
	return err
}

// ofArtifacts are the parts of artifacts: these are no results that grow old.
func (n needs) ofArtifacts(ctx context.Context, r store.Reader) error {
	projects, err := session.AllProjects(ctx, r, true)
	if err != nil {
		return err
	}
	for _, p := range projects {
		for a, err := range session.EachArtifact(ctx, r, session.ListArtifacts{Project: p.ID}) {
			if err != nil {
				return err
			}
			for _, ref := range a.Parts {
				n.results[ref] = true
			}
		}
	}
	return nil
}
