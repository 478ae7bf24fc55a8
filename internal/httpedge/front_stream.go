package httpedge

import (
	"net/http"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// Times of response streams (protocol.md section 3.4).
const (
	// quiet is the silence after which an open stream carries a comment.
	quiet = 15 * time.Second
	// writeFor is how long one write may take.
	writeFor = time.Minute
	// retryMS is the reconnection time that clients are told, in milliseconds.
	retryMS = "1000"
)

// view is one response to a client: plain JSON, or a stream of server-sent events.
type view struct {
	w      http.ResponseWriter
	r      *http.Request
	asJSON bool
	asSSE  bool
	srv    *gateway.Server
	f      *Front
	body   []byte // of a POST, on one line
	msg    rpc.Message
}

// once answers with one message that is there already.
func (v view) once(body []byte) {
	if v.asJSON {
		writeJSON(v.w, http.StatusOK, body)
		return
	}
	v.head()
	_, _ = v.w.Write(AppendEvent(nil, "", body)) // a client that left needs no answer
}

// modern answers a request of 2026-07-28: JSON when the response comes first, a stream from the first notification.
// A client that leaves cancels the request.
func (v view) modern(st *gateway.Stream) {
	reader := st.Follow()
	defer reader.Stop()
	e, state := v.first(reader, &v.srv.Quiet)
	have := state == gateway.ReadEvent
	if have && e.Final && v.asJSON {
		writeJSON(v.w, e.Status, e.Data)
		reader.Delivered()
		return
	}
	if !have && v.r.Context().Err() != nil {
		st.Gone()
		return
	}
	out := &streamView{v: v, reader: reader, moved: v.pending(nil, st)}
	if state == gateway.ReadMoved {
		v.moved(out.moved, out)
		return
	}
	if !v.stream(out, e, have) {
		st.Gone()
	}
}

// legacy answers a request of a session. A client that leaves cancels nothing: the stream stays for a resume.
func (v view) legacy(x *gateway.Session, st *gateway.Stream, id []byte) {
	x.Opened()
	defer x.Done()
	reader := st.Follow()
	defer reader.Stop()
	wait := &v.srv.Early
	if !v.asJSON {
		wait = nil
	}
	e, state := v.first(reader, wait)
	have := state == gateway.ReadEvent
	if v.r.Context().Err() != nil {
		x.Promote(st, id) // its client has seen no event id, but can ask for the request by its own
		return
	}
	if have && e.Final && v.asJSON {
		writeJSON(v.w, e.Status, e.Data)
		reader.Delivered()
		return
	}
	out := &streamView{v: v, reader: reader, moved: v.pending(x, st)}
	if state == gateway.ReadMoved {
		if x.Version >= era.V20250326 {
			out.name = "r"
		}
		v.moved(out.moved, out)
		return
	}
	if x.Version >= era.V20250326 {
		x.Promote(st, id)
		out.name, out.epoch = st.ID, x.Epoch()
		out.prime = x.Version >= era.V20251125
	}
	if !v.stream(out, e, have) && out.name == "" {
		x.Promote(st, id)
	}
}

// follow writes a standalone or resumed stream of a session until the client leaves or the stream ends. To a client that
// has all of it already it says 204, with which the standard of event streams ends reconnection: clients of the SDK take
// no error for the response, come back for it, and take a stream that only ends for a standalone one to open again.
func (v view) follow(x *gateway.Session, name string, reader *gateway.Reader) {
	x.Opened()
	defer x.Done()
	defer reader.Stop()
	out := &streamView{v: v, reader: reader}
	if x.Version >= era.V20250326 {
		out.name, out.epoch = name, x.Epoch()
		// A client that came back and then heard nothing has no other cursor: some forget the one they came with.
		out.prime, out.at = x.Version >= era.V20251125, reader.At()
	}
	e, state := reader.Next()
	if state == gateway.ReadEnd && reader.Whole() {
		v.w.WriteHeader(http.StatusNoContent)
		return
	}
	v.stream(out, e, state == gateway.ReadEvent)
}

// first waits for the first event: with ReadEvent it is there. ReadWait says that there is none yet and the wait is over, or
// the client left. A client that takes only JSON waits for the response itself and gets nothing else.
func (v view) first(reader *gateway.Reader, wait *gateway.Lulls) (gateway.Event, gateway.ReadState) {
	e, state := reader.Next()
	if wait == nil {
		return e, state
	}
	var timeout <-chan struct{} // a client that takes only JSON waits for the response, however long
	if v.asSSE && state == gateway.ReadWait {
		l := wait.Begin()
		defer l.End()
		timeout = l.Over()
	}
	for {
		switch state {
		case gateway.ReadEvent:
			if e.Final || v.asSSE {
				return e, state
			}
		case gateway.ReadEnd, gateway.ReadMissed, gateway.ReadMoved:
			return gateway.Event{}, state
		case gateway.ReadWait:
			select {
			case <-reader.Wake():
			case <-reader.Moved():
			case <-timeout:
				return gateway.Event{}, state
			case <-v.r.Context().Done():
				return gateway.Event{}, state
			}
		}
		e, state = reader.Next()
	}
}

// streamView is one stream of server-sent events on the wire.
type streamView struct {
	v      view
	reader *gateway.Reader
	name   string // event-id prefix, "" sends no ids
	epoch  uint64
	prime  bool     // the stream begins with an id of its own (2025-11-25: older clients parse the empty data and fail)
	at     uint64   // seq of that id
	begun  bool     // the head is out
	moved  *pending // the request of the stream, for the case that its server moves; nil: a stream that then ends
}

// write sends a piece of the stream, with its head when that is not out, and flushes it.
func (s *streamView) write(piece []byte) bool {
	if !s.begun {
		s.v.head()
		s.begun = true
	}
	flush := http.NewResponseController(s.v.w)
	// A client that stopped reading and keeps its connection must not hold the stream for ever. Where the deadline
	// cannot be set the write simply waits.
	_ = flush.SetWriteDeadline(time.Now().Add(writeFor))
	defer func() { _ = flush.SetWriteDeadline(time.Time{}) }() // the connection serves further requests
	if len(piece) > 0 {
		if _, err := s.v.w.Write(piece); err != nil {
			return false
		}
	}
	return flush.Flush() == nil
}

// head starts a stream of events.
func (v view) head() {
	h := v.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	v.w.WriteHeader(http.StatusOK)
}

// stream writes events until the response is out, the stream ends or the client leaves. It reports false when the
// client left first. Each message is flushed when it arrives; what is there already goes out in one piece.
func (v view) stream(out *streamView, e gateway.Event, have bool) bool {
	v.head()
	out.begun = true
	flush := http.NewResponseController(v.w)
	defer func() { _ = flush.SetWriteDeadline(time.Time{}) }() // the connection serves further requests
	var buf []byte
	if out.prime {
		buf = append(buf, "id: "+gateway.EventID(out.name, out.epoch, out.at)+out.reader.Stamp()+"\nretry: "+retryMS+"\ndata: \n\n"...)
	}
	send := func() bool {
		// A client that stopped reading and keeps its connection must not hold the stream for ever. Where the deadline
		// cannot be set the write simply waits.
		_ = flush.SetWriteDeadline(time.Now().Add(writeFor))
		if len(buf) > 0 {
			if _, err := v.w.Write(buf); err != nil {
				return false
			}
			buf = buf[:0]
		}
		return flush.Flush() == nil
	}
	if have {
		buf = out.append(buf, e)
		if e.Final {
			return send() && out.reader.Delivered()
		}
	}
	if !send() {
		return false
	}
	silence := time.NewTimer(quiet)
	defer silence.Stop()
	for {
		e, state := out.reader.Next()
		switch state {
		case gateway.ReadEvent:
			buf = out.append(buf, e)
			if e.Final {
				return send() && out.reader.Delivered()
			}
			if len(buf) > 64<<10 && !send() {
				return false
			}
			continue
		case gateway.ReadEnd:
			send()
			return true
		case gateway.ReadMissed:
			return false // too slow: the client lost its stream, and nobody else anything
		case gateway.ReadMoved:
			return send() && (out.moved == nil || v.moved(out.moved, out))
		case gateway.ReadWait:
		}
		if len(buf) > 0 {
			if !send() {
				return false
			}
			silence.Reset(quiet)
		}
		select {
		case <-out.reader.Wake():
		case <-out.reader.Moved():
		case <-silence.C:
			buf = append(buf, ": still here\n\n"...)
			if !send() {
				return false
			}
			silence.Reset(quiet)
		case <-v.r.Context().Done():
			return false
		}
	}
}

func (s *streamView) append(dst []byte, e gateway.Event) []byte {
	id := ""
	if s.name != "" {
		id = gateway.EventID(s.name, s.epoch, e.Seq) + s.reader.Stamp()
	}
	return AppendEvent(dst, id, e.Data)
}
