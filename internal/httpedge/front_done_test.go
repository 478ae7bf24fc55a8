package httpedge

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// keeping is a backend whose link remembers which requests are done with.
type keeping struct {
	answering

	mu    sync.Mutex
	refs  map[entryOf]string // method of what is not done
	twice bool
}

// entryOf names a request: its number is of its link alone.
type entryOf struct {
	l   *keepingLink
	ref uint64
}

type keepingLink struct {
	*answeringLink
	k *keeping
}

var _ gateway.KeptLink = (*keepingLink)(nil)

func (k *keeping) Open(ctx context.Context, o gateway.Open, sink gateway.Sink) (gateway.Link, error) {
	l, err := k.answering.Open(ctx, o, sink)
	if err != nil {
		return nil, err
	}
	return &keepingLink{l.(*answeringLink), k}, nil
}

func (l *keepingLink) Send(m gateway.Outbound) error {
	if m.Kind == rpc.Request {
		l.k.mu.Lock()
		l.k.refs[entryOf{l, m.Ref}] = m.Method
		l.k.mu.Unlock()
	}
	return l.answeringLink.Send(m)
}

func (*keepingLink) Save([]byte) error { return nil }

func (l *keepingLink) Done(refs ...uint64) {
	l.k.mu.Lock()
	defer l.k.mu.Unlock()
	for _, ref := range refs {
		if _, ok := l.k.refs[entryOf{l, ref}]; !ok {
			l.k.twice = true
		}
		delete(l.k.refs, entryOf{l, ref})
	}
}

// TestFrontDone: whatever the form of a response, the gateway learns that it was written; when the client has left it
// stays, to be asked for.
func TestFrontDone(t *testing.T) {
	k := &keeping{answering: answering{release: make(chan func(), 4)}, refs: map[entryOf]string{}}
	g, err := gateway.New(gateway.Config{
		Stdio: k, HTTP: k, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler), Epoch: 3,
		Resolve: func(context.Context, catalog.Server, gateway.Caller) (gateway.Resolved, error) {
			return gateway.Resolved{}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	g.Apply([]catalog.Server{{ID: "a", Name: "a", Stdio: &catalog.Stdio{Command: "a"}, Protocol: catalog.ProtocolLegacy, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled}})
	f, err := NewFront(FrontConfig{Gateway: g, Log: slog.New(slog.DiscardHandler), Token: func(bearer string) (gateway.Caller, bool) {
		return gateway.Caller{Principal: bearer}, true
	}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{}, 64) // one for each response that is over
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.Guard(f).ServeHTTP(w, r)
		served <- struct{}{}
	}))
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if err := g.Stop(ctx, true); err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	url := srv.URL + "/servers/a/mcp"
	x, old := open(t, url, "2025-11-25"), open(t, url, "2025-03-26")
	left := func() []string {
		k.mu.Lock()
		defer k.mu.Unlock()
		var all []string
		for e, method := range k.refs {
			all = append(all, fmt.Sprint(e.ref, " ", method))
		}
		slices.Sort(all)
		return all
	}
	call := func(id int, tool string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool)
	}
	// leave posts a call and goes away before its answer.
	leave := func(session, accept string, id int) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(call(id, "slow")))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Authorization": "Bearer owner", "Content-Type": "application/json", hdrSession: session, "Accept": accept} {
			req.Header.Set(name, value)
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			if res, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body) // it ends with the cancellation
				_ = res.Body.Close()
			}
		}()
		release := <-k.release
		for len(served) > 0 {
			<-served
		}
		cancel()
		<-over
		<-served // the front has noticed
		release()
	}
	for _, post := range map[string]func(){
		"json":   func() { do(t, "POST", url, call(1, "quick"), hdrSession+": "+x, "Accept: application/json") },
		"stream": func() { do(t, "POST", url, call(2, "quick"), hdrSession+": "+x, "Accept: text/event-stream") },
		"batch":  func() { do(t, "POST", url, "["+call(3, "quick")+","+call(4, "quick")+"]", hdrSession+": "+old) },
		"modern": func() {
			env := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
			do(t, "POST", url, `{"jsonrpc":"2.0","id":5,"method":"prompts/list","params":{`+env+`}}`, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: prompts/list")
		},
		"left and resumed": func() {
			leave(x, "application/json, text/event-stream", 6)
			if status, body, _ := do(t, "GET", url, "", hdrSession+": "+x, "Last-Event-ID: rNg.0.0", "Accept: text/event-stream"); status != 200 || !strings.Contains(body, `"ok":true`) {
				t.Errorf("the resume got %d %s", status, body)
			}
		},
		"json, left and asked for": func() {
			leave(x, "application/json", 7)
			if status, body, _ := do(t, "GET", url, "", hdrSession+": "+x, "Last-Event-ID: rNw.0.0", "Accept: text/event-stream"); status != 200 || !strings.Contains(body, `"ok":true`) {
				t.Errorf("the resume got %d %s", status, body)
			}
		},
	} {
		post()
	}
	leave(x, "application/json", 8) // nobody asks for it
	for end := time.Now().Add(10 * time.Second); len(left()) > 1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still kept: %s", left())
		}
	}
	time.Sleep(2 * time.Second) // longer than what was written is kept
	if all := left(); len(all) != 1 || k.twice {
		t.Errorf("of a client that left, kept are %s; done twice: %v", all, k.twice)
	}
}
