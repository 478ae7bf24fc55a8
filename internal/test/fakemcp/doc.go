// Package fakemcp decides how MCP servers misbehave, and answers byte by byte as a test tells it to. It refuses to use
// an SDK or the product's own scanner: a fixture that shares code with what it checks agrees with its mistakes.
//
// The tool "raw" prints the lines that its caller put into the arguments, so a test states the request, the exact
// answer of the backend, and what the client must see, in one place. Other tools ask, count, hang, exit, flood;
// those of survive.go do it later, when nobody may be listening.
//
// Invariant: every byte that a stdio fixture reads is appended to its record file before anything is answered.
package fakemcp
