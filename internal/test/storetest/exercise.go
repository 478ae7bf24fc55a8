package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// Pair is two handles on one store: the suite writes with one and reads with the other, so a store that only looks
// right to its writer fails. They may be the same.
type Pair struct{ Write, Read store.DB }

// Exercise runs the whole suite; open gives a fresh, empty store to each case.
func Exercise(t *testing.T, open func(t *testing.T) Pair) {
	t.Helper()
	// One case for each method of the ports, named after it.
	methods := map[string]func(*testing.T, Pair){
		"Servers":       servers,
		"ServerByName":  serverByName,
		"ServerByID":    serverByID,
		"PutServer":     putServer,
		"DeleteServer":  deleteServer,
		"Sessions":      sessions,
		"PutSession":    putSession,
		"DeleteSession": deleteSession,
		"Epoch":         epoch,
		"RaiseEpoch":    raiseEpoch,

		"Events":           events,
		"EventHead":        eventHead,
		"AppendEvent":      appendEvent,
		"Approvals":        approvals,
		"ApprovalByID":     approvalByID,
		"PutApproval":      putApproval,
		"Plans":            plans,
		"PlanByID":         planByID,
		"PutPlan":          putPlan,
		"Receipts":         receipts,
		"ReceiptByID":      receiptByID,
		"PutReceipt":       putReceipt,
		"AgentRecords":     agentRecords,
		"PutAgentRecord":   putAgentRecord,
		"FileRecords":      fileRecords,
		"PutFileRecord":    putFileRecord,
		"DeleteFileRecord": deleteFileRecord,
	}
	maps.Copy(methods, stagedCases)
	maps.Copy(methods, tokenCases)
	maps.Copy(methods, delegationCases)
	maps.Copy(methods, operationCases)
	maps.Copy(methods, jobCases)
	maps.Copy(methods, workspaceCases)
	maps.Copy(methods, generationCases)
	maps.Copy(methods, credentialCases)
	maps.Copy(methods, remoteCases)
	maps.Copy(methods, retentionCases)
	for _, port := range []reflect.Type{reflect.TypeFor[store.Tx](), reflect.TypeFor[store.Reader]()} {
		for m := range port.Methods() {
			if methods[m.Name] == nil {
				t.Errorf("%s.%s has no case in storetest", port, m.Name)
			}
		}
	}
	cases := map[string]func(*testing.T, Pair){
		"undone-on-error": undoneOnError,
		"undone-on-panic": undoneOnPanic,
		"snapshot":        snapshot,
		"serial-changes":  serialChanges,
		"serial-events":   serialEvents,
		"one-commit":      oneCommit,
		"cancelled":       cancelled,
		"announced":       announced,
	}
	for _, group := range []map[string]func(*testing.T, Pair){methods, cases} {
		for name, run := range group {
			t.Run(name, func(t *testing.T) { run(t, open(t)) })
		}
	}
}

// server is an entry with every field set to something that a careless store would lose.
func server(id, name string, aliases ...string) catalog.Server {
	at := time.Date(2026, 11, 29, 12, 30, 1, 123456789, time.FixedZone("east", 3600))
	return catalog.Server{
		ID: id, Name: name, Aliases: aliases, Title: "Ünïcode <&> \u2028", Notes: "two\nlines",
		Stdio: &catalog.Stdio{
			Command: "/opt/with space/run", Args: []string{"-y", "", "ü", "<&>"}, Cwd: "/tmp",
			Env:     map[string]catalog.Binding{"A": {Literal: "1"}, "B": {Ref: "env:B"}, "C": {Template: "x{env:C}"}},
			EnvPass: []string{"HOME"},
		},
		Sharing: catalog.ShareWorkspace, Direct: true, Protocol: catalog.ProtocolLegacy, IDStyle: "int", Stateful: true,
		Retry: "idempotent", OnChange: catalog.OnChangeKeep, Limits: catalog.Limits{Start: time.Second, Call: 2, Max: 3, Idle: -1},
		Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled, Source: "operator", Created: at, Updated: at.Add(time.Hour),
	}
}

