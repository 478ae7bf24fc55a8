package control

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/api"
	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// fakeTarget is a target with one file for each path, whose content is a text. An apply writes the text of the change's
// result.
type fakeTarget struct {
	files   map[string]string
	fail    error // of the next apply
	applied []string
	recover bool // what Recover decides
	clash   converge.Conflicts
	// meanwhile is what happens between a look at the files and the draft of a change; nil nothing.
	meanwhile func()
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func (f *fakeTarget) Read(converge.Look) converge.Drafter { return f }

func (f *fakeTarget) Draft(_ context.Context, d converge.Drafting) (converge.Change, error) {
	if f.meanwhile != nil {
		f.meanwhile()
	}
	old := f.files[d.Path]
	next := old
	for _, s := range d.Steps {
		switch s.Op {
		case converge.StepSet:
			next = "routed " + s.Name
		case converge.StepRevert:
			if f.clash != nil && !s.Merge {
				return converge.Change{}, fault.New(fault.Stale, "changed-since").Saying("changed")
			}
			if f.clash != nil {
				return converge.Change{}, fault.New(fault.Conflict, "merge-conflict").Saying("cannot be joined").Because(f.clash)
			}
			next = strings.TrimPrefix(d.Reverts.Diff, "was ")
		case converge.StepRemove, converge.StepRef, converge.StepFile:
			return converge.Change{}, fault.New(fault.Invalid, "unsupported-file").Saying("not here")
		}
	}
	c := converge.Change{
		Agent: d.Agent, Path: d.Path, Real: d.Path, Scope: "user", Steps: d.Steps, Expected: converge.Expected{SHA256: hashOf(old)},
		Result: hashOf(next), Diff: "-" + old + "\n+" + next + "\n",
	}
	if next != old {
		c.Edits = []converge.Edit{{End: len(old), Kind: "replace", SHA256: hashOf(next)}}
	}
	return c, nil
}

func (f *fakeTarget) Apply(_ context.Context, _ converge.Look, receipt string, changes []converge.Change, _ []converge.Receipt) ([]converge.Written, error) {
	f.applied = append(f.applied, receipt)
	if err := f.fail; err != nil {
		f.fail = nil
		return nil, err
	}
	var out []converge.Written
	for _, c := range changes {
		old := f.files[c.Path]
		if hashOf(old) != c.Expected.SHA256 {
			return nil, fault.New(fault.Stale, "file-changed").Saying("%s has changed", c.Path)
		}
		_, next, _ := strings.Cut(c.Diff, "\n+")
		f.files[c.Path] = strings.TrimSuffix(next, "\n")
		out = append(out, converge.Written{Path: c.Path, Real: c.Path, Before: c.Expected, After: converge.Expected{SHA256: c.Result}, Backup: "0", Diff: "was " + old, Verified: "parsed"})
	}
	return out, nil
}

func (f *fakeTarget) Recover(context.Context, converge.Look, string, []converge.Change) ([]converge.Written, bool, []converge.Problem, error) {
	return nil, f.recover, nil, nil
}

const claudeFile = "/h/.claude.json"

// sees makes the observation that fits the file of the target: a direct entry of the server a, or one that is routed.
func (b *bench) sees(text string) {
	b.target.files = map[string]string{claudeFile: text}
	b.look()
}

func (b *bench) look() {
	text := b.target.files[claudeFile]
	e := converge.Entry{
		Agent: "claude_code", Name: "a", File: claudeFile, Scope: "user", At: []string{"mcpServers", "a"}, Enabled: true, Transport: "stdio", Command: "x",
		Args: []string{}, Variables: []string{}, Headers: []string{}, Auth: "none", Parse: "complete", Problems: []converge.Problem{}, ID: "obs_a", Digest: hashOf(text),
	}
	if name, ok := strings.CutPrefix(text, "routed "); ok {
		e.Command, e.Transport, e.URL = "", "http", "http://127.0.0.1:30000/servers/"+name+"/mcp"
		e.Routed = &converge.Routed{State: converge.RoutedHere, Server: name, Form: "http"}
	} else {
		p, _ := catalog.IdentifyCommand("x", nil)
		e.Package = &p
	}
	b.observed = converge.Observation{
		Files: []converge.File{{
			Agent: "claude_code", Path: claudeFile, Real: claudeFile, Scope: "user", Rule: "default", Format: "json", State: converge.FileReadable, Entries: 1,
			SHA256: hashOf(text), Problems: []converge.Problem{},
		}},
		Entries: []converge.Entry{e},
	}
}

// governed is a bench with a server, a managed agent and a direct entry.
func governedBench(t *testing.T) (*bench, context.Context) {
	t.Helper()
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("a", "x"))
	if _, err := b.SetAgent(ctx, api.SetAgent{Agent: "claude_code", Level: converge.LevelManaged}); err != nil {
		t.Fatal(err)
	}
	b.sees("direct")
	return b, ctx
}

