package httpedge

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// upGot is one request that a fake server saw.
type upGot struct {
	HTTP, Method, ID string
	Header           http.Header
}

// upFake is a legacy server whose behaviour is set by method; what is not set is answered properly.
type upFake struct {
	t     *testing.T
	posts map[string]func(w http.ResponseWriter, r *http.Request, id string)
	get   func(w http.ResponseWriter, r *http.Request, nth int)

	mu   sync.Mutex
	gets int
	all  []upGot
	bell chan struct{}
}

func upNewFake(t *testing.T) *upFake {
	return &upFake{t: t, posts: map[string]func(http.ResponseWriter, *http.Request, string){}, bell: make(chan struct{})}
}

func (f *upFake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method, id := upRead(r)
	f.mu.Lock()
	f.all = append(f.all, upGot{r.Method, method, id, r.Header.Clone()})
	if r.Method == http.MethodGet {
		f.gets++
	}
	nth := f.gets
	close(f.bell)
	f.bell = make(chan struct{})
	f.mu.Unlock()
	switch {
	case r.Method == http.MethodGet && f.get != nil:
		f.get(w, r, nth)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	case r.Method == http.MethodDelete:
	case f.posts[method] != nil:
		f.posts[method](w, r, id)
	case method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s1")
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+`,"result":{"protocolVersion":"2025-11-25"}}`)
	case id == "" || method == "":
		w.WriteHeader(http.StatusAccepted)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, upAnswer(id))
	}
}

// seen waits until the server saw n requests with this HTTP method and JSON-RPC method, and returns them.
func (f *upFake) seen(n int, httpMethod, method string) []upGot {
	f.t.Helper()
	limit := time.After(upPatience)
	for {
		f.mu.Lock()
		var got []upGot
		for _, g := range f.all {
			if g.HTTP == httpMethod && g.Method == method {
				got = append(got, g)
			}
		}
		bell := f.bell
		f.mu.Unlock()
		if len(got) >= n {
			return got
		}
		select {
		case <-bell:
		case <-limit:
			f.t.Fatalf("%d of %d %s %s seen within %s", len(got), n, httpMethod, method, upPatience)
		}
	}
}

func (l *upTestLink) exit() gateway.Exit {
	l.t.Helper()
	return l.sink.until("closed", func(r upReport) bool { return r.Kind == "closed" }).Exit
}