// stored is the entry as the port promises to give it back.
func stored(s catalog.Server) catalog.Server {
	s.Created, s.Updated = store.CutTime(s.Created), store.CutTime(s.Updated)
	return s
}

func change(t *testing.T, db store.DB, fn func(store.Tx) error) {
	t.Helper()
	if err := db.Change(t.Context(), fn); err != nil {
		t.Fatalf("Change: %v", err)
	}
}

func put(t *testing.T, db store.DB, all ...catalog.Server) {
	t.Helper()
	change(t, db, func(tx store.Tx) error {
		for _, s := range all {
			if err := tx.PutServer(t.Context(), catalog.PutServer{Server: s}); err != nil {
				return err
			}
		}
		return nil
	})
}

// read gives the result of one View.
func read[T any](t *testing.T, db store.DB, fn func(store.Reader) (T, error)) T {
	t.Helper()
	var out T
	if err := db.View(t.Context(), func(r store.Reader) (err error) {
		out, err = fn(r)
		return err
	}); err != nil {
		t.Fatalf("View: %v", err)
	}
	return out
}

func names(t *testing.T, db store.DB) []string {
	t.Helper()
	var out []string
	for _, s := range read(t, db, func(r store.Reader) ([]catalog.Server, error) { return catalog.All(t.Context(), r) }) {
		out = append(out, s.Name)
	}
	return out
}

func same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func wantFault(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != kind || f.Code != code {
		t.Errorf("error %v, want %s %s", err, kind, code)
	}
}

func servers(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_3", "b"), server("srv_1", "a"), server("srv_2", "B"), server("srv_4", "c", "aa"))
	list := func(l catalog.ListServers) (out []string) {
		for _, s := range read(t, p.Read, func(r store.Reader) ([]catalog.Server, error) { return r.Servers(t.Context(), l) }) {
			out = append(out, s.Name)
		}
		return out
	}
	same(t, "all", []string{"B", "a", "b", "c"}, list(catalog.ListServers{}))
	same(t, "first page", []string{"B", "a"}, list(catalog.ListServers{Limit: 2}))
	same(t, "second page", []string{"b", "c"}, list(catalog.ListServers{After: "a", Limit: 2}))
	// A page does not move when entries before it come or go.
	change(t, p.Write, func(tx store.Tx) error {
		return tx.DeleteServer(t.Context(), catalog.DeleteServer{ID: "srv_1"})
	})
	same(t, "page after a deleted entry", []string{"b", "c"}, list(catalog.ListServers{After: "a", Limit: 2}))

	var many []catalog.Server
	for i := range catalog.MaxServerPage + 5 {
		many = append(many, server(fmt.Sprintf("srv_x%d", i), fmt.Sprintf("x%04d", i)))
	}
	put(t, p.Write, many...)
	if n := len(list(catalog.ListServers{Limit: 1 << 30})); n != catalog.MaxServerPage {
		t.Errorf("a page holds %d entries, want at most %d", n, catalog.MaxServerPage)
	}
	if n := len(names(t, p.Read)); n != len(many)+3 {
		t.Errorf("All gives %d entries, want %d", n, len(many)+3)
	}
}

func serverByName(t *testing.T, p Pair) {
	want := server("srv_1", "git", "vcs", "scm")
	put(t, p.Write, want, server("srv_2", "other"))
	for _, name := range []string{"git", "vcs", "scm"} {
		same(t, name, stored(want), read(t, p.Read, func(r store.Reader) (catalog.Server, error) {
			return r.ServerByName(t.Context(), catalog.ServerByName{Name: name})
		}))
	}
	for _, name := range []string{"Git", "", "gi", "srv_1"} {
		err := p.Read.View(t.Context(), func(r store.Reader) error {
			_, err := r.ServerByName(t.Context(), catalog.ServerByName{Name: name})
			return err
		})
		wantFault(t, err, fault.NotFound, "server-unknown")
	}
}

