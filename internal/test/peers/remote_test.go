package peers

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// away is a daemon that clients of other machines reach at a public address.
type away struct {
	*rig.Gateway
	t    *testing.T
	base string // the public address
	http *http.Client
}

// openAway starts a daemon, where a person turns remote access on.
func openAway(t *testing.T) away {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", rig.Port(t))
	a := away{rig.Start(t), t, "http://" + addr, http.DefaultClient}
	a.Person("remote", "on", "--url", a.base, "--address", addr)
	return a
}

// openAwayTLS is openAway without a tunnel or a proxy in front: the daemon has the certificate, which is that of the site
// and trusted by its client.
func openAwayTLS(t *testing.T, site *httptest.Server) away {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", rig.Port(t))
	a := away{rig.Start(t), t, "https://" + addr, site.Client()}
	key, err := x509.MarshalPKCS8PrivateKey(site.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*pem.Block{"certificate": {Type: "CERTIFICATE", Bytes: site.Certificate().Raw}, "key": {Type: "PRIVATE KEY", Bytes: key}}
	words := []string{"remote", "on", "--url", a.base, "--address", addr}
	dir := t.TempDir()
	for name, block := range files {
		file := filepath.Join(dir, name+".pem")
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		words = append(words, "--"+name, file)
	}
	a.Person(words...)
	return a
}

// What the page and the terminal show for people to take over.
var (
	shownRequest = regexp.MustCompile(`mcpx remote approve (\w+)`)
	shownMark    = regexp.MustCompile(`name="mark" value="(\w+)"`)
	spokenCode   = regexp.MustCompile(`Type this code in the browser: \S*?(\w{4}-\w{4})`)
)

// part is what a pattern finds in a text.
func part(t *testing.T, p *regexp.Regexp, text string) string {
	t.Helper()
	found := p.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("there is no %s in:\n%s", p, text)
	}
	return found[1]
}

// approve says yes at the terminal and returns the code for the browser.
func (a away) approve(request string) string {
	a.t.Helper()
	return part(a.t, spokenCode, a.Person("remote", "approve", request))
}

// letIn is a person with a browser: it opens the page of a client, says yes at the terminal, types the code, and goes where
// the answer leads.
func (a away) letIn(authorize string) {
	a.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: clientWithin}
	page, _ := exchange(a.t, browser, http.StatusOK, http.MethodGet, authorize, nil)
	request := part(a.t, shownRequest, page)
	form := url.Values{"request": {request}, "mark": {part(a.t, shownMark, page)}, "code": {a.approve(request)}, "answer": {"yes"}}
	exchange(a.t, browser, http.StatusOK, http.MethodPost, a.base+"/authorize", form)
}

// exchange makes a request, with a form or with JSON if there is something to send, and returns the answer, which has to have
// this status.
func exchange(t *testing.T, client *http.Client, status int, method, target string, sent any) (answer string, header http.Header) {
	t.Helper()
	kind, body := "", []byte(nil)
	switch sent := sent.(type) {
	case nil:
	case url.Values:
		kind, body = "application/x-www-form-urlencoded", []byte(sent.Encode())
	default:
		raw, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		kind, body = "application/json", raw
	}
	req, err := http.NewRequestWithContext(t.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d, %v\n%s", method, target, resp.Status, status, err, raw)
	}
	return string(raw), resp.Header
}

// access is what `mcpx remote list` shows of one client.
type access struct {
	ID        string    `json:"access"`
	State     string    `json:"state"`
	Scopes    []string  `json:"scopes"`
	Refreshed time.Time `json:"refreshed_at"`
}

// accesses lists who has access.
func (a away) accesses() []access {
	a.t.Helper()
	var page struct {
		Clients []access `json:"clients"`
	}
	if err := json.Unmarshal([]byte(a.Must("remote", "list", "--json")), &page); err != nil {
		a.t.Fatal(err)
	}
	return page.Clients
}

