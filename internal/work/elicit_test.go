package work

import (
	"context"
	"encoding/json"
	"fmt"
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

// TestRT26Approver: RT-26. Who has the role approver in a session of another cannot edit, sees what is asked there, and decides
// it by the form of the own client; a viewer and a guest do not. That a token on the interface of people is refused and told
// is TestRT26Token in wire.
func TestRT26Approver(t *testing.T) {
	s := newShop(t)
	was := s.with
	s.with = func(c *Config) {
		if was != nil {
			was(c)
		}
		c.Elicit = []approval.Kind{approval.KindFileWrite}
	}
	s.Stop()
	s.start(t, s.db)
	for who, role := range map[string]session.Role{"ann": session.Approver, "victor": session.Viewer} {
		token := read[struct{ Token string }](t, s.call(t, "session", `{"action":"handoff","remote_session_id":%q,"role":%q,"operation_id":"hand-%s"}`, s.session, role, who)).Token
		s.as(t, who, "session", `{"action":"attach","handoff_token":%q,"operation_id":"attach-%s"}`, token, who)
	}
	edit := fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"edit-00001","edits":[{"path":".envrc","op":"create","content":"x\n"}]}`, s.session)
	refused(t, s.as(t, "ann", "edit_files", "%s", edit), operation.RoleDenied, fault.Never)
	if a := s.call(t, "edit_files", "%s", edit); a.Status != operation.OutcomeWaiting {
		t.Fatalf("the edit: %+v (%v)", a, a.Refusal)
	}
	look := func(who string, said *Said) operation.Answer {
		return s.Do(t.Context(), Call{
			Tool: "observe", Args: json.RawMessage(fmt.Sprintf(`{"remote_session_id":%q,"view":"approvals"}`, s.session)), Principal: who, Client: "editor of " + who, Channel: "mcp", Forms: true, Said: said,
		})
	}
	if a := look(session.Operator, nil); a.Form != nil {
		t.Error("whoever asked is asked again by looking")
	}
	if a := look("victor", nil); a.Form != nil || !a.OK {
		t.Errorf("a viewer is asked: %+v", a)
	}
	refused(t, look("eve", nil), operation.SessionNotFound, fault.AfterFix)
	asked := look("ann", nil)
	if asked.Form == nil || !strings.Contains(asked.Form.Message, ".envrc") {
		t.Fatalf("the approver is not asked: %+v (%v)", asked, asked.Refusal)
	}
	refused(t, look("victor", &Said{State: asked.Form.State, Decision: Approve}), operation.ArgumentInvalid, fault.AfterFix)
	if a := look("ann", &Said{State: asked.Form.State, Decision: Approve}); !a.OK || len(a.Warnings) > 0 {
		t.Fatalf("the yes: %+v (%v)", a, a.Refusal)
	}
	if got := s.approvals(t)[0]; got.State != approval.Approved || got.Decision.Principal != "ann" || got.Decision.Channel != elicitation || got.Decision.Client != "editor of ann" {
		t.Errorf("it is %s, decided by %+v", got.State, got.Decision)
	}
	refused(t, s.as(t, "ann", "edit_files", "%s", edit), operation.RoleDenied, fault.Never)
	if a := s.call(t, "edit_files", "%s", edit); !a.OK {
		t.Errorf("after the yes: %+v (%v)", a, a.Refusal)
	}
}
