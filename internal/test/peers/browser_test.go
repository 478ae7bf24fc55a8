//go:build unix

package peers

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// browserWithin bounds the life of a browser, and how long a page takes.
const browserWithin = 2 * time.Minute

// browser is Chromium without a window, led over the DevTools protocol through a pipe: a JSON message with a zero byte at its
// end, on descriptors 3 and 4.
type browser struct {
	t       *testing.T
	to      io.Writer
	from    *bufio.Reader
	last    int
	page    string   // session of the page
	refused []string // what the policy of a page kept out
}

// message is what either side sends.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// chromium is the browser of the system, the one without a window first.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "chromium"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	rig.Missing(t, "chromium-headless-shell")
	return ""
}

// openBrowser starts Chromium with an empty page. It ends with the test, or after browserWithin.
func openBrowser(t *testing.T, program string, more ...string) *browser {
	t.Helper()
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	dir, env := home(t)
	// The sandbox of the browser needs what a container may not have, and it only shows our own pages here.
	cmd := exec.Command(program, append(more, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--user-data-dir="+dir, "--remote-debugging-pipe", "about:blank")...)
	cmd.Env, cmd.Dir, cmd.ExtraFiles = env, dir, []*os.File{theirs, ours}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := time.AfterFunc(browserWithin, func() { endGroup(cmd) })
	t.Cleanup(func() {
		stop.Stop()
		endGroup(cmd)
		_ = cmd.Wait()                            // it was killed
		_ = errors.Join(to.Close(), from.Close()) // nothing is in them that counts
	})
	if err := errors.Join(theirs.Close(), ours.Close()); err != nil { // else its end would be no end of what we read
		t.Fatal(err)
	}
	b := &browser{t: t, to: to, from: bufio.NewReader(from)}
	var page struct {
		Target  string `json:"targetId"`
		Session string `json:"sessionId"`
	}
	b.do("Target.createTarget", map[string]any{"url": "about:blank", "width": 760, "height": 810}, &page)
	b.do("Target.attachToTarget", map[string]any{"targetId": page.Target, "flatten": true}, &page)
	b.page = page.Session
	b.do("Log.enable", nil, nil)
	return b
}

// do calls a method of the page and waits for its result. What the browser tells meanwhile is kept when a policy was the
// cause.
func (b *browser) do(method string, params, result any) {
	b.t.Helper()
	b.last++
	raw, err := json.Marshal(message{ID: b.last, Session: b.page, Method: method, Params: params})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(raw, 0)); err != nil {
		b.t.Fatal(err)
	}
	for {
		raw, err := b.from.ReadBytes(0)
		if err != nil {
			b.t.Fatalf("%s: the browser has ended: %v", method, err)
		}
		raw = raw[:len(raw)-1]
		var m message
		if err := json.Unmarshal(raw, &m); err != nil {
			b.t.Fatalf("%s: %v", raw, err)
		}
		if m.Method != "" && strings.Contains(string(raw), "Content Security Policy") {
			b.refused = append(b.refused, string(raw))
		}
		if m.ID != b.last {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %s: %v", method, m.Result, err)
			}
		}
		return
	}
}

// eval is the text that an expression gives in the page, "" while there is none.
func (b *browser) eval(expression string) string {
	b.t.Helper()
	var out struct {
		Result struct{ Value any }
	}
	b.do("Runtime.evaluate", map[string]any{"expression": expression}, &out)
	if out.Result.Value == nil {
		return ""
	}
	return fmt.Sprint(out.Result.Value)
}

// shows waits until the text of the page has this part, and returns all of it.
func (b *browser) shows(text string) string {
	b.t.Helper()
	var seen string
	rig.Until(b.t, browserWithin, "the page shows "+text, func() bool {
		seen = b.eval("document.readyState == 'complete' ? document.body.innerText : ''")
		return strings.Contains(seen, text)
	})
	return seen
}

// presses types a text where the cursor is, and Enter.
func (b *browser) presses(text string) {
	b.t.Helper()
	b.do("Input.insertText", map[string]any{"text": text}, nil)
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.do("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}, nil)
	}
}

// picture is the page as it looks in a scheme of colors, as PNG.
func (b *browser) picture(scheme string) []byte {
	b.t.Helper()
	b.do("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	var out struct{ Data string }
	b.do("Page.captureScreenshot", map[string]any{"format": "png"}, &out)
	raw, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		b.t.Fatal(err)
	}
	return raw
}

// TestRemoteBrowser is a web client and a person with Chromium. The client knows the address alone; its page leads the browser
// to ours, a wrong code is refused there, and the right one leads back to the client, over the policy of our page. With
// MCPX_PICTURES=1 the page is painted into docs. Behind a tunnel the browser comes over plain HTTP of this machine; with a
// certificate it sees TLS, and the cookie has the name that it takes from nobody else.
func TestRemoteBrowser(t *testing.T) {
	program := chromium(t)
	t.Run("behind a tunnel", func(t *testing.T) {
		letInByBrowser(t, openAway(t), openBrowser(t, program), "localhost")
	})
	t.Run("a client at an IPv6 address", func(t *testing.T) { // which no policy can name
		letInByBrowser(t, openAway(t), openBrowser(t, program), "::1")
	})
	t.Run("with a certificate", func(t *testing.T) {
		site := httptest.NewTLSServer(http.NotFoundHandler())
		defer site.Close()
		key := sha256.Sum256(site.Certificate().RawSubjectPublicKeyInfo)
		b := openBrowser(t, program, "--ignore-certificate-errors-spki-list="+base64.StdEncoding.EncodeToString(key[:])) // this one only
		letInByBrowser(t, openAwayTLS(t, site), b, "localhost")
	})
}

