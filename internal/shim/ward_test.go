//go:build unix

package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
)

// patience bounds every wait of a test; nothing waits that long when the code is right.
const patience = time.Minute

// ward is a supervised child whose daemons come and go, seen from below: frame by frame.
type ward struct {
	root   string
	record record
	dir    bundle
	epoch  uint64
	ended  bool // by itself: nothing is left to end
}

// newWard starts a child and leaves it alone.
func newWard(t *testing.T, change func(*Config), args ...string) *ward {
	t.Helper()
	w := &ward{root: t.TempDir(), epoch: 1}
	b := daemonOf(t, w.root, 1)
	if change != nil {
		change(&b.cfg)
		b.SetOrphanTTL(b.cfg.OrphanTTL)
	}
	exe, _ := os.Executable()
	s := quietSink{closed: make(chan gateway.Exit, 1)}
	l, err := b.Open(t.Context(), gateway.Open{
		Server: catalog.Server{Name: "x", Stdio: &catalog.Stdio{Command: exe, Args: append([]string{"child"}, args...)}}, Cwd: w.root,
		Env: []string{"GORACE=atexit_sleep_ms=0"},
	}, s)
	if err != nil {
		t.Fatal(err)
	}
	bundles, _ := filepath.Glob(filepath.Join(w.root, "state", "bundles", "*"))
	w.dir = bundle(bundles[0])
	if w.record, err = waitRecord(w.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !w.ended {
			_ = b.terminate(context.Background(), w.record.Socket, w.record.Token, w.dir, w.record.Supervisor, "the test is over")
		}
		waitGone(w.record.Supervisor, patience)
		if w.record.Supervisor.Alive() {
			t.Error("the supervisor outlived the test")
			process.Kill(w.record.Supervisor)
		}
	})
	if err := l.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// raw is one attachment, read by hand.
type raw struct {
	peer
	t      *testing.T
	r      *frameReader
	before []frame // up to READY
	seq    uint64
}

// attach is the daemon after the last one.
func (w *ward) attach(t *testing.T, change func(*hello)) *raw {
	t.Helper()
	w.epoch++
	p, r, frames := greet(t, daemonOf(t, w.root, w.epoch), w.record, change)
	if last := frames[len(frames)-1]; last.kind != kindReady {
		t.Fatalf("refused: %s", last.body)
	}
	return &raw{peer: p, t: t, r: r, before: frames}
}

// document decodes the frame of this kind that came before READY.
func (a *raw) document(k kind, into any) {
	a.t.Helper()
	for _, f := range a.before {
		if f.kind == k {
			if err := json.Unmarshal(f.body, into); err != nil {
				a.t.Fatal(err)
			}
			return
		}
	}
	a.t.Fatalf("no frame of kind %d", k)
}

func (a *raw) journal() (j journalInfo) {
	a.t.Helper()
	a.document(kindJournal, &j)
	return j
}

// kept are the messages that came before READY.
func (a *raw) kept() (all []string) {
	for _, f := range a.before {
		if f.kind == kindMsg {
			all = append(all, string(f.body))
		}
	}
	return all
}

// send writes one message.
func (a *raw) send(body string) {
	a.t.Helper()
	a.seq++
	h := header{length: uint32(len(body)), kind: kindMsg, generation: uint32(a.generation), seq: a.seq}
	if _, err := a.conn.Write(append(h.append(nil), body...)); err != nil {
		a.t.Fatal(err)
	}
}

// ask sends a verb for the child.
func (a *raw) ask(id int, verb, arg string) {
	a.t.Helper()
	a.send(fmt.Sprintf(`{"id":%d,"method":"tools/call","do":%q,"arg":%q}`, id, verb, arg))
}

// until reads on up to the first frame that is meant.
func (a *raw) until(what string, is func(frame) bool) frame {
	a.t.Helper()
	_ = a.conn.SetReadDeadline(time.Now().Add(patience))
	for {
		f, err := a.r.next()
		if err != nil {
			a.t.Fatalf("waiting for %s: %v", what, err)
		}
		if is(f) {
			f.body = append([]byte(nil), f.body...)
			return f
		}
	}
}

// answer reads on up to the answer with this id.
func (a *raw) answer(id int) string {
	a.t.Helper()
	prefix := fmt.Sprintf(`{"id":%d,"result":`, id)
	return string(a.until(prefix, func(f frame) bool { return f.kind == kindMsg && strings.HasPrefix(string(f.body), prefix) }).body)
}

// die closes the connection without a word.
func (a *raw) die() { _ = a.conn.Close() }

// status asks over a control connection.
func (w *ward) status(t *testing.T) (st status) {
	t.Helper()
	b := daemonOf(t, w.root, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, r, err := b.dial(ctx, w.record.Socket, w.record.Token, w.record.ID, roleControl, w.record.Supervisor)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if f, err := r.next(); err != nil || f.kind != kindReady {
		t.Fatalf("kind %d, %v", f.kind, err)
	}
	if err := (peer{conn: conn, generation: 1}).send(kindStatus, nil); err != nil {
		t.Fatal(err)
	}
	f, err := r.next()
	if err != nil || json.Unmarshal(f.body, &st) != nil {
		t.Fatalf("status %q, %v", f.body, err)
	}
	return st
}

// wait polls the status.
func (w *ward) wait(t *testing.T, what string, ok func(status) bool) (st status) {
	t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if st = w.status(t); ok(st) {
			return st
		}
		if time.Now().After(limit) {
			t.Fatalf("waited in vain for %s: %+v", what, st)
		}
	}
}

func alone(st status) bool { return !st.Attached }
