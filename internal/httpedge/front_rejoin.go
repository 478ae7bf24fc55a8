package httpedge

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

const (
	// rejoinFor is how long the next daemon may fail to answer before a client is told that the outcome is unknown.
	rejoinFor = time.Minute
	// rejoinPause is the pause before the next try.
	rejoinPause = 50 * time.Millisecond
	// promiseAfter is how long a client of a session waits at most for a sign of its stream.
	promiseAfter = 250 * time.Millisecond
	// rejoinLimit bounds one message that is copied from the next daemon; it is larger than any it would send.
	rejoinLimit = 1 << 30
)

// pending is a request that was in flight when its server went to the next daemon. The rest of its answer is there.
type pending struct {
	v       view
	body    []byte // the request as it came, on one line
	id      []byte // raw
	method  string
	session *gateway.Session // nil for a modern client
	st      *gateway.Stream
	asSSE   bool // messages before the response are wanted

	last   string          // event id of the last message, "" before the first
	anew   bool            // the request is to be sent as a new one: it had not reached the server
	resent bool            // it was
	asked  map[string]bool // questions that the client has seen; the next daemon repeats them
	own    bool            // a request of the gateway itself: its headers are all meant
}

// pending is what is known of a request when its server moved.
func (v view) pending(x *gateway.Session, st *gateway.Stream) *pending {
	return &pending{v: v, body: v.body, id: v.msg.ID.Of(v.body), method: v.msg.MethodOf(v.body), session: x, st: st, asSSE: v.asSSE}
}

// Rest is the response to a request of the gateway itself that was in flight when its server went to the next daemon; nil
// when ctx ended first. The request is one of 2026-07-28.
func (f *Front) Rest(ctx context.Context, srv *gateway.Server, st *gateway.Stream, body []byte) []byte {
	m, err := rpc.Scan(body)
	if err != nil {
		return srv.Unknown(nil, "", err.Error())
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://mcpx/servers/"+srv.Name()+"/mcp", nil)
	if err != nil {
		return srv.Unknown(m.ID.Of(body), m.MethodOf(body), err.Error())
	}
	r.Header.Set(hdrVersion, era.V20260728)
	r.Header.Set(hdrStdio, "1") // nobody has computed headers from the parameters
	for name, value := range era.HeadersFor(body, m, nil) {
		r.Header.Set(name, value)
	}
	v := view{r: r, srv: srv, f: f, body: body, msg: m, asJSON: true}
	var last []byte
	p := v.pending(nil, st)
	p.own = true
	p.rest(ctx, func(one piece) bool {
		if one.final {
			last = one.data
		}
		return !one.final
	})
	return last
}

// piece is one message of the rest.
type piece struct {
	id     string // of the event
	data   []byte
	final  bool
	status int // HTTP status of a final one that is answered as JSON
}

// errQuiet is what copying ends with when the next daemon ended its stream before the response.
var errQuiet = errors.New("the stream ended early")

// rest gives emit the messages that the next daemon has for the request, the response last. It ends early when emit
// says so or ctx is done; a response there is in any other case.
func (p *pending) rest(ctx context.Context, emit func(piece) bool) {
	p.anew, p.asked = !p.st.Sent() || p.isListen(), p.st.Asked()
	giveUp := time.Now().Add(rejoinFor)
	for {
		before := p.last
		done, err := p.once(ctx, emit)
		if done || ctx.Err() != nil {
			return
		}
		if p.last != before {
			giveUp = time.Now().Add(rejoinFor)
		}
		if time.Now().After(giveUp) {
			text := "mcpx restarted, and what became of the call is not known"
			if err != nil {
				text += ": " + err.Error()
			}
			emit(p.unknown(text))
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(rejoinPause):
		}
	}
}

func (p *pending) unknown(text string) piece {
	return piece{data: p.v.srv.Unknown(p.id, p.method, text), final: true, status: http.StatusOK}
}

// once asks the next daemon one time. True: the response was given, or emit wants no more.
func (p *pending) once(ctx context.Context, emit func(piece) bool) (bool, error) {
	req, err := p.request(ctx)
	if err != nil {
		return false, err
	}
	res, err := p.v.f.cfg.Gate.next.Do(req)
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return false, err
	}
	fresh, resent := p.anew, p.resent
	if p.anew && !p.isListen() {
		p.anew, p.resent = false, true // it may have reached the server now
	}
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusServiceUnavailable {
		p.anew, p.resent = fresh, resent // refused before it was taken
	}
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return p.copy(res.Body, emit)
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, rejoinLimit))
	if err != nil {
		return false, err
	}
	return p.plain(req.Method, res.StatusCode, data, emit)
}

func (p *pending) isListen() bool { return p.session == nil && p.method == "subscriptions/listen" }

