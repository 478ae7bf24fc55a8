package converge

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/catalog"
)

// TestKeepOut: the commands hold no secret and no trace of where it was, and say when a name is guessed.
func TestKeepOut(t *testing.T) {
	const secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
	for _, test := range []struct {
		argv    []string
		set     []string // credentials
		add     string   // after "mcpx server add gh "
		guessed bool
	}{
		{[]string{"npx", "-y", "p", "--github-token", secret, "-v"}, []string{"gh-github-token"}, "--env-from GITHUB_TOKEN=cred:gh-github-token -- npx -y p -v", true},
		{[]string{"npx", "p", "--api-key=" + secret}, []string{"gh-api-key"}, "--env-from API_KEY=cred:gh-api-key -- npx p", true},
		{[]string{"uvx", "p", secret, "a b"}, []string{"gh-token"}, "--env-from GH_TOKEN=cred:gh-token -- uvx p 'a b'", true},
		{[]string{"docker", "run", "-i", "-e", "TOKEN=" + secret, "img"}, []string{"gh-token"}, "--env-from TOKEN=cred:gh-token -- docker run -i -e TOKEN img", false},
		{[]string{"docker", "run", "--env=TOKEN=short", "img"}, []string{"gh-token"}, "--env-from TOKEN=cred:gh-token -- docker run --env=TOKEN img", false},
		{[]string{"docker", "run", "--env=TOKEN=" + secret, "img"}, nil, "", false}, // the name was hidden, too
		{[]string{"env", "API_TOKEN=" + secret, "npx", "p"}, []string{"gh-api-token"}, "--env-from API_TOKEN=cred:gh-api-token -- env npx p", false},
		{
			[]string{"npx", "mcp-remote", "https://h/mcp", "--header", "Authorization: Bearer " + secret, "--header", "X-A: 1"},
			[]string{"gh-authorization"},
			"--url https://h/mcp --header 'Authorization={cred:gh-authorization}' --header X-A=1", false,
		},
		{[]string{"npx", "p", "--token", secret, "--password", secret}, []string{"gh-token", "gh-password"}, "--env-from TOKEN=cred:gh-token --env-from PASSWORD=cred:gh-password -- npx p", true},
		// What nobody can tell: a part of a text, and a URL that is the secret itself.
		{[]string{"npx", "p", `{"apiKey":"` + secret + `"}`}, nil, "", false},
		{[]string{"npx", "p", "postgres://u:" + secret + "@h/db"}, nil, "", false},
		{[]string{"npx", "p", "--verbose"}, nil, "", false},
	} {
		shape := catalog.Shape{Command: test.argv[0], Args: catalog.RedactArgs(test.argv[1:])}
		got, guessed := KeepOut("gh", "cand_1", shape)
		var want []string
		for _, name := range test.set {
			want = append(want, "mcpx credential set "+name)
		}
		if test.add != "" {
			want = append(want, "mcpx server add gh "+test.add, "mcpx catalog review cand_1 --merge gh")
		}
		if diff := cmp.Diff(want, got); diff != "" || guessed != test.guessed {
			t.Errorf("%v: guessed %v (-want +got):\n%s", shape.Args, guessed, diff)
		}
		if text := strings.Join(got, "\n"); strings.Contains(text, secret) || strings.Contains(text, catalog.Redacted) {
			t.Errorf("%v: %s", shape.Args, text)
		}
	}
}
