//go:build unix

package shim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
	"mcpx/internal/shim"
)

// TestS2AdoptAfterCrash: the daemon dies with one answer not done with, one call under way, and one that nobody needs.
func TestS2AdoptAfterCrash(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, s, id := h.start(t)
	if err := l.Save([]byte("the lane")); err != nil {
		t.Fatal(err)
	}
	call(t, l, 1, "where", "")
	call(t, l, 2, "where", "")
	s.answer(t, 1, nil)
	s.answer(t, 2, nil)
	l.Done(1)
	call(t, l, 3, "where", "")
	s.answer(t, 3, nil)
	call(t, l, 4, "wait-for", filepath.Join(h.root, "go"))
	written(t, s, 4)
	before := l.Info()
	h.crash(t, l)

	a, l, s := h.adopt(t, id)
	if got := l.Info(); got.Pid != before.Pid || got.Supervisor != before.Supervisor || a.Child != before.Pid {
		t.Errorf("adopted %+v, child %d; before %+v", got, a.Child, before)
	}
	want := []gateway.KeptCall{
		{Ref: 1, ID: []byte("2"), Method: "tools/call", Tag: []byte("tag 2"), State: gateway.CallAnswered},
		{Ref: 2, ID: []byte("3"), Method: "tools/call", Tag: []byte("tag 3"), State: gateway.CallAnswered},
		{Ref: 3, ID: []byte("4"), Method: "tools/call", Tag: []byte("tag 4"), State: gateway.CallRunning},
	}
	if diff := cmp.Diff(want, a.Calls, ignoreAge); diff != "" {
		t.Error(diff)
	}
	finished := []gateway.KeptCall{{ID: []byte("1"), Method: "tools/call", Tag: []byte("tag 1")}}
	if diff := cmp.Diff(finished, a.Finished, ignoreAge); diff != "" {
		t.Error(diff)
	}
	if string(a.Blob) != "the lane" || !a.Complete || a.Process != "digest" || a.Server != "srv_x" || a.Lane != "lane" ||
		a.Executable != gateway.FileSame || a.Dropped != 0 {
		t.Errorf("adopted %+v", a)
	}
	s.answer(t, 2, nil)
	s.answer(t, 3, nil)
	l.Done(1, 2)
	if err := os.WriteFile(filepath.Join(h.root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.answer(t, 4, nil) // the call of the dead daemon goes on and ends with us
	call(t, l, 10, "where", "")
	s.answer(t, 10, nil)
	if l.Abort(3) {
		t.Error("a call that was written long ago was taken back")
	}
	l.Done(3, 10)
	h.crash(t, l)

	a, l, s = h.adopt(t, id)
	if len(a.Calls) > 0 && len(a.Finished) == 5 {
		t.Log("the word of a crashed daemon did not get through, which is allowed") // DONE waits for company up to 20 ms
	}
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	if e := s.closed(t); e.Reason != gateway.Detached {
		t.Errorf("exit %+v", e)
	}
}

// TestDoneRides: DONE of an orderly detach is not lost, and a request that still runs may be done with.
func TestDoneRides(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, s, id := h.start(t)
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
	call(t, l, 2, "wait-for", filepath.Join(h.root, "go"))
	written(t, s, 2)
	l.Done(1, 2)
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.next(t, nil)
	a, l, s := h.adopt(t, id)
	if len(a.Calls) != 0 || len(a.Finished) != 2 {
		t.Errorf("calls %+v, finished %+v", a.Calls, a.Finished)
	}
	if err := os.WriteFile(filepath.Join(h.root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.answer(t, 2, nil) // what nobody keeps is passed on
	call(t, l, 3, "where", "")
	s.answer(t, 3, nil)
	h.crash(t, l)
	a, l, _ = h.adopt(t, id)
	if len(a.Calls) != 1 || string(a.Calls[0].ID) != "3" {
		t.Errorf("calls %+v, want the last one", a.Calls)
	}
	l.Close("")
}

// TestDetachHandsOverTheQueue: a planned restart loses no request that was accepted.
func TestDetachHandsOverTheQueue(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, _, id := h.start(t)
	const n = 200
	call(t, l, n+1, "delay", "200")
	for ref := uint64(1); ref <= n; ref++ {
		call(t, l, ref, "where", strings.Repeat("x", 5<<10)) // more than the window, and than a pipe
	}
	if err := l.Save([]byte("saved last")); err != nil {
		t.Fatal(err)
	}
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.next(t, nil)
	a, l, s := h.adopt(t, id)
	if len(a.Calls) != n+1 || string(a.Blob) != "saved last" {
		t.Errorf("%d calls, blob %q", len(a.Calls), a.Blob)
	}
	for id := 1; id <= n+1; id++ {
		s.answer(t, id, nil)
	}
	l.Close("")
}

// TestS8Fencing: two daemons want one supervisor.
func TestS8Fencing(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, s, id := h.start(t)
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
	h.next(t, nil)
	err := h.Adopt(t.Context(), id, func(gateway.Adopted) (gateway.Sink, error) {
		t.Error("a held supervisor was given")
		return nil, nil
	})
	if fault.KindOf(err) != fault.Busy || !strings.Contains(err.Error(), fmt.Sprintf("process %d, version test", os.Getpid())) {
		t.Errorf("error %v, want busy with the holder", err)
	}
	h.next(t, func(c *shim.Config) { c.Steal = true })
	_, thief, ts := h.adopt(t, id)
	if e := s.closed(t); e.Reason != gateway.Detached {
		t.Errorf("the old holder was told %+v", e)
	}
	if err := l.Send(gateway.Outbound{Body: []byte(`{"id":66}`)}); err == nil {
		t.Error("the old holder can still send")
	}
	call(t, thief, 5, "where", "")
	ts.answer(t, 5, nil)
	if _, reached := ts.answers["66"]; reached {
		t.Error("a message of the old holder reached the child")
	}
}

// TestTakeRefuses: the gateway does not want the child after all.
func TestTakeRefuses(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, s, id := h.start(t)
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
	h.crash(t, l)
	no := errors.New("not wanted")
	err := error(fault.New(fault.Busy, ""))
	for fault.KindOf(err) == fault.Busy { // until the supervisor has seen the crash
		err = h.Adopt(t.Context(), id, func(gateway.Adopted) (gateway.Sink, error) { return nil, no })
	}
	if !errors.Is(err, no) {
		t.Errorf("error %v", err)
	}
	a, _, s := h.adopt(t, id) // the same daemon may ask again
	if len(a.Calls) != 1 {
		t.Errorf("calls %+v", a.Calls)
	}
	s.answer(t, 1, nil)
}

// TestSameDaemonComesBack: numbers of requests must not meet when one daemon attaches twice.
func TestSameDaemonComesBack(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, s, id := h.start(t)
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	a, l, s := h.adopt(t, id)
	if len(a.Calls) != 1 {
		t.Fatalf("calls %+v", a.Calls)
	}
	call(t, l, 2, "where", "")
	s.answer(t, 2, nil)
	written(t, s, 2)
	l.Done(1)
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	a, _, _ = h.adopt(t, id)
	if len(a.Calls) != 1 || string(a.Calls[0].ID) != "2" {
		t.Errorf("calls %+v, want the second", a.Calls)
	}
}

// TestSaidBefore: what the child wrote on stderr under an earlier daemon is given to the next one, once.
func TestSaidBefore(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, s, id := h.start(t)
	call(t, l, 1, "complain", "first words")
	s.until(t, "the words", func() bool { return s.stderr.Len() > 0 })
	h.crash(t, l)
	a, l, s := h.adopt(t, id)
	if got := string(a.Said); got != "first words\n" {
		t.Errorf("said before: %q", got)
	}
	call(t, l, 2, "complain", "second words")
	s.until(t, "the words", func() bool { return s.stderr.Len() > 0 })
	if got := s.stderr.String(); got != "second words\n" {
		t.Errorf("delivered: %q", got)
	}
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	if a, l, _ = h.adopt(t, id); len(a.Said) > 0 {
		t.Errorf("the same daemon is told again: %q", a.Said)
	}
	h.crash(t, l)
	if a, _, _ = h.adopt(t, id); string(a.Said) != "first words\nsecond words\n" {
		t.Errorf("the next daemon is told %q", a.Said)
	}
}

// TestSocketIsMadeAgain: run directories are emptied at logout.
func TestSocketIsMadeAgain(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, _, id := h.start(t)
	h.crash(t, l)
	if err := os.RemoveAll(h.run); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	_, l, s := h.adopt(t, id)
	t.Logf("adopted after %v", time.Since(begin))
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
}

func TestAdoptNothing(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	for _, id := range []string{"shim_none", "../state", ""} {
		err := h.Adopt(t.Context(), id, func(gateway.Adopted) (gateway.Sink, error) {
			t.Error("taken")
			return nil, nil
		})
		if fault.KindOf(err) != fault.Unavailable {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// stuckSink is a daemon that takes nothing for a while, and then counts what a flood brings.
type stuckSink struct {
	*sink
	stuck chan struct{}
	came  int    // lines of the flood; one goroutine delivers
	wrong string // the first one that is not the next
}

func (s *stuckSink) Deliver(in gateway.Inbound) {
	<-s.stuck
	if !strings.HasPrefix(string(in.Body), `{"method":"n",`) {
		s.sink.Deliver(in)
		return
	}
	if want := fmt.Sprintf(`{"method":"n","params":{"i":%d,`, s.came); s.wrong == "" && !strings.HasPrefix(string(in.Body), want) {
		s.wrong = fmt.Sprintf("line %d is %s", s.came, in.Body)
	}
	s.came++
}

// TestS19SlowDaemon: the child waits for an attached daemon; nothing is lost and nothing grows. MCPX_TEST_FULL=1 floods
// 500 MB.
func TestS19SlowDaemon(t *testing.T) {
	t.Parallel()
	lines := 500_000
	switch {
	case shim.Raced:
		lines = 50_000
	case os.Getenv("MCPX_TEST_FULL") != "":
		lines = 5_500_000
	}
	h := newHome(t, nil)
	l, _, id := h.start(t)
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.next(t, nil)
	s := &stuckSink{sink: newSink(), stuck: make(chan struct{})}
	var k gateway.KeptLink
	err := h.Adopt(t.Context(), id, func(a gateway.Adopted) (gateway.Sink, error) {
		k = a.Link
		return s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	call(t, k, 1, "flood", fmt.Sprint(lines))
	// The daemon is stuck for as long as the child needs to fill all pipes between them.
	time.Sleep(500 * time.Millisecond)
	m, err := process.MemoryOf(k.Info().Supervisor)
	if err == nil && m.RSS > 40_000_000 && !shim.Raced {
		t.Errorf("the supervisor has %.1f MB", float64(m.RSS)/1e6)
	}
	close(s.stuck)
	s.answer(t, 1, nil)
	if s.came != lines || s.wrong != "" {
		t.Fatalf("%d lines, want %d; %s", s.came, lines, s.wrong)
	}
}

// TestS11ExitWhileUnattached: the child ended with an answer that nobody had; the next daemon gets both.
func TestS11ExitWhileUnattached(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, s, id := h.start(t)
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
	call(t, l, 2, "complain", "last words")
	path := filepath.Join(h.root, "go")
	call(t, l, 3, "exit-after", path+" 3")
	written(t, s, 3)
	child, err := process.Identify(l.Info().Pid)
	if err != nil {
		t.Fatal(err)
	}
	h.crash(t, l)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(patience); child.Alive(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("the child lives")
		}
	}
	a, _, s := h.adopt(t, id)
	var states []gateway.CallState
	for _, c := range a.Calls {
		states = append(states, c.State)
	}
	if diff := cmp.Diff([]gateway.CallState{gateway.CallAnswered, gateway.CallRunning, gateway.CallRunning}, states); diff != "" {
		t.Error(diff)
	}
	e := s.closed(t)
	if e.String() != "exited: code 3" || string(e.Tail) != "last words\n" {
		t.Errorf("exit %+v", e)
	}
	s.answer(t, 1, nil)
	h.nothingLeft(t)
}

// TestAdoptWedged: a supervisor that does not answer holds nobody up for longer than asked.
func TestAdoptWedged(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	l, _, id := h.start(t)
	who, err := process.Identify(l.Info().Supervisor)
	if err != nil {
		t.Fatal(err)
	}
	h.crash(t, l)
	if !process.Notify(who, syscall.SIGSTOP) {
		t.Fatal("not stopped")
	}
	var begin time.Time
	running := errors.New("it has not stopped yet")
	for ok := true; ok; ok = fault.KindOf(err) == fault.Busy || errors.Is(err, running) { // busy: it has not seen the crash
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		begin = time.Now()
		err = h.Adopt(ctx, id, func(gateway.Adopted) (gateway.Sink, error) {
			return nil, running
		})
		cancel()
	}
	if took := time.Since(begin); fault.KindOf(err) != fault.Unavailable || !errors.Is(err, context.DeadlineExceeded) || took > 5*time.Second {
		t.Errorf("%v after %v", err, took)
	}
	process.Notify(who, syscall.SIGCONT)
	_, l, s := h.adopt(t, id)
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
}
