package work

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"mcpx/internal/lazyregexp"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// alias is a name that earlier systems had for some of our tools. A call of it is a call of ours, under our name and in our
// ledger.
type alias struct {
	by    string            // argument that chooses the tool; "" there is one
	tools map[string]string // by what that says; "" without it
	sets  map[string]string // arguments that its calls always have
}

// The arguments of earlier systems that aliases take beside ours. Nothing that a caller says confirms anything.
var (
	olderID   = "idempotency_key"
	confirmed = []string{"user_confirmed", "confirmation_uuid", "confirmation_token"}
)

// translate makes the call of an alias one of ours.
func (s *Service) translate(t *turn) (warnings []string, err error) {
	t.via = t.tool
	if err := olderSpelling(t.args); err != nil {
		return nil, err
	}
	for _, name := range confirmed {
		if t.args[name] != nil {
			delete(t.args, name)
			warnings = append(warnings, name+" is ignored: only a person confirms, at a channel of mcpx")
		}
	}
	if t.Tool == "progress" {
		asActivity(t.args)
	}
	a := t.via.alias
	if a == nil { // no tool of ours is like it
		return warnings, t.rewritten()
	}
	chosen := t.text(a.by)
	target, ok := a.tools[chosen]
	if !ok {
		return warnings, operation.Refuse(operation.ArgumentInvalid, "%.32q is no %s of %s; %s are", chosen, a.by, t.Tool, strings.Join(slices.Sorted(maps.Keys(a.tools)), ", "))
	}
	delete(t.args, a.by)
	for name, value := range a.sets {
		t.args[name], _ = json.Marshal(value) // a text
	}
	t.Tool, t.tool = target, s.tools[target]
	return warnings, t.rewritten()
}

// rewritten makes the arguments of the call those that were read and changed.
func (t *turn) rewritten() (err error) {
	t.Args, err = json.Marshal(t.args)
	return err
}

// olderSpelling takes idempotency_key as operation_id.
func olderSpelling(args map[string]json.RawMessage) error {
	older, ours := args[olderID], args[operation.IDField]
	if older == nil {
		return nil
	}
	if ours != nil && string(ours) != string(older) {
		return operation.Refuse(operation.ArgumentInvalid, "%s and %s say different things; they are one id", olderID, operation.IDField)
	}
	args[operation.IDField] = older
	delete(args, olderID)
	return nil
}

// aliases list the names of earlier systems. What they take is what our tools take.
func aliases() []tool {
	open := map[string]any{}
	named := func(name, description string, a alias) tool {
		return tool{Tool: Tool{Name: name, Set: SetCompat, Args: open, Description: description}, alias: &a}
	}
	one := func(target string) map[string]string { return map[string]string{"": target} }
	execute := named("execute", "Earlier name: action run (execute_command), attach (command_status), stop (stop_command) or stdin (write_command_input).", alias{
		by: "action", tools: map[string]string{"": "execute_command", "run": "execute_command", "attach": "command_status", "stop": "stop_command", "stdin": "write_command_input"},
	})
	call := named("mcp_call", "Earlier name of call_tool.", alias{tools: one("call_tool")})
	execute.Destructive, execute.OpenWorld, call.Destructive, call.OpenWorld = true, true, true, true
	move := named("move_out", "Earlier name of remove_files. No confirmation that it is given counts.", alias{tools: one("remove_files")})
	move.Destructive = true
	list := []tool{
		named("workspace", "Earlier name of session with action list: its projects.", alias{tools: one("session"), sets: map[string]string{"action": "list"}}),
		named("read", "Earlier name: view file (read_file), list (list_files) or search (search_files).", alias{
			by: "view", tools: map[string]string{"": "read_file", "file": "read_file", "list": "list_files", "search": "search_files"},
		}),
		named("discover", "Earlier name of find_tools.", alias{tools: one("find_tools")}),
	}
	for i := range list {
		list[i].ReadOnly = true
	}
	return append(
		list,
		named("edit", "Earlier name of edit_files.", alias{tools: one("edit_files")}), move, execute, call,
		named("operation_manage", "Earlier name: action status (operation_status), resolve (resolve_operation) or read (read_result).", alias{
			by: "action", tools: map[string]string{"": "operation_status", "status": "operation_status", "resolve": "resolve_operation", "read": "read_result"},
		}),
		tool{Tool: Tool{
			Name: "progress", Set: SetCompat, Args: open,
			Description: "Earlier name of the argument activity: stores status and next for the person.",
		}, read: progress},
		tool{Tool: Tool{
			Name: "operation_batch", Set: SetCompat, Args: open, Destructive: true, OpenWorld: true,
			Description: "Several calls: operation_id, steps [{id, tool, args, depends_on}]. A step has the id <operation_id>.<id>; one that waits holds those that depend on it, one that failed skips them. Repeat the identical call to go on.",
		}, read: runBatch},
	)
}

