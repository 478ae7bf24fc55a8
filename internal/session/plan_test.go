package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpx/internal/operation"
)

func mustPlan(t interface {
	Helper()
	Fatal(...any)
}, tasks ...NewTask,
) WorkPlan {
	t.Helper()
	p, err := CreatePlan(CreateRequest{ID: "wp_1", Session: "rs_1", Summary: "s", Tasks: tasks, Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func task(key string, on ...string) NewTask { return NewTask{Key: key, Title: key, DependsOn: on} }

// record is a judge that knows what holds.
type record map[string]bool

func (r record) judge(e Evidence) (string, error) {
	if r[e.Ref] {
		return "", nil
	}
	return "the record says otherwise", nil
}

func job(id string) Evidence { return Evidence{Kind: EvidenceJob, Ref: id} }

// steps takes a plan through moves like "a in_progress" or "a completed job_1"; each must succeed.
func steps(t *testing.T, p WorkPlan, all ...string) WorkPlan {
	t.Helper()
	for _, one := range all {
		words := strings.Fields(one)
		in := UpdateRequest{Plan: p, Task: words[0], To: TaskState(words[1]), Judge: record{"job_1": true, "job_2": true, "op-12345678": true}.judge, Now: noon}
		for _, w := range words[2:] {
			switch {
			case in.To == TaskCompleted && strings.HasPrefix(w, "job_"):
				in.Evidence = append(in.Evidence, job(w))
			case in.To == TaskCompleted:
				in.Evidence = append(in.Evidence, Evidence{Kind: EvidenceEdit, Ref: w})
			default:
				in.Reason = w
			}
		}
		var err error
		if p, err = UpdateTask(in); err != nil {
			t.Fatalf("%s: %v", one, err)
		}
	}
	return p
}

func TestCreatePlan(t *testing.T) {
	p := mustPlan(t, task("b", "a"), task("a"))
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"plan_id":"wp_1","remote_session_id":"rs_1","version":1,"state":"open","summary":"s","tasks":[` +
		`{"key":"b","title":"b","depends_on":["a"],"state":"todo","evidence":[]},{"key":"a","title":"a","depends_on":[],"state":"todo","evidence":[]}],` +
		`"created_at":"2026-11-29T12:00:00Z","changed_at":"2026-11-29T12:00:00Z"}`; string(raw) != want {
		t.Errorf("got %s", raw)
	}
	many := make([]NewTask, MaxTasks+1)
	for i := range many {
		many[i] = task(fmt.Sprint("k", i))
	}
	fat := slices.Clone(many[:MaxTasks])
	for i := range fat {
		fat[i].Description = strings.Repeat("x", MaxDetail)
		fat[i].Title = strings.Repeat("x", MaxTitle)
		fat[i].DependsOn = nil
	}
	for i := range fat[1:] { // long keys that everything depends on
		for k := range i {
			fat[i].DependsOn = append(fat[i].DependsOn, fat[k].Key)
		}
	}
	_, err = CreatePlan(CreateRequest{Summary: strings.Repeat("s", MaxSummary), Tasks: fat})
	wantCode(t, "all limits used", err, "")
	for what, c := range map[string]struct {
		summary string
		tasks   []NewTask
		want    operation.Code
	}{
		"no task":                 {"", nil, PlanInvalid},
		"too many":                {"", many, operation.LimitExceeded},
		"no key":                  {"", []NewTask{{Title: "t"}}, PlanInvalid},
		"an odd key":              {"", []NewTask{{Key: "a b", Title: "t"}}, PlanInvalid},
		"no title":                {"", []NewTask{{Key: "a"}}, PlanInvalid},
		"a key twice":             {"", []NewTask{task("a"), task("a")}, PlanInvalid},
		"an unknown dependency":   {"", []NewTask{task("a", "b")}, PlanInvalid},
		"a dependency twice":      {"", []NewTask{task("b"), task("a", "b", "b")}, PlanInvalid},
		"RT-99 itself":            {"", []NewTask{task("a", "a")}, PlanCycle},
		"RT-99 each other":        {"", []NewTask{task("a", "b"), task("b", "c"), task("c", "b")}, PlanCycle},
		"a long summary":          {strings.Repeat("s", MaxSummary+1), []NewTask{task("a")}, operation.LimitExceeded},
		"a long title":            {"", []NewTask{{Key: "a", Title: strings.Repeat("t", MaxTitle+1)}}, operation.LimitExceeded},
		"a long description":      {"", []NewTask{{Key: "a", Title: "t", Description: strings.Repeat("t", MaxDetail+1)}}, operation.LimitExceeded},
		"a cycle of two names it": {"", []NewTask{task("x"), task("a", "b"), task("b", "a")}, PlanCycle},
	} {
		_, err := CreatePlan(CreateRequest{Summary: c.summary, Tasks: c.tasks})
		wantCode(t, what, err, c.want)
	}
	_, err = CreatePlan(CreateRequest{Tasks: []NewTask{task("x", "a"), task("a", "b"), task("b", "c"), task("c", "b")}})
	if r, ok := errors.AsType[*operation.Refusal](err); !ok || cmp.Diff([]string{"b", "c"}, r.Details["cycle"]) != "" {
		t.Errorf("the cycle is told as %+v", err)
	}
}

// TestRT99Dependencies: a task begins when what it depends on is completed or skipped, and not before.
func TestRT99Dependencies(t *testing.T) {
	p := mustPlan(t, task("a"), task("b"), task("c", "a", "b"))
	start := func(p WorkPlan) error {
		_, err := UpdateTask(UpdateRequest{Plan: p, Task: "c", To: TaskInProgress, Now: noon})
		return err
	}
	err := start(p)
	wantCode(t, "nothing is done", err, DependencyOpen)
	if r, _ := errors.AsType[*operation.Refusal](err); cmp.Diff([]string{"a", "b"}, r.Details["open"]) != "" {
		t.Errorf("open are %v", r.Details["open"])
	}
	p = steps(t, p, "a in_progress", "a completed job_1", "b in_progress")
	wantCode(t, "one is", start(p), DependencyOpen)
	wantCode(t, "one is blocked", start(steps(t, p, "b blocked why")), DependencyOpen)
	wantCode(t, "one is skipped", start(steps(t, p, "b skipped why")), "")

	// What a replan adds counts at the end, too.
	late := steps(t, mustPlan(t, task("a"), task("b")), "a in_progress")
	late, err = Replan(ReplanRequest{Plan: late, Changes: []Change{{Do: DoUpdate, Key: "a", DependsOn: new([]string{"b"})}}, Reason: "why"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = UpdateTask(UpdateRequest{Plan: late, Task: "a", To: TaskCompleted, Evidence: []Evidence{job("job_1")}, Judge: record{"job_1": true}.judge})
	wantCode(t, "completed before a late dependency", err, DependencyOpen)
}

// TestTransitions walks the whole table of states.
func TestTransitions(t *testing.T) {
	all := []TaskState{TaskTodo, TaskInProgress, TaskCompleted, TaskBlocked, TaskSkipped}
	reach := map[TaskState][]string{
		TaskTodo: nil, TaskInProgress: {"a in_progress"}, TaskCompleted: {"a in_progress", "a completed job_1"},
		TaskBlocked: {"a in_progress", "a blocked why"}, TaskSkipped: {"a in_progress", "a skipped why"},
	}
	allowed := map[TaskState][]TaskState{
		TaskTodo: {TaskInProgress}, TaskInProgress: {TaskCompleted, TaskBlocked, TaskSkipped}, TaskBlocked: {TaskInProgress},
	}
	for _, from := range all {
		p := steps(t, mustPlan(t, task("a")), reach[from]...)
		for _, to := range append(all, "", "finished") {
			in := UpdateRequest{Plan: p, Task: "a", To: to, Reason: "why", Judge: record{"job_2": true}.judge, Now: noon}
			if to == TaskCompleted && from == TaskInProgress {
				in.Evidence = []Evidence{job("job_2")}
			}
			want := PlanInvalid
			if slices.Contains(allowed[from], to) {
				want = ""
			}
			got, err := UpdateTask(in)
			wantCode(t, fmt.Sprintf("%s to %q", from, to), err, want)
			if err == nil && (got.Tasks[0].State != to || (got.Tasks[0].Reason != "") != (to == TaskBlocked || to == TaskSkipped)) {
				t.Errorf("%s to %s gives %+v", from, to, got.Tasks[0])
			}
		}
		// More evidence without another state, where there can be any.
		want := PlanInvalid
		if from == TaskInProgress || from == TaskCompleted {
			want = ""
		}
		_, err := UpdateTask(UpdateRequest{Plan: p, Task: "a", Evidence: []Evidence{job("job_2")}, Judge: record{"job_2": true}.judge})
		wantCode(t, "more evidence while "+string(from), err, want)
	}
	p := steps(t, mustPlan(t, task("a")), "a in_progress")
	for _, to := range []TaskState{TaskBlocked, TaskSkipped} {
		_, err := UpdateTask(UpdateRequest{Plan: p, Task: "a", To: to})
		wantCode(t, string(to)+" without a reason", err, PlanInvalid)
		_, err = UpdateTask(UpdateRequest{Plan: p, Task: "a", To: to, Reason: strings.Repeat("r", MaxDetail+1)})
		wantCode(t, string(to)+" with a long reason", err, operation.LimitExceeded)
	}
	_, err := UpdateTask(UpdateRequest{Plan: p, Task: "z", To: TaskCompleted})
	wantCode(t, "an unknown task", err, PlanInvalid)
}

// TestRT100Evidence: one bad reference rejects the whole step.
func TestRT100Evidence(t *testing.T) {
	p := steps(t, mustPlan(t, task("a")), "a in_progress")
	sum := strings.Repeat("0f", 32)
	r := record{"job_1": true, "src/a@b.go@" + sum: true, "b_1": true, "op-12345678": true, "art_1": true}
	complete := func(all ...Evidence) (WorkPlan, error) {
		return UpdateTask(UpdateRequest{Plan: p, Task: "a", To: TaskCompleted, Evidence: all, Judge: r.judge})
	}
	_, err := complete()
	wantCode(t, "none", err, EvidenceRequired)
	_, err = complete(job("job_1"), job("job_2"))
	wantCode(t, "a good and a bad one", err, EvidenceInvalid)
	if refusal, _ := errors.AsType[*operation.Refusal](err); refusal.Details["index"] != 1 || refusal.Details["why"] != "the record says otherwise" {
		t.Errorf("details are %v", refusal.Details)
	}
	if p.Tasks[0].State != TaskInProgress || len(p.Tasks[0].Evidence) > 0 {
		t.Errorf("the task is %+v", p.Tasks[0])
	}
	good := []Evidence{
		job("job_1"), {EvidenceRead, "src/a@b.go@" + sum}, {EvidenceSource, "src/a@b.go@" + sum}, {EvidenceBuild, "b_1"}, {EvidenceEdit, "op-12345678"}, {EvidenceArtifact, "art_1"},
	}
	done, err := complete(append(good, job("job_1"))...)
	if err != nil || cmp.Diff(good, done.Tasks[0].Evidence) != "" {
		t.Errorf("%v, kept %v", err, done.Tasks[0].Evidence)
	}
	if path, hash := good[1].File(); path != "src/a@b.go" || hash != sum {
		t.Errorf("path %q, hash %q", path, hash)
	}
	for _, e := range []Evidence{
		{"hope", "x"},
		{"", ""},
		{EvidenceJob, ""},
		{EvidenceJob, "a\nb"},
		{EvidenceJob, strings.Repeat("j", 129)},
		{EvidenceRead, "a.go"},
		{EvidenceRead, "@" + sum},
		{EvidenceRead, "a.go@" + strings.ToUpper(sum)},
		{EvidenceSource, "a.go@" + sum[1:]},
		{EvidenceSource, "a\x00@" + sum},
		{EvidenceSource, strings.Repeat("x", 4097) + "@" + sum},
	} {
		_, err := UpdateTask(UpdateRequest{Plan: p, Task: "a", To: TaskCompleted, Evidence: []Evidence{e}, Judge: func(Evidence) (string, error) { return "", nil }})
		wantCode(t, fmt.Sprintf("%.40q", e), err, EvidenceInvalid)
	}
	lost := errors.New("disk gone")
	_, err = UpdateTask(UpdateRequest{Plan: p, Task: "a", To: TaskCompleted, Evidence: good, Judge: func(Evidence) (string, error) { return "", lost }})
	if !errors.Is(err, lost) {
		t.Errorf("what the judge fails with became %v", err)
	}
	var many []Evidence
	for i := range MaxEvidence + 1 {
		many = append(many, job(fmt.Sprint("job_", i)))
	}
	_, err = UpdateTask(UpdateRequest{Plan: p, Task: "a", To: TaskCompleted, Evidence: many, Judge: func(Evidence) (string, error) { return "", nil }})
	wantCode(t, "too many", err, operation.LimitExceeded)
}

// TestRT102Replan: all changes or none; what is done, used before or depended on is refused.
func TestRT102Replan(t *testing.T) {
	p := steps(t, mustPlan(t, task("a"), task("b", "a"), task("c", "b"), task("s")), "a in_progress", "a completed job_1", "s in_progress", "s skipped why")
	replan := func(all ...Change) (WorkPlan, error) {
		return Replan(ReplanRequest{Plan: p, Changes: all, Reason: "why", Now: noon})
	}
	add := Change{Do: DoAdd, Key: "d", Title: new("d"), DependsOn: new([]string{"c"})}
	got, err := replan(add, Change{Do: DoUpdate, Key: "c", Title: new("C"), Description: new("more"), DependsOn: new([]string{"a"})}, Change{Do: DoRemove, Key: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Task{
		p.Tasks[0],
		{Key: "c", Title: "C", Description: "more", DependsOn: []string{"a"}, State: TaskTodo, Evidence: []Evidence{}},
		p.Tasks[3],
		{Key: "d", Title: "d", DependsOn: []string{"c"}, State: TaskTodo, Evidence: []Evidence{}},
	}, got.Tasks); d != "" || !slices.Equal(got.Gone, []string{"b"}) || got.Version != p.Version+1 {
		t.Errorf("version %d, gone %v\n%s", got.Version, got.Gone, d)
	}
	for what, c := range map[string]struct {
		changes []Change
		want    operation.Code
	}{
		"nothing":                     {nil, PlanInvalid},
		"a completed task":            {[]Change{{Do: DoUpdate, Key: "a", Title: new("A")}}, PlanInvalid},
		"removes a completed task":    {[]Change{{Do: DoRemove, Key: "a"}}, PlanInvalid},
		"a skipped task":              {[]Change{{Do: DoUpdate, Key: "s", Title: new("S")}}, PlanInvalid},
		"a key in use":                {[]Change{{Do: DoAdd, Key: "c", Title: new("c")}}, PlanInvalid},
		"a key that was used":         {[]Change{{Do: DoRemove, Key: "c"}, {Do: DoAdd, Key: "c", Title: new("c")}}, PlanInvalid},
		"a task others depend on":     {[]Change{{Do: DoRemove, Key: "b"}}, PlanInvalid},
		"an unknown task":             {[]Change{{Do: DoUpdate, Key: "z", Title: new("z")}}, PlanInvalid},
		"an update of nothing":        {[]Change{{Do: DoUpdate, Key: "c"}}, PlanInvalid},
		"an empty title":              {[]Change{{Do: DoUpdate, Key: "c", Title: new("")}}, PlanInvalid},
		"something else":              {[]Change{{Do: "rename", Key: "c"}}, PlanInvalid},
		"a cycle":                     {[]Change{{Do: DoUpdate, Key: "b", DependsOn: new([]string{"c"})}}, PlanCycle},
		"a good change and a bad one": {[]Change{add, {Do: DoRemove, Key: "b"}}, PlanInvalid},
		"more changes than tasks fit": {slices.Repeat([]Change{{Do: DoUpdate, Key: "c", Title: new("c")}}, MaxTasks+1), operation.LimitExceeded},
		"an unknown dependency":       {[]Change{{Do: DoAdd, Key: "e", Title: new("e"), DependsOn: new([]string{"z"})}}, PlanInvalid},
	} {
		before := p.clone()
		_, err := replan(c.changes...)
		wantCode(t, what, err, c.want)
		if d := cmp.Diff(before, p); d != "" {
			t.Fatalf("%s changed the plan that it was given:\n%s", what, d)
		}
	}
	_, err = Replan(ReplanRequest{Plan: p, Changes: []Change{add}})
	wantCode(t, "no reason", err, PlanInvalid)
	only := mustPlan(t, task("a"))
	_, err = Replan(ReplanRequest{Plan: only, Changes: []Change{{Do: DoRemove, Key: "a"}}, Reason: "why"})
	wantCode(t, "nothing left", err, PlanInvalid)
	// A key that was used before stays used in later versions, too.
	_, err = Replan(ReplanRequest{Plan: got, Changes: []Change{{Do: DoAdd, Key: "b", Title: new("b")}}, Reason: "why"})
	wantCode(t, "a key of an earlier version", err, PlanInvalid)
}

// TestRT105Versions: a plan that somebody else has changed is a conflict that names its version.
func TestRT105Versions(t *testing.T) {
	p := steps(t, mustPlan(t, task("a")), "a in_progress")
	for _, c := range []struct {
		expect int
		want   operation.Code
	}{{0, ""}, {2, ""}, {1, PlanConflict}, {3, PlanConflict}} {
		_, err := UpdateTask(UpdateRequest{Plan: p, ExpectVersion: c.expect, Task: "a", To: TaskSkipped, Reason: "r"})
		wantCode(t, fmt.Sprint("update ", c.expect), err, c.want)
		if r, ok := errors.AsType[*operation.Refusal](err); ok && r.Details["version"] != 2 {
			t.Errorf("the version is told as %v", r.Details["version"])
		}
		_, err = Replan(ReplanRequest{Plan: p, ExpectVersion: c.expect, Changes: []Change{{Do: DoUpdate, Key: "a", Title: new("A")}}, Reason: "r"})
		wantCode(t, fmt.Sprint("replan ", c.expect), err, c.want)
		_, err = CancelPlan(CancelRequest{Plan: p, ExpectVersion: c.expect})
		wantCode(t, fmt.Sprint("cancel ", c.expect), err, c.want)
		_, _, err = Deliver(DeliverRequest{Plan: p, ExpectVersion: c.expect})
		wantCode(t, fmt.Sprint("deliver ", c.expect), err, c.want)
	}
}

// delivery is a plan that is ready, with its record.
func delivery(t *testing.T) (DeliverRequest, record, map[string]uint64) {
	t.Helper()
	p := steps(t, mustPlan(t, task("a"), task("b")), "a in_progress", "a completed op-12345678 job_1", "b in_progress", "b skipped why")
	r, started := record{"job_1": true, "job_2": true, "op-12345678": true}, map[string]uint64{"job_1": 10, "job_2": 30}
	return DeliverRequest{Plan: p, LastEdit: 9, Judge: r.judge, Started: func(e Evidence) (uint64, error) { return started[e.Ref], nil }, Now: noon}, r, started
}

func failed(d Delivery) (codes []CheckCode) {
	for _, c := range d.Checks {
		if !c.Passed {
			codes = append(codes, c.Code)
		}
	}
	return codes
}

func TestDeliver(t *testing.T) {
	in, _, _ := delivery(t)
	p, d, err := Deliver(in)
	if err != nil || !d.Ready || p.State != PlanDelivered || p.Version != in.Plan.Version+1 || len(d.Checks) != 8 || len(d.Blockers) != 0 {
		t.Fatalf("%v, %+v, %+v", err, p, d)
	}
	for what, act := range map[string]func() error{
		"update":  func() error { _, err := UpdateTask(UpdateRequest{Plan: p, Task: "a", To: TaskInProgress}); return err },
		"replan":  func() error { _, err := Replan(ReplanRequest{Plan: p}); return err },
		"cancel":  func() error { _, err := CancelPlan(CancelRequest{Plan: p}); return err },
		"deliver": func() error { in.Plan = p; _, _, err := Deliver(in); return err },
	} {
		wantCode(t, what+" of a delivered plan", act(), PlanFinal)
	}
}

// TestRT103Fresh: an edit after the verification makes it stale, a new one makes up for it.
func TestRT103Fresh(t *testing.T) {
	in, _, _ := delivery(t)
	in.LastEdit = 20
	p, d, err := Deliver(in)
	if err != nil || d.Ready || !slices.Equal(failed(d), []CheckCode{VerificationFresh}) {
		t.Fatalf("%v, %+v", err, d)
	}
	if diff := cmp.Diff(in.Plan, p); diff != "" {
		t.Errorf("a failed delivery changed the plan:\n%s", diff)
	}
	in.Plan = steps(t, in.Plan, "a completed job_2")
	if _, d, err := Deliver(in); err != nil || !d.Ready {
		t.Errorf("after a new job: %v, %+v", err, d)
	}
	in.LastEdit = 30
	if _, d, _ := Deliver(in); d.Ready {
		t.Error("what began with the edit is fresh")
	}
	in.LastEdit = 20
	slices.Reverse(in.Plan.Tasks[0].Evidence) // the newest counts, wherever it stands
	if _, d, err := Deliver(in); err != nil || !d.Ready {
		t.Errorf("with the new job first: %v, %+v", err, d)
	}
}

// TestRT104Blockers and RT-106: everything that is in the way is named at once, and the plan stays open.
func TestRT104Blockers(t *testing.T) {
	in, r, _ := delivery(t)
	in.Approvals, in.Operations, in.Jobs = []string{"apr_1"}, []string{"op-x"}, []string{"job_9"}
	p, d, err := Deliver(in)
	if err != nil || p.State != PlanOpen {
		t.Fatal(err, p.State)
	}
	if diff := cmp.Diff([]Blocker{{Check: ApprovalsClear, ID: "apr_1"}, {Check: OperationsClear, ID: "op-x"}, {Check: JobsClear, ID: "job_9"}}, d.Blockers); diff != "" {
		t.Error(diff)
	}
	delete(r, "job_1") // the only verification does not hold any more
	in.Plan = steps(t, mustPlan(t, task("a"), task("b"), task("c")), "a in_progress", "a completed job_1", "b in_progress", "b blocked why")
	_, d, err = Deliver(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]CheckCode{
		TasksDone, NothingBlocked, EvidenceValid, VerificationPresent, VerificationFresh, ApprovalsClear, OperationsClear, JobsClear,
	}, failed(d)); diff != "" {
		t.Error(diff)
	}
	for i, want := range []Blocker{
		{TasksDone, "b", "it is blocked"}, {TasksDone, "c", "it is todo"}, {NothingBlocked, "b", "why"}, {EvidenceValid, "a", "job job_1: the record says otherwise"},
	} {
		if d.Blockers[i] != want {
			t.Errorf("blocker %d is %+v, want %+v", i, d.Blockers[i], want)
		}
	}
	lost := errors.New("disk gone")
	in.Started = func(Evidence) (uint64, error) { return 0, lost }
	r["job_1"] = true
	if _, _, err := Deliver(in); !errors.Is(err, lost) {
		t.Errorf("what the record fails with became %v", err)
	}
}

func TestProgress(t *testing.T) {
	p := steps(t, mustPlan(t, task("a"), task("b"), task("c"), task("d")), "a in_progress", "a completed job_1", "c in_progress", "b in_progress", "d in_progress", "d skipped why")
	if done, total, current := p.Progress(); done != 2 || total != 4 || current != "b" {
		t.Errorf("%d of %d, at %s", done, total, current)
	}
}

// TestPlanMachine runs random requests against a plan and looks at every step: what is done stays, nothing begins before
// its time, keys are used once, versions count, refusals have the codes of the specification, and what was given is not
// changed.
func TestPlanMachine(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e"}
	codes := []operation.Code{
		PlanInvalid, PlanCycle, PlanFinal, PlanConflict, DependencyOpen, EvidenceRequired, EvidenceInvalid, operation.LimitExceeded,
	}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom(keys)
		on := rapid.SliceOfNDistinct(key, 0, 2, rapid.ID[string])
		p := mustPlan(t, task("a"), task("b", "a"), task("c"))
		used := map[string]bool{}
		for range rapid.IntRange(10, 60).Draw(t, "requests") {
			before := p.clone()
			next, err := request(t, p, key, on)
			if d := cmp.Diff(before, p); d != "" {
				t.Fatalf("the plan that was given changed:\n%s", d)
			}
			if err != nil {
				if !slices.Contains(codes, codeOf(err)) {
					t.Fatalf("refused with %v", err)
				}
				if p.State != PlanOpen && codeOf(err) != PlanFinal {
					t.Fatalf("a plan that is %s answers %v", p.State, err)
				}
				continue
			}
			if next.Version != p.Version+1 && next.State == PlanOpen && cmp.Diff(p, next) != "" || p.State != PlanOpen {
				t.Fatalf("version %d of a plan that is %s became %d", p.Version, p.State, next.Version)
			}
			checkStep(t, p, next, used)
			p = next
		}
	})
}

// request asks for something at random.
func request(t *rapid.T, p WorkPlan, key *rapid.Generator[string], on *rapid.Generator[[]string]) (WorkPlan, error) {
	text := rapid.SampledFrom([]string{"why", "why", "why", ""})
	holds := record{"job_1": true}
	expect := rapid.SampledFrom([]int{0, 0, 0, p.Version, p.Version + 1}).Draw(t, "expect")
	switch rapid.IntRange(0, 9).Draw(t, "request") {
	default:
		in := UpdateRequest{Plan: p, ExpectVersion: expect, Task: key.Draw(t, "task"), Reason: text.Draw(t, "reason"), Judge: holds.judge, Now: noon}
		// Mostly what may come next, so that tasks get somewhere.
		likely := []TaskState{TaskInProgress}
		if at := p.task(in.Task); at >= 0 && p.Tasks[at].State == TaskInProgress {
			likely = []TaskState{TaskCompleted, TaskCompleted, TaskBlocked, TaskSkipped}
		}
		in.To = rapid.OneOf(rapid.SampledFrom(likely), rapid.SampledFrom(likely), rapid.SampledFrom([]TaskState{"", TaskTodo, TaskInProgress, TaskCompleted, TaskBlocked, TaskSkipped, "odd"})).Draw(t, "to")
		in.Evidence = rapid.SliceOfN(rapid.Map(rapid.SampledFrom([]string{"job_1", "job_1", "job_1", "job_2"}), job), 0, 2).Draw(t, "evidence")
		return UpdateTask(in)
	case 0, 1, 2:
		change := rapid.Custom(func(t *rapid.T) Change {
			c := Change{Do: rapid.SampledFrom([]Do{DoAdd, DoUpdate, DoRemove}).Draw(t, "do"), Key: key.Draw(t, "key")}
			if c.Do == DoAdd || rapid.Bool().Draw(t, "title?") {
				c.Title = new(text.Draw(t, "title"))
			}
			if rapid.Bool().Draw(t, "on?") {
				c.DependsOn = new(on.Draw(t, "on"))
			}
			return c
		})
		return Replan(ReplanRequest{Plan: p, ExpectVersion: expect, Changes: rapid.SliceOfN(change, 1, 2).Draw(t, "changes"), Reason: text.Draw(t, "reason"), Now: noon})
	case 3:
		next, _, err := Deliver(DeliverRequest{Plan: p, ExpectVersion: expect, Judge: holds.judge, Started: func(Evidence) (uint64, error) { return 1, nil }, Now: noon})
		return next, err
	case 4:
		if rapid.IntRange(0, 20).Draw(t, "really") > 0 {
			expect = p.Version + 1 // most plans live longer
		}
		return CancelPlan(CancelRequest{Plan: p, ExpectVersion: expect, Now: noon})
	}
}

// checkStep looks at one step that was made.
func checkStep(t *rapid.T, was, is WorkPlan, used map[string]bool) {
	for _, task := range was.Tasks {
		used[task.Key] = true
	}
	for _, now := range is.Tasks {
		at := was.task(now.Key)
		if at < 0 {
			if used[now.Key] || now.State != TaskTodo {
				t.Fatalf("the new task %+v, though %v were used", now, used)
			}
			continue
		}
		before := was.Tasks[at]
		if before.State.Done() {
			if kept := now; len(kept.Evidence) < len(before.Evidence) || cmp.Diff(before.Evidence, kept.Evidence[:len(before.Evidence)]) != "" {
				t.Fatalf("evidence of %s went", now.Key)
			}
			now.Evidence = before.Evidence
			if d := cmp.Diff(before, now); d != "" {
				t.Fatalf("a task that was %s changed:\n%s", before.State, d)
			}
		}
		if before.State != now.State && (now.State == TaskInProgress || now.State == TaskCompleted) && len(is.openDependencies(now)) > 0 {
			t.Fatalf("%s became %s with open dependencies", now.Key, now.State)
		}
		if (now.State == TaskCompleted) && len(now.Evidence) == 0 || (now.State == TaskBlocked || now.State == TaskSkipped) && now.Reason == "" {
			t.Fatalf("%+v lacks evidence or a reason", now)
		}
		if slices.Contains(now.Evidence, job("job_2")) {
			t.Fatal("evidence that does not hold was taken")
		}
	}
	for _, before := range was.Tasks {
		if before.State.Done() && is.task(before.Key) < 0 {
			t.Fatalf("%s was %s and is gone", before.Key, before.State)
		}
	}
	if is.cycle() != nil {
		t.Fatalf("tasks wait for each other: %v", is.cycle())
	}
	if is.State == PlanDelivered {
		if done, total, _ := is.Progress(); done != total {
			t.Fatalf("delivered with %d of %d tasks", done, total)
		}
	}
}
