package session

import (
	"cmp"
	"slices"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/operation"
)

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

// Done says whether what depends on the task may begin. Such a task never changes again, but for more evidence.
func (s TaskState) Done() bool { return s == TaskCompleted || s == TaskSkipped }

// Bounds of a work plan (runtime.md sections 4.1 and 11), in bytes where they are no counts.
const (
	MaxTasks    = 100
	MaxEvidence = 20 // of a task
	MaxSummary  = 2 << 10
	MaxTitle    = 200
	MaxDetail   = 2 << 10 // a description or a reason
	maxRef      = 4<<10 + 65

	// maxPlan bounds all texts of a plan together: a page of them is in memory at once.
	maxPlan = 256 << 10
)

var keyForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

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
	Gone    []string  `json:"gone_keys,omitempty"` // of tasks that were removed: they are never used again
	Created time.Time `json:"created_at"`
	Changed time.Time `json:"changed_at"`
}

// Progress counts the tasks that are done, and names the first that is being worked on, "" for none.
func (p WorkPlan) Progress() (done, total int, current string) {
	for _, t := range p.Tasks {
		if t.State.Done() {
			done++
		}
		if t.State == TaskInProgress {
			current = cmp.Or(current, t.Key)
		}
	}
	return done, len(p.Tasks), current
}

// clone shares nothing that a change of tasks could write to.
func (p WorkPlan) clone() WorkPlan {
	p.Tasks, p.Gone = slices.Clone(p.Tasks), slices.Clone(p.Gone)
	for i := range p.Tasks {
		p.Tasks[i].DependsOn, p.Tasks[i].Evidence = slices.Clone(p.Tasks[i].DependsOn), slices.Clone(p.Tasks[i].Evidence)
	}
	return p
}

// task finds a task by its key, -1 for none.
func (p WorkPlan) task(key string) int {
	return slices.IndexFunc(p.Tasks, func(t Task) bool { return t.Key == key })
}

// NewTask is a task before it is part of a plan.
type NewTask struct {
	Key         string   `json:"key"`
	Title       string   `json:"title"`
	Description string   `json:"description,omitempty"`
	DependsOn   []string `json:"depends_on,omitempty"` // keys of tasks of the same plan
}

// CreateRequest asks for a plan.
type CreateRequest struct {
	ID      string
	Session string
	Summary string
	Tasks   []NewTask
	Now     time.Time
}

// CreatePlan makes a plan of version 1 in which nothing is begun. PLAN_INVALID, PLAN_CYCLE, LIMIT_EXCEEDED.
func CreatePlan(in CreateRequest) (WorkPlan, error) {
	if err := within("summary", len(in.Summary), MaxSummary); err != nil {
		return WorkPlan{}, err
	}
	p := WorkPlan{ID: in.ID, Session: in.Session, Version: 1, State: PlanOpen, Summary: in.Summary, Created: in.Now, Changed: in.Now}
	for _, t := range in.Tasks {
		if err := p.add(t); err != nil {
			return WorkPlan{}, err
		}
	}
	if err := p.check(); err != nil {
		return WorkPlan{}, err
	}
	return p, nil
}

// add puts one more task at the end.
func (p *WorkPlan) add(t NewTask) error {
	switch {
	case !keyForm().MatchString(t.Key):
		return operation.Refuse(PlanInvalid, "%s is no key of a task: use up to 64 letters, digits, dots, dashes and underscores", quoted(t.Key)).With("task", cut(t.Key, maxShown))
	case p.task(t.Key) >= 0 || slices.Contains(p.Gone, t.Key):
		return invalidTask(t.Key, "the key was used before")
	}
	if err := checkTexts(t.Key, t.Title, t.Description); err != nil {
		return err
	}
	p.Tasks = append(p.Tasks, Task{
		Key: t.Key, Title: t.Title, Description: t.Description, DependsOn: append([]string{}, t.DependsOn...), State: TaskTodo, Evidence: []Evidence{},
	})
	return nil
}

