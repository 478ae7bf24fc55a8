package work

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Session are the arguments of session.
type Session struct {
	ID
	Claims
	Action  string `json:"action" jsonschema:"open, attach, list, handoff or close"`
	Session string `json:"remote_session_id,omitempty" jsonschema:"attach, handoff, close: the session"`
	Project string `json:"project,omitempty" jsonschema:"open: name, id or path of a project"`
	Token   string `json:"handoff_token,omitempty" jsonschema:"attach: instead of remote_session_id"`
	Label   string `json:"label,omitempty" jsonschema:"open: what the session is for, at most 120 characters"`
	Role    string `json:"role,omitempty" jsonschema:"handoff: editor, approver or viewer; viewer without it"`
	TTL     int    `json:"ttl_s,omitempty" jsonschema:"handoff: seconds, 60 to 86400; 600 without it"`
	Query   string `json:"query,omitempty" jsonschema:"list: text in label, project or id"`
	State   string `json:"state,omitempty" jsonschema:"list: open, closed or all; open without it"`
	Cursor  string `json:"cursor,omitempty" jsonschema:"list: next_cursor of the page before"`
	Limit   int    `json:"limit,omitempty" jsonschema:"list: 1 to 100; 20 without it"`
}

// sessionReads says whether the call changes nothing: it lists, or attaches to a session that is the caller's.
func sessionReads(t *turn) bool {
	action := t.text("action")
	return action != "open" && action != "handoff" && action != "close" && (action != "attach" || t.text("handoff_token") == "")
}

func sessionRead(ctx context.Context, s *Service, t *turn) (any, error) {
	var in Session
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	switch in.Action {
	case "list":
	case "attach":
		return s.attach(ctx, t, in)
	default:
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no action; open, attach, list, handoff and close are", in.Action)
	}
	var out sessionsListed
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		out, err = s.listSessions(ctx, r, t.Principal, in)
		return err
	})
	for i := range out.Projects {
		out.Projects[i].Trust = s.trustOf(ctx, out.Projects[i].project)
	}
	return out, err
}

// attach tells about a session that the caller is in already.
func (s *Service) attach(ctx context.Context, t *turn, in Session) (out any, err error) {
	var a session.Admission
	admit := func(r store.Reader) (err error) {
		a, err = session.Admit(ctx, r, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActRead})
		return err
	}
	if err := s.cfg.DB.View(ctx, admit); err != nil {
		return nil, err
	}
	t.ground = s.groundOf(ctx, a)
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		if err := admit(r); err != nil {
			return err
		}
		out, err = s.attached(ctx, r, t, a)
		return err
	})
	return out, err
}

// sessionLook looks at the project of a session that is opened, or into which somebody is let by a token. Whether that
// may be is decided later.
func sessionLook(ctx context.Context, s *Service, t *turn) {
	var in Session
	if t.scan(&in) != nil || in.Action != "open" && in.Action != "attach" {
		return
	}
	var a session.Admission
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		if in.Action == "open" {
			a, err = session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: in.Project, Principal: t.Principal, Act: session.ActRead})
			return err
		}
		handoff, err := session.HandoffOf(s.cfg.Key, in.Token)
		if err != nil {
			return err
		}
		h, err := r.HandoffByID(ctx, session.ByID{ID: handoff})
		if err != nil {
			return err
		}
		one, err := r.RemoteSessionByID(ctx, session.ByID{ID: h.Session})
		if err != nil {
			return err
		}
		a.Project, err = r.ProjectByID(ctx, session.ByID{ID: one.Project})
		return err
	})
	if err == nil {
		t.ground = s.groundOf(ctx, a)
	}
}

func sessionChange(ctx context.Context, s *Service, tx store.Tx, t *turn) (any, error) {
	var in Session
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	switch in.Action {
	case "open":
		return s.openSession(ctx, tx, t, in)
	case "attach":
		return s.redeem(ctx, tx, t, in)
	}
	a, err := session.Admit(ctx, tx, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActShare})
	if err != nil {
		return nil, err
	}
	found := a.Session
	t.op.Session, t.op.Project = found.ID, found.Project
	if in.Action == "handoff" {
		return s.handOver(ctx, tx, t, in, found)
	}
	running, err := liveJobs(ctx, tx, found.ID)
	if err != nil {
		return nil, err
	}
	closed, changed, err := session.CloseSession(session.CloseRequest{Session: found, Jobs: running, Now: s.cfg.Now()})
	if err != nil {
		return nil, err
	}
	if changed {
		if err := tx.PutRemoteSession(ctx, session.PutSession{Session: closed}); err != nil {
			return nil, err
		}
		if err := s.Withdraw(ctx, tx, t.actor(), closed.ID); err != nil {
			return nil, err
		}
		if err := s.tell(ctx, tx, t, event.SessionClosed, nil, "the session was closed", nil); err != nil {
			return nil, err
		}
	}
	return struct {
		Session string        `json:"remote_session_id"`
		State   session.State `json:"state"`
		Stays   string        `json:"stays"`
	}{closed.ID, closed.State, "its record, plans and results stay readable"}, nil
}

