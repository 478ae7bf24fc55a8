package retention

import "mcpx/internal/event"

// Needed are the things that unfinished work refers to: open plans, questions that wait for a person, operations and
// commands without an end, and what these name in turn.
type Needed map[event.Ref]map[string]bool

// Add makes a thing needed. An empty id is none.
func (n Needed) Add(kind event.Ref, id string) {
	if id == "" {
		return
	}
	if n[kind] == nil {
		n[kind] = map[string]bool{}
	}
	n[kind][id] = true
}

// Has says whether a thing is needed.
func (n Needed) Has(kind event.Ref, id string) bool { return n[kind][id] }

// Any says whether one of several things is.
func (n Needed) Any(refs event.Refs) bool {
	for kind, id := range refs {
		if n.Has(kind, id) {
			return true
		}
	}
	return false
}
