package catalog

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// Confidence says how sure it is that an entry seen somewhere is a server of the catalog (governance.md section 2.5).
type Confidence string

// The levels, the surest first. MatchAmbiguous stands for two servers at the best level that was reached.
const (
	MatchExact     Confidence = "exact"
	MatchHigh      Confidence = "high"
	MatchMedium    Confidence = "medium"
	MatchWeak      Confidence = "weak"
	MatchAmbiguous Confidence = "ambiguous"
	MatchNone      Confidence = "none"
)

// rank orders the levels that one server can reach, the surest first.
func (c Confidence) rank() int {
	return slices.Index([]Confidence{MatchExact, MatchHigh, MatchMedium, MatchWeak, MatchNone}, c)
}

// Reasons of a match. Those with "differ" in their name and ReasonSecretHidden keep it below high.
const (
	ReasonRouted          = "routed-by-name"
	ReasonSamePackage     = "same-package"
	ReasonSameURL         = "same-url"
	ReasonWrapped         = "wrapped-remote"
	ReasonUnpinned        = "unpinned"
	ReasonVersion         = "version-differs"
	ReasonEntry           = "entry-differs"
	ReasonArguments       = "arguments-differ"
	ReasonVariables       = "variables-differ"
	ReasonHeaders         = "headers-differ"
	ReasonOptions         = "options-differ"
	ReasonCwd             = "cwd-differs"
	ReasonProgramPath     = "program-path-differs"
	ReasonRelativePath    = "relative-path"
	ReasonSecretHidden    = "secret-not-compared"
	ReasonWeakIdentity    = "identity-weak"
	ReasonSameName        = "same-name"
	ReasonSameAlias       = "same-alias"
	ReasonOtherName       = "other-name"
	ReasonNameConflict    = "name-conflict"
	ReasonAliasConflict   = "alias-conflict"
	ReasonSeveral         = "several-servers"
	ReasonNotInCatalog    = "not-in-catalog"
	ReasonServerNotRouted = "server-not-routable"
	ReasonLinked          = "linked-by-person"
)

// Sighting is what is compared of an entry that was seen somewhere. It holds no value of a variable or header, and
// what looks like a secret in an argument or URL is replaced.
type Sighting struct {
	Name      string
	Package   Package // without a Kind there is nothing to compare but the name
	Cwd       string
	Variables []string
	Headers   []string
	Hidden    bool // something was replaced, so equal texts are not equal definitions
}

// Sight is the sighting of a server of the catalog.
func Sight(s Server) Sighting {
	out := Sighting{Name: s.Name}
	switch {
	case s.Stdio != nil:
		args := RedactArgs(s.Stdio.Args)
		out.Hidden = !slices.Equal(args, s.Stdio.Args)
		out.Package, _ = IdentifyCommand(s.Stdio.Command, args)
		out.Cwd = s.Stdio.Cwd
		out.Variables = slices.AppendSeq(slices.Clone(s.Stdio.EnvPass), maps.Keys(s.Stdio.Env))
	case s.HTTP != nil:
		shown := HideURL(s.HTTP.URL)
		out.Hidden = shown != s.HTTP.URL
		out.Package = IdentifyURL(shown)
		out.Headers = slices.Collect(maps.Keys(s.HTTP.Headers))
	}
	return out
}

// Likeness is one server that an entry may be.
type Likeness struct {
	Server     string     `json:"server"`
	Confidence Confidence `json:"confidence"`
	Reasons    []string   `json:"reasons"`
}

// MaxCandidates bounds the servers that a match lists: a person decides between a few.
const MaxCandidates = 10

// Match is the result of a comparison with the whole catalog.
type Match struct {
	Confidence Confidence `json:"confidence"`
	Server     string     `json:"server,omitempty"` // the one that is meant; "" for none and for ambiguous
	Reasons    []string   `json:"reasons"`
	Candidates []Likeness `json:"candidates"` // every server with something in common, the surest first
}

