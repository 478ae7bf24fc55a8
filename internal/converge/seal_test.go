package converge

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// drafted is what a target would say of the proposal: one edit for each file.
func drafted(w World, p Proposal) []Change { return draft(filesOf(w), p) }

func filesOf(w World) map[string]File {
	files := map[string]File{}
	for _, f := range w.Files {
		files[f.Path] = f
	}
	return files
}

func draft(files map[string]File, p Proposal) []Change {
	var out []Change
	for _, d := range p.Files {
		f := files[d.Path]
		sum := sha256.Sum256(fmt.Append(nil, f.SHA256, string(canonical(d.Steps))))
		out = append(out, Change{
			Agent: d.Agent, Path: d.Path, Real: f.Real, Scope: f.Scope, Steps: d.Steps, Expected: Expected{Absent: f.State == FileAbsent, SHA256: f.SHA256},
			Edits: []Edit{{Start: 1, End: 2, Kind: "replace"}}, Result: hex.EncodeToString(sum[:]),
		})
	}
	return out
}

func sealed(w World) []Plan {
	var out []Plan
	for _, p := range Propose(w) {
		if plan, ok := Seal(p, drafted(w, p), nil, w); ok {
			out = append(out, plan)
		}
	}
	return out
}

func sealOne(t *testing.T, w World) Plan {
	t.Helper()
	all := sealed(w)
	if len(all) != 1 {
		t.Fatalf("%d plans, want 1", len(all))
	}
	return all[0]
}

// drawWorld makes a world of several agents, files and servers, with everything that a proposal looks at.
func drawWorld(t *rapid.T) World {
	w := World{Revision: "r", Adapter: "1", Port: "30000", Program: "/opt/mcpx", Look: Look{Home: "/h"}, Now: testNow, Staged: map[string]Staged{}}
	for i := range rapid.IntRange(1, 6).Draw(t, "servers") {
		s := catalog.Server{
			ID: fmt.Sprintf("srv_%d", i), Name: fmt.Sprintf("s%d", i), Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled,
			Sharing: rapid.SampledFrom([]catalog.Sharing{catalog.ShareSession, catalog.ShareAgent, catalog.ShareWorkspace, catalog.ShareGlobal}).Draw(t, "sharing"),
		}
		if rapid.Bool().Draw(t, "http") {
			s.HTTP = &catalog.HTTP{URL: fmt.Sprintf("https://s%d.example.com/mcp", i)}
		} else {
			s.Stdio = &catalog.Stdio{Command: "npx", Args: []string{fmt.Sprintf("p%d@1", rapid.IntRange(0, 6).Draw(t, "package"))}}
		}
		w.Servers = append(w.Servers, s)
	}
	var entries []Entry
	for _, agent := range []string{"claude_code", "codex"} {
		record := AgentRecord{Agent: agent, Level: rapid.SampledFrom([]Level{LevelObserved, LevelManaged, LevelAuto}).Draw(t, "level")}
		for _, scope := range []string{"user", "project"} {
			path := "/" + scope + "/" + agent
			w.Files = append(w.Files, File{Agent: agent, Path: path, Real: path, Scope: scope, Shared: scope == "project", State: FileReadable, Entries: 1, SHA256: agent + scope})
			for _, name := range slices.Sorted(maps.Keys(rapid.MapOfN(rapid.SampledFrom([]string{"s0", "s1", "s2", "x", "y"}), rapid.Bool(), 0, 4).Draw(t, "names"))) {
				var e Entry
				switch rapid.IntRange(0, 4).Draw(t, "what") {
				case 0:
					e = stdio(name, fmt.Sprintf("npx p%d@%d", rapid.IntRange(0, 6).Draw(t, "p"), rapid.IntRange(1, 2).Draw(t, "v")))
				case 1:
					e = http(name, fmt.Sprintf("https://s%d.example.com/mcp", rapid.IntRange(0, 6).Draw(t, "u")))
				case 2:
					e = routedTo(name, RoutedStalePort)
				case 3:
					e = routedTo(name, RoutedHere)
				default:
					e = http(name, "http://far.example.com/x")
				}
				e.Enabled = rapid.IntRange(0, 4).Draw(t, "off") > 0
				if rapid.IntRange(0, 4).Draw(t, "variable") == 0 {
					e.Variables = []string{"V"}
					e.Problems = []Problem{{Code: "raw-secret", Field: "env.V"}}
				}
				e.Agent, e.File, e.Scope = agent, path, scope
				e.ID, e.Digest, e.At, e.Auth = "obs_"+path+name, "d"+path+name, []string{"mcpServers", name}, "none"
				entries = append(entries, e)
				if rapid.Bool().Draw(t, "staged") {
					w.Staged[e.ID] = Staged{ID: "cand_" + name, Name: name + "-new"}
				}
			}
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "mounts") {
			record.Mounts = append(record.Mounts, Mount{Server: fmt.Sprintf("srv_%d", i), Name: fmt.Sprintf("s%d", i), Absent: rapid.Bool().Draw(t, "absent")})
		}
		if rapid.Bool().Draw(t, "control") {
			record.Control = "bridge"
		}
		w.Agents = append(w.Agents, record)
	}
	w.Findings = Classify(entries, w.Servers, nil)
	return w
}