// letInByBrowser is what a person does who is led to us by a web client at a host of this machine, the call of that client, and
// what becomes of our page in a frame of it.
func letInByBrowser(t *testing.T, a away, b *browser, host string) {
	t.Helper()
	m := a.discover()

	answers := make(chan url.Values, 1)
	var begin string
	mux := http.NewServeMux()
	mux.HandleFunc("/begin", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, begin, http.StatusFound) })
	mux.HandleFunc("/callback", func(w http.ResponseWriter, r *http.Request) {
		answers <- r.URL.Query()
		_, _ = io.WriteString(w, "the client goes on")
	})
	mux.HandleFunc("/frame", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `<p>a game</p><iframe src="/begin"></iframe>`)
	})
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skip("skip: IPv6: ", err)
	}
	site := httptest.NewUnstartedServer(mux)
	_ = site.Listener.Close() // nobody came
	site.Listener = l
	site.Start()
	defer site.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	chat := "http://" + net.JoinHostPort(host, port) // another site than ours, for the browser

	redirect := chat + "/callback"
	client := m.register(t, "Example Chat", redirect)
	verifier := rand.Text() + rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	begin = m.Authorize + "?" + url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {redirect}, "resource": {m.Resource}, "state": {"of the client"},
		"scope": {"runtime:read runtime:use"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}.Encode()

	b.do("Page.navigate", map[string]any{"url": chat + "/begin"}, nil)
	request := part(t, shownRequest, b.shows("mcpx remote approve"))
	if cookie := b.cookie(m.Issuer); cookie.Secure != strings.HasPrefix(a.base, "https:") || strings.HasPrefix(cookie.Name, "__Host-") != cookie.Secure || !cookie.HTTPOnly || cookie.SameSite != "Strict" {
		t.Errorf("the browser keeps the cookie %+v", cookie)
	}
	pictures(t, b)
	b.presses("2222-2222")
	b.shows("4 of 5 tries are left")
	b.presses(strings.ToLower(a.approve(request)))
	b.shows("the client goes on")
	if len(b.refused) > 0 {
		t.Errorf("the policy of the page kept out: %s", b.refused)
	}

	answer := <-answers
	if answer.Get("state") != "of the client" || answer.Get("iss") != m.Issuer {
		t.Errorf("the client was answered %v", answer)
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	raw, _ := exchange(t, a.http, http.StatusOK, http.MethodPost, m.Token, url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")}, "client_id": {client}, "redirect_uri": {redirect},
		"code_verifier": {verifier}, "resource": {m.Resource},
	})
	if err := json.Unmarshal([]byte(raw), &tokens); err != nil {
		t.Fatal(err)
	}
	call := rig.NewClient(t, m.Resource)
	call.Over(a.http)
	call.Version = legacy
	call.Header.Set("Authorization", "Bearer "+tokens.Access)
	called := string(call.Post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"session","arguments":{"action":"list"}}}`).Answer(t))
	if !answerOf(t, called).OK {
		t.Errorf("the call did not succeed: %s", called)
	}

	b.do("Page.navigate", map[string]any{"url": chat + "/frame"}, nil)
	b.shows("a game")
	rig.Until(t, browserWithin, "the frame is refused and recorded", func() bool {
		return strings.Contains(a.Must("audit", "list", "--kind", "remote.refused", "--json"), "remote-page-framed")
	})
	if waits := a.Must("remote", "requests"); !strings.Contains(waits, "No client asks") {
		t.Errorf("the frame opened a question:\n%s", waits)
	}
}

// kept is a cookie as the browser keeps it.
type kept struct {
	Name     string
	SameSite string
	Secure   bool
	HTTPOnly bool
}

// cookie is the only cookie that the browser keeps for an address.
func (b *browser) cookie(address string) kept {
	b.t.Helper()
	var all struct{ Cookies []kept }
	b.do("Network.getCookies", map[string]any{"urls": []string{address}}, &all)
	if len(all.Cookies) != 1 {
		b.t.Fatalf("the browser keeps %+v for %s", all.Cookies, address)
	}
	return all.Cookies[0]
}

// pictures paints the page in both schemes of colors; they differ.
func pictures(t *testing.T, b *browser) {
	t.Helper()
	painted := map[string][]byte{"light": b.picture("light"), "dark": b.picture("dark")}
	if bytes.Equal(painted["light"], painted["dark"]) {
		t.Error("the page looks alike in the dark")
	}
	if os.Getenv("MCPX_PICTURES") == "" {
		return
	}
	for scheme, png := range painted {
		if err := os.WriteFile(filepath.Join(rig.Root(t), "docs", "remote-consent-"+scheme+".png"), png, 0o644); err != nil { //nolint:gosec // a picture for everybody
			t.Fatal(err)
		}
	}
}
