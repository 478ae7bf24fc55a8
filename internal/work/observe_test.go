package work

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

func TestRT118PendingEverywhere(t *testing.T) {
	s := newShop(t)
	for i := range maxAttached + 1 {
		if a := s.do(t, "edit_files", `"operation_id":"op-0000%d","activity":{"intent":"set up"},"edits":[{"path":".mcp.json","op":"create","content":"%d\n"}]`, i, i); a.Status != operation.OutcomeWaiting {
			t.Fatalf("%+v (%v)", a, a.Refusal)
		}
	}
	type shown struct {
		approvalShown
		Subject string `json:"subject_sha256"`
		Says    string `json:"agent_says"`
	}
	attached := read[struct {
		Pending []shown `json:"pending_approvals"`
		More    int     `json:"more_approvals"`
	}](t, s.do(t, "session", `"action":"attach"`))
	observed := read[struct{ Approvals []shown }](t, s.do(t, "observe", `"view":"approvals"`)).Approvals
	stored := s.approvals(t)
	if len(attached.Pending) != maxAttached || attached.More != 1 || len(observed) != len(stored) {
		t.Fatalf("attach names %d and %d more, observe %d of %d", len(attached.Pending), attached.More, len(observed), len(stored))
	}
	for i, a := range slices.Backward(stored) {
		n := len(stored) - 1 - i
		if observed[n].ID != a.ID || observed[n].State != approval.Pending || observed[n].Subject != a.Subject || observed[n].Says != "set up" {
			t.Errorf("observe says %+v about %+v", observed[n], a)
		}
		if n < maxAttached && attached.Pending[n].approvalShown != observed[n].approvalShown {
			t.Errorf("attach says %+v, observe %+v", attached.Pending[n], observed[n])
		}
	}
}

// TestObserveEvents: RT-142. Pages have no gap and nothing twice, and a wait ends with the first event that fits.
func TestObserveEvents(t *testing.T) {
	s := newShop(t)
	for i := range 6 {
		if a := s.do(t, "edit_files", `"operation_id":"op-0000%d","activity":{"intent":"step %d"},"edits":[{"path":"new%d","op":"create","content":"x"}]`, i, i, i); !a.OK {
			t.Fatalf("%+v (%v)", a, a.Refusal)
		}
	}
	look := func(format string, args ...any) observed {
		t.Helper()
		return read[observed](t, s.do(t, "observe", format, args...))
	}
	kinds := func(o observed) (all []string) {
		for _, e := range o.Events {
			all = append(all, string(e.Kind))
		}
		return all
	}
	one := look(`"by_operation":"op-00003","order":"oldest"`)
	if got, want := fmt.Sprint(kinds(one)), "[activity.intent operation.claimed policy.decided operation.dispatched file.changed operation.ended]"; got != want {
		t.Errorf("one operation is %s, want %s", got, want)
	}
	if got := look(`"kinds":["activity","operation.ended"],"text":"STEP 4"`); len(got.Events) != 1 || got.Events[0].Kind != "activity.intent" {
		t.Errorf("by text: %+v", got.Events)
	}
	for _, order := range []string{"newest", "oldest"} {
		var all []uint64
		cursor := ""
		for {
			page := look(`"order":%q,"limit":4,"cursor":%q`, order, cursor)
			for _, e := range page.Events {
				all = append(all, e.Seq)
			}
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
		if order == "newest" {
			slices.Reverse(all)
		}
		if !slices.IsSorted(all) || len(slices.Compact(all)) != len(all) || len(all) != 1+6*6+1 { // opened, an operation, and six of each edit
			t.Errorf("%s first, in pages: %v", order, all)
		}
	}
	whole := look(`"limit":200`)
	between := look(`"since":%d,"before":%d,"order":"oldest"`, whole.First+2, whole.First+5)
	if len(between.Events) == 0 || between.First <= whole.First+2 || between.Last >= whole.First+5 {
		t.Errorf("between two numbers: %+v", between)
	}
	refused(t, s.do(t, "observe", `"cursor":"x"`), "CURSOR_INVALID", fault.AfterFix)
	refused(t, s.do(t, "observe", `"view":"secrets"`), operation.ArgumentInvalid, fault.AfterFix)
	refused(t, s.as(t, "eve", "observe", `{"remote_session_id":%q}`, s.session), operation.SessionNotFound, fault.AfterFix)
}

func TestObserveWaits(t *testing.T) {
	s := newShop(t)
	since := read[observed](t, s.do(t, "observe", `"limit":1`)).Next
	if quiet := read[observed](t, s.do(t, "observe", `"since":%d,"kinds":["operation"]`, since)); len(quiet.Events) != 0 {
		t.Errorf("nothing happened since: %+v", quiet)
	}
	found := make(chan operation.Answer)
	go func() { found <- s.do(t, "observe", `"since":%d,"kinds":["operation"],"wait_ms":20000`, since) }()
	time.Sleep(20 * time.Millisecond) // whether it looks before or after, it must see it
	if a := s.do(t, "edit_files", `"operation_id":"op-00001","edits":[{"path":"new","op":"create","content":"x"}]`); !a.OK {
		t.Fatalf("%+v (%v)", a, a.Refusal)
	}
	if got := read[observed](t, <-found); len(got.Events) == 0 || got.Events[0].IDs["operation"] != "op-00001" {
		t.Errorf("%+v", got)
	}
}

// TestObserveFits: an answer of observe stays within what an answer may have, and goes on where it ended.
func TestObserveFits(t *testing.T) {
	s := newShop(t)
	for i := range 60 {
		s.do(t, "read_file", `"path":"README.md","activity":{"intent":"%s %d","hypothesis":"%s"}`, strings.Repeat("i", 480), i, strings.Repeat("h", 500))
	}
	seen := map[uint64]bool{}
	pages, cursor := 0, ""
	for {
		a := s.do(t, "observe", `"limit":200,"cursor":%q`, cursor)
		if len(a.Data) > inlineLimit-envelope || a.Spilled != nil {
			t.Fatalf("an answer with %d bytes", len(a.Data))
		}
		page := read[observed](t, a)
		for _, e := range page.Events {
			if seen[e.Seq] {
				t.Fatalf("event %d came twice", e.Seq)
			}
			seen[e.Seq] = true
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
		pages++
	}
	if len(seen) < 120 || pages == 0 {
		t.Errorf("%d events on %d pages", len(seen), pages)
	}
}
