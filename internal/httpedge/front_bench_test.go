package httpedge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// BenchmarkFront is one tools/call of 400 bytes over one connection of a session, beside a bare handler that answers as
// many bytes: the difference is what the front and the gateway cost. The backend answers in Send, so no process and no
// pipe is in it.
func BenchmarkFront(b *testing.B) {
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + strings.Repeat("x", 300) + `"}}}`
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"ok":true}}`) // the client counts what arrives
	}))
	b.Cleanup(bare.Close)
	served, _ := front(b)
	session := open(b, served+"/servers/a/mcp", "2025-06-18")
	for _, x := range []struct{ name, base string }{{"bare", bare.URL}, {"mcpx", served}} {
		b.Run(x.name, func(b *testing.B) {
			at, err := url.Parse(x.base)
			if err != nil {
				b.Fatal(err)
			}
			c, err := net.Dial("tcp", at.Host)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			request := fmt.Appendf(nil, "POST /servers/a/mcp HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer owner\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: %s\r\nMcp-Protocol-Version: 2025-06-18\r\nContent-Length: %d\r\n\r\n%s", at.Host, session, len(body), body)
			answers := bufio.NewReader(c)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Write(request); err != nil {
					b.Fatal(err)
				}
				resp, err := http.ReadResponse(answers, nil)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				if err != nil || n == 0 || resp.StatusCode != 200 {
					b.Fatalf("status %d, %d bytes, %v", resp.StatusCode, n, err)
				}
				resp.Body.Close()
			}
		})
	}
}
