package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

const (
	// megabytes10 is far more than a socket or a pipe holds: who sends it to a process that was paused is in the middle.
	megabytes10 = 10 << 20
	// beyondKept is more than a supervisor keeps of an answer (16 MiB): it is lost with the daemon that was reading it.
	beyondKept = 40 << 20
	// stuckAfter is how long a writer gets to fill the buffers in front of a paused reader.
	stuckAfter = time.Second
)

// killedMidRequest sends a 10 MB request whose way is blocked at the process reader, kills the daemon in the middle of it, and
// says how the call ended with the next daemon.
func killedMidRequest(t *testing.T, g *rig.Gateway, k *kept, reader int) rig.Outcome {
	t.Helper()
	rig.Pause(t, reader)
	end := make(chan rig.Outcome, 1)
	ctx, stop := context.WithTimeout(t.Context(), persistWithin)
	defer stop()
	go func() {
		o, err := k.c.Persist(ctx, "5", work("5", "half", `"ballast":"`+strings.Repeat("b", megabytes10)+`"`))
		if err != nil {
			o.Class = err.Error()
		}
		end <- o
	}()
	rig.Until(t, 5*time.Second, "the daemon sends", func() bool {
		ps := g.Processes(k.name)
		return len(ps) == 1 && ps[0].InFlight > 0
	})
	time.Sleep(stuckAfter)
	g.Kill()
	rig.Continue(t, reader)
	g.Serve()
	return <-end
}

// TestS4RequestHalfWritten: the daemon dies in the middle of a 10 MB request. The child reads no part of it, the client
// learns that it was not sent, and the next request parses.
func TestS4RequestHalfWritten(t *testing.T) {
	linux(t)
	g := rig.Start(t)
	k := keep(t, g, "half", fakemcp.Options{})
	if o := killedMidRequest(t, g, k, k.supervisor); o.Class != "not_sent" {
		t.Errorf("the half-written request ended as %s: %s", o.Class, clip(string(o.Body)))
	}
	whole(t, k)
	if n := k.count(t, `"half"`); n != 0 {
		t.Errorf("the child read %d lines of the half-written request", n)
	}
	k.unchanged(t, "6")
}

// TestS4LineHalfRead: the child is in the middle of reading a 10 MB line when the daemon dies; it gets the whole line,
// and its answer arrives.
func TestS4LineHalfRead(t *testing.T) {
	linux(t)
	g := rig.Start(t)
	k := keep(t, g, "halfread", fakemcp.Options{})
	if o := killedMidRequest(t, g, k, k.child); o.Class != "answer" || !strings.Contains(string(o.Body), "work half ") {
		t.Errorf("the call ended as %s: %s", o.Class, clip(string(o.Body)))
	}
	whole(t, k)
	k.unchanged(t, "6")
}

// whole fails when a line that the child read is no JSON.
func whole(t *testing.T, k *kept) {
	t.Helper()
	raw, err := os.ReadFile(k.record)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		if !json.Valid(line) {
			t.Errorf("the child read a torn line of %d bytes: %s", len(line), clip(string(line)))
		}
	}
}

// TestS5AnswerHalfRead: the daemon dies in the middle of reading an answer. One of 10 MB is delivered whole by the next
// daemon. One of 40 MB is more than a supervisor keeps: it is lost, and said to be, unless the next daemon was there before
// the supervisor had read it to its end: then it is delivered whole, too. That it is lost otherwise is what the shim's test of
// S5 shows.
func TestS5AnswerHalfRead(t *testing.T) {
	linux(t)
	for _, x := range []struct {
		name    string
		pad     int
		classes []string
	}{{"10-MB", megabytes10, []string{"answer"}}, {"40-MB", beyondKept, []string{"answered_lost", "answer"}}} {
		t.Run(x.name, func(t *testing.T) {
			g := rig.Start(t)
			k := keep(t, g, "answer", fakemcp.Options{})
			end := k.begun(t, "5", "big", work("5", "big", `"wait_ms":300`, fmt.Sprintf(`"pad":%d`, x.pad)))
			rig.Pause(t, g.PID())
			rig.Until(t, persistWithin, "the child has written its answer", func() bool { return rig.Written(k.child) > int64(x.pad) })
			time.Sleep(stuckAfter)
			g.Kill()
			g.Serve()
			o := <-end
			if !slices.Contains(x.classes, o.Class) {
				t.Fatalf("it ended as %s, want %v: %s", o.Class, x.classes, clip(string(o.Body)))
			}
			if n := k.count(t, quote("big")); n != 1 {
				t.Errorf("the child was asked %d times", n)
			}
			if o.Class == "answer" {
				_, text, _ := strings.Cut(string(o.Body), "work big ")
				if n := strings.Count(text, "x"); n != x.pad {
					t.Errorf("the answer has %d bytes of %d", n, x.pad)
				}
			}
			k.unchanged(t, "6")
		})
	}
}

