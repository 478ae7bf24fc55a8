package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// askingDesk is a desk whose probe needs the yes of a person to what record says.
type askingDesk struct {
	*desk
	ran    atomic.Int64
	record atomic.Value // string
	probe  tool
}

func newAskingDesk(t *testing.T) *askingDesk {
	t.Helper()
	d := &askingDesk{}
	d.record.Store("rm the-file")
	d.probe = probing(&probe{ran: &d.ran, asks: func() *Question {
		record := d.record.Load().(string)
		return &Question{Kind: approval.KindCommand, Subject: digest([]byte(record)), Display: record, Reasons: []string{"default"}}
	}})
	d.desk = newDesk(t, d.probe)
	return d
}

func (d *desk) approvals(t *testing.T) (all []approval.Approval) {
	t.Helper()
	if err := d.db.View(t.Context(), func(r store.Reader) (err error) {
		all, err = approval.All(t.Context(), r, approval.ListApprovals{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// decide is the word of a person, as control writes it.
func (d *desk) decide(t *testing.T, a approval.Approval, yes bool) {
	t.Helper()
	by := event.Actor{Principal: session.Operator, Channel: "cli"}
	err := d.db.Change(t.Context(), func(tx store.Tx) error {
		a, err := approval.Decide(a, approval.Decision{Principal: session.Operator, Channel: "cli", Terminal: "/dev/pts/1", At: d.cfg.Now(), Note: "not today", Digest: a.Subject}, yes)
		if err != nil {
			return err
		}
		if err := tx.PutApproval(t.Context(), approval.PutApproval{Approval: a}); err != nil || yes {
			return err
		}
		return d.Ended(t.Context(), tx, by, a)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (d *desk) pass(long time.Duration) { d.clock.Add(int64(long)) }

// pending is the one question that waits for an answer.
func (d *desk) pending(t *testing.T) (one approval.Approval) {
	t.Helper()
	found := 0
	for _, a := range d.approvals(t) {
		if a.State == approval.Pending {
			one = a
			found++
		}
	}
	if found != 1 {
		t.Fatalf("%d questions wait", found)
	}
	return one
}

// waits makes a call that has to wait for a person, and gives what the person is asked.
func (d *desk) waits(t *testing.T, tool, args string) approval.Approval {
	t.Helper()
	a := d.call(t, tool, "%s", args)
	if a.Status != operation.OutcomeWaiting || a.OK || a.Refusal != nil || a.Waiting == nil {
		t.Fatalf("%s answers %+v (%v), and does not wait for a person", tool, a, a.Refusal)
	}
	for _, q := range d.approvals(t) {
		if q.ID == a.Waiting.Approval {
			return q
		}
	}
	t.Fatalf("there is no approval %s", a.Waiting.Approval)
	return approval.Approval{}
}

const probeCall = `{"operation_id":"op-00001"}`

func TestRT107Waits(t *testing.T) {
	d := newAskingDesk(t)
	first := d.call(t, "probe", probeCall)
	d.start(t, d.db, d.probe) // another daemon
	for range 2 {
		again := d.call(t, "probe", probeCall)
		a, _ := json.Marshal(first)
		b, _ := json.Marshal(again)
		if string(a) != string(b) {
			t.Errorf("it answered\n%s\nand after a restart\n%s", a, b)
		}
	}
	if w := first.Waiting; w == nil || w.For != operation.HoldApproval || len(w.Channels) == 0 || w.Expires != "2026-11-30T12:30:00Z" {
		t.Errorf("waiting %+v", w)
	}
	if n := first.Next; len(n) != 2 || n[0].Tool != "operation_status" || n[1].Tool != "probe" || n[1].Args[operation.IDField] != "op-00001" {
		t.Errorf("next %+v", n)
	}
	status := d.call(t, "operation_status", `{"operation_id":"op-00001"}`)
	got := read[struct {
		Operation operation.Standing
		Approval  approvalShown
	}](t, status)
	if got.Operation.Hold != operation.HoldApproval || got.Approval.State != approval.Pending || got.Approval.ID != first.Waiting.Approval {
		t.Errorf("its status is %s", status.Data)
	}
	if d.ran.Load() != 0 || len(d.approvals(t)) != 1 {
		t.Errorf("it ran %d times, %v", d.ran.Load(), d.approvals(t))
	}
}

func TestRT108OnceAfterAYes(t *testing.T) {
	d := newAskingDesk(t)
	d.decide(t, d.waits(t, "probe", probeCall), true)
	if d.ran.Load() != 0 {
		t.Error("the yes itself began the effect")
	}
	if a := d.call(t, "probe", probeCall); !a.OK || a.Operation.Replayed || d.ran.Load() != 1 {
		t.Errorf("the identical call: %+v, %d effects", a, d.ran.Load())
	}
	d.start(t, d.db, d.probe)
	if a := d.call(t, "probe", probeCall); !a.OK || !a.Operation.Replayed || d.ran.Load() != 1 {
		t.Errorf("a further one: %+v, %d effects", a, d.ran.Load())
	}
	got := d.approvals(t)[0] // RT-117
	if got.State != approval.Consumed || got.Consumer != "op-00001" || got.Used.IsZero() || got.Decision == nil || got.Decision.Terminal == "" {
		t.Errorf("the approval is %+v", got)
	}
	if o := d.operations(t)[0]; o.Hold != "" || o.Approval != got.ID || o.Begun.IsZero() {
		t.Errorf("the operation is %+v", o)
	}
}

func TestRT109FiftyAtOnce(t *testing.T) {
	d := newAskingDesk(t)
	d.decide(t, d.waits(t, "probe", probeCall), true)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if a := d.call(t, "probe", probeCall); !a.OK || string(a.Data) != `{"ran":1}` {
				t.Errorf("%+v (%v)", a, a.Refusal)
			}
		})
	}
	group.Wait()
	if d.ran.Load() != 1 {
		t.Errorf("%d effects", d.ran.Load())
	}
}

func TestRT110WaitsForTheDecision(t *testing.T) {
	d := newAskingDesk(t)
	answer := make(chan operation.Answer)
	go func() { answer <- d.call(t, "probe", `{"operation_id":"op-00001","wait_ms":20000}`) }()
	status := make(chan operation.Answer)
	for len(d.approvals(t)) == 0 {
		<-time.After(time.Millisecond)
	}
	go func() { status <- d.call(t, "operation_status", `{"operation_id":"op-00001","wait_ms":20000}`) }()
	d.decide(t, d.approvals(t)[0], true)
	if a := <-answer; !a.OK || a.Operation.Replayed || d.ran.Load() != 1 {
		t.Errorf("%+v, %d effects", a, d.ran.Load())
	}
	if a := <-status; !a.OK {
		t.Errorf("its status: %+v", a)
	}
}

func TestRT111OtherArguments(t *testing.T) {
	d := newAskingDesk(t)
	d.waits(t, "probe", probeCall)
	d.record.Store("rm another")
	refused(t, d.call(t, "probe", `{"operation_id":"op-00001","file":"another"}`), operation.OperationIDReused, fault.NewID)
	if got := d.approvals(t); len(got) != 1 || got[0].State != approval.Pending || got[0].Display != "rm the-file" {
		t.Errorf("the approval is %+v", got)
	}
}

func TestRT114Expiry(t *testing.T) {
	for name, c := range map[string]struct {
		yes  bool
		life time.Duration
	}{"nobody answers": {false, 30 * time.Minute}, "the yes is not used": {true, 15 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			d := newAskingDesk(t)
			a := d.waits(t, "probe", probeCall)
			if c.yes {
				d.decide(t, a, true)
			}
			d.pass(c.life - time.Microsecond)
			if !c.yes {
				d.waits(t, "probe", probeCall)
			}
			d.pass(time.Microsecond)
			for i := range 3 {
				got := d.call(t, "probe", probeCall)
				refused(t, got, approvalExpired, fault.NewID)
				if got.Operation.State != operation.Failed || got.Operation.Replayed != (i > 0) {
					t.Errorf("%+v", got.Operation)
				}
			}
			if d.ran.Load() != 0 || d.approvals(t)[0].State != approval.Expired || !d.operations(t)[0].Begun.IsZero() {
				t.Errorf("%d effects, %+v", d.ran.Load(), d.approvals(t)[0])
			}
			if b := d.waits(t, "probe", `{"operation_id":"op-00002"}`); b.ID == a.ID {
				t.Error("another operation waits for the same question")
			}
		})
	}
}

func TestRT115Denied(t *testing.T) {
	d := newAskingDesk(t)
	d.decide(t, d.waits(t, "probe", probeCall), false)
	denied := func(call string) {
		t.Helper()
		a := d.call(t, "probe", "%s", call)
		refused(t, a, approvalDenied, fault.Never)
		if a.Refusal.Details["note"] != "not today" {
			t.Errorf("the note: %v", a.Refusal.Details)
		}
	}
	for range 2 {
		denied(probeCall)
	}
	d.pass(9 * time.Minute)
	denied(`{"operation_id":"op-00002"}`)
	d.record.Store("something else")
	d.waits(t, "probe", `{"operation_id":"op-00003"}`)
	d.record.Store("rm the-file")
	d.pass(2 * time.Minute)
	d.waits(t, "probe", `{"operation_id":"op-00004"}`)
	for range 2 {
		denied(probeCall)
		denied(`{"operation_id":"op-00002"}`)
	}
	if d.ran.Load() != 0 {
		t.Errorf("%d effects", d.ran.Load())
	}
}

// TestChangedSince: what is not any more what the person saw is not done, whether the answer came or not.
func TestChangedSince(t *testing.T) {
	for name, yes := range map[string]bool{"before the answer": false, "after a yes": true} {
		t.Run(name, func(t *testing.T) {
			d := newAskingDesk(t)
			a := d.waits(t, "probe", probeCall)
			if yes {
				d.decide(t, a, true)
			}
			d.record.Store("rm another")
			for range 2 {
				refused(t, d.call(t, "probe", probeCall), approvalRevoked, fault.NewID)
			}
			if got := d.approvals(t)[0]; got.State != approval.Revoked || got.Why != approval.WhyStale || d.ran.Load() != 0 {
				t.Errorf("%d effects, %+v", d.ran.Load(), got)
			}
		})
	}
}

func TestPendingLimit(t *testing.T) {
	d := newAskingDesk(t)
	for i := range approval.MaxPending {
		d.record.Store(fmt.Sprint("record ", i))
		d.waits(t, "probe", fmt.Sprintf(`{"operation_id":"op-%05d"}`, i))
	}
	before := len(d.operations(t))
	d.record.Store("one more")
	refused(t, d.call(t, "probe", `{"operation_id":"op-99999"}`), approvalsFull, fault.AfterWait)
	if len(d.operations(t)) != before {
		t.Error("the one that found no room has taken its id")
	}
	d.decide(t, d.approvals(t)[0], false)
	d.waits(t, "probe", `{"operation_id":"op-99999"}`)
}

func TestAbandon(t *testing.T) {
	d := newAskingDesk(t)
	d.waits(t, "probe", probeCall)
	if a := d.call(t, "resolve_operation", `{"operation_id":"op-00009","target":"op-00001","verdict":"done"}`); a.OK {
		t.Errorf("what never began is done: %+v", a)
	}
	if a := d.call(t, "resolve_operation", `{"operation_id":"op-00010","target":"op-00001","verdict":"abandon"}`); !a.OK {
		t.Fatalf("%+v (%v)", a, a.Refusal)
	}
	refused(t, d.call(t, "probe", probeCall), approvalRevoked, fault.NewID)
	if got := d.approvals(t)[0]; got.State != approval.Revoked || got.Why != approval.WhyAbandoned {
		t.Errorf("%+v", got)
	}
}

// TestPrepared: a question that another call has asked is answered once, for exactly one effect.
func TestPrepared(t *testing.T) {
	var asked approval.Approval
	var ran atomic.Int64
	q := Question{Kind: approval.KindRemove, Subject: digest([]byte("manifest")), Display: "3 files"}
	prepare := tool{Tool: Tool{Name: "prepare", Set: SetFiles}, mutates: true, class: operation.DB, change: func(ctx context.Context, s *Service, tx store.Tx, t *turn) (_ any, err error) {
		asked, err = s.ask(ctx, tx, t, q)
		return nil, err
	}}
	submit := probing(&probe{ran: &ran, asks: func() *Question {
		q := q
		q.Approval = asked.ID
		return &q
	}})
	d := newDesk(t, prepare, submit)
	if a := d.call(t, "prepare", `{"operation_id":"op-00000"}`); !a.OK || asked.State != approval.Pending {
		t.Fatalf("%+v, %+v", a, asked)
	}
	first := d.waits(t, "probe", probeCall)
	if first.ID != asked.ID || first.Operation != "op-00001" {
		t.Fatalf("it waits for %+v", first)
	}
	d.waits(t, "probe", `{"operation_id":"op-00002"}`)
	d.decide(t, asked, true)
	if a := d.call(t, "probe", `{"operation_id":"op-00002"}`); !a.OK {
		t.Errorf("%+v (%v)", a, a.Refusal)
	}
	for range 2 {
		refused(t, d.call(t, "probe", probeCall), approvalRevoked, fault.NewID)
		refused(t, d.call(t, "probe", `{"operation_id":"op-00003"}`), approvalRevoked, fault.NewID)
	}
	if ran.Load() != 1 {
		t.Errorf("%d effects of one yes", ran.Load())
	}
}

func TestRT116Display(t *testing.T) {
	s := newShop(t)
	a := s.do(t, "edit_files", `"operation_id":"op-00001","activity":{"intent":"only \u202eharmless"},"edits":[{"path":".mcp.json","op":"create","content":"{\"a\":\"\\u001b[2J\u202e\"}\n"}]`)
	if a.Status != operation.OutcomeWaiting {
		t.Fatalf("%+v (%v)", a, a.Refusal)
	}
	q := s.approvals(t)[0]
	for _, want := range []string{"create .mcp.json", `\u{202e}`} {
		if !strings.Contains(q.Display, want) {
			t.Errorf("the display has no %q:\n%s", want, q.Display)
		}
	}
	if strings.ContainsAny(q.Display+q.Claim, "\x1b\u202e") || q.Claim != `only \u{202e}harmless` || q.Kind != approval.KindFileWrite || q.Session != s.session || len(q.Reasons) != 1 {
		t.Errorf("%+v", q)
	}
}

// TestEditThatNeedsAYes: RT-61.
func TestEditThatNeedsAYes(t *testing.T) {
	s := newShop(t)
	path := filepath.Join(s.root, ".mcp.json")
	call := `"operation_id":"op-00001","edits":[{"path":".mcp.json","op":"create","content":"{}\n"},{"path":"x.txt","op":"create","content":"x\n"}]`
	if a := s.do(t, "edit_files", "%s", call); a.Status != operation.OutcomeWaiting {
		t.Fatalf("%+v (%v)", a, a.Refusal)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was written before anybody was asked")
	}
	s.decide(t, s.pending(t), true)
	s.start(t, s.db) // another daemon
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if a := s.do(t, "edit_files", "%s", call); !a.OK {
			t.Fatalf("%+v (%v)", a, a.Refusal)
		}
	}
	if s.file(t, ".mcp.json") != "{}\n" || s.file(t, "x.txt") != "x\n" {
		t.Error("the files are not what was asked for")
	}
	// A file that changed while the question was open is another subject.
	update := fmt.Sprintf(`"operation_id":"op-00002","edits":[{"path":".mcp.json","expect_sha256":%q,"content":"{\"a\":1}\n"}]`, digest([]byte("{}\n")))
	if a := s.do(t, "edit_files", "%s", update); a.Status != operation.OutcomeWaiting {
		t.Fatalf("%+v (%v)", a, a.Refusal)
	}
	s.decide(t, s.pending(t), true)
	if err := os.WriteFile(path, []byte("{ }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a := s.do(t, "edit_files", "%s", update)
		refused(t, a, approvalRevoked, fault.NewID)
	}
	if s.file(t, ".mcp.json") != "{ }\n" {
		t.Error("the file was written")
	}
}

func TestCloseRevokes(t *testing.T) {
	s := newShop(t)
	call := `"operation_id":"op-00001","edits":[{"path":".mcp.json","op":"create","content":"{}\n"}]`
	s.do(t, "edit_files", "%s", call)
	if a := s.do(t, "session", `"operation_id":"op-00002","action":"close"`); !a.OK {
		t.Fatalf("%+v (%v)", a, a.Refusal)
	}
	if got := s.approvals(t)[0]; got.State != approval.Revoked || got.Why != approval.WhyClosed {
		t.Errorf("%+v", got)
	}
	refused(t, s.do(t, "edit_files", "%s", call), approvalRevoked, fault.NewID)
}

// TestMalformedRetryHoldsOn: a retry with an argument that the tool does not take ends nothing.
func TestMalformedRetryHoldsOn(t *testing.T) {
	d := newAskingDesk(t)
	call := func(check error) operation.Answer {
		return d.Do(t.Context(), Call{
			Tool: "probe", Args: json.RawMessage(`{"operation_id":"op-00001"}`), Principal: session.Operator, Channel: "test",
			Check: func(string, json.RawMessage) error { return check },
		})
	}
	if a := call(nil); a.Status != operation.OutcomeWaiting {
		t.Fatalf("%+v", a)
	}
	refused(t, call(errors.New("it takes no wait_ms")), operation.ArgumentInvalid, fault.AfterFix)
	d.decide(t, d.pending(t), true)
	if a := call(nil); !a.OK || d.ran.Load() != 1 {
		t.Errorf("afterwards: %+v", a)
	}
}
