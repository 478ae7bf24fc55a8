package httpedge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// trip is an http.RoundTripper.
type trip func(*http.Request) (*http.Response, error)

func (f trip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// serving is a daemon with an epoch, as far as who relays sees it.
type serving struct {
	epoch string
	seen  []string // for whom, and what
}

func (s *serving) trip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.seen = append(s.seen, r.Header.Get(hdrFor)+" "+string(body))
	w := httptest.NewRecorder()
	if meant := r.Header.Get(hdrFor); meant != "" && meant != s.epoch {
		w.Header().Set(hdrServes, s.epoch)
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return w.Result(), nil
}

func relayed(ctx context.Context, body string) *http.Request {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://mcpx/servers/a/mcp", strings.NewReader(body))
	r.Header.Set(hdrSession, "s")
	r.Header.Set(hdrRelayed, "1")
	return r
}

// TestAddressed: a request of a session reaches one daemon, which is known by its epoch; another one has it only when its
// client is still there.
func TestAddressed(t *testing.T) {
	s := &serving{epoch: "7"}
	a := &addressed{way: trip(s.trip)}
	send := func(r *http.Request) int {
		t.Helper()
		res, err := a.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	if got := send(relayed(t.Context(), "one")); got != 200 {
		t.Errorf("the first request got %d", got)
	}
	if got := send(relayed(t.Context(), "two")); got != 200 {
		t.Errorf("the second request got %d", got)
	}
	s.epoch = "8"
	if got := send(relayed(t.Context(), "three")); got != 200 {
		t.Errorf("the request after a restart got %d", got)
	}
	plain := relayed(t.Context(), "four")
	plain.Header.Del(hdrSession)
	if got := send(plain); got != 200 {
		t.Errorf("a request without a session got %d", got)
	}
	if diff := cmp.Diff([]string{"0 one", "7 one", "7 two", "7 three", "8 three", " four"}, s.seen); diff != "" {
		t.Error(diff)
	}

	s.epoch, s.seen = "9", nil
	left := errors.New("its client left")
	ctx, leave := context.WithCancelCause(t.Context())
	a.way = trip(func(r *http.Request) (*http.Response, error) {
		defer leave(left)
		return s.trip(r)
	})
	if _, err := a.RoundTrip(relayed(ctx, "five")); !errors.Is(err, left) { //nolint:bodyclose // there is no response
		t.Errorf("a request whose client left got %v", err)
	}
	if diff := cmp.Diff([]string{"8 five"}, s.seen); diff != "" {
		t.Error(diff)
	}
}

// TestForAnother: a daemon refuses what was meant for another one, and believes that of the unix socket alone.
func TestForAnother(t *testing.T) {
	unix := context.WithValue(t.Context(), connKey{}, &connPeer{unix: true})
	for _, c := range []struct {
		name    string
		ctx     context.Context
		meant   string
		refused bool
	}{
		{"this one", unix, "7", false},
		{"the one before", unix, "6", true},
		{"the sender knows none", unix, "0", true},
		{"an older release", unix, "", false},
		{"by TCP", t.Context(), "6", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := relayed(c.ctx, "{}")
			if c.meant != "" {
				r.Header.Set(hdrFor, c.meant)
			}
			w := httptest.NewRecorder()
			if got := forAnother(w, r, 7); got != c.refused {
				t.Fatalf("refused: %v", got)
			}
			if c.refused && (w.Code != http.StatusServiceUnavailable || w.Header().Get(hdrServes) != "7" || w.Header().Get("Retry-After") == "") {
				t.Errorf("got %d %v", w.Code, w.Header())
			}
		})
	}
}

// TestGateClientLeft: a request whose client leaves while no daemon serves reaches none. That client may ask the next daemon
// for the outcome, and the one after that would not know what it was told.
func TestGateClientLeft(t *testing.T) {
	tried := make(chan struct{}, 1)
	g := NewGate(func(context.Context) (net.Conn, error) {
		select {
		case tried <- struct{}{}:
		default:
		}
		return nil, errors.New("nobody serves")
	}, slog.New(slog.DiscardHandler))
	g.Move()
	server := httptest.NewServer(g.Local(nil))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/servers/a/mcp", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(hdrSession, "s")
	over := make(chan struct{})
	go func() {
		defer close(over)
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
			t.Errorf("the client got HTTP %d", res.StatusCode)
		}
	}()
	<-tried
	leave()
	<-over
	for deadline := time.Now().Add(5 * time.Second); g.work.Load() > 0; time.Sleep(time.Millisecond) { // its end has no event
		if time.Now().After(deadline) {
			t.Fatal("it still waits for a daemon")
		}
	}
}

// TestGatePassesAsking: a process that asks for itself does so also by way of another one without state. No client gets
// past a gate without being marked.
func TestGatePassesAsking(t *testing.T) {
	ours := context.WithValue(t.Context(), connKey{}, &connPeer{unix: true})
	for name, c := range map[string]struct {
		ctx  context.Context
		drop string // what the client lets the gate drop, by a Connection header
		want string
	}{
		"our own process":                    {ours, "", relayAsks},
		"a client, by TCP":                   {t.Context(), "", "1"},
		"our own user, who drops the mark":   {ours, hdrRelayed, relayAsks},
		"a client, by TCP, who drops it too": {t.Context(), hdrRelayed, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewGate(nil, slog.New(slog.DiscardHandler))
			got := ""
			g.relay.Transport = trip(func(r *http.Request) (*http.Response, error) {
				got = r.Header.Get(hdrRelayed)
				return httptest.NewRecorder().Result(), nil
			})
			r := httptest.NewRequestWithContext(c.ctx, http.MethodGet, "/servers/a/mcp", nil)
			r.Header.Set(hdrRelayed, relayAsks)
			r.Header.Set("Connection", c.drop)
			g.relay.ServeHTTP(httptest.NewRecorder(), r)
			if got != c.want {
				t.Errorf("the next daemon is told %q, want %q", got, c.want)
			}
		})
	}
}
