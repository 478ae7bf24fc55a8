package api

import (
	"fmt"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/retention"
)

// RunAudit looks at the files of agents, keeps what was seen, and makes plans. Whose files, as in ConfigQuery.
type RunAudit struct {
	Agent   string   `json:"agent,omitempty"`  // kind of agent: only its files, and plans for it whatever its level; "" all
	Path    string   `json:"path,omitempty"`   // plans for this file only
	Entry   string   `json:"entry,omitempty"`  // plans for entries of this name only
	Mounts  bool     `json:"mounts,omitempty"` // plans for servers that the agent lacks, or shall not have any more, only
	Home    string   `json:"home,omitempty"`
	Project string   `json:"project,omitempty"`
	Moved   []string `json:"moved,omitempty"`
	NoPlan  bool     `json:"no_plan,omitempty"`
}

// Audit is what a run found and what follows from it.
type Audit struct {
	Files    []converge.File        `json:"files"`   // those that exist
	Entries  []converge.Finding     `json:"entries"` // all of them
	Counts   map[converge.Class]int `json:"counts"`
	Revision string                 `json:"revision"` // of the catalog
	// Plans are the open ones that fit the files as they are: those just made and those that were there.
	Plans      []PlanRow `json:"plans"`
	Made       int       `json:"made"`       // plans that are new
	Superseded int       `json:"superseded"` // plans that do not fit the files or the catalog any more
	// Observed are agents with entries to change for which nothing is planned, because nobody said to manage them.
	Observed []string `json:"observed,omitempty"`
	Events   int      `json:"events"` // written to the log; 0: nothing has changed since the last run
	Next     []string `json:"next"`   // commands

	Operation string `json:"operation,omitempty"` // the id that the caller gave
}

// PlanRow is a plan in a list.
type PlanRow struct {
	ID       string             `json:"plan_id"`
	Kind     converge.PlanKind  `json:"kind"`
	Agent    string             `json:"agent,omitempty"`
	Server   string             `json:"server,omitempty"`
	Entry    string             `json:"entry,omitempty"`
	Summary  string             `json:"summary"`
	Files    []string           `json:"files"`
	Risk     converge.Risk      `json:"risk"`
	State    converge.PlanState `json:"state"`
	Waits    converge.Wait      `json:"waits_for,omitempty"` // of a ready one
	Needs    []string           `json:"needs"`               // what has to be done before, as commands
	Problems []converge.Problem `json:"problems,omitempty"`  // of an errored one
	Approval string             `json:"approval,omitempty"`
	Approved approval.State     `json:"approval_state,omitempty"`
	Receipt  string             `json:"receipt,omitempty"`
	Made     time.Time          `json:"made_at"`
}

// PlansQuery selects plans. A page has the newest first.
type PlansQuery struct {
	State  string `json:"-" query:"state"` // one state; "" those that wait for something: ready, errored, applying
	All    bool   `json:"-" query:"all"`   // every state
	Agent  string `json:"-" query:"agent"`
	Before string `json:"-" query:"before"` // id of the last plan of the page before
	Limit  int    `json:"-" query:"limit"`  // 0 means MaxRows
}

// MaxRows bounds a page of plans, approvals and receipts.
const MaxRows = 200

// PlanPage is a list of plans.
type PlanPage struct {
	Plans []PlanRow `json:"plans"`
	More  bool      `json:"more,omitempty"` // there are older ones
	Next  []string  `json:"next"`           // commands
}

// PlanRef names one plan. A beginning of the id that only one plan has is enough.
type PlanRef struct {
	Plan string `json:"-" path:"plan"`
}

// PlanView is one plan whole, with what became of it and what can be done next.
type PlanView struct {
	converge.Plan
	Subject string             `json:"subject_sha256"`      // what an approval of it is bound to
	Waits   converge.Wait      `json:"waits_for,omitempty"` // of a ready one
	Asked   *approval.Approval `json:"asked,omitempty"`     // the latest approval of it
	Outcome *converge.Receipt  `json:"outcome,omitempty"`   // the latest receipt of it
	Already bool               `json:"already,omitempty"`   // it was there before; only in the answer to what makes one
	Next    []string           `json:"next"`                // commands

	Operation string `json:"operation,omitempty"` // the id that the caller gave
}

