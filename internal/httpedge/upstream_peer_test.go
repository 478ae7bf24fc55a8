package httpedge

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

type upGreet struct {
	Name string `json:"name"`
}

// upSDKServer is a server of the official SDK with tools that answer at once, report progress, ask the client, and
// wait for their cancellation.
func upSDKServer(started, cancelled chan<- struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)
	text := func(t string) *mcp.CallToolResult {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: t}}}
	}
	mcp.AddTool(s, &mcp.Tool{Name: "greet"}, func(_ context.Context, _ *mcp.CallToolRequest, in upGreet) (*mcp.CallToolResult, any, error) {
		return text("hello " + in.Name), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "progress"}, func(ctx context.Context, req *mcp.CallToolRequest, _ upGreet) (*mcp.CallToolResult, any, error) {
		for i := range 3 {
			err := req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: req.Params.GetProgressToken(), Progress: float64(i + 1)})
			if err != nil {
				return nil, nil, err
			}
		}
		return text("progressed"), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"}, func(ctx context.Context, req *mcp.CallToolRequest, _ upGreet) (*mcp.CallToolResult, any, error) {
		r, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1, Messages: []*mcp.SamplingMessage{}}) //nolint:staticcheck // deprecated, and what peers of 2025-11-25 do
		if err != nil {
			return nil, nil, err
		}
		return text("model said " + r.Content.(*mcp.TextContent).Text), nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "wait"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ upGreet) (*mcp.CallToolResult, any, error) {
		started <- struct{}{}
		<-ctx.Done()
		cancelled <- struct{}{}
		return nil, nil, ctx.Err()
	})
	return s
}

func upHas(t *testing.T, rep upReport, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(string(rep.In.Body), p) {
			t.Errorf("message %s lacks %s", rep.In.Body, p)
		}
	}
}

// The legacy transports against the SDK's servers: handshake, a call, progress in order on the call's own stream, a
// question of the server with its answer, a notification without a call, a cancellation, and the end of the session.
func TestUpstreamLegacySDK(t *testing.T) {
	for _, tc := range []struct {
		name string
		sse  bool
		make func(*mcp.Server) http.Handler
	}{
		{"streamable stateful", false, func(s *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
		}},
		{"streamable stateful with event store", false, func(s *mcp.Server) http.Handler {
			return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{EventStore: mcp.NewMemoryEventStore(nil)})
		}},
		{"sse", true, func(s *mcp.Server) http.Handler {
			return mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return s }, nil)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			started, cancelled := make(chan struct{}, 1), make(chan struct{}, 1)
			server := upSDKServer(started, cancelled)
			srv := upServe(t, tc.make(server))
			l := upDial(t, srv.URL, upTestOpen{sse: tc.sse})
			l.shake()

			l.request(2, "tools/call", `{"name":"greet","arguments":{"name":"a"}}`, "2025-11-25")
			l.sink.kind("written", 2)
			rep := l.sink.kind("deliver", l.via(2))
			upHas(t, rep, "hello a", `"id":2`)

			l.request(3, "tools/call", `{"name":"progress","arguments":{"name":""},"_meta":{"progressToken":"tok"}}`, "2025-11-25")
			for _, want := range []string{`"progress":1`, `"progress":2`, `"progress":3`, "progressed"} {
				upHas(t, l.sink.kind("deliver", l.via(3)), want)
			}

			l.request(4, "tools/call", `{"name":"ask","arguments":{"name":""}}`, "2025-11-25")
			ask := l.sink.kind("deliver", l.via(4))
			upHas(t, ask, "sampling/createMessage")
			m, err := rpc.Scan(ask.In.Body)
			if err != nil {
				t.Fatal(err)
			}
			l.send(gateway.Outbound{
				Body: rpc.ResultResponse(m.ID.Of(ask.In.Body), []byte(`{"role":"assistant","model":"m","content":{"type":"text","text":"42"}}`)),
				Kind: rpc.Result, Answers: 4, Version: "2025-11-25",
			})
			upHas(t, l.sink.kind("deliver", l.via(4)), "model said 42")

			server.AddTool(&mcp.Tool{Name: "late", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
			upHas(t, l.sink.kind("deliver", 0), "notifications/tools/list_changed")

			l.request(5, "tools/call", `{"name":"wait","arguments":{"name":""}}`, "2025-11-25")
			l.sink.kind("written", 5)
			upSignal(t, "started", started)
			if l.Abort(5) {
				t.Error("Abort of a running legacy call returned true: the stream's end is no cancellation there")
			}
			l.notify("notifications/cancelled", `{"requestId":5}`, "2025-11-25")
			upSignal(t, "cancelled", cancelled)

			l.Close("done")
			if e := l.sink.until("closed", func(r upReport) bool { return r.Kind == "closed" }).Exit; e.Reason != gateway.Terminated {
				t.Errorf("exit %v, want terminated", e)
			}
			for s := range server.Sessions() {
				if !tc.sse {
					t.Errorf("session %s is left: no DELETE arrived", s.ID())
				}
			}
		})
	}
}

const upModernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`

// The modern transport against the SDK's stateless server: discover, a call, an error with its HTTP status, and a
// cancellation by closing the stream.
func TestUpstreamModernSDK(t *testing.T) {
	started, cancelled := make(chan struct{}, 1), make(chan struct{}, 1)
	server := upSDKServer(started, cancelled)
	srv := upServe(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true, PropagateRequestCancellation: true}))
	l := upDial(t, srv.URL, upTestOpen{modern: true})
	call := func(ref uint64, method, name, params string) {
		t.Helper()
		headers := map[string]string{"Mcp-Method": method}
		if name != "" {
			headers["Mcp-Name"] = name
		}
		l.send(gateway.Outbound{
			Body: rpc.RequestMessage([]byte(`"mx1.`+string(rune('a'+ref))+`"`), method, []byte(params)), Kind: rpc.Request, Ref: ref, Method: method,
			Version: "2026-07-28", Headers: headers,
		})
	}
	call(1, "server/discover", "", `{`+upModernMeta+`}`)
	l.sink.kind("written", 1)
	upHas(t, l.sink.kind("deliver", 1), "supportedVersions")

	call(2, "tools/call", "greet", `{"name":"greet","arguments":{"name":"m"},`+upModernMeta+`}`)
	rep := l.sink.kind("deliver", 2)
	upHas(t, rep, "hello m")
	if rep.In.Status != http.StatusOK {
		t.Errorf("status %d", rep.In.Status)
	}

	call(3, "no/such", "", `{`+upModernMeta+`}`)
	if rep := l.sink.kind("deliver", 3); rep.In.Status != http.StatusNotFound {
		t.Errorf("unknown method came with %d: %s", rep.In.Status, rep.In.Body)
	} else {
		upHas(t, rep, "-32601")
	}

	call(4, "tools/call", "wait", `{"name":"wait","arguments":{"name":""},`+upModernMeta+`}`)
	l.sink.kind("written", 4)
	upSignal(t, "started", started)
	if !l.Abort(4) {
		t.Error("Abort of a modern call returned false")
	}
	upSignal(t, "cancelled", cancelled)
	if err := l.Detach(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := l.sink.until("closed", func(r upReport) bool { return r.Kind == "closed" }).Exit; e.Reason != gateway.Detached {
		t.Errorf("exit %v, want detached", e)
	}
	if n := l.sink.count("failed"); n != 0 {
		t.Errorf("%d requests failed", n)
	}
}
