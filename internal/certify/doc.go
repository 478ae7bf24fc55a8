// Package certify decides what proves that a real agent works with mcpx on this machine: it lets the agent write its own
// configuration in a scratch home, runs it directly, through mcpx, over a restart of the daemon and after the rollback,
// with a stub in place of the model, and writes down what it saw. It refuses to know how a plan is made or approved: it
// asks the daemon of the scratch home, as a person would.
//
// Invariant: a certificate states only what was seen in the run that it describes, and names the program it was seen
// with by version and hash.
package certify
