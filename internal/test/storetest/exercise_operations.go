package storetest

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// operationCases has one case for each method of the ports of the ledger.
var operationCases = map[string]func(*testing.T, Pair){
	"OperationByName":  operationByName,
	"Operations":       operations,
	"PutOperation":     putOperation,
	"ReleaseOperation": releaseOperation,
	"KeptResult":       keptResult,
	"KeepResult":       keepResult,
}

func operationOf(id string, state operation.State) operation.Operation {
	return operation.Operation{
		Name: operation.Name{Namespace: "owner", ID: id}, Tool: "edit_files", Print: "p-" + id, Digests: map[string]string{"path": "d"},
		Args: []byte(`{"path":"a"}`), State: state, Class: operation.FS, Attempts: 2, Session: "rs_1", Project: "proj_1",
		Evidence: []byte(`{"k":1}`), Result: []byte(`{"ok":true}`), Claimed: uneven, Begun: uneven.Add(time.Second), Ended: uneven.Add(time.Minute),
	}
}

func putOperations(t *testing.T, p Pair, all ...operation.Operation) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, o := range all {
			if err := tx.PutOperation(t.Context(), operation.PutOperation{Operation: o}); err != nil {
				return err
			}
		}
		return nil
	})
}

func listOperations(t *testing.T, p Pair, l operation.ListOperations) (ids []string) {
	t.Helper()
	for _, o := range read(t, p.Read, func(r store.Reader) ([]operation.Operation, error) { return r.Operations(t.Context(), l) }) {
		ids = append(ids, o.ID)
	}
	return ids
}

func operationByName(t *testing.T, p Pair) {
	want := operationOf("op-00001", operation.Claimed)
	putOperations(t, p, want)
	got := read(t, p.Read, func(r store.Reader) (operation.Operation, error) {
		return r.OperationByName(t.Context(), operation.ByName{Name: want.Name})
	})
	want.Claimed, want.Begun, want.Ended, want.Seq = store.CutTime(want.Claimed), store.CutTime(want.Begun), store.CutTime(want.Ended), got.Seq
	same(t, "what was put", want, got)
	for _, n := range []operation.Name{{Namespace: "owner", ID: "op-00002"}, {Namespace: "guest", ID: "op-00001"}} {
		wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
			_, err := r.OperationByName(t.Context(), operation.ByName{Name: n})
			return err
		}), fault.NotFound, "operation-unknown")
	}
}

func operations(t *testing.T, p Pair) {
	other := operationOf("op-c", operation.Unknown)
	other.Namespace, other.Session, other.Print = "guest", "rs_2", "p-op-a"
	putOperations(t, p, operationOf("op-a", operation.Claimed), operationOf("op-b", operation.Succeeded), other)
	same(t, "all, the newest first", []string{"op-c", "op-b", "op-a"}, listOperations(t, p, operation.ListOperations{}))
	same(t, "of a principal", []string{"op-b", "op-a"}, listOperations(t, p, operation.ListOperations{Namespace: "owner"}))
	same(t, "of a session", []string{"op-c"}, listOperations(t, p, operation.ListOperations{Session: "rs_2"}))
	same(t, "of a print", []string{"op-c", "op-a"}, listOperations(t, p, operation.ListOperations{Print: "p-op-a"}))
	same(t, "in states", []string{"op-c", "op-a"}, listOperations(t, p, operation.ListOperations{States: []operation.State{operation.Claimed, operation.Unknown}}))
	same(t, "that have no end", []string{"op-c", "op-a"}, listOperations(t, p, operation.ListOperations{Open: true}))
	same(t, "that have no end, of a print and a state", []string{"op-a"}, listOperations(t, p, operation.ListOperations{Open: true, Print: "p-op-a", States: []operation.State{operation.Claimed}}))
	same(t, "of a print in a state", []string{"op-a"}, listOperations(t, p, operation.ListOperations{Print: "p-op-a", States: []operation.State{operation.Claimed}}))
	first := read(t, p.Read, func(r store.Reader) ([]operation.Operation, error) {
		return r.Operations(t.Context(), operation.ListOperations{Limit: 2})
	})
	putOperations(t, p, operationOf("op-d", operation.Claimed)) // between pages
	same(t, "the next page", []string{"op-a"}, listOperations(t, p, operation.ListOperations{Before: first[1].Seq}))
	var many []operation.Operation
	for i := range operation.MaxOperationPage {
		many = append(many, operationOf(fmt.Sprintf("op-x%04d", i), operation.Claimed))
	}
	putOperations(t, p, many...)
	same(t, "the largest page", operation.MaxOperationPage, len(listOperations(t, p, operation.ListOperations{Limit: 1 << 30})))
}

