package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// Revision is the hash of the sorted canonical entries. The order of the entries and the times of their last change do
// not count: putting an unchanged entry again keeps the revision.
func Revision(servers []Server) string {
	sorted := slices.SortedFunc(slices.Values(servers), func(a, b Server) int { return cmp.Compare(a.ID, b.ID) })
	h := sha256.New()
	e := json.NewEncoder(h) // sorts the keys of maps, ends each entry with a line feed
	for _, s := range sorted {
		s.Created, s.Updated = time.Time{}, time.Time{}
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
	return reasons
}

// Warning is something that works and that a person should know.
type Warning struct {
	Code string `json:"code"`
	Text string `json:"text"`
}
