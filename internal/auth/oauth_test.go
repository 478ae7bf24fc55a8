package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"mcpx/internal/fault"
)

var moment = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

const (
	here     = "https://mcp.example.org/mcp"
	callback = "https://chat.example/callback"
	verifier = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG"
)

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func registrar() Registrar { return NewRegistrar([]byte(strings.Repeat("k", 32))) }

func someClient(t *testing.T) Client {
	t.Helper()
	c, err := registrar().Register("Chat", []string{callback, "http://127.0.0.1:7777/cb"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func codeOf(err error) DenialCode {
	if d, ok := errors.AsType[*Denial](err); ok {
		return d.Code
	}
	return ""
}

// TestRegister: an id leads back to what the client said, and to nothing when one bit of it is another.
func TestRegister(t *testing.T) {
	c := someClient(t)
	back, err := registrar().Client(c.ID)
	if err != nil || back.Name != "Chat" || len(back.Redirects) != 2 || back.ID != c.ID {
		t.Fatalf("%+v, %v", back, err)
	}
	if _, err := NewRegistrar([]byte(strings.Repeat("x", 32))).Client(c.ID); codeOf(err) != InvalidClient {
		t.Errorf("under another key: %v", err)
	}
	for i := range c.ID {
		other := []byte(c.ID)
		other[i] ^= 1
		if _, err := registrar().Client(string(other)); codeOf(err) != InvalidClient {
			t.Errorf("with another character at %d: %v", i, err)
		}
	}
	for _, id := range []string{"", "x", strings.Repeat("A", maxClientID+1)} {
		if _, err := registrar().Client(id); codeOf(err) != InvalidClient {
			t.Errorf("%.20q: %v", id, err)
		}
	}
}

func TestRedirects(t *testing.T) {
	for _, r := range []string{callback, "http://localhost:1/x", "http://[::1]:9/x?y=1", "com.example.app:/cb", "cursor://host/x"} {
		if _, err := registrar().Register("", []string{r}); err != nil {
			t.Errorf("%s: %v", r, err)
		}
	}
	for _, r := range []string{
		"", "/cb", "http://chat.example/cb", "https:///cb", "https://u:p@chat.example/cb", "https://chat.example/cb#x", "https://chat.example/cb#", "javascript:alert(1)",
		"data:text/html,x", "file:///etc/passwd", "ftp://a.b/c", "https://a.example/\x00", "https://a.example/" + strings.Repeat("x", maxRedirect), "http://127.0.0.1.example/cb",
	} {
		if _, err := registrar().Register("", []string{r}); codeOf(err) != InvalidRedirect {
			t.Errorf("%.60q: %v", r, err)
		}
	}
	for _, n := range []int{0, maxRedirects + 1} {
		if _, err := registrar().Register("", make([]string, n)); codeOf(err) != InvalidRedirect {
			t.Errorf("%d addresses: %v", n, err)
		}
	}
	c := someClient(t)
	for redirect, ok := range map[string]bool{
		callback: true, "http://127.0.0.1:7777/cb": true, "http://127.0.0.1:1/cb": true,
		callback + "/": false, callback + "?x=1": false, "https://chat.example:444/callback": false, "https://evil.example/callback": false, "": false,
		"http://127.0.0.1:1/other": false, "http://127.0.0.1:1/cb?x": false, "http://127.0.0.2:1/cb": false, "http://localhost:1/cb": false,
	} {
		if c.Redirect(redirect) != ok {
			t.Errorf("%q: %v", redirect, !ok)
		}
	}
}

// TestNames: what a client calls itself is one short line of what can be seen.
func TestNames(t *testing.T) {
	for given, want := range map[string]string{
		" Chat\n<b>\x1b[31m": "Chat<b>[31m", "": "chat.example", "\u202e\u200b": "chat.example", strings.Repeat("é", 100): strings.Repeat("é", maxClientName), "a\xffb": "ab",
	} {
		c, err := registrar().Register(given, []string{callback})
		if err != nil || c.Name != want {
			t.Errorf("%q: %q, %v", given, c.Name, err)
		}
	}
}

func ask(c Client) Ask {
	return Ask{ResponseType: "code", Client: c.ID, Redirect: callback, Scope: "runtime:use openid", State: "s", Challenge: challenge(), Method: "S256", Resources: []string{here}}
}

func TestAskChecked(t *testing.T) {
	c := someClient(t)
	if scopes, err := ask(c).Check(c, here); err != nil || JoinScopes(scopes) != "runtime:use" {
		t.Fatalf("%v, %v", scopes, err)
	}
	for name, one := range map[string]struct {
		change func(*Ask)
		code   DenialCode
		open   bool
	}{
		"another address":   {func(a *Ask) { a.Redirect = "https://evil.example/" }, InvalidRequest, false},
		"implicit":          {func(a *Ask) { a.ResponseType = "token" }, UnsupportedResponseType, true},
		"no challenge":      {func(a *Ask) { a.Challenge = "" }, InvalidRequest, true},
		"plain challenge":   {func(a *Ask) { a.Method = "plain" }, InvalidRequest, true},
		"no method":         {func(a *Ask) { a.Method = "" }, InvalidRequest, true},
		"another resource":  {func(a *Ask) { a.Resources = []string{here, "https://other.example/mcp"} }, InvalidTarget, true},
		"an endless state":  {func(a *Ask) { a.State = strings.Repeat("x", maxState+1) }, InvalidRequest, true},
		"a short challenge": {func(a *Ask) { a.Challenge = "abc" }, InvalidRequest, true},
	} {
		a := ask(c)
		one.change(&a)
		_, err := a.Check(c, here)
		d, ok := errors.AsType[*Denial](err)
		if !ok || d.Code != one.code || d.Open != one.open {
			t.Errorf("%s: %v", name, err)
		}
	}
	a := ask(c)
	a.Scope, a.Resources = "", nil
	if scopes, err := a.Check(c, here); err != nil || JoinScopes(scopes) != "runtime:read" {
		t.Errorf("without scope and resource: %v, %v", scopes, err)
	}
}

// asked opens a question.
func asked(t *testing.T, s *Consents) (Consent, string) {
	t.Helper()
	c := someClient(t)
	q, cookie, err := s.Ask(ask(c), c, []Scope{RuntimeUse}, moment, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return q, cookie
}

// let takes a question to its code.
func let(t *testing.T, s *Consents) (code string, c Client) {
	t.Helper()
	q, cookie := asked(t, s)
	_, spoken, err := s.Approve(Approval{Consent: strings.ToLower(q.ID), Principal: "owner"}, moment, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, code, err = s.Answer(Typed{Consent: q.ID, Cookie: cookie, Mark: Mark(q.ID, cookie), Code: strings.ToLower(spoken)}, "dg_1", moment, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return code, q.Client
}

func TestConsent(t *testing.T) {
	s := NewConsents()
	code, c := let(t, s)
	redeem := Redemption{Code: code, Client: c.ID, Redirect: callback, Verifier: verifier}
	i, err := s.Redeem(redeem, moment)
	if err != nil || i.Delegation != "dg_1" || i.Client.Name != "Chat" {
		t.Fatalf("%+v, %v", i, err)
	}
	_, err = s.Redeem(redeem, moment)
	if again, ok := errors.AsType[*Replayed](err); !ok || again.Delegation != "dg_1" {
		t.Errorf("a code that was used: %v", err)
	}
	for name, change := range map[string]func(*Redemption) time.Time{
		"another verifier": func(r *Redemption) time.Time { r.Verifier = strings.Repeat("x", 43); return moment },
		"no verifier":      func(r *Redemption) time.Time { r.Verifier = ""; return moment },
		"another client":   func(r *Redemption) time.Time { r.Client = "x"; return moment },
		"another address":  func(r *Redemption) time.Time { r.Redirect += "x"; return moment },
		"too late":         func(*Redemption) time.Time { return moment.Add(codeLife) },
		"no code":          func(r *Redemption) time.Time { r.Code = ""; return moment },
	} {
		code, c := let(t, s)
		right := Redemption{Code: code, Client: c.ID, Redirect: callback, Verifier: verifier}
		wrong := right
		at := change(&wrong)
		if _, err := s.Redeem(wrong, at); codeOf(err) != InvalidGrant {
			t.Errorf("%s: %v", name, err)
		}
		if wrong.Code == "" {
			continue
		}
		if _, err := s.Redeem(right, moment); err == nil {
			t.Errorf("%s: the code counts after it was tried", name)
		}
	}
}

// TestConsentRefused: nobody answers a question but the browser that asked, with the code that the person was given, within
// a few tries.
func TestConsentRefused(t *testing.T) {
	s := NewConsents()
	q, cookie := asked(t, s)
	typed := Typed{Consent: q.ID, Cookie: cookie, Mark: Mark(q.ID, cookie), Code: ""}
	answer := func(in Typed) error {
		_, _, err := s.Answer(in, "dg_1", moment, rand.Reader)
		return err
	}
	if err := answer(typed); codeOf(err) != AccessDenied {
		t.Errorf("before the person said anything: %v", err)
	}
	_, spoken, err := s.Approve(Approval{Consent: q.ID, Principal: "ann", Narrow: []Scope{RuntimeRead}}, moment, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	typed.Code = spoken
	for name, change := range map[string]func(*Typed){
		"another browser": func(in *Typed) { in.Cookie = "other"; in.Mark = Mark(q.ID, "other") },
		"no cookie":       func(in *Typed) { in.Cookie = "" },
		"another page":    func(in *Typed) { in.Mark = "" },
		"another request": func(in *Typed) { in.Consent = "ABCDEF" },
	} {
		in := typed
		change(&in)
		if err := answer(in); codeOf(err) != InvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	in := typed
	in.Code = "2222-2222"
	for range maxTries {
		if err := answer(in); codeOf(err) != AccessDenied {
			t.Errorf("another code: %v", err)
		}
	}
	if err := answer(typed); codeOf(err) != AccessDenied {
		t.Errorf("the right code after too many wrong ones: %v", err)
	}
	if err := answer(typed); codeOf(err) != InvalidRequest {
		t.Errorf("after that: %v", err)
	}
	q, cookie = asked(t, s)
	if err := answer(Typed{Consent: q.ID, Cookie: cookie, Mark: Mark(q.ID, cookie), Refuse: true}); codeOf(err) != AccessDenied {
		t.Errorf("no in the browser: %v", err)
	}
	q, _ = asked(t, s)
	if _, err := s.Deny(q.ID, moment); err != nil {
		t.Error(err)
	}
	if _, _, err := s.Approve(Approval{Consent: q.ID, Principal: "owner"}, moment, rand.Reader); fault.From(err).Code != "consent-unknown" {
		t.Errorf("yes after no: %v", err)
	}
	if _, _, err := s.Approve(Approval{Consent: asked1(t, s), Principal: "owner"}, moment.Add(consentLife), rand.Reader); fault.From(err).Code != "consent-unknown" {
		t.Errorf("yes when it is over: %v", err)
	}
}

func asked1(t *testing.T, s *Consents) string {
	t.Helper()
	q, _ := asked(t, s)
	return q.ID
}

// TestNarrowed: the person lets a client read that asked for more.
func TestNarrowed(t *testing.T) {
	s := NewConsents()
	q, _, err := s.Approve(Approval{Consent: asked1(t, s), Principal: "ann", Narrow: []Scope{RuntimeRead}}, moment, rand.Reader)
	if err != nil || JoinScopes(q.Scopes) != "runtime:read" || q.Principal != "ann" {
		t.Errorf("%v, %v", q.Scopes, err)
	}
}

// TestManyQuestions: however many ask, few are kept, and one with a yes stays.
func TestManyQuestions(t *testing.T) {
	s := NewConsents()
	first := asked1(t, s)
	if _, _, err := s.Approve(Approval{Consent: first, Principal: "owner"}, moment, rand.Reader); err != nil {
		t.Fatal(err)
	}
	for range 2 * maxConsents {
		asked(t, s)
	}
	all := s.Waiting(moment)
	found := false
	for _, q := range all {
		found = found || q.ID == first
	}
	if len(all) != maxConsents || !found {
		t.Errorf("%d are kept, the one with a yes among them: %v", len(all), found)
	}
	if left := s.Waiting(moment.Add(consentLife)); len(left) != 0 {
		t.Errorf("%d are open when all are over", len(left))
	}
}

func TestDelegation(t *testing.T) {
	d, pair, err := Open(Issued{Client: someClient(t), Redirect: callback, Scopes: []Scope{RuntimeUse}, Delegation: "dg_1"}, here, rand.Reader, moment)
	if err != nil || d.At(moment) != Live {
		t.Fatal(d, err)
	}
	access, refresh := pair.Records[0], pair.Records[1]
	if access.Digest != pair.Access.Digest() || refresh.Digest != pair.Refresh.Digest() || strings.Contains(fmt.Sprint(pair.Access, pair.Refresh), pair.Access.Reveal()) {
		t.Errorf("%v", pair)
	}
	admits := admitted
	for name, got := range map[string][2]string{
		"now":                 {admits(d, access, here, moment), ""},
		"when it is over":     {admits(d, access, here, moment.Add(AccessLife)), "access-over"},
		"with the other kind": {admits(d, refresh, here, moment), "access-over"},
		"elsewhere":           {admits(d, access, "https://other.example/mcp", moment), "access-elsewhere"},
	} {
		if got[0] != got[1] {
			t.Errorf("%s: %q, want %q", name, got[0], got[1])
		}
	}
	after, spent, next, err := Refresh(d, refresh, d.ClientID, here, rand.Reader, moment.Add(time.Hour))
	if err != nil || spent.Spent.IsZero() || next.Refresh == pair.Refresh || after.Expires.Sub(d.Expires) != time.Hour {
		t.Fatal(after, spent, err)
	}
	if _, _, _, err := Refresh(after, spent, d.ClientID, here, rand.Reader, moment); !errors.As(err, new(*Replayed)) {
		t.Errorf("again: %v", err)
	}
	ended, ok := d.Revoke("why", moment)
	if _, again := ended.Revoke("why", moment); !ok || again {
		t.Errorf("revoked: %v, again %v", ok, again)
	}
	for name, got := range map[string]error{
		"of another client": refreshed(d, refresh, "other", moment),
		"an access token":   refreshed(d, access, d.ClientID, moment),
		"revoked":           refreshed(ended, refresh, d.ClientID, moment),
		"over":              refreshed(d, refresh, d.ClientID, moment.Add(RefreshLife)),
	} {
		if codeOf(got) != InvalidGrant {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, _, _, err := Refresh(d, refresh, d.ClientID, "https://other.example/mcp", rand.Reader, moment); codeOf(err) != InvalidGrant {
		t.Errorf("when another address is served: %v", err)
	}
	if got := admitted(ended, access, here, moment); got != "access-over" {
		t.Errorf("after it was revoked: %q", got)
	}
}

func admitted(d Delegation, token DelegationToken, resource string, at time.Time) string {
	if err := Admits(d, token, resource, at); err != nil {
		return err.Code
	}
	return ""
}

func refreshed(d Delegation, token DelegationToken, client string, at time.Time) error {
	_, _, _, err := Refresh(d, token, client, here, rand.Reader, at)
	return err
}

func TestRemoteChecked(t *testing.T) {
	good := Remote{URL: "https://mcp.example.org", Address: DefaultRemoteAddress}
	for name, change := range map[string]func(*Remote){
		"a tunnel":             func(*Remote) {},
		"a port":               func(r *Remote) { r.URL = "https://mcp.example.org:9090" },
		"this machine":         func(r *Remote) { r.URL = "http://127.0.0.1:9090" },
		"with its certificate": func(r *Remote) { r.Address, r.Certificate, r.Key = "0.0.0.0:9090", "/c", "/k" },
		"an IPv6 address":      func(r *Remote) { r.Address = "[::1]:9090" },
	} {
		r := good
		if change(&r); r.Check() != nil {
			t.Errorf("%s: %v", name, r.Check())
		}
	}
	for name, change := range map[string]func(*Remote){
		"no URL":           func(r *Remote) { r.URL = "" },
		"no TLS":           func(r *Remote) { r.URL = "http://mcp.example.org" },
		"a path":           func(r *Remote) { r.URL += "/mcp" },
		"a slash":          func(r *Remote) { r.URL += "/" },
		"a query":          func(r *Remote) { r.URL += "?" },
		"capitals":         func(r *Remote) { r.URL = "https://MCP.example.org" },
		"a usual port":     func(r *Remote) { r.URL += ":443" },
		"an empty port":    func(r *Remote) { r.URL += ":" },
		"a user":           func(r *Remote) { r.URL = "https://u@mcp.example.org" },
		"an open network":  func(r *Remote) { r.Address = "0.0.0.0:9090" },
		"no port":          func(r *Remote) { r.Address = "127.0.0.1" },
		"half of a pair":   func(r *Remote) { r.Certificate = "/c" },
		"a relative file":  func(r *Remote) { r.Certificate, r.Key = "c", "k" },
		"no host":          func(r *Remote) { r.URL = "https://" },
		"another protocol": func(r *Remote) { r.URL = "ftp://mcp.example.org" },
	} {
		r := good
		if change(&r); fault.From(r.Check()).Code != "remote-invalid" {
			t.Errorf("%s: %v", name, r.Check())
		}
	}
}

// FuzzClient: no id that was not made here is one, and none breaks anything.
func FuzzClient(f *testing.F) {
	c, err := registrar().Register("Chat", []string{callback})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(c.ID, callback)
	f.Add("", "http://[::1")
	f.Fuzz(func(t *testing.T, id, redirect string) {
		got, err := registrar().Client(id)
		if err == nil && got.ID != id {
			t.Errorf("%q is %q", id, got.ID)
		}
		if made, err := registrar().Register(id, []string{redirect}); err == nil {
			if back, err := registrar().Client(made.ID); err != nil || !back.Redirect(redirect) {
				t.Errorf("%q does not lead back: %v", redirect, err)
			}
		}
	})
}

func TestOutside(t *testing.T) {
	for _, text := range []string{"93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "::ffff:93.184.216.34"} {
		if !Outside(netip.MustParseAddr(text)) {
			t.Errorf("%s is refused", text)
		}
	}
	for _, text := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "198.18.0.1", "192.0.0.192",
		"::1", "::", "fe80::1", "fd00::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1",
		"::7f00:1", "64:ff9b:1::7f00:1", "fec0::1", "100::1", "5f00::1", "3fff::1",
	} {
		if Outside(netip.MustParseAddr(text)) {
			t.Errorf("%s is let through", text)
		}
	}
	if Outside(netip.Addr{}) {
		t.Error("no address at all is let through")
	}
}