func putOperation(t *testing.T, p Pair) {
	o := operationOf("op-00001", operation.Claimed)
	putOperations(t, p, o)
	for _, s := range []operation.State{operation.Dispatched, operation.Unknown, operation.Succeeded} {
		o.State = s
		putOperations(t, p, o)
	}
	o.Code = "LATE" // the end stays, what is known about it may grow
	putOperations(t, p, o)
	o.State = operation.Failed
	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutOperation(t.Context(), operation.PutOperation{Operation: o})
	}), fault.Conflict, "operation-final")
	same(t, "it kept its place", []string{"op-00001"}, listOperations(t, p, operation.ListOperations{States: []operation.State{operation.Succeeded}}))
}

func releaseOperation(t *testing.T, p Pair) {
	claimed, begun := operationOf("op-00001", operation.Claimed), operationOf("op-00002", operation.Dispatched)
	putOperations(t, p, claimed, begun)
	release := func(n operation.Name) func(store.Tx) error {
		return func(tx store.Tx) error { return tx.ReleaseOperation(t.Context(), operation.ByName{Name: n}) }
	}
	change(t, p.Write, release(claimed.Name))
	change(t, p.Write, release(claimed.Name)) // twice is no error
	wantFault(t, p.Write.Change(t.Context(), release(begun.Name)), fault.Conflict, "operation-final")
	same(t, "what is left", []string{"op-00002"}, listOperations(t, p, operation.ListOperations{}))
}

func keptResult(t *testing.T, p Pair) {
	want := operation.Kept{Ref: "r_1", Principal: "owner", Media: "application/json", SHA256: "aa", Made: store.CutTime(uneven), Bytes: []byte{0, 1, 255}}
	change(t, p.Write, func(tx store.Tx) error {
		return tx.KeepResult(t.Context(), operation.KeepResult{Result: want})
	})
	same(t, "what was kept", want, read(t, p.Read, func(r store.Reader) (operation.Kept, error) {
		return r.KeptResult(t.Context(), operation.KeptByRef{Principal: "owner", Ref: "r_1"})
	}))
	for _, by := range []operation.KeptByRef{{Principal: "guest", Ref: "r_1"}, {Principal: "owner", Ref: "r_2"}} {
		wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
			_, err := r.KeptResult(t.Context(), by)
			return err
		}), fault.NotFound, "result-unknown")
	}
}

func keepResult(t *testing.T, p Pair) {
	k := operation.Kept{Ref: "r_1", Principal: "owner", Media: "text/plain", SHA256: "aa", Made: uneven, Bytes: []byte("x")}
	for range 2 {
		change(t, p.Write, func(tx store.Tx) error {
			return tx.KeepResult(t.Context(), operation.KeepResult{Result: k})
		})
		k.Made = k.Made.Add(time.Hour)
	}
	got := read(t, p.Read, func(r store.Reader) (operation.Kept, error) {
		return r.KeptResult(t.Context(), operation.KeptByRef{Principal: "owner", Ref: "r_1"})
	})
	same(t, "the time of the last one", store.CutTime(uneven.Add(time.Hour)), got.Made)
}
