package wire

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// chat is a client on another machine, and the browser in front of its user.
type chat struct {
	t        *testing.T
	g        *rig.Gateway
	base     string
	id       string
	verifier string
	client   *http.Client
	secrets  []string // codes, cookies, verifiers and tokens, as they were made
	seen     []string // pages
}

// callback is where the client is heard. Nobody listens there: the browser is told to go, and does not.
const callback = "http://127.0.0.1:1/callback"

// remote turns remote access on and registers a client.
func remote(t *testing.T, g *rig.Gateway) *chat {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := &chat{t: t, g: g, base: "http://" + address, verifier: rand.Text() + rand.Text(), client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	t.Cleanup(c.client.CloseIdleConnections)
	t.Cleanup(c.nowhere)
	g.Person("remote", "on", "--url", c.base, "--address", address)
	c.id = c.register()
	return c
}

// nowhere looks for what is secret, after all that a test did: in the files of the home, with the log and the database, in the
// events, in what the daemon printed, and in the words of each process; on the page for the code that the person was given.
func (c *chat) nowhere() {
	c.t.Helper()
	c.secrets = append(c.secrets, c.verifier, "Bearer mcpx")
	places := map[string]string{"the output of the daemon": c.g.Log(), "a page": strings.Join(c.seen, "\n")}
	if !c.g.Ended() {
		places["the events"] = c.g.Must("audit", "list", "--json", "--last", "0")
	}
	words, _ := filepath.Glob("/proc/[0-9]*/cmdline") // none where there is no such directory
	for _, file := range words {
		text, _ := os.ReadFile(file) // it has just ended
		places[file] = string(text)
	}
	err := filepath.WalkDir(c.g.Home, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, _ := os.ReadFile(path) // it has just been removed
			places[path] = string(text)
		}
		return nil
	})
	if err != nil {
		c.t.Error(err)
	}
	for place, text := range places {
		for _, secret := range c.secrets {
			if strings.Contains(text, secret) {
				c.t.Errorf("%s has %s...", place, secret[:4])
			}
		}
	}
}

// heard is what a response says before its body.
type heard struct {
	StatusCode int
	Header     http.Header
	Cookies    []*http.Cookie
}

func (c *chat) do(method, path, body string, headers map[string]string) (heard, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	answer, err := c.client.Do(r)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		c.seen = append(c.seen, string(text))
	}
	return heard{answer.StatusCode, answer.Header, answer.Cookies()}, string(text)
}

func (c *chat) register() string {
	c.t.Helper()
	answer, text := c.do("POST", "/register", `{"client_name":"Chat","redirect_uris":["`+callback+`"]}`, nil)
	var out struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(text), &out); err != nil || answer.StatusCode != http.StatusCreated {
		c.t.Fatalf("%d %s", answer.StatusCode, text)
	}
	return out.ID
}

// request is what the client sends the browser with; more has other values for some of it, "" none.
func (c *chat) request(more map[string]string) string {
	sum := sha256.Sum256([]byte(c.verifier))
	all := map[string]string{
		"response_type": "code", "client_id": c.id, "redirect_uri": callback, "state": "s-1", "scope": "runtime:read runtime:use", "resource": c.base + "/mcp",
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
	}
	maps.Copy(all, more)
	query := url.Values{}
	for name, value := range all {
		if value != "" {
			query.Set(name, value)
		}
	}
	return "/authorize?" + query.Encode()
}

// page is a question as a browser has it.
type page struct{ request, mark, cookie string }

var (
	requestShown = regexp.MustCompile(`mcpx remote approve (\w+)`)
	markShown    = regexp.MustCompile(`name="mark" value="(\w+)"`)
	backShown    = regexp.MustCompile(`<a href="([^"]+)"`)
	spokenShown  = regexp.MustCompile(`in the browser: (\S+)`)
)

