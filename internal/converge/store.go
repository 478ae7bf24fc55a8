package converge

import (
	"context"
	"iter"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// Level says how far mcpx goes with an agent. It is a person's decision.
type Level string

// The levels.
const (
	LevelObserved Level = "observed" // the default: plans are made only when asked for
	LevelManaged  Level = "managed"  // plans are made
	LevelAuto     Level = "auto"     // and applied by themselves when governance.md section 5.2 allows it
)

// Mount is one server that an agent shall have.
type Mount struct {
	Server string `json:"server"` // id of the catalog entry
	Name   string `json:"name"`   // as the agent names it
	Scope  string `json:"scope"`  // "" is user
	// Project is the directory for which a mount of the scope project counts, absolute.
	Project string `json:"project,omitempty"`
	Absent  bool   `json:"absent,omitempty"` // the agent shall not have it any more
	Tools   *Tools `json:"tools,omitempty"`  // the filter that its entry shall have; nil: nobody cares
	// Profile is the one that asks for it, or with Absent did so last; "" a person has decided it for this server alone.
	Profile string `json:"profile,omitempty"`
}

// Tools is what an entry says about single tools of its server.
type Tools struct {
	Allow []string `json:"allow,omitempty"` // none: all
	Deny  []string `json:"deny,omitempty"`
}

// AgentRecord is what is decided about one agent.
type AgentRecord struct {
	Agent  string  `json:"agent"`
	Level  Level   `json:"level"`
	Mounts []Mount `json:"mounts"`
	Only   bool    `json:"only_mounts,omitempty"` // what is led through mcpx and is not in Mounts is extra
	// Profiles are sets of servers that the agent shall have: those whose entry names the profile. Mounts follows them.
	Profiles []string  `json:"profiles,omitempty"`
	Since    time.Time `json:"since"`
	// Certificate names the certificate that was told to count, by program and date; "" none does.
	Certificate string `json:"certificate,omitempty"`
	Control     string `json:"control_plane,omitempty"` // strategy by which mcp_hub is reached: helper, env or bridge; "" not installed
}

// FileRecord is the last observation of one file. It replaces the one before whole. Facts of entries are not kept.
type FileRecord struct {
	File    File      `json:"file"`
	Entries []Entry   `json:"entries"`
	Seen    time.Time `json:"seen_at"`
	// Gone are entries that the file had once, the last ones first. They count for nothing.
	Gone []Tombstone `json:"gone,omitempty"`
	// Troubles are what Drift told about the file and since when, so that a time survives the next observation.
	Troubles []TroubleSince `json:"troubles,omitempty"`
}

// Tombstone is an entry that is no longer in its file.
type Tombstone struct {
	Name     string    `json:"name"`
	At       []string  `json:"at"`
	LastSeen time.Time `json:"last_seen"`
}

// Reader reads plans, receipts, agents and observations. It is part of the transaction port that package store joins.
type Reader interface {
	// Plans is one page, the newest first. A page that is shorter than the limit is the last one.
	Plans(ctx context.Context, p ListPlans) ([]Plan, error)
	// PlanByID finds one. NotFound plan-unknown, Conflict plan-ambiguous.
	PlanByID(ctx context.Context, p PlanByID) (Plan, error)
	// Receipts is one page, the newest first.
	Receipts(ctx context.Context, p ListReceipts) ([]Receipt, error)
	// ReceiptByID finds one. NotFound receipt-unknown, Conflict receipt-ambiguous.
	ReceiptByID(ctx context.Context, p ReceiptByID) (Receipt, error)
	// AgentRecords are all agents that something is decided about, by name.
	AgentRecords(ctx context.Context) ([]AgentRecord, error)
	// FileRecords are the observations of one agent, or of all, by agent and path.
	FileRecords(ctx context.Context, p ListFileRecords) ([]FileRecord, error)
}

// Store reads and changes them.
type Store interface {
	Reader
	// PutPlan writes a plan whole. The content that its id binds never changes.
	PutPlan(ctx context.Context, p PutPlan) error
	// PutReceipt writes a receipt whole.
	PutReceipt(ctx context.Context, p PutReceipt) error
	// PutAgentRecord writes what is decided about an agent.
	PutAgentRecord(ctx context.Context, p PutAgentRecord) error
	// PutFileRecord writes the observation of a file.
	PutFileRecord(ctx context.Context, p PutFileRecord) error
	// DeleteFileRecord forgets a file that no agent looks at any more.
	DeleteFileRecord(ctx context.Context, p DeleteFileRecord) error
}

// MaxPlanPage bounds one page of Plans and of Receipts: a plan holds a diff of some KiB.
const MaxPlanPage = 200

// ListPlans asks for the plans before Before (in order of their making) that fit every condition that is set.
type ListPlans struct {
	Before string // id of the last plan of the page before
	State  PlanState
	Agent  string
	Limit  int // 0 and everything above MaxPlanPage is MaxPlanPage
}

// PageLimit is the number of plans that the page may hold.
func (p ListPlans) PageLimit() int { return pageLimit(p.Limit) }

// PlanByID names one plan. A beginning of the id that only one plan has is enough.
type PlanByID struct{ ID string }

// PutPlan carries the plan to write.
type PutPlan struct{ Plan Plan }

// ListReceipts asks for the receipts before Before that fit every condition that is set.
type ListReceipts struct {
	Before string
	State  ReceiptState
	Plan   string
	Path   string // real path of a file that it wrote
	Limit  int
}

// PageLimit is the number of receipts that the page may hold.
func (p ListReceipts) PageLimit() int { return pageLimit(p.Limit) }

func pageLimit(n int) int {
	if n < 1 || n > MaxPlanPage {
		return MaxPlanPage
	}
	return n
}

// ReceiptByID names one receipt. A beginning of the id that only one receipt has is enough.
type ReceiptByID struct{ ID string }

// PutReceipt carries the receipt to write.
type PutReceipt struct{ Receipt Receipt }

// PutAgentRecord carries the record to write.
type PutAgentRecord struct{ Record AgentRecord }

// ListFileRecords asks for the observations of an agent, "" all.
type ListFileRecords struct{ Agent string }

// PutFileRecord carries the observation to write.
type PutFileRecord struct{ Record FileRecord }

// DeleteFileRecord names the file to forget.
type DeleteFileRecord struct{ Agent, Path string }

// EachPlan reads the plans that fit, the newest first, page by page.
func EachPlan(ctx context.Context, r Reader, p ListPlans) iter.Seq2[Plan, error] {
	return page.Each(p.PageLimit(), func(last *Plan) ([]Plan, error) {
		list := p
		if last != nil {
			list.Before = last.ID
		}
		return r.Plans(ctx, list)
	})
}

// AllPlans is EachPlan at once.
func AllPlans(ctx context.Context, r Reader, p ListPlans) ([]Plan, error) {
	return page.Gather(EachPlan(ctx, r, p))
}

// EachReceipt reads the receipts that fit, the newest first, page by page.
func EachReceipt(ctx context.Context, r Reader, p ListReceipts) iter.Seq2[Receipt, error] {
	return page.Each(p.PageLimit(), func(last *Receipt) ([]Receipt, error) {
		list := p
		if last != nil {
			list.Before = last.ID
		}
		return r.Receipts(ctx, list)
	})
}

// PlanUnknown is the error for an id that no plan has.
func PlanUnknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "plan-unknown").
		Saying("there is no plan %s", id).Hinting("`mcpx plan list` shows the plans")
}

// PlanAmbiguous is the error for a beginning of an id that several plans have.
func PlanAmbiguous(id string) *fault.Error {
	return fault.New(fault.Conflict, "plan-ambiguous").
		Saying("several plans begin with %s", id).Hinting("give more of the id; `mcpx plan list` shows the plans")
}

// ReceiptUnknown is the error for an id that no receipt has.
func ReceiptUnknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "receipt-unknown").
		Saying("there is no receipt %s", id).Hinting("`mcpx audit list --kind apply` shows what was applied, with the receipts")
}

// ReceiptAmbiguous is the error for a beginning of an id that several receipts have.
func ReceiptAmbiguous(id string) *fault.Error {
	return fault.New(fault.Conflict, "receipt-ambiguous").
		Saying("several receipts begin with %s", id).Hinting("give more of the id")
}
