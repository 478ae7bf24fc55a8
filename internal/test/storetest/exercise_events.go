package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// draft is an event with every field set to something that a careless store would lose.
func draft(kind event.Kind, refs event.Refs) event.Draft {
	return event.Draft{
		At: time.Date(2026, 11, 29, 12, 30, 1, 123456789, time.FixedZone("east", 3600)), Kind: kind,
		Actor: event.Actor{Principal: "owner", Client: "Ünïcode <&>", Channel: "cli"}, Refs: refs,
		Summary: "a <b> \u2028 \"c\"\\ 1", Body: json.RawMessage(`{ "n": 9007199254740993, "z": "<&>\u2028", "a": [null] }`),
	}
}

func appended(t *testing.T, db store.DB, all ...event.Draft) (sealed []event.Event) {
	t.Helper()
	change(t, db, func(tx store.Tx) error {
		for _, d := range all {
			e, err := tx.AppendEvent(t.Context(), d)
			if err != nil {
				return err
			}
			sealed = append(sealed, e)
		}
		return nil
	})
	return sealed
}

func listEvents(t *testing.T, db store.DB, l event.ListEvents) []event.Event {
	t.Helper()
	return read(t, db, func(r store.Reader) ([]event.Event, error) { return r.Events(t.Context(), l) })
}

func events(t *testing.T, p Pair) {
	same(t, "empty log", nil, listEvents(t, p.Read, event.ListEvents{}))
	late := draft(event.PlanErrored, event.Refs{event.RefAgent: "codex", event.RefPath: "/c"})
	late.At = late.At.Add(time.Hour)
	all := appended(t, p.Write,
		draft(event.PlanMade, event.Refs{event.RefAgent: "codex", event.RefPlan: "plan_a", event.RefPath: "/c"}),
		draft(event.PlanMade, event.Refs{event.RefAgent: "cline", event.RefPlan: "plan_b"}),
		draft(event.ApprovalDecided, event.Refs{event.RefAgent: "codex", event.RefPlan: "plan_a"}),
		late,
		draft(event.ApplyDone, nil),
	)
	same(t, "all, as they were given back", all, listEvents(t, p.Read, event.ListEvents{}))
	for what, tc := range map[string]struct {
		list event.ListEvents
		want []uint64
	}{
		"after":               {event.ListEvents{After: 3}, []uint64{4, 5}},
		"after the last":      {event.ListEvents{After: 5}, nil},
		"page":                {event.ListEvents{After: 1, Limit: 2}, []uint64{2, 3}},
		"kind":                {event.ListEvents{Kind: "plan.made"}, []uint64{1, 2}},
		"area":                {event.ListEvents{Kind: "plan"}, []uint64{1, 2, 4}},
		"half an area":        {event.ListEvents{Kind: "pla"}, nil},
		"half a kind":         {event.ListEvents{Kind: "plan.ma"}, nil},
		"wildcards are text":  {event.ListEvents{Kind: "%"}, nil},
		"page of an area":     {event.ListEvents{Kind: "plan", After: 1, Limit: 1}, []uint64{2}},
		"ref":                 {event.ListEvents{Refs: event.Refs{event.RefPlan: "plan_a"}}, []uint64{1, 3}},
		"frequent ref":        {event.ListEvents{Refs: event.Refs{event.RefAgent: "codex"}}, []uint64{1, 3, 4}},
		"all refs":            {event.ListEvents{Refs: event.Refs{event.RefAgent: "codex", event.RefPath: "/c"}}, []uint64{1, 4}},
		"refs that never met": {event.ListEvents{Refs: event.Refs{event.RefAgent: "cline", event.RefPlan: "plan_a"}}, nil},
		"value of another":    {event.ListEvents{Refs: event.Refs{event.RefServer: "codex"}}, nil},
		"page of a ref":       {event.ListEvents{Refs: event.Refs{event.RefAgent: "codex"}, After: 1, Limit: 1}, []uint64{3}},
		"ref and kind":        {event.ListEvents{Refs: event.Refs{event.RefPlan: "plan_a"}, Kind: "approval.decided"}, []uint64{3}},
		"ref and area":        {event.ListEvents{Refs: event.Refs{event.RefAgent: "codex"}, Kind: "plan"}, []uint64{1, 4}},
		"since":               {event.ListEvents{Since: late.At}, []uint64{4}},
		"since, with a ref":   {event.ListEvents{Since: late.At, Refs: event.Refs{event.RefAgent: "codex"}}, []uint64{4}},
		"since, in an area":   {event.ListEvents{Since: late.At, Kind: "plan"}, []uint64{4}},
		"before":              {event.ListEvents{Before: 4}, []uint64{3, 2, 1}},
		"page before":         {event.ListEvents{Before: 4, Limit: 2}, []uint64{3, 2}},
		"area before":         {event.ListEvents{Before: 4, Kind: "plan"}, []uint64{2, 1}},
		"ref before":          {event.ListEvents{Before: 9, Refs: event.Refs{event.RefAgent: "codex"}}, []uint64{4, 3, 1}},
		"before the first":    {event.ListEvents{Before: 1}, nil},
		"since a later one":   {event.ListEvents{Since: late.At.Add(time.Microsecond)}, nil},
	} {
		var got []uint64
		for _, e := range listEvents(t, p.Read, tc.list) {
			got = append(got, e.Seq)
		}
		same(t, what, tc.want, got)
	}

	many := make([]event.Draft, event.MaxEventPage)
	for i := range many {
		many[i] = draft(event.ConfigDrift, event.Refs{event.RefPath: fmt.Sprint(i)})
	}
	appended(t, p.Write, many...)
	if n := len(listEvents(t, p.Read, event.ListEvents{Limit: 1 << 30})); n != event.MaxEventPage {
		t.Errorf("a page holds %d events, want at most %d", n, event.MaxEventPage)
	}
}

