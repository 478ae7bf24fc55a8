package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// again is the pause of a client between two attempts to reach the daemon.
const again = 10 * time.Millisecond

// Outcome is how one call ended for its client.
type Outcome struct {
	// Class is "answer" for a result, data.mcpx.class for an error of the gateway, "error" for an error of the server,
	// and "broken" for a call of a modern client whose connection ended: it cannot be resumed.
	Class   string
	Body    []byte // the response; nil for "broken"
	Resumes int    // how often the stream was continued
}

// Persist makes one call as a client does that knows its protocol: while no daemon listens it waits, a request that was
// surely not sent is sent again, and the stream of a legacy session is resumed with Last-Event-ID, or from the start when
// no event id was received. The error is a promise that was broken: a lost session, a refused resume, no end within ctx.
func (c *Client) Persist(ctx context.Context, id, body string) (Outcome, error) {
	r := resumable{c: c, id: id, cursor: "r" + base64.RawURLEncoding.EncodeToString([]byte(id)) + ".0.0"}
	for {
		sent, err := r.post(ctx, body)
		if err != nil || r.answer != nil {
			return r.outcome(), err
		}
		if sent {
			break
		}
		if err := sleep(ctx); err != nil {
			return Outcome{}, fmt.Errorf("no daemon for call %s: %w", id, err)
		}
	}
	if c.Session == "" {
		return Outcome{Class: "broken"}, nil
	}
	for {
		if err := sleep(ctx); err != nil {
			return Outcome{}, fmt.Errorf("call %s has no end after %d resumes: %w", id, r.resumes, err)
		}
		if err := r.resume(ctx); err != nil || r.answer != nil {
			return r.outcome(), err
		}
	}
}

func sleep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(again):
		return nil
	}
}

// resumable is one call and where its stream is.
type resumable struct {
	c       *Client
	id      string
	cursor  string // the last event id
	resumes int
	answer  []byte
}

func (r *resumable) outcome() Outcome {
	if r.answer == nil {
		return Outcome{}
	}
	return Outcome{Class: ClassOf(r.answer), Body: r.answer, Resumes: r.resumes}
}

// ClassOf is the class of a response; see Outcome.
func ClassOf(response []byte) string {
	var m struct {
		Result json.RawMessage
		Error  *struct {
			Data struct{ Mcpx struct{ Class string } }
		}
	}
	if json.Unmarshal(response, &m) != nil {
		return "malformed"
	}
	switch {
	case m.Error == nil && m.Result != nil:
		return "answer"
	case m.Error != nil && m.Error.Data.Mcpx.Class != "":
		return m.Error.Data.Mcpx.Class
	}
	return "error"
}

// post sends the request. sent: it may have arrived; false proves that it did not.
func (r *resumable) post(ctx context.Context, body string) (sent bool, err error) {
	resp, err := r.c.send(ctx, http.MethodPost, body)
	if err != nil {
		op, ok := errors.AsType[*net.OpError](err)
		return !ok || op.Op != "dial", nil //nolint:nilerr // a connection that broke is what this is about
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return true, r.read(resp)
	case http.StatusServiceUnavailable:
		return false, nil
	}
	return true, refused(resp, "POST of call "+r.id)
}

func (r *resumable) resume(ctx context.Context) error {
	header := r.c.Header
	one := *r.c
	one.Header = header.Clone()
	one.Header.Set("Last-Event-ID", r.cursor)
	resp, err := one.send(ctx, http.MethodGet, "")
	if err != nil {
		return nil //nolint:nilerr // no daemon yet
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		r.resumes++
		return r.read(resp)
	case http.StatusServiceUnavailable:
		return nil
	}
	return refused(resp, "GET of call "+r.id+" after "+r.cursor)
}

func refused(resp *http.Response, what string) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what there is
	return fmt.Errorf("%s: HTTP %d: %s", what, resp.StatusCode, body)
}

// read takes messages until the answer, or until the connection breaks.
func (r *resumable) read(resp *http.Response) error {
	if !isStream(resp) {
		body, err := io.ReadAll(resp.Body)
		if err == nil && len(body) > 0 {
			return r.take(body)
		}
		return nil //nolint:nilerr // it broke
	}
	lines := bufio.NewReader(resp.Body)
	var data []byte
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // it broke
		}
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && len(data) > 0:
			if err := r.take(data); err != nil || r.answer != nil {
				return err
			}
			data = nil
		case string(field) == "data":
			data = append(data, value...)
		case string(field) == "id": // counts with the whole event; a cut one is sent again
			r.cursor = string(value)
		}
	}
}

// take looks whether a message is the answer. Any other response on this stream belongs to somebody else.
func (r *resumable) take(message []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(message, &m); err != nil {
		return fmt.Errorf("call %s: no message: %.200s", r.id, message)
	}
	if m["method"] != nil {
		return nil
	}
	if string(m["id"]) != r.id {
		return fmt.Errorf("call %s got the answer of %s: %.200s", r.id, m["id"], message)
	}
	r.answer = bytes.Clone(message)
	return nil
}