func (b *bench) audit(ctx context.Context, t *testing.T) api.Audit {
	t.Helper()
	b.look()
	out, err := b.RunAudit(ctx, api.RunAudit{})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// offered is the only plan of an audit.
func (b *bench) offered(ctx context.Context, t *testing.T) api.PlanRow {
	t.Helper()
	out := b.audit(ctx, t)
	if len(out.Plans) != 1 {
		t.Fatalf("plans %+v, want one; entries %+v", out.Plans, out.Entries)
	}
	return out.Plans[0]
}

func (b *bench) approve(ctx context.Context, t *testing.T, id string) {
	t.Helper()
	view, err := b.Approval(ctx, api.ApprovalRef{Approval: id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Decide(ctx, api.Decide{Approval: id, Approve: true, Digest: view.Subject}); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) kinds(ctx context.Context, t *testing.T) []string {
	t.Helper()
	var kinds []string
	if err := b.Events(ctx, api.EventsQuery{}, func(e event.Event) error {
		if !strings.HasPrefix(string(e.Kind), "catalog.") { // told where they are tested
			kinds = append(kinds, string(e.Kind))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return kinds
}

// TestRollBackMerges: a rollback that is in the way of what was written since names --merge, and what that cannot join is
// shown and never offered.
func TestRollBackMerges(t *testing.T) {
	b, ctx := governedBench(t)
	plan := b.offered(ctx, t)
	b.approve(ctx, t, plan.Approval)
	done, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
	if err != nil {
		t.Fatal(err)
	}
	b.target.clash = converge.Conflicts{{Path: claudeFile, At: []string{"mcpServers", "a", "url"}, Applied: `"u"`, Now: `"v"`}}
	again := "mcpx rollback " + done.Receipt.ID + " --merge"
	plainly, err := b.RollBack(ctx, api.RollBack{Receipt: done.Receipt.ID})
	if err != nil || plainly.State != converge.PlanErrored || plainly.Problems[0].Code != "changed-since" || plainly.Conflicts != nil || !slices.Equal(plainly.Next, []string{again}) {
		t.Errorf("%+v %v", plainly, err)
	}
	merged, err := b.RollBack(ctx, api.RollBack{Receipt: done.Receipt.ID, Merge: true})
	if err != nil || merged.State != converge.PlanErrored || merged.Problems[0].Code != "merge-conflict" || len(merged.Conflicts) != 1 || merged.Asked != nil || !slices.Equal(merged.Next, []string{again}) {
		t.Errorf("%+v %v", merged, err)
	}
	if view, err := b.Plan(ctx, api.PlanRef{Plan: plainly.ID}); err != nil || view.State != converge.PlanSuperseded {
		t.Errorf("the plan before: %s %v", view.State, err)
	}
	if _, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: merged.ID}); fault.From(err).Code != "plan-errored" {
		t.Errorf("applied: %v", err)
	}
	b.target.clash = nil // somebody has made the place what it was
	back, err := b.RollBack(ctx, api.RollBack{Receipt: done.Receipt.ID, Merge: true})
	if err != nil || back.State != converge.PlanReady || back.Asked == nil || !back.Changes[0].Steps[0].Merge {
		t.Fatalf("%+v %v", back, err)
	}
	b.approve(ctx, t, back.Approval)
	if out, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: back.ID}); err != nil || b.target.files[claudeFile] != "direct" {
		t.Errorf("%+v %v", out, err)
	}
}

// TestApplyPlans: each plan of an order is applied or refused for itself.
func TestApplyPlans(t *testing.T) {
	b, ctx := governedBench(t)
	for _, in := range []api.ApplyPlans{{}, {Plans: []string{"plan_a"}, Approved: true}, {Plans: make([]string, api.MaxPlans+1)}} {
		_, err := b.ApplyPlans(ctx, in)
		if f := fault.From(err); f == nil || f.Code != "request-invalid" {
			t.Errorf("%d plans, approved %v: %v", len(in.Plans), in.Approved, err)
		}
	}
	plan := b.offered(ctx, t)
	out, err := b.ApplyPlans(ctx, api.ApplyPlans{Approved: true})
	if err != nil || len(out.Applied)+len(out.Refused) != 0 || !slices.Equal(out.Next, []string{"mcpx approval list"}) {
		t.Errorf("nothing is approved: %+v %v", out, err)
	}
	if out, err = b.ApplyPlans(ctx, api.ApplyPlans{Plans: []string{plan.ID}}); err != nil || len(out.Refused) != 1 || out.Refused[0].Problem.Code != "approval-pending" {
		t.Errorf("nobody said yes: %+v %v", out, err)
	}
	b.approve(ctx, t, plan.Approval)
	b.target.fail = fault.New(fault.UnknownOutcome, "apply-undecided").Saying("cut off")
	if out, err = b.ApplyPlans(ctx, api.ApplyPlans{Plans: []string{plan.ID, "plan_none"}}); err != nil || len(out.Refused) != 1 {
		t.Errorf("what is undecided ends the order: %+v %v", out, err)
	}
	b, ctx = governedBench(t)
	plan = b.offered(ctx, t)
	b.approve(ctx, t, plan.Approval)
	out, err = b.ApplyPlans(ctx, api.ApplyPlans{Plans: []string{"plan_none", plan.ID, plan.ID}})
	if err != nil || len(out.Refused) != 1 || out.Refused[0].Problem.Code != "plan-unknown" || len(out.Applied) != 2 || !out.Applied[1].Already || b.target.files[claudeFile] != "routed a" {
		t.Errorf("%+v %v", out, err)
	}
}

// TestWrote: what receipts wrote as mcpx is known again after a restart, and right after an apply.
func TestWrote(t *testing.T) {
	b, ctx := governedBench(t)
	bridge := func(path string) []converge.Step {
		return []converge.Step{{Op: converge.StepSet, Name: "a", Want: &converge.Form{Kind: converge.FormBridge, Server: "a", Command: path}}}
	}
	put := func(r converge.Receipt) {
		t.Helper()
		if err := b.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutReceipt(ctx, converge.PutReceipt{Receipt: r}) }); err != nil {
			t.Fatal(err)
		}
	}
	put(converge.Receipt{ID: "rcp_1", Plan: "plan_1", State: converge.ReceiptApplied, Files: []converge.Written{{Steps: bridge("/old/gateway")}, {Steps: bridge("/old/gateway")}}})
	put(converge.Receipt{ID: "rcp_2", Plan: "plan_2", State: converge.ReceiptRolledBack, Files: []converge.Written{{Steps: bridge("/older/gw")}, {}}})
	if b.Wrote() != nil {
		t.Errorf("before it has started: %q", b.Wrote())
	}
	if err := b.RecoverApplies(ctx); err != nil {
		t.Fatal(err)
	}
	wrote := b.Wrote()
	slices.Sort(wrote)
	if !slices.Equal(wrote, []string{"/old/gateway", "/older/gw"}) {
		t.Errorf("%q", wrote)
	}
}

