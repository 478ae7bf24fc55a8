package wire

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/test/rig"
)

// TestRT137Log: RT-137. Sixteen writers at once, a SIGKILL in the middle and sixteen more leave a log without a gap, in which
// is what they were told; it verifies, and one byte that is flipped in an envelope is found with its sequence.
func TestRT137Log(t *testing.T) {
	const writers, enough = 16, 120
	g := rig.Start(t)
	root := t.TempDir()
	var told atomic.Int64
	write := func(round int, each func(n int64) (more bool)) {
		var all sync.WaitGroup
		for w := range writers {
			client := g.API()
			all.Go(func() {
				for i := 0; ; i++ {
					name := fmt.Sprintf("shop-%d-%02d-%04d", round, w, i)
					dir := filepath.Join(root, name)
					if err := os.Mkdir(dir, 0o700); err != nil {
						t.Error(err)
						return
					}
					if _, err := client.AddProject(api.Under(t.Context(), "add-"+name), api.AddProject{Path: dir, Name: name}); err != nil {
						if each(-1) {
							t.Errorf("%s: %v", name, err)
						}
						return
					}
					if !each(told.Add(1)) {
						return
					}
				}
			})
		}
		all.Wait()
	}
	reached, killed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(killed)
		<-reached
		g.Kill()
	}()
	var once sync.Once
	write(1, func(n int64) bool {
		if n >= enough {
			once.Do(func() { close(reached) })
		}
		return n >= 0 // the kill ends them
	})
	once.Do(func() { close(reached) })
	<-killed
	if told.Load() < enough {
		t.Fatalf("the writers ended after %d events", told.Load())
	}
	g.Serve()
	until := told.Load() + enough
	write(2, func(n int64) bool { return n < 0 || n < until })

	var log []event.Event
	added := 0
	if err := g.API().Events(t.Context(), api.EventsQuery{}, func(e event.Event) error {
		log = append(log, e)
		if e.Kind == event.ProjectAdded {
			added++
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, e := range log {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has the sequence %d", i+1, e.Seq)
		}
	}
	if added < int(told.Load()) || added > int(told.Load())+writers {
		t.Errorf("%d projects were told to be added, the log has %d", told.Load(), added)
	}
	g.Must("audit", "verify")

	g.Must("daemon", "stop", "--children")
	g.Wait()
	var victim event.Event // in the middle
	for _, e := range log[:len(log)/2] {
		if e.Kind == event.ProjectAdded {
			victim = e
		}
	}
	path := filepath.Join(g.Home, "state", "mcpx.db")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole, broken := []byte(victim.Summary), []byte(victim.Summary)
	broken[0] ^= 1
	if !bytes.Contains(raw, whole) {
		t.Fatalf("%q is not in the database", whole)
	}
	raw = bytes.ReplaceAll(raw, whole, broken) // pages that are not used any more may have it, too
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	r := g.Run("audit", "verify")
	if want := fmt.Sprintf("the log is broken at event %d: %s", victim.Seq, event.HashDiffers); r.Code != 1 || !strings.Contains(r.Stdout, want) {
		t.Errorf("verify ends with %d: %s%s, want %q", r.Code, r.Stdout, r.Stderr, want)
	}
}