// ApplyPlan carries a plan out.
type ApplyPlan struct {
	Plan string `json:"-" path:"plan"`
}

// PlanOutcome is what an apply came to: all of the plan is in the files, or nothing.
type PlanOutcome struct {
	State   string           `json:"state"` // applied, already_applied, undone
	Already bool             `json:"already,omitempty"`
	Plan    PlanRow          `json:"plan"`
	Receipt converge.Receipt `json:"receipt"`
	Effects []string         `json:"effects"` // what to know now, such as that the agent has to be started anew
	Next    []string         `json:"next"`    // commands

	Operation string `json:"operation,omitempty"`
}

// ApplyPlans carries several plans out, in order: those that are named, or all that a person said yes to.
type ApplyPlans struct {
	Plans    []string `json:"plans,omitempty"`    // a beginning of an id is enough
	Approved bool     `json:"approved,omitempty"` // instead of Plans: every plan with a yes that was not used yet
}

// MaxPlans bounds the plans of one order: a person has read each of them.
const MaxPlans = 100

// PlansOutcome is what several applies came to, each for itself.
type PlansOutcome struct {
	Applied []PlanOutcome `json:"applied"`
	Refused []PlanRefused `json:"refused"` // nothing of these is in the files
	Next    []string      `json:"next"`    // commands

	Operation string `json:"operation,omitempty"`
}

// PlanRefused is a plan that was not applied.
type PlanRefused struct {
	Plan    string  `json:"plan_id"` // as it was named
	Problem Problem `json:"problem"`
}

// ApprovalsQuery selects approvals.
type ApprovalsQuery struct {
	State string `json:"-" query:"state"` // one state; "" those that wait or count: pending, approved
	All   bool   `json:"-" query:"all"`   // every state
	After string `json:"-" query:"after"` // id of the last approval of the page before
	Limit int    `json:"-" query:"limit"` // 0 means MaxRows
}

// ApprovalPage is a list of approvals in the order of their making.
type ApprovalPage struct {
	Approvals []approval.Approval `json:"approvals"`
	More      bool                `json:"more,omitempty"` // there are later ones
	Next      []string            `json:"next"`           // commands
}

// ApprovalRef names one approval. A beginning of the id that only one approval has is enough, and so is the plan it
// is about.
type ApprovalRef struct {
	Approval string `json:"-" path:"approval"`
}

// ApprovalView is one approval with what it is about.
type ApprovalView struct {
	approval.Approval
	Plan        *PlanView `json:"plan"`
	ProjectName string    `json:"project,omitempty"`
	Whole       string    `json:"whole,omitempty"` // of a display that was cut
	Next        []string  `json:"next"`            // commands
}

// Decide is the yes or no of a person. The caller has a controlling terminal, as the kernel tells, and is no process
// of a server.
type Decide struct {
	Approval string `json:"-" path:"approval"`
	Approve  bool   `json:"approve"` // false: deny
	// Digest is subject_sha256 of what the person was shown.
	Digest string `json:"digest"`
	Note   string `json:"note,omitempty"`
}

// ReceiptsQuery selects receipts. A page has the newest first.
type ReceiptsQuery struct {
	Plan   string `json:"-" query:"plan"`
	Path   string `json:"-" query:"path"`
	State  string `json:"-" query:"state"`
	Before string `json:"-" query:"before"`
	Limit  int    `json:"-" query:"limit"` // 0 means MaxRows
}

// ReceiptPage is a list of receipts.
type ReceiptPage struct {
	Receipts []converge.Receipt `json:"receipts"`
	More     bool               `json:"more,omitempty"`
	Next     []string           `json:"next"` // commands
}

// RollBack makes the plan that takes a receipt back.
type RollBack struct {
	Receipt string `json:"-" path:"receipt"` // a beginning is enough; a plan stands for its latest receipt
	Merge   bool   `json:"merge,omitempty"`  // what others did to the same entries since stays; what would be a guess is told as a conflict
}

// Agents are the agents that mcpx knows.
type Agents struct {
	Agents []Agent  `json:"agents"`
	Next   []string `json:"next"` // commands
}

