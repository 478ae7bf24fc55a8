package httpedge

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"mcpx/internal/gateway"
	"mcpx/internal/test/fakemcp"
)

// detach leaves the link as a daemon does that stops, and says what session a later daemon may go on with.
func (l *upTestLink) detach() (session string) {
	l.t.Helper()
	session = l.Info().Session
	ctx, cancel := context.WithTimeout(l.t.Context(), upPatience)
	defer cancel()
	if err := l.Detach(ctx); err != nil {
		l.t.Fatal(err)
	}
	if e := l.exit(); e.Reason != gateway.Detached {
		l.t.Fatalf("exit %v, want detached", e)
	}
	return session
}

func (l *upTestLink) tool(ref uint64, name string) string {
	l.t.Helper()
	l.request(ref, "tools/call", `{"name":"`+name+`","arguments":{}}`, "2025-11-25")
	return string(l.sink.kind("deliver", ref).In.Body)
}

// A server that keeps state for its sessions: the link of a later daemon sees it, and sends no handshake.
func TestUpstreamRejoinKeepsState(t *testing.T) {
	var kept strings.Builder
	fake, err := fakemcp.New(fakemcp.Options{Stateful: true})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 64)
	handler := fake.Handler()
	srv := upServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Method + " " + r.Header.Get("Mcp-Session-Id") + " " + r.Header.Get("Mcp-Protocol-Version")
		handler.ServeHTTP(w, r)
	}))
	first := upDial(t, srv.URL, upTestOpen{})
	if s := first.Info().Session; s != "" {
		t.Errorf("session %q before the handshake", s)
	}
	first.shake()
	first.tool(2, "counter")
	session := first.detach()
	if session == "" {
		t.Fatal("the link reports no session")
	}
	for len(seen) > 0 {
		kept.WriteString(<-seen + "\n")
	}
	if strings.Contains(kept.String(), http.MethodDelete) {
		t.Errorf("Detach ended the session:\n%s", kept.String())
	}

	second := upDial(t, srv.URL, upTestOpen{session: session, version: "2025-11-25"})
	if got := second.Info().Session; got != session {
		t.Errorf("session %q, want %q", got, session)
	}
	if answer := second.tool(1, "counter"); !strings.Contains(answer, `"2"`) {
		t.Errorf("the second count is %s", answer)
	}
	for len(seen) > 0 {
		if s := <-seen; !strings.HasSuffix(s, " "+session+" 2025-11-25") {
			t.Errorf("a request without the session or its revision: %s", s)
		}
	}
}

// The standalone stream is open before anything is sent: the server may have something to say to a session that is
// idle.
func TestUpstreamRejoinListens(t *testing.T) {
	const changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`
	f := upNewFake(t)
	f.get = func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+changed+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	l := upDial(t, upServe(t, f).URL, upTestOpen{session: "s1", version: "2025-06-18"})
	if got := string(l.sink.kind("deliver", 0).In.Body); got != changed {
		t.Errorf("delivered %s", got)
	}
	got := f.seen(1, http.MethodGet, "")[0].Header
	if got.Get("Mcp-Session-Id") != "s1" || got.Get("Mcp-Protocol-Version") != "2025-06-18" {
		t.Errorf("the stream was opened with %v", got)
	}
	l.detach()
}

// The server forgot the session meanwhile: the request was not handled and may go to a new session.
func TestUpstreamRejoinGone(t *testing.T) {
	fake, err := fakemcp.New(fakemcp.Options{Stateful: true})
	if err != nil {
		t.Fatal(err)
	}
	l := upDial(t, upServe(t, fake.Handler()).URL, upTestOpen{session: "long-gone", version: "2025-11-25"})
	l.request(1, "tools/call", `{"name":"counter","arguments":{}}`, "2025-11-25")
	if f := l.sink.kind("failed", 1).Fail; !f.Gone || f.Class != gateway.NotSent {
		t.Errorf("failure %+v, want not sent because the session is gone", f)
	}
	if e := l.exit(); e.Reason != gateway.SessionGone {
		t.Errorf("exit %v, want session gone", e)
	}
}
