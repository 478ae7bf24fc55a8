//go:build unix

package work

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
)

// canary is a value with characters that every encoding changes.
const canary = `cAn4ry/"v+lue?&é` + "\n" + `second line`

// treasury is a bench whose commands may be given secrets.
func treasury(t *testing.T) (*bench, *purse) {
	b := newBench(t)
	p := &purse{values: map[string]string{"deploy-key": canary}, noisy: map[string]bool{}}
	b.lend(p)
	b.grant(t, catalog.Credential{Name: "deploy-key", Commands: catalog.Grant{Projects: []string{"proj_app"}, Variable: "DEPLOY_KEY"}})
	return b, p
}

// lend lets commands have the values of a purse.
func (b *bench) lend(p *purse) {
	b.cfg.Secrets, b.cfg.Redact, b.cfg.RedactText = p, p.redactor.Values, p.redactor.Text
}

// nowhere fails when a value is in a file below the state directory, in what is stored, or in an event.
func (b *bench) nowhere(t *testing.T, values ...string) {
	t.Helper()
	stored, err := json.Marshal([]any{b.operations(t), b.list(t, operation.ListJobs{}), b.events(t, "")})
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range values {
		if strings.Contains(string(stored), value) {
			t.Errorf("%q is in the store", value)
		}
	}
	err = filepath.WalkDir(b.state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, value := range values {
			if strings.Contains(string(data), value) {
				t.Errorf("%q is in %s", value, path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// encoded are the forms of a value in which it must not be found either.
func encoded(value string) []string {
	quoted, _ := json.Marshal(value)
	return []string{
		value, base64.StdEncoding.EncodeToString([]byte(value)), base64.URLEncoding.EncodeToString([]byte(value)), hex.EncodeToString([]byte(value)),
		url.QueryEscape(value), url.PathEscape(value), strings.Trim(string(quoted), `"`),
	}
}

// TestSecretOfCommand: RT-119, RT-120.
func TestSecretOfCommand(t *testing.T) {
	b, _ := treasury(t)
	var text strings.Builder
	text.WriteString(`printf %s "$DEPLOY_KEY"; echo; printf %s "${DEPLOY_KEY:0:7}"; sleep 0.2; printf '%s\n' "${DEPLOY_KEY:7}"; head -c 65530 /dev/zero | tr '\0' x; printf '%s\n' "$DEPLOY_KEY"; `)
	for _, form := range encoded(canary)[1:] {
		fmt.Fprintf(&text, "echo '%s'; ", form)
	}
	text.WriteString(`printf %s "$DEPLOY_KEY" | base64; echo "$DEPLOY_KEY" | base64; printf user:%s "$DEPLOY_KEY" | base64; printf %s "$DEPLOY_KEY" >&2`)
	script := filepath.Join(b.root, "print.sh") // the text of a command is stored: what it is given there is no secret
	if err := os.WriteFile(script, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	a := b.run(t, "execute_command", `"argv":["bash","print.sh"],"secrets":["deploy-key"],"wait_ms":20000,"output_bytes":20000`)
	s := read[jobShown](t, a)
	if !a.OK || *s.Code != 0 {
		t.Fatalf("it prints: %+v, %+v", a, s)
	}
	out, err := b.all(t, s.Job, operation.Stdout), b.all(t, s.Job, operation.Stderr)
	if n := strings.Count(out, "[redacted:deploy-key]"); n != 12 || err != "[redacted:deploy-key]" || s.Stderr.Redactions != 1 {
		t.Errorf("%d markers, %q, %d redactions:\n%.2000s", n, err, s.Stderr.Redactions, strings.ReplaceAll(out, "xxxx", ""))
	}
	for _, form := range encoded(canary) {
		if strings.Contains(out, form) || strings.Contains(string(a.Data), form) {
			t.Errorf("%q is in an answer", form)
		}
	}
	w := b.status(t, s.Job, `,"output":{"stream":"stdout","offset":0,"max":200}`).Stdout
	if want := strings.Count(w.Text, "[redacted:deploy-key]"); want < 2 || w.Redactions != want {
		t.Errorf("%d redactions, want %d: %q", w.Redactions, want, w.Text)
	}
	sum := sha256.Sum256([]byte(canary))
	b.nowhere(t, append(encoded(canary), hex.EncodeToString(sum[:8]))...) // a digest that needs no key finds a short value
	used := b.events(t, "secret.used")
	if len(used) != 1 || string(used[0].Body) != `{"secrets":["deploy-key"]}` || used[0].Refs["job"] != s.Job {
		t.Errorf("events: %+v", used)
	}
}

// TestSecretRefusals: RT-122 and RT-124, as far as nothing has been started.
func TestSecretRefusals(t *testing.T) {
	b, p := treasury(t)
	b.grant(t, catalog.Credential{Name: "of-servers"})
	b.grant(t, catalog.Credential{Name: "elsewhere", Commands: catalog.Grant{Projects: []string{"proj_other"}, Variable: "ELSEWHERE"}})
	b.grant(t, catalog.Credential{Name: "gone", Commands: catalog.Grant{Projects: []string{"proj_app"}, Variable: "GONE"}})
	b.grant(t, catalog.Credential{Name: "same", Commands: catalog.Grant{Projects: []string{"proj_app"}, Variable: "DEPLOY_KEY"}})
	p.values["elsewhere"], p.values["same"] = "value-elsewhere", "value-same"
	for _, c := range []struct {
		more  string
		code  operation.Code
		retry fault.Retry
	}{
		{`"secrets":["nobody"]`, secretUnknown, fault.AfterFix},
		{`"secrets":["deploy-key","of-servers"]`, secretUnknown, fault.AfterFix},
		{`"secrets":["elsewhere"]`, policyDenied, fault.Never},
		{`"secrets":["gone"]`, secretUnavailable, fault.AfterFix},
		{`"secrets":["deploy-key","same"]`, operation.ArgumentInvalid, fault.AfterFix},
		{`"secrets":["deploy-key"],"env":{"DEPLOY_KEY":"x"}`, operation.ArgumentInvalid, fault.AfterFix},
		{`"secrets":["` + strings.Repeat(`a","`, maxSecrets) + `b"]`, operation.LimitExceeded, fault.AfterFix},
	} {
		a := b.run(t, "start_command", `"argv":["true"],`+c.more)
		refused(t, a, c.code, c.retry)
		if strings.Contains(a.Refusal.Message, "/home/dev") || strings.Contains(fmt.Sprint(a.Refusal.Details), "/home/dev") {
			t.Errorf("the refusal tells more than the name: %v", a.Refusal)
		}
	}
	if jobs, all := b.list(t, operation.ListJobs{}), b.operations(t); len(jobs) > 0 || len(all) != 1 {
		t.Errorf("refused commands left %+v, %+v", jobs, all)
	}

	// What may ask a person is looked at when the command starts, and not before.
	p.noisy["gone"] = true
	a := b.run(t, "start_command", `"shell":"touch started","secrets":["gone"]`)
	refused(t, a, spawnFailed, fault.NewID)
	if m := a.Refusal.Message; !strings.Contains(m, "gone") || strings.Contains(m, "/home/dev") || a.Refusal.Details["reason"] != operation.NoSecret {
		t.Errorf("a secret without a value: %+v", a.Refusal)
	}
	if _, err := os.Stat(filepath.Join(b.root, "started")); err == nil {
		t.Error("it was started")
	}
	if used := b.events(t, "secret.used"); len(used) > 0 {
		t.Errorf("nothing was used: %+v", used)
	}
}

// TestSecretsListed: RT-124, names and readiness without values.
func TestSecretsListed(t *testing.T) {
	b, p := treasury(t)
	b.grant(t, catalog.Credential{Name: "asks", Readiness: catalog.ReadinessReady, Commands: catalog.Grant{Projects: []string{"proj_app"}, Programs: []string{"gh"}, Variable: "ASKS"}})
	b.grant(t, catalog.Credential{Name: "gone", Readiness: catalog.ReadinessReady, Commands: catalog.Grant{Projects: []string{"proj_other", "proj_app"}, Variable: "GONE"}})
	b.grant(t, catalog.Credential{Name: "of-servers"})
	p.noisy["asks"] = true
	got, err := b.secretsOf(t.Context(), "proj_app")
	want := []grantedSecret{{"asks", "ASKS", catalog.ReadinessReady}, {"deploy-key", "DEPLOY_KEY", catalog.ReadinessReady}, {"gone", "GONE", catalog.ReadinessMissing}}
	if !slices.Equal(got, want) || err != nil {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for project, n := range map[string]int{"": 3, "proj_other": 1, "proj_none": 0} {
		if got, err := b.secretsOf(t.Context(), project); len(got) != n || err != nil {
			t.Errorf("of %q: %+v, %v", project, got, err)
		}
	}
}

// TestSecretOfQueuedCommand: one that waits holds no value: it is resolved when its turn comes, by the daemon that starts it.
func TestSecretOfQueuedCommand(t *testing.T) {
	b, p := treasury(t)
	b.jobs = 1
	b.restart(t)
	b.lend(p)
	first := read[startedJob](t, b.run(t, "start_command", `"shell":"until [ -e go ]; do sleep 0.01; done"`)).Job
	second := read[startedJob](t, b.run(t, "start_command", `"shell":"printf %s \"$DEPLOY_KEY\"","secrets":["deploy-key"]`)).Job
	third := read[startedJob](t, b.run(t, "start_command", `"shell":"touch third","secrets":["deploy-key"]`)).Job
	if used := b.events(t, "secret.used"); len(used) > 0 {
		t.Errorf("it waits: %+v", used)
	}
	p.values["deploy-key"] = "another-value"
	if err := os.WriteFile(filepath.Join(b.root, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.until(t, first, "the first", gone)
	if s := b.until(t, second, "the second", gone); s.Stdout.Text != "[redacted:deploy-key]" || s.Stdout.Redactions != 1 {
		t.Errorf("the value of its start: %+v", s.Stdout)
	}
	b.until(t, third, "the third", gone)
	b.nowhere(t, "another-value")
	if !slices.ContainsFunc(b.events(t, "secret.used"), func(e event.Event) bool { return e.Refs["job"] == third }) {
		t.Error("the third was not told of")
	}
}

// forGate forbids what has a secret that is for certain programs.
type forGate struct{ openGate }

func (forGate) Judge(ctx context.Context, c Command) (Ruling, error) {
	r, err := openGate{}.Judge(ctx, c)
	if len(c.Receivers) > 0 {
		r.Decision = policy.Deny
	}
	return r, err
}

// TestGrantOfQueuedCommand: for one that waits the grant counts as it is when its turn comes: its variable, and its programs.
func TestGrantOfQueuedCommand(t *testing.T) {
	b, p := treasury(t)
	b.jobs = 1
	b.restart(t)
	b.lend(p)
	b.cfg.Gate = forGate{}
	grant := catalog.Grant{Projects: []string{"proj_app"}, Variable: "OTHER_KEY"}
	b.grant(t, catalog.Credential{Name: "other", Commands: grant})
	p.values["other"] = "value-other"
	first := read[startedJob](t, b.run(t, "start_command", `"shell":"until [ -e go ]; do sleep 0.01; done"`)).Job
	variable := read[startedJob](t, b.run(t, "start_command", `"argv":["touch","ran"],"secrets":["deploy-key"],"env":{"MINE":"x"}`)).Job
	program := read[startedJob](t, b.run(t, "start_command", `"argv":["touch","ran"],"secrets":["other"]`)).Job
	b.grant(t, catalog.Credential{Name: "deploy-key", Commands: catalog.Grant{Projects: []string{"proj_app"}, Variable: "MINE"}})
	grant.Programs = []string{"gh"}
	b.grant(t, catalog.Credential{Name: "other", Commands: grant})
	file(t, b.root, "go", "")
	b.until(t, first, "the first", gone)
	for job, reason := range map[string]string{variable: operation.NoSecret, program: operation.NotAllowed} {
		b.until(t, job, "its end", gone)
		all := b.list(t, operation.ListJobs{})
		one := all[slices.IndexFunc(all, func(j operation.Job) bool { return j.ID == job })]
		if one.State != operation.JobFailed || one.Reason != reason {
			t.Errorf("%+v, want %s", one, reason)
		}
	}
	if _, err := os.Stat(filepath.Join(b.root, "ran")); err == nil {
		t.Error("one was started")
	}
}

// TestShapesInOutput: RT-121, what only looks like a secret is in no answer about output and in no event, wherever a window
// begins and ends; counts are.
func TestShapesInOutput(t *testing.T) {
	b, _ := treasury(t)
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEpAIBAAKCAQEAx"+strings.Repeat("k", 47)+"\n", 12) + "-----END RSA PRIVATE KEY-----\n"
	text := "start max_tokens: 4096\ntoken_count = 1234567\nkey ghp_0123456789abcdefABCD0123456789abcdef end\n" + key +
		"Authorization: Bearer abcdefgh.12345678\nGET https://user:passw0rd-x@host/\napi_key=zzzzzzzzzzzz\nthe end\n"
	if err := os.WriteFile(filepath.Join(b.root, "text"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := b.run(t, "execute_command", `"argv":["cat","text"],"wait_ms":20000,"activity":{"intent":"with api_key=zzzzzzzzzzzz, max_tokens: 4096"}`)
	s := read[jobShown](t, a)
	want := "start max_tokens: 4096\ntoken_count = 1234567\nkey [redacted] end\n[redacted]\n" +
		"Authorization: Bearer [redacted]\nGET https://user:[redacted]@host/\napi_key=[redacted]\nthe end\n"
	if s.Stdout.Text != want || s.Stdout.Redactions != 5 {
		t.Errorf("%d redactions, %q", s.Stdout.Redactions, s.Stdout.Text)
	}
	step := 7
	if raceOn {
		step = 50
	}
	for at := 0; at < len(text); at += step {
		w := b.status(t, s.Job, fmt.Sprintf(`,"output":{"stream":"stdout","offset":%d,"max":150}`, at)).Stdout
		for _, part := range []string{"ghp_0", "kkkk", "abcdefgh", "passw0rd", "zzzz"} {
			if strings.Contains(w.Text, part) {
				t.Errorf("the window at %d shows %q: %q", at, part, w.Text)
			}
		}
	}
	if out := b.status(t, s.Job, `,"output":{"stream":"stdout","grep":"api_key|zzz"}`).Stdout; !strings.Contains(out.Text, "api_key=[redacted]") || strings.Contains(out.Text, "zzz") {
		t.Errorf("grep: %q", out.Text)
	}
	raw, err := json.Marshal(b.events(t, ""))
	if err != nil || strings.Contains(string(raw), "zzzz") || !strings.Contains(string(raw), "max_tokens: 4096") {
		t.Errorf("the events: %s, %v", raw, err)
	}
}
