// Package fault decides how an error is described: a kind for machines, a code for documents, a message for people,
// a hint for the next step and a retry advice. It knows no HTTP status, JSON-RPC code or exit number: each edge owns
// one table from Kind to its own codes.
//
// Invariant: a Kind is never renamed or removed; the list only grows.
package fault

import (
	"errors"
	"fmt"
)

// Kind says what sort of failure this is. The list is closed and append-only.
type Kind string

// The kinds, as in the error table of the architecture document.
const (
	Invalid         Kind = "invalid"         // can never work as written
	Unauthenticated Kind = "unauthenticated" // no valid credential
	Denied          Kind = "denied"          // not allowed
	NeedsApproval   Kind = "needs-approval"  // recorded; waits for a person
	NotFound        Kind = "not-found"       // no such thing for this principal
	Conflict        Kind = "conflict"        // the present state forbids it
	Stale           Kind = "stale"           // made against something that changed since
	Busy            Kind = "busy"            // later, with a wait
	Unavailable     Kind = "unavailable"     // not now
	UnknownOutcome  Kind = "unknown-outcome" // it may have happened; never repeated
	Canceled        Kind = "canceled"        // the caller left before dispatch
	Internal        Kind = "internal"        // our bug
)

// Retry says what a caller may do next with the same request.
type Retry string

// The retry advices.
const (
	Never     Retry = "never"
	SameID    Retry = "same_id"
	AfterWait Retry = "after_wait"
	AfterFix  Retry = "after_fix"
	NewID     Retry = "new_id"
)

// Error is one failure, written once where its cause is known.
type Error struct {
	Kind    Kind
	Code    string // one entry of docs/errors.md, for example "server-unknown"
	Message string
	Hint    string
	Retry   Retry
	cause   error
}

// New starts an error of the given kind and code.
func New(kind Kind, code string) *Error { return &Error{Kind: kind, Code: code, Message: code} }

// Saying sets the message for people.
func (e *Error) Saying(format string, args ...any) *Error {
	e.Message = fmt.Sprintf(format, args...)
	return e
}

// Hinting sets the next step.
func (e *Error) Hinting(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Retrying sets the retry advice.
func (e *Error) Retrying(r Retry) *Error {
	e.Retry = r
	return e
}

// Because records the cause; it is part of the error chain and not of the message.
func (e *Error) Because(err error) *Error {
	e.cause = err
	return e
}

// Error is the message, followed by the cause when there is one.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.cause }

// From finds the *Error in a chain. An error of another type is our bug, so it becomes kind Internal; nil stays nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return New(Internal, "internal").Saying("internal error").Because(err)
}

// KindOf is the kind of the error in the chain, or "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return From(err).Kind
}
