package workspace

import (
	"errors"
	"slices"
	"testing"

	"mcpx/internal/operation"
)

// TestStates tries every event in every state: those of durable-work.md section 6 lead where it says, and no other one leads
// anywhere.
func TestStates(t *testing.T) {
	events := []Event{
		Complete, Abandoned, NotCopied, Suspend, Amend, Resume, Resumed, Integrate, Applied, AppliedOn, Reopened, Contested, Undo, Undone, Retire, InTrash, Lost, GoneWrong,
	}
	if len(events) != len(moves)+1 { // GoneWrong is in no table
		t.Fatalf("there are %d events, and %d are tried", len(moves)+1, len(events))
	}
	want := map[State]map[Event]State{
		Creating:    {Complete: Open, Abandoned: Quarantined, NotCopied: Retired},
		Open:        {Suspend: Suspended, Amend: Open, Resumed: Open, Integrate: Integrating, Undo: Integrating, Retire: Retiring, Lost: Missing},
		Suspended:   {Resume: Open, Integrate: Integrating, Retire: Retiring, Lost: Missing},
		Integrating: {Applied: Integrated, AppliedOn: Open, Reopened: Open, Contested: Attention, Undone: Open},
		Attention:   {Applied: Integrated, AppliedOn: Open, Reopened: Open, Undone: Open, Retire: Retiring},
		Integrated:  {Undo: Integrating, Retire: Retiring},
		Quarantined: {Resume: Open, Retire: Retiring, Lost: Missing},
		Missing:     {Resume: Open, Retire: Retiring},
		Retiring:    {InTrash: Retired},
		Retired:     {},
	}
	if len(want) != len(States) {
		t.Fatalf("there are %d states, and %d are tried", len(States), len(want))
	}
	for _, from := range States {
		code := WrongState
		if from == Creating || from == Integrating || from == Retiring { // which passes by itself
			code = Busy
		}
		for _, e := range events {
			before := Workspace{ID: "ws_1", Rev: 3, State: from, Why: "before"}
			after, err := before.To(e, "now")
			to, moves := want[from][e]
			if !moves {
				if r, ok := errors.AsType[*operation.Refusal](err); !ok || r.Code != code || after.State != from || after.Why != "before" {
					t.Errorf("%s, %s: %s (%s), %v", from, e, after.State, after.Why, err)
				}
				continue
			}
			if err != nil || after.State != to || after.Why != "now" || after.Rev != before.Rev {
				t.Errorf("%s, %s: %+v, %v, want %s", from, e, after, err, to)
			}
			if !slices.Contains(From(e), from) {
				t.Errorf("%s is not among the states of %s: %v", from, e, From(e))
			}
		}
	}
}

// TestGoneWrong: what could not be resumed or removed is what it was, with the reason of then, and only until it has happened.
func TestGoneWrong(t *testing.T) {
	for _, c := range []struct {
		begins, ends Event
		from         []State
	}{{Resume, Resumed, From(Resume)}, {Undo, Undone, From(Undo)}, {Retire, InTrash, From(Retire)}} {
		for _, from := range c.from {
			begun, err := Workspace{State: from, Why: "before"}.To(c.begins, "")
			if err != nil {
				t.Fatal(err)
			}
			if back, err := begun.To(GoneWrong, ""); err != nil || back.State != from || back.Why != "before" || back.Was != "" {
				t.Errorf("%s, %s, gone wrong: %+v, %v", from, c.begins, back, err)
			}
			done, err := begun.To(c.ends, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := done.To(GoneWrong, ""); err == nil {
				t.Errorf("%s, %s, %s can go wrong", from, c.begins, c.ends)
			}
		}
	}
}

// TestHolds: a scope is claimed exactly in the states that section 8 names.
func TestHolds(t *testing.T) {
	if want := []State{Creating, Open, Integrating, Attention, Retiring}; !slices.Equal(Holds, want) {
		t.Errorf("%v hold a claim, want %v", Holds, want)
	}
	for _, s := range States {
		if unfinished := slices.Contains(Unfinished, s); unfinished == (s == Integrated || s == Retired) {
			t.Errorf("%s is unfinished: %v", s, unfinished)
		}
	}
}