// A stream that breaks, or that the server ends to make the client poll, goes on where it stopped, and the pause that
// the server asked for is kept.
func TestUpstreamResume(t *testing.T) {
	const pause = 150 * time.Millisecond
	for _, broken := range []bool{true, false} {
		t.Run(fmt.Sprint("broken ", broken), func(t *testing.T) {
			f := upNewFake(t)
			var last []string
			var ended time.Time
			f.posts["tools/call"] = func(w http.ResponseWriter, _ *http.Request, _ string) {
				upStartSSE(w)
				upSay(w, "id: p.0\nretry: 150\ndata:\n\n")
				ended = time.Now()
				if broken {
					upBreak()
				}
			}
			f.get = func(w http.ResponseWriter, r *http.Request, nth int) {
				last = append(last, r.Header.Get("Last-Event-Id"))
				switch nth {
				case 1:
					if since := time.Since(ended); since < pause {
						t.Errorf("resumed after %s, the server asked for %s", since, pause)
					}
					w.WriteHeader(http.StatusBadGateway)
				case 2:
					upStartSSE(w)
					upSay(w, "id: p.1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
					upSay(w, "id: p.2\ndata: {\"jsonrpc\":\"2.0\",\"id\"")
					if broken {
						upBreak()
					}
				case 3:
					upStartSSE(w)
					upSay(w, "id: p.2\ndata: "+upAnswer("2")+"\n\n")
				}
			}
			srv := upServe(t, f)
			l := upDial(t, srv.URL, upTestOpen{})
			l.request(1, "initialize", upInitParams, "")
			l.sink.kind("deliver", 1)
			l.request(2, "tools/call", "", "2025-11-25")
			upHas(t, l.sink.kind("deliver", 2), "notifications/progress")
			upHas(t, l.sink.kind("deliver", 2), `"ok":true`)
			for _, g := range f.seen(3, http.MethodGet, "") {
				if g.Header.Get("Mcp-Session-Id") != "s1" || g.Header.Get("Mcp-Protocol-Version") != "2025-11-25" || g.Header.Get("Accept") != "text/event-stream" {
					t.Errorf("headers of GET: %v", g.Header)
				}
			}
			if err := l.Detach(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"p.0", "p.0", "p.1"}, last); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// After five attempts in a row without a new event the call is given up.
func TestUpstreamResumeGivesUp(t *testing.T) {
	f := upNewFake(t)
	f.posts["tools/call"] = func(w http.ResponseWriter, _ *http.Request, _ string) {
		upStartSSE(w)
		upSay(w, "id: p.0\nretry: 1\ndata:\n\n")
	}
	f.get = func(w http.ResponseWriter, _ *http.Request, _ int) { upStartSSE(w) }
	l := upDial(t, upServe(t, f).URL, upTestOpen{})
	l.request(2, "tools/call", "", "")
	fail := l.sink.kind("failed", 2).Fail
	if fail.Class != gateway.SentUnknown || !strings.Contains(fail.Text, "could not be resumed") {
		t.Errorf("%+v", fail)
	}
	if n := len(f.seen(0, http.MethodGet, "")); n != upResumeTries {
		t.Errorf("%d attempts, want %d", n, upResumeTries)
	}
}

// 404 for the session: the request that got it was not processed, the link ends, and what else was under way is left
// to Closed. A 404 that answers the request itself says nothing about the session.
func TestUpstreamSessionGone(t *testing.T) {
	f := upNewFake(t)
	f.posts["slow"] = func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }
	f.posts["unknown"] = func(w http.ResponseWriter, _ *http.Request, id string) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32601,"message":"no such method"}}`)
	}
	f.posts["late"] = func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`)
	}
	l := upDial(t, upServe(t, f).URL, upTestOpen{})
	l.shake()
	l.request(2, "slow", "", "2025-11-25")
	l.sink.kind("written", 2)
	l.request(3, "unknown", "", "2025-11-25")
	if rep := l.sink.kind("deliver", 3); rep.In.Status != http.StatusNotFound {
		t.Errorf("status %d", rep.In.Status)
	}
	l.request(4, "late", "", "2025-11-25")
	if fail := l.sink.kind("failed", 4).Fail; fail.Class != gateway.NotSent || fail.Status != http.StatusNotFound {
		t.Errorf("%+v", fail)
	}
	if e := l.exit(); e.Reason != gateway.SessionGone {
		t.Errorf("exit %v", e)
	}
	if n := l.sink.count("failed"); n != 0 {
		t.Errorf("%d more calls failed", n)
	}
	if err := l.Send(gateway.Outbound{Body: []byte("{}"), Kind: rpc.Notification}); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("Send on an ended link: %v", err)
	}
	if n := len(f.seen(0, http.MethodDelete, "")); n != 0 {
		t.Error("DELETE for a session that is gone")
	}
}

// The standalone stream is opened after notifications/initialized was accepted, delivers without a call, is opened
// again with the last event id, and a DELETE ends the session.
func TestUpstreamStandalone(t *testing.T) {
	f := upNewFake(t)
	f.get = func(w http.ResponseWriter, r *http.Request, nth int) {
		upStartSSE(w)
		if nth == 1 {
			upSay(w, "id: g.1\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/a\"}\n\n")
			upBreak()
		}
		upSay(w, "id: g.2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/b\"}\n\n")
		<-r.Context().Done()
	}
	l := upDial(t, upServe(t, f).URL, upTestOpen{})
	l.shake()
	upHas(t, l.sink.kind("deliver", 0), "notifications/a")
	upHas(t, l.sink.kind("deliver", 0), "notifications/b")
	if got := f.seen(2, http.MethodGet, "")[1].Header.Get("Last-Event-Id"); got != "g.1" {
		t.Errorf("second GET with Last-Event-ID %q", got)
	}
	l.Close("idle")
	if e := l.exit(); e.Reason != gateway.Terminated || e.Text != "idle" {
		t.Errorf("exit %v", e)
	}
	del := f.seen(1, http.MethodDelete, "")
	if h := del[0].Header; len(del) != 1 || h.Get("Mcp-Session-Id") != "s1" || h.Get("Mcp-Protocol-Version") != "2025-11-25" {
		t.Errorf("DELETE %d times with %v", len(del), h)
	}
	l.Close("again")
}

