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
	"time"

	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// TestRefusedBodies is (14), (15) and (17): what is ambiguous or no message is refused before the backend sees it.
func TestRefusedBodies(t *testing.T) {
	g := rig.Start(t)
	record := g.Home + "/refused.record"
	g.Add("refused", rig.Fixture(t, fakemcp.Options{Era: fakemcp.Dual, Record: record}))
	l := lane{url: g.URL("refused"), record: record}
	c := l.client(t, `{}`)
	modern := rig.NewClient(t, l.url)
	meta := `,"params":{"_meta":{` + rig.Envelope(`{}`) + `}}`
	for _, x := range []struct {
		name, body   string
		status, code int
	}{
		{"not JSON", `{"jsonrpc":"2.0","id":1,`, 400, -32700},
		{"empty", ``, 400, -32700},
		{"not UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\xff\"}", 400, -32700},
		{"a string", `"hello"`, 400, -32600},
		{"duplicate id", `{"jsonrpc":"2.0","id":1,"id":2,"method":"REFUSED"%s}`, 400, -32600},
		{"duplicate method", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"REFUSED"%s}`, 400, -32600},
		{"duplicate in escapes", `{"jsonrpc":"2.0","id":1,"method":"ping","m\u0065thod":"REFUSED"%s}`, 400, -32600},
		{"duplicate params", `{"jsonrpc":"2.0","id":1,"method":"REFUSED","params":{}%s,"params":{}}`, 400, -32600},
		{"id is an object", `{"jsonrpc":"2.0","id":{},"method":"REFUSED"%s}`, 400, -32600},
		{"id is a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"REFUSED"%s}`, 400, -32600},
		{"id above 1 KiB", `{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 1200) + `","method":"REFUSED"%s}`, 400, -32600},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"REFUSED"%s}]`, 400, -32600},
	} {
		for era, client := range map[string]*rig.Client{"legacy": c, "modern": modern} {
			t.Run(x.name+" "+era, func(t *testing.T) {
				body := x.body
				if strings.Contains(body, "%s") && era == "modern" {
					body = fmt.Sprintf(body, meta)
				} else {
					body = strings.ReplaceAll(body, "%s", "")
				}
				if era == "modern" && x.name == "duplicate params" {
					return // the envelope is the duplicate
				}
				client.Header.Set("MCP-Protocol-Version", map[string]string{"legacy": "2025-11-25", "modern": "2026-07-28"}[era])
				r := client.Post(body)
				if r.Status != x.status {
					t.Errorf("HTTP %d, want %d: %s", r.Status, x.status, clip(string(r.Body)))
				}
				var answer struct{ Error struct{ Code int } }
				if err := json.Unmarshal(r.Body, &answer); err != nil || answer.Error.Code != x.code {
					t.Errorf("code %d, want %d (%v): %s", answer.Error.Code, x.code, err, clip(string(r.Body)))
				}
			})
		}
	}
	stillWorks(t, c)
	if seen := l.recorded(t, `"jsonrpc"`); strings.Contains(seen, "REFUSED") {
		t.Errorf("the backend read a refused message: %s", seen)
	}
}

