package session

import (
	"context"
	"iter"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// Reader reads what is stored. It is part of the transaction port that package store joins; its names say remote session,
// because a transport session is another thing.
type Reader interface {
	// Projects is one page in order of id, that is of registration. A page that is shorter than the limit is the last one.
	Projects(ctx context.Context, p ListProjects) ([]Project, error)
	// ProjectByID finds one, unregistered ones too. NotFound project-unregistered, Conflict project-ambiguous.
	ProjectByID(ctx context.Context, p ByID) (Project, error)
	// RemoteSessions is one page, the last used first. A page that is shorter than the limit is the last one.
	RemoteSessions(ctx context.Context, p ListSessions) ([]Session, error)
	// RemoteSessionByID finds one. NotFound session-unknown, Conflict session-ambiguous.
	RemoteSessionByID(ctx context.Context, p ByID) (Session, error)
	// Grants is one page, in order of principal and then of what they are about.
	Grants(ctx context.Context, p ListGrants) ([]Grant, error)
	// HandoffByID finds one by its whole id. NotFound handoff-unknown.
	HandoffByID(ctx context.Context, p ByID) (Handoff, error)
	// WorkPlans is one page in order of id, that is of making.
	WorkPlans(ctx context.Context, p ListWorkPlans) ([]WorkPlan, error)
	// WorkPlanByID finds one. NotFound work-plan-unknown, Conflict work-plan-ambiguous.
	WorkPlanByID(ctx context.Context, p ByID) (WorkPlan, error)
	// Artifacts is one page, the newest first. A page that is shorter than the limit is the last one.
	Artifacts(ctx context.Context, p ListArtifacts) ([]Artifact, error)
	// ArtifactByID finds one by its whole id. NotFound artifact-unknown.
	ArtifactByID(ctx context.Context, p ByID) (Artifact, error)
	// AllTrusts is what people agreed to of every project, in order of project.
	AllTrusts(ctx context.Context) ([]Trust, error)
	// TrustOf is what a person agreed to of one project; without a decision it is the zero Trust.
	TrustOf(ctx context.Context, p TrustOf) (Trust, error)
}

// Store reads and changes it.
type Store interface {
	Reader
	// PutProject writes a project whole. Conflict project-exists when another registered one has its name.
	PutProject(ctx context.Context, p PutProject) error
	// PutRemoteSession writes a session whole. Use stays as it is stored unless Used changes: then it is the next number.
	// Conflict session-final when the stored one is closed and the new one is not.
	PutRemoteSession(ctx context.Context, p PutSession) error
	// PutGrant writes a grant in place of the one for the same principal and thing.
	PutGrant(ctx context.Context, p PutGrant) error
	// DeleteGrant takes a grant away. One that is not there is no error.
	DeleteGrant(ctx context.Context, p DeleteGrant) error
	// PutHandoff writes a hand-over whole. Conflict handoff-used when the stored one is used.
	PutHandoff(ctx context.Context, p PutHandoff) error
	// PutWorkPlan writes a plan whole. Conflict work-plan-final when the stored one is final, Stale work-plan-stale when
	// its version is not the stored one plus one (1 for a new plan).
	PutWorkPlan(ctx context.Context, p PutWorkPlan) error
	// PutArtifact writes an artifact. Conflict artifact-final when there is one with its id.
	PutArtifact(ctx context.Context, p PutArtifact) error
	// PutTrust writes what a person agreed to of a project whole.
	PutTrust(ctx context.Context, p PutTrust) error
}

// The bounds of pages.
const (
	MaxProjectPage  = 200 // some 500 bytes each
	MaxSessionPage  = 200 // up to 1.5 KiB each
	MaxGrantPage    = 200 // some 200 bytes each
	MaxWorkPlanPage = 20  // up to 300 KiB each
	MaxArtifactPage = 50  // up to 8 KiB each
)

func limited(limit, most int) int {
	if limit < 1 || limit > most {
		return most
	}
	return limit
}

// ByID names one thing. A beginning of the id that only one has is enough where the method says Ambiguous.
type ByID struct{ ID string }

// ListProjects asks for the projects after After.
type ListProjects struct {
	After   string
	Removed bool // the unregistered ones too
	Limit   int  // 0 and everything above MaxProjectPage is MaxProjectPage
}

// PageLimit is the number of projects that the page may hold.
func (p ListProjects) PageLimit() int { return limited(p.Limit, MaxProjectPage) }

// ListSessions asks for the sessions that were used before Before and fit every condition that is set.
type ListSessions struct {
	Before    uint64 // Use of the last session of the page before; 0 the first page
	Principal string // its own and those it has a grant of; "" everybody's
	Project   string // id; "" every one
	State     State  // "" every one
	Limit     int    // 0 and everything above MaxSessionPage is MaxSessionPage
}

// PageLimit is the number of sessions that the page may hold.
func (p ListSessions) PageLimit() int { return limited(p.Limit, MaxSessionPage) }

// ListGrants asks for the grants after After that fit every condition that is set; About or Principal is.
type ListGrants struct {
	About     string // id of a session or a project; "" everything
	Principal string // "" everybody
	After     Grant  // the last one of the page before; only its About and Principal count
	Limit     int    // 0 and everything above MaxGrantPage is MaxGrantPage
}

// PageLimit is the number of grants that the page may hold.
func (p ListGrants) PageLimit() int { return limited(p.Limit, MaxGrantPage) }

// ListWorkPlans asks for the plans of a session after After.
type ListWorkPlans struct {
	Session string
	State   PlanState // "" every one
	After   string
	Limit   int // 0 and everything above MaxWorkPlanPage is MaxWorkPlanPage
}

// PageLimit is the number of plans that the page may hold.
func (p ListWorkPlans) PageLimit() int { return limited(p.Limit, MaxWorkPlanPage) }

// ListArtifacts asks for the artifacts of a session, or of a project, that were registered before Before.
type ListArtifacts struct {
	Session string // "" all of Project
	Project string
	Before  string // id of the last artifact of the page before; "" begins with the newest
	Limit   int    // 0 and everything above MaxArtifactPage is MaxArtifactPage
}

// PageLimit is the number of artifacts that the page may hold.
func (p ListArtifacts) PageLimit() int { return limited(p.Limit, MaxArtifactPage) }

// PutProject carries the project to write.
type PutProject struct{ Project Project }

// PutSession carries the session to write.
type PutSession struct{ Session Session }

// PutGrant carries the grant to write.
type PutGrant struct{ Grant Grant }

// DeleteGrant names the grant to take away.
type DeleteGrant struct{ About, Principal string }

// PutHandoff carries the hand-over to write.
type PutHandoff struct{ Handoff Handoff }

// PutWorkPlan carries the plan to write.
type PutWorkPlan struct{ Plan WorkPlan }

// PutArtifact carries the artifact to write.
type PutArtifact struct{ Artifact Artifact }

// TrustOf names a project by its whole id.
type TrustOf struct{ Project string }

// PutTrust carries what a person agreed to.
type PutTrust struct{ Trust Trust }

// AllProjects reads every registered project, with removed the others too, page by page.
func AllProjects(ctx context.Context, r Reader, removed bool) ([]Project, error) {
	list := ListProjects{Removed: removed}
	return page.All(list.PageLimit(), func(last *Project) ([]Project, error) {
		if last != nil {
			list.After = last.ID
		}
		return r.Projects(ctx, list)
	})
}

// EachSession reads the sessions that fit, the one that was used last first, page by page.
func EachSession(ctx context.Context, r Reader, p ListSessions) iter.Seq2[Session, error] {
	return page.Each(p.PageLimit(), func(last *Session) ([]Session, error) {
		list := p
		if last != nil {
			list.Before = last.Use
		}
		return r.RemoteSessions(ctx, list)
	})
}

// EachArtifact reads the artifacts that fit, the newest first, page by page.
func EachArtifact(ctx context.Context, r Reader, p ListArtifacts) iter.Seq2[Artifact, error] {
	return page.Each(p.PageLimit(), func(last *Artifact) ([]Artifact, error) {
		list := p
		if last != nil {
			list.Before = last.ID
		}
		return r.Artifacts(ctx, list)
	})
}

// AllGrants reads every grant of a principal, or of a thing, page by page.
func AllGrants(ctx context.Context, r Reader, list ListGrants) ([]Grant, error) {
	return page.All(list.PageLimit(), func(last *Grant) ([]Grant, error) {
		if last != nil {
			list.After = *last
		}
		return r.Grants(ctx, list)
	})
}

// AllWorkPlans reads every plan of a session, page by page.
func AllWorkPlans(ctx context.Context, r Reader, list ListWorkPlans) ([]WorkPlan, error) {
	return page.All(list.PageLimit(), func(last *WorkPlan) ([]WorkPlan, error) {
		if last != nil {
			list.After = last.ID
		}
		return r.WorkPlans(ctx, list)
	})
}

// ProjectUnknown is the error for an id that no project has.
func ProjectUnknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "project-unregistered").Saying("there is no project %s", id).Hinting("`mcpx project list` shows the projects")
}