func serverByID(t *testing.T, p Pair) {
	http := server("srv_2", "remote")
	http.Stdio = nil
	http.HTTP = &catalog.HTTP{
		URL: "https://example.com/mcp?a=1&b=2", Transport: catalog.TransportSSE,
		Headers: map[string]catalog.Binding{"Authorization": {Template: "Bearer {env:T}"}},
	}
	http.Created, http.Updated = time.Time{}, time.Time{}
	put(t, p.Write, server("srv_1", "local"), http)
	same(t, "http entry", stored(http), read(t, p.Read, func(r store.Reader) (catalog.Server, error) {
		return r.ServerByID(t.Context(), catalog.ServerByID{ID: "srv_2"})
	}))
	wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
		_, err := r.ServerByID(t.Context(), catalog.ServerByID{ID: "local"})
		return err
	}), fault.NotFound, "server-unknown")
}

func putServer(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "git", "vcs"), server("srv_2", "web"))
	clash := func(s catalog.Server) error {
		return p.Write.Change(t.Context(), func(tx store.Tx) error {
			return tx.PutServer(t.Context(), catalog.PutServer{Server: s})
		})
	}
	for what, s := range map[string]catalog.Server{
		"name is a name":    server("srv_9", "git"),
		"name is an alias":  server("srv_9", "vcs"),
		"alias is a name":   server("srv_9", "new", "web"),
		"alias is an alias": server("srv_9", "new", "vcs"),
		"rename to a name":  server("srv_2", "git"),
	} {
		t.Run(what, func(t *testing.T) { wantFault(t, clash(s), fault.Conflict, "server-exists") })
	}
	same(t, "after the clashes", []string{"git", "web"}, names(t, p.Read))

	// A rename frees the old name, swaps name and alias freely, and keeps the id.
	put(t, p.Write, server("srv_1", "vcs", "git2"))
	put(t, p.Write, server("srv_3", "git"))
	same(t, "after a rename", []string{"git", "vcs", "web"}, names(t, p.Read))

	// What the store keeps is not shared with the caller.
	s := server("srv_4", "own")
	put(t, p.Write, s)
	s.Stdio.Args[0] = "changed later"
	got := read(t, p.Read, func(r store.Reader) (catalog.Server, error) {
		return r.ServerByID(t.Context(), catalog.ServerByID{ID: "srv_4"})
	})
	same(t, "args", "-y", got.Stdio.Args[0])
}

func deleteServer(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "git", "vcs"), server("srv_2", "web"))
	change(t, p.Write, func(tx store.Tx) error {
		return tx.PutSession(t.Context(), store.PutSession{Session: transportSession("s1", "srv_1")})
	})
	change(t, p.Write, func(tx store.Tx) error {
		return tx.DeleteServer(t.Context(), catalog.DeleteServer{ID: "srv_1"})
	})
	same(t, "left", []string{"web"}, names(t, p.Read))
	if all := listSessions(t, p.Read, store.ListSessions{}); len(all) != 0 {
		t.Errorf("sessions of a deleted server are left: %v", all)
	}
	put(t, p.Write, server("srv_3", "vcs"), server("srv_4", "git")) // both names are free again
	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
		return tx.DeleteServer(t.Context(), catalog.DeleteServer{ID: "srv_1"})
	}), fault.NotFound, "server-unknown")
}

func transportSession(id, server string) store.Session {
	return store.Session{
		ID: id, Server: server, Principal: "owner", Agent: "codex", Workspace: "/w", Instance: "i1", Version: "2025-11-25", Lane: server + "/session/" + id,
		Initial: []byte("{\"n\":9007199254740993,\"bad\":\"\xff\x00\"}"), Answer: []byte(`{"b":1,"a":2}`), Setup: []byte(`{"level":3}`),
		Created: time.Date(2026, 1, 2, 3, 4, 5, 999999999, time.UTC),
	}
}

func listSessions(t *testing.T, db store.DB, l store.ListSessions) []store.Session {
	t.Helper()
	return read(t, db, func(r store.Reader) ([]store.Session, error) { return r.Sessions(t.Context(), l) })
}

func putSessions(t *testing.T, db store.DB, all ...store.Session) {
	t.Helper()
	change(t, db, func(tx store.Tx) error {
		for _, s := range all {
			if err := tx.PutSession(t.Context(), store.PutSession{Session: s}); err != nil {
				return err
			}
		}
		return nil
	})
}

