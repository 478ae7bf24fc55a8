package tree

// seen is what lies in one of the places of a change.
type seen string

// What may be seen. Foreign is everything that is neither the state before the change nor the one after it.
const (
	none     seen = "none"
	expected seen = "expect"
	proposed seen = "propose"
	foreign  seen = "other"
)

// evidence is what lies in the places of a change: under its name, in its staging slot and in its trash slot. For a rename
// the slot is the new name.
type evidence struct{ target, slot, trash seen }

// verdict says how far a change has come.
type verdict string

// The verdicts.
const (
	notYet    verdict = "not yet"       // nothing was done
	swapped   verdict = "swapped"       // done; the displaced bytes are still in the slot
	applied   verdict = "applied"       // done
	over      verdict = "over"          // done over the bytes of somebody else, which have to go back
	changed   verdict = "changed after" // done, and changed by somebody since
	missed    verdict = "missed"        // nothing was done, and cannot be: somebody else was there before
	contested verdict = "contested"     // somebody else was there, and it cannot be told what of ours is: nothing more is done
)

// stuck says that a row cannot be brought to its end.
func (v verdict) stuck() bool { return v == missed || v == over || v == contested }

// verdicts is the table of durable-work.md section 10.3, and what it means for the kinds that it leaves out. What is not
// in it is contested. Where it says contested for a change of which nothing was done, the verdict is missed: then a batch
// of which nothing was done ends as in a live run, unchanged (docs/decisions/0028).
var verdicts = map[ChangeKind]map[evidence]verdict{
	Replace: {
		{expected, proposed, none}: notYet,
		{proposed, expected, none}: swapped,
		{proposed, none, expected}: applied,
		{proposed, foreign, none}:  over,
		{foreign, proposed, none}:  missed,
		{none, proposed, none}:     missed,
		{foreign, expected, none}:  changed,
		{foreign, none, expected}:  changed,
		{none, expected, none}:     changed,
		{none, none, expected}:     changed,
	},
	Add: {
		{none, proposed, none}: notYet,
		{proposed, none, none}: applied,
	},
	Delete: {
		{expected, none, none}:    notYet,
		{none, none, expected}:    applied,
		{none, none, foreign}:     over,
		{foreign, none, expected}: changed, // docs/decisions/0028
		{foreign, none, none}:     missed,
		{none, none, none}:        missed,
	},
	Rename: {
		{expected, none, none}:    notYet,
		{none, expected, none}:    applied,
		{foreign, expected, none}: changed,
		{foreign, none, none}:     missed,
		{expected, foreign, none}: missed,
		{none, none, none}:        missed,
	},
	Mkdir: {
		{none, none, none}:     notYet,
		{proposed, none, none}: applied,
		{foreign, none, none}:  missed,
	},
	Rmdir: {
		{expected, none, none}: notYet,
		{none, none, none}:     applied,
		{foreign, none, none}:  missed,
	},
	SetMode: {
		{expected, none, none}: notYet,
		{proposed, none, none}: applied,
		{foreign, none, none}:  missed,
		{none, none, none}:     missed,
	},
}

// judge reads the table.
func judge(kind ChangeKind, e evidence) verdict {
	if v, ok := verdicts[kind][e]; ok {
		return v
	}
	return contested
}
