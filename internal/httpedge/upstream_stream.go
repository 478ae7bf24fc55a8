package httpedge

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

const (
	// upResumeTries bounds the attempts in a row to resume the stream of one call (protocol.md section 7.5). A new event
	// starts the count again: a server may let its clients poll for as long as the call runs.
	upResumeTries = 5
	// upLeastPause keeps a server that asks for no pause from being polled in a tight loop.
	upLeastPause = 100 * time.Millisecond
	// upFirstPause and upLastPause bound the pause before a stream is opened again.
	upFirstPause = time.Second
	upLastPause  = 30 * time.Second
	// upStandaloneTries is how often in a row the standalone stream is tried before it waits for a sign of life. A dead
	// server is not dialled for weeks because a session once existed there.
	upStandaloneTries = 10
)

var errUpTooLarge = errors.New(upTooLarge)

// upCursor is how far a stream was read.
type upCursor struct {
	last  string        // id of the last event that was taken, "" for none
	retry time.Duration // reconnection time that the server asked for, 0 for none
}

func (a *upCursor) take(ev sseEvent) {
	if ev.HasID {
		a.last = ev.ID
		if strings.ContainsFunc(ev.ID, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			a.last = "" // cannot go back as a header
		}
	}
	if ev.HasRetry {
		a.retry = max(ev.Retry, upLeastPause)
	}
}

// pause is the time before the n-th attempt in a row, counted from 1.
func (a *upCursor) pause(n int) time.Duration {
	first := upFirstPause
	if a.retry > 0 {
		first = a.retry
	}
	return max(first, min(first<<(n-1), upLastPause))
}

// readEvents delivers the messages of a stream until it ends, with io.EOF for a clean end. answer is called when the
// answer to c was among them; progress says that an event arrived. c is nil for a stream that belongs to no call.
func (l *upLink) readEvents(events *sseReader, at *upCursor, c *upCall, answer func()) (progress bool, err error) {
	via := uint64(0)
	if c != nil {
		via = c.m.Ref
	}
	for {
		ev, err := events.Next()
		if err != nil {
			return progress, err
		}
		if ev.TooLong {
			l.malformed.Add(1)
			switch {
			case ev.LostCall != nil: // a notification or a question: no call ends because of it
			case c != nil:
				return progress, errUpTooLarge
			case ev.LostID != nil:
				l.sink.Overlong(ev.LostID, ev.Size)
			}
		}
		if ev.HasData && !ev.TooLong && (ev.Type == "" || ev.Type == "message") {
			if l.deliverAll(c, rpc.OneLine(ev.Data), via, http.StatusOK) {
				answer()
			}
		}
		if !ev.Partial {
			progress = true
			at.take(ev)
		}
	}
}

// readPostStream reads the stream that answers a request, and resumes it as far as the protocol allows.
func (l *upLink) readPostStream(c *upCall, resp *http.Response) {
	var at upCursor
	var tail *time.Timer
	answered := func() {
		if tail == nil {
			tail = time.AfterFunc(upTailWait, c.cancel)
			l.release(c)
		}
	}
	defer func() {
		if tail != nil {
			tail.Stop()
		}
	}()
	_, err := l.readEvents(newSSEReader(resp.Body, l.up.bounds.body), &at, c, answered)
	resp.Body.Close()
	what := "broke before the answer: "
	for n := 1; tail == nil; n++ {
		lost := gateway.Failure{Class: gateway.SentUnknown, Status: resp.StatusCode}
		switch {
		case c.ctx.Err() != nil:
			l.lost(c, err)
			return
		case errors.Is(err, errUpTooLarge):
			lost.Class, lost.Text = gateway.AnsweredLost, upTooLarge
		case l.mode != upLegacy, at.last == "", n > upResumeTries:
			lost.Text = "the stream of the call " + what + upEndText(err)
		default:
			what = "broke and could not be resumed: "
			if !upPause(c.ctx, at.pause(n)) {
				continue // the first case ends it
			}
			var progress bool
			if progress, err = l.resume(c, &at, answered); progress {
				n = 0
			}
			continue
		}
		l.fail(c, lost)
		return
	}
}