// TestSealIsDeterministic: the same world gives the same plans, byte for byte, in whatever order it is listed and whoever
// looked; and every code in them is explained.
func TestSealIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		first := canonical(sealed(w))
		again := w
		shuffle := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		again.Findings, again.Agents, again.Servers = slices.Clone(w.Findings), slices.Clone(w.Agents), slices.Clone(w.Servers)
		shuffle.Shuffle(len(again.Findings), func(i, j int) {
			again.Findings[i], again.Findings[j] = again.Findings[j], again.Findings[i]
		})
		shuffle.Shuffle(len(again.Agents), func(i, j int) { again.Agents[i], again.Agents[j] = again.Agents[j], again.Agents[i] })
		shuffle.Shuffle(len(again.Servers), func(i, j int) { again.Servers[i], again.Servers[j] = again.Servers[j], again.Servers[i] })
		again.Look.Agent, again.Look.Names = "claude_code", map[string]bool{"a": true}
		if d := cmp.Diff(string(first), string(canonical(sealed(again)))); d != "" {
			t.Fatalf("-first +again:\n%s", d)
		}
		var plans []Plan
		if err := json.Unmarshal(first, &plans); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, p := range plans {
			if seen[p.ID] {
				t.Fatalf("%s is there twice", p.ID)
			}
			seen[p.ID] = true
			for _, code := range slices.Concat(p.Reasons, p.Risk.Reasons, p.Auto, p.Match.Reasons, codesOf(p.Problems)) {
				if _, ok := Explain(code); !ok {
					t.Fatalf("%s is not explained", code)
				}
			}
			if why := Stale(p, w); len(why) > 0 {
				t.Fatalf("%s is stale in its own world: %v", p.ID, why)
			}
		}
		for _, trouble := range Findings(w, Vitals{}) {
			if _, ok := Explain(trouble.Code); !ok {
				t.Fatalf("%s is not explained", trouble.Code)
			}
		}
		if d := cmp.Diff(Drift(w), Drift(again)); d != "" {
			t.Fatalf("drift: -first +again:\n%s", d)
		}
	})
}

