package httpedge

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// between does something when it is asked whether it has ended, which is when a front stops waiting for the first event.
type between struct {
	context.Context
	do func()
}

func (b between) Err() error {
	b.do()
	return b.Context.Err()
}

// TestAnswerWhenTheWaitEnds: an answer that comes in the moment in which its response becomes a stream is on that stream.
func TestAnswerWhenTheWaitEnds(t *testing.T) {
	m := newMoving(t)
	session := open(t, m.url, "2025-11-25")
	answered := sync.OnceFunc(func() { (<-m.release)() })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.front.Guard(m.front).ServeHTTP(w, r.WithContext(between{r.Context(), answered}))
	}))
	defer server.Close()
	status, body, _ := do(t, "POST", server.URL+"/servers/a/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"quiet"}}`, "Mcp-Session-Id: "+session)
	if status != 200 || !strings.Contains(body, `"ok":true`) {
		t.Errorf("got %d %s", status, body)
	}
}
