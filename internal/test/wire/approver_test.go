package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/test/rig"
)

// TestRT26Token: RT-26. The token of an agent is refused on the interface of people, for each of its operations, and the log
// names the agent; mcpx connect still carries tokens over the same socket. That an approver cannot edit, and decides by the
// form of a client, is TestRT26Approver in work.
func TestRT26Token(t *testing.T) {
	g := rig.New(t)
	g.Serve()
	g.Must("token", "issue", "--agent", "codex", "--scope", "servers:use")
	token := strings.TrimSpace(g.Must("token", "print", "--agent", "codex", "--as", "value"))
	paths, err := api.FindPaths(func(name string) string { return map[string]string{"MCPX_HOME": g.Home}[name] })
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", paths.Socket())
	}}}
	defer client.CloseIdleConnections()
	ask := func(method, path, authorization string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, "http://mcpx"+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, op := range api.Ops {
		path := strings.NewReplacer("{", "", "}", "").Replace(op.Path)
		for _, authorization := range []string{"Bearer " + token, "Bearer x", "Basic eDp5"} {
			if status, body := ask(op.Method, path, authorization); status != http.StatusForbidden || !strings.Contains(body, "token-misplaced") {
				t.Errorf("%s with %.6s: %d %s", op.Name, authorization, status, body)
			}
		}
	}
	if status, body := ask(http.MethodGet, "/v1/approvals", ""); status != http.StatusOK {
		t.Errorf("without a token: %d %s", status, body)
	}
	if status, body := ask(http.MethodPost, "/mcp", "Bearer "+token); strings.Contains(body, "token-misplaced") {
		t.Errorf("at /mcp: %d %s", status, body)
	}
	var told []event.Event // the first one, and the others with the one that was the last
	refused := 0
	err = g.API().Events(t.Context(), api.EventsQuery{Kind: string(event.AuthTokenDenied)}, func(e event.Event) error {
		var body struct{ Count int }
		if err := json.Unmarshal(e.Body, &body); err != nil || strings.Contains(fmt.Sprintf("%+v %s", e, e.Body), token) {
			t.Errorf("%+v, %v", e, err)
		}
		told, refused = append(told, e), refused+body.Count
		return nil
	})
	if err != nil || len(told) != 2 || refused != 3*len(api.Ops) {
		t.Fatalf("%d refusals are told in %d events, %v", refused, len(told), err)
	}
	if of := told[0].Refs[event.RefAgent]; of != "codex" {
		t.Errorf("the first one is told of %q", of)
	}
}
