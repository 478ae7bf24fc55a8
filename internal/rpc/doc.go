// Package rpc decides what is a well-formed JSON-RPC message, where its routing members lie, and how one byte range of
// it is replaced. It refuses to know what a payload means: values are raw tokens, never decoded into structs, and no
// method, revision or transport of MCP has behaviour here.
//
// Invariant: a byte outside the range of an Edit leaves Splice exactly as it entered.
package rpc