// progress has stored what it was told when it comes here: as activity of its session.
func progress(_ context.Context, _ *Service, t *turn) (any, error) {
	if t.text("remote_session_id") == "" {
		return nil, operation.Refuse(operation.ArgumentInvalid, "progress needs remote_session_id, and says status or next")
	}
	return struct{}{}, nil
}

// asActivity makes of what progress is told the activity of its call.
func asActivity(args map[string]json.RawMessage) {
	said := map[string]json.RawMessage{}
	for _, name := range []string{"status", "next"} {
		if args[name] != nil {
			said[name] = args[name]
		}
	}
	args["activity"], _ = json.Marshal(said) // it was read from JSON
}

// Bounds of a batch of calls.
const (
	maxSteps = 50
	// batchTime is how long its steps may take together; what is left of the deadline is for its answer.
	batchTime = answerWithin - 5*time.Second
)

// batchStep is one call of a batch.
type batchStep struct {
	ID        string                     `json:"id"`
	Tool      string                     `json:"tool"`
	Args      map[string]json.RawMessage `json:"args"`
	DependsOn []string                   `json:"depends_on"`
}

// stepShown is what became of a step.
type stepShown struct {
	ID        string            `json:"id"`
	Tool      string            `json:"tool"`
	Operation string            `json:"operation_id,omitempty"`
	Status    operation.Outcome `json:"status"`
	Answer    *operation.Answer `json:"answer,omitempty"` // nil: it was not called, or a warning says that there is no room
	secret    bool              // the data are for the caller alone: nothing keeps them
}

// What becomes of a step that is not called.
const (
	stepHeld    operation.Outcome = "held"    // a step that it depends on has not ended
	stepSkipped operation.Outcome = "skipped" // a step that it depends on has not succeeded
)

var stepID = lazyregexp.New(`^[A-Za-z0-9_-]{1,32}$`)

// runBatch calls the steps of a batch, each after those that it depends on. The batch itself is no operation: its steps are,
// so the identical call goes on where the last one ended.
func runBatch(ctx context.Context, s *Service, t *turn) (any, error) {
	var in struct {
		Steps []batchStep `json:"steps"`
	}
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	id := t.text(operation.IDField)
	if id == "" {
		return nil, operation.Refuse(operation.OperationIDRequired, "%s needs operation_id: its steps have ids made from it", t.Tool)
	}
	order, err := s.orderSteps(in.Steps)
	if err != nil {
		return nil, err
	}
	within, stop := context.WithTimeout(ctx, batchTime)
	defer stop()
	shown := make([]stepShown, len(in.Steps))
	ended := map[string]*stepShown{}
	for _, i := range order {
		one := in.Steps[i]
		shown[i] = stepShown{ID: one.ID, Tool: one.Tool, Status: standsBy(one, ended)}
		ended[one.ID] = &shown[i]
		if shown[i].Status != "" {
			continue
		}
		if within.Err() != nil {
			shown[i].Status = stepHeld
			continue
		}
		if err := s.callStep(within, t, id+"."+one.ID, one, &shown[i]); err != nil {
			return nil, err
		}
	}
	for i, one := range in.Steps {
		if a := shown[i].Answer; a != nil {
			revealed := s.reveal(ctx, &turn{Call: Call{Tool: one.Tool}, args: one.Args}, *a)
			shown[i].secret = !bytes.Equal(revealed.Data, a.Data)
			*a = revealed
		}
	}
	out := batchOutcome(t, shown)
	short, err := s.fitSteps(ctx, t, shown)
	if err != nil {
		return nil, err
	}
	out.warnings = append(out.warnings, short...)
	return out, nil
}

// leastApart is the size from which data of a step is worth a reference: what takes its place is not much shorter below it.
const leastApart = 512