func eventHead(t *testing.T, p Pair) {
	head := func() event.Event {
		return read(t, p.Read, func(r store.Reader) (event.Event, error) { return r.EventHead(t.Context()) })
	}
	same(t, "empty log", event.Event{}, head())
	all := appended(t, p.Write, draft(event.PlanMade, nil), draft(event.PlanErrored, event.Refs{event.RefPlan: "plan_a"}))
	same(t, "head", all[1], head())
}

func appendEvent(t *testing.T, p Pair) {
	bare := draft(event.ApplyDone, nil)
	bare.Body, bare.Actor.Client, bare.Actor.Channel, bare.Summary = nil, "", "", ""
	all := appended(t, p.Write, draft(event.PlanMade, event.Refs{event.RefPlan: "plan_a"}), bare)
	first := all[0]
	same(t, "time", store.CutTime(draft("", nil).At), first.At)
	same(t, "places", []uint64{1, 2}, []uint64{first.Seq, all[1].Seq})
	same(t, "chain", []string{"", first.Hash}, []string{first.Prev, all[1].Prev})
	if bad := event.Verify(event.Event{}, listEvents(t, p.Read, event.ListEvents{})); bad != nil {
		t.Errorf("what was read is not what was sealed: %+v", bad)
	}

	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
		_, err := tx.AppendEvent(t.Context(), draft("no.such_kind", nil))
		return err
	}), fault.Internal, "event-malformed")
	same(t, "after a refused one", 2, len(listEvents(t, p.Read, event.ListEvents{})))

	// The largest body that is kept, and one that is left out without failing what it tells of.
	large, huge := draft(event.PlanMade, nil), draft(event.PlanMade, nil)
	large.Body = json.RawMessage(`"` + strings.Repeat("x", event.MaxBody-2) + `"`)
	huge.Body = json.RawMessage(`"` + strings.Repeat("x", event.MaxBody-1) + `"`)
	appended(t, p.Write, large, huge)
	got := listEvents(t, p.Read, event.ListEvents{After: 2})
	same(t, "large body", string(large.Body), string(got[0].Body))
	same(t, "huge body", fmt.Sprintf(`{"left_out_bytes":%d}`, event.MaxBody+1), string(got[1].Body))
}

// serialEvents: writers at the same time make one chain without a gap.
func serialEvents(t *testing.T, p Pair) {
	const each = 15
	var wg sync.WaitGroup
	for i, db := range []store.DB{p.Write, p.Read, p.Write, p.Read} {
		wg.Go(func() {
			for n := range each {
				d := draft(event.PlanMade, event.Refs{event.RefPlan: fmt.Sprintf("plan_%d_%d", i, n)})
				if err := db.Change(t.Context(), func(tx store.Tx) error {
					if _, err := tx.AppendEvent(t.Context(), d); err != nil {
						return err
					}
					_, err := tx.AppendEvent(t.Context(), d)
					return err
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	verdict := read(t, p.Read, func(r store.Reader) (event.Verdict, error) { return event.VerifyLog(t.Context(), r, 0, 0) })
	if verdict.Bad != nil || verdict.Count != 2*4*each || verdict.Last != 2*4*each {
		t.Errorf("verdict %+v, want a whole chain of %d", verdict, 2*4*each)
	}
	// The two events of a Change stand together.
	all := listEvents(t, p.Read, event.ListEvents{})
	for i := 0; i < len(all); i += 2 {
		if all[i].Refs[event.RefPlan] != all[i+1].Refs[event.RefPlan] {
			t.Errorf("events %d and %d are of different Changes", all[i].Seq, all[i+1].Seq)
		}
	}
}

// oneCommit: an event and the change that it tells of are there together or not at all, and a place in the log that
// was not committed is given again.
func oneCommit(t *testing.T, p Pair) {
	stop := errors.New("stop")
	act := func(id string, err error) {
		got := p.Write.Change(t.Context(), func(tx store.Tx) error {
			if err := tx.PutPlan(t.Context(), planPut(id)); err != nil {
				return err
			}
			if _, err := tx.AppendEvent(t.Context(), draft(event.PlanMade, event.Refs{event.RefPlan: id})); err != nil {
				return err
			}
			return err
		})
		if !errors.Is(got, err) {
			t.Errorf("Change gives %v, want %v", got, err)
		}
	}
	act("plan_a", nil)
	act("plan_b", stop)
	act("plan_c", nil)
	all := listEvents(t, p.Read, event.ListEvents{})
	var told []string
	for _, e := range all {
		told = append(told, e.Refs[event.RefPlan])
	}
	same(t, "events", []string{"plan_a", "plan_c"}, told)
	same(t, "plans", []string{"plan_c", "plan_a"}, planIDs(t, p.Read, listAllPlans))
	same(t, "last place", 2, all[len(all)-1].Seq)
	if bad := event.Verify(event.Event{}, all); bad != nil {
		t.Errorf("%+v", bad)
	}
}
