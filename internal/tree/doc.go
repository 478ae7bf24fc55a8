// Package tree decides what a path of a project is on this machine and how the files below it are read, listed and
// changed: relative to open directories, by physical identity, and with every displaced byte kept. It refuses to know who
// asks, what the policy says of a path, and what the bytes mean; callers judge a Place before they read it, and keep the
// rows of a transaction (Batch) themselves.
//
// Invariant: no byte that somebody else wrote is removed by a transaction: it stays under its name, or in the trash, and
// "applied" is said only with the displaced bytes in the trash (durable-work.md section 10).
package tree