// ask opens the page.
func (c *chat) ask() page {
	c.t.Helper()
	answer, text := c.do("GET", c.request(nil), "", nil)
	request, mark := requestShown.FindStringSubmatch(text), markShown.FindStringSubmatch(text)
	if answer.StatusCode != http.StatusOK || request == nil || mark == nil || len(answer.Cookies) != 1 {
		c.t.Fatalf("%d %v %s", answer.StatusCode, answer.Header, text)
	}
	cookie := answer.Cookies[0]
	c.secrets = append(c.secrets, cookie.Value)
	return page{request[1], mark[1], cookie.Name + "=" + cookie.Value}
}

// approve is the yes of the person, with more words than that: the code.
func (c *chat) approve(p page, words ...string) string {
	c.t.Helper()
	code := spokenShown.FindStringSubmatch(c.g.Person(append([]string{"remote", "approve", p.request}, words...)...))
	if code == nil {
		c.t.Fatal("no code was shown")
	}
	c.secrets = append(c.secrets, code[1], strings.ReplaceAll(code[1], "-", ""))
	return code[1]
}

// submit sends the form of a page.
func (c *chat) submit(p page, code string, headers map[string]string) (heard, string) {
	c.t.Helper()
	all := map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Cookie": p.cookie, "Origin": c.base}
	maps.Copy(all, headers)
	form := url.Values{"request": {p.request}, "mark": {p.mark}, "code": {code}, "answer": {"yes"}}
	answer, text := c.do("POST", "/authorize", form.Encode(), all)
	if to, err := url.Parse(answer.Header.Get("Location")); err == nil && to.Query().Has("code") {
		c.secrets = append(c.secrets, to.Query().Get("code"))
	}
	return answer, text
}

// let takes the client to its authorization code.
func (c *chat) let() string {
	c.t.Helper()
	p := c.ask()
	answer, text := c.submit(p, c.approve(p), nil)
	to, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || answer.StatusCode != http.StatusSeeOther || to.Query().Get("state") != "s-1" || to.Query().Get("iss") != c.base {
		c.t.Fatalf("%d %v %s", answer.StatusCode, answer.Header, text)
	}
	return to.Query().Get("code")
}

// pair are the tokens of a client.
type pair struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
	Error   string `json:"error"`
}

// exchange calls the token endpoint.
func (c *chat) exchange(form map[string]string) (status int, out pair) {
	c.t.Helper()
	values := url.Values{"client_id": {c.id}}
	for name, value := range form {
		values.Set(name, value)
	}
	answer, text := c.do("POST", "/token", values.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		c.t.Fatalf("%d %s", answer.StatusCode, text)
	}
	if out.Access != "" {
		c.secrets = append(c.secrets, out.Access, out.Refresh)
	}
	return answer.StatusCode, out
}

func (c *chat) redeem(code string) (int, pair) {
	c.t.Helper()
	return c.exchange(map[string]string{"grant_type": "authorization_code", "code": code, "redirect_uri": callback, "code_verifier": c.verifier, "resource": c.base + "/mcp"})
}

func (c *chat) refresh(token string) (int, pair) {
	c.t.Helper()
	return c.exchange(map[string]string{"grant_type": "refresh_token", "refresh_token": token, "resource": c.base + "/mcp"})
}

// call calls a tool with an access token.
func (c *chat) call(access, name, args string) (int, string) {
	c.t.Helper()
	answer, text := c.do("POST", "/mcp", tool("1", name, args), map[string]string{
		"Authorization": "Bearer " + access, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18",
	})
	return answer.StatusCode, text
}

