package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answerWithin is the deadline of one exchange; no call of a test may take longer without saying so.
const answerWithin = 30 * time.Second

// Client posts raw bodies to one endpoint. With a Session it is a legacy client, without one a modern client sends its
// metadata in each body.
type Client struct {
	t          testing.TB
	URL        string
	Session    string
	Version    string // value of MCP-Protocol-Version; "" sends none
	Initialize Reply  // the whole answer to initialize, set by Open
	Within     time.Duration
	Header     http.Header // sent with every request
	http       *http.Client
}

// NewClient is a client without a session.
func NewClient(t testing.TB, url string) *Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &Client{t: t, URL: url, Within: answerWithin, Header: http.Header{"X-Rig-Token": {Canary + "header"}}, http: &http.Client{Transport: transport}}
}

// Over lets the client travel over another HTTP client, one that trusts a certificate.
func (c *Client) Over(h *http.Client) { c.http = h }

// On is the same client in a subtest: its failures are the subtest's.
func (c *Client) On(t testing.TB) *Client {
	other := *c
	other.t = t
	return &other
}

// Open initialises a legacy session of the given version; capabilities is the raw object that the client declares.
func Open(t testing.TB, url, version, capabilities string) *Client {
	t.Helper()
	c := NewClient(t, url)
	reply := c.Post(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":%s,"clientInfo":{"name":"rig","version":"1"}}}`, version, capabilities))
	if reply.Status != http.StatusOK {
		t.Fatalf("initialize: HTTP %d\n%s", reply.Status, reply.Body)
	}
	var answer struct {
		Result struct {
			ProtocolVersion string
		}
		Error json.RawMessage
	}
	if err := json.Unmarshal(reply.Answer(t), &answer); err != nil || answer.Error != nil {
		t.Fatalf("initialize: %v\n%s", err, reply.Body)
	}
	c.Session, c.Version = reply.Header.Get("Mcp-Session-Id"), answer.Result.ProtocolVersion
	c.Initialize = reply
	if r := c.Post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.Status != http.StatusAccepted {
		t.Fatalf("notifications/initialized: HTTP %d\n%s", r.Status, r.Body)
	}
	return c
}

// Reply is one whole HTTP answer.
type Reply struct {
	Status   int
	Header   http.Header
	Body     []byte   // as it came
	Messages [][]byte // the JSON body, or the data of each event that has any
	IDs      []string // the event id of each message, "" without one
}

// Answer is the last message: the response.
func (r Reply) Answer(t testing.TB) []byte {
	t.Helper()
	if len(r.Messages) == 0 {
		t.Fatalf("no message in the answer: HTTP %d\n%s", r.Status, r.Body)
	}
	return r.Messages[len(r.Messages)-1]
}

// Post sends one body and reads the answer to its end.
func (c *Client) Post(body string) Reply {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), c.Within)
	defer stop()
	reply, err := c.Try(ctx, body)
	if err != nil {
		c.t.Fatalf("POST %.200s: %v", body, err)
	}
	return reply
}

// Try is Post without a judgement: for calls whose transport may break.
func (c *Client) Try(ctx context.Context, body string) (Reply, error) {
	resp, err := c.send(ctx, http.MethodPost, body)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	reply := Reply{Status: resp.StatusCode, Header: resp.Header}
	reply.Body, err = io.ReadAll(resp.Body)
	if err != nil {
		return reply, err
	}
	if isStream(resp) {
		events := bufio.NewReader(bytes.NewReader(reply.Body))
		for {
			e, err := readEvent(events)
			if err != nil {
				break
			}
			reply.Messages, reply.IDs = append(reply.Messages, e.Data), append(reply.IDs, e.ID)
		}
	} else if len(reply.Body) > 0 {
		reply.Messages, reply.IDs = [][]byte{reply.Body}, []string{""}
	}
	return reply, nil
}