// Has says whether any candidate has the reason.
func (m Match) Has(reason string) bool {
	return slices.ContainsFunc(m.Candidates, func(c Likeness) bool { return slices.Contains(c.Reasons, reason) })
}

// Index finds the servers that an entry may be. Making it is linear in the servers; a Match looks only at those with
// the same package or name.
type Index struct {
	servers   []Server
	sights    []Sighting
	byPackage map[string][]int
	byName    map[string]int
	byAlias   map[string]int
}

// NewIndex reads the catalog once.
func NewIndex(servers []Server) *Index {
	x := &Index{servers: servers, byPackage: map[string][]int{}, byName: map[string]int{}, byAlias: map[string]int{}}
	for i, s := range servers {
		sight := Sight(s)
		x.sights = append(x.sights, sight)
		if k := packageKey(sight.Package); k != "" {
			x.byPackage[k] = append(x.byPackage[k], i)
		}
		x.byName[s.Name] = i
		for _, alias := range s.Aliases {
			x.byAlias[alias] = i
		}
	}
	return x
}

// packageKey is equal for packages that may be the same.
func packageKey(p Package) string {
	switch p.Kind {
	case "":
		return ""
	case PackageBinary: // a bare name is found in PATH, so it may be any program with that base name
		return string(p.Kind) + " " + programName(p.Name)
	case PackageNPM, PackagePyPI, PackageOCI, PackageGit, PackageJSR, PackageGo, PackagePath, PackageURL:
	}
	return string(p.Kind) + " " + p.Name
}

// Server finds a server by name or alias.
func (x *Index) Server(name string) (Server, bool) {
	i, ok := x.byName[name]
	if !ok {
		i, ok = x.byAlias[name]
	}
	if !ok {
		return Server{}, false
	}
	return x.servers[i], true
}

// Routed is the match of an entry that goes through mcpx to a name or alias.
func (x *Index) Routed(name string) Match {
	s, ok := x.Server(name)
	if !ok {
		return noMatch()
	}
	reasons := []string{ReasonRouted}
	return Match{
		Confidence: MatchExact, Server: s.Name, Reasons: reasons,
		Candidates: []Likeness{{Server: s.Name, Confidence: MatchExact, Reasons: reasons}},
	}
}

func noMatch() Match {
	return Match{Confidence: MatchNone, Reasons: []string{ReasonNotInCatalog}, Candidates: []Likeness{}}
}

// Match compares an entry with every server. A tie is never broken: it is ambiguous.
func (x *Index) Match(s Sighting) Match {
	near := slices.Clone(x.byPackage[packageKey(s.Package)])
	for _, by := range []map[string]int{x.byName, x.byAlias} {
		if i, ok := by[s.Name]; ok && !slices.Contains(near, i) {
			near = append(near, i)
		}
	}
	if len(near) == 0 {
		return noMatch()
	}
	m := Match{Candidates: make([]Likeness, 0, len(near))}
	for _, i := range near {
		m.Candidates = append(m.Candidates, x.compare(s, i))
	}
	slices.SortFunc(m.Candidates, func(a, b Likeness) int {
		return cmp.Or(cmp.Compare(a.Confidence.rank(), b.Confidence.rank()), cmp.Compare(a.Server, b.Server))
	})
	best := m.Candidates[0]
	m.Confidence, m.Server, m.Reasons = best.Confidence, best.Server, best.Reasons
	if len(m.Candidates) > 1 && m.Candidates[1].Confidence == best.Confidence {
		m.Confidence, m.Server, m.Reasons = MatchAmbiguous, "", []string{ReasonSeveral}
	}
	m.Candidates = m.Candidates[:min(len(m.Candidates), MaxCandidates)]
	return m
}

// Linked is the match of an entry that a person has said to be this server: ties and other doubts are over, differences
// stay. It never is more than medium, so that nothing is done with it unasked. False: there is no such server any more.
func (x *Index) Linked(s Sighting, id string) (Match, bool) {
	i := slices.IndexFunc(x.servers, func(server Server) bool { return server.ID == id })
	if i < 0 {
		return Match{}, false
	}
	c := x.compare(s, i)
	c.Confidence = MatchMedium
	c.Reasons = append([]string{ReasonLinked}, slices.DeleteFunc(c.Reasons, func(reason string) bool {
		return reason == ReasonNameConflict || reason == ReasonAliasConflict
	})...)
	return Match{Confidence: MatchMedium, Server: c.Server, Reasons: c.Reasons, Candidates: []Likeness{c}}, true
}

