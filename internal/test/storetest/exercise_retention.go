package storetest

import (
	"testing"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/operation"
	"mcpx/internal/retention"
	"mcpx/internal/store"
)

// retentionCases has one case for each method that lets something go.
var retentionCases = map[string]func(*testing.T, Pair){
	"Bodies":            bodies,
	"DropBodies":        dropBodies,
	"WholeOperations":   wholeOperations,
	"KeptBefore":        keptBefore,
	"DropResult":        dropResult,
	"RetentionState":    retentionState,
	"PutRetentionState": retentionState,
}

func listBodies(t *testing.T, p Pair, l event.ListBodies) (seqs []uint64) {
	t.Helper()
	for _, s := range read(t, p.Read, func(r store.Reader) ([]event.Stored, error) { return r.Bodies(t.Context(), l) }) {
		seqs = append(seqs, s.Seq)
	}
	return seqs
}

func bodies(t *testing.T, p Pair) {
	late, bare := draft(event.PlanMade, nil), draft(event.PlanMade, nil)
	late.At, bare.Body = late.At.Add(time.Hour), nil
	all := appended(t, p.Write, draft(event.PlanMade, event.Refs{event.RefPlan: "plan_a"}), bare, late, draft(event.ApplyDone, nil))
	after := all[2].At.Add(time.Microsecond)
	for what, tc := range map[string]struct {
		list event.ListBodies
		want []uint64
	}{
		"all":          {event.ListBodies{Before: after}, []uint64{1, 3, 4}},
		"page":         {event.ListBodies{Before: after, Limit: 2}, []uint64{1, 3}},
		"the next one": {event.ListBodies{Before: after, After: 3}, []uint64{4}},
		"before":       {event.ListBodies{Before: all[2].At}, []uint64{1, 4}},
		"none":         {event.ListBodies{Before: all[0].At}, nil},
	} {
		same(t, what, tc.want, listBodies(t, p, tc.list))
	}
	got := read(t, p.Read, func(r store.Reader) ([]event.Stored, error) {
		return r.Bodies(t.Context(), event.ListBodies{Before: after, Limit: 1})
	})
	want := event.Stored{Event: all[0], Size: int64(len(all[0].Body))}
	want.Body = nil
	same(t, "the envelope and the size", []event.Stored{want}, got)
}

func dropBodies(t *testing.T, p Pair) {
	all := appended(t, p.Write, draft(event.PlanMade, nil), draft(event.PlanErrored, nil), draft(event.ApplyDone, nil))
	for range 2 { // what is gone is no error
		change(t, p.Write, func(tx store.Tx) error {
			return tx.DropBodies(t.Context(), event.DropBodies{Seqs: []uint64{1, 2, 99}})
		})
	}
	all[0].Body, all[1].Body = nil, nil
	got := listEvents(t, p.Read, event.ListEvents{})
	same(t, "the envelopes", all, got)
	if bad := event.Verify(event.Event{}, got); bad != nil {
		t.Errorf("the chain does not hold without bodies: %+v", bad)
	}
	same(t, "what has a body", []uint64{3}, listBodies(t, p, event.ListBodies{Before: all[2].At.Add(time.Hour)}))
}