// ProjectAmbiguous is the error for a beginning of an id that several projects have.
func ProjectAmbiguous(id string) *fault.Error {
	return fault.New(fault.Conflict, "project-ambiguous").Saying("several projects begin with %s", id).Hinting("give more of the id; `mcpx project list` shows the projects")
}

// ProjectExists is the error for a name that another registered project has.
func ProjectExists(name string) *fault.Error {
	return fault.New(fault.Conflict, "project-exists").Saying("there is another project with the name %s", name).Hinting("give it another name with --name")
}

// Unknown is the error for an id that no session has.
func Unknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "session-unknown").Saying("there is no session %s", id).Hinting("`mcpx session list` shows the sessions")
}

// Ambiguous is the error for a beginning of an id that several sessions have.
func Ambiguous(id string) *fault.Error {
	return fault.New(fault.Conflict, "session-ambiguous").Saying("several sessions begin with %s", id).Hinting("give more of the id; `mcpx session list` shows the sessions")
}

// Final is the error for a closed session that somebody tries to open again.
func Final(id string) *fault.Error {
	return fault.New(fault.Conflict, "session-final").Saying("the session %s is closed and stays so", id).Hinting("open another one")
}

// HandoffUnknown is the error for an id that no hand-over has.
func HandoffUnknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "handoff-unknown").Saying("there is no hand-over %s", id).Hinting("make another one: `mcpx session handoff SESSION`")
}

