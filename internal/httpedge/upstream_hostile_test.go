package httpedge

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/rpc"
)

// upSay writes one SSE event and flushes it.
func upSay(w http.ResponseWriter, event string) {
	_, _ = io.WriteString(w, event) // the peer may be gone; that is what some tests want
	_ = http.NewResponseController(w).Flush()
}

func upStartSSE(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
}

// upBreak ends the connection without ending the response.
func upBreak() { panic(http.ErrAbortHandler) }

// upRead takes the whole body and gives its method and id.
func upRead(r *http.Request) (method, id string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", ""
	}
	m, err := rpc.Scan(body)
	if err != nil {
		return "", ""
	}
	return m.MethodOf(body), string(m.ID.Of(body))
}

func upAnswer(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{"ok":true}}` }

// upTestBody is a small bound for one message.
const upTestBody = 4 << 20

// One request against servers that do not answer it: the class says what became of the call, and nothing hangs.
func TestUpstreamFailures(t *testing.T) {
	type want struct {
		class  gateway.Class
		status int
		wait   time.Duration
		text   string // part of the text
	}
	for _, tc := range []struct {
		name   string
		serve  func(w http.ResponseWriter, r *http.Request)
		want   want
		modern want // the same if zero
	}{
		{
			name: "html page",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = io.WriteString(w, "<html>\n\x1b[31m<title>Log in</title> key sekret-value-1</html>")
			},
			want: want{gateway.SentUnknown, 200, 0, "200 OK without an answer to this request (text/html): <html> [31m<title>Log in</title> key (redacted)</html>"},
		},
		{
			name:  "empty 202",
			serve: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) },
			want:  want{gateway.SentUnknown, 202, 0, "202 Accepted without an answer"},
		},
		{
			name: "401",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`)
			},
			want: want{gateway.Unavailable, 401, 0, "sign-in required"},
		},
		{
			name:  "404 page without a session",
			serve: func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) },
			want:  want{gateway.NotSent, 404, 0, "404 Not Found (text/plain): 404 page not found"},
		},
		{
			name: "500",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "stack trace", http.StatusInternalServerError)
			},
			want: want{gateway.SentUnknown, 500, 0, "500 Internal Server Error"},
		},
		{
			name: "503 with Retry-After",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(http.StatusServiceUnavailable)
			},
			want: want{gateway.Unavailable, 503, 7 * time.Second, "503 Service Unavailable"},
		},
		{
			name: "429 with a long wait",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "99999999")
				w.WriteHeader(http.StatusTooManyRequests)
			},
			want: want{gateway.Unavailable, 429, time.Hour, "429"},
		},
		{
			name: "redirect to another origin",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/steal?key=1")
				w.WriteHeader(http.StatusTemporaryRedirect)
			},
			want: want{gateway.NotSent, 307, 0, "points to http://127.0.0.1:1/steal; only 307"},
		},
		{
			name: "redirect that changes the method",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(http.StatusFound)
			},
			want: want{gateway.NotSent, 302, 0, "/elsewhere"},
		},
		{
			name:  "connection broken before a response",
			serve: func(http.ResponseWriter, *http.Request) { upBreak() },
			want:  want{gateway.SentUnknown, 0, 0, "the connection broke before the answer: EOF"},
		},
		{
			name: "JSON cut in the middle",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Content-Length", "500")
				upSay(w, `{"jsonrpc":"2.0","id":1,`)
				upBreak()
			},
			want: want{gateway.SentUnknown, 0, 0, "unexpected EOF"},
		},
		{
			name: "whole JSON that is no message",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"status":"ok"}`)
			},
			want: want{gateway.AnsweredLost, 200, 0, "no answer to this request"},
		},
		{
			name: "answer to another request",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, upAnswer("77"))
			},
			want: want{gateway.AnsweredLost, 200, 0, "no answer to this request"},
		},
		{
			name: "stream broken without an event id",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				upStartSSE(w)
				upSay(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n")
				upBreak()
			},
			want: want{gateway.SentUnknown, 200, 0, "the stream of the call broke before the answer"},
		},
		{
			name:  "stream ended without an event id",
			serve: func(w http.ResponseWriter, _ *http.Request) { upStartSSE(w) },
			want:  want{gateway.SentUnknown, 200, 0, "broke before the answer: it ended"},
		},
		{
			name: "stream broken behind an event id, no resumption",
			serve: func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				upStartSSE(w)
				upSay(w, "id: 1\nretry: 1\ndata:\n\n")
				upBreak()
			},
			want:   want{gateway.SentUnknown, 200, 0, "could not be resumed: the server answered 405"},
			modern: want{gateway.SentUnknown, 200, 0, "the stream of the call broke before the answer"},
		},
		{
			name: "event above the limit",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				upStartSSE(w)
				upFlood(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"", upTestBody)
			},
			want: want{gateway.AnsweredLost, 200, 0, "larger than"},
		},
		{
			name: "body above the limit",
			serve: func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				upFlood(w, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"", upTestBody)
			},
			want: want{gateway.AnsweredLost, 200, 0, "larger than"},
		},
	} {
		for _, modern := range []bool{false, true} {
			t.Run(tc.name+map[bool]string{false: " legacy", true: " modern"}[modern], func(t *testing.T) {
				srv := upServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = upRead(r)
					tc.serve(w, r)
				}))
				l := upDial(t, srv.URL, upTestOpen{modern: modern, headers: map[string]string{"Authorization": "Bearer sekret-value-1"}, bounds: upBounds{body: upTestBody}})
				l.request(1, "tools/call", `{"name":"x"}`, "")
				l.sink.kind("written", 1)
				f := l.sink.kind("failed", 1).Fail
				w := tc.want
				if modern && tc.modern != (want{}) {
					w = tc.modern
				}
				got := want{f.Class, f.Status, f.Wait, w.text}
				if diff := cmp.Diff(w, got, cmp.AllowUnexported(want{})); diff != "" {
					t.Error(diff)
				}
				if !strings.Contains(f.Text, w.text) || len(f.Text) > upMaxText {
					t.Errorf("text %q, want %q in it", f.Text, w.text)
				}
			})
		}
	}
}

// upFlood writes start and then n bytes more.
func upFlood(w io.Writer, start string, n int) {
	_, _ = io.WriteString(w, start)
	chunk := strings.Repeat("x", 1<<20)
	for ; n > 0; n -= len(chunk) {
		if _, err := io.WriteString(w, chunk); err != nil {
			return
		}
	}
}

// A server that cannot be reached never got the request, and Written is not reported.
func TestUpstreamNotSent(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	l := upDial(t, url, upTestOpen{})
	l.request(1, "tools/call", "", "")
	f := l.sink.kind("failed", 1).Fail
	if f.Class != gateway.NotSent || !strings.Contains(f.Text, "connection refused") {
		t.Errorf("%+v, want not_sent with the reason", f)
	}
	if n := l.sink.count("written"); n != 0 {
		t.Error("written was reported")
	}
}

// A peer that accepts, reads and says garbage or half a header: sent, unknown; and one that never says a word is ended
// by Abort.
func TestUpstreamRawPeers(t *testing.T) {
	for _, tc := range []struct{ name, says, want string }{
		{"not HTTP", "SSH-2.0-OpenSSH_9.9\r\n", "malformed HTTP"},
		{"broken chunk", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}", "invalid byte in chunk length"},
		{"half a header", "HTTP/1.1 200 OK\r\nContent-Ty", "malformed MIME header"},
		{"broken chunk in a stream", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nid: 1\r\n-1\r\n", "broke before the answer"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := upDial(t, upRawPeer(t, tc.says, true), upTestOpen{})
			l.request(1, "tools/call", "", "")
			if f := l.sink.kind("failed", 1).Fail; f.Class != gateway.SentUnknown || !strings.Contains(f.Text, tc.want) {
				t.Errorf("%+v, want sent_unknown with %q", f, tc.want)
			}
		})
	}
	for _, tc := range []struct{ name, says string }{
		{"silent", ""},
		{"slow header", "HTTP/1.1 200 OK\r\nContent-"},
		{"slow body", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"},
		{"slow stream", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := upDial(t, upRawPeer(t, tc.says, false), upTestOpen{modern: true})
			l.request(1, "tools/call", "", "")
			l.sink.kind("written", 1)
			if !l.Abort(1) {
				t.Error("Abort returned false")
			}
			if err := l.Detach(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := l.sink.count("failed"); n != 0 {
				t.Error("an aborted request was reported as failed")
			}
		})
	}
}

// upRawPeer accepts connections, reads one request on each, writes says, and then closes or waits for the end.
func upRawPeer(t *testing.T, says string, closes bool) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				req, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(c, says)
				if !closes {
					_, _ = br.ReadByte() // until the link closes
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String() + "/mcp"
}

// The URL and the headers of an entry are checked before anything is sent, and no error repeats a secret.
func TestUpstreamOpenRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, url string
		headers   map[string]string
		want      fault.Kind
		code      string
	}{
		{"file", "file:///etc/passwd", nil, fault.Invalid, "url-invalid"},
		{"userinfo", "https://user:sekret@host/", nil, fault.Invalid, "url-invalid"},
		{"no host", "http:///mcp", nil, fault.Invalid, "url-invalid"},
		{"unparsable", "http://sekret\x7f/", nil, fault.Invalid, "url-invalid"},
		{"session header", "http://h/", map[string]string{"mcp-session-id": "sekret"}, fault.Invalid, "header-invalid"},
		{"framing header", "http://h/", map[string]string{"transfer-encoding": "sekret"}, fault.Invalid, "header-invalid"},
		{"header name", "http://h/", map[string]string{"a b": "sekret"}, fault.Invalid, "header-invalid"},
		{"header value", "http://h/", map[string]string{"X-A": "sekret\r\nX-B: 1"}, fault.Invalid, "header-invalid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := upTryDial(t, tc.url, upTestOpen{headers: tc.headers})
			if err == nil {
				t.Fatal("accepted")
			}
			f := fault.From(err)
			if f.Kind != tc.want || f.Code != tc.code || f.Hint == "" {
				t.Errorf("%s %s %q", f.Kind, f.Code, f.Hint)
			}
			if strings.Contains(fmt.Sprint(err, f.Hint), "sekret") {
				t.Errorf("the error repeats a secret: %v", err)
			}
		})
	}
}

// The outbound headers are an allow-list, and a redirect inside the origin is followed with body and headers.
func TestUpstreamHeaders(t *testing.T) {
	got := make(chan http.Header, 1)
	srv := upServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/final" {
			http.Redirect(w, r, "/final", http.StatusTemporaryRedirect)
			return
		}
		_, id := upRead(r)
		got <- r.Header
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, upAnswer(id))
	}))
	l := upDial(t, srv.URL+"/mcp?key=sekret", upTestOpen{modern: true, headers: map[string]string{"authorization": "Bearer abc", "X-Api-Key": "k"}})
	body := rpc.RequestMessage([]byte("9"), "tools/call", []byte(`{"name":"x"}`))
	l.send(gateway.Outbound{
		Body: body, Kind: rpc.Request, Ref: 9, Method: "tools/call", Version: "2026-07-28",
		Headers: map[string]string{"Mcp-Method": "tools/call", "mcp-name": "x", "Mcp-Param-A": "1", "Cookie": "c", "Authorization": "evil", "Mcp-Session-Id": "stale"},
	})
	l.sink.kind("deliver", 9)
	want := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "User-Agent": {"mcpx/test"},
		"Authorization": {"Bearer abc"}, "X-Api-Key": {"k"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"x"}, "Mcp-Param-A": {"1"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Content-Length": {strconv.Itoa(len(body))},
	}
	if diff := cmp.Diff(want, <-got); diff != "" {
		t.Error(diff)
	}
	if u := l.Info().URL; strings.Contains(u, "sekret") || !strings.HasSuffix(u, "/mcp") {
		t.Errorf("Info shows %s", u)
	}
}

// Bytes arrive as they were sent: a pretty-printed body, a batch split into its elements, several data lines joined.
func TestUpstreamBytes(t *testing.T) {
	pretty := "{\n  \"jsonrpc\": \"2.0\",\r\n  \"id\": 1, \"result\": {\"n\": 1.10, \"big\": 9007199254740993, \"s\": \"<\\u2028>\"}\n}"
	note := `{"jsonrpc":"2.0","method":"notifications/x","zeta":1,"alpha":2}`
	for _, tc := range []struct {
		name, kind, body string
		want             []string
		malformed, skips uint64
	}{
		{"pretty JSON", "application/json", " \n" + pretty + "\n", []string{pretty}, 0, 0},
		{"JSON without a type", "", upAnswer("1"), []string{upAnswer("1")}, 0, 0},
		{"batch", "application/json", "[" + note + " ,\n" + upAnswer("1") + "]", []string{note, upAnswer("1")}, 0, 0},
		{"batch in an event", "text/event-stream", "data: [" + upAnswer("1") + "," + note + "]\n\n", []string{upAnswer("1"), note}, 0, 0},
		{"several data lines", "text/event-stream; charset=utf-8", "event: message\ndata: {\"jsonrpc\":\"2.0\",\ndata:  \"id\":1,\"result\":{}}\n\n", []string{`{"jsonrpc":"2.0",  "id":1,"result":{}}`}, 0, 0},
		{"no blank line at the end", "text/event-stream", "data: " + upAnswer("1"), []string{upAnswer("1")}, 0, 0},
		{"noise", "text/event-stream", "event: ping\ndata: now\n\ndata: hello\n\ndata: {\"half\":\n\ndata: {\"x\":\"\xff\"}\n\n: c\n\ndata: " + upAnswer("1") + "\n\n", []string{upAnswer("1")}, 2, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := upServe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = upRead(r)
				w.Header()["Content-Type"] = []string{tc.kind}
				_, _ = io.WriteString(w, tc.body)
			}))
			l := upDial(t, srv.URL, upTestOpen{})
			l.request(1, "tools/call", "", "")
			for _, want := range tc.want {
				if got := string(l.sink.kind("deliver", 1).In.Body); got != want {
					t.Errorf("got  %q\nwant %q", got, want)
				}
			}
			if i := l.Info(); i.Malformed != tc.malformed || i.Skipped != tc.skips {
				t.Errorf("malformed %d, skipped %d; want %d, %d", i.Malformed, i.Skipped, tc.malformed, tc.skips)
			}
		})
	}
}