// mcpRemote is mcp-remote on another machine, which knows the public address alone.
type mcpRemote struct {
	t         *testing.T
	dir       string
	asked     string // a file with what the browser was opened with
	env, argv []string
}

func (a away) mcpRemote() *mcpRemote {
	a.t.Helper()
	if runtime.GOOS != "linux" {
		a.t.Skip("skip: mcp-remote asks for the browser in BROWSER on Linux only")
	}
	dir, env := home(a.t)
	m := &mcpRemote{t: a.t, dir: dir, asked: filepath.Join(dir, "asked")}
	browser := filepath.Join(dir, "browser")
	if err := os.WriteFile(browser, []byte("#!/bin/sh\nprintf %s \"$1\" >"+m.asked+".new && mv "+m.asked+".new "+m.asked+"\n"), 0o700); err != nil {
		a.t.Fatal(err)
	}
	m.env = append(env, "BROWSER="+browser, "MCP_REMOTE_CONFIG_DIR="+dir)
	m.argv = []string{node(a.t), modules(a.t, "mcp-remote", "dist", "proxy.js"), a.base + "/mcp", fmt.Sprint(rig.Port(a.t)), "--transport", "http-only"}
	return m
}

func (m *mcpRemote) launch() *speaker { return launch(m.t, m.env, m.argv) }

// opened is what the browser was opened with, once it was.
func (m *mcpRemote) opened() string {
	m.t.Helper()
	var authorize []byte
	rig.Until(m.t, clientWithin, "mcp-remote opens a browser", func() bool {
		var err error
		authorize, err = os.ReadFile(m.asked)
		return err == nil
	})
	if err := os.Remove(m.asked); err != nil {
		m.t.Fatal(err)
	}
	return string(authorize)
}

// tokens are what it keeps, and where.
func (m *mcpRemote) tokens() (file string, tokens map[string]any) {
	m.t.Helper()
	files, err := filepath.Glob(filepath.Join(m.dir, "*", "*tokens.json"))
	if err != nil || len(files) != 1 {
		m.t.Fatalf("mcp-remote keeps its tokens in %v, %v", files, err)
	}
	readJSON(m.t, files[0], &tokens)
	return files[0], tokens
}

// listSessions calls a tool, which has to succeed.
func listSessions(s *speaker) {
	s.t.Helper()
	answer := s.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"session","arguments":{"action":"list"}}}`, "3")
	if !answerOf(s.t, answer).OK {
		s.t.Errorf("the call did not succeed: %s", answer)
	}
}

// call is the status of a call with an access token.
func (a away) call(token any) int {
	a.t.Helper()
	c := rig.NewClient(a.t, a.base+"/mcp")
	c.Header.Set("Authorization", fmt.Sprint("Bearer ", token))
	return c.Post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"peers","version":"1"}}}`).Status
}

// TestRemoteMCPRemote lets mcp-remote in at the public address, which is all that it knows: it finds out where to ask,
// registers, opens a browser, and keeps its tokens. They count over a kill of the daemon, are refreshed when they are over,
// and open nothing after `mcpx remote revoke`.
func TestRemoteMCPRemote(t *testing.T) {
	a := openAway(t)
	m := a.mcpRemote()
	s := m.launch()
	a.letIn(m.opened())
	s.handshake()
	listSessions(s)
	in := a.accesses()
	if len(in) != 1 || in[0].State != "live" || !in[0].Refreshed.IsZero() || len(in[0].Scopes) != 2 {
		t.Fatalf("after it was let in: %+v", in)
	}

	// Its access token is over when its own record says so; what it does then is to refresh.
	file, tokens := m.tokens()
	first := tokens["access_token"]
	tokens["expires_at"] = 1
	writeJSON(t, file, tokens)
	s.end()
	a.Kill()
	a.Serve()
	s = m.launch()
	s.handshake()
	listSessions(s)
	s.end()
	_, tokens = m.tokens()
	if in = a.accesses(); len(in) != 1 || in[0].Refreshed.IsZero() || tokens["access_token"] == first {
		t.Errorf("it did not refresh: %+v", in)
	}
	if exists(m.asked) {
		t.Error("it opened a browser, though it has a refresh token")
	}

	a.Must("remote", "revoke", in[0].ID)
	if status := a.call(tokens["access_token"]); status != http.StatusUnauthorized {
		t.Errorf("after revoke its access token gives HTTP %d", status)
	}
	m.launch()
	m.opened() // it has to ask again
	if in = a.accesses(); len(in) != 0 {
		t.Errorf("after revoke: %+v", in)
	}
}