// refusedWith checks the code of an error.
func refusedWith(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	if f := fault.From(err); f == nil || f.Kind != kind || f.Code != code || f.Hint == "" {
		t.Errorf("got %+v, want %s %s with a hint", f, kind, code)
	}
}

func TestGovernanceFlow(t *testing.T) {
	b, ctx := governedBench(t)
	first := b.audit(ctx, t)
	if first.Made != 1 || len(first.Plans) != 1 || first.Plans[0].State != converge.PlanReady || first.Plans[0].Approved != approval.Pending || first.Events == 0 {
		t.Fatalf("the first audit: %+v", first)
	}
	if len(first.Next) == 0 || first.Next[0] != "mcpx plan show "+first.Plans[0].ID {
		t.Errorf("next %v", first.Next)
	}
	second := b.audit(ctx, t)
	if second.Events != 0 || second.Made != 0 || second.Plans[0].ID != first.Plans[0].ID || second.Plans[0].Approval != first.Plans[0].Approval {
		t.Errorf("the second audit: %+v", second)
	}
	plan := first.Plans[0]
	_, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
	refusedWith(t, err, fault.NeedsApproval, "approval-pending")

	b.approve(ctx, t, plan.Approval)
	done, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID[:12]})
	if err != nil {
		t.Fatal(err)
	}
	if done.State != "applied" || done.Already || done.Receipt.State != converge.ReceiptApplied || b.target.files[claudeFile] != "routed a" {
		t.Errorf("%+v, file %q", done, b.target.files[claudeFile])
	}
	again, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
	if err != nil || again.State != "already_applied" || !again.Already || again.Receipt.ID != done.Receipt.ID || len(b.target.applied) != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
	if out := b.audit(ctx, t); len(out.Plans) != 0 || out.Counts[converge.Compliant] != 1 {
		t.Errorf("after the apply: %+v", out)
	}

	back, err := b.RollBack(ctx, api.RollBack{Receipt: done.Receipt.ID})
	if err != nil {
		t.Fatal(err)
	}
	if back.Kind != converge.PlanRollback || back.Asked == nil || back.Asked.State != approval.Pending {
		t.Fatalf("%+v", back)
	}
	same, err := b.RollBack(ctx, api.RollBack{Receipt: plan.ID})
	if err != nil || same.ID != back.ID || !same.Already {
		t.Errorf("asked again: %+v, %v", same, err)
	}
	b.approve(ctx, t, back.ID)
	undone, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: back.ID})
	if err != nil || b.target.files[claudeFile] != "direct" {
		t.Fatalf("%+v, %v, file %q", undone, err, b.target.files[claudeFile])
	}
	view, err := b.Plan(ctx, api.PlanRef{Plan: plan.ID})
	if err != nil || view.State != converge.PlanRolledBack || view.Outcome.State != converge.ReceiptRolledBack || view.Outcome.RolledBackBy != undone.Receipt.ID {
		t.Errorf("%+v, %v", view, err)
	}
	_, err = b.RollBack(ctx, api.RollBack{Receipt: done.Receipt.ID})
	refusedWith(t, err, fault.Conflict, "receipt-not-applied")

	want := []string{
		"agent.managed", "config.observed", "config.drift", "plan.made", "approval.requested", "apply.refused", "approval.decided",
		"approval.consumed", "apply.started", "apply.done",
	}
	if diff := cmp.Diff(want, b.kinds(ctx, t)[:len(want)]); diff != "" {
		t.Errorf("events: %s", diff)
	}
	verified, err := b.VerifyEvents(ctx, api.VerifyEvents{})
	if err != nil || !verified.OK {
		t.Errorf("%+v, %v", verified, err)
	}
}

