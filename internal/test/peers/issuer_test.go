package peers

import (
	"bufio"
	"fmt"
	"html"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// startIssuer starts an OpenID provider that gives tokens for a resource, and returns its address.
func startIssuer(t *testing.T, resource string) string {
	t.Helper()
	script, err := filepath.Abs(filepath.Join("testdata", "issuer.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	port := fmt.Sprint(rig.Port(t))
	dir, env := home(t)
	cmd := exec.Command(node(t), script, filepath.Dir(modules(t, "oidc-provider")), port, resource)
	cmd.Dir, cmd.Env = dir, env
	ownGroup(cmd)
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endGroup(cmd)
		_ = cmd.Wait() // it was killed
	})
	if lines := bufio.NewScanner(said); !lines.Scan() || lines.Text() != "listening" {
		t.Fatalf("the issuer says %q (%v)", lines.Text(), lines.Err())
	}
	return "http://127.0.0.1:" + port
}

var (
	formShown   = regexp.MustCompile(`action="([^"]+)"`)
	promptShown = regexp.MustCompile(`name="prompt" value="(\w+)"`)
)

// signIn is a person with a browser, who signs in at an issuer and agrees to what a client wants. The last page is that of
// the client.
func signIn(t *testing.T, authorize, as string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar, Timeout: clientWithin}
	page, _ := exchange(t, browser, http.StatusOK, http.MethodGet, authorize, nil)
	for range 2 { // who it is, and whether they agree
		form := url.Values{"prompt": {part(t, promptShown, page)}, "login": {as}, "password": {"any"}}
		page, _ = exchange(t, browser, http.StatusOK, http.MethodPost, html.UnescapeString(part(t, formShown, page)), form)
	}
}

// comes has mcp-remote call a tool for somebody who signs in at the issuer, and returns its access token.
func (a away) comes(as string) string {
	a.t.Helper()
	m := a.mcpRemote()
	s := m.launch()
	signIn(a.t, m.opened(), as)
	s.handshake()
	listSessions(s)
	s.end()
	_, tokens := m.tokens()
	return fmt.Sprint(tokens["access_token"])
}

// TestRemoteIssuer has a real OpenID provider give the tokens in place of mcpx. mcp-remote finds it by the answer of the
// public address, signs a person in there, and calls a tool; another person with an account at the same place gets nothing,
// what was revoked stays so, and turning remote access off ends what the provider goes on to believe in.
func TestRemoteIssuer(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", rig.Port(t))
	a := away{rig.Start(t), t, "http://" + addr, http.DefaultClient}
	issuer := startIssuer(t, a.base+"/mcp")
	on := []string{"remote", "on", "--url", a.base, "--address", addr, "--issuer", issuer, "--subject", "ada"}
	turnOn := func() {
		a.Person(on...)
		time.Sleep(time.Second) // a token of this second would count for one of before
	}
	turnOn()
	if status := a.Must("remote", "status"); !strings.Contains(status, issuer) || !strings.Contains(status, "ada") {
		t.Errorf("status:\n%s", status)
	}
	for _, gone := range []string{"/authorize", "/token", "/register", "/.well-known/oauth-authorization-server"} {
		exchange(t, http.DefaultClient, http.StatusNotFound, http.MethodGet, a.base+gone, nil)
	}

	ada := a.comes("ada")
	in := a.accesses()
	if len(in) != 1 || in[0].State != "live" || len(in[0].Scopes) != 2 {
		t.Fatalf("after ada came: %+v", in)
	}
	if status := a.call(ada); status != http.StatusOK {
		t.Errorf("her token gives HTTP %d", status)
	}
	m := a.mcpRemote()
	m.launch()
	signIn(t, m.opened(), "eve")
	rig.Until(t, clientWithin, "eve is refused", func() bool {
		return strings.Contains(a.Must("audit", "list", "--kind", "remote"), "of another person")
	})
	if in = a.accesses(); len(in) != 1 {
		t.Errorf("after eve came: %+v", in)
	}
	if events := a.Must("audit", "list", "--kind", "remote"); !strings.Contains(events, "has access by "+issuer) {
		t.Errorf("recorded is:\n%s", events)
	}

	a.Must("remote", "revoke", in[0].ID)
	if status := a.call(ada); status != http.StatusUnauthorized {
		t.Errorf("after revoke her token gives HTTP %d", status)
	}
	a.Must("remote", "off")
	turnOn()
	if status := a.call(ada); status != http.StatusUnauthorized {
		t.Errorf("after off and on her token of before gives HTTP %d", status)
	}
	a.comes("ada")
	if in = a.accesses(); len(in) != 1 {
		t.Errorf("after she came again: %+v", in)
	}
	if text := a.Must("audit", "export", "--to", "-"); strings.Contains(text, ada[:strings.LastIndex(ada, ".")]) {
		t.Error("an event has her token")
	}
}