// TestBatchOfOldRevision is the other half of (14): 2025-03-26 sessions may send batches.
func TestBatchOfOldRevision(t *testing.T) {
	stdioPair(t, fakemcp.Options{}, func(t *testing.T, _ *rig.Gateway, l lane) {
		c := rig.Open(t, l.url, "2025-03-26", `{}`)
		reply := c.Post(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/vendor/b"},{"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"echo","arguments":{"message":"b"}}}]`)
		var answers []struct{ ID json.RawMessage }
		body := reply.Body
		if len(reply.Messages) > 1 {
			body = []byte("[" + strings.Join(texts(reply.Messages), ",") + "]")
		}
		if err := json.Unmarshal(body, &answers); err != nil || len(answers) != 2 {
			t.Fatalf("want two answers: HTTP %d %v %s", reply.Status, err, reply.Body)
		}
		ids := string(answers[0].ID) + string(answers[1].ID)
		if ids != `1"two"` && ids != `"two"1` {
			t.Errorf("answers to %s, want 1 and \"two\"", ids)
		}
	})
}

func texts(messages [][]byte) []string {
	var all []string
	for _, m := range messages {
		all = append(all, string(m))
	}
	return all
}

// TestRequestLimit posts more than 16 MiB.
func TestRequestLimit(t *testing.T) {
	g := rig.Start(t)
	g.Add("limit", rig.Fixture(t, fakemcp.Options{}))
	l := lane{url: g.URL("limit")}
	c := l.client(t, `{}`)
	reply, err := c.Try(context.Background(), raw("1", "", done+strings.Repeat(" ", 17<<20)))
	if err == nil && reply.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("HTTP %d, want 413: %s", reply.Status, clip(string(reply.Body)))
	} // an error: the gateway closed the connection while the body was being sent, which is an answer too
	stillWorks(t, c)
}

// TestModernHeaders is (22) to (24): what the headers say must agree with the body, in every spelling.
func TestModernHeaders(t *testing.T) {
	g := rig.Start(t)
	record := g.Home + "/headers.record"
	g.Add("headers", rig.Fixture(t, fakemcp.Options{Era: fakemcp.Modern, Record: record}))
	l := lane{url: g.URL("headers"), record: record, modern: true}
	for _, x := range []struct {
		name      string
		tool      string
		arguments string
		headers   map[string]string
		status    int
	}{
		{"plain name", "echo", `{}`, map[string]string{"Mcp-Name": "echo"}, 200},
		{"name in spaces", "echo", `{}`, map[string]string{"Mcp-Name": "  echo "}, 200},
		{"name encoded", "echo", `{}`, map[string]string{"Mcp-Name": "=?base64?ZWNobw==?="}, 200},
		{"name in another case", "echo", `{}`, map[string]string{"Mcp-Name": "Echo"}, 400},
		{"padding missing", "echo", `{}`, map[string]string{"Mcp-Name": "=?base64?ZWNobw?="}, 400},
		{"no name", "echo", `{}`, map[string]string{"Mcp-Name": ""}, 400},
		{"wrong method", "echo", `{}`, map[string]string{"Mcp-Method": "tools/list"}, 400},
		{"no method", "echo", `{}`, map[string]string{"Mcp-Method": ""}, 400},
		{"non-ASCII name", "weiß/日本", `{}`, map[string]string{"Mcp-Name": rig.EncodeHeader("weiß/日本")}, 200},
		{"string parameter", "headers", `{"region":"eu"}`, map[string]string{"Mcp-Param-Region": "eu"}, 200},
		{"string parameter differs", "headers", `{"region":"eu"}`, map[string]string{"Mcp-Param-Region": "us"}, 400},
		{"string parameter encoded", "headers", `{"region":"é"}`, map[string]string{"Mcp-Param-Region": rig.EncodeHeader("é")}, 200},
		{"integer as 42.0", "headers", `{"count":42}`, map[string]string{"Mcp-Param-Count": "42.0"}, 200},
		{"body as 42.0", "headers", `{"count":42.0}`, map[string]string{"Mcp-Param-Count": "42"}, 200},
		{"integer differs", "headers", `{"count":42}`, map[string]string{"Mcp-Param-Count": "43"}, 400},
		{"null parameter", "headers", `{"region":null}`, nil, 200},
		{"absent parameter", "headers", `{}`, nil, 200},
		{"parameter without header", "headers", `{"region":"eu"}`, nil, 400},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := rig.NewClient(t, l.url)
			for name, value := range x.headers {
				c.Header[http.CanonicalHeaderKey(name)] = []string{value}
				if value == "" {
					c.Header[http.CanonicalHeaderKey(name)] = nil
				}
			}
			mark := quote("mark " + x.name)
			r := c.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + l.params(`"name":`+quote(x.tool)+`,"arguments":`+x.arguments+`,"mark":`+mark) + `}`)
			if r.Status != x.status {
				t.Fatalf("HTTP %d, want %d: %s", r.Status, x.status, clip(string(r.Body)))
			}
			if x.status == 400 {
				var answer struct {
					ID    json.RawMessage
					Error struct{ Code int }
				}
				if err := json.Unmarshal(r.Body, &answer); err != nil || answer.Error.Code != -32020 || string(answer.ID) != "1" {
					t.Errorf("want -32020 with id 1: %v %s", err, r.Body)
				}
				return
			}
			if seen := l.recorded(t, mark); !strings.Contains(seen, x.arguments) {
				t.Errorf("the backend read other arguments: %s", seen)
			}
		})
	}
}

// TestForeignHostAndOrigin is F-58: a web page or a rebound name gets nothing, on any route.
func TestForeignHostAndOrigin(t *testing.T) {
	g := rig.Start(t)
	g.Add("hosts", rig.Fixture(t, fakemcp.Options{}))
	for _, path := range []string{"/servers/hosts/mcp", "/servers/none/mcp", "/healthz", "/readyz", "/"} {
		for _, x := range []struct {
			host, origin string
			refused      bool
		}{
			{"", "", false},
			{"localhost", "", false},
			{"[::1]:1", "", false},
			{"", "http://localhost:3000", false},
			{"", "http://127.0.0.1:5", false},
			{"evil.example", "", true},
			{"127.0.0.1.evil.example", "", true},
			{"", "http://evil.example", true},
			{"", "null", true},
			{"", "http://localhost.evil.example", true},
		} {
			req, err := http.NewRequest(http.MethodPost, "http://"+g.Addr+path, strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			if x.host != "" {
				req.Host = x.host
			}
			if x.origin != "" {
				req.Header.Set("Origin", x.origin)
			}
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close() // only the status matters
			if refused := resp.StatusCode == http.StatusForbidden; refused != x.refused {
				t.Errorf("%s with Host %q and Origin %q: HTTP %d, want 403: %v", path, x.host, x.origin, resp.StatusCode, x.refused)
			}
			if cors := resp.Header.Get("Access-Control-Allow-Origin"); cors != "" {
				t.Errorf("%s reflects an origin: %s", path, cors)
			}
		}
	}
	// Refused before the body is read: the body of this request never comes.
	conn, err := net.Dial("tcp", g.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(slack)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /servers/hosts/mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64)
	n, err := conn.Read(buf)
	if err != nil || !strings.Contains(string(buf[:n]), " 403 ") {
		t.Errorf("a foreign host waited for its body: %v %q", err, buf[:n])
	}
}