func TestChangedFileRevokes(t *testing.T) {
	b, ctx := governedBench(t)
	plan := b.offered(ctx, t)
	b.approve(ctx, t, plan.Approval)
	b.target.files[claudeFile] = "direct, edited"
	out := b.audit(ctx, t)
	if out.Superseded != 1 || out.Made != 1 || len(out.Plans) != 1 || out.Plans[0].ID == plan.ID {
		t.Fatalf("%+v", out)
	}
	a, err := b.Approval(ctx, api.ApprovalRef{Approval: plan.Approval})
	if err != nil || a.State != approval.Revoked || a.Why != approval.WhyStale {
		t.Errorf("%+v, %v", a.Approval, err)
	}
	_, err = b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
	refusedWith(t, err, fault.Stale, "plan-stale")

	// The file is as it was once: the first plan fits again, and a person is asked again.
	b.target.files[claudeFile] = "direct"
	if again := b.offered(ctx, t); again.ID != plan.ID || again.Approval == plan.Approval || again.Approved != approval.Pending {
		t.Errorf("%+v", again)
	}
}

func TestChangedCatalogOrPolicyRefuses(t *testing.T) {
	for name, change := range map[string]func(b *bench, ctx context.Context, t *testing.T){
		"catalog": func(b *bench, ctx context.Context, t *testing.T) { b.add(ctx, t, stdio("other", "y")) },
		"policy":  func(b *bench, _ context.Context, _ *testing.T) { b.policy.Unknown = converge.UnlistedBlock },
	} {
		t.Run(name, func(t *testing.T) {
			b, ctx := governedBench(t)
			plan := b.offered(ctx, t)
			b.approve(ctx, t, plan.Approval)
			change(b, ctx, t)
			_, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
			refusedWith(t, err, fault.Stale, "plan-stale")
			if len(b.target.applied) > 0 {
				t.Error("files were written")
			}
			a, err := b.Approval(ctx, api.ApprovalRef{Approval: plan.Approval})
			if err != nil || a.State != approval.Revoked {
				t.Errorf("%+v, %v", a.Approval, err)
			}
		})
	}
}