func sessions(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"), server("srv_2", "two"))
	putSessions(t, p.Write, transportSession("z", "srv_1"), transportSession("y", "srv_2"), transportSession("x", "srv_1"))
	ids := func(l store.ListSessions) (out []string) {
		for _, s := range listSessions(t, p.Read, l) {
			out = append(out, s.ID)
		}
		return out
	}
	same(t, "all", []string{"z", "y", "x"}, ids(store.ListSessions{}))
	same(t, "of one server", []string{"z", "x"}, ids(store.ListSessions{Server: "srv_1"}))
	first := listSessions(t, p.Read, store.ListSessions{Limit: 1})
	if len(first) != 1 {
		t.Fatalf("a page of one holds %d", len(first))
	}
	same(t, "next page", []string{"y", "x"}, ids(store.ListSessions{After: first[0].Seq}))
	same(t, "next page of one server", []string{"x"}, ids(store.ListSessions{Server: "srv_1", After: first[0].Seq}))

	var many []store.Session
	for i := range store.MaxSessionPage + 3 {
		many = append(many, transportSession(fmt.Sprintf("m%d", i), "srv_2"))
	}
	putSessions(t, p.Write, many...)
	if n := len(ids(store.ListSessions{Limit: 1 << 30})); n != store.MaxSessionPage {
		t.Errorf("a page holds %d sessions, want at most %d", n, store.MaxSessionPage)
	}
	all := read(t, p.Read, func(r store.Reader) ([]store.Session, error) { return store.AllSessions(t.Context(), r) })
	if len(all) != len(many)+3 {
		t.Errorf("AllSessions gives %d, want %d", len(all), len(many)+3)
	}
}

func putSession(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"))
	want := transportSession("s", "srv_1")
	putSessions(t, p.Write, want, transportSession("later", "srv_1"))
	want.Created = store.CutTime(want.Created)
	got := listSessions(t, p.Read, store.ListSessions{Limit: 1})[0]
	if got.Seq == 0 {
		t.Error("Seq is 0, want a number given by the store")
	}
	want.Seq = got.Seq
	same(t, "first put", want, got)

	again := want
	again.Lane, again.Answer, again.Created, again.Seq = "elsewhere", nil, time.Now(), 77
	putSessions(t, p.Write, again)
	again.Created, again.Seq = want.Created, want.Seq
	same(t, "second put", again, listSessions(t, p.Read, store.ListSessions{Limit: 1})[0])

	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutSession(t.Context(), store.PutSession{Session: transportSession("lost", "srv_unknown")})
	}), fault.NotFound, "server-unknown")
}

func deleteSession(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"))
	putSessions(t, p.Write, transportSession("a", "srv_1"), transportSession("b", "srv_1"))
	last := listSessions(t, p.Read, store.ListSessions{})[1].Seq
	drop := func(id string) {
		change(t, p.Write, func(tx store.Tx) error {
			return tx.DeleteSession(t.Context(), store.DeleteSession{ID: id})
		})
	}
	drop("b")
	drop("b") // a second DELETE of the client is no error
	putSessions(t, p.Write, transportSession("c", "srv_1"))
	got := listSessions(t, p.Read, store.ListSessions{After: last})
	if len(got) != 1 || got[0].ID != "c" {
		t.Errorf("after %d came %v; want c with a new Seq, though b was the last and is gone", last, got)
	}
}

func epoch(t *testing.T, p Pair) {
	get := func(r store.Reader) (store.Epoch, error) { return r.Epoch(t.Context()) }
	same(t, "fresh store", store.Epoch(0), read(t, p.Read, get))
}

func raiseEpoch(t *testing.T, p Pair) {
	for want := store.Epoch(1); want < 4; want++ {
		change(t, p.Write, func(tx store.Tx) error {
			got, err := tx.RaiseEpoch(t.Context())
			same(t, "raised", want, got)
			return err
		})
		same(t, "read", want, read(t, p.Read, func(r store.Reader) (store.Epoch, error) { return r.Epoch(t.Context()) }))
	}
}