func (s *Service) openSession(ctx context.Context, tx store.Tx, t *turn, in Session) (any, error) {
	if in.Project == "" {
		mine, err := session.Projects(ctx, tx, t.Principal)
		if err != nil {
			return nil, err
		}
		return nil, projectRequired(mine)
	}
	a, err := session.AdmitProject(ctx, tx, session.AdmitProjectRequest{Project: in.Project, Principal: t.Principal, Act: session.ActRead})
	if err != nil {
		return nil, err
	}
	one, err := session.OpenSession(session.OpenRequest{
		ID: s.cfg.IDs.New(id.Session), Principal: t.Principal, Role: a.Role, Project: a.Project, Label: in.Label, Now: s.cfg.Now(),
	})
	if err != nil {
		return nil, err
	}
	if err := tx.PutRemoteSession(ctx, session.PutSession{Session: one}); err != nil {
		return nil, err
	}
	t.op.Session, t.op.Project = one.ID, a.Project.ID
	if err := s.tell(ctx, tx, t, event.SessionOpened, nil, "a session was opened on "+a.Project.Name, nil); err != nil {
		return nil, err
	}
	a.Session = one
	return s.attached(ctx, tx, t, a)
}

// handOver makes a token. The recorded answer holds none: the token follows from the id, and a retry shows it while it
// counts.
func (s *Service) handOver(ctx context.Context, tx store.Tx, t *turn, in Session, found session.Session) (any, error) {
	h, err := session.MakeHandoff(session.HandoffRequest{
		ID: s.cfg.IDs.New(id.Handoff), Session: found.ID, Role: session.Role(in.Role), TTL: time.Duration(in.TTL) * time.Second, By: t.Principal,
		Operation: t.op.ID, Now: s.cfg.Now(),
	})
	if err != nil {
		return nil, err
	}
	if err := tx.PutHandoff(ctx, session.PutHandoff{Handoff: h}); err != nil {
		return nil, err
	}
	return handedOver{Handoff: h.ID, Session: found.ID, Role: h.Role, Expires: h.Expires.UTC().Format(time.RFC3339)}, s.tell(ctx, tx, t, event.SessionHandoff, nil, "a hand-over as "+string(h.Role)+" was made", nil)
}

// handedOver is the answer of a hand-over.
type handedOver struct {
	Handoff string       `json:"handoff_id"`
	Session string       `json:"remote_session_id"`
	Token   *string      `json:"token"` // null: it was used, or its time is over
	Role    session.Role `json:"role"`
	Expires string       `json:"expires_at"`
}

// reveal puts the token into an answer that is on its way to its caller.
func (s *Service) reveal(ctx context.Context, t *turn, a operation.Answer) operation.Answer {
	var shown handedOver
	if t.Tool != "session" || t.text("action") != "handoff" || a.Data == nil || json.Unmarshal(a.Data, &shown) != nil || shown.Handoff == "" {
		return a
	}
	err := s.cfg.DB.View(context.WithoutCancel(ctx), func(r store.Reader) error {
		h, err := r.HandoffByID(ctx, session.ByID{ID: shown.Handoff})
		if err != nil {
			return err
		}
		if token := h.Token(s.cfg.Key, s.cfg.Now()); token != "" {
			shown.Token = &token
		}
		return nil
	})
	if err != nil {
		return a // without the token it is what was recorded
	}
	if raw, err := json.Marshal(shown); err == nil {
		a.Data = raw
	}
	return a
}

func (s *Service) redeem(ctx context.Context, tx store.Tx, t *turn, in Session) (any, error) {
	found, h, err := session.RedeemToken(ctx, tx, session.RedeemTokenRequest{Key: s.cfg.Key, Token: in.Token, Principal: t.Principal, Now: s.cfg.Now()})
	if err != nil {
		return nil, err
	}
	t.op.Session, t.op.Project = found.ID, found.Project
	if err := s.tell(ctx, tx, t, event.SessionRedeemed, nil, "somebody came in by a hand-over as "+string(h.Role), nil); err != nil {
		return nil, err
	}
	a, err := session.Admit(ctx, tx, session.AdmitRequest{Session: found.ID, Principal: t.Principal, Act: session.ActRead})
	if err != nil {
		return nil, err
	}
	return s.attached(ctx, tx, t, a)
}

// sessionShown is what open, attach and list say about a session.
type sessionShown struct {
	ID      string        `json:"remote_session_id"`
	Project string        `json:"project"`
	Root    string        `json:"root,omitempty"`
	Label   string        `json:"label,omitempty"`
	State   session.State `json:"state"`
	Role    session.Role  `json:"role"`
	Created string        `json:"created_at"`
	Used    string        `json:"last_used_at"`
}

func shownSession(a session.Admission) sessionShown {
	one, p := a.Session, a.Project
	return sessionShown{
		ID: one.ID, Project: p.Name, Root: p.Path, Label: one.Label, State: one.State, Role: a.Role,
		Created: one.Created.UTC().Format(time.RFC3339), Used: one.Used.UTC().Format(time.RFC3339),
	}
}

