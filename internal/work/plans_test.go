package work

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

func (d *desk) events(t *testing.T, kind string) (all []event.Event) {
	t.Helper()
	if err := d.db.View(t.Context(), func(r store.Reader) (err error) {
		all, err = r.Events(t.Context(), event.ListEvents{Kind: kind})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRT27Activity(t *testing.T) {
	s := newShop(t)
	a := s.do(t, "read_file", `"path":"README.md","activity":{"intent":%q}`, strings.Repeat("ü", 300))
	said := s.events(t, "activity")
	if !a.OK || len(a.Warnings) != 1 || len(said) != 1 {
		t.Fatalf("%+v, %v", a, said)
	}
	if text := strings.TrimPrefix(said[0].Summary, "claims intent: "); len(text) > 512 || !utf8.ValidString(text) {
		t.Errorf("stored is %q", text)
	}
	if a := s.do(t, "read_file", `"path":"README.md","activity":{"evidence":5,"other":"x"}`); !a.OK || len(a.Warnings) != 2 || len(s.events(t, "activity")) != 1 {
		t.Errorf("what is wrong in it: %+v", a)
	}
}

func TestRT28ActivityComesFirst(t *testing.T) {
	s := newShop(t)
	before := len(s.events(t, ""))
	s.do(t, "edit_files", `"operation_id":"op-00001","activity":{"status":"b","intent":"a"},"edits":[{"path":"new","op":"create","content":"x"}]`)
	var kinds []string
	for _, e := range s.events(t, "")[before:] {
		kinds = append(kinds, string(e.Kind))
		if e.Refs[event.RefOperation] != "op-00001" {
			t.Errorf("%s is not about the operation: %v", e.Kind, e.Refs)
		}
	}
	if got := strings.Join(kinds, " "); got != "activity.intent activity.status operation.claimed policy.decided operation.dispatched file.changed operation.ended" {
		t.Errorf("events: %s", got)
	}
}

func TestPlanOnTheWire(t *testing.T) {
	s := newShop(t)
	type answered struct {
		Plan     session.WorkPlan
		Ready    bool
		Blockers []session.Blocker
	}
	refused(t, s.do(t, "plan", `"action":"read"`), session.PlanNotFound, fault.AfterFix)
	p := read[answered](t, s.do(t, "plan", `"action":"create","operation_id":"plan-0001","summary":"ship","tasks":[{"key":"a","title":"A"},{"key":"b","title":"B","depends_on":["a"]}]`)).Plan
	if p.Version != 1 || len(p.Tasks) != 2 {
		t.Fatalf("%+v", p)
	}
	refused(t, s.do(t, "plan", `"action":"update","operation_id":"plan-0002","task":"b","state":"in_progress"`), session.DependencyOpen, fault.AfterFix)
	for i, c := range []struct {
		update string
		ok     bool
	}{
		{`"task":"a","state":"in_progress"`, true},
		{`"task":"a","state":"completed"`, false},
		{`"task":"a","state":"completed","evidence":[{"kind":"edit","ref":"op-00001"}]`, false},
		{fmt.Sprintf(`"task":"a","state":"completed","evidence":[{"kind":"source","ref":"README.md@%s"}]`, digest([]byte("one\ntwo\nthree\n"))), true},
		{`"task":"b","state":"in_progress"`, true},
		{`"task":"b","state":"skipped","reason":"not needed"`, true},
	} {
		if a := s.do(t, "plan", `"action":"update","operation_id":"plan-1%03d",%s`, i, c.update); a.OK != c.ok {
			t.Errorf("%s: %+v %v", c.update, a, a.Refusal)
		}
	}
	d := s.do(t, "plan", `"action":"deliver","operation_id":"plan-0009"`)
	if got := read[answered](t, d); d.OK || got.Ready || got.Plan.State != session.PlanOpen {
		t.Errorf("delivered without a job or a build: %+v", got)
	}
	attached := s.do(t, "session", `"action":"attach"`)
	if !strings.Contains(string(attached.Data), `"done":2,"total":2`) {
		t.Errorf("attach says %s", attached.Data)
	}
}
