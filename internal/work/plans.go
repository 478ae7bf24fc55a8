package work

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// Plan are the arguments of plan.
type Plan struct {
	ID
	Claims
	Session  string             `json:"remote_session_id" jsonschema:"the session"`
	Action   string             `json:"action" jsonschema:"create, read, update, replan, deliver or cancel"`
	Plan     string             `json:"plan_id,omitempty" jsonschema:"may be absent while exactly one plan is open"`
	Summary  string             `json:"summary,omitempty" jsonschema:"create: what is to be reached, at most 2 KB"`
	Tasks    []session.NewTask  `json:"tasks,omitempty" jsonschema:"create: 1 to 100"`
	Task     string             `json:"task,omitempty" jsonschema:"update: key of the task"`
	State    string             `json:"state,omitempty" jsonschema:"update: todo, in_progress, completed, blocked or skipped"`
	Reason   string             `json:"reason,omitempty" jsonschema:"update: of blocked and skipped; replan: why"`
	Evidence []session.Evidence `json:"evidence,omitempty" jsonschema:"update: kind is read, source, edit, job, build or artifact; ref is path@sha256 or an id"`
	Changes  []session.Change   `json:"changes,omitempty" jsonschema:"replan: do is add, update or remove"`
	Version  int                `json:"expect_version,omitempty" jsonschema:"refuses when the plan has another version"`
}

func planReads(t *turn) bool { return t.text("action") == "read" }

// planAnswer is what plan answers.
type planAnswer struct {
	Plan session.WorkPlan `json:"plan"`
	*session.Delivery
}

func planRead(ctx context.Context, s *Service, t *turn) (any, error) {
	var in Plan
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	var p session.WorkPlan
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		a, err := session.Admit(ctx, r, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActRead})
		if err != nil {
			return err
		}
		p, err = session.PickPlan(ctx, r, session.PickPlanRequest{Session: a.Session.ID, Plan: in.Plan})
		return err
	})
	return planAnswer{Plan: p}, err
}

// fileVerdict is what fileNow says.
type fileVerdict struct {
	why string
	err error
}

// planLook looks at the files that a change of a plan refers to.
func planLook(ctx context.Context, s *Service, t *turn) {
	var in Plan
	if t.scan(&in) != nil || in.Action != "update" && in.Action != "deliver" {
		return
	}
	var a session.Admission
	refs := slices.Clone(in.Evidence[:min(len(in.Evidence), session.MaxEvidence)])
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		if a, err = session.Admit(ctx, r, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActChange}); err != nil || in.Action == "update" {
			return err
		}
		p, err := session.PickPlan(ctx, r, session.PickPlanRequest{Session: a.Session.ID, Plan: in.Plan})
		for _, task := range p.Tasks {
			refs = append(refs, task.Evidence...)
		}
		return err
	})
	if err != nil {
		return // the change says so
	}
	t.files = map[session.Evidence]fileVerdict{}
	for _, e := range refs {
		if _, known := t.files[e]; !known && (e.Kind == session.EvidenceSource || e.Kind == session.EvidenceRead) {
			why, err := s.fileNow(ctx, a, e)
			t.files[e] = fileVerdict{why, err}
		}
	}
}

func planChange(ctx context.Context, s *Service, tx store.Tx, t *turn) (any, error) {
	var in Plan
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	a, err := session.Admit(ctx, tx, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActChange})
	if err != nil {
		return nil, err
	}
	t.op.Session, t.op.Project = a.Session.ID, a.Session.Project
	var (
		p     session.WorkPlan
		given *session.Delivery
		kind  event.Kind
	)
	if in.Action == "create" {
		kind = event.PlanCreated
		p, err = session.CreatePlan(session.CreateRequest{ID: s.cfg.IDs.New(id.WorkPlan), Session: a.Session.ID, Summary: in.Summary, Tasks: in.Tasks, Now: s.cfg.Now()})
	} else if p, err = session.PickPlan(ctx, tx, session.PickPlanRequest{Session: a.Session.ID, Plan: in.Plan}); err == nil {
		judge := s.evidence(ctx, tx, t, a)
		switch in.Action {
		case "update":
			kind = event.PlanUpdated
			p, err = session.UpdateTask(session.UpdateRequest{
				Plan: p, ExpectVersion: in.Version, Task: in.Task, To: session.TaskState(in.State), Reason: in.Reason, Evidence: in.Evidence, Judge: judge, Now: s.cfg.Now(),
			})
		case "replan":
			kind = event.PlanReplanned
			p, err = session.Replan(session.ReplanRequest{Plan: p, ExpectVersion: in.Version, Changes: in.Changes, Reason: in.Reason, Now: s.cfg.Now()})
		case "cancel":
			kind = event.PlanCancelled
			p, err = session.CancelPlan(session.CancelRequest{Plan: p, ExpectVersion: in.Version, Now: s.cfg.Now()})
		case "deliver":
			kind = event.PlanDelivered
			var d session.Delivery
			p, d, err = s.deliver(ctx, tx, a, p, in.Version, judge)
			if given = &d; err == nil && !d.Ready {
				return outcome{data: planAnswer{p, given}, bad: true}, nil
			}
		default:
			err = operation.Refuse(operation.ArgumentInvalid, "%.32q is no action; create, read, update, replan, deliver and cancel are", in.Action)
		}
	}
	if err != nil {
		return nil, err
	}
	if err := tx.PutWorkPlan(ctx, session.PutWorkPlan{Plan: p}); err != nil {
		return nil, err
	}
	return planAnswer{p, given}, s.tell(ctx, tx, t, kind, nil, in.Action+" of "+p.ID, nil)
}