// HandoffUsed is the error for a hand-over that was used before.
func HandoffUsed(id string) *fault.Error {
	return fault.New(fault.Conflict, "handoff-used").Saying("the hand-over %s was used", id).Hinting("make another one: `mcpx session handoff SESSION`")
}

// WorkPlanUnknown is the error for an id that no work plan has.
func WorkPlanUnknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "work-plan-unknown").Saying("there is no work plan %s", id).Hinting("`mcpx session show SESSION` shows its plans")
}

// WorkPlanAmbiguous is the error for a beginning of an id that several work plans have.
func WorkPlanAmbiguous(id string) *fault.Error {
	return fault.New(fault.Conflict, "work-plan-ambiguous").Saying("several work plans begin with %s", id).Hinting("give more of the id; `mcpx session show SESSION` shows its plans")
}

// WorkPlanFinal is the error for a plan that was delivered or cancelled.
func WorkPlanFinal(id string) *fault.Error {
	return fault.New(fault.Conflict, "work-plan-final").Saying("the work plan %s is final and cannot change", id).Hinting("make another one")
}

// WorkPlanStale is the error for a plan that somebody else has changed since it was read.
func WorkPlanStale(id string) *fault.Error {
	return fault.New(fault.Stale, "work-plan-stale").Saying("the work plan %s has changed meanwhile", id).Hinting("read it again")
}
