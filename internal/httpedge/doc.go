// Package httpedge decides how MCP travels over HTTP on both sides: the front that clients of every revision reach, with
// its checks of Host, Origin and peer, and the upstream links to servers behind a URL. It refuses to know what a message
// means beyond its routing members, and which lane or session serves it.
//
// Invariant: nothing that a client sent (credentials, cookies, unknown headers) reaches an upstream, and no response is
// written before the request's body was read whole.
package httpedge
