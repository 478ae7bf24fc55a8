//go:build unix

package shim_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
	"mcpx/internal/shim"
)

// speaker is the name of a copy of this binary whose supervisors speak other versions of the attach protocol.
const speaker = "speaks-%d-%d"

// speak makes a supervisor of such a copy what its name says.
func speak() {
	exe, err := os.Executable()
	var from, to int
	if n, _ := fmt.Sscanf(filepath.Base(exe), speaker, &from, &to); err == nil && n == 2 {
		shim.SpeakProtocol(from, to)
	}
}

// speaking makes such a copy.
func speaking(t *testing.T, from, to int) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), fmt.Sprintf(speaker, from, to))
	if os.Link(exe, path) == nil {
		return path
	}
	in, err := os.Open(exe) // another file system
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o700)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestS14OlderSupervisor: a supervisor of the version before is adopted; it has no blob and no journal to give.
func TestS14OlderSupervisor(t *testing.T) {
	t.Parallel()
	exe := speaking(t, 1, 1)
	h := newHome(t, func(c *shim.Config) { c.Exe = exe })
	l, s, id := h.start(t)
	if err := l.Save([]byte("x")); err != nil {
		t.Fatal(err)
	}
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
	l.Done(1)
	before := l.Info().Pid
	if err := l.Detach(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.next(t, nil)
	a, l, s := h.adopt(t, id)
	if a.Blob != nil || len(a.Calls) != 0 || a.Complete || a.Child != before {
		t.Errorf("adopted %+v", a)
	}
	l.Done(1)
	call(t, l, 2, "where", "")
	s.answer(t, 2, nil)
	call(t, l, 3, "print", `{"method":"n"}`)
	s.until(t, "the notification", func() bool { return strings.Contains(string(s.inbound[len(s.inbound)-1]), `"n"`) })
	l.Close("")
	s.closed(t)
}

// TestS14OlderDaemon: a daemon of the version before is served, and leaves nothing that its successor could not know.
func TestS14OlderDaemon(t *testing.T) {
	t.Parallel()
	h := newHome(t, nil)
	h.SpeakProtocol(1, 1)
	l, s, id := h.start(t)
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
	call(t, l, 2, "wait-for", filepath.Join(h.root, "go"))
	written(t, s, 2)
	h.crash(t, l)
	a, _, s := h.adopt(t, id)
	if len(a.Calls) != 1 || string(a.Calls[0].ID) != "2" || a.Calls[0].State != gateway.CallRunning || len(a.Finished) != 1 {
		t.Errorf("calls %+v, finished %+v", a.Calls, a.Finished)
	}
	if err := os.WriteFile(filepath.Join(h.root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.answer(t, 2, nil)
}

// TestS14UnknownSupervisor: one that speaks nothing of ours is not adopted, and is ended in order.
func TestS14UnknownSupervisor(t *testing.T) {
	t.Parallel()
	exe := speaking(t, 7, 9)
	h := newHome(t, func(c *shim.Config) { c.Exe = exe })
	h.SpeakProtocol(7, 9)
	l, s, id := h.start(t)
	call(t, l, 1, "where", "")
	s.answer(t, 1, nil)
	child, err := process.Identify(l.Info().Pid)
	if err != nil {
		t.Fatal(err)
	}
	h.crash(t, l)
	err = h.Adopt(t.Context(), id, func(gateway.Adopted) (gateway.Sink, error) {
		t.Error("taken over")
		return nil, nil
	})
	if fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "refused: protocol") {
		t.Errorf("error %v", err)
	}
	if !child.Alive() {
		t.Error("a refusal ended the child")
	}
	h.End(id, "of another version")
	h.nothingLeft(t)
	if child.Alive() {
		t.Error("the child of an unknown supervisor lives")
	}
}
