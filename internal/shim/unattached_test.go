//go:build unix

package shim

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestS4RequestCutOff: the daemon dies in the middle of a request of 10 MB.
func TestS4RequestCutOff(t *testing.T) {
	t.Parallel()
	w := newWard(t, nil)
	a := w.attach(t, nil)
	const size = 10 << 20
	h := header{length: size, kind: kindMsg, generation: uint32(a.generation), seq: 1}
	if _, err := a.conn.Write(append(h.append(nil), make([]byte, size/2)...)); err != nil {
		t.Fatal(err)
	}
	a.die()
	w.wait(t, "the end of the daemon", alone)
	a = w.attach(t, nil)
	var hi welcome
	a.document(kindWelcome, &hi)
	if j := a.journal(); hi.Counters.PartialIn != 1 || len(j.Entries) != 0 || !j.Complete {
		t.Errorf("counters %+v, journal %+v", hi.Counters, j)
	}
	a.send(`{"id":1,"is":"the first line that the child reads"}`)
	f := a.until("the echo", func(f frame) bool { return f.kind == kindMsg })
	if string(f.body) != `{"id":1,"is":"the first line that the child reads"}` {
		t.Errorf("the child read %.80q", f.body)
	}
}

// TestS5AnswerCutOff: the daemon dies in the middle of a big answer.
func TestS5AnswerCutOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		size  int
		state string
	}{{10_000_000, "answered"}, {40_000_000, "lost"}} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			t.Parallel()
			w := newWard(t, nil)
			a := w.attach(t, nil)
			a.ask(1, "big", fmt.Sprint(c.size))
			half := make([]byte, c.size/2)
			_ = a.conn.SetReadDeadline(time.Now().Add(patience))
			for got := 0; got < len(half); {
				n, err := a.conn.Read(half)
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
			a.die()
			w.wait(t, "the end of the daemon", alone)
			a = w.attach(t, nil)
			j := a.journal()
			if len(j.Entries) != 1 || j.Entries[0].State != c.state {
				t.Fatalf("entries %+v, want %s", j.Entries, c.state)
			}
			kept := a.kept()
			if c.state == "lost" {
				if len(kept) != 0 {
					t.Errorf("%d frames of a lost answer", len(kept))
				}
			} else if len(kept) != 1 || len(kept[0]) < c.size || !strings.HasSuffix(kept[0], `,"id":1}`) {
				t.Fatalf("%d frames", len(kept))
			}
			a.ask(2, "where", "")
			a.answer(2)
		})
	}
}

