package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// CandidateState says what became of a candidate. A decision of a person is never taken back by seeing it again.
type CandidateState string

// The states.
const (
	CandidateNew      CandidateState = "new"
	CandidatePromoted CandidateState = "promoted" // it became an entry
	CandidateRejected CandidateState = "rejected"
	CandidateMerged   CandidateState = "merged" // it is a server of the catalog
	CandidateGone     CandidateState = "gone"   // it is no longer anywhere
)

// Reasons of a candidate: what a person should know before deciding.
const (
	ReasonPackageUnknown = "package-unknown"   // nothing is known of how the package behaves
	ReasonLoopback       = "loopback-endpoint" // something else on this machine answers, or does not
	ReasonRemote         = "remote-endpoint"
	ReasonLocalPath      = "local-path"
)

// Shape is what is known of a server without any value of a variable or header.
type Shape struct {
	Transport string   `json:"transport"` // stdio, http or sse
	Command   string   `json:"command,omitempty"`
	Args      []string `json:"args,omitempty"` // secrets redacted
	URL       string   `json:"url,omitempty"`  // secrets redacted
	Cwd       string   `json:"cwd,omitempty"`
	Variables []string `json:"variables,omitempty"` // names
	Headers   []string `json:"headers,omitempty"`   // names
	Hidden    bool     `json:"hidden,omitempty"`    // something was redacted: it cannot be started from what is known
}

// Seen is one place where a candidate is.
type Seen struct {
	Agent       string    `json:"agent"`
	File        string    `json:"file"`
	Scope       string    `json:"scope,omitempty"`
	Name        string    `json:"name"`
	Observation string    `json:"observation_id,omitempty"`
	Digest      string    `json:"digest,omitempty"`
	At          time.Time `json:"at"` // of the first time
}

func (s Seen) place() [3]string { return [3]string{s.Agent, s.File, cmp.Or(s.Observation, s.Name)} }

// Candidate is a server that was seen and is not in the catalog.
type Candidate struct {
	ID        string         `json:"candidate_id"` // cand_ and a hash of package and shape: the same server in five agents is one
	State     CandidateState `json:"state"`
	Name      string         `json:"name"` // proposed
	Package   Package        `json:"package"`
	Shape     Shape          `json:"shape"`
	Reasons   []string       `json:"reasons"`
	Sightings []Seen         `json:"sightings"`
	Server    string         `json:"server,omitempty"` // id of the entry that it became or belongs to
	Verdict   *Verdict       `json:"verdict,omitempty"`
	First     time.Time      `json:"first_seen"`
	Last      time.Time      `json:"last_seen"`
}

// Verdict is a person's decision about a candidate.
type Verdict struct {
	Principal string    `json:"principal"`
	Channel   string    `json:"channel"`
	At        time.Time `json:"at"`
	Note      string    `json:"note,omitempty"`
}

// maxSightings bounds the places that a candidate lists.
const maxSightings = 50

// Found is one server without a match, at one place.
type Found struct {
	Package Package
	Shape   Shape
	Seen    Seen
	Reasons []string // of the match
}

// Staging is what Stage needs beside what was found.
type Staging struct {
	// Looked says whether this place was looked at: a sighting there that was not found again is over.
	Looked func(Seen) bool
	// Exists says whether an entry is in the catalog. A candidate whose entry was removed is new again.
	Exists func(server string) bool
	Now    time.Time
}

// Stage gives the candidates that change, by id, when exactly this was found where it was looked. What a person has
// decided stays decided; running it twice changes nothing.
func Stage(existing []Candidate, found []Found, s Staging) []Candidate {
	all := map[string]Candidate{}
	for _, c := range existing {
		c.Sightings = slices.DeleteFunc(slices.Clone(c.Sightings), func(seen Seen) bool { return s.Looked(seen) })
		all[c.ID] = c
	}
	before := map[string]Candidate{}
	for _, c := range existing {
		before[c.ID] = c
	}
	for _, f := range found {
		id := candidateID(f.Package, f.Shape)
		c, known := all[id]
		if !known {
			c = Candidate{ID: id, State: CandidateNew, Name: SafeName(f.Seen.Name), Package: f.Package, Shape: f.Shape, First: s.Now, Last: s.Now}
		}
		c.Reasons = candidateReasons(f)
		c.Sightings = withSighting(c.Sightings, before[id].Sightings, f.Seen, s.Now)
		all[id] = c
	}
	var changed []Candidate
	for id, c := range all {
		slices.SortFunc(c.Sightings, func(a, b Seen) int {
			one, two := a.place(), b.place()
			return slices.Compare(one[:], two[:])
		})
		if c = c.moved(s); same(before[id], c) {
			continue
		}
		if len(c.Sightings) > 0 {
			c.Last = s.Now
		}
		changed = append(changed, c)
	}
	slices.SortFunc(changed, func(a, b Candidate) int { return cmp.Compare(a.ID, b.ID) })
	return changed
}