// fitSteps makes room in an answer that would be too large. As a whole it is never kept apart: what steps propose, and what
// is revealed in them, must be in no record. Data of steps are, the largest first. When that is not enough, the answers are
// shortened, and the largest are left out.
func (s *Service) fitSteps(ctx context.Context, t *turn, shown []stepShown) (warnings []string, err error) {
	if stepsOver(shown) <= 0 {
		return nil, nil
	}
	for _, one := range shown {
		if a := one.Answer; a != nil {
			a.Next = nil
			if a.Spilled != nil {
				a.Spilled.Head, a.Spilled.Tail = "", ""
			}
		}
	}
	if err := s.stepsApart(ctx, t, shown); err != nil {
		return nil, err
	}
	if stepsOver(shown) <= 0 {
		return nil, nil
	}
	for _, one := range shown {
		if one.Answer != nil {
			shorten(one.Answer)
		}
	}
	bySize := make([]*stepShown, len(shown))
	for i := range shown {
		bySize[i] = &shown[i]
	}
	slices.SortStableFunc(bySize, func(a, b *stepShown) int { return sizeOf(b.Answer) - sizeOf(a.Answer) })
	for over := stepsOver(shown); over > 0 && len(bySize) > 0; bySize = bySize[1:] {
		over -= sizeOf(bySize[0].Answer)
		bySize[0].Answer = nil
	}
	return []string{"there is no room for all that the steps say: repeat the call of one alone, under its operation_id if it has one, to see the whole of it"}, nil
}

// stepsOver is by how much steps take more room than an answer has for them.
func stepsOver(shown []stepShown) int { return sizeOf(shown) - (inlineLimit - envelope) }

func sizeOf(part any) int {
	raw, _ := json.Marshal(part) // texts, and what was read as JSON
	return len(raw)
}

// stepsApart keeps data of steps apart until there is room for the rest.
func (s *Service) stepsApart(ctx context.Context, t *turn, shown []stepShown) error {
	var answers []*operation.Answer
	for _, one := range shown {
		if one.Answer != nil && !one.secret {
			answers = append(answers, one.Answer)
		}
	}
	payload := func(a *operation.Answer) []byte { return append(slices.Clip(a.Data), a.Upstream...) } // it has one of them
	slices.SortStableFunc(answers, func(a, b *operation.Answer) int { return len(payload(b)) - len(payload(a)) })
	over := stepsOver(shown)
	for _, a := range answers {
		data := payload(a)
		if over <= 0 || len(data) < leastApart {
			break
		}
		var kept operation.Kept
		if err := s.cfg.DB.Change(ctx, func(tx store.Tx) (err error) {
			kept, err = s.keep(ctx, tx, t, "application/json", data)
			return err
		}); err != nil {
			return err
		}
		a.Data, a.Upstream, a.Parts = nil, nil, nil // what is kept refers to its parts
		a.Spilled = &operation.Spilled{Ref: kept.Ref, Bytes: len(data), SHA256: kept.SHA256, Media: kept.Media}
		over -= len(data) - leastApart/2
	}
	return nil
}

// shortMessage is how much is left of why a step was refused when answers are shortened.
const shortMessage = 120

// shorten leaves out of the answer of a step what the batch says, too, or whoever repeats the call is told.
func shorten(a *operation.Answer) {
	a.Operation, a.Warnings = nil, nil
	if a.Waiting != nil {
		short := *a.Waiting
		short.Channels = []string{}
		a.Waiting = &short
	}
	if a.Refusal != nil {
		short := *a.Refusal
		short.Message, short.Details = head([]byte(short.Message), shortMessage), nil
		a.Refusal = &short
	}
}

// standsBy is what becomes of a step because of those that it depends on; "" it is called.
func standsBy(one batchStep, ended map[string]*stepShown) operation.Outcome {
	out := operation.Outcome("")
	for _, name := range one.DependsOn {
		switch before := ended[name]; {
		case before.failed():
			return stepSkipped
		case before.unfinished():
			out = stepHeld
		}
	}
	return out
}

func (s *stepShown) unfinished() bool {
	return slices.Contains([]operation.Outcome{operation.OutcomeWaiting, operation.OutcomeInProgress, stepHeld}, s.Status)
}

// failed says whether a step has ended, and not as it should: a command that exits with 1 has failed, too.
func (s *stepShown) failed() bool { return !s.unfinished() && (s.Answer == nil || !s.Answer.OK) }

func (s *Service) callStep(ctx context.Context, t *turn, id string, one batchStep, out *stepShown) error {
	args := maps.Clone(one.Args)
	if args == nil {
		args = map[string]json.RawMessage{}
	}
	if s.changing(one) {
		out.Operation = id
		args[operation.IDField], _ = json.Marshal(id) // a text
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return err
	}
	call := t.Call
	call.Tool, call.Args, call.Forms, call.Said = one.Tool, raw, false, nil // the batch asks, for the step that it waits for
	call.step = true
	a := s.Do(ctx, call)
	out.Answer, out.Status = &a, a.Status
	return nil
}

