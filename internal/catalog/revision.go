package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Revision is the hash of the sorted canonical entries. The order of the entries, the times of their last change and
// where they come from do not count: putting an unchanged entry again keeps the revision, and so does seeing it again
// elsewhere.
func Revision(servers []Server) string {
	sorted := slices.SortedFunc(slices.Values(servers), func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	h := sha256.New()
	e := json.NewEncoder(h) // sorts the keys of maps, ends each entry with a line feed
	for _, s := range sorted {
		s.Created, s.Updated, s.Provenance = time.Time{}, time.Time{}, nil
		if err := e.Encode(s); err != nil {
			panic("catalog: an entry without channels and functions cannot be encoded: " + err.Error())
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Reasons for which an entry is not routed, governance.md section 2.1.
const (
	NotReviewed       = "review-pending"
	ReviewSaidNo      = "review-rejected"
	ToolsChanged      = "quarantined-tools-changed"
	SwitchedOff       = "lifecycle-disabled"
	BackendIncomplete = "backend-incomplete"
	BackendUnsafe     = "backend-unsafe-url"
	SharedWithNobody  = "sharing-none"
	NameUnusable      = "name-conflict"
	// BindingUnresolved is followed by a colon and the name of the variable or header.
	BindingUnresolved = "binding-unresolved"
)

// NotRoutable lists all reasons for which an entry is not routed; nil: it is.
func NotRoutable(s Server) []string {
	var reasons []string
	add := func(bad bool, reason string) {
		if bad {
			reasons = append(reasons, reason)
		}
	}
	add(s.Review != ReviewApproved && s.Review != ReviewRejected && s.Review != ReviewQuarantined, NotReviewed)
	add(s.Review == ReviewRejected, ReviewSaidNo)
	add(s.Review == ReviewQuarantined, ToolsChanged)
	add(s.Lifecycle == Disabled, SwitchedOff)
	add((s.Stdio == nil) == (s.HTTP == nil), BackendIncomplete)
	add(s.HTTP != nil && validURL(s.HTTP.URL) != nil, BackendUnsafe)
	for _, name := range s.Unresolved() {
		add(true, BindingUnresolved+":"+name)
	}
	add(s.Sharing == ShareNone, SharedWithNobody)
	// A name that is mcpx's own, or no part of a path, leads elsewhere. Names that are taken are refused by the store. No path
	// leads to the server of a project.
	add(s.Project == "" && validName("name", s.Name) != nil, NameUnusable)
	return reasons
}

// Unresolved lists the variables and headers whose value nobody has said where to take from, sorted.
func (s Server) Unresolved() []string {
	var names []string
	for _, all := range []map[string]Binding{s.variables(), s.headers()} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if all[name].Unresolved {
				names = append(names, name)
			}
		}
	}
	return names
}

func (s Server) variables() map[string]Binding {
	if s.Stdio == nil {
		return nil
	}
	return s.Stdio.Env
}

func (s Server) headers() map[string]Binding {
	if s.HTTP == nil {
		return nil
	}
	return s.HTTP.Headers
}

// Warning is something that works and that a person should know.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}
