// Package session decides what the durable things around the tools of /mcp are and may become: registered projects,
// remote sessions with their roles and hand-overs, work plans with evidence, and what a model says it is doing. It
// refuses to know files, clocks, transports and where anything is stored: facts, times and ids come in as values.
//
// Invariant: a value that these functions give follows from the one they were given by a transition of the
// specification; everything else is a *operation.Refusal with the code that the specification names. What is wrong with the
// store is a *fault.Error.
package session
