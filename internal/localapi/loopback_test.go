package localapi

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"

	"mcpx/internal/api"
)

func TestLoopback(t *testing.T) {
	state := api.HealthOK
	l, err := NewLoopback(LoopbackConfig{
		Routes:      http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "route "+r.URL.Path) }),
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return ctx },
		Guard: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Origin") != "" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				next.ServeHTTP(w, r)
			})
		},
		Health: func(context.Context) api.HealthState { return state },
		Log:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Serve(tcp)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(path, origin string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+tcp.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	const elsewhere = `{"error":{"kind":"not-found","code":"path-unknown",` +
		`"message":"nothing is here: every server has a URL of its own, /servers/<name>/mcp","hint":"` + "`mcpx server list` shows the URLs" + `"}}` + "\n"
	for _, c := range []struct {
		path, origin string
		state        api.HealthState
		status       int
		body         string
	}{
		{"/healthz", "", api.HealthOK, 200, "ok\n"},
		{"/healthz", "", api.HealthDegraded, 200, "degraded\n"},
		{"/readyz", "", api.HealthDegraded, 200, "ready\n"},
		{"/servers/a/mcp", "", api.HealthOK, 200, "route /servers/a/mcp"},
		{"/", "", api.HealthOK, 404, elsewhere},
		{"/mcp", "", api.HealthOK, 200, "route /mcp"},
		{"/v1/servers", "", api.HealthOK, 404, elsewhere},
		{"/healthz", "http://evil.example", api.HealthOK, 403, ""},
		{"/servers/a/mcp", "http://evil.example", api.HealthOK, 403, ""},
		{"/nothing", "http://evil.example", api.HealthOK, 403, ""},
	} {
		state = c.state
		if status, body := get(c.path, c.origin); status != c.status || body != c.body {
			t.Errorf("%s from %q: %d %q, want %d %q", c.path, c.origin, status, body, c.status, c.body)
		}
	}
	l.Stop(t.Context())
	l.Stop(t.Context())
	if _, err := net.Dial("tcp", tcp.Addr().String()); err == nil {
		t.Error("it listens after Stop")
	}
}
