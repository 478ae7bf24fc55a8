package httpedge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
)

// upEndpointWait bounds the wait for the endpoint event (protocol.md section 7.2).
const upEndpointWait = 10 * time.Second

// upStream is the one stream of an HTTP+SSE link.
type upStream struct {
	resp   *http.Response
	events *sseReader
}

// openStream opens the stream of an HTTP+SSE server and learns where messages are POSTed. ctx bounds this start; the
// stream itself lives as long as the link.
func (l *upLink) openStream(ctx context.Context) error {
	life, cancel := context.WithCancelCause(l.life)
	late := time.AfterFunc(l.up.bounds.endpoint, func() {
		cancel(fmt.Errorf("no endpoint event within %s", l.up.bounds.endpoint))
	})
	defer late.Stop()
	left := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer left()
	err := l.meet(life)
	if err == nil && (!late.Stop() || !left()) {
		err = l.unreachable(context.Cause(life))
	}
	if err == nil {
		return nil // cancel belongs to the stream now and ends with l.life
	}
	if l.stream != nil {
		l.stream.resp.Body.Close()
	}
	if cause := context.Cause(life); cause != nil {
		err = l.unreachable(cause)
	}
	cancel(nil)
	return err
}

func (l *upLink) unreachable(cause error) error {
	return fault.New(fault.Unavailable, "upstream-unreachable").
		Saying("server %s gave no event stream at %s: %s", l.server, upShow(l.target), l.clean(upReason(cause), upMaxText)).
		Hinting("check the URL of the entry and that the server runs").Retrying(fault.AfterWait)
}

// meet does the GET and reads up to the endpoint event.
func (l *upLink) meet(ctx context.Context) error {
	resp, err := l.get(ctx, "") //nolint:bodyclose // the stream lives as long as the link, and ends with it
	if fault.KindOf(err) == fault.Unauthenticated {
		return err
	}
	if err != nil {
		return l.unreachable(err)
	}
	l.stream = &upStream{resp: resp, events: newSSEReader(resp.Body, l.up.bounds.body)}
	if !upIsStream(resp) {
		body, _, _ := upReadAll(resp.Body, upMaxErrorBody, resp.ContentLength) // whatever arrived is good enough to quote
		f := l.refusal(resp, body)
		kind := fault.Unavailable
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			kind = fault.Unauthenticated
		}
		return fault.New(kind, "upstream-refused").Saying("server %s gave no event stream: %s", l.server, l.clean(f.Text, upMaxText)).
			Hinting("check the URL, the transport and the headers of the entry").Retrying(fault.AfterFix)
	}
	for {
		ev, err := l.stream.events.Next()
		if err != nil {
			return l.unreachable(errors.New("the stream ended before the endpoint event: " + upEndText(err)))
		}
		if ev.Type != "endpoint" || ev.Partial {
			continue
		}
		to, err := resp.Request.URL.Parse(string(ev.Data))
		if err != nil || to.User != nil || !upSameOrigin(to, l.target) {
			return fault.New(fault.Denied, "upstream-endpoint-foreign").
				Saying("server %s names an endpoint outside its own origin", l.server).
				Hinting("messages and credentials go to the origin of the entry's URL only; put the right URL into the entry")
		}
		l.target = to
		l.hide = append(l.hide, upSecrets(to, nil)...)
		return nil
	}
}

// readStreamSoon starts to read the stream.
func (l *upLink) readStreamSoon() { l.work.Go(l.readSSE) }

// dropStream closes a stream that nobody has begun to read.
func (l *upLink) dropStream() {
	if l.stream != nil {
		l.stream.resp.Body.Close()
	}
}

// readSSE delivers what the stream brings. Its end is the end of the session: a new stream is a new session.
func (l *upLink) readSSE() {
	defer l.stream.resp.Body.Close()
	var at upCursor // the revision has no resumption
	_, err := l.readEvents(l.stream.events, &at, nil, nil)
	l.end(gateway.Exit{Reason: gateway.LinkLost, Text: "the event stream of the server broke: " + l.clean(upEndText(err), upMaxText)}, false)
}
