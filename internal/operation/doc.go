// Package operation decides what becomes of an intention: the caller's id, what binds it, what a retry gets, and which
// state follows which. It refuses to know what the effects are, where rows are stored, and which process carries them
// out.
//
// Invariant: an operation starts at most one effect, and a state that is final never changes (durable-work.md section 9).
package operation
