package gateway

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"mcpx/internal/rpc"
)

// echoBackend answers in Send itself, with a result that was made before: what is left to count is the gateway.
type echoBackend struct{ result []byte }

type echoLink struct {
	sink   Sink
	result []byte
}

func (b *echoBackend) Open(_ context.Context, _ Open, sink Sink) (Link, error) {
	return &echoLink{sink: sink, result: b.result}, nil
}

func (l *echoLink) Send(m Outbound) error {
	if m.Kind != rpc.Request {
		return nil
	}
	msg, err := rpc.Scan(m.Body)
	if err != nil {
		return err
	}
	l.sink.Written(m.Ref)
	result := l.result
	if m.Method == "initialize" {
		result = []byte(legacyInit)
	}
	l.sink.Deliver(Inbound{Body: rpc.ResultResponse(msg.ID.Of(m.Body), result)})
	return nil
}
func (l *echoLink) Abort(uint64) bool            { return false }
func (l *echoLink) Close(string)                 { go l.sink.Closed(Exit{Reason: Terminated}) }
func (l *echoLink) Detach(context.Context) error { return nil }
func (l *echoLink) Info() LinkInfo               { return LinkInfo{} }

// keptEcho is an echoLink whose child would outlive the daemon.
type keptEcho struct{ echoLink }

func (keptEcho) Save([]byte) error { return nil }
func (keptEcho) Done(...uint64)    {}

type keptEchoBackend struct{ echoBackend }

func (b *keptEchoBackend) Open(_ context.Context, _ Open, sink Sink) (Link, error) {
	return &keptEcho{echoLink{sink: sink, result: b.result}}, nil
}

// TestAllocations: the ceiling for one round trip of 1 KiB through the gateway, without HTTP and without the peer.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const (
		ceiling = 12
		peerOwn = 1 // ResultResponse in echoLink.Send
	)
	for name, x := range echoSessions(t) {
		body := []byte(`{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 900) + `"}}}`)
		m := scan(t, body)
		n := testing.AllocsPerRun(500, func() {
			r := x.Request(body, m).Follow()
			if e, state := r.Next(); state != ReadEvent || !e.Final {
				t.Errorf("no answer (%d)", state)
			}
			r.Delivered()
			r.Stop()
		})
		t.Logf("%s: %.0f allocations, %d of them the peer's", name, n, peerOwn)
		if n > ceiling+peerOwn {
			t.Errorf("%s: %.0f allocations in a round trip, want at most %d", name, n-peerOwn, ceiling)
		}
	}
}

// echoSessions are sessions on a link that ends with the daemon and on one that does not.
func echoSessions(t testing.TB) map[string]*Session {
	t.Helper()
	b := echoBackend{result: []byte(`{"content":[{"type":"text","text":"` + strings.Repeat("y", 900) + `"}]}`)}
	return map[string]*Session{
		"plain": initialize(t, rigOf(t, &b, nil), "2025-11-25", "{}"),
		"kept":  initialize(t, rigOf(t, &keptEchoBackend{b}, nil), "2025-11-25", "{}"),
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for name, x := range echoSessions(b) {
		b.Run(name, func(b *testing.B) { benchRoundTrip(b, x) })
	}
}

func benchRoundTrip(b *testing.B, x *Session) {
	body := []byte(`{"jsonrpc":"2.0","id":12345,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 900) + `"}}}`)
	m, err := rpc.Scan(body)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := x.Request(body, m).Follow()
		if e, state := r.Next(); state != ReadEvent || !e.Final {
			b.Fatal("no answer to call " + strconv.Itoa(i))
		}
		r.Delivered()
		r.Stop()
	}
}