func wholeOperations(t *testing.T, p Pair) {
	putOperations(t, p, operationOf("op-00001", operation.Succeeded), operationOf("op-00002", operation.Dispatched),
		operationOf("op-00003", operation.Unknown), operationOf("op-00004", operation.Failed), operationOf("op-00005", operation.Succeeded))
	list := func(l operation.ListWhole) (ids []string) {
		for _, o := range read(t, p.Read, func(r store.Reader) ([]operation.Operation, error) { return r.WholeOperations(t.Context(), l) }) {
			ids = append(ids, o.ID)
		}
		return ids
	}
	same(t, "those that have ended, the oldest first", []string{"op-00001", "op-00004", "op-00005"}, list(operation.ListWhole{}))
	same(t, "page", []string{"op-00001"}, list(operation.ListWhole{Limit: 1}))
	same(t, "the next one", []string{"op-00004", "op-00005"}, list(operation.ListWhole{After: 1}))
	small := operationOf("op-00004", operation.Failed)
	small.Args, small.Result, small.Purged, small.Shrunk, small.Digest = nil, nil, uneven, uneven, "aa"
	putOperations(t, p, small)
	same(t, "with one that has evidence", []string{"op-00001", "op-00004", "op-00005"}, list(operation.ListWhole{}))
	small.Evidence = nil
	putOperations(t, p, small)
	same(t, "without one of which only the outcome is left", []string{"op-00001", "op-00005"}, list(operation.ListWhole{}))
	got := read(t, p.Read, func(r store.Reader) (operation.Operation, error) {
		return r.OperationByName(t.Context(), operation.ByName{Name: small.Name})
	})
	small.Claimed, small.Begun, small.Ended, small.Seq = store.CutTime(small.Claimed), store.CutTime(small.Begun), store.CutTime(small.Ended), got.Seq
	small.Purged, small.Shrunk = store.CutTime(uneven), store.CutTime(uneven)
	same(t, "what is left of it", small, got)
}

// keepAll keeps results of an hour after each other.
func keepAll(t *testing.T, p Pair, refs ...string) (all []operation.KeptSize) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for i, ref := range refs {
			k := operation.Kept{Ref: ref, Principal: "owner", Media: "text/plain", SHA256: "aa", Made: uneven.Add(time.Duration(i) * time.Hour), Bytes: []byte(ref)}
			all = append(all, operation.KeptSize{KeptByRef: operation.KeptByRef{Principal: "owner", Ref: ref}, Made: store.CutTime(k.Made), Size: int64(len(ref))})
			if err := tx.KeepResult(t.Context(), operation.KeepResult{Result: k}); err != nil {
				return err
			}
		}
		return nil
	})
	return all
}

func listKept(t *testing.T, p Pair, l operation.ListKept) []operation.KeptSize {
	t.Helper()
	return read(t, p.Read, func(r store.Reader) ([]operation.KeptSize, error) { return r.KeptBefore(t.Context(), l) })
}

func keptBefore(t *testing.T, p Pair) {
	all := keepAll(t, p, "r_3", "r_22", "r_1")
	end := all[2].Made.Add(time.Hour)
	same(t, "all, the oldest first", all, listKept(t, p, operation.ListKept{Before: end}))
	same(t, "before", all[:1], listKept(t, p, operation.ListKept{Before: all[1].Made}))
	same(t, "page", all[:2], listKept(t, p, operation.ListKept{Before: end, Limit: 2}))
	same(t, "the next one", all[2:], listKept(t, p, operation.ListKept{Before: end, After: all[1]}))
}

func dropResult(t *testing.T, p Pair) {
	all := keepAll(t, p, "r_1", "r_2")
	for _, at := range []operation.KeptByRef{all[0].KeptByRef, all[0].KeptByRef, {Principal: "guest", Ref: "r_2"}} { // what is gone is no error
		change(t, p.Write, func(tx store.Tx) error { return tx.DropResult(t.Context(), at) })
	}
	same(t, "the rest", all[1:], listKept(t, p, operation.ListKept{Before: all[1].Made.Add(time.Hour)}))
}

func retentionState(t *testing.T, p Pair) {
	get := func() retention.State {
		return read(t, p.Read, func(r store.Reader) (retention.State, error) { return r.RetentionState(t.Context()) })
	}
	same(t, "before the first", retention.State{}, get())
	want := retention.State{
		Hold: retention.Hold{By: time.Hour, Left: 2 * time.Hour},
		Last: retention.Report{At: uneven, DryRun: true, Removed: []retention.Removed{{Data: retention.Bodies, Removed: 1, Bytes: 2, Needed: 3}}},
	}
	for range 2 {
		want.Hold.Left++
		change(t, p.Write, func(tx store.Tx) error { return tx.PutRetentionState(t.Context(), retention.PutState{State: want}) })
	}
	want.Last.At = store.CutTime(uneven)
	same(t, "what was put last", want, get())
}
