package gateway

import (
	"context"
	"fmt"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// Backend opens links to servers of one transport. Implemented by shim (stdio, supervised and direct) and by httpedge
// (Streamable HTTP of both eras, HTTP+SSE). A Backend does no MCP handshake: the lane sends initialize or
// server/discover over the link like any other message.
type Backend interface {
	// Open starts the process or prepares the connection. It returns when the link can take messages, or with a
	// *fault.Error that a user can act on (command not found, directory missing, URL unreachable). ctx bounds the
	// start only. Nothing is called on sink when Open fails; what is there already (a fast child, the stream of a session
	// that goes on) may be delivered before Open has returned.
	Open(ctx context.Context, o Open, sink Sink) (Link, error)
}

// Open says what to open. Values of variables and headers are resolved already; they must not be logged or stored.
type Open struct {
	Server    catalog.Server
	Lane      string            // key of the lane, for records and logs
	Env       []string          // stdio: NAME=value of the entry's bindings and passed variables, beside the allow-list
	Cwd       string            // stdio: absolute directory
	Headers   map[string]string // HTTP: header values of the entry's bindings
	Modern    bool              // HTTP: the link carries 2026-07-28 traffic (no session, no GET stream)
	Transport catalog.Transport // HTTP: streamable-http or sse, decided by the lane's probe; never auto
	Process   string            // stdio: digest of the definition (catalog), kept with the child: an adopter compares it
	Session   string            // HTTP: upstream session of an earlier daemon to go on with; "" begins with initialize
	Version   string            // HTTP: the revision that was negotiated for Session
}

// Link is one upstream connection: one child process, or one upstream HTTP session.
type Link interface {
	// Send hands over one whole message. It never waits for the peer: what cannot be written at once is queued. An
	// error means that the message was not and will not be sent.
	Send(m Outbound) error
	// Abort stops one request. True: nothing more has to be sent (the message was still queued and is now dropped, or
	// its own HTTP stream was closed). False: the caller must send notifications/cancelled itself.
	Abort(ref uint64) bool
	// Close ends the link and what is behind it: the terminate ladder for a process, DELETE for an HTTP session. It
	// returns at once; Sink.Closed follows when all is over. Safe to call twice.
	Close(reason string)
	// Detach leaves the link without ending a supervised child (daemon stop); other links are closed. It returns when
	// the link will touch nothing any more.
	Detach(ctx context.Context) error
	// Info is what status output shows; it never blocks.
	Info() LinkInfo
}

// Outbound is one message on its way to a backend.
type Outbound struct {
	Body    []byte            // one JSON-RPC object without a raw line feed; the link owns it
	Kind    rpc.Kind          // request, notification or response
	Ref     uint64            // the lane's number of this request, unique in the lane; 0 for other kinds
	Method  string            // "" for responses
	Version string            // HTTP: value of MCP-Protocol-Version; "" sends none
	Headers map[string]string // HTTP: Mcp-Method, Mcp-Name, Mcp-Param-*
	Tag     []byte            // kept with the supervisor's journal entry, at most 512 bytes
	Answers uint64            // responses to a request of the server: the Ref on whose stream that request came; 0 unknown
}

// Inbound is one message from a backend. The sink owns Body.
type Inbound struct {
	Body   []byte
	Via    uint64 // Ref of the request on whose own HTTP stream it came; 0 where the transport cannot tell
	Status int    // HTTP: status of the response that carried it; 0 elsewhere
}

// Sink takes what a link reports. No method may block. Methods may be called from several goroutines; after Closed
// nothing more is called.
type Sink interface {
	Deliver(in Inbound)
	// Written says that the request was handed to the peer completely: from now on it may have run.
	Written(ref uint64)
	// Failed says that one request will get no answer although the link lives (HTTP status without a JSON-RPC body,
	// broken stream, answer over the limit).
	Failed(ref uint64, f Failure)
	// Overlong says that stdio output of size bytes was discarded because it passed the line limit (protocol.md
	// section 7.6). id is the raw id of the answer it was, nil when it was none or its id could not be found; the call
	// with that id was answered and the answer is lost.
	Overlong(id []byte, size int64)
	// Stderr is output for the server's log: stderr, and skipped stdout lines marked "stdout: ".
	Stderr(chunk []byte)
	Closed(e Exit)
}

// Failure is why one request got no answer.
type Failure struct {
	Class  Class
	Status int           // HTTP status, 0 without one
	Wait   time.Duration // from Retry-After, 0 without one
	Text   string        // for people, redacted, at most 500 bytes
	Fix    bool          // it stays so until a person has done what Text says
	Gone   bool          // the upstream session is unknown: Closed follows, and the request may go to a new session
}

// Class says what became of a call that got no answer of its backend (protocol.md section 4).
type Class string

// The classes.
const (
	NotSent      Class = "not_sent"
	SentUnknown  Class = "sent_unknown"
	AnsweredLost Class = "answered_lost"
	TimedOut     Class = "timeout"
	Unavailable  Class = "unavailable"
	Busy         Class = "busy"
)

// ExitReason says why a link ended.
type ExitReason string

// The reasons of an Exit.
const (
	Exited         ExitReason = "exited"          // the child ended by itself
	SpawnFailed    ExitReason = "spawn_failed"    // the child never ran
	Terminated     ExitReason = "terminated"      // we ended it (Close)
	StdoutClosed   ExitReason = "stdout_closed"   // the child lives but closed stdout; it was ended
	SupervisorLost ExitReason = "supervisor_lost" // the supervisor died; exit status unknown
	LinkLost       ExitReason = "link_lost"       // HTTP: the session or its stream ended
	SessionGone    ExitReason = "session_gone"    // HTTP: 404 for the session id
	Detached       ExitReason = "detached"        // we left; the child goes on
)

// Exit is how a link ended.
type Exit struct {
	Reason ExitReason
	Code   int    // exit code, valid for Exited and Terminated when Signal is 0
	Signal int    // signal number, 0 for none
	Name   string // name of the signal, for example SIGKILL
	Text   string // what else is known (errno of a failed exec, HTTP error)
	Tail   []byte // last words on stderr, at most 2 KiB
}

// String is the one text for both process modes: "exited: code 3", "exited: signal 9 (SIGKILL)".
func (e Exit) String() string {
	switch {
	case e.Reason != Exited && e.Reason != Terminated:
		if e.Text != "" {
			return string(e.Reason) + ": " + e.Text
		}
		return string(e.Reason)
	case e.Signal != 0:
		return fmt.Sprintf("%s: signal %d (%s)", e.Reason, e.Signal, e.Name)
	}
	return fmt.Sprintf("%s: code %d", e.Reason, e.Code)
}

// Why is String and, of a child that we ended, the reason for that.
func (e Exit) Why() string {
	if e.Reason == Terminated && e.Text != "" {
		return fmt.Sprintf("%s (%s)", e, e.Text)
	}
	return e.String()
}

// LinkInfo is the state of a link for status output.
type LinkInfo struct {
	Pid        int       `json:"pid,omitempty"`             // child; 0 for HTTP
	Supervisor int       `json:"supervisor,omitempty"`      // supervisor process; 0 for direct children and HTTP
	Started    time.Time `json:"started,omitzero"`          // when the child was spawned or the link opened
	URL        string    `json:"url,omitempty"`             // HTTP
	Version    string    `json:"version,omitempty"`         // version of the supervisor
	Skipped    uint64    `json:"skipped_lines,omitempty"`   // output that was no message; of a supervised child up to 10 s old
	Session    string    `json:"-"`                         // HTTP: the upstream session, "" before the handshake; a secret
	Malformed  uint64    `json:"malformed_lines,omitempty"` // HTTP: what began like a message and was not JSON; of stdio see ServerStatus
}