// TestRT123Remote: RT-123. A client of another machine is let in, works, comes back after a restart and is sent away, with the
// log at debug; then nothing that was secret is anywhere (nowhere). The clean-up of the rig looks for tokens, too.
func TestRT123Remote(t *testing.T) {
	g := rig.New(t)
	g.Extra = []string{"MCPX_LOG=debug"}
	g.Serve()
	dir := t.TempDir()
	g.Must("project", "add", dir, "--name", "shop")
	c := remote(t, g)

	answer, _ := c.do("POST", "/mcp", "{}", nil)
	if challenge := answer.Header.Get("WWW-Authenticate"); answer.StatusCode != http.StatusUnauthorized || !strings.Contains(challenge, c.base+"/.well-known/oauth-protected-resource/mcp") {
		t.Errorf("without a token: %d %q", answer.StatusCode, challenge)
	}
	p := c.ask()
	spoken := c.approve(p)
	answer, text := c.submit(p, spoken, nil)
	to, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || to.Query().Get("code") == "" {
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
	code := to.Query().Get("code")
	status, first := c.redeem(code)
	if status != http.StatusOK || first.Scope != "runtime:read runtime:use" {
		t.Fatalf("%d %+v", status, first)
	}
	status, text = c.call(first.Access, "session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`)
	session := regexp.MustCompile(`rs_[0-9A-Z]+`).FindString(text)
	if status != http.StatusOK || session == "" {
		t.Fatalf("%d %s", status, text)
	}
	edit := fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"edit-0001","edits":[{"path":"a.txt","op":"create","content":"x"}]}`, session)
	if status, text = c.call(first.Access, "edit_files", edit); !strings.Contains(text, `"status":"succeeded"`) {
		t.Errorf("%d %s", status, text)
	}

	g.Kill()
	g.Serve()
	rig.Until(t, slack, "the public address is served again", func() bool {
		answer, err := c.client.Get(c.base + "/.well-known/oauth-authorization-server")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	status, second := c.refresh(first.Refresh)
	if status != http.StatusOK || second.Refresh == first.Refresh {
		t.Fatalf("after a restart: %d %+v", status, second)
	}
	if status, text = c.call(second.Access, "edit_files", edit); !strings.Contains(text, `"replayed":true`) {
		t.Errorf("the same operation after a restart: %d %s", status, text)
	}
	g.Must("remote", "revoke", regexp.MustCompile(`dg_\w+`).FindString(g.Must("remote", "list")))
	if status, _ = c.call(second.Access, "session", `{"action":"list"}`); status != http.StatusUnauthorized {
		t.Errorf("after it was revoked: %d", status)
	}
	if status, out := c.refresh(second.Refresh); status != http.StatusBadRequest || out.Error != "invalid_grant" {
		t.Errorf("refreshed after it was revoked: %d %+v", status, out)
	}
	g.Must("remote", "off")
	if conn, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://")); err == nil {
		t.Error("the listener is there after it was turned off", conn.Close())
	}
}

// refusals counts those that are recorded, and registrations, by code.
func refusals(t *testing.T, g *rig.Gateway) map[string]int {
	t.Helper()
	var page struct {
		Events []struct {
			Body struct {
				Code  string
				Count int
			}
		}
	}
	if err := json.Unmarshal([]byte(g.Must("audit", "list", "--json", "--last", "0")), &page); err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for _, e := range page.Events {
		all[e.Body.Code] += e.Body.Count
	}
	return all
}

// TestRemoteAttacks: what somebody on another machine tries is refused, and recorded: each attempt with the code of its kind.
func TestRemoteAttacks(t *testing.T) {
	g := rig.New(t)
	g.Serve()
	g.Must("project", "add", t.TempDir(), "--name", "shop")
	c := remote(t, g)
	// recorded checks that since the last look so many attempts of a kind were recorded.
	before := refusals(t, g)
	recorded := func(what string, want map[string]int) {
		t.Helper()
		now := refusals(t, g)
		for code, n := range now {
			if code != "" && n-before[code] != want[code] {
				t.Errorf("%s: %d are recorded as %s, want %d", what, n-before[code], code, want[code])
			}
		}
		for code := range want {
			if now[code] == 0 {
				t.Errorf("%s: none is recorded as %s", what, code)
			}
		}
		before = now
	}

	t.Run("requests", func(t *testing.T) {
		for name, more := range map[string]map[string]string{
			"open redirect": {"redirect_uri": "https://evil.example/cb"}, "no redirect": {"redirect_uri": ""}, "a path more": {"redirect_uri": callback + "/x"},
			"an unknown client": {"client_id": "x"}, "a client whose document is on this machine": {"client_id": "https://127.0.0.1:1/client"}, "a client of another home": {"client_id": c.id[:len(c.id)-2] + "AA"},
		} {
			answer, text := c.do("GET", c.request(more), "", nil)
			if answer.StatusCode != http.StatusBadRequest || answer.Header.Get("Location") != "" || !strings.Contains(text, "Nothing was let in") {
				t.Errorf("%s: %d %v", name, answer.StatusCode, answer.Header)
			}
		}
		for name, one := range map[string]struct {
			more map[string]string
			code string
		}{
			"no PKCE": {map[string]string{"code_challenge": "", "code_challenge_method": ""}, "invalid_request"}, "plain PKCE": {map[string]string{"code_challenge_method": "plain"}, "invalid_request"},
			"implicit": {map[string]string{"response_type": "token"}, "unsupported_response_type"}, "another resource": {map[string]string{"resource": "https://other.example/mcp"}, "invalid_target"},
		} {
			answer, text := c.do("GET", c.request(one.more), "", nil)
			back := backShown.FindStringSubmatch(text)
			if answer.StatusCode != http.StatusBadRequest || answer.Header.Get("Location") != "" || back == nil {
				t.Errorf("%s: %d %v %s", name, answer.StatusCode, answer.Header, text)
				continue
			}
			to, err := url.Parse(html.UnescapeString(back[1]))
			if err != nil || !strings.HasPrefix(to.String(), callback) || to.Query().Get("error") != one.code || to.Query().Get("iss") != c.base {
				t.Errorf("%s leads back to %s", name, back[1])
			}
		}
		if answer, _ := c.do("GET", c.request(nil)+"&redirect_uri=https%3A%2F%2Fevil.example%2F", "", nil); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("a parameter twice: %d", answer.StatusCode)
		}
		recorded("requests", map[string]int{
			"remote-redirect-wrong": 3, "remote-client-unknown": 2, "remote-document-refused": 1, "remote-pkce-wrong": 2, "remote-audience-wrong": 1,
			"remote-request-invalid": 2, // implicit, twice
		})
	})

	t.Run("browsers", func(t *testing.T) {
		p := c.ask()
		code := c.approve(p)
		for name, one := range map[string]struct {
			p       page
			headers map[string]string
			status  int
		}{
			"CSRF: no cookie":            {p, map[string]string{"Cookie": ""}, http.StatusBadRequest},
			"CSRF: another cookie":       {page{p.request, p.mark, strings.SplitN(p.cookie, "=", 2)[0] + "=0"}, nil, http.StatusBadRequest},
			"CSRF: no mark":              {page{p.request, "", p.cookie}, nil, http.StatusBadRequest},
			"CSRF: a page of elsewhere":  {p, map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
			"CSRF: a page of nowhere":    {p, map[string]string{"Origin": "null"}, http.StatusForbidden},
			"a name that leads here":     {p, map[string]string{"Host": "evil.example"}, http.StatusForbidden},
			"a body that is no form":     {p, map[string]string{"Content-Type": "text/plain"}, http.StatusBadRequest},
			"the question of another":    {page{c.ask().request, p.mark, p.cookie}, nil, http.StatusBadRequest},
			"a question that is not one": {page{"AAAAAA", p.mark, p.cookie}, nil, http.StatusBadRequest},
		} {
			answer, _ := c.submit(one.p, code, one.headers)
			if answer.StatusCode != one.status || answer.Header.Get("Location") != "" {
				t.Errorf("%s: %d %v", name, answer.StatusCode, answer.Header)
			}
		}
		answer, _ := c.do("GET", c.request(nil), "", nil)
		if h := answer.Header; h.Get("X-Frame-Options") != "DENY" || !strings.Contains(h.Get("Content-Security-Policy"), "frame-ancestors 'none'") || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("a frame around it: %v", h)
		}
		for _, dest := range []string{"iframe", "object"} {
			if answer, text := c.do("GET", c.request(nil), "", map[string]string{"Sec-Fetch-Dest": dest}); answer.StatusCode != http.StatusForbidden || requestShown.MatchString(text) || len(answer.Cookies) > 0 {
				t.Errorf("%s: %d %s", dest, answer.StatusCode, text)
			}
		}
		recorded("browsers", map[string]int{"remote-form-forged": 5, "origin-denied": 3, "remote-request-invalid": 1, "remote-page-framed": 2})
	})

	t.Run("guesses", func(t *testing.T) {
		p := c.ask()
		code := c.approve(p)
		for range 5 {
			if answer, text := c.submit(p, "2222-2222", nil); answer.StatusCode != http.StatusForbidden || !strings.Contains(text, "this is not the code") {
				t.Errorf("%d %s", answer.StatusCode, text)
			}
		}
		if answer, _ := c.submit(p, code, nil); !strings.Contains(answer.Header.Get("Location"), "error=access_denied") {
			t.Errorf("the code counts after five wrong ones: %d %v", answer.StatusCode, answer.Header)
		}
		recorded("guesses", map[string]int{"remote-code-guessed": 6})
	})

	t.Run("no", func(t *testing.T) {
		p := c.ask()
		no := func(cookie string) heard {
			answer, _ := c.do("POST", "/authorize", url.Values{"request": {p.request}, "mark": {p.mark}, "answer": {"no"}}.Encode(),
				map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Cookie": cookie})
			return answer
		}
		if answer := no(""); answer.StatusCode != http.StatusBadRequest || !strings.Contains(g.Must("remote", "requests"), p.request) {
			t.Errorf("another browser says no: %d", answer.StatusCode)
		}
		recorded("another browser says no", map[string]int{"remote-form-forged": 1})
		if answer := no(p.cookie); !strings.Contains(answer.Header.Get("Location"), "error=access_denied") || strings.Contains(g.Must("remote", "requests"), p.request) {
			t.Errorf("the person says no in the browser: %d %v", answer.StatusCode, answer.Header)
		}
		if events := g.Must("audit", "list", "--kind", "remote.denied"); !strings.Contains(events, p.request) {
			t.Errorf("the no in the browser is not recorded:\n%s", events)
		}
	})

	t.Run("codes", func(t *testing.T) {
		code := c.let()
		for name, form := range map[string]map[string]string{
			"another verifier": {"code_verifier": strings.Repeat("x", 50)}, "another client": {"client_id": "x"}, "another address": {"redirect_uri": callback + "x"}, "another resource": {"resource": "https://other.example/mcp"},
		} {
			code := c.let()
			all := map[string]string{"grant_type": "authorization_code", "code": code, "redirect_uri": callback, "code_verifier": c.verifier}
			maps.Copy(all, form)
			if status, out := c.exchange(all); status != http.StatusBadRequest || out.Access != "" {
				t.Errorf("%s: %d %+v", name, status, out)
			}
		}
		_, first := c.redeem(code)
		if status, _ := c.call(first.Access, "session", `{"action":"list"}`); status != http.StatusOK {
			t.Fatalf("%d", status)
		}
		if status, out := c.redeem(code); status != http.StatusBadRequest || out.Error != "invalid_grant" {
			t.Errorf("the code again: %d %+v", status, out)
		}
		if status, _ := c.call(first.Access, "session", `{"action":"list"}`); status != http.StatusUnauthorized {
			t.Errorf("what a code gave that came twice: %d", status)
		}
		recorded("codes", map[string]int{
			"remote-pkce-wrong": 1, "remote-code-refused": 1, "remote-redirect-wrong": 1, "remote-audience-wrong": 1, "remote-code-replayed": 1, "access-over": 1,
		})
	})

	t.Run("tokens", func(t *testing.T) {
		_, first := c.redeem(c.let())
		_, second := c.refresh(first.Refresh)
		if status, out := c.refresh(first.Refresh); status != http.StatusBadRequest || out.Error != "invalid_grant" {
			t.Errorf("a refresh token again: %d %+v", status, out)
		}
		if status, _ := c.call(second.Access, "session", `{"action":"list"}`); status != http.StatusUnauthorized {
			t.Errorf("the family of a refresh token that came twice: %d", status)
		}
		recorded("a refresh token that comes twice", map[string]int{"remote-refresh-replayed": 1, "access-over": 1})

		_, live := c.redeem(c.let())
		if answer, _ := c.do("POST", "/mcp?access_token="+live.Access, tool("1", "session", `{"action":"list"}`), nil); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a token in the address: %d", answer.StatusCode)
		}
		if answer, _ := c.do("POST", "/mcp?access_token="+live.Access, tool("1", "session", `{"action":"list"}`), map[string]string{"Authorization": "Bearer " + live.Access}); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("a token in the address beside one in the header: %d", answer.StatusCode)
		}
		recorded("a token in the address", map[string]int{"access-in-address": 2})
		elsewhere := rig.New(t)
		elsewhere.Serve()
		other := remote(t, elsewhere)
		_, foreign := other.redeem(other.let())
		for name, token := range map[string]string{"a refresh token": live.Refresh, "a part": live.Access[:len(live.Access)-1], "none": "", "of another machine": foreign.Access} {
			if status, _ := c.call(token, "session", `{"action":"list"}`); status != http.StatusUnauthorized {
				t.Errorf("%s as an access token: %d", name, status)
			}
		}
		for _, path := range []string{"/servers/mcp_hub/mcp", "/v1/status", "/healthz", "/", "/servers/x/mcp"} {
			if answer, _ := c.do("POST", path, "{}", map[string]string{"Authorization": "Bearer " + live.Access}); answer.StatusCode != http.StatusNotFound && answer.StatusCode != http.StatusMethodNotAllowed {
				t.Errorf("%s: %d", path, answer.StatusCode)
			}
		}
		// What opens one door opens no other.
		answer, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+g.Addr+"/servers/mcp_hub/mcp", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer.Header.Set("Authorization", "Bearer "+live.Access)
		if hub, err := c.client.Do(answer); err != nil || hub.Body.Close() != nil || hub.StatusCode != http.StatusUnauthorized {
			t.Errorf("the control plane with an access token: %v, %v", hub, err)
		}
		g.Must("token", "issue", "--agent", "codex", "--scope", "servers:use")
		agent := strings.TrimSpace(g.Must("token", "print", "--agent", "codex", "--as", "value"))
		if status, _ := c.call(agent, "session", `{"action":"list"}`); status != http.StatusUnauthorized {
			t.Errorf("the token of an agent at the public address: %d", status)
		}
		recorded("tokens of something else", map[string]int{"access-unknown": 4, "token-malformed": 1}) // without a value none came
	})

	t.Run("read only", func(t *testing.T) {
		p := c.ask()
		answer, _ := c.submit(p, c.approve(p, "--read-only"), nil)
		to, err := url.Parse(answer.Header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		_, reads := c.redeem(to.Query().Get("code"))
		if reads.Scope != "runtime:read" {
			t.Errorf("%+v", reads)
		}
		if _, text := c.call(reads.Access, "session", `{"action":"open","project":"shop","operation_id":"open-shop-9"}`); !strings.Contains(text, "ROLE_DENIED") {
			t.Errorf("it opens a session: %s", text)
		}
		if _, text := c.call(reads.Access, "session", `{"action":"list"}`); !strings.Contains(text, `"status":"succeeded"`) {
			t.Errorf("it reads: %s", text)
		}
		recorded("read only", map[string]int{"ROLE_DENIED": 1})
	})

	t.Run("registrations", func(t *testing.T) {
		const many = 100_000
		c.register()
		before := size(t, g.Home)
		memory, _ := rig.Memory(g.PID())
		for range many {
			c.register()
		}
		// 10 bytes each are less than any record of one. What grows is an event a minute, however long they take here.
		if grown := size(t, g.Home) - before; grown > 10*many {
			t.Errorf("%d registrations leave %d bytes", many, grown)
		}
		if now, _ := rig.Memory(g.PID()); now-memory > 32<<20 {
			t.Errorf("%d registrations take %d bytes of memory", many, now-memory)
		}
		for name, body := range map[string]string{
			"no address": `{}`, "javascript": `{"redirect_uris":["javascript:alert(1)"]}`, "http elsewhere": `{"redirect_uris":["http://evil.example/"]}`,
			"no JSON": `x`, "a large one": `{"redirect_uris":["https://a.example/"],"x":"` + strings.Repeat("x", 64<<10) + `"}`,
		} {
			if answer, _ := c.do("POST", "/register", body, nil); answer.StatusCode != http.StatusBadRequest {
				t.Errorf("%s: %d", name, answer.StatusCode)
			}
		}
		recorded("registrations", map[string]int{"remote-registered": many + 1, "remote-registration-refused": 3, "remote-request-invalid": 2})
	})

	t.Run("addresses of this machine", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var dialled atomic.Int64
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				dialled.Add(1)
				_ = conn.Close() // that it was dialled is enough
			}
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "2130706433", "127.1"} {
			for _, target := range []string{"https://" + host + ":" + port + "/client", "http://" + host + ":" + port + "/client"} {
				if answer, _ := c.do("GET", c.request(map[string]string{"client_id": target}), "", nil); answer.StatusCode != http.StatusBadRequest || answer.Header.Get("Location") != "" {
					t.Errorf("a client that is %s: %d", target, answer.StatusCode)
				}
			}
		}
		target := "https://127.0.0.1:" + port
		answer, text := c.do("POST", "/register", fmt.Sprintf(
			`{"client_name":"Chat","redirect_uris":[%q],"jwks_uri":%q,"logo_uri":%q,"client_uri":%q,"policy_uri":%q,"sector_identifier_uri":%q,"software_statement":%q}`,
			callback, target, target, target, target, target, target), nil)
		var out struct {
			ID string `json:"client_id"`
		}
		if err := json.Unmarshal([]byte(text), &out); err != nil || answer.StatusCode != http.StatusCreated {
			t.Fatalf("%d %s", answer.StatusCode, text)
		}
		if answer, _ := c.do("GET", c.request(map[string]string{"client_id": out.ID}), "", nil); answer.StatusCode != http.StatusOK {
			t.Errorf("%d", answer.StatusCode)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if n := dialled.Load(); n != 0 {
			t.Errorf("this machine was dialled %d times", n)
		}
		recorded("addresses of this machine", map[string]int{"remote-registered": 1, "remote-document-refused": 7, "remote-client-unknown": 7})
	})

	t.Run("questions", func(t *testing.T) {
		for range 600 {
			c.do("GET", c.request(nil), "", nil)
		}
		if n := strings.Count(g.Must("remote", "requests", "--json"), `"request":`); n != 256 {
			t.Errorf("%d questions are open", n)
		}
	})

	t.Run("off", func(t *testing.T) {
		p := c.ask()
		spoken, code := c.approve(p), c.let()
		_, live := c.redeem(c.let())
		g.Must("remote", "off")
		g.Person("remote", "on")
		if answer, _ := c.submit(p, spoken, nil); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("the code of the person from before: %d %v", answer.StatusCode, answer.Header)
		}
		if status, out := c.redeem(code); status != http.StatusBadRequest {
			t.Errorf("an authorization code from before: %d %+v", status, out)
		}
		if status, out := c.refresh(live.Refresh); status != http.StatusBadRequest {
			t.Errorf("a refresh token from before: %d %+v", status, out)
		}
		if status, _ := c.call(live.Access, "session", `{"action":"list"}`); status != http.StatusUnauthorized {
			t.Errorf("an access token from before: %d", status)
		}
	})
}

// size is how many bytes the files below a directory have.
func size(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // it has just been removed
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRemoteSlowClient: who has no access and says nothing more is let go.
func TestRemoteSlowClient(t *testing.T) {
	t.Parallel()
	g := rig.New(t)
	g.Serve()
	c := remote(t, g)
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\n", strings.TrimPrefix(c.base, "http://")); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("its connection stays: %v", err)
	}
}