func checkTexts(key, title, description string) error {
	if title == "" {
		return invalidTask(key, "it has no title")
	}
	if err := within("title", len(title), MaxTitle); err != nil {
		return err
	}
	return within("description", len(description), MaxDetail)
}

// check judges a plan as a whole: how much it is, and that its dependencies lead somewhere.
func (p WorkPlan) check() error {
	if len(p.Tasks) == 0 {
		return operation.Refuse(PlanInvalid, "a plan has at least one task")
	}
	if err := within("tasks", len(p.Tasks), MaxTasks); err != nil {
		return err
	}
	size := len(p.Summary)
	for _, t := range p.Tasks {
		size += t.size()
		for i, on := range t.DependsOn {
			if p.task(on) < 0 {
				return invalidTask(t.Key, "it depends on "+quoted(on)+", which the plan does not have").With("depends_on", cut(on, maxShown))
			}
			if slices.Contains(t.DependsOn[:i], on) {
				return invalidTask(t.Key, "it depends on "+quoted(on)+" twice").With("depends_on", on)
			}
		}
	}
	if cycle := p.cycle(); cycle != nil {
		return operation.Refuse(PlanCycle, "these tasks wait for each other").With("cycle", cycle)
	}
	return within("plan_bytes", size, maxPlan)
}

func (t Task) size() int {
	size := len(t.Key) + len(t.Title) + len(t.Description) + len(t.Reason)
	for _, on := range t.DependsOn {
		size += len(on)
	}
	for _, e := range t.Evidence {
		size += len(e.Ref)
	}
	return size
}

// cycle gives the keys of tasks that wait for each other, in order, nil for none. Every dependency is a task.
func (p WorkPlan) cycle() []string {
	const entered, left = 1, 2
	seen := map[string]int{}
	var path []string
	var enter func(key string) []string
	enter = func(key string) []string {
		switch seen[key] {
		case left:
			return nil
		case entered:
			return slices.Clone(path[slices.Index(path, key):])
		}
		seen[key] = entered
		path = append(path, key)
		for _, on := range p.Tasks[p.task(key)].DependsOn {
			if cycle := enter(on); cycle != nil {
				return cycle
			}
		}
		path = path[:len(path)-1]
		seen[key] = left
		return nil
	}
	for _, t := range p.Tasks {
		if cycle := enter(t.Key); cycle != nil {
			return cycle
		}
	}
	return nil
}

// UpdateRequest asks for the next state of one task.
type UpdateRequest struct {
	Plan          WorkPlan
	ExpectVersion int // 0: any
	Task          string
	To            TaskState // "" keeps it and adds evidence
	Reason        string    // of a blocked or skipped one
	Evidence      []Evidence
	Judge         Judge
	Now           time.Time
}

// UpdateTask moves a task on, whole or not at all. PLAN_FINAL, PLAN_CONFLICT, PLAN_INVALID, DEPENDENCY_OPEN,
// EVIDENCE_REQUIRED, EVIDENCE_INVALID, LIMIT_EXCEEDED; what Judge fails with is given back as it is.
func UpdateTask(in UpdateRequest) (WorkPlan, error) {
	p, err := in.Plan.next(in.ExpectVersion, in.Now)
	if err != nil {
		return WorkPlan{}, err
	}
	at := p.task(in.Task)
	if at < 0 {
		return WorkPlan{}, operation.Refuse(PlanInvalid, "the plan has no task %s", quoted(in.Task)).With("task", cut(in.Task, maxShown))
	}
	t := &p.Tasks[at]
	to := cmp.Or(in.To, t.State)
	if err := mayMove(*t, to, len(in.Evidence) > 0); err != nil {
		return WorkPlan{}, err
	}
	if to == TaskInProgress || to == TaskCompleted && t.State != TaskCompleted {
		if open := p.openDependencies(*t); len(open) > 0 {
			return WorkPlan{}, operation.Refuse(DependencyOpen, "the task %s depends on tasks that are not done", t.Key).With("task", t.Key).With("open", open)
		}
	}
	if err := t.explain(to, in.Reason); err != nil {
		return WorkPlan{}, err
	}
	if err := t.prove(in.Evidence, in.Judge); err != nil {
		return WorkPlan{}, err
	}
	if to == TaskCompleted && len(t.Evidence) == 0 {
		return WorkPlan{}, operation.Refuse(EvidenceRequired, "the task %s is completed by evidence: name what was read, edited, run or built", t.Key).With("task", t.Key)
	}
	t.State = to
	if err := p.check(); err != nil {
		return WorkPlan{}, err
	}
	return p, nil
}