// evidence looks references up in the record.
func (s *Service) evidence(ctx context.Context, r store.Reader, t *turn, a session.Admission) session.Judge {
	return func(e session.Evidence) (string, error) {
		switch e.Kind {
		case session.EvidenceEdit:
			o, err := r.OperationByName(ctx, operation.ByName{Name: operation.Name{Namespace: t.Principal, ID: e.Ref}})
			if fault.KindOf(err) == fault.NotFound {
				return "there is no such operation", nil
			}
			if err != nil {
				return "", err
			}
			if o.State != operation.Succeeded || o.Tool != "edit_files" {
				return "it is no edit that succeeded", nil
			}
			return "", nil
		case session.EvidenceSource, session.EvidenceRead:
			if v, looked := t.files[e]; looked {
				return v.why, v.err
			}
			return s.fileNow(ctx, a, e) // the plan has changed since
		case session.EvidenceJob:
			return s.jobPassed(ctx, r, t, e.Ref)
		case session.EvidenceArtifact:
			return s.artifactHolds(ctx, r, t, a, e.Ref)
		case session.EvidenceBuild:
		}
		return "this daemon has no " + string(e.Kind) + "s", nil
	}
}

// jobPassed says why a job is no evidence.
func (s *Service) jobPassed(ctx context.Context, r store.Reader, t *turn, id string) (string, error) {
	j, err := s.admitJob(ctx, r, t, id, session.ActRead)
	if _, refused := errors.AsType[*operation.Refusal](err); refused {
		return "there is no such job", nil
	}
	switch {
	case err != nil:
		return "", err
	case !j.State.Final():
		return "it has not ended", nil
	case j.State != operation.JobExited || j.Code == nil || *j.Code != 0:
		return "it did not end with exit code 0", nil
	}
	return "", nil
}

// begun is where in the order of the operations the job of a piece of evidence began.
func begun(ctx context.Context, r store.Reader, e session.Evidence) (uint64, error) {
	j, err := r.JobByID(ctx, operation.JobByID{ID: e.Ref})
	if err != nil {
		return 0, err
	}
	o, err := r.OperationByName(ctx, operation.ByName{Name: j.By})
	return o.Seq, err
}

// fileNow says why a file is not what the evidence says. What was read earlier is judged by what is there now: reads are
// no part of the record.
func (s *Service) fileNow(ctx context.Context, a session.Admission, e session.Evidence) (string, error) {
	path, sum := e.File()
	x, err := s.open(a)
	if err != nil {
		return "", err
	}
	defer x.close()
	p, err := s.resolve(ctx, x, path, tree.Read)
	if r, ok := errors.AsType[*operation.Refusal](err); ok {
		return r.Message, nil
	}
	if err != nil {
		return "", err
	}
	defer p.Close()
	c, err := p.Hash(ctx, tree.MaxHash)
	if err != nil {
		return problem(err).Error(), nil
	}
	if c.SHA256 != sum {
		return "the file has another hash now", nil
	}
	return "", nil
}

func (s *Service) deliver(ctx context.Context, r store.Reader, a session.Admission, p session.WorkPlan, version int, judge session.Judge) (session.WorkPlan, session.Delivery, error) {
	var unclear []string
	var last uint64
	for o, err := range operation.Each(ctx, r, operation.ListOperations{Session: a.Session.ID}) {
		if err != nil {
			return p, session.Delivery{}, err
		}
		if o.State == operation.Unknown {
			unclear = append(unclear, o.ID)
		}
		if o.Tool == "edit_files" && o.State == operation.Succeeded {
			last = cmp.Or(last, o.Seq)
		}
	}
	running, err := liveJobs(ctx, r, a.Session.ID)
	if err != nil {
		return p, session.Delivery{}, err
	}
	return session.Deliver(session.DeliverRequest{
		Plan: p, ExpectVersion: version, Judge: judge, LastEdit: last, Operations: unclear, Jobs: running, Now: s.cfg.Now(),
		Started: func(e session.Evidence) (uint64, error) { return begun(ctx, r, e) },
	})
}
