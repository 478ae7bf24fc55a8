package catalog

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSecretName(t *testing.T) {
	for _, name := range []string{
		"GITHUB_TOKEN", "token", "API_KEY", "apiKey", "X-Api-Key", "Authorization", "DB_PASSWORD", "PGPASSWORD_pwd", "CLIENT_SECRET",
		"AWS_SECRET_ACCESS_KEY", "GH_PAT", "--api-key", "key", "OPENAI_API_KEY", "Cookie", "X-Auth", "BASIC_AUTH", "MY_CREDENTIALS",
		"SLACK_BOT_TOKENS", "PRIVATE_KEY", "githubToken", "accessToken", "PASSPHRASE", "DB_PASS",
	} {
		if !SecretName(name) {
			t.Errorf("%s is taken for harmless", name)
		}
	}
	for _, name := range []string{
		"", "GITHUB_OWNER", "MAX_TOKENS", "token_count", "maxTokens", "TOKEN_LIMIT", "AUTHOR", "KEYBOARD", "SSH_AUTH_SOCK", "AUTH_TYPE",
		"PUBLIC_KEY", "AWS_ACCESS_KEY_ID", "TOKEN_URL", "KEY_FILE", "PATH", "HOME", "MONKEY", "PASS_THROUGH", "AUTH_DOMAIN", "COOKIE_JAR", "X-Org", "passive", "--",
	} {
		if SecretName(name) {
			t.Errorf("%s is taken for a secret", name)
		}
	}
}

func TestSecretValue(t *testing.T) {
	for _, v := range []string{
		"ghp_FAKE000000000000000000000000000000", "sk-proj-abcdef0123456789", "xoxb-1234567890-abc", "AKIAIOSFODNN7EXAMPLE",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "-----BEGIN RSA PRIVATE KEY-----\nx", "Bearer abc", "Basic dTpw",
		"postgres://u:FAKE@127.0.0.1/db", "9f86d081884c7d659a2feaa0c55ad015", "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW",
		"https://h/x?token=abcdef",
	} {
		if !SecretValue(v) {
			t.Errorf("%s is taken for harmless", v)
		}
	}
	for _, v := range []string{
		"", "1", "true", "octo", "/home/ada/src/app", "https://api.example.com/v1/things", "info", "$TOKEN", "${TOKEN}", "Bearer ${TOKEN}",
		"{env:TOKEN}", "{file:/run/secrets/token}", "${{ secrets.TOKEN }}", "${env:GITHUB_TOKEN_LONG_NAME_1234}", "postgres://u:${PW}@h/db",
		"123e4567-e89b-12d3-a456-426614174000", "my-server-name-with-2025-11-25-in-it", "@modelcontextprotocol/server-everything",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaa111aaaaaaaa", "the quick brown fox jumps over 13 lazy dogs",
	} {
		if SecretValue(v) {
			t.Errorf("%s is taken for a secret", v)
		}
	}
}

// TestHugeText: what no system takes as one argument is hidden without being looked through, which would take minutes.
func TestHugeText(t *testing.T) {
	huge := strings.Repeat("a b=c: ", 1<<21)
	start := time.Now()
	if got := RedactArgs([]string{"run", huge, "--name", huge[:longest], "x"}); got[1] != Redacted || got[3] != huge[:longest] || got[4] != "x" {
		t.Errorf("RedactArgs gives texts of %d, %d and %d bytes", len(got[1]), len(got[3]), len(got[4]))
	}
	if !SecretValue(huge) {
		t.Error("SecretValue would show a huge text")
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestRedactArgs(t *testing.T) {
	in := []string{
		"-y", "@a/b", "--token", "hunter2", "--api-key=hunter2", "--header", "Authorization: Bearer hunter2", "--header", "X-Org: acme",
		"postgres://u:hunter2@h/db", "https://h/?api_key=hunter2", "ghp_hunter2hunter2", "DB_PASSWORD=hunter2", "-e", "A=ghp_hunter2hunter2",
		"--token", "${TOKEN}", "--token", "--verbose", "--max-tokens", "100", "-",
	}
	want := []string{
		"-y", "@a/b", "--token", Redacted, "--api-key=" + Redacted, "--header", "Authorization: " + Redacted, "--header", "X-Org: acme",
		"postgres://u:redacted@h/db", "https://h/?api_key=redacted", Redacted, "DB_PASSWORD=" + Redacted, "-e", "A=" + Redacted,
		"--token", "${TOKEN}", "--token", "--verbose", "--max-tokens", "100", "-",
	}
	got := RedactArgs(in)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if strings.Contains(strings.Join(got, " "), "hunter2") {
		t.Error("a secret is left")
	}
	if d := cmp.Diff(got, RedactArgs(got)); d != "" {
		t.Errorf("redacting twice differs:\n%s", d)
	}
}

func TestRedactDeepArgs(t *testing.T) {
	for arg, want := range map[string]string{
		`{"debug":true,"apiKey":"hunter2"}`: `{"debug":true,"apiKey":"[redacted]"}`,
		`{"apiKey": "${KEY}", "mode":"a"}`:  `{"apiKey": "${KEY}", "mode":"a"}`,
		"--env=API_TOKEN=hunter2":           "--env=API_TOKEN=[redacted]",
		"--env=MODE=fast":                   "--env=MODE=fast",
		"export A=1; API_TOKEN=hunter2 npx": "export A=1; API_TOKEN=[redacted] npx",
		"npx x --token hunter2":             "npx x --token [redacted]",
		"a b  c":                            "a b  c",
	} {
		if got := RedactArgs([]string{arg})[0]; got != want {
			t.Errorf("%s: %s, want %s", arg, got, want)
		}
	}
}

func TestHideURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://h/x?a=1":                                    "https://h/x?a=1",
		"https://hunter2@h/x":                                "https://redacted@h/x",
		"https://u:hunter2@h/x":                              "https://redacted@h/x",
		"https://h/s/sk-aaaabbbbccccdddd1111/mcp":            "https://h/s/redacted/mcp",
		"https://h/x?token=hunter2":                          "https://h/x?token=redacted",
		"https://${HOST}/x":                                  "https://${HOST}/x",
		"https://u:hunter2@${HOST}/x?token=hunter2":          "https://redacted@${HOST}/x?redacted",
		"https://h/x?token=${TOKEN}":                         "https://h/x?token=${TOKEN}",
		"https://h/550e8400-e29b-41d4-a716-446655440000/mcp": "https://h/550e8400-e29b-41d4-a716-446655440000/mcp",
		"":                     "",
		"not a url at all %zz": "not a url at all %zz",
	} {
		if got := HideURL(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
		if again := HideURL(want); again != want {
			t.Errorf("%s is hidden again: %s", want, again)
		}
	}
}
