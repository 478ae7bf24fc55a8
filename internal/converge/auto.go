package converge

import (
	"path"
	"slices"
	"strings"
	"time"

	"mcpx/internal/catalog"
)

// Bounds of what is applied without a person, governance.md section 5.1.
const (
	fightWindow   = 24 * time.Hour
	fightChanges  = 2 // of our changes that were undone
	applyWindow   = time.Hour
	appliesOfFile = 6
)

// Why a plan is not applied without a person. All conditions of governance.md section 5.2 have to hold.
const (
	autoPolicy     = "auto-off"
	autoLevel      = "agent-not-auto"
	autoCertified  = "client-uncertified"
	autoScope      = "scope-not-personal"
	autoShared     = "file-shared"
	autoLink       = "link-outside-home"
	autoKind       = "kind-not-auto"
	autoConfidence = "confidence-not-high"
	autoRoutable   = "server-not-routable"
	autoRisk       = "server-risk-high"
	autoPins       = "pins-not-accepted"
	autoSecret     = "secret-involved"
	autoVariables  = "variables-involved"
	autoCwd        = "cwd-involved"
	autoParse      = "parse-not-complete"
	autoLayers     = "layers-unchecked"
	autoFight      = "fighting-writer"
	autoRate       = "apply-rate"
	autoFailed     = "failed-before"
	autoRolledBack = "rolled-back-before"
	autoWaiting    = "file-has-waiting-plan"
	autoUnready    = "plan-not-ready"
	autoDialect    = "dialect-documented"
)

// autoEntry lists what the entry and its server forbid.
func (x *view) autoEntry(f Finding, s *catalog.Server) []string {
	var no []string
	refuse := func(is bool, code string) {
		if is {
			no = append(no, code)
		}
	}
	file := x.files[place{f.Agent, f.File}]
	refuse(f.Scope != scopeUser && f.Scope != scopeLocal, autoScope)
	refuse(file.Shared, autoShared)
	refuse(leaves(file, x.Look.Home), autoLink)
	refuse(f.Match.Confidence != catalog.MatchHigh, autoConfidence)
	refuse(len(catalog.NotRoutable(*s)) > 0, autoRoutable)
	refuse(s.Risk.OrUnknown() == catalog.RiskHigh || s.Risk.OrUnknown() == catalog.RiskUnknown, autoRisk)
	refuse(!x.Pinned[s.Name], autoPins)
	refuse(f.Facts.Hidden || slices.ContainsFunc(f.Problems, func(p Problem) bool { return p.Code == reasonMoveSecret }), autoSecret)
	refuse(len(f.Variables)+len(f.Headers) > 0 || f.Auth != "" && f.Auth != "none", autoVariables)
	refuse(f.Cwd != "", autoCwd)
	refuse(f.Parse != "complete" || len(f.Problems) > 0, autoParse)
	refuse(f.Facts.Layered || f.Facts.Shadowed, autoLayers)
	refuse(file.Evidence != "" || habits[f.Agent].unsure, autoDialect)
	return no
}

// leaves says whether the file is reached by a link that leads out of the home.
func leaves(f File, home string) bool {
	if f.Real == "" || f.Real == f.Path {
		return false
	}
	return home == "" || !strings.HasPrefix(path.Clean(f.Real), path.Clean(home)+"/")
}

// autoPlan lists what level, policy and history forbid, whatever the entry is.
func (x *view) autoPlan(p Plan) []string {
	var no []string
	refuse := func(is bool, code string) {
		if is {
			no = append(no, code)
		}
	}
	refuse(p.State != PlanReady || len(p.Needs) > 0, autoUnready)
	refuse(x.level(p.Agent) != LevelAuto, autoLevel)
	refuse(x.Policy.Allows(p.Risk.Class) == "", autoPolicy)
	refuse(!x.Certified[p.Agent], autoCertified)
	refuse(p.Kind != PlanRoute, autoKind)
	about := named{p.Agent, p.Entry}
	h := x.history
	in := func(files map[string]int, n int) bool {
		return slices.ContainsFunc(p.Changes, func(c Change) bool { return files[c.Real] >= n })
	}
	// What is proposed again was undone: a change that holds needs no plan.
	refuse(in(h.changes[about], fightChanges), autoFight)
	refuse(in(h.applies, appliesOfFile), autoRate)
	refuse(h.failed[p.ID], autoFailed)
	refuse(h.back[about], autoRolledBack)
	refuse(slices.ContainsFunc(p.Changes, func(c Change) bool { return x.Waiting[c.Real] }), autoWaiting)
	return no
}

// history is what receipts say about the next change.
type history struct {
	changes map[named]map[string]int // applied to an entry in the window of a fight, by real path
	back    map[named]bool           // a change to the entry was taken back
	applies map[string]int           // to a file in the window of its rate, by real path
	failed  map[string]bool          // plans
}

func remember(receipts []Receipt, now time.Time) history {
	h := history{changes: map[named]map[string]int{}, back: map[named]bool{}, applies: map[string]int{}, failed: map[string]bool{}}
	for _, r := range receipts {
		about := named{r.Agent, r.Entry}
		ours := r.Kind != PlanRollback
		fighting := ours && r.State == ReceiptApplied && within(r.Started, now, fightWindow)
		if ours && r.State == ReceiptRolledBack {
			h.back[about] = true
		}
		if r.State == ReceiptUndone {
			h.failed[r.Plan] = true
		}
		if fighting && h.changes[about] == nil {
			h.changes[about] = map[string]int{}
		}
		for _, w := range r.Files {
			if fighting {
				h.changes[about][w.Real]++
			}
			if within(r.Started, now, applyWindow) {
				h.applies[w.Real]++
			}
		}
	}
	return h
}

func within(t, now time.Time, d time.Duration) bool { return !t.Before(now.Add(-d)) }