// changing says whether a step calls a tool whose calls may be operations. What stands behind an alias is said by the step.
func (s *Service) changing(one batchStep) bool {
	called := s.tools[one.Tool]
	if a := called.alias; a != nil {
		called = s.tools[a.tools[(&turn{args: one.Args}).text(a.by)]]
	}
	return called != nil && called.mutates
}

// orderSteps gives the places of the steps in an order in which each comes after those that it depends on.
func (s *Service) orderSteps(steps []batchStep) ([]int, error) {
	if len(steps) == 0 || len(steps) > maxSteps {
		return nil, operation.Refuse(operation.LimitExceeded, "a batch has 1 to %d steps", maxSteps).With("limit", maxSteps).With("value", len(steps))
	}
	at := map[string]int{}
	for i, one := range steps {
		_, twice := at[one.ID]
		known := s.tools[one.Tool]
		switch {
		case !stepID().MatchString(one.ID) || twice:
			return nil, invalidStep(i, "%.40q is no id of a step: 1 to 32 of A-Z a-z 0-9 _ -, and each once", one.ID)
		case known == nil || known.Name == "operation_batch":
			return nil, invalidStep(i, "%.64q is no tool for a step", one.Tool)
		}
		at[one.ID] = i
	}
	var order []int
	placed := make([]bool, len(steps))
	for len(order) < len(steps) {
		before := len(order)
		for i, one := range steps {
			ready := !placed[i]
			for _, name := range one.DependsOn {
				j, known := at[name]
				if !known {
					return nil, invalidStep(i, "it depends on %.40q, and there is no such step", name)
				}
				ready = ready && placed[j]
			}
			if ready {
				placed[i] = true
				order = append(order, i)
			}
		}
		if len(order) == before {
			return nil, invalidStep(slices.Index(placed, false), "it depends on itself")
		}
	}
	return order, nil
}

func invalidStep(i int, format string, args ...any) *operation.Refusal {
	return operation.Refuse(operation.ArgumentInvalid, "step %d: %s", i, fmt.Sprintf(format, args...)).With("step", i)
}

// batchOutcome says how a batch stands: as the step stands that keeps it from its end. What nobody knows comes first: nothing
// goes on before somebody has looked.
func batchOutcome(t *turn, shown []stepShown) outcome {
	out := outcome{data: map[string]any{"steps": shown}, status: operation.OutcomeSucceeded, fits: true}
	for _, one := range shown {
		switch {
		case out.status == operation.OutcomeUnclear:
		case one.Status == operation.OutcomeUnclear:
			out.status, out.waiting, out.next = one.Status, nil, one.Answer.Next
			out.warnings = []string{"nobody knows whether step " + one.ID + " was carried out: do not repeat it under another id; look at what is there, then say so"}
		case one.Status == operation.OutcomeWaiting && out.waiting == nil:
			out.status, out.waiting, out.next = one.Status, one.Answer.Waiting, one.Answer.Next[:1]
		}
	}
	for _, one := range shown {
		switch {
		case out.waiting != nil || out.status == operation.OutcomeUnclear:
		case one.unfinished():
			out.status = operation.OutcomeInProgress
		case one.failed() && out.status == operation.OutcomeSucceeded:
			out.status = operation.OutcomeFailed
		}
	}
	out.bad = out.status != operation.OutcomeSucceeded
	out.passImages(shown)
	if out.status == operation.OutcomeUnclear {
		return out
	}
	var again map[string]any
	if unfinished := slices.ContainsFunc(shown, func(s stepShown) bool { return s.unfinished() }); unfinished && len(t.Args) <= edge && json.Unmarshal(t.Args, &again) == nil {
		out.next = append(slices.Clip(out.next), operation.Next{Tool: t.Tool, Args: again, Why: "the identical call goes on with the steps that are left"})
	}
	return out
}

// passImages takes over the images of the steps, as many as one call that reads them may have.
func (o *outcome) passImages(shown []stepShown) {
	var without []string
	for _, one := range shown {
		switch {
		case one.Answer == nil:
		case len(o.images)+len(one.Answer.Images) > maxItems:
			without = append(without, one.ID)
		default:
			o.images = append(o.images, one.Answer.Images...)
		}
	}
	if len(without) > 0 {
		o.warnings = append(o.warnings, fmt.Sprintf("the images of %d steps, the first is %s, are not shown: read them in calls of their own", len(without), without[0]))
	}
}
