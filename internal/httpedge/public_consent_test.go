package httpedge

import "testing"

// TestFormTarget: the policy of the page lets the form lead to where the client is answered, and nowhere else. Only an IPv6
// address has no name in a policy: there it names the scheme alone.
func TestFormTarget(t *testing.T) {
	for redirect, want := range map[string]string{
		"https://chat.example/callback?x=1": " https://chat.example",
		"http://127.0.0.1:7777/cb":          " http://127.0.0.1:7777",
		"http://[::1]:7777/cb":              " http:", // a policy with [::1] would be one without it
		"cursor://host/x":                   " cursor:",
		"com.example.app:/cb":               " com.example.app:",
		"https://a.example;script-src/":     "",
	} {
		if got := formTarget(redirect); got != want {
			t.Errorf("%s: %q, want %q", redirect, got, want)
		}
	}
}