func TestApplyFails(t *testing.T) {
	for _, c := range []struct {
		err   error
		kind  string
		state converge.PlanState
	}{
		{fault.New(fault.Unavailable, "disk-full").Saying("no space").Hinting("free some"), "apply.undone", converge.PlanFailed},
		{fault.New(fault.Stale, "file-changed").Saying("it has changed").Hinting("audit"), "apply.stale", converge.PlanSuperseded},
		{errors.New("not ours"), "apply.undone", converge.PlanFailed},
	} {
		b, ctx := governedBench(t)
		plan := b.offered(ctx, t)
		b.approve(ctx, t, plan.Approval)
		b.target.fail = c.err
		if _, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID}); !errors.Is(err, c.err) {
			t.Errorf("%v, want %v", err, c.err)
		}
		view, err := b.Plan(ctx, api.PlanRef{Plan: plan.ID})
		if err != nil || view.State != c.state || view.Outcome.State != converge.ReceiptUndone || len(view.Outcome.Problems) != 1 {
			t.Errorf("%v: %+v, %v", c.err, view, err)
		}
		if kinds := b.kinds(ctx, t); kinds[len(kinds)-1] != c.kind {
			t.Errorf("the last event is %s, want %s", kinds[len(kinds)-1], c.kind)
		}
		_, err = b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
		if c.state == converge.PlanFailed {
			refusedWith(t, err, fault.Conflict, "plan-failed")
		} else {
			refusedWith(t, err, fault.Stale, "plan-stale")
		}
		// A person who asks again is offered it again, and has to say yes again.
		if again := b.offered(ctx, t); again.ID != plan.ID || again.Approval == plan.Approval || again.Approved != approval.Pending {
			t.Errorf("%+v", again)
		}
		if out := b.audit(ctx, t); out.Events != 0 {
			t.Errorf("the next audit wrote %d events", out.Events)
		}
	}
}