func isStream(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

func (c *Client) send(ctx context.Context, method, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Session != "" {
		req.Header.Set("Mcp-Session-Id", c.Session)
	}
	if c.Version != "" {
		req.Header.Set("MCP-Protocol-Version", c.Version)
	}
	modernHeaders(req.Header, body)
	maps.Copy(req.Header, c.Header)
	return c.http.Do(req)
}

// modernHeaders mirrors the body of a modern request, as clients must. Members are looked up in maps: decoding into a
// struct would take "Method" for method.
func modernHeaders(h http.Header, body string) {
	var top, params, meta map[string]json.RawMessage
	if json.Unmarshal([]byte(body), &top) != nil || json.Unmarshal(top["params"], &params) != nil ||
		json.Unmarshal(params["_meta"], &meta) != nil || meta["io.modelcontextprotocol/protocolVersion"] == nil {
		return
	}
	h.Set("MCP-Protocol-Version", "2026-07-28")
	h.Set("Mcp-Method", text(top["method"]))
	for _, member := range []string{"name", "uri", "taskId"} {
		if name := text(params[member]); name != "" {
			h.Set("Mcp-Name", EncodeHeader(name))
			return
		}
	}
}

func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// Envelope is the metadata of a modern request with these client capabilities, as members of _meta.
func Envelope(capabilities string) string {
	return `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"rig","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + capabilities
}

// Delete ends the session.
func (c *Client) Delete() int {
	c.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), c.Within)
	defer stop()
	resp, err := c.send(ctx, http.MethodDelete, "")
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// unread is how many messages a Stream takes off the connection before its test asks for them: enough for a flood, so
// that the client of a busy test is not a slow client.
const unread = 1 << 17

// Stream is an answer that is read message by message.
type Stream struct {
	t      testing.TB
	Status int
	Header http.Header
	events chan Event
	stop   context.CancelFunc
}

// Event is one message of a stream.
type Event struct {
	ID   string
	Data []byte
}

// Begin posts a body and returns as soon as the answer has begun.
func (c *Client) Begin(body string) *Stream { return c.stream(http.MethodPost, body) }

// Listen opens the GET stream of a legacy session.
func (c *Client) Listen() *Stream { return c.stream(http.MethodGet, "") }

func (c *Client) stream(method, body string) *Stream {
	c.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c.t.Cleanup(stop)
	late := time.AfterFunc(c.Within, stop) // the answer has to begin in time; how long it then goes on is the test's affair
	resp, err := c.send(ctx, method, body) //nolint:bodyclose // the goroutine below owns the body and closes it
	late.Stop()
	if err != nil {
		stop()
		c.t.Fatalf("%s %.200s: %v", method, body, err)
	}
	s := &Stream{t: c.t, Status: resp.StatusCode, Header: resp.Header, events: make(chan Event, unread), stop: stop}
	go func() {
		defer resp.Body.Close()
		defer close(s.events)
		if !isStream(resp) {
			if body, err := io.ReadAll(resp.Body); err == nil && len(body) > 0 {
				s.events <- Event{Data: body}
			}
			return
		}
		r := bufio.NewReader(resp.Body)
		for {
			e, err := readEvent(r)
			if err != nil {
				return
			}
			select {
			case s.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return s
}

// Next waits for the next message; false: the stream ended.
func (s *Stream) Next(within time.Duration) (Event, bool) {
	s.t.Helper()
	select {
	case e, ok := <-s.events:
		return e, ok
	case <-time.After(within):
		s.t.Fatalf("no message on the stream for %s", within)
		return Event{}, false
	}
}

// Await skips messages until one contains the text.
func (s *Stream) Await(part string, within time.Duration) []byte {
	s.t.Helper()
	deadline := time.Now().Add(within)
	var seen []string
	for {
		e, ok := s.Next(time.Until(deadline))
		if !ok {
			s.t.Fatalf("the stream ended before %q; it had:\n%s", part, strings.Join(seen, "\n"))
		}
		if bytes.Contains(e.Data, []byte(part)) {
			return e.Data
		}
		seen = append(seen, string(e.Data))
	}
}

// Close drops the connection.
func (s *Stream) Close() { s.stop() }

// readEvent reads events until one has data.
func readEvent(r *bufio.Reader) (Event, error) {
	var e Event
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return Event{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0 && len(e.Data) > 0:
			return e, nil
		case len(line) == 0:
			e = Event{}
		case string(field) == "data" && e.Data != nil:
			e.Data = append(append(e.Data, '\n'), value...)
		case string(field) == "data":
			e.Data = append([]byte{}, value...)
		case string(field) == "id":
			e.ID = string(value)
		}
	}
}