const (
	// floodFrames of floodSize bytes are what a child says while nobody listens: 100 MB. What a supervisor keeps of them
	// has to fit into what a stream keeps for a client that is not there yet, or the test could not count it.
	floodFrames, floodSize = 10_000, 10_000
	// supervisorLimit is what a supervisor may have of its own memory through such a flood.
	supervisorLimit = 16 << 20
	// quietLimit is what it may have once things are quiet: docs/decisions/0021.
	quietLimit = 5_000_000 + 1<<20
)

// TestS6B4FloodUnattached: a child that writes 100 MB while no daemon runs is not blocked, its supervisor stays small,
// the newest whole frames arrive, and what was dropped is counted exactly.
func TestS6B4FloodUnattached(t *testing.T) {
	linux(t)
	g := rig.Start(t)
	k := keep(t, g, "flood", fakemcp.Options{})
	finished := filepath.Join(g.Home, "finished")
	call := k.c.Begin(tool("5", "burst", fmt.Sprintf(`{"count":%d,"size":%d,"mark":"m","wait_ms":500,"file":%q}`, floodFrames, floodSize, finished)))
	rig.Until(t, slack, "the child has the call", func() bool { return k.count(t, `"burst"`) > 0 })
	g.Kill()
	var most int64
	took := rig.Until(t, persistWithin, "the child wrote everything", func() bool {
		own, _ := rig.Memory(k.supervisor)
		most = max(most, own)
		_, err := os.Stat(finished)
		return err == nil
	})
	own, share := rig.Memory(k.supervisor)
	rig.Until(t, persistWithin, "the supervisor gave back what the flood took", func() bool {
		own, share = rig.Memory(k.supervisor)
		return own <= quietLimit
	})
	t.Logf("100 MB in %s; the supervisor had at most %.1f MiB of its own, then %.1f MiB (PSS %.1f MiB)", took, float64(most)/(1<<20), float64(own)/(1<<20), float64(share)/(1<<20))
	if most > supervisorLimit {
		t.Errorf("the supervisor had %d bytes of its own, want at most %d", most, supervisorLimit)
	}
	call.Close()
	g.Serve()
	c := k.c.On(t)
	c.Header = http.Header{"Last-Event-ID": {"rNQ.0.0"}} // request id 5
	stream := c.Listen()
	var seen []int
	for len(seen) == 0 || seen[len(seen)-1] != floodFrames-1 {
		message := stream.Await("notifications/message", 5*time.Second)
		_, text, _ := strings.Cut(string(message), `"data":"m `)
		var n int
		if _, err := fmt.Sscan(text, &n); err != nil {
			t.Fatalf("not of the flood: %s", clip(string(message)))
		}
		if len(seen) > 0 && n != seen[len(seen)-1]+1 {
			t.Fatalf("frame %d follows %d", n, seen[len(seen)-1])
		}
		seen = append(seen, n)
	}
	stream.Await(`"id":5`, slack)
	t.Logf("%d frames arrived, %d were dropped", len(seen), seen[0])
	lost := fmt.Sprintf(`"count":%d,"bytes":%d`, seen[0], seen[0]*floodSize)
	if log := g.Log(); !strings.Contains(log, lost) {
		t.Errorf("the daemon does not report %s", lost)
	}
	k.unchanged(t, "6")
}
