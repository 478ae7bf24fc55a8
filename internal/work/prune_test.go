//go:build linux || darwin

package work

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/retention"
	"mcpx/internal/store"
)

// prune removes what is old now.
func (d *desk) prune(t *testing.T, dry bool) map[retention.Data]retention.Removed {
	t.Helper()
	out, err := d.Prune(t.Context(), Prune{Periods: retention.Usual, At: d.cfg.Now(), DryRun: dry, By: event.Actor{Principal: "owner", Channel: "loop"}})
	if err != nil {
		t.Fatal(err)
	}
	if out.DryRun != dry || !out.At.Equal(d.cfg.Now()) {
		t.Errorf("the report is %+v", out)
	}
	all := map[retention.Data]retention.Removed{}
	for _, r := range out.Removed {
		all[r.Data] = r
	}
	return all
}

// bodies says which events of a kind that had a body have it.
func (d *desk) bodies(t *testing.T, kind event.Kind) (there, gone []string) {
	t.Helper()
	for _, e := range d.events(t, string(kind)) {
		switch {
		case e.Pruned():
			gone = append(gone, e.Refs[event.RefOperation])
		case e.Body != nil:
			there = append(there, e.Refs[event.RefOperation])
		}
	}
	return there, gone
}

// displacedBytes are the files in the trash of edits.
func (d *desk) displacedBytes(t *testing.T) (n int) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(d.state, "trash"), func(_ string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const editOf = `"operation_id":%q,"edits":[{"path":%q,"op":"update","expect_sha256":%q,"content":"new\n"}]`

// TestPrune: RT-139, on the record of one session that stays open: bodies go by age and kind, the chain holds, the ranges are
// told, and what an open plan refers to stays. story/testdata/setting-retention.txtar shows it with the whole program.
func TestPrune(t *testing.T) {
	s := newShop(t)
	for id, path := range map[string]string{"edit-plan": "README.md", "edit-free": "notes.txt"} {
		if a := s.do(t, "edit_files", editOf, id, path, digest([]byte(s.file(t, path)))); !a.OK {
			t.Fatalf("%+v %v", a, a.Refusal)
		}
	}
	s.do(t, "plan", `"action":"create","operation_id":"plan-0001","summary":"ship","tasks":[{"key":"a","title":"A"}]`)
	s.do(t, "plan", `"action":"update","operation_id":"plan-0002","task":"a","state":"in_progress"`)
	if a := s.do(t, "plan", `"action":"update","operation_id":"plan-0003","task":"a","state":"completed","evidence":[{"kind":"edit","ref":"edit-plan"}]`); !a.OK {
		t.Fatalf("%+v %v", a, a.Refusal)
	}
	big := strings.Repeat("0123456789abcdef\n", 4000)
	if err := os.WriteFile(filepath.Join(s.root, "big.txt"), []byte(big), 0o600); err != nil {
		t.Fatal(err)
	}
	art := s.register(t, "art-00001", "big.txt")

	if got := s.prune(t, false); got[retention.Bodies] != (retention.Removed{Data: retention.Bodies}) || len(s.events(t, "retention")) != 0 {
		t.Errorf("on the first day: %+v", got)
	}
	s.pass(30*retention.Day + time.Hour)
	before := len(s.events(t, ""))
	would := s.prune(t, true)
	if would[retention.Bodies].Removed == 0 || would[retention.Displaced].Removed != 1 || would[retention.Operations].Removed == 0 || len(s.events(t, "")) != before {
		t.Errorf("what would go: %+v", would)
	}
	if s.displacedBytes(t) != 2 {
		t.Fatalf("%d files are in the trash of edits", s.displacedBytes(t))
	}
	// Another daemon does it.
	s.Stop()
	s.start(t, s.db)
	did := s.prune(t, false)
	if did[retention.Bodies].Removed != would[retention.Bodies].Removed || did[retention.Displaced] != would[retention.Displaced] || did[retention.Bodies].Needed == 0 {
		t.Errorf("did %+v, said %+v", did, would)
	}

	there, gone := s.bodies(t, event.OperationEnded)
	if !slices.Contains(there, "edit-plan") || !slices.Contains(gone, "edit-free") {
		t.Errorf("bodies are there of %v, and gone of %v", there, gone)
	}
	if _, gone := s.bodies(t, event.FileChanged); len(gone) != 0 {
		t.Errorf("differences of files are kept for 180 days: %v are gone", gone)
	}
	if s.displacedBytes(t) != 1 {
		t.Errorf("%d files are in the trash of edits", s.displacedBytes(t))
	}
	all := s.events(t, "")
	if bad := event.Verify(event.Event{}, all); bad != nil {
		t.Errorf("the chain is broken: %+v", bad)
	}
	if told := s.events(t, string(event.RetentionRemoved)); len(told) == 0 || told[0].Actor.Channel != "loop" {
		t.Errorf("nothing says what was removed: %v", told)
	}

	// What is left of the ledger: outcomes. An exact retry is answered, and does nothing again.
	retry := s.do(t, "edit_files", editOf, "edit-free", "notes.txt", digest([]byte("a\r\nb\r\n")))
	refused(t, retry, operation.ResultExpired, fault.Never)
	if retry.Operation == nil || retry.Operation.State != operation.Succeeded || !retry.Operation.Replayed {
		t.Errorf("it says of the outcome: %+v", retry.Operation)
	}
	if a := s.do(t, "edit_files", editOf, "edit-plan", "README.md", digest([]byte("one\ntwo\nthree\n"))); !a.OK || !a.Operation.Replayed {
		t.Errorf("the evidence of the plan: %+v %v", a, a.Refusal)
	}
	refused(t, s.do(t, "edit_files", editOf, "edit-free", "other.txt", "x"), operation.OperationIDReused, fault.NewID)

	// The session is open, the artifact whole, the stream says what is missing.
	if got, _ := s.readAll(t, art, 0); string(got) != big {
		t.Error("the artifact is not what was registered")
	}
	seen := read[struct{ Pruned event.Ranges }](t, s.do(t, "observe", `"since":0`))
	if len(seen.Pruned) == 0 {
		t.Error("observe shows no pruned ranges")
	}
	if again := s.prune(t, false); again[retention.Bodies].Removed != 0 || again[retention.Operations].Removed != 0 || again[retention.Displaced].Removed != 0 {
		t.Errorf("again: %+v", again)
	}

	// With the plan over, the rest goes, too.
	s.do(t, "plan", `"action":"cancel","operation_id":"plan-0004"`)
	s.pass(151 * retention.Day)
	s.prune(t, false)
	if there, _ := s.bodies(t, event.FileChanged); len(there) != 0 {
		t.Errorf("after 181 days the differences of %v are there", there)
	}
	if s.displacedBytes(t) != 0 {
		t.Errorf("%d files are in the trash of edits", s.displacedBytes(t))
	}
	if _, gone := s.bodies(t, event.PolicyDecided); len(gone) != 0 {
		t.Errorf("decisions are kept for 400 days: %v are gone", gone)
	}
	if got, _ := s.readAll(t, art, 0); string(got) != big {
		t.Error("the artifact is not what was registered")
	}
}

// TestPruneResults: an answer that was too large goes when nothing refers to it, that of an open question and of an operation
// without an end does not.
func TestPruneResults(t *testing.T) {
	s := newShop(t)
	keep := func(ref string) {
		t.Helper()
		if err := s.db.Change(t.Context(), func(tx store.Tx) error {
			return tx.KeepResult(t.Context(), operation.KeepResult{Result: operation.Kept{Ref: ref, Principal: "owner", Media: "text/plain", SHA256: "aa", Made: s.cfg.Now(), Bytes: []byte("bytes")}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	free, unknown, named := "r_"+strings.Repeat("a", 24), "r_"+strings.Repeat("b", 24), "r_"+strings.Repeat("c", 24)
	for _, ref := range []string{free, unknown, named} {
		keep(ref)
	}
	put := func(id string, state operation.State, result string) {
		t.Helper()
		o := operation.Operation{Name: operation.Name{Namespace: "owner", ID: id}, Tool: "edit_files", Print: id, State: state, Class: operation.DB, Result: json.RawMessage(result), Claimed: s.cfg.Now(), Ended: s.cfg.Now()}
		if err := s.db.Change(t.Context(), func(tx store.Tx) error {
			return tx.PutOperation(t.Context(), operation.PutOperation{Operation: o})
		}); err != nil {
			t.Fatal(err)
		}
	}
	put("op-unclear", operation.Unknown, `{"result_ref":{"ref":"`+unknown+`"}}`)
	s.pass(20 * retention.Day)
	put("op-recent", operation.Succeeded, `{"result_ref":{"ref":"`+named+`"}}`)
	s.pass(11 * retention.Day)
	if got := s.prune(t, false)[retention.Results]; got != (retention.Removed{Data: retention.Results, Removed: 1, Bytes: 5, Needed: 2}) {
		t.Errorf("%+v", got)
	}
	for ref, want := range map[string]bool{free: false, unknown: true, named: true} {
		if a := s.call(t, "read_result", `{"ref":%q}`, ref); a.OK != want {
			t.Errorf("%s is there: %t", ref, a.OK)
		}
	}
	s.pass(20 * retention.Day)
	if got := s.prune(t, false)[retention.Results]; got.Removed != 1 || got.Needed != 1 {
		t.Errorf("when the operation is old, too: %+v", got)
	}
}

// TestPruneWritten: displaced bytes that somebody has written to since stay, whatever their age.
func TestPruneWritten(t *testing.T) {
	s := newShop(t)
	if a := s.do(t, "edit_files", editOf, "edit-0001", "README.md", digest([]byte(s.file(t, "README.md")))); !a.OK {
		t.Fatalf("%+v", a)
	}
	var found string
	if err := filepath.WalkDir(filepath.Join(s.state, "trash"), func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			found = path
		}
		return err
	}); err != nil || found == "" {
		t.Fatalf("%q, %v", found, err)
	}
	if err := os.WriteFile(found, []byte("late\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.pass(31 * retention.Day)
	for range 2 {
		if got := s.prune(t, false)[retention.Displaced]; got.Needed != 1 || s.displacedBytes(t) != 1 {
			t.Errorf("%+v, %d files", got, s.displacedBytes(t))
		}
	}
}

// TestPruneRemoval: what restores removed files stays for as long as they can be restored, and goes afterwards.
func TestPruneRemoval(t *testing.T) {
	s := newHeap(t)
	before := snapshot(t, s.root)
	p := s.prepare(t, "prepare-1")
	s.decide(t, s.approvals(t)[0], true)
	read[removed](t, s.submit(t, "submit-1", p.Manifest))
	s.pass(500 * retention.Day)
	s.prune(t, false)
	read[restored](t, s.do(t, "remove_files", `"operation_id":"restore-1","action":"restore","manifest_id":%q`, p.Manifest))
	same(t, "restored", snapshot(t, s.root), before)
	s.pass(31 * retention.Day)
	s.prune(t, false)
	refused(t, s.do(t, "remove_files", `"operation_id":"restore-2","action":"restore","manifest_id":%q`, p.Manifest), operation.NotFound, fault.AfterFix)
}
