//go:build unix

package shim_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/process"
	"mcpx/internal/rpc"
	"mcpx/internal/shim"
)

// home is one state directory with the daemons that come one after the other.
type home struct {
	*rig
	root  string
	epoch uint64
	id    string // of the bundle
}

func newHome(t testing.TB, change func(*shim.Config)) *home {
	t.Helper()
	h := &home{root: t.TempDir()}
	h.next(t, change)
	return h
}

// next is the daemon after the present one.
func (h *home) next(t testing.TB, change func(*shim.Config)) {
	t.Helper()
	h.epoch++
	h.rig = newRig(t, func(c *shim.Config) {
		c.StateDir, c.RunDir, c.Epoch = filepath.Join(h.root, "state"), filepath.Join(h.root, "run"), h.epoch
		if change != nil {
			change(c)
		}
	})
	last := h.rig
	t.Cleanup(func() { // before the rig waits for its links
		if h.id != "" {
			last.End(h.id, "the test is over")
		}
	})
}

// start opens a supervised child that is ended with the test, whoever holds it then.
func (h *home) start(t testing.TB, args ...string) (gateway.KeptLink, *sink, string) {
	t.Helper()
	s := newSink()
	o := h.request(false, args...)
	o.Process = "digest"
	l, err := h.Open(context.Background(), o, s)
	if err != nil {
		t.Fatal(err)
	}
	h.id = h.bundle(t)
	who, err := process.Identify(l.Info().Supervisor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.End(h.id, "the test is over")
		h.Wait()
		for limit := time.Now().Add(patience); who.Alive(); time.Sleep(time.Millisecond) {
			if time.Now().After(limit) {
				t.Error("the supervisor outlived the test")
				process.Kill(who)
			}
		}
	})
	return l.(gateway.KeptLink), s, h.id
}

// bundle is the id of the only one there is.
func (h *home) bundle(t testing.TB) string {
	t.Helper()
	all, err := os.ReadDir(filepath.Join(h.state, "bundles"))
	if err != nil || len(all) != 1 {
		t.Fatalf("bundles %v, %v; want one", all, err)
	}
	return all[0].Name()
}

// adopt takes a survivor over.
func (h *home) adopt(t testing.TB, id string) (gateway.Adopted, gateway.KeptLink, *sink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s := newSink()
	var got gateway.Adopted
	take := func(a gateway.Adopted) (gateway.Sink, error) {
		got = a
		return s, nil
	}
	err := h.Adopt(ctx, id, take)
	for fault.KindOf(err) == fault.Busy && ctx.Err() == nil {
		// The daemon that crashed is this very process, so only the end of its connection tells.
		err = h.Adopt(ctx, id, take)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got, got.Link, s
}

// crash kills the daemon that holds l, and makes the next one.
func (h *home) crash(t testing.TB, l gateway.Link) {
	t.Helper()
	shim.Crash(l)
	h.next(t, nil)
}

// call sends a request with a tag.
func call(t testing.TB, l gateway.Link, ref uint64, verb, arg string) {
	t.Helper()
	err := l.Send(gateway.Outbound{
		Body: fmt.Appendf(nil, `{"id":%d,"method":"tools/call","do":%q,"arg":%q}`, ref, verb, arg),
		Kind: rpc.Request, Ref: ref, Method: "tools/call", Tag: fmt.Appendf(nil, "tag %d", ref),
	})
	if err != nil {
		t.Fatal(err)
	}
}

func written(t testing.TB, s *sink, ref uint64) {
	t.Helper()
	s.until(t, fmt.Sprintf("WRITTEN %d", ref), func() bool {
		return slices.Contains(s.written, ref)
	})
}

var ignoreAge = cmpopts.IgnoreFields(gateway.KeptCall{}, "Age")