// done is the world after all plans that are offered were applied.
func done(w World) World {
	var entries []Entry
	for _, f := range w.Findings {
		entries = append(entries, f.Entry)
	}
	for _, p := range Propose(w) {
		if len(p.Needs)+len(p.Problems) > 0 {
			continue
		}
		for _, d := range p.Files {
			for _, s := range d.Steps {
				at := slices.IndexFunc(entries, func(e Entry) bool { return e.File == d.Path && e.Name == s.Name })
				if s.Op == StepRemove {
					entries = slices.Delete(entries, at, at+1)
					continue
				}
				e := Entry{Agent: d.Agent, Name: s.Name, File: d.Path, Scope: strings.Split(d.Path, "/")[1], At: []string{"mcpServers", s.Name}, Enabled: true, Parse: "complete", Auth: "none"}
				if s.Op == StepRef {
					e = but(http(s.Name, s.Moves[0].Put), func(n *Entry) { n.Agent, n.File, n.Scope, n.At, n.Auth = e.Agent, e.File, e.Scope, e.At, e.Auth })
				} else if e.Transport, e.URL = "http", s.Want.URL; s.Want.Kind == FormBridge {
					e.Transport, e.Command, e.Args, e.Variables = "stdio", s.Want.Command, s.Want.Args, s.Want.Keep
				}
				if s.Op == StepSet {
					e.Routed = &Routed{State: RoutedHere, Server: s.Want.Server, Form: string(s.Want.Kind)}
				}
				if at < 0 {
					entries = append(entries, e)
				} else {
					entries[at] = e
				}
			}
		}
	}
	w.Findings = Classify(entries, w.Servers, nil)
	return w
}

// TestAppliedWorld: what was applied is not planned again. Applying one plan may show another (copies of one server, once
// they are routed), so it is done until nothing is left, which takes few rounds.
func TestAppliedWorld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range 4 {
			w = done(w)
		}
		for _, p := range Propose(w) {
			if len(p.Needs)+len(p.Problems) == 0 {
				t.Fatalf("planned again: %s", said(p))
			}
		}
	})
}

func TestSeal(t *testing.T) {
	w := testWorld(stdio("files", "npx files@1"))
	p := sealOne(t, w)
	if !strings.HasPrefix(p.ID, "plan_") || len(p.ID) != len("plan_")+planIDLength {
		t.Errorf("id %q", p.ID)
	}
	if !p.Offered() || p.Look.Names != nil || p.Made != testNow {
		t.Errorf("%+v", p)
	}
	proposal := Propose(w)[0]
	same := drafted(w, proposal)
	same[0].Edits, same[0].Result = nil, same[0].Expected.SHA256
	if _, ok := Seal(proposal, same, nil, w); ok {
		t.Error("a plan that changes nothing was made")
	}
	if _, ok := Seal(proposal, nil, []Problem{{Code: "nothing-to-change"}}, w); ok {
		t.Error("a plan that changes nothing was made")
	}
	broken, ok := Seal(proposal, nil, []Problem{{Code: "duplicate-keys"}}, w)
	if !ok || broken.State != PlanErrored || broken.Offered() {
		t.Errorf("%v %+v", ok, broken)
	}
	// Everything that is bound changes id or subject; what is not bound changes neither.
	for name, change := range map[string]func(*World){
		"revision": func(w *World) { w.Revision = "r2" },
		"policy":   func(w *World) { w.Policy.Unknown = UnlistedBlock },
		"adapter":  func(w *World) { w.Adapter = "2" },
		"file":     func(w *World) { w.Files[0].SHA256 = "cc" },
		"program":  func(w *World) { w.Port = "30001" },
	} {
		other := testWorld(stdio("files", "npx files@1"))
		change(&other)
		if q := sealOne(t, other); q.ID == p.ID || q.Subject() == p.Subject() {
			t.Errorf("%s is not bound", name)
		}
	}
	w.Now = w.Now.Add(time.Hour)
	w.Agents[0].Level = LevelAuto
	if q := sealOne(t, w); q.ID != p.ID || q.Subject() != p.Subject() || slices.Equal(q.Auto, p.Auto) {
		t.Errorf("time or level is bound, or auto did not change: %v", q.Auto)
	}
}