// again says that the entry of a decided candidate is no longer there.
func (c Candidate) again(s Staging) bool {
	return (c.State == CandidatePromoted || c.State == CandidateMerged) && !s.Exists(c.Server)
}

// moved gives a candidate the state that follows from where it is.
func (c Candidate) moved(s Staging) Candidate {
	switch {
	case c.again(s):
		c.State, c.Server, c.Verdict = CandidateNew, "", nil
	case c.State == CandidateGone && len(c.Sightings) > 0:
		c.State = CandidateNew
	}
	if c.State == CandidateNew && len(c.Sightings) == 0 {
		c.State = CandidateGone
	}
	return c
}

// withSighting adds a place. One that was known keeps the time of its first sighting.
func withSighting(list, earlier []Seen, seen Seen, now time.Time) []Seen {
	same := func(other Seen) bool { return other.place() == seen.place() }
	if seen.At = now; slices.ContainsFunc(earlier, same) {
		seen.At = earlier[slices.IndexFunc(earlier, same)].At
	}
	if i := slices.IndexFunc(list, same); i >= 0 {
		list[i] = seen
		return list
	}
	if len(list) >= maxSightings {
		return list
	}
	return append(list, seen)
}

// same compares everything but the time of the last sighting.
func same(a, b Candidate) bool {
	a.Last, b.Last = time.Time{}, time.Time{}
	one, errOne := json.Marshal(a)
	two, errTwo := json.Marshal(b)
	return errOne == nil && errTwo == nil && string(one) == string(two)
}

// candidateID is equal for the same server in any agent, under any name, from any launcher.
func candidateID(p Package, s Shape) string {
	content := struct {
		Kind      PackageKind
		Name      string
		Version   string
		Entry     string
		Rest      []string
		Options   []string
		Variables []string
		Headers   []string
		Cwd       string
	}{
		p.Kind, p.Name, p.Version, p.Entry, p.Rest, slices.Sorted(slices.Values(p.Options)),
		slices.Compact(slices.Sorted(slices.Values(append(peeledNames(p), s.Variables...)))),
		slices.Compact(slices.Sorted(slices.Values(lowered(s.Headers)))), "",
	}
	if relative(p.Rest) || p.Kind == PackagePath && !isAbs(p.Name) { // then the directory decides what it is
		content.Cwd = s.Cwd
	}
	if p.Kind == PackageBinary { // a bare name and a path are told apart
		content.Name = s.Command
	}
	raw, err := json.Marshal(content)
	if err != nil {
		panic("catalog: a shape does not encode: " + err.Error()) // texts always do
	}
	sum := sha256.Sum256(raw)
	return "cand_" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))[:26]
}

func candidateReasons(f Found) []string {
	reasons := slices.Clone(f.Reasons)
	add := func(is bool, reason string) {
		if is && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	p := f.Package
	add(len(reasons) == 0, ReasonNotInCatalog)
	switch p.Kind {
	case PackageURL:
		loopback := strings.HasPrefix(p.Name, "http://127.0.0.1") || strings.HasPrefix(p.Name, "https://127.0.0.1")
		add(loopback, ReasonLoopback)
		add(!loopback, ReasonRemote)
	case PackagePath, PackageBinary:
		add(isAbs(p.Name), ReasonLocalPath)
		add(p.Kind == PackagePath && !isAbs(p.Name) || relative(p.Rest), ReasonRelativePath)
		add(true, ReasonPackageUnknown)
	case PackageNPM, PackagePyPI, PackageOCI, PackageGit, PackageJSR, PackageGo:
		add(NatureOf(p) == "", ReasonPackageUnknown)
		add(!p.Pinned(), ReasonUnpinned)
		add(relative(p.Rest), ReasonRelativePath)
	}
	add(f.Shape.Hidden, ReasonSecretHidden)
	add(p.Weak, ReasonWeakIdentity)
	return reasons
}
