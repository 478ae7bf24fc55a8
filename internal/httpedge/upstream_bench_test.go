package httpedge

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// upBenchSink wakes one caller.
type upBenchSink struct{ got chan struct{} }

func (s upBenchSink) Deliver(gateway.Inbound)        { s.got <- struct{}{} }
func (s upBenchSink) Written(uint64)                 {}
func (s upBenchSink) Failed(uint64, gateway.Failure) { s.got <- struct{}{} }
func (s upBenchSink) Overlong([]byte, int64)         {}
func (s upBenchSink) Stderr([]byte)                  {}
func (s upBenchSink) Closed(gateway.Exit)            {}

// One call after the other through a link, beside the same POST by a plain client.
func BenchmarkUpstreamCall(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, upAnswer("1"))
	}))
	defer srv.Close()
	b.Run("plain client", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, srv.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`))
			if err != nil {
				b.Fatal(err)
			}
			resp, err := srv.Client().Do(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
	b.Run("link", func(b *testing.B) {
		b.ReportAllocs()
		up, err := NewUpstream(upConfig())
		if err != nil {
			b.Fatal(err)
		}
		defer up.Close()
		sink := upBenchSink{got: make(chan struct{}, 1)}
		open := gateway.Open{Server: catalog.Server{Name: "peer", HTTP: &catalog.HTTP{URL: srv.URL}}, Modern: true}
		l, err := up.Open(b.Context(), open, sink)
		if err != nil {
			b.Fatal(err)
		}
		for ref := uint64(1); b.Loop(); ref++ {
			m := gateway.Outbound{Body: rpc.RequestMessage([]byte("1"), "tools/call", nil), Kind: rpc.Request, Ref: ref, Method: "tools/call"}
			if err := l.Send(m); err != nil {
				b.Fatal(err)
			}
			<-sink.got
		}
		if err := l.Detach(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
}
