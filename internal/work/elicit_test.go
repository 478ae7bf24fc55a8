package work

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
)

// newFormDesk is an asking desk whose client shows forms.
func newFormDesk(t *testing.T, kinds ...approval.Kind) *askingDesk {
	t.Helper()
	d := newAskingDesk(t)
	d.probe = inShop(d.probe)
	d.with = func(c *Config) { c.Elicit = kinds }
	d.start(t, d.db, d.probe)
	d.project(t, "shop", "/srv/shop")
	return d
}

// inShop makes a probe one of a project, as every tool that asks is.
func inShop(one tool) tool {
	begin := one.begin
	one.begin = func(ctx context.Context, s *Service, t *turn) (effect, error) {
		t.op.Project = "proj_shop"
		return begin(ctx, s, t)
	}
	return one
}

func (d *askingDesk) ask(t *testing.T, id string, said *Said) operation.Answer {
	t.Helper()
	return d.Do(t.Context(), Call{
		Tool: "probe", Args: json.RawMessage(`{"operation_id":"` + id + `"}`), Principal: session.Operator, Client: "editor", Channel: "mcp", Forms: true, Said: said,
	})
}

// TestFormDecides: section 8, form mode: it shows digest and display, and is recorded with channel and client.
func TestFormDecides(t *testing.T) {
	d := newFormDesk(t, approval.KindCommand)
	a := d.ask(t, "op-00001", nil)
	asked := d.pending(t)
	if a.Status != operation.OutcomeWaiting || a.Form == nil || !strings.Contains(a.Form.Message, asked.Subject) || !strings.Contains(a.Form.Message, "rm the-file") {
		t.Fatalf("%+v, form %+v", a, a.Form)
	}
	if got := strings.Join(a.Waiting.Channels, " "); got != "cli elicitation" {
		t.Errorf("channels %q", got)
	}
	if away := d.ask(t, "op-00001", &Said{State: a.Form.State}); away.Status != operation.OutcomeWaiting || away.Form != nil {
		t.Errorf("a user who turns away is asked again: %+v", away)
	}
	for what, state := range map[string]string{"nothing": "", "another": a.Form.State + "A", "no seal": strings.Split(a.Form.State, ".")[0]} {
		refused(t, d.ask(t, "op-00001", &Said{State: state, Decision: Approve}), operation.ArgumentInvalid, fault.AfterFix)
		if d.pending(t).State != approval.Pending {
			t.Errorf("%s: decided", what)
		}
	}
	if b := d.ask(t, "op-00001", &Said{State: a.Form.State, Decision: Approve}); !b.OK || d.ran.Load() != 1 {
		t.Fatalf("after the yes: %+v", b)
	}
	used := d.approvals(t)[0]
	if got := used.Decision; used.State != approval.Consumed || got == nil || got.Channel != "elicitation" || got.Client != "editor" || got.Digest != asked.Subject {
		t.Errorf("%s, decided by %+v", used.State, got)
	}
	if told := d.events(t, string(event.ApprovalDecided)); len(told) != 1 || told[0].Actor.Channel != "elicitation" || told[0].Actor.Client != "editor" {
		t.Errorf("events %v", told)
	}
	if again := d.ask(t, "op-00001", &Said{State: a.Form.State, Decision: Approve}); !again.Operation.Replayed || len(again.Warnings) != 1 || d.ran.Load() != 1 {
		t.Errorf("the same answer again: %+v", again)
	}
}

func TestFormDenies(t *testing.T) {
	d := newFormDesk(t, approval.KindCommand)
	a := d.ask(t, "op-00001", nil)
	no := d.ask(t, "op-00001", &Said{State: a.Form.State, Decision: Deny, Note: "not now"})
	if no.Refusal == nil || no.Refusal.Code != approvalDenied || no.Refusal.Details["note"] != "not now" || d.ran.Load() != 0 {
		t.Errorf("%+v", no.Refusal)
	}
}

// TestFormIsBound: a yes is to what was shown, by whom it was shown to, while it counts.
func TestFormIsBound(t *testing.T) {
	d := newFormDesk(t, approval.KindCommand)
	first := d.ask(t, "op-00001", nil)
	eve := d.Do(t.Context(), Call{
		Tool: "probe", Args: json.RawMessage(`{"operation_id":"op-00001"}`), Principal: "eve", Forms: true, Said: &Said{State: first.Form.State, Decision: Approve},
	})
	refused(t, eve, operation.ArgumentInvalid, fault.AfterFix)
	d.pass(31 * time.Minute)
	if late := d.ask(t, "op-00001", &Said{State: first.Form.State, Decision: Approve}); late.OK || len(late.Warnings) != 1 {
		t.Errorf("a yes after its time: %+v", late)
	}
	second := d.ask(t, "op-00002", nil)
	d.record.Store("rm another-file")
	if stale := d.ask(t, "op-00002", &Said{State: second.Form.State, Decision: Approve}); stale.Refusal == nil || stale.Refusal.Code != approvalRevoked {
		t.Errorf("a yes to something else: %+v", stale)
	}
	if d.ran.Load() != 0 {
		t.Error("it ran")
	}
}

// TestNoForm: what is never decided by a form, and who is not asked by one.
func TestNoForm(t *testing.T) {
	all := append(Elicitable(), approval.KindRemove, approval.KindPlan, "trust")
	d := newFormDesk(t, all...)
	for _, c := range []struct {
		what string
		q    Question
		form bool
	}{
		{"a command", Question{Kind: approval.KindCommand, Display: "x"}, true},
		{"a removal", Question{Kind: approval.KindRemove, Display: "x"}, false},
		{"trust", Question{Kind: "trust", Display: "x"}, false},
		{"other rights", Question{Kind: approval.KindCommand, Display: "sudo x", Reasons: []string{"default: y", "elevate: sudo runs a command with other rights"}}, false},
		{"what is too long", Question{Kind: approval.KindCommand, Display: strings.Repeat("long ", 2000)}, false},
	} {
		c.q.Subject = digest([]byte(c.what))
		one := inShop(probing(&probe{ran: &d.ran, asks: func() *Question { return &c.q }}))
		d.start(t, d.db, one)
		a := d.ask(t, "op-"+c.q.Subject[:8], nil)
		if a.Status != operation.OutcomeWaiting || (a.Form != nil) != c.form {
			t.Errorf("%s: %s, form %+v", c.what, a.Status, a.Form)
		}
		if c.form {
			continue
		}
		state, err := d.seal(session.Operator, formState{Approval: a.Waiting.Approval, Subject: c.q.Subject})
		if err != nil {
			t.Fatal(err)
		}
		if said := d.ask(t, "op-"+c.q.Subject[:8], &Said{State: state, Decision: Approve}); said.Status != operation.OutcomeWaiting || len(said.Warnings) != 1 {
			t.Errorf("%s was decided by a form: %+v", c.what, said)
		}
	}
	off := newFormDesk(t)
	if a := off.ask(t, "op-00001", nil); a.Status != operation.OutcomeWaiting || a.Form != nil || len(a.Waiting.Channels) != 1 {
		t.Errorf("a kind that is not listed: %+v", a)
	}
	if a := d.call(t, "probe", `{"operation_id":"op-77777"}`); a.Form != nil {
		t.Error("a client without forms is given one")
	}
}
