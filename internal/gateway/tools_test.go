package gateway

import (
	"context"
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/rpc"
)

// holding holds back every tool whose description says so.
type holding struct{ news chan string }

func (h *holding) Held(string) map[string]bool { return map[string]bool{"bad": true} }

func (h *holding) List(_ string, page [][]byte) (mask []bool, news bool) {
	mask = make([]bool, len(page))
	for i, tool := range page {
		mask[i] = strings.Contains(string(tool), "held")
	}
	return mask, true
}

func (h *holding) News(_ context.Context, server string) { h.news <- server }

// TestHeldTools: in every cell a tool that is held back stands in no list and cannot be called; every other byte of the
// list stays. The daemon's own client sees all tools.
func TestHeldTools(t *testing.T) {
	const tools = `[{"name":"a","n":9007199254740993} , {"name":"bad","description":"held"},{"name":"\u0062","x":1e3}]`
	const left = `[{"name":"a","n":9007199254740993},{"name":"\u0062","x":1e3}]`
	answer := func(l *peerLink, m Outbound, msg rpc.Message) {
		switch m.Method {
		case "tools/list":
			cursor := `,"nextCursor":"c"`
			if strings.Contains(string(m.Body), `"cursor"`) {
				cursor = ""
			}
			l.result(m, msg, `{"tools":`+tools+cursor+`,"vendor":1.10}`)
		case "tools/call":
			l.result(m, msg, `{"content":[]}`)
		}
	}
	modernList := func() *peer {
		p := modernPeer(t, func(*peerLink, Outbound, rpc.Message) {})
		base := p.handle
		p.handle = func(l *peerLink, m Outbound, msg rpc.Message) {
			if m.Method == "tools/list" || m.Method == "tools/call" {
				answer(l, m, msg)
				return
			}
			base(l, m, msg)
		}
		return p
	}
	type ask func(t *testing.T, s *Server, method, params string) string
	legacy := func(t *testing.T, s *Server, method, params string) string {
		got, _ := reply(t, send(t, initialize(t, s, "2025-11-25", "{}"), `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
		return got
	}
	now := func(t *testing.T, s *Server, method, params string) string {
		got, _ := reply(t, modern(t, s, "1", method, params, "{}").Follow())
		return got
	}
	for _, tc := range []struct {
		name string
		peer *peer
		edit func(*catalog.Server)
		ask  ask
	}{
		{"legacy on legacy", legacyPeer(t, answer), nil, legacy},
		{"legacy on legacy, shared", legacyPeer(t, answer), global, legacy},
		{"legacy on modern", modernList(), nil, legacy},
		{"modern on modern", modernList(), nil, now},
		{"modern on legacy", legacyPeer(t, answer), nil, now},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newRig(t, tc.peer, tc.edit)
			h := &holding{news: make(chan string, 8)}
			s.g.cfg.Tools = h
			list := tc.ask(t, s, "tools/list", "{}")
			if !strings.Contains(list, `"tools":`+left) || !strings.Contains(list, `"nextCursor":"c"`) || !strings.Contains(list, `"vendor":1.10`) {
				t.Errorf("the client got %s", list)
			}
			if id := <-h.news; id != "srv_1" {
				t.Errorf("news of %s", id)
			}
			got := tc.ask(t, s, "tools/call", `{"name":"bad","arguments":{}}`)
			if member(t, got, "error", "code") != -32602.0 || !strings.Contains(got, "mcpx catalog review peer --tools") {
				t.Errorf("a call of a tool that is held got %s", got)
			}
			if got := tc.ask(t, s, "tools/call", `{"name":"a","arguments":{}}`); strings.Contains(got, `"error"`) {
				t.Errorf("a call of another tool got %s", got)
			}
			for _, l := range tc.peer.opened() {
				if seen := strings.Join(l.messages(), "\n"); strings.Contains(seen, `"bad"`) {
					t.Errorf("the backend got the call:\n%s", seen)
				}
			}
			own, err := s.g.Call(t.Context(), Request{As: Caller{Principal: "owner", Local: true}, Server: "peer", Method: "tools/list"})
			if err != nil || !strings.Contains(string(own), `"bad"`) {
				t.Errorf("the daemon's own client got %s, %v", own, err)
			}
		})
	}
}
