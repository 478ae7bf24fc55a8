package secret

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hidden = "hunter2-hunter2"

func TestHandleHides(t *testing.T) {
	h := Hold(hidden)
	type field struct{ h Handle }
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).LogAttrs(t.Context(), slog.LevelInfo, "x", slog.Any("a", h), slog.Any("b", &h))
	encoded, err := json.Marshal(map[string]any{"h": h, "p": &h, "l": []Handle{h}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := h.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	for name, out := range map[string]string{
		"verbs":  fmt.Sprintf("%v %+v %#v %s %q %x %X %d %T", h, h, h, h, h, h, h, h, h),
		"nested": fmt.Sprintf("%v %+v %#v", []Handle{h}, map[string]Handle{"a": h}, struct{ H Handle }{h}),
		"field":  fmt.Sprintf("%v %+v %#v", field{h}, field{h}, field{h}),
		"error":  fmt.Errorf("x: %v", h).Error(),
		"slog":   log.String(), "json": string(encoded), "text": string(text), "string": h.String() + h.GoString(),
	} {
		if strings.Contains(out, "hunter2") || strings.Contains(out, hex.EncodeToString([]byte("hunter2"))) {
			t.Errorf("%s shows the value: %s", name, out)
		}
	}
	if h.Reveal() != hidden || (Handle{}).Reveal() != "" {
		t.Error("Reveal does not give the value")
	}
}

func TestParseRef(t *testing.T) {
	for s, want := range map[string]Ref{
		"env:GITHUB_TOKEN":                   {Kind: Env, Name: "GITHUB_TOKEN"},
		"file:/run/secrets/t":                {Kind: File, Path: "/run/secrets/t"},
		"file:~/x.env#KEY":                   {Kind: File, Path: "~/x.env", Key: "KEY"},
		"file:/a#b/c.json#/d/e~1f":           {Kind: File, Path: "/a#b/c.json", Key: "/d/e~1f"},
		"command:pass show github":           {Kind: Command, Argv: []string{"pass", "show", "github"}},
		"keyring:github/ada":                 {Kind: Keyring, Service: "github", Account: "ada"},
		"keyring:https://a.b/c/ada":          {Kind: Keyring, Service: "https://a.b/c", Account: "ada"},
		"keyring:gh:github.com/":             {Kind: Keyring, Service: "gh:github.com"},
		"store:github-token":                 {Kind: Store, Name: "github-token"},
		"cred:a.B_1":                         {Kind: Named, Name: "a.B_1"},
		`command:["op", "read", "op://a b"]`: {Kind: Command, Argv: []string{"op", "read", "op://a b"}},
	} {
		got, err := ParseRef(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", s, d)
		}
		again, err := ParseRef(got.String())
		if d := cmp.Diff(got, again); d != "" || err != nil {
			t.Errorf("%s: String gives %s, which is read as another one: %s %v", s, got, d, err)
		}
	}
	for s, want := range map[string]struct{ code, hint string }{
		"":                                    {"reference-invalid", "env:"},
		"hunter2":                             {"reference-invalid", "env:"},
		"hunter2:abc":                         {"reference-kind", "env:NAME"},
		"emv:X":                               {"reference-kind", "did you mean env:"},
		"keyring:":                            {"reference-invalid", "keyring:github/ada"},
		"keyring:hunter2":                     {"reference-invalid", "keyring:github/ada"},
		"keyring:/ada":                        {"reference-invalid", "keyring:github/ada"},
		"keyring:a{b}/c":                      {"reference-invalid", "SERVICE/ACCOUNT"},
		"keyrnig:a/b":                         {"reference-kind", "did you mean keyring:"},
		"store:":                              {"reference-invalid", "store:NAME"},
		"store:hunter2/..":                    {"reference-invalid", "store:NAME"},
		"cred:-a":                             {"reference-invalid", "cred:NAME"},
		"cred:" + strings.Repeat("a", 200):    {"reference-invalid", "cred:NAME"},
		"env:":                                {"reference-invalid", "env:"},
		"env:A=B":                             {"reference-invalid", "env:"},
		"file:x":                              {"reference-invalid", "file:/"},
		"file:/x#":                            {"reference-invalid", "file:"},
		"command: ":                           {"reference-invalid", "command:"},
		"command:[1]":                         {"reference-invalid", "command:"},
		"command:[":                           {"reference-invalid", "command:"},
		"command:" + strings.Repeat("a ", 65): {"reference-invalid", "script"},
		"env:" + strings.Repeat("a", maxRef):  {"reference-invalid", "shorten"},
	} {
		_, err := ParseRef(s)
		wantFault(t, s, err, fault.Invalid, want.code, want.hint)
	}
}

func wantFault(t *testing.T, what string, err error, kind fault.Kind, code, hint string) {
	t.Helper()
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Kind != kind || f.Code != code || !strings.Contains(f.Hint, hint) || f.Hint == "" {
		t.Errorf("%.60s: %v, want %s %s with a hint about %q", what, err, kind, code, hint)
		return
	}
	if strings.Contains(f.Error()+f.Hint, "hunter2") {
		t.Errorf("%.60s: the error shows a secret: %v (%s)", what, f, f.Hint)
	}
}

// runner is a Runner that plays the programs of a test.
type runner map[string]func(ctx context.Context) ([]byte, error)

func (r runner) Output(ctx context.Context, argv []string, limit int) ([]byte, error) {
	if limit != maxValue {
		return nil, fmt.Errorf("limit %d", limit)
	}
	run, ok := r[strings.Join(argv, " ")]
	if !ok {
		return nil, errors.New("no such program")
	}
	return run(ctx)
}

func prints(s string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(s), nil }
}