// TestOverlongUnattached: an answer over the limit of a line, and nobody there.
func TestOverlongUnattached(t *testing.T) {
	t.Parallel()
	w := newWard(t, nil)
	a := w.attach(t, nil)
	a.ask(1, "big-after", filepath.Join(w.root, "go")+" 70000000")
	a.until("WRITTEN", func(f frame) bool { return f.kind == kindWritten })
	a.die()
	w.wait(t, "the end of the daemon", alone)
	touch(t, filepath.Join(w.root, "go"))
	w.wait(t, "the answer", func(st status) bool { return st.Journal.Running == 0 })
	a = w.attach(t, nil)
	var lost counters
	a.document(kindLost, &lost)
	if j := a.journal(); len(j.Entries) != 1 || j.Entries[0].State != "lost" || lost.Overlong != 1 || len(a.kept()) != 0 {
		t.Errorf("journal %+v, lost %+v", j, lost)
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestB4Flood: the child talks on while nobody is there. B4 has 10 MiB, S6 100 MB.
func TestB4Flood(t *testing.T) {
	t.Parallel()
	lines := 1_000_000
	if raced {
		lines = 110_000
	}
	w := newWard(t, nil)
	a := w.attach(t, nil)
	a.ask(1, "flood-after", filepath.Join(w.root, "go")+fmt.Sprint(" ", lines))
	a.until("WRITTEN", func(f frame) bool { return f.kind == kindWritten })
	a.die()
	w.wait(t, "the end of the daemon", alone)
	idle := anonymous(t, w.record.Supervisor.Pid)
	touch(t, filepath.Join(w.root, "go"))
	st := w.wait(t, "the end of the flood", func(st status) bool { return st.Journal.Running == 0 })
	if st.Journal.Ring > keptBytes || st.Journal.Ring < keptBytes/2 {
		t.Errorf("the ring has %d bytes", st.Journal.Ring)
	}
	checkMemory(t, w.record.Supervisor.Pid, idle)

	a = w.attach(t, nil)
	var hi welcome
	var lost counters
	a.document(kindWelcome, &hi)
	a.document(kindLost, &lost)
	kept := a.kept()
	first := lines - (len(kept) - 1)
	var size uint64
	for i := range lines {
		line := fmt.Sprintf(`{"method":"n","params":{"i":%d,"pad":"%s"}}`, i, strings.Repeat("x", 60))
		if i < first {
			size += uint64(len(line))
		} else if kept[i-first] != line {
			t.Fatalf("frame %d is %q, want %q", i-first, kept[i-first], line)
		}
	}
	if hi.Counters.DroppedFrames != uint64(first) || hi.Counters.DroppedBytes != size || lost.DroppedFrames != uint64(first) || lost.DroppedBytes != size {
		t.Errorf("dropped %+v, news %+v; want %d frames, %d bytes", hi.Counters, lost, first, size)
	}
	if want := fmt.Sprintf(`{"id":1,"result":%d}`, lines); kept[len(kept)-1] != want {
		t.Errorf("last frame %q, want %q", kept[len(kept)-1], want)
	}
	a.die()
	w.wait(t, "the end of the daemon", alone)
	a = w.attach(t, nil)
	a.document(kindLost, &lost)
	if lost != (counters{}) || len(a.kept()) != 1 {
		t.Errorf("told twice: %+v, %d frames", lost, len(a.kept()))
	}
}

// TestS7Questions: what the child asks is asked again until it has an answer.
func TestS7Questions(t *testing.T) {
	t.Parallel()
	w := newWard(t, nil, `print={"id":"q1","method":"elicitation/create"}`, `print={"id":"q2","method":"roots/list"}`)
	w.wait(t, "the questions", func(st status) bool { return st.Journal.Questions == 2 })
	a := w.attach(t, nil)
	want := []string{`{"id":"q1","method":"elicitation/create"}`, `{"id":"q2","method":"roots/list"}`}
	if got := a.kept(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("asked %q", got)
	}
	a.die()
	w.wait(t, "the end of the daemon", alone)
	a = w.attach(t, nil)
	if got := a.kept(); len(got) != 2 {
		t.Fatalf("asked %q", got)
	}
	a.send(`{"id":"q1","result":{"action":"accept"}}`)
	a.until("the answer at the child", func(f frame) bool { return f.kind == kindMsg && strings.Contains(string(f.body), "accept") })
	a.die()
	w.wait(t, "the end of the daemon", alone)
	a = w.attach(t, nil)
	// The child echoes what it reads, so the answer came back as an answer that belongs to no request.
	if got := a.kept(); len(got) == 0 || got[0] != want[1] {
		t.Errorf("asked %q, want the second only", got)
	}
}

// TestRefusedQuestions: a child that asks more than can be kept is told so.
func TestRefusedQuestions(t *testing.T) {
	t.Parallel()
	w := newWard(t, nil, fmt.Sprint("ask-many=", maxEntries+3))
	st := w.wait(t, "the questions", func(st status) bool { return st.Counters.Refused == 3 })
	if st.Journal.Questions != maxEntries {
		t.Errorf("%d questions", st.Journal.Questions)
	}
	// The child echoes the refusals.
	a := w.attach(t, nil)
	for id := range 3 {
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":{"code":-32603,"message":"nobody is there to answer"}}`, id)
		seen := strings.Contains(strings.Join(a.kept(), "\n"), want)
		if !seen {
			a.until(want, func(f frame) bool { return string(f.body) == want })
		}
	}
}

// TestExitUnattached: the end of a child that nobody watches leaves a file, and answers wait a while.
func TestExitUnattached(t *testing.T) {
	t.Parallel()
	t.Run("nothing to fetch", func(t *testing.T) {
		t.Parallel()
		w := newWard(t, nil)
		a := w.attach(t, nil)
		a.ask(1, "where", "")
		a.answer(1)
		if err := a.sendRaw(kindDone, binary.BigEndian.AppendUint64(nil, number(a.generation, 1))); err != nil {
			t.Fatal(err)
		}
		a.ask(2, "exit-after", filepath.Join(w.root, "go")+" 3")
		a.until("WRITTEN", func(f frame) bool { return f.kind == kindWritten && f.seq == 2 })
		a.die()
		w.wait(t, "the end of the daemon", alone)
		w.ended = true
		begin := time.Now()
		touch(t, filepath.Join(w.root, "go"))
		waitGone(w.record.Supervisor, patience)
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the supervisor stayed for %v", took)
		}
		var e exitInfo
		if err := readJSON(w.dir.exit(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Reason != reasonExited || e.Code != 3 || len(e.Open) != 1 || string(e.Open[0].ID) != "2" || e.Open[0].Method != "tools/call" ||
			len(e.Answered) != 0 || len(e.Finished) != 1 || string(e.Finished[0].ID) != "1" || !e.Complete {
			t.Errorf("exit %+v", e)
		}
	})
	t.Run("an answer to fetch", func(t *testing.T) {
		t.Parallel()
		w := newWard(t, nil)
		a := w.attach(t, nil)
		a.ask(1, "where", "")
		a.answer(1)
		a.ask(2, "exit-after", filepath.Join(w.root, "go")+" 3")
		a.until("WRITTEN", func(f frame) bool { return f.kind == kindWritten && f.seq == 2 })
		a.die()
		w.wait(t, "the end of the daemon", alone)
		touch(t, filepath.Join(w.root, "go"))
		var e exitInfo
		for limit := time.Now().Add(patience); readJSON(w.dir.exit(), &e) != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatal("no exit file")
			}
		}
		if len(e.Open) != 1 || len(e.Answered) != 1 || string(e.Answered[0].ID) != "1" {
			t.Errorf("exit %+v", e)
		}
		a = w.attach(t, nil)
		if kept := a.kept(); len(kept) != 1 || !strings.HasPrefix(kept[0], `{"id":1,`) {
			t.Errorf("kept %q", kept)
		}
		f := a.until("EXIT", func(f frame) bool { return f.kind == kindExit })
		if json.Unmarshal(f.body, &e) != nil || e.Code != 3 {
			t.Errorf("exit %s", f.body)
		}
		w.ended = true
		if err := a.sendRaw(kindDetach, nil); err != nil {
			t.Fatal(err)
		}
		waitGone(w.record.Supervisor, patience)
		if _, err := os.Stat(string(w.dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the bundle is left: %v", err)
		}
	})
}

// TestOrphanWaitsForACall: the lease of an orphan does not cut a call.
func TestOrphanWaitsForACall(t *testing.T) {
	t.Parallel()
	w := newWard(t, func(c *Config) { c.OrphanTTL = 100 * time.Millisecond })
	a := w.attach(t, nil)
	a.ask(1, "wait-for", filepath.Join(w.root, "go"))
	a.until("WRITTEN", func(f frame) bool { return f.kind == kindWritten })
	a.die()
	time.Sleep(time.Second) // ten leases
	if st := w.status(t); st.State != stateRunning || st.Journal.Running != 1 {
		t.Fatalf("status %+v", st)
	}
	w.ended = true
	touch(t, filepath.Join(w.root, "go"))
	waitGone(w.record.Supervisor, patience)
	var e exitInfo
	if err := readJSON(w.dir.exit(), &e); err != nil || e.Text != "orphan_ttl" || len(e.Answered) != 1 {
		t.Errorf("exit %+v, %v", e, err)
	}
}

// TestTooManyRequests: with the journal full the supervisor reads no further, and goes on with the next answer.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	w := newWard(t, nil)
	a := w.attach(t, nil)
	path := filepath.Join(w.root, "go")
	a.ask(0, "later", path)
	go func() {
		for id := 1; id <= 2*maxEntries; id++ { // the child answers none of them
			a.seq++
			body := fmt.Sprintf(`{"id":%d,"method":"silent","do":"silent"}`, id)
			h := header{length: uint32(len(body)), kind: kindMsg, generation: uint32(a.generation), seq: a.seq}
			if _, err := a.conn.Write(append(h.append(nil), body...)); err != nil {
				return
			}
		}
	}()
	full := func(st status) bool { return st.Journal.Running > maxEntries-batchRequests }
	st := w.wait(t, "a full journal", full)
	if st.Journal.Entries > maxEntries {
		t.Errorf("%+v", st.Journal)
	}
	touch(t, path)
	a.answer(0)
	w.wait(t, "a full journal", full)
	// Nothing is answered now, and the daemon dies: the supervisor must notice although it does not read.
	a.die()
	w.wait(t, "the end of the daemon", alone) // by its ping: this very process is the daemon, so it seems to live
	b := w.attach(t, nil)
	if j := b.journal(); len(j.Entries) > maxEntries || len(j.Entries) < maxEntries-batchRequests {
		t.Errorf("%d entries", len(j.Entries))
	}
}

// TestS14OlderHello: a daemon of the first version reads no kind of frame that it does not know.
func TestS14OlderHello(t *testing.T) {
	t.Parallel()
	w := newWard(t, nil)
	a := w.attach(t, nil)
	a.ask(1, "where", "")
	a.answer(1)
	a.die()
	w.wait(t, "the end of the daemon", alone)
	a = w.attach(t, func(h *hello) { h.Max = 1 })
	var kinds []kind
	for _, f := range a.before {
		kinds = append(kinds, f.kind)
	}
	if diff := cmp.Diff([]kind{kindWelcome, kindMsg, kindReady}, kinds); diff != "" {
		t.Error(diff)
	}
	var hi welcome
	if a.document(kindWelcome, &hi); hi.Protocol != 1 {
		t.Errorf("protocol %d", hi.Protocol)
	}
	if st := w.status(t); st.Min != 1 || st.Max != 2 || st.Protocol != 1 {
		t.Errorf("status %+v", st)
	}
}

// FuzzGreeting reads what no supervisor sends: it ends with an error or a greeting, and never panics.
func FuzzGreeting(f *testing.F) {
	frame := func(k kind, body string) []byte {
		return append(header{length: uint32(len(body)), kind: k}.append(nil), body...)
	}
	hi := frame(kindWelcome, `{"protocol":2}`)
	f.Add(append(append(hi, frame(kindBlob, "blob")...), frame(kindJournal, `{"next":4294967297,"entries":[{"n":1,"id":"MQ==","state":"lost"}]}`)...))
	f.Add(frame(kindWelcome, `{"protocol":1}`))
	f.Add(frame(kindRefused, `{"reason":"busy"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := readGreeting(newFrameReader(bytes.NewReader(b), controlBuffer))
		if err != nil {
			return
		}
		l := newLink(&Backend{cfg: Config{Epoch: 1}}, "", ready{}, g, &net.UnixConn{})
		a := l.adopted(record{}, g)
		if len(a.Calls) != len(g.journal.Entries) || g.welcome.Protocol < protoJournal && a.Complete {
			t.Fatalf("adopted %+v of %+v", a, g)
		}
	})
}
