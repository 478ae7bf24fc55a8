package work

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Observe are the arguments of observe.
type Observe struct {
	Session   string   `json:"remote_session_id" jsonschema:"the session"`
	View      string   `json:"view,omitempty" jsonschema:"events, jobs or approvals; events without it"`
	Since     uint64   `json:"since,omitempty" jsonschema:"only events after this number"`
	Before    uint64   `json:"before,omitempty" jsonschema:"only events before this number"`
	Kinds     []string `json:"kinds,omitempty" jsonschema:"kinds, or beginnings of them"`
	Operation string   `json:"by_operation,omitempty" jsonschema:"only of this operation"`
	Task      string   `json:"task,omitempty" jsonschema:"only of this task of a work plan"`
	Path      string   `json:"path,omitempty" jsonschema:"only about this file"`
	Text      string   `json:"text,omitempty" jsonschema:"only with this text in the summary or the data"`
	Order     string   `json:"order,omitempty" jsonschema:"newest or oldest first; newest without it"`
	Limit     int      `json:"limit,omitempty" jsonschema:"1 to 200; 50 without it"`
	Cursor    string   `json:"cursor,omitempty" jsonschema:"next_cursor of the page before"`
	WaitMS    int      `json:"wait_ms,omitempty" jsonschema:"0 to 25000, for a match"`
	Claims
}

const (
	observeUsual = 50
	observeMost  = 200
	// observeScan bounds how many events one call looks through for the ones that fit.
	observeScan = 20 * event.MaxEventPage
	// observeData bounds the data of one event that is shown.
	observeData = 1 << 10
)

