// Package id decides what identifiers look like: a type prefix and a ULID, for example srv_01JABCDEF... . It refuses
// to know what they name.
//
// Invariant: ids from one Source are unique, and sort by the time they were made.
package id

import (
	"io"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// Prefix is the type prefix of an id, without the underscore.
type Prefix string

// The prefixes in use.
const (
	Approval    Prefix = "apr"
	Receipt     Prefix = "rcp"
	Server      Prefix = "srv"
	Shim        Prefix = "shim"
	Token       Prefix = "tok"
	Operation   Prefix = "op"
	Project     Prefix = "proj"
	Session     Prefix = "rs" // a remote one
	Handoff     Prefix = "ho"
	WorkPlan    Prefix = "wp"
	Job         Prefix = "job"
	Artifact    Prefix = "art"
	Workspace   Prefix = "ws"
	Integration Prefix = "int"
	Build       Prefix = "b" // with the beginning of its tree hash
	Candidate   Prefix = "cand"
	Audit       Prefix = "aud"
	Delegation  Prefix = "dg"
)

// Source makes ids. Time and randomness come in as values, so tests get the ids they expect.
type Source struct {
	now func() time.Time

	mu      sync.Mutex // guards entropy
	entropy *ulid.MonotonicEntropy
}

// NewSource makes a source from a clock and a reader of random bytes (crypto/rand.Reader in the product).
func NewSource(now func() time.Time, random io.Reader) *Source {
	return &Source{now: now, entropy: ulid.Monotonic(random, 0)}
}

// New makes one id with the given prefix.
func (s *Source) New(p Prefix) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(p) + "_" + ulid.MustNew(ulid.Timestamp(s.now()), s.entropy).String()
}
