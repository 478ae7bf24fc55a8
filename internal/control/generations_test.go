package control

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// sealed puts generations into the store, the last one the newest, and audits about them.
func (b *bench) sealed(ctx context.Context, t *testing.T, all []workspace.Generation, audits ...workspace.Audit) {
	t.Helper()
	err := b.cfg.DB.Change(ctx, func(tx store.Tx) error {
		for _, g := range all {
			g.Principal, g.Created, g.Workspace, g.Rev = "ann", b.now, "ws_1", 1
			if err := tx.PutGeneration(ctx, workspace.PutGeneration{Generation: g}); err != nil {
				return err
			}
		}
		for _, a := range audits {
			if err := tx.PutAudit(ctx, workspace.PutAudit{Audit: a}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// someGenerations are a corrupt build with a verdict, a ready one and a rejected candidate.
func (b *bench) someGenerations(ctx context.Context, t *testing.T) {
	t.Helper()
	secret := []workspace.Validator{{Argv: []string{"check", "--token", "hunter2"}}}
	b.sealed(ctx, t, []workspace.Generation{
		{Candidate: "cand_1", ID: "b_1_0123456789ab", State: workspace.GenCorrupt, Ready: b.now, Corrupted: b.now},
		{Candidate: "cand_2", ID: "b_2_0123456789ab", State: workspace.GenReady, Ready: b.now, Validators: secret, Files: 2, Bytes: 3},
		{Candidate: "cand_3", ID: "b_3_0123456789ab", State: workspace.GenRejected, Why: workspace.RejectedValidation, Job: "job_3"},
	}, workspace.Audit{ID: "aud_1", Build: "b_1_0123456789ab", State: workspace.AuditDone, Verdict: workspace.Pass})
}

func TestGenerations(t *testing.T) {
	b, ctx := newBench(t)
	b.someGenerations(ctx, t)
	first, err := b.Generations(ctx, api.GenerationsQuery{Limit: 1})
	if err != nil || len(first.Generations) != 1 || first.Generations[0].Candidate != "cand_2" || first.Generations[0].Validators != nil || fmt.Sprint(first.Next) != "[mcpx generation show b_2_0123456789ab]" {
		t.Fatalf("the first page: %+v, %v", first, err)
	}
	more, err := b.Generations(ctx, api.GenerationsQuery{Before: first.Before})
	if err != nil || len(more.Generations) != 1 || more.Generations[0].Last != "evidence_lost" || more.Before != 0 {
		t.Errorf("the next page, with the verdict that lost its evidence: %+v, %v", more, err)
	}
	if all, err := b.Generations(ctx, api.GenerationsQuery{All: true}); err != nil || len(all.Generations) != 3 || all.Generations[0].ID != "" {
		t.Errorf("all; one that was rejected has no id of a build: %+v, %v", all, err)
	}
	if _, err := b.Generations(t.Context(), api.GenerationsQuery{}); fault.KindOf(err) != fault.Denied {
		t.Errorf("somebody else: %v", err)
	}
}

// TestGeneration: a build is found by a beginning of its id; its validators are those that the tool shows.
func TestGeneration(t *testing.T) {
	b, ctx := newBench(t)
	b.someGenerations(ctx, t)
	b.work.answers = map[string]operation.Answer{"generation_status": {OK: true, Data: json.RawMessage(`{"validators":[{"argv":["check","--token","[redacted]"],"passed":false,"job_id":"job_v"}]}`)}}
	view, err := b.Generation(ctx, api.GenerationRef{Build: "b_2"})
	if raw, _ := json.Marshal(view); err != nil || view.Candidate != "cand_2" || strings.Contains(string(raw), "hunter2") || !strings.Contains(string(raw), "[redacted]") {
		t.Errorf("a build: %s, %v", raw, err)
	}
	if view, err := b.Generation(ctx, api.GenerationRef{Build: "cand_3"}); err != nil || fmt.Sprint(view.Next) != "[mcpx job logs job_v --stream stderr]" {
		t.Errorf("a candidate whose validator failed leads to what that said: %v, %v", view.Next, err)
	}
	if view, err := b.Generation(ctx, api.GenerationRef{Build: "cand_1"}); err != nil || len(view.Audits) != 1 || !view.Audits[0].EvidenceLost {
		t.Errorf("a corrupt build: %+v, %v", view, err)
	}
	for ref, code := range map[string]string{"b_": "generation-ambiguous", "b_3": "generation-unknown", "b_9": "generation-unknown"} {
		if _, err := b.Generation(ctx, api.GenerationRef{Build: ref}); fault.From(err).Code != code {
			t.Errorf("%s: %v, want %s", ref, err, code)
		}
	}
}

// TestVerifyGeneration: the last line says whether every byte is that of the manifest, or what differs.
func TestVerifyGeneration(t *testing.T) {
	b, ctx := newBench(t)
	b.someGenerations(ctx, t)
	verified := func(a operation.Answer) (last api.GenerationCheck, err error) {
		b.work.answers = map[string]operation.Answer{"verify_generation": a}
		err = b.VerifyGeneration(ctx, api.GenerationRef{Build: "b_2"}, func(c api.GenerationCheck) error {
			last = c
			return nil
		})
		return last, err
	}
	if got, err := verified(operation.Answer{OK: true, Data: json.RawMessage(`{}`)}); err != nil || !got.Done || !got.Same || got.Read != 3 || got.Bytes != 3 || got.Difference != nil {
		t.Errorf("one that is the same: %+v, %v", got, err)
	}
	bad := operation.Refuse(workspace.BuildCorrupt, "other").With("difference", workspace.Difference{Changed: []string{"a"}})
	if got, err := verified(operation.Answer{Refusal: bad}); err != nil || !got.Done || got.Same || got.State != workspace.GenCorrupt || fmt.Sprint(got.Difference.Changed) != "[a]" {
		t.Errorf("one that is not: %+v, %v", got, err)
	}
	if _, err := verified(operation.Answer{Refusal: operation.Refuse(workspace.UnknownBuild, "released")}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("one whose bytes are gone: %v", err)
	}
}

// TestChangeGeneration: what is so already is said, and nothing is done.
func TestChangeGeneration(t *testing.T) {
	b, ctx := newBench(t)
	b.sealed(ctx, t, []workspace.Generation{{Candidate: "cand_1", ID: "b_1_0123456789ab", State: workspace.GenReady, Ready: b.now, Retained: true}})
	ctx = api.Under(ctx, "op-00001")
	if out, err := b.RetainGeneration(ctx, api.GenerationRef{Build: "b_1"}); err != nil || !out.Already || out.State != "already_retained" || len(b.work.calls) != 0 {
		t.Errorf("retained twice: %+v, %v, %v", out, err, b.work.calls)
	}
	b.work.answers = map[string]operation.Answer{"release_generation": {OK: true, Warnings: []string{"later"}}}
	out, err := b.ReleaseGeneration(ctx, api.GenerationRef{Build: "b_1"})
	if err != nil || out.State != "released" || fmt.Sprint(out.Warnings) != "[later]" || len(b.work.calls) != 1 || !strings.Contains(b.work.calls[0], `release_generation {"build_id":"b_1_0123456789ab","operation_id":"op-00001"}`) {
		t.Errorf("released: %+v, %v, %v", out, err, b.work.calls)
	}
}

// TestStartGeneration: a command that needs a person's yes waits, and the command that goes on with it is told.
func TestStartGeneration(t *testing.T) {
	b, ctx := newBench(t)
	b.packed(ctx, t, workspace.Workspace{ID: "ws_1", State: workspace.Open, Rev: 2})
	ctx = api.Under(ctx, "op-00001")
	b.work.answers = map[string]operation.Answer{
		"start_verified_workspace_producer": {OK: true, Data: json.RawMessage(`{"job_id":"job_1","state":"running","candidate_id":"cand_1"}`)},
		"start_verified_workspace_consumer": {Waiting: &operation.Waiting{Approval: "apr_1"}},
	}
	in := api.ProduceGeneration{Workspace: "ws_1", Argv: []string{"make"}, Outputs: []string{"out"}, Validators: []string{"test -s out/a"}}
	if out, err := b.ProduceGeneration(ctx, in); err != nil || out.State != api.GenerationStarts || out.Candidate != "cand_1" || out.Job != "job_1" {
		t.Errorf("a producer: %+v, %v", out, err)
	}
	const want = `start_verified_workspace_producer {"argv":["make"],"handle":"ws_1@2","operation_id":"op-00001","outputs":["out"],"validators":[{"argv":["sh","-c","test -s out/a"]}]}`
	if len(b.work.calls) != 1 || !strings.HasSuffix(b.work.calls[0], want) {
		t.Errorf("calls: %v", b.work.calls)
	}
	out, err := b.ConsumeGeneration(ctx, api.ConsumeGeneration{Build: "b_1_0123456789ab", Argv: []string{"check"}, Copy: true})
	if err != nil || out.State != api.GenerationWaits || out.Approval != "apr_1" || out.Next[1] != "mcpx generation consume b_1_0123456789ab --operation op-00001" {
		t.Errorf("a consumer that waits: %+v, %v", out, err)
	}
	for code, want := range map[operation.Code]fault.Kind{
		workspace.UnknownBuild: fault.NotFound, workspace.NotReady: fault.Busy, workspace.BuildCorrupt: fault.Conflict, workspace.BuildInUse: fault.Busy,
		operation.ToolDisabled: fault.Denied, workspace.StaleHandle: fault.Stale,
	} {
		if err := fault.From(refusedBuild(operation.Refuse(code, "it is so"))); err.Kind != want || err.Hint == "" {
			t.Errorf("%s: %v, want %s", code, err, want)
		}
	}
}