func undoneOnError(t *testing.T, p Pair) {
	stop := errors.New("stop")
	err := p.Write.Change(t.Context(), func(tx store.Tx) error {
		if err := tx.PutServer(t.Context(), catalog.PutServer{Server: server("srv_1", "one")}); err != nil {
			return err
		}
		if _, err := tx.RaiseEpoch(t.Context()); err != nil {
			return err
		}
		// A Change reads its own writes.
		if _, err := tx.ServerByName(t.Context(), catalog.ServerByName{Name: "one"}); err != nil {
			return err
		}
		return stop
	})
	if !errors.Is(err, stop) {
		t.Fatalf("Change gives %v, want the error of fn", err)
	}
	same(t, "servers", nil, names(t, p.Read))
	same(t, "epoch", 0, read(t, p.Read, func(r store.Reader) (store.Epoch, error) { return r.Epoch(t.Context()) }))
}

func undoneOnPanic(t *testing.T, p Pair) {
	func() {
		defer func() { same[any](t, "panic", "boom", recover()) }()
		_ = p.Write.Change(t.Context(), func(tx store.Tx) error {
			if err := tx.PutServer(t.Context(), catalog.PutServer{Server: server("srv_1", "one")}); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
	}()
	same(t, "servers", nil, names(t, p.Read))
	put(t, p.Write, server("srv_2", "two")) // the writer is free again
	same(t, "servers", []string{"two"}, names(t, p.Read))
}

// snapshot: what commits while a View runs is not seen by it.
func snapshot(t *testing.T, p Pair) {
	put(t, p.Write, server("srv_1", "one"))
	err := p.Read.View(t.Context(), func(r store.Reader) error {
		before, err := catalog.All(t.Context(), r)
		if err != nil {
			return err
		}
		put(t, p.Write, server("srv_2", "two"))
		after, err := catalog.All(t.Context(), r)
		same(t, "one View", before, after)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "next View", []string{"one", "two"}, names(t, p.Read))
}

// serialChanges: no lost update, whichever handle writes.
func serialChanges(t *testing.T, p Pair) {
	const each = 20
	var wg sync.WaitGroup
	for _, db := range []store.DB{p.Write, p.Read, p.Write, p.Read} {
		wg.Go(func() {
			for range each {
				if err := db.Change(t.Context(), func(tx store.Tx) error {
					_, err := tx.RaiseEpoch(t.Context())
					return err
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	same(t, "epoch", 4*each, read(t, p.Read, func(r store.Reader) (store.Epoch, error) { return r.Epoch(t.Context()) }))
}

// announced: a Change that commits is told to whoever waits, and one that is undone is not.
func announced(t *testing.T, p Pair) {
	told := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	c := p.Write.Changed()
	if err := p.Write.Change(t.Context(), func(store.Tx) error { return errors.New("no") }); err == nil || told(c) {
		t.Errorf("a change that was undone: %v, told", err)
	}
	change(t, p.Write, func(tx store.Tx) error { _, err := tx.RaiseEpoch(t.Context()); return err })
	if !told(c) || told(p.Write.Changed()) {
		t.Error("a commit is told once, to those who waited for it")
	}
}

// cancelled: a caller that has left gets no turn, and one that leaves in the middle does not tear a Change.
func cancelled(t *testing.T, p Pair) {
	gone, leave := context.WithCancel(t.Context())
	leave()
	wantFault(t, p.Write.Change(gone, func(store.Tx) error {
		t.Error("fn ran for a caller that had left")
		return nil
	}), fault.Canceled, "store-wait")
	wantFault(t, p.Read.View(gone, func(store.Reader) error {
		t.Error("fn ran for a caller that had left")
		return nil
	}), fault.Canceled, "store-wait")

	ctx, leave := context.WithCancel(t.Context())
	err := p.Write.Change(ctx, func(tx store.Tx) error {
		leave()
		return tx.PutServer(ctx, catalog.PutServer{Server: server("srv_1", "one")})
	})
	if err != nil {
		t.Errorf("Change of a caller that left in the middle: %v, want it finished", err)
	}
	same(t, "servers", []string{"one"}, names(t, p.Read))
}
