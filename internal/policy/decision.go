package policy

// Decision is what becomes of a command or an access.
type Decision string

// The decisions, in order of strictness. The zero value is no decision.
const (
	Allow   Decision = "allow"
	Confirm Decision = "confirm" // a person has to say yes first
	Deny    Decision = "deny"    // nobody can say yes
)

func (d Decision) rank() int {
	switch d {
	case Allow:
		return 1
	case Confirm:
		return 2
	case Deny:
		return 3
	}
	return 0
}

// Strictest is the stricter of two decisions.
func Strictest(a, b Decision) Decision {
	if b.rank() > a.rank() {
		return b
	}
	return a
}

// maxUnitText bounds the text of a unit in bytes. The whole command is stored with the operation; a unit only has to be
// recognised.
const maxUnitText = 256

// Unit is one simple command, redirection, assignment or expansion, and how it was decided.
type Unit struct {
	Text     string   `json:"text"` // as written, cut at 256 bytes
	Decision Decision `json:"decision"`
	Rule     string   `json:"rule"`
	Reason   string   `json:"reason"`
	Line     uint     `json:"line,omitempty"`   // 1-based; 0 in form argv
	Column   uint     `json:"column,omitempty"` // 1-based, in bytes
}

// Verdict is the decision on a command. Units are in the order of the text; a text without any unit is allowed.
type Verdict struct {
	Decision Decision `json:"decision"`
	Units    []Unit   `json:"units"`
	// Programs are the files that were found for the names of programs, for Freeze. They are sorted by path.
	Programs []Program `json:"-"`
}

// finding is one rule that matched a unit.
type finding struct {
	decision Decision
	rule     string
	reason   string
}

func allowed(rule, reason string) finding { return finding{Allow, rule, reason} }

func confirm(rule, reason string) finding { return finding{Confirm, rule, reason} }

func denied(rule, reason string) finding { return finding{Deny, rule, reason} }
