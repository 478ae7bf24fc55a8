package session

import (
	"context"
	"path"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/fault"
)

// Admission is what a call may rely on: where it acts, and as what.
type Admission struct {
	Session Session // the zero one when the call names none
	Project Project
	Role    Role
}

// AdmitRequest is a call that names a session.
type AdmitRequest struct {
	Session   string // its whole id
	Principal string
	Act       Act
}

// Admit judges a call that names a session. The refusals are those of Check, and for ActChange those of Project.Usable.
func Admit(ctx context.Context, r Reader, in AdmitRequest) (Admission, error) {
	s, err := r.RemoteSessionByID(ctx, ByID{ID: in.Session})
	switch {
	case err != nil && !missing(err):
		return Admission{}, err
	case err != nil || s.ID != in.Session: // a beginning of an id is for people
		return Admission{}, NotFound(in.Session)
	}
	var grants []Grant
	for _, about := range []string{s.ID, s.Project} {
		some, err := r.Grants(ctx, ListGrants{Principal: in.Principal, About: about})
		if err != nil {
			return Admission{}, err
		}
		grants = append(grants, some...)
	}
	a := Admission{Session: s, Role: RoleIn(s, in.Principal, grants)}
	if err := Check(CheckRequest{Session: s, Role: a.Role, Act: in.Act}); err != nil {
		return Admission{}, err
	}
	if a.Project, err = r.ProjectByID(ctx, ByID{ID: s.Project}); err != nil {
		return Admission{}, err
	}
	if in.Act == ActChange {
		return a, a.Project.Usable()
	}
	return a, nil
}

// AdmitProjectRequest is a call that names a project and no session.
type AdmitProjectRequest struct {
	Project   string // name, id or path
	Principal string
	Act       Act
}

// AdmitProject judges a call that names no session: the grant of the project decides. PROJECT_UNKNOWN for a guest, too;
// ROLE_DENIED; for ActChange the refusals of Project.Usable.
func AdmitProject(ctx context.Context, r Reader, in AdmitProjectRequest) (Admission, error) {
	all, err := Projects(ctx, r, in.Principal)
	if err != nil {
		return Admission{}, err
	}
	a, ok := findProject(all, in.Project, func(a Admission) Project { return a.Project })
	if !ok {
		return Admission{}, UnknownProject(in.Project)
	}
	return a.may(in.Act)
}

// AdmitPath judges a call that names nothing but an absolute path: it acts on the one of the caller's projects in which the
// path lies, the deepest when they overlap; false when it lies in none. This chooses a project by names: what may be reached
// there is judged by the file system. The refusals are those of AdmitProject.
func AdmitPath(mine []Admission, at string, act Act) (Admission, bool, error) {
	at = path.Clean(at)
	var deepest Admission
	for _, a := range mine {
		if p := a.Project; (inside(p.Path, at) || inside(p.Physical.Real, at)) && len(p.Path) > len(deepest.Project.Path) {
			deepest = a
		}
	}
	if deepest.Project.ID == "" {
		return Admission{}, false, nil
	}
	a, err := deepest.may(act)
	return a, true, err
}

// may judges an act on a project that is reached without a session.
func (a Admission) may(act Act) (Admission, error) {
	switch {
	case !a.Role.May(act):
		return Admission{}, roleDenied("on this project", a.Role, act)
	case act == ActChange:
		return a, a.Project.Usable()
	}
	return a, nil
}

// Projects are the registered projects that a principal has a role on, each with that role, in order of registration.
func Projects(ctx context.Context, r Reader, principal string) ([]Admission, error) {
	all, err := AllProjects(ctx, r, false)
	if err != nil {
		return nil, err
	}
	grants, err := AllGrants(ctx, r, ListGrants{Principal: principal})
	if err != nil {
		return nil, err
	}
	out := make([]Admission, 0, len(all))
	for _, p := range all {
		if role := RoleOn(p.ID, principal, grants); role != "" {
			out = append(out, Admission{Project: p, Role: role})
		}
	}
	return out, nil
}

// SessionsRequest asks for the sessions that a principal can attach to.
type SessionsRequest struct {
	Principal string // "" everybody's, for the operator; their roles are "" then
	State     State  // "" every one
	Query     string // in the label, the name of the project or the id; "" everything
	Before    uint64 // Next of the page before
	Limit     int    // 0 and everything above MaxSessionPage is MaxSessionPage
}

// Narrow reads the state (open, which is also what "" means, closed, or all) and the cursor of a page, as callers write them.
// It names the one that is wrong, "" for none.
func (in *SessionsRequest) Narrow(state, cursor string) (wrong string) {
	switch state {
	case "", string(Open):
		in.State = Open
	case string(Closed):
		in.State = Closed
	case "all":
		in.State = ""
	default:
		return "state"
	}
	if cursor == "" {
		return ""
	}
	before, err := strconv.ParseUint(cursor, 10, 63)
	if err != nil {
		return "cursor"
	}
	in.Before = before
	return ""
}

