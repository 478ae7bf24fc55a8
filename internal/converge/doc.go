// Package converge decides what the configuration of an agent means for the catalog and how the two are brought together:
// what an entry is (Classify), what should be planned (Propose), which plan that is (Seal) and whether it still holds
// (Stale), what may be done without a person, what has drifted and since when (Drift, Records), and what is wrong at all
// (Findings). It refuses to know files, formats, bytes and processes: what was observed and drafted comes in as values, and
// nothing of it is a secret.
//
// Invariant: each of these is a function of its arguments, whatever order they are listed in. The same world gives the same
// plan ids, byte for byte; where only a guess would help there is no plan but a trouble with the next command; and every
// code that is given is explained by Explain.
package converge
