package workspace

// Sight is what looking at a workspace tells, beside its record.
type Sight struct {
	Dirty string   `json:"dirty"`          // whether it has changes: yes, no, or unverified when nobody can tell now
	Jobs  []string `json:"jobs,omitempty"` // that live in it
}

// What Sight.Dirty says.
const (
	Dirty      = "yes"
	Clean      = "no"
	Unverified = "unverified"
)

// Bundle is what an agent or a person needs to resolve a conflict.
type Bundle struct {
	Dir     string // absolute; "" there is none
	Sides   []Side
	Current string // digest of the project's side, whether it is a file here or not
}

// SideCurrent is the name of the project's side.
const SideCurrent = "CURRENT"

// Side is one file of a bundle: BASE, CURRENT, PROPOSED, or MERGED with both changes in one text.
type Side struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}
