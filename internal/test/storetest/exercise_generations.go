package storetest

import (
	"fmt"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// generationCases has one case for each method of the ports of the generations.
var generationCases = map[string]func(*testing.T, Pair){
	"GenerationByID": generationByID,
	"Generations":    generations,
	"PutGeneration":  putGeneration,
	"AuditByID":      auditByID,
	"Audits":         audits,
	"PutAudit":       putAudit,
}

func generationOf(n string, state workspace.GenerationState) workspace.Generation {
	code := 0
	return workspace.Generation{
		Candidate: "cand_" + n, ID: "b_" + n + "_0123456789ab", State: state, Why: "exit", Text: "it ended with 1", Principal: "owner", Project: "proj_1", Session: "rs_1", Workspace: "ws_1", Rev: 3,
		By: operation.Name{Namespace: "owner", ID: "op-" + n}, Producer: "prod_1", Job: "job_" + n, Argv: "aa", Env: "bb", Outputs: []string{"out"}, Inputs: []string{"b_0_aaaaaaaaaaaa"},
		Validators: []workspace.Validator{{Argv: []string{"test", "-f", "out"}, Timeout: 5, Job: "job_v", Code: &code, Passed: true}}, Validated: true, TreeHash: "cc", Files: 2, Bytes: 12,
		Dir: "/state/generations/b", Retained: true, Created: uneven, Sealed: uneven, Ready: uneven, Corrupted: uneven,
	}
}

func putGenerations(t *testing.T, p Pair, all ...workspace.Generation) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, g := range all {
			if err := tx.PutGeneration(t.Context(), workspace.PutGeneration{Generation: g}); err != nil {
				return err
			}
		}
		return nil
	})
}

func generationByID(t *testing.T, p Pair) {
	want := generationOf("1a", workspace.GenReady)
	early := generationOf("1b", workspace.GenCandidate)
	early.ID = ""
	later := generationOf("1c", workspace.GenCandidate)
	later.ID = "" // two that have no id yet
	putGenerations(t, p, want, early, later)
	find := func(id string) func(store.Reader) (workspace.Generation, error) {
		return func(r store.Reader) (workspace.Generation, error) {
			return r.GenerationByID(t.Context(), workspace.ByID{ID: id})
		}
	}
	cut := store.CutTime(uneven)
	want.Created, want.Sealed, want.Ready, want.Corrupted = cut, cut, cut, cut
	for _, id := range []string{want.ID, want.Candidate} {
		got := read(t, p.Read, find(id))
		want.Seq = got.Seq
		same(t, "what was put, by "+id, want, got)
	}
	same(t, "one that is not sealed", "cand_1b", read(t, p.Read, find("cand_1b")).Candidate)
	for _, id := range []string{"", "b_1a", "cand_", "cand_2"} { // no beginning is enough
		wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
			_, err := find(id)(r)
			return err
		}), fault.NotFound, "generation-unknown")
	}
}

func generations(t *testing.T, p Pair) {
	other := generationOf("c", workspace.GenSealing)
	other.Principal, other.Project, other.Workspace, other.Producer = "guest", "proj_2", "ws_2", "prod_2"
	putGenerations(t, p, generationOf("a", workspace.GenReady), generationOf("b", workspace.GenRejected), other)
	ids := func(l workspace.ListGenerations) (out []string) {
		for _, g := range read(t, p.Read, func(r store.Reader) ([]workspace.Generation, error) { return r.Generations(t.Context(), l) }) {
			out = append(out, g.Candidate)
		}
		return out
	}
	for _, c := range []struct {
		what string
		ask  workspace.ListGenerations
		want []string
	}{
		{"all, the newest first", workspace.ListGenerations{}, []string{"cand_c", "cand_b", "cand_a"}},
		{"of a principal", workspace.ListGenerations{Principal: "owner"}, []string{"cand_b", "cand_a"}},
		{"of a project", workspace.ListGenerations{Project: "proj_2"}, []string{"cand_c"}},
		{"of a workspace", workspace.ListGenerations{Workspace: "ws_2"}, []string{"cand_c"}},
		{"of a producer", workspace.ListGenerations{Producer: "prod_1"}, []string{"cand_b", "cand_a"}},
		{"in states", workspace.ListGenerations{States: []workspace.GenerationState{workspace.GenReady, workspace.GenSealing}}, []string{"cand_c", "cand_a"}},
		{"in a state of another project", workspace.ListGenerations{Project: "proj_2", States: []workspace.GenerationState{workspace.GenReady}}, nil},
	} {
		same(t, c.what, c.want, ids(c.ask))
	}
	first := read(t, p.Read, func(r store.Reader) ([]workspace.Generation, error) {
		return r.Generations(t.Context(), workspace.ListGenerations{Limit: 2})
	})
	putGenerations(t, p, generationOf("d", workspace.GenReady)) // between pages
	same(t, "the next page", []string{"cand_a"}, ids(workspace.ListGenerations{Before: first[1].Seq}))
	var many []workspace.Generation
	for i := range workspace.MaxPage {
		many = append(many, generationOf(fmt.Sprintf("x%04d", i), workspace.GenReady))
	}
	putGenerations(t, p, many...)
	same(t, "the largest page", workspace.MaxPage, len(ids(workspace.ListGenerations{Limit: 1 << 30})))
}