// The first call waits until the server has answered for the standalone stream, so that what the call causes is heard
// there; a server that does not answer for it holds the call back for a moment only.
func TestUpstreamStandaloneFirst(t *testing.T) {
	for _, answers := range []bool{true, false} {
		t.Run(fmt.Sprint("answers ", answers), func(t *testing.T) {
			f := upNewFake(t)
			open := make(chan struct{})
			f.get = func(w http.ResponseWriter, r *http.Request, _ int) {
				if answers {
					time.Sleep(50 * time.Millisecond) // a server that takes its time
					close(open)
					upStartSSE(w)
				}
				<-r.Context().Done()
			}
			f.posts["tools/call"] = func(w http.ResponseWriter, _ *http.Request, id string) {
				select {
				case <-open:
				default:
					if answers {
						t.Error("the call came before the stream")
					}
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, upAnswer(id))
			}
			l := upDial(t, upServe(t, f).URL, upTestOpen{})
			l.shake()
			l.request(2, "tools/call", "", "2025-11-25")
			upHas(t, l.sink.kind("deliver", 2), `"ok":true`)
		})
	}
}

// A server without a standalone stream is asked once, whether it says 405 or 404, and Detach sends no DELETE.
func TestUpstreamWithoutStandalone(t *testing.T) {
	for _, status := range []int{http.StatusMethodNotAllowed, http.StatusNotFound} {
		f := upNewFake(t)
		f.get = func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(status) }
		l := upDial(t, upServe(t, f).URL, upTestOpen{})
		l.shake()
		f.seen(1, http.MethodGet, "")
		for ref := uint64(2); ref < 5; ref++ {
			l.request(ref, "ping", "", "2025-11-25")
			l.sink.kind("deliver", ref)
			l.notify("notifications/initialized", "", "2025-11-25")
		}
		if err := l.Detach(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := l.exit(); e.Reason != gateway.Detached {
			t.Errorf("%d: exit %v", status, e)
		}
		if gets, dels := len(f.seen(0, http.MethodGet, "")), len(f.seen(0, http.MethodDelete, "")); gets != 1 || dels != 0 {
			t.Errorf("%d: %d GET, %d DELETE", status, gets, dels)
		}
	}
}

// Requests wait for notifications/initialized, notifications keep their order, and a cancellation passes them.
func TestUpstreamOrder(t *testing.T) {
	f := upNewFake(t)
	accept, slow := make(chan struct{}), make(chan struct{})
	f.posts["notifications/initialized"] = func(w http.ResponseWriter, _ *http.Request, _ string) {
		<-accept
		w.WriteHeader(http.StatusAccepted)
	}
	f.posts["notifications/1"] = func(w http.ResponseWriter, _ *http.Request, _ string) {
		<-slow
		w.WriteHeader(http.StatusAccepted)
	}
	l := upDial(t, upServe(t, f).URL, upTestOpen{})
	l.shake()
	f.seen(1, http.MethodPost, "notifications/initialized")
	l.request(2, "ping", "", "2025-11-25")
	l.notify("notifications/cancelled", `{"requestId":9}`, "2025-11-25")
	f.seen(1, http.MethodPost, "notifications/cancelled")
	if n := len(f.seen(0, http.MethodPost, "ping")); n != 0 {
		t.Error("a request passed notifications/initialized")
	}
	close(accept)
	l.sink.kind("deliver", 2)

	l.notify("notifications/1", "", "2025-11-25")
	l.notify("notifications/2", "", "2025-11-25")
	f.seen(1, http.MethodPost, "notifications/1")
	l.request(3, "ping", "", "2025-11-25")
	l.sink.kind("deliver", 3) // requests do not wait for notifications
	if n := len(f.seen(0, http.MethodPost, "notifications/2")); n != 0 {
		t.Error("the second notification passed the first")
	}
	close(slow)
	f.seen(1, http.MethodPost, "notifications/2")
}

// The queue is bounded, a queued request is dropped by Abort without a word, and a cancellation needs no slot.
func TestUpstreamQueue(t *testing.T) {
	f := upNewFake(t)
	f.posts["slow"] = func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() }
	l := upDial(t, upServe(t, f).URL, upTestOpen{})
	l.shake()
	ref := uint64(1)
	for range upMaxFlying {
		ref++
		l.request(ref, "slow", "", "2025-11-25")
	}
	f.seen(upMaxFlying, http.MethodPost, "slow") // until initialized was accepted they would count as queued
	for range upMaxQueue {
		ref++
		l.request(ref, "slow", "", "2025-11-25")
	}
	err := l.Send(gateway.Outbound{Body: []byte(`{"jsonrpc":"2.0","id":1,"method":"slow"}`), Kind: rpc.Request, Ref: ref + 1, Method: "slow"})
	if f := fault.From(err); err == nil || f.Kind != fault.Busy || f.Retry != fault.AfterWait || f.Hint == "" {
		t.Errorf("full queue: %v", err)
	}
	if !l.Abort(ref) {
		t.Error("a queued request could not be dropped")
	}
	if l.Abort(2) {
		t.Error("a running legacy request was cancelled by its stream")
	}
	l.notify("notifications/cancelled", `{"requestId":2}`, "2025-11-25")
	f.seen(1, http.MethodPost, "notifications/cancelled")
	l.Close("")
	l.exit()
	if n := len(f.seen(0, http.MethodPost, "slow")); n > upMaxFlying {
		t.Errorf("%d requests were under way at once", n)
	}
	if n := l.sink.count("failed"); n != 0 {
		t.Errorf("%d requests were reported beside Closed", n)
	}
}

