package api

import (
	"time"

	"mcpx/internal/catalog"
)

// CatalogQuery selects entries of the catalog. Every condition that is set has to hold.
type CatalogQuery struct {
	Words   []string `json:"-" query:"word"` // each stands in the name, an alias, title, notes, tag, profile, package or definition
	Tag     string   `json:"-" query:"tag"`
	Profile string   `json:"-" query:"profile"`
	Review  string   `json:"-" query:"review"`
}

// CatalogPage is what the catalog has, sorted by name.
type CatalogPage struct {
	Revision string         `json:"revision"`
	Entries  []CatalogEntry `json:"entries"`
}

// CatalogEntry is one server as it is governed. Values of variables and headers are no part of it.
type CatalogEntry struct {
	ID         string               `json:"id"`
	Name       string               `json:"name"`
	Aliases    []string             `json:"aliases,omitempty"`
	Title      string               `json:"title,omitempty"`
	Notes      string               `json:"notes,omitempty"`
	Tags       []string             `json:"tags,omitempty"`
	Profiles   []string             `json:"profiles,omitempty"`
	Definition string               `json:"definition"` // command line or URL, secrets redacted
	Package    *catalog.Package     `json:"package"`    // null: nothing is known to be behind it
	Variables  []string             `json:"variables"`  // names
	Headers    []string             `json:"headers"`    // names
	Sharing    catalog.Sharing      `json:"sharing"`
	Review     catalog.Review       `json:"review"`
	Lifecycle  catalog.Lifecycle    `json:"lifecycle"`
	Risk       catalog.Risk         `json:"risk"`
	Routable   bool                 `json:"routable"`
	Reasons    []string             `json:"reasons"`  // why it is not routable, docs/catalog.md
	PinMode    catalog.PinMode      `json:"pin_mode"` // what happens to tools that change
	Pinned     int                  `json:"pinned"`   // tools that a person has agreed to
	Held       []catalog.Held       `json:"held"`     // tools that are not as they were agreed to
	Provenance []catalog.Provenance `json:"provenance"`
	File       string               `json:"file,omitempty"` // of config/catalog, which says everything but review and life cycle
	Line       int                  `json:"line,omitempty"` // there; 0: not known
}

// CandidatesQuery selects candidates.
type CandidatesQuery struct {
	ID    string `json:"-" query:"id"`    // one, by a beginning of its id
	State string `json:"-" query:"state"` // "" those that wait for a decision, "all" every one
}

// CandidatePage is a list of candidates in order of id.
type CandidatePage struct {
	Candidates []catalog.Candidate `json:"candidates"`
}

// Verdict is what a person decides about a candidate or a server.
type Verdict string

// The verdicts.
const (
	Promote   Verdict = "promote"   // a candidate becomes a server
	Merge     Verdict = "merge"     // a candidate is the server With
	Reject    Verdict = "reject"    // of both
	Approve   Verdict = "approve"   // of a server
	Deprecate Verdict = "deprecate" // of a server: it routes, and nobody gets it newly
)

// Review is a person's decision. Subject is the id of a candidate, or a beginning of it, or the name of a server.
type Review struct {
	Subject   string                     `json:"subject"`
	Verdict   Verdict                    `json:"verdict,omitempty"` // "" only the other fields
	Name      string                     `json:"name,omitempty"`    // of the new server; "" as proposed
	With      string                     `json:"with,omitempty"`    // server to merge with
	Bind      map[string]catalog.Binding `json:"bind,omitempty"`    // values of variables or headers
	Risk      catalog.Risk               `json:"risk,omitempty"`
	Pins      catalog.PinMode            `json:"pins,omitempty"`
	Tags      *[]string                  `json:"tags,omitempty"`     // in place of those that it has
	Profiles  *[]string                  `json:"profiles,omitempty"` // likewise
	Note      string                     `json:"note,omitempty"`
	Confirmed bool                       `json:"confirmed,omitempty"` // a person has seen what is trusted more than before
}

// Settings says whether anything is set beside the verdict.
func (r Review) Settings() bool {
	return len(r.Bind) > 0 || r.Risk != "" || r.Pins != "" || r.Tags != nil || r.Profiles != nil
}

// Reviewed is the outcome. One of the two is set, or both after a promotion.
type Reviewed struct {
	Candidate *catalog.Candidate `json:"candidate,omitempty"`
	Entry     *CatalogEntry      `json:"entry,omitempty"`
	Changed   []string           `json:"changed"` // fields; empty: it was so already
	Route     string             `json:"route,omitempty"`
	Operation string             `json:"operation,omitempty"`
}

// LinkEntry says that an entry of an agent's file is a server of the catalog.
type LinkEntry struct {
	Observation string `json:"observation_id"` // or a beginning of it
	Server      string `json:"server"`         // name
	Note        string `json:"note,omitempty"`
}

// Linked is the outcome: what is remembered, for these bytes of the entry.
type Linked struct {
	Link      catalog.Link `json:"link"`
	Server    string       `json:"server"`
	Agent     string       `json:"agent"`
	File      string       `json:"file"`
	Entry     string       `json:"entry"`
	Already   bool         `json:"already,omitempty"`
	Operation string       `json:"operation,omitempty"`
}

// ToolsReview is what a server offers now beside what a person has agreed to.
type ToolsReview struct {
	Server  string          `json:"server"`
	PinMode catalog.PinMode `json:"pin_mode"`
	Taken   time.Time       `json:"taken_at,omitzero"` // when the present pins were taken; absent: there are none
	Digest  string          `json:"digest"`            // of this list; to accept it is to accept exactly this
	Tools   []ToolChange    `json:"tools"`
	Same    int             `json:"same"` // tools that are as they were
	// Accepted says that the list is pinned from now on; only in the answer to AcceptTools.
	Accepted  bool   `json:"accepted,omitempty"`
	Operation string `json:"operation,omitempty"`
}

// ToolChange is one tool that differs. Text is everything that a model is told about the tool.
type ToolChange struct {
	Name   string             `json:"name"`
	Why    string             `json:"why"`    // tool-new, tool-changed, hidden-characters or tool-gone
	Masked bool               `json:"masked"` // clients do not get it until it is accepted
	Diff   []catalog.DiffPart `json:"diff"`
	Hidden []string           `json:"hidden,omitempty"` // characters that nobody sees, as U+XXXX
}

// AcceptTools pins what a server offers now.
type AcceptTools struct {
	Name   string `json:"-" path:"server"`
	Digest string `json:"digest"` // of the list that the person has seen
	Note   string `json:"note,omitempty"`
}

// ExportQuery selects what is exported, and how.
type ExportQuery struct {
	As     string   `json:"-" query:"as"` // mcpx, mcp-servers, or the name of an agent
	Routed bool     `json:"-" query:"routed"`
	Names  []string `json:"-" query:"name"` // of servers; none is all
}

// Export is a document with servers. Values of variables and headers are no part of it.
type Export struct {
	As       string   `json:"as"`
	Format   string   `json:"format"` // json, toml or yaml
	Servers  []string `json:"servers"`
	Left     []string `json:"left_out"` // servers that nobody should run, each with the reasons
	Notes    []string `json:"notes"`    // what the form cannot say
	Document string   `json:"document"`
}
