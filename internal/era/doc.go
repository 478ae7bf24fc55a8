// Package era decides what the five published MCP revisions mean for one message: which era a request belongs to,
// which headers it must carry, and how a message of one era becomes one of the other (protocol.md sections 3, 5.3, 5.4
// and 10). It is pure: it refuses to know connections, sessions, principals, clocks and stores.
//
// Invariant: every bridge is a splice. Members that no rule here names keep their bytes and their place.
package era