// next is the plan as its next version, to be changed by the caller.
func (p WorkPlan) next(expect int, now time.Time) (WorkPlan, error) {
	switch {
	case p.State != PlanOpen:
		return WorkPlan{}, operation.Refuse(PlanFinal, "the plan is %s and stays so", p.State).Retrying(fault.Never).With("state", p.State)
	case expect != 0 && expect != p.Version:
		return WorkPlan{}, operation.Refuse(PlanConflict, "the plan has version %d, not %d: read it again", p.Version, expect).With("version", p.Version)
	}
	p = p.clone()
	p.Version++
	p.Changed = now
	return p, nil
}

// mayMove judges the step of one task alone.
func mayMove(t Task, to TaskState, evidence bool) error {
	refused := operation.Refuse(PlanInvalid, "the task %s is %s and cannot become %s", t.Key, t.State, quoted(string(to))).
		With("task", t.Key).With("from", t.State).With("to", to)
	if t.State == to && evidence && (to == TaskInProgress || to == TaskCompleted) {
		return nil // more evidence for it
	}
	switch to {
	case TaskInProgress:
		if t.State == TaskTodo || t.State == TaskBlocked {
			return nil
		}
	case TaskCompleted, TaskBlocked, TaskSkipped:
		if t.State == TaskInProgress {
			return nil
		}
	case TaskTodo:
	}
	return refused
}

// openDependencies are the keys of what has to be done first.
func (p WorkPlan) openDependencies(t Task) (open []string) {
	for _, on := range t.DependsOn {
		if !p.Tasks[p.task(on)].State.Done() {
			open = append(open, on)
		}
	}
	return open
}

// explain notes why a task is blocked or skipped; what goes on has no reason any more.
func (t *Task) explain(to TaskState, reason string) error {
	t.Reason = ""
	if to != TaskBlocked && to != TaskSkipped {
		return nil
	}
	if reason == "" {
		return invalidTask(t.Key, "say in reason why it is "+string(to)).With("argument", "reason")
	}
	t.Reason = reason
	return within("reason", len(reason), MaxDetail)
}

// Change is one change of a replan.
type Change struct {
	Do          Do        `json:"do"`
	Key         string    `json:"key"`
	Title       *string   `json:"title,omitempty"`       // nil keeps it
	Description *string   `json:"description,omitempty"` // nil keeps it
	DependsOn   *[]string `json:"depends_on,omitempty"`  // nil keeps it
}

// Do says what a change does.
type Do string

// The changes.
const (
	DoAdd    Do = "add"
	DoUpdate Do = "update"
	DoRemove Do = "remove"
)

// ReplanRequest asks for another shape of a plan.
type ReplanRequest struct {
	Plan          WorkPlan
	ExpectVersion int // 0: any
	Changes       []Change
	Reason        string // for the record
	Now           time.Time
}

