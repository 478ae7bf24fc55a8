// Package approval decides how the yes or no of a person is recorded: what it is about, how long it counts, and that it
// is used at most once. It refuses to know what is approved, how the person was asked, and where rows are stored.
//
// Invariant: a state that is final never changes, and an approval is consumed at most once, by the subject that was
// shown.
package approval
