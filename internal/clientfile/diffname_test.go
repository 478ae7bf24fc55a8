package clientfile

import "testing"

func TestDiffName(t *testing.T) {
	for path, want := range map[string]string{
		"/home/ada/.claude.json":    "/home/ada/.claude.json",
		"/home/ada/my dir/ü":        "/home/ada/my dir/ü",
		"/p\n+  \"x\": 1/.mcp.json": `"/p\n+  \"x\": 1/.mcp.json"`,
		"/p\x1b[2J":                 `"/p\x1b[2J"`,
	} {
		if got := diffName(path); got != want {
			t.Errorf("%q is shown as %s, want %s", path, got, want)
		}
	}
}
