// Package store decides what one transaction can touch: it joins the Store ports of the domain packages into one
// port, with View for reading and Change for writing. It refuses to know SQL, files and drivers.
//
// Invariant: one Change is one durable commit over all its ports, or nothing.
package store

import (
	"context"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/operation"
	"mcpx/internal/page"
	"mcpx/internal/retention"
	"mcpx/internal/session"
	"mcpx/internal/workspace"
)

// DB is the transaction port. Its errors are *fault.Error.
type DB interface {
	// View runs fn on one snapshot: all reads of one call agree with each other.
	View(ctx context.Context, fn func(Reader) error) error
	// Change runs fn as the only writer and commits what it did, durably, before it returns nil. An error or a panic
	// of fn undoes what it did. ctx bounds the wait for the turn; once fn runs it is not interrupted. Changes that wait at
	// the same time may share a commit: fn never waits for another Change, nor for a lock that is held over one.
	Change(ctx context.Context, fn func(Tx) error) error
	// Changed is closed at the next Change that commits. Whoever takes it before reading misses nothing.
	Changed() <-chan struct{}
	// Stopped says why no Change happens any more, and nothing else is changed by what is stored; nil: it does.
	Stopped() error
	// Close waits for running transactions and frees the database.
	Close() error
}

// Reader is what a View can read.
type Reader interface {
	catalog.Reader
	catalog.CandidateReader
	catalog.PinReader
	catalog.OfferReader
	catalog.CredentialReader
	converge.Reader
	approval.Reader
	auth.Reader
	auth.DelegationReader
	event.Reader
	event.BodyReader
	operation.Reader
	operation.ResultReader
	operation.JobReader
	session.Reader
	workspace.Reader
	workspace.GenerationReader
	retention.Reader
	SessionReader
	MetaReader
}

// Tx is what a Change can read and write. It ends with the function it was given to.
type Tx interface {
	catalog.Store
	catalog.CandidateStore
	catalog.PinStore
	catalog.OfferStore
	catalog.CredentialStore
	converge.Store
	approval.Store
	auth.Store
	auth.DelegationStore
	event.Log
	event.BodyStore
	operation.Store
	operation.ResultStore
	operation.JobStore
	session.Store
	workspace.Store
	workspace.GenerationStore
	retention.Store
	Sessions
	Meta
}

// Epoch counts the starts of the daemon on one state directory. 0: never started.
type Epoch uint64

// MetaReader reads facts about the state as a whole.
type MetaReader interface {
	// Epoch is the epoch of the last start.
	Epoch(ctx context.Context) (Epoch, error)
}

// Meta changes facts about the state as a whole.
type Meta interface {
	MetaReader
	// RaiseEpoch adds one to the epoch and gives the new one. The daemon does it once, before it serves.
	RaiseEpoch(ctx context.Context) (Epoch, error)
}

// Session is one transport session of the legacy era as it must survive a restart of the daemon: enough to answer
// the client again and to restore its backend by a silent initialize.
type Session struct {
	ID        string    // as sent in Mcp-Session-Id; a secret of the client, never logged whole
	Server    string    // id of the catalog entry
	Principal string    // who opened it; nobody else may use it
	Agent     string    // "" unknown
	Workspace string    // canonical root, "" unknown
	Instance  string    // which mcpx connect, "" for HTTP
	Version   string    // negotiated protocol revision
	Lane      string    // key of its lane
	Initial   []byte    // the client's initialize request, raw
	Answer    []byte    // the answer that the client was given, raw
	Setup     []byte    // what the session has set up since then; the business of the gateway
	Created   time.Time // cut to microseconds
	Seq       uint64    // order of creation, given by the store at the first put
}

// MaxSessionPage bounds one page of Sessions: two raw initialize bodies of up to some KiB each.
const MaxSessionPage = 200

// SessionReader reads the stored transport sessions.
type SessionReader interface {
	// Sessions is one page in order of creation. A page that is shorter than the limit is the last one.
	Sessions(ctx context.Context, p ListSessions) ([]Session, error)
}

// Sessions reads and changes the stored transport sessions.
type Sessions interface {
	SessionReader
	// PutSession writes a session whole, new or in place of the one with the same id; Seq and Created stay those of
	// the first put. NotFound server-unknown when its server is not in the catalog.
	PutSession(ctx context.Context, p PutSession) error
	// DeleteSession removes a session. Removing one that is not there is no error: a DELETE may race with the expiry.
	DeleteSession(ctx context.Context, p DeleteSession) error
}

// ListSessions asks for the sessions created after After, of one server or of all.
type ListSessions struct {
	Server string // id of the catalog entry; "" is all
	After  uint64 // Seq of the last session of the page before
	Limit  int    // 0 and everything above MaxSessionPage is MaxSessionPage
}

// PageLimit is the number of sessions that the page may hold.
func (p ListSessions) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxSessionPage {
		return MaxSessionPage
	}
	return p.Limit
}

// PutSession carries the session to write.
type PutSession struct{ Session Session }

// DeleteSession names the session to remove.
type DeleteSession struct{ ID string }

// AllSessions reads every session, page by page, in order of creation.
func AllSessions(ctx context.Context, r SessionReader) ([]Session, error) {
	return page.All(MaxSessionPage, func(last *Session) ([]Session, error) {
		var list ListSessions
		if last != nil {
			list.After = last.Seq
		}
		return r.Sessions(ctx, list)
	})
}

// CutTime is a time as every store keeps it: UTC, whole microseconds, the zero time unchanged. All databases that the
// ports are meant for can hold exactly this.
func CutTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
