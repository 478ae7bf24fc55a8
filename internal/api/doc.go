// Package api decides what the local API is: one table of operations, their request and response types, where the
// socket and the state of one home lie, and a Go client. It refuses to know how an operation is carried out: that is
// a Service, implemented by package control in the daemon and by Client over the socket.
//
// Invariant: every row of Ops has exactly one method of Service, one handler and one client method, with the types of
// the row; docs/api.md is generated from the table.
package api

// Level is the version of the contract. It rises when a field is removed or changes its type; adding does not raise it.
const Level = 1

// Names of the headers of the local API.
const (
	// HeaderLevel carries the Level of the sender, in requests and responses.
	HeaderLevel = "Mcpx-Api-Level"
	// HeaderKey carries the operation id of a mutation, chosen by the caller.
	HeaderKey = "Idempotency-Key"
)

// MaxBody bounds the JSON body of a request and of a response, in bytes. A tool result may hold images and files as
// base64; the gateway itself refuses larger messages.
const MaxBody = 64 << 20

// MaxKey bounds an operation id, in bytes: op_ and a ULID need 29.
const MaxKey = 128
