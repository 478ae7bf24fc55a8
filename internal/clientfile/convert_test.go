package clientfile

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestConvert(t *testing.T) {
	for _, tc := range []struct {
		format   Format
		in, want string
	}{
		{JSONC, "// c\n{\"b\": [1, \"ü<\", null,], \"a\": {\"x\": 9007199254740993}}", `{"b":[1,"ü\u003c",null],"a":{"x":9007199254740993}}`},
		{
			TOML, "[mcp_servers.b]\ncommand = 'x'\nargs = ['-y']\n[mcp_servers.a]\nurl = \"u\"\nn = 0x10\nd = 2026-01-02\nf = inf\n",
			`{"mcp_servers":{"b":{"command":"x","args":["-y"]},"a":{"url":"u","n":16,"d":"2026-01-02","f":"+Inf"}}}`,
		},
		{YAML, "mcpServers:\n  - name: st\n    args: [a, 'b']\n    on: yes\n    n: 0o7\n", `{"mcpServers":[{"name":"st","args":["a","b"],"on":"yes","n":"0o7"}]}`},
		{JSON, "", `{}`},
	} {
		got, err := Convert([]byte(tc.in), tc.format)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s %q: %s, %v\nwant %s", tc.format, tc.in, got, err, tc.want)
		}
	}
	if _, err := Convert([]byte("a = 'hunter2"), TOML); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a broken document: %v", err)
	}
}

func FuzzConvert(f *testing.F) {
	for _, format := range []Format{JSON, TOML, YAML} {
		f.Add(string(format), []byte("a = {b = [1, 'x']}"))
		f.Add(string(format), []byte("{\"a\": [1e5, true, \"\\ud800\"]}"))
		f.Add(string(format), []byte("a: &x [1, .inf]\nb: *x\n"))
	}
	f.Fuzz(func(t *testing.T, format string, data []byte) {
		got, err := Convert(data, Format(format))
		if err == nil && !json.Valid(got) && got != nil {
			t.Errorf("%s %q becomes %q, which is no JSON", format, data, got)
		}
	})
}
