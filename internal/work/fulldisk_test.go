//go:build unix

package work

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// roomless is a runner without room for jobs, once its disk is full.
type roomless struct {
	operation.Runner
	full *atomic.Bool
}

func (r roomless) Reserve(ctx context.Context, ref operation.JobRef) error {
	if r.full.Load() {
		return fmt.Errorf("mkdir: %w", syscall.ENOSPC)
	}
	return r.Runner.Reserve(ctx, ref)
}

// roomlessStore is a store in which nothing can be written, once its disk is full.
type roomlessStore struct {
	store.DB
	full *atomic.Bool
}

func (r roomlessStore) Change(ctx context.Context, fn func(store.Tx) error) error {
	if r.full.Load() {
		return fault.New(fault.Unavailable, "store-full").Saying("the disk is full")
	}
	return r.DB.Change(ctx, fn)
}

// TestBuildOnFullDisk: a candidate for which there is no room ends at once, says why, and gives back what was sealed of it; the same
// producer makes a build when there is room. An audit that could not be written down ends when it can.
func TestBuildOnFullDisk(t *testing.T) {
	w := newWorks(t)
	var full atomic.Bool
	whole := w.cfg.Runner
	w.cfg.Runner = roomless{whole, &full}
	// the producer ends after the disk is full: its validator finds no room
	flag := filepath.Join(t.TempDir(), "go-on")
	job := w.start(t, "mkdir -p out; cp source.txt out/a; until test -e "+flag+"; do sleep 0.02; done", `,"validators":[{"argv":["true"]}]`)
	full.Store(true)
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := w.became(t, job.Candidate)
	if g.State != workspace.GenRejected || g.Why != workspace.RejectedSpace || !strings.Contains(g.Text, "no space") {
		t.Errorf("without room: %+v", g)
	}
	if left, err := os.ReadDir(filepath.Join(w.state, "generations")); len(left) != 0 || err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is left: %v, %v", left, err)
	}
	full.Store(false)
	g = w.produce(t, "mkdir -p out; cp source.txt out/a", `,"validators":[{"argv":["true"]}]`)
	if g.State != workspace.GenReady {
		t.Fatalf("with room: %+v", g)
	}

	// the record of an audit that never began cannot be written
	var stuck atomic.Bool
	db := w.cfg.DB
	begin := w.tools["start_verified_workspace_consumer"].begin
	w.cfg.DB = roomlessStore{db, &stuck}
	w.tools["start_verified_workspace_consumer"].begin = func(ctx context.Context, s *Service, t *turn) (effect, error) {
		e, err := begin(ctx, s, t)
		if err != nil {
			return nil, err
		}
		return unrecorded{e.(*consumption), &stuck}, nil
	}
	if a := w.call(t, "start_verified_workspace_consumer", `{"build_id":%q,"argv":["true"],"operation_id":"consume-01"}`, g.Build); a.OK {
		t.Fatalf("%+v", a)
	}
	stuck.Store(false)
	w.tools["start_verified_workspace_consumer"].begin = begin
	for limit := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		shown := w.became(t, g.Build)
		if len(shown.Audits) == 1 && shown.Audits[0].State == workspace.AuditLost {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the audit: %+v", shown.Audits)
		}
	}
	read[actedOn](t, w.call(t, "release_generation", `{"build_id":%q,"operation_id":"release-01"}`, g.Build))
}

// unrecorded is a consumer that fails when it is ready, when the store is full.
type unrecorded struct {
	*consumption
	full *atomic.Bool
}

func (u unrecorded) stage(ctx context.Context) (any, error) {
	_, err := u.consumption.stage(ctx)
	u.full.Store(true)
	return nil, errors.Join(err, operation.Refuse("NO_SPACE", "there is no space"))
}

// TestBesideOutputs: what is beside the outputs may be anything, and may change all the time.
func TestBesideOutputs(t *testing.T) {
	w := newWorks(t)
	if err := syscall.Mkfifo(filepath.Join(w.w.Path, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(w.w.Path, "deep/out"), 0o755); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, dir := range []string{"", "deep"} {
				path := filepath.Join(w.w.Path, dir, fmt.Sprintf("moving-%d", n%3))
				if os.WriteFile(path, []byte(fmt.Sprint(n)), 0o600) != nil || os.Remove(path) != nil {
					return
				}
			}
		}
	}()
	for n := range 5 {
		job := read[startedJob](t, w.call(t, producerTool, `{"handle":%q,"shell":"for i in 1 2 3 4 5 6 7 8; do echo $i > deep/out/$i; done","outputs":["deep/out"],"operation_id":"produce-%03d","distinct_from":"produce-%03d"}`, w.handle, n, n-1))
		if g := w.became(t, job.Candidate); g.State != workspace.GenReady && g.State != workspace.GenSuperseded || g.Files != 8 {
			t.Errorf("%d: %+v", n, g)
		}
	}
	close(stop)
	<-stopped
	if err := syscall.Mkfifo(filepath.Join(w.w.Path, "deep/out/pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	job := read[startedJob](t, w.call(t, producerTool, `{"handle":%q,"argv":["true"],"outputs":["deep/out"],"operation_id":"produce-099"}`, w.handle))
	if g := w.became(t, job.Candidate); g.State != workspace.GenRejected || g.Why != workspace.RejectedOutput {
		t.Errorf("a pipe among them: %+v", g)
	}
}
