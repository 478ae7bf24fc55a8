//go:build unix

package work

import (
	"context"
	"errors"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
)

// slow is an effect that ends when it is told to.
type slow struct {
	began, end chan struct{}
}

func (p *slow) stage(context.Context) (any, error) { return struct{}{}, nil }
func (p *slow) drop()                              {}
func (p *slow) settle(context.Context)             {}
func (p *slow) close()                             {}
func (p *slow) run(context.Context) (any, error) {
	p.began <- struct{}{}
	<-p.end
	return "done", nil
}

// TestDrain: an effect on its way keeps a daemon from handing over, and nothing is paused for good then; while it is waited for
// none begins; after it none does, and those that wait are told when the daemon stops.
func TestDrain(t *testing.T) {
	p := &slow{make(chan struct{}), make(chan struct{})}
	d := newDesk(t, tool{Tool: Tool{Name: "probe", Set: SetFiles}, mutates: true, class: operation.FS, begin: func(context.Context, *Service, *turn) (effect, error) { return p, nil }})
	call := func(id string) <-chan operation.Answer {
		end := make(chan operation.Answer, 1)
		go func() { end <- d.call(t, "probe", `{"operation_id":%q}`, id) }()
		return end
	}
	ends := func(a <-chan operation.Answer) operation.Answer {
		t.Helper()
		select {
		case one := <-a:
			return one
		case <-time.After(time.Minute):
			t.Fatal("a call has no answer")
		}
		panic("unreachable")
	}
	first := call("slow-0001")
	<-p.began
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := d.Drain(short); fault.From(err).Code != "work-running" || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("with an effect on its way: %v", err)
	}
	second := call("slow-0002") // nothing is paused
	<-p.began
	drained := make(chan error, 1)
	go func() { drained <- d.Drain(t.Context()) }()
	for d.acts.TryAcquire(1) { // until it waits
		d.acts.Release(1)
		time.Sleep(time.Millisecond)
	}
	third := call("slow-0003")
	select {
	case <-p.began:
		t.Fatal("an effect began while the daemon drains")
	case err := <-drained:
		t.Fatalf("drained with two effects on their way, %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	p.end <- struct{}{}
	p.end <- struct{}{}
	for _, a := range []operation.Answer{ends(first), ends(second)} {
		if !a.OK {
			t.Errorf("%+v", a.Refusal)
		}
	}
	if err := <-drained; err != nil {
		t.Fatal(err)
	}
	d.Stop()
	refused(t, ends(third), operation.StoreDegraded, fault.AfterWait)
	if row, err := d.find(t.Context(), operation.Name{Namespace: session.Operator, ID: "slow-0003"}); err != nil || row != nil {
		t.Errorf("it was begun: %+v, %v", row, err)
	}
	if row, err := d.find(t.Context(), operation.Name{Namespace: session.Operator, ID: "slow-0002"}); err != nil || row == nil || row.State != operation.Succeeded {
		t.Errorf("what was waited for: %+v, %v", row, err)
	}
}
