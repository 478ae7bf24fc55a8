package httpedge

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/fault"
)

// switched lets everybody in until it is off.
type switched struct {
	Authority
	off   atomic.Pointer[error]
	taken atomic.Bool
}

func (s *switched) AdmitRemote(context.Context, string) (auth.Delegation, error) {
	if err := s.off.Load(); err != nil {
		return auth.Delegation{}, *err
	}
	return auth.Delegation{ID: "dg_1"}, nil
}

func (s *switched) AccessTaken(_ context.Context, d auth.Delegation, since time.Time) bool {
	return d.ID != "dg_1" || !since.Equal(sinceThen) || s.taken.Load()
}

var sinceThen = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

// TestRevokedMeanwhile: a client that loses its access while a call of it waits does not get the answer. One whose token
// runs out meanwhile does: it was good for the call.
func TestRevokedMeanwhile(t *testing.T) {
	for name, c := range map[string]struct {
		taken bool
		admit error // of the token from then on
		want  int
	}{
		"nothing happens":    {false, nil, http.StatusAccepted},
		"its access ends":    {true, fault.New(fault.Unauthenticated, "access-over").Saying("over"), http.StatusUnauthorized},
		"its token runs out": {false, fault.New(fault.Unauthenticated, "access-over").Saying("over"), http.StatusAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			begun, end := make(chan struct{}), make(chan struct{})
			authority := &switched{}
			p, err := NewPublic(PublicConfig{
				Authority: authority, Foreign: func(context.Context, string) {}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
				MCP: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if d, ok := Admitted(r.Context()); !ok || d.ID != "dg_1" {
						t.Error("nobody is admitted")
					}
					close(begun)
					<-end
					w.Header().Set("Mcp-Session-Id", "secret")
					w.WriteHeader(http.StatusAccepted)
					_, _ = io.WriteString(w, "what the call found out")
				}),
			}, auth.Remote{URL: "http://127.0.0.1:9090", Since: sinceThen})
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:9090/mcp", strings.NewReader("{}"))
			r.Header.Set("Authorization", "Bearer x")
			w := httptest.NewRecorder()
			done := make(chan struct{})
			go func() {
				defer close(done)
				p.http.Handler.ServeHTTP(w, r)
			}()
			<-begun
			authority.taken.Store(c.taken)
			if c.admit != nil {
				authority.off.Store(&c.admit)
			}
			close(end)
			<-done
			kept := strings.Contains(w.Body.String(), "found out") || w.Header().Get("Mcp-Session-Id") != ""
			if w.Code != c.want || kept != (c.want == http.StatusAccepted) {
				t.Errorf("%d %v %s", w.Code, w.Header(), w.Body)
			}
			if w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("it may be kept: %v", w.Header())
			}
			if told := w.Header().Get("WWW-Authenticate") != ""; told == kept {
				t.Errorf("how to get access is told: %v", told)
			}
		})
	}
}