func readJSON(t *testing.T, name string, value any) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(raw, value)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// metadata is what a client finds out about a public address from the answer to a call without a token (RFC 9728, RFC 8414).
type metadata struct {
	Resource  string
	Servers   []string `json:"authorization_servers"`
	Issuer    string
	Authorize string `json:"authorization_endpoint"`
	Token     string `json:"token_endpoint"`
	Register  string `json:"registration_endpoint"`

	http *http.Client
}

// discover does as a web client does that was given the address.
func (a away) discover() (m metadata) {
	a.t.Helper()
	m.http = a.http
	read := func(target string) {
		answer, _ := exchange(a.t, a.http, http.StatusOK, http.MethodGet, target, nil)
		if err := json.Unmarshal([]byte(answer), &m); err != nil || len(m.Servers) == 0 {
			a.t.Fatalf("%s, %v", answer, err)
		}
	}
	_, header := exchange(a.t, a.http, http.StatusUnauthorized, http.MethodPost, a.base+"/mcp", struct{}{})
	read(part(a.t, regexp.MustCompile(`resource_metadata="([^"]+)"`), header.Get("WWW-Authenticate")))
	read(m.Servers[0] + "/.well-known/oauth-authorization-server")
	return m
}

// register registers a client that is answered at an address, and returns its id.
func (m metadata) register(t *testing.T, name, redirect string) string {
	t.Helper()
	answer, _ := exchange(t, m.http, http.StatusCreated, http.MethodPost, m.Register,
		map[string]any{"client_name": name, "redirect_uris": []string{redirect}, "token_endpoint_auth_method": "none"})
	var made struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.ID == "" {
		t.Fatalf("%s, %v", answer, err)
	}
	return made.ID
}

// TestConformanceAuthorization runs all scenarios of the suite for authorization servers at the public address: its metadata,
// and the code and the token of a client that registered and that a person lets in. Every check has to succeed.
func TestConformanceAuthorization(t *testing.T) {
	a := openAway(t)
	port, out := fmt.Sprint(rig.Port(t)), t.TempDir()
	m := a.discover()
	client := m.register(t, "conformance", "http://127.0.0.1:"+port+"/callback")
	dir, env := home(t)
	ctx, stop := context.WithTimeout(t.Context(), suiteWithin)
	defer stop()
	cmd := exec.CommandContext(ctx, node(t), modules(t, "@modelcontextprotocol", "conformance", "dist", "index.js"), "authorization",
		"--url", m.Issuer, "--client-id", client, "--resource", m.Resource, "--port", port, "-o", out)
	cmd.Dir, cmd.Env = dir, env
	ownGroup(cmd)
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer endGroup(cmd)
	var report strings.Builder
	for lines := bufio.NewScanner(said); lines.Scan(); report.WriteString(lines.Text() + "\n") {
		if strings.HasPrefix(lines.Text(), m.Authorize) {
			a.letIn(lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &report)
	}
	want := checks{
		"authorization-server-metadata-endpoint/authorization-server-metadata":      "SUCCESS",
		"authorization-server-metadata-endpoint/authorization-server-metadata-cimd": "SUCCESS",
		"authorization-code-grant/authorization-code-grant":                         "SUCCESS",
	}
	for key, what := range differences(want, results(t, out)) {
		t.Errorf("%s: %s", key, what)
	}
}
