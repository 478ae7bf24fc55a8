package session

import "time"

// PlanState of a work plan.
type PlanState string

// The states. All but open are final.
const (
	PlanOpen      PlanState = "open"
	PlanDelivered PlanState = "delivered"
	PlanCancelled PlanState = "cancelled"
)

// TaskState of a task.
type TaskState string

// The states: todo -> in_progress -> completed | blocked | skipped, and blocked -> in_progress.
const (
	TaskTodo       TaskState = "todo"
	TaskInProgress TaskState = "in_progress"
	TaskCompleted  TaskState = "completed"
	TaskBlocked    TaskState = "blocked"
	TaskSkipped    TaskState = "skipped"
)

// EvidenceKind says what a piece of evidence refers to.
type EvidenceKind string

// The kinds of evidence.
const (
	EvidenceRead     EvidenceKind = "read"     // path@sha256 that was read in this session
	EvidenceSource   EvidenceKind = "source"   // path@sha256 as it is now in the target
	EvidenceEdit     EvidenceKind = "edit"     // an operation that succeeded
	EvidenceJob      EvidenceKind = "job"      // a job that exited with 0
	EvidenceBuild    EvidenceKind = "build"    // a build with a passing audit
	EvidenceArtifact EvidenceKind = "artifact" // a registered id
)

// Evidence is one reference to the record.
type Evidence struct {
	Kind EvidenceKind `json:"kind"`
	Ref  string       `json:"ref"`
}

// Task is one step of a plan.
type Task struct {
	Key         string     `json:"key"`
	Title       string     `json:"title"`
	Description string     `json:"description,omitempty"`
	DependsOn   []string   `json:"depends_on"`
	State       TaskState  `json:"state"`
	Reason      string     `json:"reason,omitempty"` // of a blocked or skipped one
	Evidence    []Evidence `json:"evidence"`
}

// WorkPlan is what a session means to do, and what is done of it.
type WorkPlan struct {
	ID      string    `json:"plan_id"` // wp_
	Session string    `json:"remote_session_id"`
	Version int       `json:"version"` // 1, and one more with every change
	State   PlanState `json:"state"`
	Summary string    `json:"summary"`
	Tasks   []Task    `json:"tasks"`
	Gone    []string  `json:"gone_keys,omitempty"` // keys of tasks that were removed: they are never used again
	Created time.Time `json:"created_at"`
	Changed time.Time `json:"changed_at"`
}
