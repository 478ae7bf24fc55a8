// Package converge decides what an entry in an agent's configuration means for the catalog: whether it goes through
// mcpx, goes around it, or is something a person has to look at, and why. It refuses to know files, formats and
// processes: what was observed comes in as values, and nothing of it is a secret.
//
// Invariant: Classify is a function of its arguments. Every entry gets exactly one class, and every code that it
// gives is explained by Explain.
package converge
