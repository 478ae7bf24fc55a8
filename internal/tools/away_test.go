package tools

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"mcpx/internal/operation"
	"mcpx/internal/work"
)

// noter keeps the last call.
type noter struct {
	passer
	last work.Call
}

func (n *noter) Do(ctx context.Context, c work.Call) operation.Answer {
	n.last = c
	return n.passer.Do(ctx, c)
}

// TestAwayDecidesNothing: a client of this machine may show forms to its user; one on another machine is asked nothing, and
// what it says that its user answered is not heard.
func TestAwayDecidesNothing(t *testing.T) {
	for _, away := range []bool{false, true} {
		n := &noter{}
		h, err := NewRuntime(RuntimeConfig{
			Worker: n, Version: "1", Log: slog.New(slog.DiscardHandler), Who: func(*http.Request) (string, bool) { return "", false },
			Remote: func(context.Context) (Caller, bool) {
				return Caller{Principal: "owner", Channel: "remote", ReadOnly: away, Away: away}, true
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		w := &wire{t: t, version: "2026-07-28", url: srv.URL}
		status, raw := w.post("tools/call", `{"name":"session","arguments":{"action":"list"},"requestState":"x","inputResponses":{"decision":{"action":"accept","content":{"decision":"approve"}}},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}`)
		if status != http.StatusOK || n.last.Tool != "session" || n.last.Channel != "remote" || n.last.ReadOnly != away {
			t.Fatalf("away %v: %d %s, %+v", away, status, raw, n.last)
		}
		if n.last.Forms == away || (n.last.Said == nil) != away {
			t.Errorf("away %v: forms %v, said %v", away, n.last.Forms, n.last.Said)
		}
	}
}
