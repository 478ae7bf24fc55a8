package auth

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/fault"
)

// TestCheckIssuer: the answer of an authorization server names the one that was asked, to the byte (RFC 9207).
func TestCheckIssuer(t *testing.T) {
	const want = "https://login.example"
	for _, c := range []struct {
		got       string
		announced bool
		ok        bool
	}{
		{want, true, true},
		{want, false, true},
		{"", false, true},
		{"", true, false},
		{want + "/", true, false},
		{"https://LOGIN.example", true, false},
		{"https://other.example", false, false},
	} {
		if err := CheckIssuer(c.got, want, c.announced); (err == nil) != c.ok || err != nil && fault.KindOf(err) != fault.Denied {
			t.Errorf("%q, announced %v: %v", c.got, c.announced, err)
		}
	}
}

// TestCheckProtected: a document is about the server, or about what is above it.
func TestCheckProtected(t *testing.T) {
	const server = "https://a.example/v1/mcp"
	for named, ok := range map[string]bool{
		server: true, "https://a.example/v1": true, "https://a.example/": true, "https://a.example": true, "https://A.example/v1/": true,
		"https://a.example/v1/mcp/": true,
		"":                          false, "https://a.example/v1/mc": false, "https://a.example/v1/mcp/x": false, "https://b.example/v1/mcp": false,
		"http://a.example/v1/mcp": false, "https://a.example:8443/v1/mcp": false, "https://a.example/v1/mcp#x": false, "https://a.example/v1/mcp?x=1": false,
		"https://a.example.evil.example/v1/mcp": false, "%": false,
	} {
		if err := CheckProtected(named, server); (err == nil) != ok {
			t.Errorf("%q: %v", named, err)
		}
	}
}

// TestNetwork: where documents of a server may lead.
func TestNetwork(t *testing.T) {
	open, here, near := Network{Host: "mcp.example"}, Network{Host: "127.0.0.1", Loopback: true}, Network{Host: "10.0.0.7"}
	for _, c := range []struct {
		in   Network
		host string
		to   string
		ok   bool
	}{
		{open, "login.example", "93.184.216.34", true},
		{open, "login.example", "127.0.0.1", false},
		{open, "mcp.example", "127.0.0.1", false}, // its owner decides where the name leads
		{open, "mcp.example", "10.0.0.7", true},   // a server of a company
		{open, "login.example", "10.0.0.7", false},
		{open, "mcp.example", "169.254.169.254", false},
		{open, "login.example", "::ffff:127.0.0.1", false},
		{open, "login.example", "fd00::1", false},
		{here, "127.0.0.1", "127.0.0.1", true},
		{here, "localhost", "::1", true},
		{here, "login.example", "93.184.216.34", true},
		{here, "x.example", "10.0.0.7", false},
		{here, "x.example", "169.254.169.254", false},
		{near, "10.0.0.7", "10.0.0.7", true},
		{near, "10.0.0.8", "10.0.0.8", false},
		{near, "x.example", "127.0.0.1", false},
	} {
		if got := c.in.Allows(c.host, netip.MustParseAddr(c.to)); got != c.ok {
			t.Errorf("%+v: %s at %s: %v", c.in, c.host, c.to, got)
		}
	}
	for _, c := range []struct {
		in  Network
		url string
		ok  bool
	}{
		{open, "https://login.example/x", true},
		{open, "http://login.example/x", false},
		{open, "http://127.0.0.1/x", false},
		{open, "https://localhost/x", false},
		{open, "https://[::1]/x", false},
		{open, "https://169.254.169.254/latest", false},
		{open, "https://10.0.0.1/x", false},
		{open, "https://u:p@login.example/x", false},
		{open, "javascript:alert(1)", false},
		{open, "file:///etc/passwd", false},
		{open, "/x", false},
		{here, "http://127.0.0.1:9/x", true},
		{here, "http://localhost:9/x", true},
		{here, "http://login.example/x", false},
		{here, "http://169.254.169.254/x", false},
	} {
		if err := c.in.CheckURL(c.url); (err == nil) != c.ok {
			t.Errorf("%+v: %s: %v", c.in, c.url, err)
		} else if err != nil && strings.Contains(err.Error(), "u:p") {
			t.Errorf("a password is told: %v", err)
		}
	}
}

// TestLogInWishes: what a person may say about a sign-in.
func TestLogInWishes(t *testing.T) {
	for name, c := range map[string]struct {
		in LogIn
		ok bool
	}{
		"nothing":             {LogIn{}, true},
		"client":              {LogIn{Client: "a", Port: 8123}, true},
		"secret":              {LogIn{Client: "a", Secret: "env:X"}, true},
		"secret of nobody":    {LogIn{Secret: "env:X"}, false},
		"secret and key":      {LogIn{Client: "a", Secret: "env:X", Key: "env:Y"}, false},
		"machine":             {LogIn{Client: "a", Key: "env:Y", Machine: true}, true},
		"machine, no proof":   {LogIn{Client: "a", Machine: true}, false},
		"port":                {LogIn{Port: 70000}, false},
		"scope with a space":  {LogIn{Scopes: []string{"a b"}}, false},
		"longer than an hour": {LogIn{Within: 2 * time.Hour}, false},
	} {
		if err := c.in.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenMethod(t *testing.T) {
	for _, c := range []struct {
		supported string
		secret    bool
		want      string
	}{
		{"", false, MethodNone},
		{MethodBasic, false, MethodNone},
		{"", true, MethodBasic},
		{MethodPost, true, MethodPost},
		{MethodPost + " " + MethodBasic, true, MethodBasic},
		{MethodNone, true, MethodBasic},
	} {
		if got := TokenMethod(strings.Fields(c.supported), c.secret); got != c.want {
			t.Errorf("%q, secret %v: %s", c.supported, c.secret, got)
		}
	}
}

func TestScopeLists(t *testing.T) {
	got := Scopes([]string{"a", "b"}, nil, []string{"b", "", "c d", `e"`, "c"})
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Error(diff)
	}
	for id, ok := range map[string]bool{"https://a.example/c.json": true, "https://a.example/": false, "http://a.example/c": false, "abc": false} {
		if IsDocumentID(id) != ok {
			t.Errorf("%q is the URL of a document: %v", id, !ok)
		}
	}
}
