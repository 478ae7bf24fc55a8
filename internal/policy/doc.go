// Package policy decides what a command or a file access of an agent may do: allow, confirm (a person has to say yes) or
// deny. It judges what will happen (parsed and normalised words, canonical paths), never how it is spelled. It refuses to
// know how facts are found, how a yes is asked for, and how a program is started: facts come in through World, and
// nothing here reads a file or starts a process.
//
// Invariant: the strictest decision of any unit is the decision, and what cannot be decided from the text is confirm.
package policy
