// Package retention decides what is old: how long each kind of data is kept, what is kept longer because unfinished work
// refers to it, and when the clock of the machine is not to be believed. It refuses to know where data are and how they
// are removed.
//
// Invariant: nothing is old that unfinished work refers to, and nothing is while the clock is held.
package retention