// Replan makes all changes in their order, or none. What is completed or skipped stays as it is, and no key is used
// twice. PLAN_FINAL, PLAN_CONFLICT, PLAN_INVALID, PLAN_CYCLE, LIMIT_EXCEEDED.
func Replan(in ReplanRequest) (WorkPlan, error) {
	p, err := in.Plan.next(in.ExpectVersion, in.Now)
	if err != nil {
		return WorkPlan{}, err
	}
	switch {
	case len(in.Changes) == 0:
		return WorkPlan{}, operation.Refuse(PlanInvalid, "changes are missing").With("argument", "changes")
	case in.Reason == "":
		return WorkPlan{}, operation.Refuse(PlanInvalid, "say in reason why the plan changes").With("argument", "reason")
	}
	if err := cmp.Or(within("changes", len(in.Changes), MaxTasks), within("reason", len(in.Reason), MaxDetail)); err != nil {
		return WorkPlan{}, err
	}
	for _, c := range in.Changes {
		if err := p.change(c); err != nil {
			return WorkPlan{}, err
		}
	}
	if err := p.check(); err != nil {
		return WorkPlan{}, err
	}
	return p, nil
}

func (p *WorkPlan) change(c Change) error {
	if c.Do == DoAdd {
		t := NewTask{Key: c.Key}
		if c.Title != nil {
			t.Title = *c.Title
		}
		if c.Description != nil {
			t.Description = *c.Description
		}
		if c.DependsOn != nil {
			t.DependsOn = *c.DependsOn
		}
		return p.add(t)
	}
	at := p.task(c.Key)
	switch {
	case c.Do != DoUpdate && c.Do != DoRemove:
		return operation.Refuse(PlanInvalid, "do is %s, want add, update or remove", quoted(string(c.Do))).With("argument", "do")
	case at < 0:
		return operation.Refuse(PlanInvalid, "the plan has no task %s", quoted(c.Key)).With("task", cut(c.Key, maxShown))
	case p.Tasks[at].State.Done():
		return invalidTask(c.Key, "it is "+string(p.Tasks[at].State)+" and stays as it is")
	case c.Do == DoRemove:
		p.Gone = append(p.Gone, c.Key)
		p.Tasks = slices.Delete(p.Tasks, at, at+1)
		return nil // what depends on it is found by check
	case c.Title == nil && c.Description == nil && c.DependsOn == nil:
		return invalidTask(c.Key, "the update changes nothing")
	}
	t := &p.Tasks[at]
	if c.Title != nil {
		t.Title = *c.Title
	}
	if c.Description != nil {
		t.Description = *c.Description
	}
	if c.DependsOn != nil {
		t.DependsOn = append([]string{}, *c.DependsOn...)
	}
	return checkTexts(t.Key, t.Title, t.Description)
}

// CancelRequest asks for the end of a plan.
type CancelRequest struct {
	Plan          WorkPlan
	ExpectVersion int // 0: any
	Now           time.Time
}

// CancelPlan ends a plan without a delivery. PLAN_FINAL, PLAN_CONFLICT.
func CancelPlan(in CancelRequest) (WorkPlan, error) {
	p, err := in.Plan.next(in.ExpectVersion, in.Now)
	if err != nil {
		return WorkPlan{}, err
	}
	p.State = PlanCancelled
	return p, nil
}

// NoPlan is the refusal when no plan, or not exactly one, is meant; open are the ids of those that could be.
func NoPlan(plan string, open []string) *operation.Refusal {
	if plan != "" {
		return operation.Refuse(PlanNotFound, "this session has no plan %s", quoted(plan)).With("open", open)
	}
	return operation.Refuse(PlanNotFound, "%d plans of this session are open: name one in plan_id", len(open)).With("open", open)
}

func invalidTask(key, why string) *operation.Refusal {
	return operation.Refuse(PlanInvalid, "the task %s: %s", key, why).With("task", key)
}

// within refuses what is more than a documented limit.
func within(what string, n, most int) error {
	if n <= most {
		return nil
	}
	return operation.Refuse(operation.LimitExceeded, "%s is %d, at most %d are allowed", what, n, most).With("limit", what).With("value", most)
}
