package gate

import "testing"

func TestHubLeads(t *testing.T) {
	h := Hub{Name: "old", Ports: []int{9000}, URLPatterns: []string{"https://hub.example/*/mcp", "http://10.0.0.1:1/[x]"}, Commands: []string{"old-hub"}}
	for _, c := range []struct{ command, url, want string }{
		{"old-hub", "", "command old-hub"},
		{"/opt/old/old-hub", "", "command old-hub"},
		{`C:\old\old-hub`, "", "command old-hub"},
		{"my-old-hub", "", ""},
		{"sh", "", ""},
		{"", "http://127.0.0.1:9000/mcp", "port 9000"},
		{"", "http://localhost:9000/x", "port 9000"},
		{"", "http://[::1]:9000/x", "port 9000"},
		{"", "http://example.com:9000/x", ""},
		{"", "http://127.0.0.1:9001/mcp", ""},
		{"", "https://hub.example/a/mcp", "pattern https://hub.example/*/mcp"},
		{"", "https://hub.example/mcp", ""},
		{"", "http://10.0.0.1:1/x", ""},
		{"", "http://10.0.0.1:1/[x]", "pattern http://10.0.0.1:1/[x]"},
		{"", "", ""},
	} {
		if got := h.Leads(c.command, c.url); got != c.want {
			t.Errorf("%q %q: %q, want %q", c.command, c.url, got, c.want)
		}
	}
}
