package workspace

import (
	"maps"
	"slices"
)

// Event is what happens to a workspace as a whole.
type Event string

// The events, durable-work.md section 6.
const (
	Complete  Event = "complete"   // its copy is
	Abandoned Event = "abandoned"  // its copy never became complete
	NotCopied Event = "not-copied" // nothing of its copy is on the disk
	Suspend   Event = "suspend"
	Amend     Event = "amend"
	Resume    Event = "resume" // its scope is claimed again, and its directory is brought back
	Resumed   Event = "resumed"
	GoneWrong Event = "gone-wrong" // what was begun with it has not happened: it is what it was
	Integrate Event = "integrate"  // its changes begin to be applied
	Applied   Event = "applied"    // they are in the project
	AppliedOn Event = "applied-on" // they are, and the work goes on
	Reopened  Event = "reopened"   // they are not, or nobody says so
	Contested Event = "contested"  // some may be: somebody has to look
	Undo      Event = "undo"       // they begin to be taken back
	Undone    Event = "undone"     // they are not in the project any more
	Retire    Event = "retire"     // its directory is about to go to the trash
	InTrash   Event = "in-trash"
	Lost      Event = "lost" // its directory is gone
)

// moves are the transitions: by an event from a state to another one. GoneWrong leads back to Workspace.Was.
var moves = map[Event]map[State]State{
	Complete:  {Creating: Open},
	Abandoned: {Creating: Quarantined},
	NotCopied: {Creating: Retired},
	Suspend:   {Open: Suspended},
	Amend:     {Open: Open},
	Resume:    {Suspended: Open, Quarantined: Open, Missing: Open},
	Resumed:   {Open: Open},
	Integrate: {Open: Integrating, Suspended: Integrating},
	Applied:   {Integrating: Integrated, Attention: Integrated},
	AppliedOn: {Integrating: Open, Attention: Open},
	Reopened:  {Integrating: Open, Attention: Open},
	Contested: {Integrating: Attention},
	Undo:      {Integrated: Integrating, Open: Integrating},
	Undone:    {Integrating: Open, Attention: Open},
	Retire:    {Open: Retiring, Suspended: Retiring, Integrated: Retiring, Attention: Retiring, Quarantined: Retiring, Missing: Retiring},
	InTrash:   {Retiring: Retired},
	Lost:      {Open: Missing, Suspended: Missing, Quarantined: Missing},
}

// begun are the events that can go wrong afterwards.
var begun = []Event{Resume, Undo, Retire}

// From are the states in which an event may happen, in their order.
func From(e Event) []State { return slices.Sorted(maps.Keys(moves[e])) }

// To is the workspace after an event, and why it is in its new state. The refusals of In when its state does not allow it.
func (w Workspace) To(e Event, why string) (Workspace, error) {
	if e == GoneWrong && w.Was != "" {
		w.State, w.Why, w.Was, w.WasWhy = w.Was, w.WasWhy, "", ""
		return w, nil
	}
	to, ok := moves[e][w.State]
	if !ok {
		return w, w.In(From(e)...)
	}
	w.Was, w.WasWhy = "", ""
	if slices.Contains(begun, e) {
		w.Was, w.WasWhy = w.State, w.Why
	}
	w.State, w.Why = to, why
	return w, nil
}
