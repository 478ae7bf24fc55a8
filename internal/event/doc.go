// Package event decides what one record of the log is: its envelope, its kinds, the chain of hashes that makes a
// missing or changed record visible, and what a reader may ask for. It refuses to know where the log is stored and who
// acts on it.
//
// Invariant: Verify accepts a run of envelopes exactly when none was changed, removed or put in between.
package event