// Page is one page, the last used first.
type Page struct {
	Sessions []Admission
	Next     uint64 // 0: it is the last one
}

// Cursor is what leads to the next page, "" after the last one.
func (p Page) Cursor() string {
	if p.Next == 0 {
		return ""
	}
	return strconv.FormatUint(p.Next, 10)
}

// maxLooked bounds how many stored sessions one page looks at, so that a query that nothing fits ends.
const maxLooked = 5 * MaxSessionPage

// Sessions is one page of the sessions that a principal can attach to. With a Query it may hold fewer than Limit although
// it is not the last.
func Sessions(ctx context.Context, r Reader, in SessionsRequest) (Page, error) {
	var grants []Grant
	if in.Principal != "" {
		var err error
		if grants, err = AllGrants(ctx, r, ListGrants{Principal: in.Principal}); err != nil {
			return Page{}, err
		}
	}
	all, err := AllProjects(ctx, r, true)
	if err != nil {
		return Page{}, err
	}
	projects := make(map[string]Project, len(all))
	for _, p := range all {
		projects[p.ID] = p
	}
	list := ListSessions{Before: in.Before, Principal: in.Principal, State: in.State}
	limit := limited(in.Limit, MaxSessionPage)
	page := Page{Sessions: []Admission{}}
	for looked := 0; ; {
		some, err := r.RemoteSessions(ctx, list)
		if err != nil {
			return Page{}, err
		}
		for _, s := range some {
			if len(page.Sessions) == limit || looked == maxLooked {
				page.Next = list.Before
				return page, nil
			}
			looked++
			list.Before = s.Use
			a := Admission{Session: s, Project: projects[s.Project], Role: RoleIn(s, in.Principal, grants)}
			if (a.Role != "" || in.Principal == "") && a.fits(in.Query) {
				page.Sessions = append(page.Sessions, a)
			}
		}
		if len(some) < list.PageLimit() {
			return page, nil
		}
	}
}

func (a Admission) fits(query string) bool {
	query = strings.ToLower(query)
	for _, text := range []string{a.Session.Label, a.Project.Name, a.Session.ID} {
		if strings.Contains(strings.ToLower(text), query) {
			return true
		}
	}
	return false
}

// RedeemTokenRequest is a principal that presents the token of a hand-over.
type RedeemTokenRequest struct {
	Key       []byte // of the daemon
	Token     string
	Principal string
	Now       time.Time
}

// RedeemToken uses a hand-over and gives its session. HANDOFF_INVALID for every token that opens nothing.
func RedeemToken(ctx context.Context, tx Store, in RedeemTokenRequest) (Session, Handoff, error) {
	handoff, err := HandoffOf(in.Key, in.Token)
	if err != nil {
		return Session{}, Handoff{}, err
	}
	h, err := tx.HandoffByID(ctx, ByID{ID: handoff})
	if fault.KindOf(err) == fault.NotFound {
		return Session{}, Handoff{}, InvalidHandoff()
	}
	if err != nil {
		return Session{}, Handoff{}, err
	}
	s, err := tx.RemoteSessionByID(ctx, ByID{ID: h.Session})
	if err != nil {
		return Session{}, Handoff{}, err
	}
	h, grant, err := Redeem(RedeemRequest{Handoff: h, Session: s, Principal: in.Principal, Now: in.Now})
	if err != nil {
		return Session{}, Handoff{}, err
	}
	if err := tx.PutHandoff(ctx, PutHandoff{Handoff: h}); err != nil {
		return Session{}, Handoff{}, err
	}
	if grant.Role != "" {
		err = tx.PutGrant(ctx, PutGrant{Grant: grant})
	}
	return s, h, err
}

// PickPlanRequest names a plan of a session.
type PickPlanRequest struct {
	Session string
	Plan    string // its whole id; "" is the only open one
}

// PickPlan finds a plan. PLAN_NOT_FOUND: none of this session has the id, or not exactly one is open.
func PickPlan(ctx context.Context, r Reader, in PickPlanRequest) (WorkPlan, error) {
	if in.Plan != "" {
		p, err := r.WorkPlanByID(ctx, ByID{ID: in.Plan})
		if err == nil && p.ID == in.Plan && p.Session == in.Session {
			return p, nil
		}
		if err != nil && !missing(err) {
			return WorkPlan{}, err
		}
	}
	open, err := AllWorkPlans(ctx, r, ListWorkPlans{Session: in.Session, State: PlanOpen})
	switch {
	case err != nil:
		return WorkPlan{}, err
	case in.Plan == "" && len(open) == 1:
		return open[0], nil
	}
	ids := make([]string, 0, len(open))
	for _, p := range open {
		ids = append(ids, p.ID)
	}
	return WorkPlan{}, NoPlan(in.Plan, ids)
}

// missing says whether an id leads to nothing: none has it, or it is the beginning of several, which only people may give.
func missing(err error) bool {
	kind := fault.KindOf(err)
	return kind == fault.NotFound || kind == fault.Conflict
}