func TestStale(t *testing.T) {
	fresh := func() World { return testWorld(stdio("files", "npx files@1")) }
	p := sealOne(t, fresh())
	byEntry := p
	byEntry.Changes = slices.Clone(p.Changes)
	byEntry.Changes[0].Bound = []Bound{{At: []string{"mcpServers", "files"}, Digest: "d-files"}, {At: []string{"mcpServers"}, Digest: "c"}}
	for _, c := range []struct {
		name   string
		plan   Plan
		change func(*World)
		want   []string
	}{
		{"nothing", p, func(*World) {}, nil},
		{"catalog", p, func(w *World) { w.Revision = "x" }, []string{staleCatalog}},
		{"policy", p, func(w *World) { w.Policy.Auto = []RiskClass{RiskLow} }, []string{stalePolicy}},
		{"adapter", p, func(w *World) { w.Adapter = "x" }, []string{staleAdapter}},
		{"file", p, func(w *World) { w.Files[0].SHA256 = "x" }, []string{staleFile}},
		{"file gone", p, func(w *World) { w.Files[0].State, w.Files[0].SHA256 = FileAbsent, "" }, []string{staleFile}},
		{"link moved", p, func(w *World) { w.Files[0].Real = "/elsewhere" }, []string{staleFile}},
		{"file not looked at", p, func(w *World) { w.Files = w.Files[1:] }, nil},
		{"other entries of a file that is bound by entry", byEntry, func(w *World) { w.Files[0].SHA256 = "x" }, nil},
		{"the entry of a file that is bound by entry", byEntry, func(w *World) { w.Findings[0].Digest = "x" }, []string{staleEntry}},
		{"a policy that only spells the default out", p, func(w *World) { w.Policy.Unknown = UnlistedWarn }, nil},
	} {
		w := fresh()
		c.change(&w)
		if d := cmp.Diff(c.want, Stale(c.plan, w)); d != "" {
			t.Errorf("%s: -want +got:\n%s", c.name, d)
		}
	}
}

// TestLife leads a plan through its states; what is not listed is refused by name.
func TestLife(t *testing.T) {
	w := testWorld(stdio("files", "npx files@1"))
	p := sealOne(t, w)
	code := func(err error) string {
		if err == nil {
			return ""
		}
		return fault.From(err).Code
	}
	r, err := p.Start("rcp_1", "apr_1", "", testNow)
	if err != nil || p.State != PlanApplying {
		t.Fatal(err, p.State)
	}
	if _, err := p.Start("rcp_2", "", "", testNow); code(err) != "plan-state" {
		t.Errorf("started twice: %v", err)
	}
	if err := p.Supersede(); code(err) != "plan-state" {
		t.Errorf("superseded in the middle: %v", err)
	}
	written := []Written{{Path: "/h/.claude.json", Real: "/h/.claude.json", After: Expected{SHA256: p.Changes[0].Result}}}
	if err := p.Finish(&r, true, written, nil, testNow); err != nil || p.State != PlanApplied || r.State != ReceiptApplied {
		t.Fatal(err, p.State, r.State)
	}
	if err := p.Finish(&r, true, written, nil, testNow); code(err) != "receipt-state" {
		t.Errorf("finished twice: %v", err)
	}
	proposal, err := Rollback(r, p, w, false)
	if err != nil {
		t.Fatal(err)
	}
	back, ok := Seal(proposal, drafted(w, proposal), nil, w)
	if !ok || back.Reverts != r.ID || !back.NeedsPerson(&r) {
		t.Fatalf("%v %+v", ok, back)
	}
	if unasked := r; true {
		unasked.Approval = ""
		if back.NeedsPerson(&unasked) {
			t.Error("what nobody was asked about needs a person to go")
		}
	}
	undo, err := back.Start("rcp_2", "apr_2", "", testNow)
	if err != nil {
		t.Fatal(err)
	}
	if err := back.Finish(&undo, true, written, nil, testNow); err != nil {
		t.Fatal(err)
	}
	if err := p.TakeBack(&r, undo.ID); err != nil || p.State != PlanRolledBack || r.State != ReceiptRolledBack {
		t.Fatal(err, p.State, r.State)
	}
	if _, err := Rollback(r, p, w, false); code(err) != "receipt-not-applied" || !strings.Contains(fault.From(err).Hint, "rcp_2") {
		t.Errorf("taken back twice: %v", err)
	}
	if _, err := Rollback(undo, back, w, false); err != nil {
		t.Errorf("a rollback cannot be taken back: %v", err)
	}
	if err := p.Offer(); err != nil || p.State != PlanReady {
		t.Errorf("not offered again: %v", err)
	}
	failing := p
	r, err = failing.Start("rcp_3", "", "", testNow)
	if err != nil {
		t.Fatal(err)
	}
	if err := failing.Finish(&r, false, nil, []Problem{{Code: "disk-full"}}, testNow); err != nil || failing.State != PlanFailed || r.State != ReceiptUndone {
		t.Error(err, failing.State, r.State)
	}
	waiting := p
	waiting.Needs = []string{"mcpx x"}
	if _, err := waiting.Start("rcp_4", "", "", testNow); code(err) != "plan-needs" || !strings.Contains(fault.From(err).Hint, "mcpx x") {
		t.Errorf("%v", err)
	}
	errored := p
	errored.State = PlanErrored
	if _, err := errored.Start("rcp_5", "", "", testNow); code(err) != "plan-state" {
		t.Errorf("an errored plan was started: %v", err)
	}
}

