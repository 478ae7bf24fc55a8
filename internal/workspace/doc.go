// Package workspace decides about isolated work packets: which parts of a project one may change, whose claim stands in the
// way, and what becomes of each path when its work comes back (BASE, CURRENT, PROPOSED). It refuses to know files: what lies
// under a path comes in as a value.
//
// Invariant: a path is taken only when the other side left it as it was; what both sides changed is merged without a
// guess, or it is a conflict.
package workspace