// request is a GET for the rest of the stream, or the POST once more: with the id of the request in flight, or as a new
// one when it never reached the server.
func (p *pending) request(ctx context.Context) (*http.Request, error) {
	method, body := http.MethodPost, io.Reader(bytes.NewReader(p.body))
	again := p.session != nil && !p.anew
	if again {
		method, body = http.MethodGet, nil
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://mcpx"+p.v.r.URL.Path, body)
	if err != nil {
		return nil, err
	}
	unix := p.own || fromUnix(p.v.r)
	for name, values := range p.v.r.Header {
		if name == "Authorization" || strings.HasPrefix(name, "Mcp-") || unix && strings.HasPrefix(name, "Mcpx-") {
			req.Header[name] = values
		}
	}
	switch {
	case again:
		if !p.resent {
			req.Header.Set(hdrRelayed, relayAsks)
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set(hdrLastEvent, p.last)
		if p.last == "" {
			req.Header.Set(hdrLastEvent, p.anyEpoch())
		}
		return req, nil
	case p.asSSE:
		req.Header.Set("Accept", "application/json, text/event-stream")
	default:
		req.Header.Set("Accept", "application/json")
	}
	req.Header.Set("Content-Type", "application/json")
	if p.session != nil {
		req.Header.Set(hdrRelayed, "1") // this process may be gone before its client has the answer
	}
	if p.session == nil && !p.anew {
		req.Header.Set(hdrRejoin, string(p.st.Wire()))
	}
	return req, nil
}

// anyEpoch is the event id of the beginning of the request's stream, whatever daemon served it.
func (p *pending) anyEpoch() string {
	return gateway.EventID("r"+base64.RawURLEncoding.EncodeToString(p.id), 0, 0)
}

// copy reads a stream of the next daemon.
func (p *pending) copy(body io.Reader, emit func(piece) bool) (bool, error) {
	events := newSSEReader(body, rejoinLimit)
	for {
		ev, err := events.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errQuiet
			}
			return false, err
		}
		if ev.Partial || ev.TooLong {
			continue
		}
		if ev.HasID {
			p.last = ev.ID
		}
		if len(ev.Data) == 0 {
			continue
		}
		one := piece{id: ev.ID, data: rpc.OneLine(ev.Data), status: http.StatusOK}
		m, err := rpc.Scan(one.data)
		if err != nil {
			return false, err
		}
		if p.seen(one.data, m) {
			continue
		}
		if m.Kind == rpc.Result || m.Kind == rpc.Error {
			one.final = bytes.Equal(m.ID.Of(one.data), p.id)
		}
		if one.final {
			if p.session == nil {
				one.status = era.ModernStatus(era.CodeOf(one.data, m))
			}
			if p.mayRepeat(one.data, m) {
				return false, nil
			}
		} else if p.isListen() && m.Kind == rpc.Notification && m.MethodOf(one.data) == "notifications/subscriptions/acknowledged" {
			continue // its client knows
		}
		if !emit(one) || one.final {
			return true, nil
		}
	}
}

// seen reports whether the message is a question that its client was shown before; a question is shown once.
func (p *pending) seen(data []byte, m rpc.Message) bool {
	if m.Kind != rpc.Request {
		return false
	}
	idKey, ok := rpc.IDKey(m.ID.Of(data))
	if !ok || p.asked[idKey] {
		return ok
	}
	p.asked[idKey] = true
	return false
}

// plain takes an answer that is one message.
func (p *pending) plain(method string, status int, data []byte, emit func(piece) bool) (bool, error) {
	m, err := rpc.Scan(data)
	if err != nil {
		return false, err
	}
	switch {
	case status == http.StatusServiceUnavailable:
		return false, errQuiet
	case status == http.StatusGone || status == http.StatusBadRequest && method == http.MethodGet:
		// The next daemon knows of no such request.
		emit(p.unknown("mcpx restarted, and the next daemon does not know the call"))
		return true, nil
	case p.mayRepeat(data, m):
		return false, nil
	case !m.ID.Ok():
		data = rpc.ErrorResponse(p.id, era.CodeOf(data, m), p.message(data, m), nil)
	}
	emit(piece{data: rpc.OneLine(data), final: true, status: status})
	return true, nil
}

func (p *pending) message(data []byte, m rpc.Message) string {
	text, _ := rpc.Unquote(rpc.Find(data, m.Error, "message").Of(data))
	return text
}

// mayRepeat reports whether an answer says that the request never reached the server, so that it is sent anew, once.
func (p *pending) mayRepeat(data []byte, m rpc.Message) bool {
	if p.resent || m.Kind != rpc.Error || !gateway.IsNotSent(m.Code.Of(data)) {
		return false
	}
	p.anew, p.last = true, ""
	return true
}

// moved writes the rest of an answer whose server went to the next daemon. It reports false when the client left.
func (v view) moved(p *pending, out *streamView) bool {
	ctx, cancel := context.WithCancel(v.r.Context())
	defer cancel()
	pieces := make(chan piece)
	go func() {
		defer close(pieces)
		p.rest(ctx, func(one piece) bool {
			select {
			case pieces <- one:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	defer func() {
		cancel()
		for range pieces { // until the goroutine has ended
		}
	}()
	wait := quiet
	if !out.begun && p.session != nil {
		wait = promiseAfter
	}
	silence := time.NewTimer(wait)
	defer silence.Stop()
	for {
		select {
		case one, ok := <-pieces:
			switch {
			case !ok:
				return false
			case one.final && !out.begun && v.asJSON:
				writeJSON(v.w, one.status, one.data)
				return true
			case !one.final && !v.asSSE:
				continue
			}
			id := ""
			if out.name != "" {
				id = one.id
			}
			if !out.write(AppendEvent(nil, id, one.data)) {
				return false
			}
			if one.final {
				return true
			}
		case <-silence.C:
			word := ": still here\n\n"
			if !out.begun && p.session != nil && p.session.Version >= era.V20251125 {
				word = "id: " + p.anyEpoch() + "\nretry: " + retryMS + "\ndata: \n\n" // what to come back with
			}
			if v.asSSE && !out.write([]byte(word)) {
				return false
			}
		case <-v.r.Context().Done():
			return false
		}
		silence.Reset(quiet)
	}
}

// fromUnix says whether the request came over the unix socket.
func fromUnix(r *http.Request) bool {
	peer, _ := r.Context().Value(connKey{}).(*connPeer)
	return peer != nil && peer.unix
}