func TestReconcile(t *testing.T) {
	w := testWorld(stdio("files", "npx files@1"))
	p := sealOne(t, w)
	state := func(s PlanState) Plan { q := p; q.State, q.Approval = s, "apr_1"; return q }
	gone := p
	gone.ID, gone.Entry = "plan_gone", "other"
	old := gone
	old.Revision = "r0"
	all := func(Plan) bool { return true }
	turn := func(w World, stored, sealed []Plan, covered func(Plan) bool) string {
		tn := Reconcile(stored, sealed, w, covered)
		short := func(all []Plan) string {
			var out []string
			for _, q := range all {
				out = append(out, string(q.State)+fmt.Sprint(tn.Fresh[q.ID], tn.Why[q.ID]))
			}
			return strings.Join(out, " ")
		}
		return "put " + short(tn.Put) + "; keep " + short(tn.Keep) + "; drop " + short(tn.Drop)
	}
	retry := w
	retry.Asked.Retry = true
	rollback := gone
	rollback.Kind = PlanRollback
	for _, c := range []struct {
		name           string
		world          World
		stored, sealed []Plan
		covered        func(Plan) bool
		want           string
	}{
		{"new", w, nil, []Plan{p}, all, "put readytrue []; keep ; drop "},
		{"found", w, []Plan{state(PlanReady)}, []Plan{p, p}, all, "put ; keep readyfalse []; drop "},
		{"back again", w, []Plan{state(PlanSuperseded)}, []Plan{p}, all, "put readytrue []; keep ; drop "},
		{"undone by somebody", w, []Plan{state(PlanApplied)}, []Plan{p}, all, "put readytrue []; keep ; drop "},
		{"failed", w, []Plan{state(PlanFailed)}, []Plan{p}, all, "put ; keep failedfalse []; drop "},
		{"failed, and a person asks", retry, []Plan{state(PlanFailed)}, []Plan{p}, all, "put readytrue []; keep ; drop "},
		{"applying", w, []Plan{state(PlanApplying)}, []Plan{p}, all, "put ; keep applyingfalse []; drop "},
		{"no longer proposed", w, []Plan{gone}, nil, all, "put ; keep ; drop supersededfalse [no-longer-proposed]"},
		{"not looked at", w, []Plan{gone}, nil, func(Plan) bool { return false }, "put ; keep ; drop "},
		{"stale", w, []Plan{old}, nil, func(Plan) bool { return false }, "put ; keep ; drop supersededfalse [catalog-changed]"},
		{"a rollback is proposed by nobody but a person", w, []Plan{rollback}, nil, all, "put ; keep ; drop "},
	} {
		if got := turn(c.world, c.stored, c.sealed, c.covered); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}