func TestApprovalsAreForPeople(t *testing.T) {
	b, ctx := governedBench(t)
	plan := b.offered(ctx, t)
	view, err := b.Approval(ctx, api.ApprovalRef{Approval: plan.ID})
	if err != nil || view.ID != plan.Approval || view.Plan.ID != plan.ID || view.Subject != view.Plan.Subject {
		t.Fatalf("%+v, %v", view, err)
	}
	b.person = fault.New(fault.Denied, "no-person").Saying("no terminal").Hinting("use one")
	_, err = b.Decide(ctx, api.Decide{Approval: plan.Approval, Approve: true, Digest: view.Subject})
	refusedWith(t, err, fault.Denied, "no-person")
	if kinds := b.kinds(ctx, t); kinds[len(kinds)-1] != "approval.refused" {
		t.Errorf("events %v", kinds)
	}
	_, err = b.SetAgent(ctx, api.SetAgent{Agent: "codex", Level: converge.LevelAuto})
	refusedWith(t, err, fault.Denied, "no-person")
	b.person = nil
	_, err = b.Decide(ctx, api.Decide{Approval: plan.Approval, Approve: true, Digest: strings.Repeat("0", 64)})
	refusedWith(t, err, fault.Stale, "approval-stale")
	if _, err := b.Decide(ctx, api.Decide{Approval: plan.Approval, Digest: view.Subject, Note: "no"}); err != nil {
		t.Fatal(err)
	}
	_, err = b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
	refusedWith(t, err, fault.Denied, "approval-denied")
	b.now = start.Add(24 * time.Hour)
	if again := b.offered(ctx, t); again.Approval != plan.Approval || again.Approved != approval.Denied {
		t.Errorf("a plan that was denied is asked about again: %+v", again)
	}
}

func TestApprovalExpires(t *testing.T) {
	b, ctx := governedBench(t)
	plan := b.offered(ctx, t)
	b.approve(ctx, t, plan.Approval)
	b.now = start.Add(16 * time.Minute)
	_, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
	refusedWith(t, err, fault.Stale, "approval-expired")
	if again := b.offered(ctx, t); again.ID != plan.ID || again.Approval == plan.Approval || again.Approved != approval.Pending {
		t.Errorf("%+v", again)
	}
}

func TestObservedAgentIsNotPlanned(t *testing.T) {
	b, ctx := newBench(t)
	b.add(ctx, t, stdio("a", "x"))
	b.sees("direct")
	out := b.audit(ctx, t)
	if len(out.Plans) != 0 || !cmp.Equal(out.Observed, []string{"claude_code"}) || out.Next[0] != "mcpx agents discover --manage claude_code" {
		t.Errorf("%+v", out)
	}
	asked, err := b.RunAudit(ctx, api.RunAudit{Agent: "claude_code"})
	if err != nil || len(asked.Plans) != 1 {
		t.Fatalf("%+v, %v", asked, err)
	}
	if out := b.audit(ctx, t); len(out.Plans) != 1 || out.Superseded != 0 || out.Events != 0 {
		t.Errorf("what was asked for once is gone: %+v", out)
	}
}

func TestRecover(t *testing.T) {
	for _, forward := range []bool{true, false} {
		b, ctx := governedBench(t)
		plan := b.offered(ctx, t)
		b.approve(ctx, t, plan.Approval)
		b.target.fail = fault.New(fault.UnknownOutcome, "cut-off").Saying("as if it was killed").Hinting("restart")
		_, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
		refusedWith(t, err, fault.UnknownOutcome, "cut-off")
		_, err = b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID})
		refusedWith(t, err, fault.Conflict, "plan-undecided")
		b.target.recover = forward
		for range 2 { // the second time there is nothing to decide
			if err := b.RecoverApplies(ctx); err != nil {
				t.Fatal(err)
			}
		}
		want := map[bool]converge.PlanState{true: converge.PlanApplied, false: converge.PlanFailed}[forward]
		view, err := b.Plan(ctx, api.PlanRef{Plan: plan.ID})
		if err != nil || view.State != want {
			t.Errorf("forward %v: %+v, %v", forward, view.State, err)
		}
		recovered := 0
		for _, kind := range b.kinds(ctx, t) {
			if kind == "apply.recovered" {
				recovered++
			}
		}
		if recovered != 1 {
			t.Errorf("%d events apply.recovered, want 1", recovered)
		}
	}
}