// The stream of a cancelled legacy call does not keep its slot for ever.
func TestUpstreamAbortGrace(t *testing.T) {
	f := upNewFake(t)
	ended := make(chan struct{})
	f.posts["slow"] = func(_ http.ResponseWriter, r *http.Request, _ string) {
		<-r.Context().Done()
		close(ended)
	}
	const grace = 500 * time.Millisecond
	l := upDial(t, upServe(t, f).URL, upTestOpen{bounds: upBounds{abort: grace}})
	l.request(1, "slow", "", "")
	f.seen(1, http.MethodPost, "slow")
	began := time.Now()
	if l.Abort(1) {
		t.Error("Abort returned true")
	}
	upSignal(t, "end of the stream", ended)
	if d := time.Since(began); d < grace {
		t.Errorf("the stream was closed after %s: a late answer had no chance", d)
	}
	if n := l.sink.count("failed"); n != 0 {
		t.Error("a cancelled request was reported as failed")
	}
}

// Every request ends exactly once, whatever the server does and whenever the lane cancels or closes.
func TestUpstreamEndsOnce(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		f := upNewFake(t)
		var mu sync.Mutex
		f.posts["tools/call"] = func(w http.ResponseWriter, r *http.Request, id string) {
			mu.Lock()
			act := rng.IntN(6)
			mu.Unlock()
			switch act {
			case 0:
				upBreak()
			case 1:
				http.Error(w, "no", http.StatusServiceUnavailable)
			case 2:
				<-r.Context().Done()
			case 3:
				upStartSSE(w)
				upSay(w, "data: "+upAnswer(id)+"\n\n")
				<-r.Context().Done()
			case 4:
				upStartSSE(w)
				upSay(w, "id: 1\nretry: 1\ndata:\n\n")
			default:
				_, _ = io.WriteString(w, upAnswer(id))
			}
		}
		f.get = func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusMethodNotAllowed) }
		srv := httptest.NewServer(f)
		l := upDial(t, srv.URL, upTestOpen{modern: seed%2 == 0, bounds: upBounds{abort: time.Millisecond}})
		const calls = 150
		for ref := uint64(1); ref <= calls; ref++ {
			l.request(ref, "tools/call", "", "")
			mu.Lock()
			target := uint64(rng.IntN(calls)) + 1
			mu.Unlock()
			if target <= ref {
				l.Abort(target)
			}
		}
		ends := map[uint64]int{}
		isEnd := func(rep upReport) bool { return rep.Kind == "deliver" || rep.Kind == "failed" }
		for range calls / 10 {
			ends[l.sink.until("some ends", isEnd).Ref]++
		}
		l.Close("")
		l.exit()
		for _, rep := range l.sink.all {
			if isEnd(rep) {
				ends[rep.Ref]++
			}
		}
		for ref, n := range ends {
			if n > 1 {
				t.Errorf("seed %d: request %d ended %d times", seed, ref, n)
			}
		}
		srv.CloseClientConnections()
		srv.Close()
	}
}