// errUpNoStream says that the server has no such stream, which another attempt cannot change.
var errUpNoStream = errors.New("the server has no standalone stream")

// resume makes one attempt to go on with the stream of a call.
func (l *upLink) resume(c *upCall, at *upCursor, answered func()) (progress bool, err error) {
	resp, err := l.get(c.ctx, at.last)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch {
	case upIsStream(resp):
		return l.readEvents(newSSEReader(resp.Body, l.up.bounds.body), at, c, answered)
	case resp.StatusCode == http.StatusNotFound && c.session != "":
		l.gone()
	case !upPassing(resp.StatusCode):
		at.last = "" // makes this the last attempt
	}
	return false, errors.New("the server answered " + upStatus(resp.StatusCode))
}

// openStandalone opens the stream for messages that belong to no call, once.
func (l *upLink) openStandalone() {
	l.wantStream.Do(func() { l.work.Go(l.standalone) })
}

// awaitStandalone waits until the server has answered for the standalone stream: what the first call causes is said there, and
// nobody repeats it. A server that does not answer holds the calls back no longer than a cancellation.
func (l *upLink) awaitStandalone(c *upCall) {
	limit := time.NewTimer(upOrderWait)
	defer limit.Stop()
	select {
	case <-l.heard:
	case <-limit.C:
	case <-c.ctx.Done():
	}
}

// nudge tells a standalone stream that waits for a sign of life that there was one.
func (l *upLink) nudge() {
	select {
	case l.poke <- struct{}{}:
	default:
	}
}

// standalone keeps the GET stream of the session open until the link ends or the server has none.
func (l *upLink) standalone() {
	var at upCursor
	opened, failures := false, 0
	for l.life.Err() == nil {
		began := l.up.cfg.Now()
		progress, err := l.standaloneOnce(&at, &opened)
		if errors.Is(err, errUpNoStream) {
			return
		}
		if progress || l.up.cfg.Now().Sub(began) > upLastPause {
			failures = 0
		}
		failures++
		if failures > upStandaloneTries {
			failures = upStandaloneTries
			select { // an old token means nothing
			case <-l.poke:
			default:
			}
			select {
			case <-l.poke:
			case <-l.life.Done():
			}
		}
		upPause(l.life, at.pause(failures))
	}
}

// standaloneOnce opens the stream and reads it to its end. opened says whether it ever was open: a server without such
// a stream should say 405, but many routers say 404, which then is no word about the session.
func (l *upLink) standaloneOnce(at *upCursor, opened *bool) (progress bool, err error) {
	resp, err := l.get(l.life, at.last)
	l.beginHear.Do(func() { close(l.heard) })
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	session, _ := l.sessionNow()
	switch {
	case upIsStream(resp):
		*opened = true
		return l.readEvents(newSSEReader(resp.Body, l.up.bounds.body), at, nil, nil)
	case resp.StatusCode == http.StatusNotFound && *opened && session != "":
		l.gone()
	case resp.StatusCode == http.StatusBadRequest && at.last != "":
		at.last = "" // the server dropped the events; what was missed is missed
		return false, nil
	case upPassing(resp.StatusCode):
		at.retry = max(at.retry, upRetryAfter(resp, l.up.cfg.Now()))
		return false, errors.New("the server answered " + upStatus(resp.StatusCode))
	}
	return false, errUpNoStream
}

// get opens a stream.
func (l *upLink) get(ctx context.Context, last string) (*http.Response, error) {
	return l.do(l.up.streams, func() (*http.Request, error) {
		req, err := l.newRequest(ctx, http.MethodGet, nil)
		if err == nil && last != "" {
			req.Header.Set("Last-Event-Id", last)
		}
		return req, err
	})
}

func upIsStream(resp *http.Response) bool {
	return resp.StatusCode == http.StatusOK && upMediaType(resp) == "text/event-stream"
}

// upPassing says whether a status is one that passes.
func upPassing(status int) bool {
	return status/100 == 5 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// upPause waits; false when ctx ended first.
func upPause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func upEndText(err error) string {
	if errors.Is(err, io.EOF) {
		return "it ended"
	}
	return upReason(err)
}