func TestEventsFollow(t *testing.T) {
	b, ctx := governedBench(t)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	got := make(chan event.Event, 100)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Events(ctx, api.EventsQuery{Kind: "agent", Follow: true}, func(e event.Event) error {
			got <- e
			return nil
		})
	}()
	if e := <-got; e.Kind != event.AgentManaged {
		t.Errorf("%+v", e)
	}
	if _, err := b.SetAgent(ctx, api.SetAgent{Agent: "codex", Level: converge.LevelManaged}); err != nil {
		t.Fatal(err)
	}
	if e := <-got; e.Refs[event.RefAgent] != "codex" {
		t.Errorf("%+v", e)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestEventsLast(t *testing.T) {
	b, ctx := newBench(t)
	for i := range 7 {
		if _, err := b.SetAgent(ctx, api.SetAgent{Agent: fmt.Sprintf("a%d", i), Level: converge.LevelManaged}); err != nil {
			t.Fatal(err)
		}
	}
	for last, want := range map[int]string{0: "1 2 3 4 5 6 7", 1: "7", 3: "5 6 7", 100: "1 2 3 4 5 6 7"} {
		var seqs []string
		if err := b.Events(ctx, api.EventsQuery{Last: last}, func(e event.Event) error {
			seqs = append(seqs, fmt.Sprint(e.Seq))
			return nil
		}); err != nil || strings.Join(seqs, " ") != want {
			t.Errorf("last %d: %v, %v; want %s", last, seqs, err, want)
		}
	}
	if err := b.Events(ctx, api.EventsQuery{Since: "yesterday"}, nil); fault.From(err).Code != "request-invalid" {
		t.Error(err)
	}
}

func TestHealthOfAgents(t *testing.T) {
	b, ctx := governedBench(t)
	h, err := b.Health(ctx, api.HealthQuery{})
	if err != nil || h.State != api.HealthDegraded || h.Findings[0].Code != "never-audited" {
		t.Errorf("%+v, %v", h, err)
	}
	plan := b.offered(ctx, t)
	h, err = b.Health(ctx, api.HealthQuery{})
	if err != nil || h.State != api.HealthDegraded || h.Findings[0].Code != "active-bypass" || h.Findings[0].Command == "" {
		t.Errorf("%+v, %v", h, err)
	}
	b.approve(ctx, t, plan.Approval)
	if _, err := b.ApplyPlan(ctx, api.ApplyPlan{Plan: plan.ID}); err != nil {
		t.Fatal(err)
	}
	b.look()
	b.audit(ctx, t)
	if h, err = b.Health(ctx, api.HealthQuery{}); err != nil || h.State != api.HealthOK {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestAgents(t *testing.T) {
	b, ctx := governedBench(t)
	b.offered(ctx, t)
	out, err := b.Agents(ctx, api.ConfigQuery{})
	if err != nil || len(out.Agents) != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	if a := out.Agents[0]; a.Level != converge.LevelManaged || len(a.Files) != 1 || a.Counts[converge.Bypass] != 1 || a.Plans != 1 {
		t.Errorf("%+v", a)
	}
	if a := out.Agents[1]; a.Level != converge.LevelObserved || len(a.Files) != 0 {
		t.Errorf("%+v", a)
	}
	again, err := b.SetAgent(ctx, api.SetAgent{Agent: "claude_code", Level: converge.LevelManaged})
	if err != nil || again.State != "already_managed" {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestLooksAgain: a file that is written between the look at it and the draft of its change is looked at again. One that is
// written each time is left to the next audit.
func TestLooksAgain(t *testing.T) {
	b, ctx := governedBench(t)
	for writes := range maxLooks + 1 {
		b.sees(fmt.Sprintf("direct %d", writes))
		looks := 0
		b.target.meanwhile = func() {
			if looks++; looks <= writes {
				b.sees(fmt.Sprintf("direct %d, written %d times", writes, looks))
			}
		}
		out, err := b.RunAudit(ctx, api.RunAudit{})
		if err != nil {
			t.Fatal(err)
		}
		if want := min(writes+1, maxLooks); looks != want {
			t.Errorf("%d writes: %d looks, want %d", writes, looks, want)
		}
		ready := slices.ContainsFunc(out.Plans, func(p api.PlanRow) bool { return p.State == converge.PlanReady })
		if ready != (writes < maxLooks) {
			t.Errorf("%d writes: %+v", writes, out.Plans)
		}
	}
	b.target.meanwhile = nil
	b.offered(ctx, t)
}
