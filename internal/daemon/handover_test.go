package daemon

import (
	"encoding/json"
	"net"
	"os"
	"strings"
	"testing"

	"mcpx/internal/session"
	"mcpx/internal/work"
)

// TestFreeze: what a daemon lets go of is at rest: nothing is carried out and nothing old is removed once another one may have the
// lock. The one that goes on in the same process works.
func TestFreeze(t *testing.T) {
	c := config(t)
	d := run(t, c)
	open := work.Call{Tool: "session", Args: json.RawMessage(`{"action":"open","operation_id":"open-0001"}`), Principal: session.Operator}
	files := []*os.File{}
	for _, l := range []net.Listener{d.tcp, d.unix} {
		f, err := fileOf(l)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	d.letgo = true // nothing is left for Stop
	if err := d.drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.freeze(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.pruning.done:
	default:
		t.Error("old data are still removed")
	}
	if a := d.worker.Do(t.Context(), open); a.OK || !strings.Contains(a.Refusal.Message, "this daemon stops") {
		t.Errorf("a call: %+v, %v", a, a.Refusal)
	}
	again, err := d.revive(t.Context(), files)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		d.Linger(t.Context())
		if err := again.Stop(t.Context(), true); err != nil {
			t.Error(err)
		}
		again.Close()
	}()
	if a := again.worker.Do(t.Context(), open); a.Refusal == nil || a.Refusal.Code != "PROJECT_REQUIRED" { // it is looked at
		t.Errorf("the same call afterwards: %+v, %v", a, a.Refusal)
	}
	select {
	case <-again.pruning.done:
		t.Error("old data are not removed any more")
	default:
	}
}