// HTTP+SSE: what can go wrong before the link is open, and the loss of its stream.
func TestUpstreamSSEStart(t *testing.T) {
	for _, tc := range []struct {
		name string
		get  func(w http.ResponseWriter, r *http.Request)
		kind fault.Kind
		code string
		says string
	}{
		{"another origin", func(w http.ResponseWriter, _ *http.Request) {
			upStartSSE(w)
			upSay(w, "event: endpoint\ndata: http://127.0.0.1:1/steal\n\n")
		}, fault.Denied, "upstream-endpoint-foreign", "outside its own origin"},
		{"no stream", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }, fault.Unavailable, "upstream-refused", "404 Not Found"},
		{"sign-in", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, fault.Unauthenticated, "upstream-refused", "sign-in required"},
		{"ends at once", func(w http.ResponseWriter, _ *http.Request) { upStartSSE(w) }, fault.Unavailable, "upstream-unreachable", "ended before the endpoint"},
		{"other events only", func(w http.ResponseWriter, r *http.Request) {
			upStartSSE(w)
			upSay(w, "event: ping\ndata: 1\n\n")
			<-r.Context().Done()
		}, fault.Unavailable, "upstream-unreachable", "no endpoint event within 300ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := upServe(t, http.HandlerFunc(tc.get))
			_, err := upTryDial(t, srv.URL+"/sse", upTestOpen{sse: true, bounds: upBounds{endpoint: 300 * time.Millisecond}})
			f := fault.From(err)
			if err == nil || f.Kind != tc.kind || f.Code != tc.code || f.Hint == "" || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestUpstreamSSELost(t *testing.T) {
	drop := make(chan struct{})
	srv := upServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if r.URL.RequestURI() != "/post?session=1" {
				t.Errorf("posted to %s", r.URL)
			}
			_, _ = upRead(r)
			w.WriteHeader(http.StatusAccepted)
			return
		}
		upStartSSE(w)
		upSay(w, "event: endpoint\ndata: /post?session=1\n\n")
		<-drop
		upSay(w, "data: "+upAnswer("1")+"\n\n")
	}))
	l := upDial(t, srv.URL+"/sse", upTestOpen{sse: true})
	l.request(1, "initialize", "", "")
	l.sink.kind("written", 1)
	if l.Abort(1) {
		t.Error("Abort returned true on HTTP+SSE")
	}
	close(drop)
	l.sink.kind("deliver", 0)
	if e := l.exit(); e.Reason != gateway.LinkLost || !strings.Contains(e.Text, "it ended") {
		t.Errorf("exit %v", e)
	}
	if n := l.sink.count("failed"); n != 0 {
		t.Errorf("%d failed", n)
	}
}

// Over HTTP/2 all calls share a connection; many run at once, and one of them is cancelled alone.
func TestUpstreamHTTP2(t *testing.T) {
	f := upNewFake(t)
	var protos sync.Map
	cancelled := make(chan struct{})
	f.posts["slow"] = func(_ http.ResponseWriter, r *http.Request, _ string) {
		<-r.Context().Done()
		close(cancelled)
	}
	srv := upServeTLS(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protos.Store(r.Proto, true)
		f.ServeHTTP(w, r)
	}))
	l := upDial(t, srv.URL, upTestOpen{modern: true})
	trust := srv.Client().Transport.(*http.Transport).TLSClientConfig
	for _, c := range []*http.Client{l.up.calls, l.up.notes, l.up.streams} {
		c.Transport.(*http.Transport).TLSClientConfig = trust.Clone()
	}
	l.request(1, "slow", "", "2026-07-28")
	f.seen(1, http.MethodPost, "slow")
	for ref := uint64(2); ref < 200; ref++ {
		l.request(ref, "ping", "", "2026-07-28")
	}
	for ref := uint64(2); ref < 200; ref++ {
		l.sink.kind("deliver", ref)
	}
	if !l.Abort(1) {
		t.Error("Abort returned false")
	}
	upSignal(t, "cancelled", cancelled)
	protos.Range(func(p, _ any) bool {
		if p != "HTTP/2.0" {
			t.Errorf("spoke %s", p)
		}
		return true
	})
}

// A message over the limit costs only itself: on the stream of a call a notification is skipped, and on a stream that
// belongs to no call the answer is named.
func TestUpstreamOverlong(t *testing.T) {
	big := strings.Repeat("x", upTestBody)
	f := upNewFake(t)
	f.posts["tools/call"] = func(w http.ResponseWriter, _ *http.Request, id string) {
		upStartSSE(w)
		upSay(w, `data: {"jsonrpc":"2.0","method":"notifications/message","params":"`+big+"\"}\n\ndata: "+upAnswer(id)+"\n\n")
	}
	f.get = func(w http.ResponseWriter, r *http.Request, _ int) {
		upStartSSE(w)
		upSay(w, `data: {"result":"`+big+"\",\"jsonrpc\":\"2.0\",\"id\":\"late\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n\n")
		<-r.Context().Done()
	}
	l := upDial(t, upServe(t, f).URL, upTestOpen{bounds: upBounds{body: upTestBody}})
	l.shake()
	if id := string(l.sink.kind("overlong", 0).In.Body); id != `"late"` {
		t.Errorf("overlong answer of %s", id)
	}
	upHas(t, l.sink.kind("deliver", 0), "notifications/x")
	l.request(2, "tools/call", "", "2025-11-25")
	upHas(t, l.sink.kind("deliver", 2), `"ok":true`)
	if n := l.Info().Malformed; n != 2 {
		t.Errorf("%d counted", n)
	}
}
