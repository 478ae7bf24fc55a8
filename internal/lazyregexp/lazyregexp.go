// Package lazyregexp compiles regular expressions when they are first used. Every process of this binary runs the
// initialisers of every package, and a supervisor, of which there is one for each server, matches nothing.
//
// Invariant: a pattern that does not compile is found by the tests of the module root, not by its first use.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns a function that compiles expr at its first call and returns the same expression ever after. Like
// regexp.MustCompile it panics when expr is not valid.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
