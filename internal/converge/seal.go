package converge

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

// planIDLength is how much of the hash an id holds: 130 bits, so nobody finds a second plan for one.
const planIDLength = 26

var idText = base32.StdEncoding.WithPadding(base32.NoPadding)

// draftedNothing is what a target says of a file that is as it should be.
const draftedNothing = "nothing-to-change"

// Sealer makes plans of one world.
type Sealer struct{ world *view }

// NewSealer reads the world once.
func NewSealer(w World) *Sealer { return &Sealer{look(w)} }

// Seal makes the plan of a proposal whose bytes are known: the same proposal, changes and world give the same id, byte
// for byte. problems are those of drafting. False: the files are as they should be already.
func (s *Sealer) Seal(p Proposal, changes []Change, problems []Problem) (Plan, bool) {
	x := s.world
	w := &x.World
	p.finish()
	plan := Plan{
		Kind: p.Kind, Agent: p.Agent, Server: p.Server, Entry: p.Entry, Summary: p.Summary, Reasons: p.Reasons, Revision: w.Revision,
		Policy: w.Policy.Digest(), Adapter: w.Adapter, Look: lookOf(w.Look, p.Agent), Changes: []Change{}, Match: p.Match, Risk: p.Risk,
		Effects: p.Effects, Needs: p.Needs, Problems: slices.Clone(p.Problems), Reverts: p.Reverts, Conflicts: p.Conflicts, Made: w.Now,
	}
	for _, problem := range problems {
		if problem.Code != draftedNothing {
			plan.Problems = append(plan.Problems, problem)
		}
	}
	for _, c := range changes {
		if len(c.Edits) > 0 || c.Expected.Absent != (c.Result == "") {
			plan.Changes = append(plan.Changes, filled(c))
		}
	}
	slices.SortFunc(plan.Changes, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	if plan.Problems == nil { // shown as an empty list
		plan.Problems = []Problem{}
	}
	if len(plan.Changes) == 0 && len(plan.Problems) == 0 {
		return Plan{}, false
	}
	plan.State = PlanReady
	if len(plan.Problems) > 0 {
		plan.State = PlanErrored
	}
	plan.ID = "plan_" + strings.ToLower(idText.EncodeToString(plan.digest()))[:planIDLength]
	plan.Auto = unique(append(x.autoPlan(plan), p.auto...))
	return plan, true
}

// lookOf keeps of a look what says where the files lie. The names of the catalog are those of its revision, and who looked
// at one agent finds the same plans as who looked at all.
func lookOf(l Look, agent string) Look {
	return Look{Agent: agent, Home: l.Home, Project: l.Project, Moved: slices.Sorted(slices.Values(l.Moved))}
}

// filled gives the lists that are shown a value.
func filled(c Change) Change {
	if c.Edits == nil {
		c.Edits = []Edit{}
	}
	if c.Notes == nil {
		c.Notes = []Note{}
	}
	return c
}

// digest is the hash of what the id binds.
func (p Plan) digest() []byte {
	p.ID, p.State, p.Auto, p.Approval, p.Receipt, p.Made = "", "", nil, "", "", time.Time{}
	sum := sha256.Sum256(canonical(p))
	return sum[:]
}

// Subject is the hash of what a person approves: this plan, these files, this result, this catalog, this policy. Hex.
func (p Plan) Subject() string {
	type file struct {
		Path, Real, Result string
		Expected           Expected
		Bound              []Bound
	}
	subject := struct {
		Plan, Revision, Policy string
		Files                  []file
	}{Plan: p.ID, Revision: p.Revision, Policy: p.Policy}
	for _, c := range p.Changes {
		subject.Files = append(subject.Files, file{c.Path, c.Real, c.Result, c.Expected, c.Bound})
	}
	sum := sha256.Sum256(canonical(subject))
	return hex.EncodeToString(sum[:])
}

// Stale lists why a plan no longer fits the world of the sealer; nil: it does.
func (s *Sealer) Stale(p Plan) []string { return s.world.stale(p) }

// Offered says whether the plan can be approved and applied: it would break nothing, and nothing has to come first.
func (p Plan) Offered() bool { return p.State == PlanReady && len(p.Needs) == 0 }

// Why a plan is no longer what it was made from.
const (
	staleCatalog = "catalog-changed"
	stalePolicy  = "policy-changed"
	staleAdapter = "adapter-changed"
	staleFile    = "file-changed"
	staleEntry   = "entry-changed"
	staleNotMade = "no-longer-proposed"
)

// Stale lists why the plan no longer fits the world; nil: it does. A file that the world did not look at is not judged:
// applying it reads it again.
func Stale(p Plan, w World) []string {
	return look(w).stale(p)
}

func (x *view) stale(p Plan) []string {
	var why []string
	add := func(is bool, code string) {
		if is {
			why = append(why, code)
		}
	}
	add(p.Revision != x.Revision, staleCatalog)
	add(p.Policy != x.Policy.Digest(), stalePolicy)
	add(p.Adapter != x.Adapter, staleAdapter)
	for _, c := range p.Changes {
		f, ok := x.files[place{c.Agent, c.Path}]
		if !ok {
			continue
		}
		if len(c.Bound) == 0 {
			add(f.SHA256 != c.Expected.SHA256 || (f.State == FileAbsent) != c.Expected.Absent || f.Real != "" && f.Real != c.Real, staleFile)
			continue
		}
		add(x.boundChanged(c), staleEntry)
	}
	if len(why) == 0 {
		return nil
	}
	return unique(why)
}

// boundChanged compares the entries that the change binds; whether a container has changed is known when it is applied.
func (x *view) boundChanged(c Change) bool {
	for _, b := range c.Bound {
		if len(b.At) == 0 {
			continue
		}
		for _, f := range x.byEntry[named{c.Agent, b.At[len(b.At)-1]}] {
			if f.File == c.Path && f.Digest != "" && slices.Equal(f.At, b.At) && f.Digest != b.Digest {
				return true
			}
		}
	}
	return false
}
