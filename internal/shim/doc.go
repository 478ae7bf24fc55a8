// Package shim decides how a stdio child is owned: by a small process of its own that outlives the daemon (supervised)
// or by the daemon itself (direct). It holds both ends: Main is the process that owns the child, Backend is the
// daemon's side, and the frames between them. It knows lines, and refuses to know anything else of MCP: sessions, eras
// and rewriting are not its business.
//
// Invariant: a child reads and writes whole lines only, whatever happens to the daemon; its pipes never close because
// a daemon died.
package shim
