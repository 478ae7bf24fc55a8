package session

import (
	"fmt"
	"time"
)

// CheckCode names one check of a delivery.
type CheckCode string

// The checks, in the order in which they are told. All are answered from the record.
const (
	TasksDone           CheckCode = "tasks_done"
	NothingBlocked      CheckCode = "nothing_blocked"
	EvidenceValid       CheckCode = "evidence_valid"       // looked at again now
	VerificationPresent CheckCode = "verification_present" // a job or a build
	VerificationFresh   CheckCode = "verification_fresh"   // no edit after it started
	ApprovalsClear      CheckCode = "approvals_clear"
	OperationsClear     CheckCode = "operations_clear" // none unknown
	JobsClear           CheckCode = "jobs_clear"
)

// CheckResult is the answer to one check.
type CheckResult struct {
	Code   CheckCode `json:"code"`
	Passed bool      `json:"passed"`
	Detail string    `json:"detail"`
}

// Blocker is one thing that keeps a plan from being delivered.
type Blocker struct {
	Check CheckCode `json:"check"`
	ID    string    `json:"id"` // key of a task, or id of an approval, an operation or a job
	Why   string    `json:"why,omitempty"`
}

// Delivery says whether a plan can be delivered. It names everything that is in the way at once.
type Delivery struct {
	Ready    bool          `json:"ready"`
	Checks   []CheckResult `json:"checks"`
	Blockers []Blocker     `json:"blockers"`
}

// DeliverRequest asks for the delivery of a plan.
type DeliverRequest struct {
	Plan          WorkPlan
	ExpectVersion int // 0: any
	Judge         Judge
	// Started is where in the log the job or build of a piece of evidence began.
	Started func(Evidence) (seq uint64, err error)
	// LastEdit is where in the log this session last changed a file of the target; 0 never.
	LastEdit   uint64
	Approvals  []string // ids of those of the session that are pending
	Operations []string // ids of those of the session whose outcome is unknown
	Jobs       []string // ids of those of the session that run or wait
	Now        time.Time
}

// Deliver delivers a plan when every check passes; otherwise the plan is given back as it was. PLAN_FINAL, PLAN_CONFLICT;
// what Judge or Started fail with is given back as it is.
func Deliver(in DeliverRequest) (WorkPlan, Delivery, error) {
	next, err := in.Plan.next(in.ExpectVersion, in.Now)
	if err != nil {
		return WorkPlan{}, Delivery{}, err
	}
	d := Delivery{Blockers: []Blocker{}}
	d.tasks(in.Plan)
	verified, err := d.evidence(in)
	if err != nil {
		return WorkPlan{}, Delivery{}, err
	}
	d.verification(in.LastEdit, verified)
	d.clear(ApprovalsClear, "approvals are pending", in.Approvals)
	d.clear(OperationsClear, "operations have an unknown outcome", in.Operations)
	d.clear(JobsClear, "jobs are running", in.Jobs)
	d.Ready = true
	for _, c := range d.Checks {
		d.Ready = d.Ready && c.Passed
	}
	if !d.Ready {
		return in.Plan, d, nil
	}
	next.State = PlanDelivered
	return next, d, nil
}

func (d *Delivery) add(code CheckCode, passed bool, good, bad string) {
	detail := good
	if !passed {
		detail = bad
	}
	d.Checks = append(d.Checks, CheckResult{Code: code, Passed: passed, Detail: detail})
}

// tasks looks at the states of the tasks.
func (d *Delivery) tasks(p WorkPlan) {
	var open, blocked []Blocker
	for _, t := range p.Tasks {
		if !t.State.Done() {
			open = append(open, Blocker{Check: TasksDone, ID: t.Key, Why: "it is " + string(t.State)})
		}
		if t.State == TaskBlocked {
			blocked = append(blocked, Blocker{Check: NothingBlocked, ID: t.Key, Why: t.Reason})
		}
	}
	d.Blockers = append(append(d.Blockers, open...), blocked...)
	d.add(TasksDone, len(open) == 0, "every task is completed or skipped", fmt.Sprintf("%d tasks are not done", len(open)))
	d.add(NothingBlocked, len(blocked) == 0, "no task is blocked", fmt.Sprintf("%d tasks are blocked", len(blocked)))
}

// evidence looks at every piece again and gives where in the log each job and build that holds began.
func (d *Delivery) evidence(in DeliverRequest) (verified []uint64, err error) {
	bad := 0
	for _, t := range in.Plan.Tasks {
		for _, e := range t.Evidence {
			why, err := in.Judge(e)
			if err != nil {
				return nil, err
			}
			if why != "" {
				bad++
				d.Blockers = append(d.Blockers, Blocker{Check: EvidenceValid, ID: t.Key, Why: string(e.Kind) + " " + e.Ref + ": " + why})
				continue
			}
			if !e.Verifies() {
				continue
			}
			seq, err := in.Started(e)
			if err != nil {
				return nil, err
			}
			verified = append(verified, seq)
		}
	}
	d.add(EvidenceValid, bad == 0, "all evidence holds", fmt.Sprintf("%d pieces of evidence do not hold any more", bad))
	return verified, nil
}

// verification asks for a job or build that began after the last edit.
func (d *Delivery) verification(lastEdit uint64, verified []uint64) {
	var newest uint64
	for _, seq := range verified {
		newest = max(newest, seq)
	}
	present := len(verified) > 0
	d.add(VerificationPresent, present, "a job or a build is among the evidence", "no job or build is among the evidence that holds")
	d.add(VerificationFresh, present && newest > lastEdit, "nothing was edited after the last verification began", "files were edited after the last verification began, or there is none")
}

// clear wants a list to be empty.
func (d *Delivery) clear(code CheckCode, what string, ids []string) {
	for _, id := range ids {
		d.Blockers = append(d.Blockers, Blocker{Check: code, ID: id})
	}
	d.add(code, len(ids) == 0, "none", fmt.Sprintf("%d %s", len(ids), what))
}
