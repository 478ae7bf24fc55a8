//go:build unix

package shim

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
	"mcpx/internal/id"
	"mcpx/internal/process"
)

// quietSink takes everything and remembers the end.
type quietSink struct{ closed chan gateway.Exit }

func (quietSink) Deliver(gateway.Inbound)        {}
func (quietSink) Written(uint64)                 {}
func (quietSink) Failed(uint64, gateway.Failure) {}
func (quietSink) Overlong([]byte, int64)         {}
func (quietSink) Stderr([]byte)                  {}
func (s quietSink) Closed(e gateway.Exit)        { s.closed <- e }

// daemonOf is a Backend of one start of a daemon on the given directory.
func daemonOf(t *testing.T, root string, epoch uint64) *Backend {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(Config{
		StateDir: filepath.Join(root, "state"), RunDir: filepath.Join(root, "run"), Exe: exe, Version: "test", Epoch: epoch,
		Environ: os.Environ(), Now: time.Now, IDs: id.NewSource(time.Now, rand.Reader), Log: slog.New(slog.DiscardHandler),
		Ladder: process.Ladder{Stdin: time.Second, Term: time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Wait)
	return b
}

// greet sends HELLO as the daemon that b is and reads up to READY or REFUSED.
func greet(t *testing.T, b *Backend, r record, change func(*hello)) (peer, *frameReader, []frame) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	h := hello{
		Min: b.speak.min, Max: b.speak.max, Role: roleAttach, Generation: b.cfg.Epoch, Token: r.Token, Instance: r.ID,
		Daemon: daemonInfo{Identity: b.self, Version: "test"},
	}
	if change != nil {
		change(&h)
	}
	conn, fr, err := b.hello(ctx, r.Socket, r.Supervisor, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	var got []frame
	for {
		f, err := fr.next()
		if err != nil {
			t.Fatalf("after %d frames: %v", len(got), err)
		}
		f.body = append([]byte(nil), f.body...)
		got = append(got, f)
		if f.kind == kindReady || f.kind == kindRefused {
			return peer{conn: conn, generation: b.cfg.Epoch}, fr, got
		}
	}
}

func refusal(t *testing.T, frames []frame) refused {
	t.Helper()
	last := frames[len(frames)-1]
	var no refused
	if last.kind != kindRefused || json.Unmarshal(last.body, &no) != nil {
		t.Fatalf("kind %d, want a refusal", last.kind)
	}
	return no
}

// TestAttachRules goes through the fencing of supervisor.md section 4 with one supervisor and three starts of daemons.
func TestAttachRules(t *testing.T) {
	root := t.TempDir()
	first, second, third := daemonOf(t, root, 1), daemonOf(t, root, 2), daemonOf(t, root, 3)
	exe, _ := os.Executable()
	s := quietSink{closed: make(chan gateway.Exit, 1)}
	l, err := first.Open(t.Context(), gateway.Open{
		Server: catalog.Server{Name: "x", Stdio: &catalog.Stdio{Command: exe, Args: []string{"child"}}}, Cwd: root,
		Env: []string{"GORACE=atexit_sleep_ms=0"},
	}, s)
	if err != nil {
		t.Fatal(err)
	}
	bundles, _ := filepath.Glob(filepath.Join(root, "state", "bundles", "*"))
	if len(bundles) != 1 {
		t.Fatalf("bundles %v", bundles)
	}
	r, err := waitRecord(bundle(bundles[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = first.terminate(context.Background(), r.Socket, r.Token, bundle(bundles[0]), r.Supervisor, "the test is over")
		waitGone(r.Supervisor, 10*time.Second)
	}()

	for name, c := range map[string]struct {
		by     *Backend
		change func(*hello)
		want   string
	}{
		"wrong token":             {second, func(h *hello) { h.Token = strings.Repeat("0", 64) }, refusedToken},
		"another instance":        {second, func(h *hello) { h.Instance = "shim_x" }, refusedToken},
		"unknown protocol":        {second, func(h *hello) { h.Min, h.Max = 7, 9 }, refusedProtocol},
		"somebody holds it":       {second, nil, refusedBusy},
		"the same start, another": {first, func(h *hello) { h.Daemon.Pid++ }, refusedStale},
	} {
		_, _, frames := greet(t, c.by, r, c.change)
		if no := refusal(t, frames); no.Reason != c.want {
			t.Errorf("%s: refused as %q, want %q", name, no.Reason, c.want)
		} else if c.want == refusedBusy && (no.Holder.Pid != os.Getpid() || no.Generation != 1) {
			t.Errorf("%s: holder %+v, generation %d", name, no.Holder, no.Generation)
		}
	}

	thief, fr, frames := greet(t, second, r, func(h *hello) { h.Steal = true })
	var w welcome
	if frames[0].kind != kindWelcome || json.Unmarshal(frames[0].body, &w) != nil || w.Child == nil || w.Child.Pid != l.Info().Pid || w.Generation != 1 {
		t.Fatalf("the thief reads %q", frames[0].body)
	}
	if e := <-s.closed; e.Reason != gateway.Detached {
		t.Errorf("the old holder was told %+v", e)
	}
	if err := l.Send(gateway.Outbound{Body: []byte(`{"from":"the old one"}`)}); err == nil {
		t.Error("the old holder can still send")
	}
	// The child answers the new holder, and its pipes were never closed.
	if err := thief.sendRaw(kindMsg, []byte(`{"from":"the new one"}`)); err != nil {
		t.Fatal(err)
	}
	for {
		f, err := fr.next()
		if err != nil {
			t.Fatal(err)
		}
		if f.kind == kindMsg {
			if string(f.body) != `{"from":"the new one"}` {
				t.Errorf("the child read %q", f.body)
			}
			break
		}
	}

	// Without a daemon output is kept, and given to the next one before anything else.
	if err := thief.sendRaw(kindMsg, []byte(`{"id":1,"do":"flood","arg":"3"}`)); err != nil {
		t.Fatal(err)
	}
	if err := thief.sendRaw(kindMsg, []byte(`{"id":2,"do":"delay","arg":"300"}`)); err != nil {
		t.Fatal(err)
	}
	if err := thief.sendRaw(kindDetach, nil); err != nil {
		t.Fatal(err)
	}
	for f := (frame{}); f.kind != kindDetached; {
		if f, err = fr.next(); err != nil {
			t.Fatal(err)
		}
	}
	_, _, frames = greet(t, second, r, func(h *hello) { h.Generation = 1 })
	if no := refusal(t, frames); no.Reason != refusedStale {
		t.Errorf("an older daemon: %q, want %q", no.Reason, refusedStale)
	}
	_, fr, frames = greet(t, third, r, nil)
	for _, f := range frames[1 : len(frames)-1] {
		if f.kind == kindLost || f.kind == kindJournal {
			continue
		}
		if f.kind != kindMsg || f.flags&flagKept == 0 {
			t.Errorf("between WELCOME and READY: kind %d, flags %d", f.kind, f.flags)
		}
	}
	for { // kept or sent now: the late answer comes exactly once and last
		last := frames[len(frames)-1]
		if last.kind == kindMsg && strings.Contains(string(last.body), "late") {
			break
		}
		f, err := fr.next()
		if err != nil {
			t.Fatal(err)
		}
		f.body = append([]byte(nil), f.body...)
		frames = append(frames, f)
	}
}

// waitRecord waits until the record names the child.
func waitRecord(b bundle) (r record, err error) {
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(time.Millisecond) {
		if r, err = b.readRecord(); err == nil && r.Child != nil {
			return r, nil
		}
	}
	return r, err
}

func TestRingKeepsTheLastWholeLines(t *testing.T) {
	var r ring
	line := func(c byte) []byte { return []byte(strings.Repeat(string(c), 300<<10)) }
	for i, c := range []byte("abcde") {
		r.add(uint64(i), line(c))
	}
	got := ""
	for _, l := range r.take() {
		got += string(l.text[0])
	}
	if got != "cde" || r.droppedFrames != 2 || r.droppedBytes != 600<<10 {
		t.Errorf("kept %q, dropped %d frames, %d bytes", got, r.droppedFrames, r.droppedBytes)
	}
	if len(r.take()) != 0 || r.size != 0 {
		t.Error("the ring was not emptied")
	}
}

func TestTailKeepsTheLastBytes(t *testing.T) {
	var a tail
	a.write([]byte("first "))
	if got := string(a.last(100)); got != "first " {
		t.Errorf("last %q", got)
	}
	for range 100 {
		a.write([]byte(strings.Repeat("x", 1000)))
	}
	a.write([]byte("the end"))
	if got := a.last(tailShown); len(got) != tailShown || !strings.HasSuffix(string(got), "xxthe end") {
		t.Errorf("%d bytes, end %q", len(got), got[len(got)-10:])
	}
	a.write([]byte(strings.Repeat("y", 3*tailRing) + "z"))
	if got := a.last(2 * tailRing); len(got) != tailRing || got[0] != 'y' || got[len(got)-1] != 'z' {
		t.Errorf("%d bytes after a long write", len(got))
	}
}

func TestRotatingLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	r, err := openRotating(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		r.write([]byte("0123456789"))
	}
	r.close()
	for _, p := range []string{path, path + ".1"} {
		if info, err := os.Stat(p); err != nil || info.Size() > 100 || info.Size() == 0 {
			t.Errorf("%s: %v, %v", p, info, err)
		}
	}
}

func TestRingOfManyAndOfLongLines(t *testing.T) {
	var r ring
	r.add(1, make([]byte, keptBytes)) // fits never, and drives nothing else out
	if r.lines != 0 || r.droppedFrames != 1 || r.droppedBytes != keptBytes {
		t.Errorf("%d lines, dropped %d, %d bytes", r.lines, r.droppedFrames, r.droppedBytes)
	}
	total := 1
	for round := range 50 {
		for _, n := range []int{0, 10, 100, segmentSize / 4, 3 * segmentSize, 1000} {
			r.add(uint64(total), []byte(strings.Repeat(string(rune('a'+round%26)), n)))
			total++
		}
	}
	held := 0
	for _, s := range r.segments {
		held += cap(s)
	}
	if held > keptBytes*3/2 || r.size > keptBytes {
		t.Errorf("%d bytes of memory for %d", held, r.size)
	}
	lines := r.take()
	for i, l := range lines {
		if want := uint64(total - len(lines) + i); l.arrived != want {
			t.Fatalf("line %d has place %d, want %d", i, l.arrived, want)
		}
	}
	if int(r.droppedFrames)+len(lines) != total || len(lines) < 10 {
		t.Errorf("%d dropped, %d kept of %d", r.droppedFrames, len(lines), total)
	}
}
