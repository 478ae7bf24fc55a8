package converge

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// eligible is a world whose only plan may be applied without a person.
func eligible() World {
	w := testWorld()
	w.Servers = slices.Clone(servers)
	w.Servers[0].Risk = catalog.RiskNormal
	w.Agents = []AgentRecord{{Agent: "claude_code", Level: LevelAuto}}
	w.Policy.Auto = []RiskClass{RiskNormal}
	w.Certified, w.Pinned = map[string]bool{"claude_code": true}, map[string]bool{"files": true}
	return w.with(stdio("files", "npx files@1"))
}

func TestAuto(t *testing.T) {
	receipt := func(id string, state ReceiptState, ago time.Duration) Receipt {
		return Receipt{
			ID: id, Plan: "plan_" + id, Kind: PlanRoute, Agent: "claude_code", Entry: "files", State: state, Started: testNow.Add(-ago), Ended: testNow.Add(-ago),
			Files: []Written{{Path: "/h/.claude.json", Real: "/h/.claude.json"}},
		}
	}
	entry := func(change func(*Finding)) func(*World) { return func(w *World) { change(&w.Findings[0]) } }
	for _, c := range []struct {
		name   string
		change func(*World)
		want   []string
	}{
		{"all holds", func(*World) {}, nil},
		{"policy", func(w *World) { w.Policy.Auto = nil }, []string{autoPolicy}},
		{"policy for other plans", func(w *World) { w.Policy.Auto = []RiskClass{RiskLow} }, []string{autoPolicy}},
		{"level", func(w *World) { w.Agents[0].Level = LevelManaged }, []string{autoLevel}},
		{"certificate", func(w *World) { w.Certified = nil }, []string{autoCertified}},
		{"scope", entry(func(f *Finding) { f.Scope = "project" }), []string{autoScope}},
		{"shared", func(w *World) { w.Files[0].Shared = true }, []string{autoPolicy, autoShared}}, // the risk is high, too
		{"link out of the home", func(w *World) { w.Files[0].Real = "/dotfiles/claude.json" }, []string{autoLink}},
		{"link inside the home", func(w *World) { w.Files[0].Real = "/h/dotfiles/claude.json" }, nil},
		{"another home of the same beginning", func(w *World) { w.Files[0].Real = "/hh/claude.json" }, []string{autoLink}},
		{"confidence", func(w *World) { *w = w.with(stdio("files", "npx files@2")) }, []string{autoConfidence}},
		{"server", func(w *World) { w.Servers[0].Review = catalog.ReviewPending }, []string{autoUnready, autoRoutable}},
		{"risk of the server", func(w *World) { w.Servers[0].Risk = catalog.RiskUnknown }, []string{autoRisk}},
		{"pins", func(w *World) { w.Pinned = nil }, []string{autoPins}},
		{"secret", entry(func(f *Finding) { f.Facts.Hidden = true }), []string{autoPolicy, autoSecret}},
		{"variables", entry(func(f *Finding) { f.Auth = "env-name" }), []string{autoVariables}},
		{"directory", func(w *World) {
			w.Servers[0].Stdio = &catalog.Stdio{Command: "npx", Args: []string{"files@1"}, Cwd: "/x"}
			w.Findings[0].Cwd = "/x"
		}, []string{autoPolicy, autoCwd}},
		{"parse", entry(func(f *Finding) { f.Parse = "extra" }), []string{autoPolicy, autoParse}},
		{"layers", entry(func(f *Finding) { f.Facts.Shadowed = true }), []string{autoLayers}},
		{"dialect", func(w *World) { w.Files[0].Evidence = "doc" }, []string{autoDialect}},
		{"kind", entry(func(f *Finding) {
			f.Routed, f.Class, f.Match = &Routed{State: RoutedStalePort, Server: "files"}, Ineffective, byName("files")
		}), []string{autoKind}},
		{"waiting", func(w *World) { w.Waiting = map[string]bool{"/h/.claude.json": true} }, []string{autoWaiting}},
		{"undone once", func(w *World) { w.Receipts = []Receipt{receipt("a", ReceiptApplied, 2*time.Hour)} }, nil},
		{"undone twice", func(w *World) {
			w.Receipts = []Receipt{receipt("a", ReceiptApplied, 2*time.Hour), receipt("b", ReceiptApplied, 23*time.Hour)}
		}, []string{autoFight}},
		{"undone twice, long ago", func(w *World) {
			w.Receipts = []Receipt{receipt("a", ReceiptApplied, 2*time.Hour), receipt("b", ReceiptApplied, 25*time.Hour)}
		}, nil},
		{"undone twice in another file", func(w *World) {
			w.Receipts = []Receipt{receipt("a", ReceiptApplied, 2*time.Hour), receipt("b", ReceiptApplied, 3*time.Hour)}
			w.Receipts[0].Files, w.Receipts[1].Files = []Written{{Real: "/z"}}, []Written{{Real: "/z"}}
		}, nil},
		{"taken back by a person", func(w *World) { w.Receipts = []Receipt{receipt("a", ReceiptRolledBack, 2*time.Hour)} }, []string{autoRolledBack}},
		{"six times in an hour", func(w *World) {
			for i := range appliesOfFile {
				r := receipt(fmt.Sprint(i), ReceiptApplied, time.Minute)
				r.Entry = fmt.Sprint(i)
				w.Receipts = append(w.Receipts, r)
			}
		}, []string{autoRate}},
		{"failed before", func(w *World) {
			r := receipt("a", ReceiptUndone, 40*time.Hour)
			r.Plan = sealOneOf(*w).ID
			w.Receipts = []Receipt{r}
		}, []string{autoFailed}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := eligible()
			c.change(&w)
			got := slices.Sorted(slices.Values(sealOneOf(w).Auto))
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			for _, code := range got {
				if _, ok := Explain(code); !ok {
					t.Errorf("%s is not explained", code)
				}
			}
		})
	}
}

func sealOneOf(w World) Plan {
	all := sealed(w)
	if len(all) != 1 {
		panic(fmt.Sprintf("%d plans, want 1", len(all)))
	}
	return all[0]
}

func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		ok     bool
	}{
		{Policy{}, true},
		{Policy{Unknown: UnlistedBlock, Auto: []RiskClass{RiskLow, RiskNormal}}, true},
		{Policy{Unknown: "ask"}, false},
		{Policy{Auto: []RiskClass{RiskHigh}}, false},
		{Policy{Auto: []RiskClass{"all"}}, false},
		{Policy{Auto: []RiskClass{RiskLow, RiskLow}}, false},
	} {
		err := c.policy.Valid()
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.policy, err)
		}
		if err != nil && (fault.From(err).Code != "policy-invalid" || fault.From(err).Hint == "") {
			t.Errorf("%+v", fault.From(err))
		}
	}
	two, other := Policy{Auto: []RiskClass{RiskLow, RiskNormal}}, Policy{Auto: []RiskClass{RiskNormal, RiskLow}, Unknown: UnlistedWarn}
	if two.Digest() != other.Digest() || two.Digest() == (Policy{}).Digest() {
		t.Error("the digest depends on the spelling, or not on the content")
	}
	if (Policy{Auto: []RiskClass{RiskHigh}}).Allows(RiskHigh) != "" || two.Allows(RiskNormal) == "" {
		t.Error("high is allowed, or normal is not")
	}
}
