// Package gateway decides how messages travel between clients and backends: routes, lanes, sessions, correlation of
// ids, attribution of server requests, cancellation, deadlines, back-pressure. It refuses to know HTTP, processes,
// files or a database: edges hand it whole messages, backends are ports, and sessions are values.
//
// Invariant: every request that entered gets exactly one final answer, and only the spans that protocol.md section 5
// names differ from the bytes that were received.
package gateway
