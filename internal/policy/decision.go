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

// maxUnits bounds the units of a verdict, by the bytes of their texts and reasons: answers, events and records repeat them all,
// and a text of 64 KB can have thousands. The first one of each rule is told, however many rules there are.
const maxUnits = 8 << 10

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
	Decision Decision `json:"decision"` // by all units
	Units    []Unit   `json:"units"`
	More     int      `json:"more_units,omitempty"` // that are too many to be told
	// Programs are the files that were found for the names of programs, for Freeze. They are sorted by path.
	Programs []Program `json:"-"`
}

// Join is the verdict on several commands: as strict as the strictest, with the units of all of them in their order. Of what is
// more than maxUnits the least strict are left out, and the last ones.
func Join(all ...Verdict) Verdict {
	var out Verdict
	for _, v := range all {
		out.Decision = Strictest(out.Decision, v.Decision)
		out.Units = append(out.Units, v.Units...)
		out.More += v.More
		out.Programs = append(out.Programs, v.Programs...)
	}
	units := out.Units
	out.Units = nil
	told, room := tellable(units), maxUnits
	for _, d := range []Decision{Deny, Confirm, Allow} {
		for i, u := range units {
			if u.Decision != d {
				continue
			}
			room -= len(u.Text) + len(u.Rule) + len(u.Reason)
			told[i] = told[i] || room >= 0
		}
	}
	for i, u := range units {
		if told[i] {
			out.Units = append(out.Units, u)
		} else {
			out.More++
		}
	}
	return out
}

// tellable marks the first unit of each rule.
func tellable(units []Unit) []bool {
	first, rules := make([]bool, len(units)), map[string]bool{}
	for i, u := range units {
		first[i] = !rules[u.Rule]
		rules[u.Rule] = true
	}
	return first
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
