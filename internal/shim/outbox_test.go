//go:build unix

package shim

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/gateway"
)

// bufferPort writes into memory, and takes only what budget allows without waiting.
type bufferPort struct {
	mu     sync.Mutex // guards the fields below
	wrote  strings.Builder
	writes int
	deny   bool // tryWrite takes nothing
	gate   chan struct{}
}

func (p *bufferPort) tryWrite(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deny {
		return 0, nil
	}
	p.writes++
	p.wrote.Write(b)
	return len(b), nil
}

func (p *bufferPort) write(b []byte) error {
	if p.gate != nil {
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.writes++
	p.wrote.Write(b)
	return nil
}

func (p *bufferPort) encode(b []byte, m gateway.Outbound, seq uint64) []byte {
	return fmt.Appendf(b, "%s#%d ", m.Body, seq)
}
func (p *bufferPort) handed([]uint64) {}
func (p *bufferPort) encodeDone(b []byte, numbers []uint64) []byte {
	return fmt.Appendf(b, "done%v ", numbers)
}

func (p *bufferPort) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wrote.String()
}

func message(body string, ref uint64) gateway.Outbound {
	return gateway.Outbound{Body: []byte(body), Ref: ref}
}

func TestOutboxOrder(t *testing.T) {
	t.Parallel()
	p := &bufferPort{}
	o := outbox{port: p, window: window{messages: 2}}
	send := func(body string, ref uint64) {
		t.Helper()
		if err := o.send(message(body, ref)); err != nil {
			t.Fatal(err)
		}
	}
	put := func(frame string) {
		t.Helper()
		if err := o.put([]byte(frame + " ")); err != nil {
			t.Fatal(err)
		}
	}
	put("note0") // nothing is queued: it goes at once
	send("a", 1)
	send("b", 2)
	send("c", 3) // the window is closed
	send("d", 4)
	put("note1")
	send("e", 5)
	put("note2") // replaces the first, and has its own place
	send("f", 6)
	o.finish([]uint64{7}) // must not overtake the note
	if !o.abort(4) || o.abort(4) || o.abort(1) {
		t.Error("a queued request is taken back once, a sent one never")
	}
	o.settle(load{messages: 2})
	o.settle(load{messages: 2})
	want := "note0 a#1 b#2 c#3 e#4 note2 done[7] f#5 "
	if got := p.text(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	o.finish([]uint64{8})
	send("g", 7) // takes the word along
	if got, want := p.text(), want+"g#6 done[8] "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOutboxDone: the word goes alone after a while, and at once when there is much of it.
func TestOutboxDone(t *testing.T) {
	t.Parallel()
	p := &bufferPort{}
	o := outbox{port: p, window: window{messages: 2}}
	begin := time.Now()
	o.finish(nil)
	o.finish([]uint64{1})
	o.finish([]uint64{2})
	for p.text() == "" {
		if time.Since(begin) > patience {
			t.Fatal("the word never went")
		}
		time.Sleep(time.Millisecond)
	}
	if took := time.Since(begin); p.text() != "done[1 2] " || took < doneWait/2 {
		t.Errorf("%q after %v", p.text(), took)
	}
	o.finish(make([]uint64, doneBatch))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writes != 2 {
		t.Errorf("%d writes; a full batch goes at once", p.writes)
	}
}

// TestOutboxLeave: who leaves hands over everything first, also past the window and a peer that is slow.
func TestOutboxLeave(t *testing.T) {
	t.Parallel()
	p := &bufferPort{deny: true, gate: make(chan struct{})}
	o := outbox{port: p, window: window{messages: 1}}
	gone := errors.New("gone")
	for i, body := range []string{"a", "b", "c"} {
		if err := o.send(message(body, uint64(i+1))); err != nil {
			t.Fatal(err)
		}
	}
	if err := o.put([]byte("note ")); err != nil {
		t.Fatal(err)
	}
	o.finish([]uint64{9})
	o.leave([]byte("bye"), gone)
	if err := o.send(message("late", 4)); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	if err := o.put([]byte("late")); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	close(p.gate)
	o.stop(gone)
	for limit := time.Now().Add(patience); !strings.HasSuffix(p.text(), "bye"); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			break
		}
	}
	if diff := cmp.Diff("a#1 b#2 c#3 note done[9] bye", p.text()); diff != "" {
		t.Error(diff)
	}
}