func observe(ctx context.Context, s *Service, t *turn) (any, error) {
	var in Observe
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	var look func(store.Reader, session.Session) (out any, any bool, err error)
	switch in.View {
	case "", "events":
		from, err := in.from()
		if err != nil {
			return nil, err
		}
		look = func(r store.Reader, one session.Session) (any, bool, error) {
			from := from
			if from.Path != "" && !filepath.IsAbs(from.Path) {
				p, err := r.ProjectByID(ctx, session.ByID{ID: one.Project})
				if err != nil {
					return nil, false, err
				}
				from.Path = filepath.Join(p.Physical.Real, from.Path)
			}
			page, err := from.look(ctx, r, one.ID)
			return page, len(page.Events) > 0, err
		}
	case "approvals":
		look = func(r store.Reader, one session.Session) (any, bool, error) {
			return s.observeApprovals(ctx, r, t, one.ID, in.limit())
		}
	case "jobs":
		look = func(r store.Reader, one session.Session) (any, bool, error) {
			return observeJobs(ctx, r, one.ID, in.limit())
		}
	default:
		return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no view; events, jobs and approvals are", in.View)
	}
	over := time.NewTimer(t.patience(0))
	defer over.Stop()
	for {
		changed := s.cfg.DB.Changed()
		var out any
		var found bool
		err := s.cfg.DB.View(ctx, func(r store.Reader) error {
			a, err := session.Admit(ctx, r, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActRead})
			if err != nil {
				return err
			}
			out, found, err = look(r, a.Session)
			return err
		})
		if err != nil || found {
			return out, err
		}
		select {
		case <-changed:
		case <-over.C:
			return out, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (in Observe) limit() int { return within(in.Limit, observeUsual, observeMost) }

// eventLook is which events are looked for, and from where.
type eventLook struct {
	Observe
	after, before uint64 // exclusive; before 0: no bound
	newest        bool
}

func (in Observe) from() (eventLook, error) {
	look := eventLook{Observe: in, after: in.Since, before: in.Before}
	switch in.Order {
	case "", "newest":
		look.newest = true
	case "oldest":
	default:
		return look, operation.Refuse(operation.ArgumentInvalid, "%.32q is no order; newest and oldest are", in.Order)
	}
	if in.Cursor == "" {
		return look, nil
	}
	at, err := strconv.ParseUint(in.Cursor, 10, 63)
	if err != nil || at == 0 {
		return look, operation.Refuse(cursorInvalid, "cursor is not one that this tool has given")
	}
	if look.newest {
		look.before = at
	} else {
		look.after = at
	}
	return look, nil
}

// observed is a page of events.
type observed struct {
	Events []eventShown `json:"events"`
	First  uint64       `json:"first_seq,omitempty"`
	Last   uint64       `json:"last_seq,omitempty"`
	Next   uint64       `json:"next_since"` // since, for what comes later
	Cursor string       `json:"next_cursor,omitempty"`
	Pruned event.Ranges `json:"pruned,omitempty"` // ranges of events whose data is not kept any more
}

type eventShown struct {
	Seq     uint64          `json:"seq"`
	At      string          `json:"at"`
	Kind    event.Kind      `json:"kind"`
	Actor   event.Actor     `json:"actor"`
	Summary string          `json:"summary"`
	IDs     event.Refs      `json:"ids,omitempty"`
	Data    json.RawMessage `json:"data,omitempty"`
	Bytes   int             `json:"data_bytes,omitempty"` // of data that is too long to be shown here
}

// look reads one page of the events of a session. It ends early when the answer is full, or when a lot was looked through;
// its cursor goes on there.
func (in eventLook) look(ctx context.Context, r store.Reader, session string) (observed, error) {
	out := observed{Events: []eventShown{}}
	head, err := r.EventHead(ctx)
	if err != nil {
		return out, err
	}
	out.Next = head.Seq
	list := event.ListEvents{After: in.after, Refs: event.Refs{event.RefSession: session}}
	for name, value := range map[event.Ref]string{event.RefOperation: in.Operation, event.RefTask: in.Task, event.RefPath: in.Path} {
		if value != "" {
			list.Refs[name] = value
		}
	}
	if in.newest {
		list.Before = head.Seq + 1
		if in.before > 0 {
			list.Before = min(list.Before, in.before)
		}
	}
	room := inlineLimit - 2*envelope
	for scanned := 0; ; {
		page, err := r.Events(ctx, list)
		if err != nil {
			return out, err
		}
		for _, e := range page {
			if in.newest && e.Seq <= in.after || !in.newest && in.before > 0 && e.Seq >= in.before {
				return out, nil
			}
			if in.fits(e) {
				shown := shownEvent(e)
				raw, err := json.Marshal(shown)
				if err != nil {
					return out, err
				}
				if room -= len(raw); len(out.Events) == in.limit() || room < 0 && len(out.Events) > 0 {
					out.Cursor = strconv.FormatUint(out.Events[len(out.Events)-1].Seq, 10)
					return out, nil
				}
				out.add(e, shown)
			}
			if in.newest {
				list.After, list.Before = 0, e.Seq
			} else {
				list.After = e.Seq
			}
		}
		if scanned += len(page); len(page) < list.PageLimit() {
			return out, nil
		}
		if scanned >= observeScan {
			out.Cursor = strconv.FormatUint(list.After+list.Before, 10) // one of them is 0
			return out, nil
		}
	}
}

func (in eventLook) fits(e event.Event) bool {
	if len(in.Kinds) > 0 && !slices.ContainsFunc(in.Kinds, func(k string) bool { return strings.HasPrefix(string(e.Kind), k) }) {
		return false
	}
	text := strings.ToLower(in.Text)
	return text == "" || strings.Contains(strings.ToLower(e.Summary), text) || strings.Contains(strings.ToLower(string(e.Body)), text)
}

func shownEvent(e event.Event) eventShown {
	out := eventShown{Seq: e.Seq, At: e.At.UTC().Format(time.RFC3339Nano), Kind: e.Kind, Actor: e.Actor, Summary: e.Summary, IDs: e.Refs, Data: e.Body}
	if len(e.Body) > observeData {
		out.Data, out.Bytes = nil, len(e.Body)
	}
	return out
}

func (o *observed) add(e event.Event, shown eventShown) {
	o.Events = append(o.Events, shown)
	if o.First == 0 || e.Seq < o.First {
		o.First = e.Seq
	}
	o.Last = max(o.Last, e.Seq)
	if e.Pruned() {
		o.Pruned = o.Pruned.Add(e.Seq)
	}
}

// observeApprovals are the questions of a session that wait or count, the newest first.
func (s *Service) observeApprovals(ctx context.Context, r store.Reader, t *turn, session string, limit int) (any, bool, error) {
	type whole struct {
		approvalShown
		Subject string   `json:"subject_sha256"`
		Reasons []string `json:"reasons"`
		Claim   string   `json:"agent_says,omitempty"`
	}
	out := struct {
		Approvals []whole `json:"approvals"`
		More      int     `json:"more,omitempty"`
	}{Approvals: []whole{}}
	var mine []approval.Approval
	for _, state := range []approval.State{approval.Pending, approval.Approved} {
		all, err := approval.All(ctx, r, approval.ListApprovals{State: state})
		if err != nil {
			return nil, false, err
		}
		for _, a := range all {
			if _, over := approval.Expire(a, s.cfg.Now()); !over && a.Session == session && a.Kind != approval.KindPlan {
				mine = append(mine, a)
			}
		}
	}
	slices.SortFunc(mine, func(a, b approval.Approval) int { return strings.Compare(b.ID, a.ID) })
	t.others = nil
	for _, a := range mine[:min(len(mine), limit)] {
		if a.State == approval.Pending && a.Principal != t.Principal {
			t.others = append(t.others, a.ID)
		}
		out.Approvals = append(out.Approvals, whole{*s.shownApproval(a), a.Subject, a.Reasons, a.Claim})
	}
	out.More = len(mine) - len(out.Approvals)
	return out, len(mine) > 0, nil
}

// observeJobs are the jobs of a session, the newest first.
func observeJobs(ctx context.Context, r store.Reader, session string, limit int) (any, bool, error) {
	type job struct {
		ID        string             `json:"job_id"`
		Operation string             `json:"operation_id"`
		Name      string             `json:"name,omitempty"`
		State     operation.JobState `json:"state"`
		Code      *int               `json:"exit_code"`
		Reserved  string             `json:"reserved_at"`
	}
	out := struct {
		Jobs []job `json:"jobs"`
	}{Jobs: []job{}}
	page, err := r.Jobs(ctx, operation.ListJobs{Session: session, Limit: limit})
	for _, j := range page {
		out.Jobs = append(out.Jobs, job{j.ID, j.By.ID, j.Label, j.State, j.Code, j.Reserved.UTC().Format(time.RFC3339)})
	}
	return out, len(page) > 0, err
}