func resolver(t *testing.T, programs runner) (*Resolver, *Redactor, string) {
	t.Helper()
	home := t.TempDir()
	redactor := &Redactor{}
	r, err := New(Config{
		Lookup: func(name string) (string, bool) {
			v, ok := map[string]string{"TOKEN": hidden, "EMPTY": "", "BAD": "hunter2\x00"}[name]
			return v, ok
		},
		Home: home, Runner: programs, Redactor: redactor, Now: func() time.Time { return today },
		Ring: newRing(&fakeRing{items: map[string]string{"svc/ada": hidden, "empty/b": ""}}, keyringTime), Credential: records,
		Vault: newVault(t, filepath.Join(home, "secrets"), newRing(&fakeRing{err: errNoRing}, keyringTime)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, redactor, home
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func TestResolve(t *testing.T) {
	r, redactor, home := resolver(t, runner{
		"pass show x": prints(hidden + "\n"), "crlf": prints(hidden + "\r\n"), "two": prints(hidden + "\n\n"), "silent": prints("\n"),
		"fails": func(context.Context) ([]byte, error) { return nil, errors.New("exit status 1") },
	})
	write(t, home+"/whole", hidden+"\n", 0o600)
	write(t, home+"/a.json", `{"a": {"b/c": ["x", "`+hidden+`"]}, "n": 5, /* c */ }`, 0o400)
	write(t, home+"/.env", "# A=no\nexport A = '"+hidden+"' # c\nB=\"x\\n\\\"y\\$\"\nC=plain # c\nD=\nE=\"open\nC=last\n", 0o600)
	write(t, home+"/open", hidden, 0o644)
	write(t, home+"/big", strings.Repeat("x", maxFile+1), 0o600)
	write(t, home+"/long", strings.Repeat("x", maxValue+1), 0o600)
	if changed, err := r.Keep(t.Context(), "kept", Hold(hidden)); err != nil || !changed {
		t.Fatal(changed, err)
	}
	for ref, want := range map[string]string{
		"env:TOKEN": hidden, "file:~/whole": hidden, "file:" + home + "/whole": hidden, "file:~/a.json#/a/b~1c/1": hidden,
		"file:~/.env#A": hidden, "file:~/.env#B": "x\n\"y$", "file:~/.env#C": "last", "command:pass show x": hidden,
		"command:crlf": hidden, "command:two": hidden + "\n",
		"keyring:svc/ada": hidden, "store:kept": hidden, "cred:young": hidden, "cred:file": hidden, "cred:stored": hidden, "cred:ring": hidden,
	} {
		h, err := r.Resolve(t.Context(), ref)
		if err != nil || h.Reveal() != want {
			t.Errorf("%s: %q, %v; want %q", ref, h.Reveal(), err, want)
		}
	}
	if got := redactor.Values("x " + hidden + " y"); got != "x [redacted:TOKEN] y" && !strings.HasPrefix(got, "x [redacted:") {
		t.Errorf("the redactor did not learn a resolved value: %s", got)
	}
	for ref, want := range map[string]struct {
		kind       fault.Kind
		code, hint string
	}{
		"env:NONE":                {fault.Unavailable, "credential-missing", "daemon restart"},
		"env:EMPTY":               {fault.Unavailable, "credential-missing", "daemon restart"},
		"env:BAD":                 {fault.Invalid, "credential-invalid", "text"},
		"file:~/none":             {fault.Unavailable, "credential-missing", "0600"},
		"file:~/":                 {fault.Unavailable, "credential-missing", "path"},
		"file:~/.env#NONE":        {fault.Unavailable, "credential-missing", "#"},
		"file:~/.env#D":           {fault.Unavailable, "credential-missing", "#"},
		"file:~/.env#E":           {fault.Invalid, "credential-invalid", "correct"},
		"file:~/a.json#/none":     {fault.Unavailable, "credential-missing", "#"},
		"file:~/a.json#/a/b~1c/9": {fault.Unavailable, "credential-missing", "#"},
		"file:~/a.json#/n":        {fault.Invalid, "credential-invalid", "correct"},
		"file:~/whole#/n":         {fault.Invalid, "credential-invalid", "correct"},
		"file:~/big":              {fault.Invalid, "credential-invalid", "own"},
		"file:~/long":             {fault.Invalid, "credential-invalid", "#KEY"},
		"command:fails":           {fault.Unavailable, "credential-unavailable", "by hand"},
		"command:silent":          {fault.Unavailable, "credential-missing", "by hand"},
		"keyring:a":               {fault.Invalid, "reference-invalid", "keyring:github/ada"},
		"keyring:a/b":             {fault.Unavailable, "credential-missing", "reference"},
		"keyring:empty/b":         {fault.Unavailable, "credential-missing", "store"},
		"keyring:shut/b":          {fault.Unavailable, "credential-locked", "unlock"},
		"keyring:deny/b":          {fault.Denied, "credential-denied", "allow"},
		"keyring:broken/b":        {fault.Unavailable, "keyring-unavailable", "credential set"},
		"store:none":              {fault.Unavailable, "credential-missing", "credential set none"},
		"cred:none":               {fault.Unavailable, "credential-missing", "credential set none"},
		"cred:gone":               {fault.Unavailable, "credential-missing", "daemon restart"},
		"cred:old":                {fault.Unavailable, "credential-expired", "credential rotate old"},
		"cred:round":              {fault.Invalid, "reference-invalid", "reference of the other"},
	} {
		_, err := r.Resolve(t.Context(), ref)
		wantFault(t, ref, err, want.kind, want.code, want.hint)
	}
	if runtime.GOOS != "windows" {
		_, err := r.Resolve(t.Context(), "file:~/open")
		wantFault(t, "open file", err, fault.Denied, "credential-permissions", "chmod 600 "+filepath.Join(home, "open"))
	}
}

func TestCommandThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, _ := resolver(t, runner{"waits": func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		_, err := r.Resolve(t.Context(), "command:waits")
		wantFault(t, "waits", err, fault.Unavailable, "credential-unavailable", "password")
	})
}

// TestLearn: what is known is redacted, and what is not is told; no command runs.
func TestLearn(t *testing.T) {
	const password = "correct horse"
	for _, c := range []struct {
		name string
		in   map[string]catalog.Binding
		want bool
		left string // of a text with both values
	}{
		{"none", nil, true, hidden + " " + password},
		{"literal", map[string]catalog.Binding{"A": {Literal: "plain"}}, true, hidden + " " + password},
		{"variable in a template", map[string]catalog.Binding{"A": {Template: "Bearer {env:TOKEN}!"}}, true, "[redacted:TOKEN] " + password},
		{"one is missing", map[string]catalog.Binding{"A": {Template: "{env:NONE} {env:TOKEN}"}}, false, "[redacted:TOKEN] " + password},
		{"command", map[string]catalog.Binding{"A": {Ref: `command:["pass"]`}, "B": {Ref: "env:TOKEN"}}, false, "[redacted:TOKEN] " + password},
	} {
		r, redactor, _ := resolver(t, runner{"pass": func(context.Context) ([]byte, error) {
			t.Errorf("%s: the command ran", c.name)
			return []byte(password), nil
		}})
		if got := r.Learn(t.Context(), c.in); got != c.want {
			t.Errorf("%s: all known %v", c.name, got)
		}
		if got := redactor.Values(hidden + " " + password); got != c.left {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

func TestBindings(t *testing.T) {
	r, _, _ := resolver(t, nil)
	got, err := r.Bindings(t.Context(), map[string]catalog.Binding{
		"A": {Literal: "plain"}, "B": {Ref: "env:TOKEN"}, "C": {Template: "Bearer {env:TOKEN}!"}, "D": {},
	})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for name, h := range got {
		values[name] = h.Reveal()
	}
	want := map[string]string{"A": "plain", "B": hidden, "C": "Bearer " + hidden + "!", "D": ""}
	if d := cmp.Diff(want, values); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	_, err = r.Bindings(t.Context(), map[string]catalog.Binding{"A": {Ref: "env:TOKEN"}, "Z": {Ref: "env:NONE"}, "Y": {Template: "{env:NONE}"}})
	wantFault(t, "two missing", err, fault.Unavailable, "credential-missing", "daemon restart")
	if !strings.Contains(err.Error(), "Y, Z") {
		t.Errorf("the error %v does not name both variables", err)
	}
}

func TestNewFailsLoudly(t *testing.T) {
	ok := Config{Lookup: os.LookupEnv, Home: "/home/ada", Runner: runner{}, Redactor: &Redactor{}}
	for want, spoil := range map[string]func(*Config){
		"Config.Lookup": func(c *Config) { c.Lookup = nil }, "Config.Home": func(c *Config) { c.Home = "x" },
		"Config.Runner": func(c *Config) { c.Runner = nil }, "Config.Redactor": func(c *Config) { c.Redactor = nil },
	} {
		c := ok
		spoil(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to name %s", err, want)
		}
	}
}

func TestRedactorForms(t *testing.T) {
	const value = `p@ss/"w"ö rd+1`
	var r Redactor
	r.Add("PW", value)
	quoted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for name, form := range map[string]string{
		"plain": value, "query": url.QueryEscape(value), "path": url.PathEscape(value), "hex": hex.EncodeToString([]byte(value)),
		"base64": base64.StdEncoding.EncodeToString([]byte(value)), "base64url": base64.RawURLEncoding.EncodeToString([]byte(value)),
		"json": strings.Trim(string(quoted), `"`),
	} {
		if got := r.Values("<" + form + ">"); got != "<[redacted:PW]>" {
			t.Errorf("%s: %s", name, got)
		}
	}
	// Without an end of its own, and in lines as base64(1) prints it: only what surrounds it is left of the groups at both ends.
	long := strings.Repeat(value, 8)
	r.Add("PEM", long)
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		if got := r.Values(e.EncodeToString([]byte(value + "\n"))); got != "[redacted:PW]" {
			t.Errorf("as echo prints it: %s", got)
		}
		for before := range 4 {
			whole := e.EncodeToString([]byte("user"[:before] + value + ":"))
			got := r.Values(whole)
			if len(got)-len("[redacted:PW]") > 8 || !strings.Contains(got, "[redacted:PW]") {
				t.Errorf("with %d bytes before it: %s of %s", before, got, whole)
			}
		}
		lines := slices.Collect(slices.Chunk([]byte(e.EncodeToString([]byte(long))), 76))
		if got := r.Values(string(bytes.Join(lines, []byte("\n")))); strings.Trim(got, "\n") != strings.TrimSuffix(strings.Repeat("[redacted:PEM]\n", len(lines)), "\n") {
			t.Errorf("in %d lines: %s", len(lines), got)
		}
	}
	r.Add("SHORT", "12345")
	r.Add("LONG", value+"-and-more")
	r.Add("", "nameless")
	if got := r.Values("12345 " + value + "-and-more " + value + "-and nameless"); got != "12345 [redacted:LONG] [redacted:PW]-and [redacted]" {
		t.Errorf("got %s", got)
	}
	var none Redactor
	if got := none.Values("text"); got != "text" {
		t.Errorf("the zero Redactor changes text: %s", got)
	}
}

func TestRedactorShapes(t *testing.T) {
	var r Redactor
	r.Add("T", "known-value")
	for in, want := range map[string]string{
		"Authorization: Bearer abc.def":           "Authorization: Bearer [redacted]",
		`{"authorization":"Basic dTpw"}`:          `{"authorization":"Basic [redacted]"}`,
		"sent bearer abcdefgh12 to":               "sent bearer [redacted] to",
		"connect postgres://u:hunter2@h/db now":   "connect postgres://u:[redacted]@h/db now",
		"key ghp_FAKE0000 x":                      "key [redacted] x",
		"API_KEY=hunter2 next":                    "API_KEY=[redacted] next",
		"GH_PAT: hunter2 next":                    "GH_PAT: [redacted] next",
		"k AKIAFAKE0000 sk_live_FAKE0000 x":       "k [redacted] [redacted] x",
		"eyJhbGciOiJI.eyJzdWIi.c2ln and":          "[redacted] and",
		`"client_secret": "hunter2"`:              `"client_secret": "[redacted]"`,
		"https://h/x?access_token=hunter2&a=1":    "https://h/x?access_token=[redacted]&a=1",
		"-----BEGIN PRIVATE KEY-----\nabc\n":      "[redacted]",
		"token known-value":                       "token [redacted:T]",
		"TOKEN=known-value":                       "TOKEN=[redacted:T]",
		"max_tokens=100000 token_count: 1234567":  "max_tokens=100000 token_count: 1234567",
		"TOKEN=${GITHUB_TOKEN} listening on 8080": "TOKEN=${GITHUB_TOKEN} listening on 8080",
		"plain text: nothing=here":                "plain text: nothing=here",
	} {
		got := r.Text(in)
		if got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
		if again := r.Text(got); again != got {
			t.Errorf("redacting %q again gives %q", got, again)
		}
	}
}

// TestStream: however a stream is cut, no value comes through, and everything else does.
func TestStream(t *testing.T) {
	values := []string{"abcabc", "abcabcab", "cabca1", "xyzxyz"}
	rapid.Check(t, func(t *rapid.T) {
		var r Redactor
		for _, v := range values {
			r.Add(v, v)
		}
		parts := rapid.SliceOfN(rapid.SampledFrom(append([]string{"a", "b", "c", "ab", "1", "x", "\n", "abcab", "xyzxy"}, values...)), 0, 12).Draw(t, "parts")
		text := strings.Join(parts, "")
		s := r.Stream()
		var out strings.Builder
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "chunk")
			out.Write(s.Write([]byte(rest[:n])))
			rest = rest[n:]
		}
		out.Write(s.Flush())
		if got, want := out.String(), r.Values(text); got != want {
			t.Fatalf("%q in chunks becomes %q, at once %q", text, got, want)
		}
	})
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"env:A", "file:/a#b#/c", "command:a b", `command:["a b",""]`, "keyring:x/y", "keyring:a/b/", "store:a", "cred:b", ":"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := ParseRef(s)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Errorf("error %v, want it to be about the reference", err)
			}
			return
		}
		again, err := ParseRef(ref.String())
		if d := cmp.Diff(ref, again); d != "" || err != nil {
			t.Errorf("%q: String gives %q, read as another one: %s %v", s, ref, d, err)
		}
	})
}

func FuzzDotenv(f *testing.F) {
	f.Add("A=1\nexport B='x'\nC=\"a\\n\"", "B")
	f.Fuzz(func(t *testing.T, text, key string) {
		if v, found, err := dotenv(text, key); !found && v != "" && err == nil {
			t.Errorf("a value %q that was not found", v)
		}
	})
}
