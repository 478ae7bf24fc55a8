package httpedge

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// upPatience bounds a wait for something that must happen; reaching it is a failure.
const upPatience = 20 * time.Second

// upReport is one call of the sink.
type upReport struct {
	Kind string // deliver, written, failed, closed
	Ref  uint64
	In   gateway.Inbound
	Fail gateway.Failure
	Exit gateway.Exit
}

// upRecorder is a sink that keeps what it was told.
type upRecorder struct {
	t      *testing.T
	mu     sync.Mutex
	all    []upReport
	closed bool
	bell   chan struct{}
}

func (r *upRecorder) add(rep upReport) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.t.Errorf("%s after closed: %+v", rep.Kind, rep)
	}
	r.closed = r.closed || rep.Kind == "closed"
	r.all = append(r.all, rep)
	close(r.bell)
	r.bell = make(chan struct{})
}

func (r *upRecorder) Deliver(in gateway.Inbound) {
	r.add(upReport{Kind: "deliver", Ref: in.Via, In: in})
}
func (r *upRecorder) Written(ref uint64) { r.add(upReport{Kind: "written", Ref: ref}) }
func (r *upRecorder) Failed(ref uint64, f gateway.Failure) {
	r.add(upReport{Kind: "failed", Ref: ref, Fail: f})
}

func (r *upRecorder) Overlong(id []byte, size int64) {
	r.add(upReport{Kind: "overlong", In: gateway.Inbound{Body: id}})
}
func (r *upRecorder) Stderr([]byte)         {}
func (r *upRecorder) Closed(e gateway.Exit) { r.add(upReport{Kind: "closed", Exit: e}) }

// until waits for the first report that was not returned yet and fits; reports in between stay for later calls.
func (r *upRecorder) until(what string, fits func(upReport) bool) upReport {
	r.t.Helper()
	limit := time.After(upPatience)
	for {
		r.mu.Lock()
		for i, rep := range r.all {
			if fits(rep) {
				r.all = append(r.all[:i:i], r.all[i+1:]...)
				r.mu.Unlock()
				return rep
			}
		}
		bell := r.bell
		r.mu.Unlock()
		select {
		case <-bell:
		case <-limit:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.t.Fatalf("%s: not within %s; reports: %+v", what, upPatience, r.all)
		}
	}
}

func (r *upRecorder) kind(kind string, ref uint64) upReport {
	r.t.Helper()
	return r.until(fmt.Sprintf("%s %d", kind, ref), func(rep upReport) bool { return rep.Kind == kind && rep.Ref == ref })
}

func (r *upRecorder) count(kind string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rep := range r.all {
		if rep.Kind == kind {
			n++
		}
	}
	return n
}

// upTestLink is a link under test.
type upTestLink struct {
	gateway.Link
	t    *testing.T
	sink *upRecorder
	up   *Upstream
}

type upTestOpen struct {
	bounds  upBounds // zero fields keep the product's
	modern  bool
	sse     bool
	headers map[string]string
	session string // of an earlier link
	version string
}

func upConfig() UpstreamConfig {
	return UpstreamConfig{Now: time.Now, Log: slog.New(slog.DiscardHandler), Version: "test"}
}

// upServe starts a server and checks at the end of the test that nothing of it or of the links is left.
func upServe(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	upGuard(t, srv)
	srv.Start()
	return srv
}

func upServeTLS(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	upGuard(t, srv)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	return srv
}

func upGuard(t *testing.T, srv *httptest.Server) {
	t.Helper()
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
}

func upDial(t *testing.T, url string, o upTestOpen) *upTestLink {
	t.Helper()
	l, err := upTryDial(t, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Close("end of test")
		ctx, cancel := context.WithTimeout(context.Background(), upPatience)
		defer cancel()
		if err := l.Detach(ctx); err != nil { // joins what Close began
			t.Errorf("link did not end: %v", err)
		}
		if n := l.sink.count("closed"); n > 1 {
			t.Errorf("closed %d times", n)
		}
		l.up.Close()
	})
	return l
}

func upTryDial(t *testing.T, url string, o upTestOpen) (*upTestLink, error) {
	t.Helper()
	up, err := NewUpstream(upConfig())
	if err != nil {
		t.Fatal(err)
	}
	if o.bounds.body != 0 {
		up.bounds.body = o.bounds.body
	}
	if o.bounds.endpoint != 0 {
		up.bounds.endpoint = o.bounds.endpoint
	}
	if o.bounds.abort != 0 {
		up.bounds.abort = o.bounds.abort
	}
	l := &upTestLink{t: t, up: up, sink: &upRecorder{t: t, bell: make(chan struct{})}}
	open := gateway.Open{
		Server:  catalog.Server{Name: "peer", HTTP: &catalog.HTTP{URL: url}},
		Headers: o.headers, Modern: o.modern, Transport: catalog.TransportStreamable, Session: o.session, Version: o.version,
	}
	if o.sse {
		open.Transport = catalog.TransportSSE
	}
	if l.Link, err = up.Open(t.Context(), open, l.sink); err != nil {
		up.Close()
		return nil, err
	}
	return l, nil
}

func (l *upTestLink) send(m gateway.Outbound) {
	l.t.Helper()
	if err := l.Send(m); err != nil {
		l.t.Fatalf("send %s: %v", m.Method, err)
	}
}

func (l *upTestLink) request(ref uint64, method, params, version string) {
	l.t.Helper()
	l.send(gateway.Outbound{
		Body: rpc.RequestMessage(fmt.Appendf(nil, "%d", ref), method, upParams(params)),
		Kind: rpc.Request, Ref: ref, Method: method, Version: version,
	})
}

func (l *upTestLink) notify(method, params, version string) {
	l.t.Helper()
	l.send(gateway.Outbound{Body: rpc.NotificationMessage(method, upParams(params)), Kind: rpc.Notification, Method: method, Version: version})
}

func upParams(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

const upInitParams = `{"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}`

// shake does the legacy handshake as request 1.
func (l *upTestLink) shake() {
	l.t.Helper()
	l.request(1, "initialize", upInitParams, "")
	if body := string(l.sink.kind("deliver", l.via(1)).In.Body); !strings.Contains(body, `"protocolVersion"`) {
		l.t.Fatalf("initialize answered %s", body)
	}
	l.sink.kind("written", 1)
	l.notify("notifications/initialized", "", "2025-11-25")
}

// via is the Ref that an answer carries: none on HTTP+SSE.
func (l *upTestLink) via(ref uint64) uint64 {
	if l.Link.(*upLink).mode == upSSE {
		return 0
	}
	return ref
}

func upSignal(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(upPatience):
		t.Fatalf("%s: not within %s", what, upPatience)
	}
}
