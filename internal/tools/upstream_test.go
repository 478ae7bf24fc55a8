package tools

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"mcpx/internal/operation"
	"mcpx/internal/work"
)

// passer answers every call with the result of another server.
type passer struct{ result string }

func (p passer) Tools() []work.Tool {
	return []work.Tool{{Name: "call_tool", Description: "d", Args: work.CallTool{}}, {Name: "session", Description: "d", Args: work.Session{}}}
}

func (p passer) Do(_ context.Context, c work.Call) operation.Answer {
	a := operation.Answer{OK: true, Status: operation.OutcomeSucceeded}
	if c.Tool == "session" {
		a.Data = json.RawMessage(`{"plain":true}`)
		return a
	}
	a.Operation = &operation.Standing{ID: "call-00001", State: operation.Succeeded}
	a.Upstream = json.RawMessage(p.result)
	return a
}

// TestRT130OnTheWire: what a server said is in the response of every revision, with what mcpx says beside it.
func TestRT130OnTheWire(t *testing.T) {
	result := `{"content":[{"type":"hologram","depth":9007199254740993,"x":1.50}],"structuredContent":{"n":18446744073709551616},"vendor":[1e3],"isError":true,"resultType":"complete","_meta":{"vendor/a":1}}`
	h, err := NewRuntime(RuntimeConfig{
		Worker: passer{result}, Version: "1", Log: slog.New(slog.DiscardHandler), Who: func(*http.Request) (string, bool) { return "owner", true }, Remote: nobody,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	for version, c := range map[string]struct{ has, lacks []string }{
		"2026-07-28": {[]string{`"resultType":"complete"`, `"structuredContent":{"n":18446744073709551616}`}, nil},
		"2025-11-25": {[]string{`"structuredContent":{"n":18446744073709551616}`}, []string{"resultType"}},
		"2024-11-05": {[]string{`18446744073709551616`}, []string{"resultType", "structuredContent"}},
	} {
		t.Run(version, func(t *testing.T) {
			w := &wire{t: t, version: version, url: srv.URL}
			meta := ""
			if version == "2026-07-28" {
				meta = `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
			}
			status, raw := w.post("tools/call", `{"name":"call_tool","arguments":{}`+meta+`}`)
			body := string(raw)
			for _, part := range append(c.has, `"type":"hologram"`, `"depth":9007199254740993`, `"x":1.50`, `"vendor":[1e3]`, `"isError":true`, `"vendor/a":1`, `"mcpx/operation":{"ok":true,"status":"succeeded","operation":{"id":"call-00001"`) {
				if !strings.Contains(body, part) {
					t.Errorf("%d: there is no %s in %s", status, part, body)
				}
			}
			for _, part := range append(c.lacks, markMeta) {
				if strings.Contains(body, part) {
					t.Errorf("there is %s in %s", part, body)
				}
			}
			if strings.Count(body, "hologram") != 1 || !json.Valid(raw) {
				t.Errorf("%s", body)
			}
		})
	}
	t.Run("batch", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, strings.NewReader(
			`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"call_tool","arguments":{}}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"session","arguments":{"action":"list"}}},{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"call_tool","arguments":{}}}]`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(headerVersion, "2025-03-26")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		raw, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		var all []struct {
			ID     int
			Result struct {
				Content []map[string]any
				Meta    map[string]any `json:"_meta"`
			}
		}
		if err := json.Unmarshal(raw, &all); err != nil || len(all) != 3 {
			t.Fatalf("%s: %v", raw, err)
		}
		for _, one := range all {
			if passed := one.Result.Content[0]["type"] == "hologram"; passed != (one.ID != 2) || passed != (one.Result.Meta[operationMeta] != nil) {
				t.Errorf("message %d: %+v", one.ID, one.Result)
			}
		}
	})
}