// attached is the answer of open and attach; at most 6 KB.
func (s *Service) attached(ctx context.Context, r store.Reader, t *turn, a session.Admission) (any, error) {
	one := a.Session
	open, err := r.Operations(ctx, operation.ListOperations{
		Namespace: one.Principal, Session: one.ID, States: []operation.State{operation.Claimed, operation.Dispatched, operation.Unknown}, Limit: operation.MaxOperationPage,
	})
	if err != nil {
		return nil, err
	}
	plans, err := session.AllWorkPlans(ctx, r, session.ListWorkPlans{Session: one.ID, State: session.PlanOpen})
	if err != nil {
		return nil, err
	}
	waiting, err := s.waitingFor(ctx, r, one.ID)
	if err != nil {
		return nil, err
	}
	head, err := r.EventHead(ctx)
	if err != nil {
		return nil, err
	}
	out := struct {
		Session sessionShown `json:"session"`
		ground
		Toolsets   []Toolset       `json:"toolsets"`
		Approvals  []approvalShown `json:"pending_approvals"` // the newest
		More       int             `json:"more_approvals,omitempty"`
		Unfinished struct {
			Operations int `json:"operations"`
			Jobs       int `json:"jobs"`
		} `json:"unfinished"`
		Plan    *planShown `json:"plan,omitempty"`
		Version uint64     `json:"state_version"`
	}{Session: shownSession(a), ground: t.ground, Toolsets: s.toolsets(), Approvals: []approvalShown{}, Version: head.Seq}
	if out.Instructions == nil { // nobody could look
		out.Instructions = []instruction{}
	}
	for i := len(waiting) - 1; i >= 0 && len(out.Approvals) < maxAttached; i-- {
		out.Approvals = append(out.Approvals, *s.shownApproval(waiting[i]))
	}
	out.More = len(waiting) - len(out.Approvals)
	running, err := liveJobs(ctx, r, one.ID)
	if err != nil {
		return nil, err
	}
	out.Unfinished.Operations, out.Unfinished.Jobs = len(open), len(running)
	if len(plans) > 0 {
		out.Plan = shownPlan(plans[len(plans)-1])
	}
	answer := outcome{data: out}
	for _, o := range open[:min(len(open), maxNext)] {
		answer.next = append(answer.next, operation.Next{Tool: "operation_status", Args: map[string]any{operation.IDField: o.ID}, Why: o.Tool + " is " + string(o.State)})
	}
	return answer, nil
}

// maxAttached is how many questions to a person an answer about a session names.
const maxAttached = 5

func (s *Service) toolsets() []Toolset {
	var sets []Toolset
	for _, t := range s.Tools() {
		if !slices.Contains(sets, t.Set) {
			sets = append(sets, t.Set)
		}
	}
	return sets
}

// planShown is a work plan in short.
type planShown struct {
	ID      string `json:"plan_id"`
	Done    int    `json:"done"`
	Total   int    `json:"total"`
	Current string `json:"current,omitempty"` // key of the task in progress
}

func shownPlan(p session.WorkPlan) *planShown {
	out := &planShown{ID: p.ID}
	out.Done, out.Total, out.Current = p.Progress()
	return out
}

// sessionsListed is the answer of list.
type sessionsListed struct {
	Projects []projectShown `json:"projects"`
	Sessions []sessionShown `json:"sessions"`
	Next     string         `json:"next_cursor,omitempty"`
}

// projectShown is a project that the caller has a role on.
type projectShown struct {
	Name  string             `json:"name"`
	Root  string             `json:"root"`
	Grant session.Role       `json:"grant"`
	Trust session.TrustState `json:"trust"`

	project session.Project
}

func (s *Service) listSessions(ctx context.Context, r store.Reader, principal string, in Session) (sessionsListed, error) {
	var out sessionsListed
	ask := session.SessionsRequest{Principal: principal, Query: in.Query, Limit: within(in.Limit, 20, 100)}
	switch ask.Narrow(in.State, in.Cursor) {
	case "state":
		return out, operation.Refuse(operation.ArgumentInvalid, "%.32q is no state; open, closed and all are", in.State)
	case "cursor":
		return out, operation.Refuse(cursorInvalid, "cursor is not one that this tool has given")
	}
	projects, err := session.Projects(ctx, r, principal)
	if err != nil {
		return out, err
	}
	page, err := session.Sessions(ctx, r, ask)
	if err != nil {
		return out, err
	}
	out = sessionsListed{Projects: []projectShown{}, Sessions: []sessionShown{}, Next: page.Cursor()}
	mine := map[string]bool{}
	for _, a := range projects {
		mine[a.Project.ID] = true
		out.Projects = append(out.Projects, projectShown{Name: a.Project.Name, Root: a.Project.Path, Grant: a.Role, project: a.Project})
	}
	for _, a := range page.Sessions {
		if !mine[a.Project.ID] {
			a.Project.Path = "" // a guest learns no more than the name of the project of its session
		}
		out.Sessions = append(out.Sessions, shownSession(a))
	}
	return out, nil
}