func putGeneration(t *testing.T, p Pair) {
	g := generationOf("1", workspace.GenCandidate)
	put := func() error {
		return p.Write.Change(t.Context(), func(tx store.Tx) error {
			return tx.PutGeneration(t.Context(), workspace.PutGeneration{Generation: g})
		})
	}
	for _, state := range []workspace.GenerationState{workspace.GenCandidate, workspace.GenReady, workspace.GenCorrupt, workspace.GenReleased, workspace.GenReleased} {
		g.State = state
		putGenerations(t, p, g)
	}
	g.State = workspace.GenReady
	wantFault(t, put(), fault.Conflict, "generation-final")
	g = generationOf("2", workspace.GenRejected)
	putGenerations(t, p, g)
	g.State = workspace.GenReady
	wantFault(t, put(), fault.Conflict, "generation-final")
}

func auditOf(n string, state workspace.AuditState) workspace.Audit {
	code := 1
	return workspace.Audit{
		ID: "aud_" + n, Build: "b_1_0123456789ab", TreeHash: "cc", State: state, Verdict: workspace.Fail, Why: "lost", Principal: "owner", Project: "proj_1",
		By: operation.Name{Namespace: "owner", ID: "op-" + n}, Job: "job_" + n, Argv: "aa", View: workspace.PrivateCopy, Code: &code, Pre: "cc", Post: "dd", Created: uneven, Ended: uneven,
	}
}

func putAudits(t *testing.T, p Pair, all ...workspace.Audit) {
	t.Helper()
	change(t, p.Write, func(tx store.Tx) error {
		for _, a := range all {
			if err := tx.PutAudit(t.Context(), workspace.PutAudit{Audit: a}); err != nil {
				return err
			}
		}
		return nil
	})
}

func auditByID(t *testing.T, p Pair) {
	want := auditOf("1", workspace.AuditRunning)
	putAudits(t, p, want)
	got := read(t, p.Read, func(r store.Reader) (workspace.Audit, error) {
		return r.AuditByID(t.Context(), workspace.ByID{ID: "aud_1"})
	})
	want.Created, want.Ended, want.Seq = store.CutTime(want.Created), store.CutTime(want.Ended), got.Seq
	same(t, "what was put", want, got)
	wantFault(t, p.Read.View(t.Context(), func(r store.Reader) error {
		_, err := r.AuditByID(t.Context(), workspace.ByID{ID: "aud_"})
		return err
	}), fault.NotFound, "audit-unknown")
}

func audits(t *testing.T, p Pair) {
	other := auditOf("c", workspace.AuditDone)
	other.Build = "b_2_0123456789ab"
	putAudits(t, p, auditOf("a", workspace.AuditRunning), auditOf("b", workspace.AuditLost), other)
	ids := func(l workspace.ListAudits) (out []string) {
		for _, a := range read(t, p.Read, func(r store.Reader) ([]workspace.Audit, error) { return r.Audits(t.Context(), l) }) {
			out = append(out, a.ID)
		}
		return out
	}
	same(t, "all, the newest first", []string{"aud_c", "aud_b", "aud_a"}, ids(workspace.ListAudits{}))
	same(t, "of a build", []string{"aud_b", "aud_a"}, ids(workspace.ListAudits{Build: "b_1_0123456789ab"}))
	same(t, "under way", []string{"aud_a"}, ids(workspace.ListAudits{States: workspace.AuditsUnderWay}))
	first := read(t, p.Read, func(r store.Reader) ([]workspace.Audit, error) {
		return r.Audits(t.Context(), workspace.ListAudits{Limit: 2})
	})
	putAudits(t, p, auditOf("d", workspace.AuditBound)) // between pages
	same(t, "the next page", []string{"aud_a"}, ids(workspace.ListAudits{Before: first[1].Seq}))
	var many []workspace.Audit
	for i := range workspace.MaxPage {
		many = append(many, auditOf(fmt.Sprintf("x%04d", i), workspace.AuditDone))
	}
	putAudits(t, p, many...)
	same(t, "the largest page", workspace.MaxPage, len(ids(workspace.ListAudits{Limit: 1 << 30})))
}

func putAudit(t *testing.T, p Pair) {
	a := auditOf("1", workspace.AuditBound)
	for _, state := range []workspace.AuditState{workspace.AuditBound, workspace.AuditVerified, workspace.AuditRunning, workspace.AuditDone} {
		a.State = state
		putAudits(t, p, a)
	}
	wantFault(t, p.Write.Change(t.Context(), func(tx store.Tx) error { // not even as it is
		return tx.PutAudit(t.Context(), workspace.PutAudit{Audit: a})
	}), fault.Conflict, "audit-final")
}