// compare judges one server that has the name or the package of the entry.
func (x *Index) compare(s Sighting, i int) Likeness {
	server, sight := x.servers[i], x.sights[i]
	c := Likeness{Server: server.Name, Confidence: MatchWeak}
	add := func(reason string) { c.Reasons = append(c.Reasons, reason) }
	byAlias := slices.Contains(server.Aliases, s.Name)
	switch {
	case s.Name == server.Name:
		add(ReasonSameName)
	case byAlias:
		add(ReasonSameAlias)
	default:
		add(ReasonOtherName)
	}
	a, b := s.Package, sight.Package
	switch {
	case a.Weak || b.Weak || a.Kind == "" || b.Kind == "":
		add(ReasonWeakIdentity)
		return c
	case packageKey(a) != packageKey(b) && byAlias:
		add(ReasonAliasConflict)
		return c
	case packageKey(a) != packageKey(b):
		add(ReasonNameConflict)
		return c
	case a.Kind == PackageURL:
		add(ReasonSameURL) // says nothing about the account behind it, so it never reaches high
		c.Confidence = MatchMedium
	default:
		add(ReasonSamePackage)
		c.Confidence = MatchHigh
	}
	if a.Kind == PackageBinary && a.Name != b.Name {
		c.Confidence = MatchWeak
		add(ReasonProgramPath)
	}
	if a.Entry != b.Entry {
		c.Confidence = MatchWeak
		add(ReasonEntry)
	}
	lower := func(differs bool, reason string) {
		if differs {
			add(reason)
			if c.Confidence == MatchHigh {
				c.Confidence = MatchMedium
			}
		}
	}
	differs, floating := versions(a, b)
	if floating {
		add(ReasonUnpinned)
	}
	if a.Via != b.Via && a.Kind == PackageURL {
		add(ReasonWrapped)
	}
	lower(differs, ReasonVersion)
	lower(!slices.Equal(a.Rest, b.Rest), ReasonArguments)
	lower(!sameSet(a.Options, b.Options), ReasonOptions)
	lower(!sameSet(append(peeledNames(a), s.Variables...), append(peeledNames(b), sight.Variables...)), ReasonVariables)
	lower(!sameSet(lowered(s.Headers), lowered(sight.Headers)), ReasonHeaders)
	lower(s.Cwd != "" && s.Cwd != sight.Cwd, ReasonCwd)
	lower(a.Kind == PackagePath && !path.IsAbs(a.Name), ReasonRelativePath)
	lower(s.Hidden || sight.Hidden, ReasonSecretHidden)
	return c
}

// versions compares what is asked of a registry. Two that both float ask for the same, whatever it is today; two
// different ranges or tags do not.
func versions(a, b Package) (differs, floating bool) {
	switch a.Kind {
	case PackagePath, PackageBinary, PackageURL:
		return false, false
	case PackageNPM, PackagePyPI, PackageOCI, PackageGit, PackageJSR, PackageGo:
	}
	newest := func(p Package) bool { return p.Version == "" || p.Version == "latest" }
	same := a.Version == b.Version || newest(a) && newest(b)
	return !same, same && !a.Pinned()
}

// peeledNames are the variables that an `env` before the launcher sets.
func peeledNames(p Package) []string {
	var names []string
	for _, peeled := range p.Peeled {
		if name, ok := strings.CutPrefix(peeled, "env "); ok && !strings.HasPrefix(name, "-") {
			names = append(names, name)
		}
	}
	return names
}

func lowered(names []string) []string {
	out := make([]string, 0, len(names))
	for _, name := range names {
		out = append(out, strings.ToLower(name))
	}
	return out
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}