// Agent is one coding agent on this machine.
type Agent struct {
	Agent    string                 `json:"agent"`
	Title    string                 `json:"title"`
	Level    converge.Level         `json:"level"`
	Since    time.Time              `json:"since,omitzero"`     // of a level that somebody set
	Client   string                 `json:"client,omitempty"`   // path of its program; "" not found on the PATH of the daemon
	Evidence string                 `json:"evidence,omitempty"` // doc: its files are known from documentation only
	Profiles []string               `json:"profiles,omitempty"` // sets of servers that it shall have
	Files    []converge.File        `json:"files"`              // those that exist
	Counts   map[converge.Class]int `json:"counts"`             // entries of each class that occurs
	Plans    int                    `json:"plans"`              // that wait
	State    string                 `json:"state,omitempty"`    // only in the answer to a change: managed, already_managed
	Next     []string               `json:"next,omitempty"`     // commands; only in the answer to a change

	Operation string `json:"operation,omitempty"` // the id that the caller gave
}

// SetAgent says how far mcpx goes with an agent.
type SetAgent struct {
	Agent string         `json:"-" path:"agent"`
	Level converge.Level `json:"level"`
}

// EventsQuery selects events of the log.
type EventsQuery struct {
	After  int    `json:"-" query:"after"` // seq of the last event that the caller has
	Kind   string `json:"-" query:"kind"`  // a kind, or its beginning up to a dot: plan, plan.made
	Agent  string `json:"-" query:"agent"`
	Plan   string `json:"-" query:"plan"`
	Path   string `json:"-" query:"path"`
	Server string `json:"-" query:"server"`

	Operation string `json:"-" query:"operation"`
	Job       string `json:"-" query:"job"`
	Session   string `json:"-" query:"session"`
	Project   string `json:"-" query:"project"` // name or id

	Since  string `json:"-" query:"since"`  // RFC 3339
	Last   int    `json:"-" query:"last"`   // only the newest, at most MaxLast; 0 all
	Follow bool   `json:"-" query:"follow"` // stay and send new ones
	Beat   bool   `json:"-" query:"beat"`   // while it stays, send a line now and then that says that the daemon is there
}

// Beats says whether the stream has such lines.
func (q EventsQuery) Beats() bool { return q.Beat && q.Follow }

// MaxLast bounds EventsQuery.Last: they are held in memory until the end of the log was found.
const MaxLast = 10_000

// VerifyEvents asks whether the log is whole.
type VerifyEvents struct {
	From int `json:"-" query:"from"` // first seq; 0 the first of all
	To   int `json:"-" query:"to"`   // last seq; 0 the last of all
}

// Verified is the answer to VerifyEvents.
type Verified struct {
	OK bool `json:"ok"`
	event.Verdict
	Backups []BackupIssue `json:"backups,omitempty"` // those that are not what their receipt says
	Text    string        `json:"text"`
}

// BackupIssue is a backup that does not fit its receipt.
type BackupIssue struct {
	Receipt string `json:"receipt_id"`
	Path    string `json:"path"` // of the file that was backed up
	Text    string `json:"text"`
}

// VerdictText says in one line what a look at the log found.
func VerdictText(v Verified) string {
	switch {
	case v.Bad != nil:
		return fmt.Sprintf("the log is broken at event %d: %s", v.Bad.Seq, v.Bad.Why)
	case len(v.Backups) > 0:
		return fmt.Sprintf("%d events are whole, backups that are not: %d", v.Count, len(v.Backups))
	case v.Count == 0:
		return "there are no events"
	}
	text := fmt.Sprintf("%d events are whole, %d to %d, head %s", v.Count, v.First, v.Last, v.Head)
	if v.Purged > 0 {
		text += fmt.Sprintf("; the bodies of %d are not kept any more: %s", v.Purged, v.Pruned)
	}
	return text
}

// PruneData asks for old data to be removed.
type PruneData struct {
	DryRun bool   `json:"dry_run"`      // nothing is removed: the answer says what would be
	At     string `json:"at,omitempty"` // RFC 3339, with DryRun only: as if it were then
}

// PrunedData says what was removed.
type PrunedData struct {
	retention.Report
	// HeldSeconds is how long nothing is removed from now on, because the clock of the machine may have jumped by JumpSeconds.
	HeldSeconds int64    `json:"held_seconds,omitempty"`
	JumpSeconds int64    `json:"jump_seconds,omitempty"`
	Next        []string `json:"next"` // commands
}
