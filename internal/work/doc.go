// Package work carries out the tools of /mcp: it finds whose call it is and what it is about, takes it through the ledger,
// and makes the answer. It refuses to know how a call came and how an answer is sent, and it judges nothing by itself: what
// binds an id, what a role may do and what a command is are decided by operation, session and policy.
//
// Invariant: no effect begins before its claim and its dispatch are durable, and none begins twice.
package work
