package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tailscale/hujson"

	"mcpx/internal/fault"
)

func TestParseImport(t *testing.T) {
	all, err := ParseImport([]byte("\xef\xbb\xbf"+`{
		// comments are fine
		"mcpServers": {
			"fs": {"command": "npx", "args": ["-y", "@a/fs"], "env": {"ROOT": "/srv", "PORT": 80, "CI": true}},
			"one-line": {"command": "npx -y @a/fs --root /srv"},
			"tokens": {"command": "x", "env": {"GITHUB_TOKEN": "ghp_FAKE0000", "A": "${A}", "B": "pre {env:B}", "C": "${C:-d}", "D": "$D"}},
			"github.com/acme/fs": {"command": "x", "disabled": true},
			"h": {"type": "http", "url": "https://e.com/mcp", "headers": {"Authorization": "Bearer ghp_FAKE0000", "X-Org": "acme", "Accept": "*/*", "X-T": "Bearer $TOK"}},
			"cline": {"transport": {"type": "streamableHttp", "url": "http://127.0.0.1:1/mcp"}},
			"flat": {"transport": "sse", "url": "http://127.0.0.1:1/sse"},
			"open": {"type": "local", "command": ["uvx", "y", "--z"], "environment": {"A": "1"}, "enabled": false},
		},
	}`), true)
	if err != nil {
		t.Fatal(err)
	}
	stdio := func(command string, args []string, env map[string]Binding) *Stdio {
		return &Stdio{Command: command, Args: args, Env: env}
	}
	want := []struct {
		s     Server
		notes string
	}{
		{Server{Name: "fs", Stdio: stdio("npx", []string{"-y", "@a/fs"}, map[string]Binding{"ROOT": {Literal: "/srv"}, "PORT": {Literal: "80"}, "CI": {Literal: "true"}})}, ""},
		{Server{Name: "one-line", Stdio: stdio("npx", []string{"-y", "@a/fs", "--root", "/srv"}, nil)}, "command-split"},
		{Server{Name: "tokens", Stdio: stdio("x", nil, map[string]Binding{
			"GITHUB_TOKEN": {Ref: "env:GITHUB_TOKEN"}, "A": {Ref: "env:A"}, "B": {Template: "pre {env:B}"}, "C": {Ref: "env:C"}, "D": {Ref: "env:D"},
		})}, "default-dropped value-not-imported"},
		{Server{Name: "github.com-acme-fs", Stdio: stdio("x", nil, nil), Lifecycle: Disabled}, "name-changed"},
		{Server{Name: "h", HTTP: &HTTP{URL: "https://e.com/mcp", Transport: TransportStreamable, Headers: map[string]Binding{
			"Authorization": {Template: "Bearer {env:H_AUTHORIZATION}"}, "X-Org": {Literal: "acme"}, "X-T": {Template: "Bearer {env:TOK}"},
		}}}, "header-dropped value-not-imported"},
		{Server{Name: "cline", HTTP: &HTTP{URL: "http://127.0.0.1:1/mcp", Transport: TransportStreamable}}, ""},
		{Server{Name: "flat", HTTP: &HTTP{URL: "http://127.0.0.1:1/sse", Transport: TransportSSE}}, ""},
		{Server{Name: "open", Stdio: stdio("uvx", []string{"y", "--z"}, map[string]Binding{"A": {Literal: "1"}}), Lifecycle: Disabled}, ""},
	}
	if len(all) != len(want) {
		t.Fatalf("%d entries, want %d", len(all), len(want))
	}
	for i, w := range want {
		w.s.Sharing, w.s.Review, w.s.Source = ShareSession, ReviewPending, "import"
		if w.s.Lifecycle == "" {
			w.s.Lifecycle = Enabled
		}
		if all[i].Err != nil {
			t.Errorf("%s: %v", all[i].Name, all[i].Err)
			continue
		}
		if d := cmp.Diff(w.s, all[i].Server, cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", all[i].Name, d)
		}
		var codes []string
		for _, n := range all[i].Notes {
			codes = append(codes, n.Code)
			if strings.Contains(n.Text, "FAKE") {
				t.Errorf("%s: a note shows a secret: %s", all[i].Name, n.Text)
			}
		}
		slices.Sort(codes)
		if got := strings.Join(codes, " "); got != w.notes {
			t.Errorf("%s: notes %q, want %q", all[i].Name, got, w.notes)
		}
	}
}

func TestParseImportContainers(t *testing.T) {
	const entry = `{"a": {"command": "x"}}`
	for _, doc := range []string{
		`{"mcpServers": ` + entry + `}`, `{"servers": ` + entry + `}`, `{"mcp": ` + entry + `}`, `{"mcp": {"servers": ` + entry + `}}`,
		`{"context_servers": ` + entry + `}`, `{"amp.mcpServers": ` + entry + `}`,
	} {
		all, err := ParseImport([]byte(doc), true)
		if err != nil || len(all) != 1 || all[0].Err != nil || all[0].Server.Name != "a" {
			t.Errorf("%s: %+v, %v", doc, all, err)
		}
	}
}

func TestParseImportOneBadEntry(t *testing.T) {
	all, err := ParseImport([]byte(`{"mcpServers": {
		"empty": {}, "list": [], "null": null, "types": {"command": 5}, "args": {"command": "x", "args": "-y"},
		"both": {"command": "x", "url": "http://y"}, "shell": {"command": "a && b c"}, "ws": {"type": "ws", "url": "http://y"},
		"secret-arg": {"command": "x", "args": ["--token", "hunter2"]}, "arg-ref": {"command": "x", "args": ["${HOME}/y"]},
		"url-ref": {"url": "http://${HOST}/mcp"}, "url-secret": {"url": "http://h/?token=hunter2"}, "cwd": {"command": "x", "cwd": "rel"},
		"input": {"command": "x", "env": {"T": "${input:token}"}}, "a b": {"command": "x"}, "a-b": {"command": "x"},
		"good": {"command": "x"}
	}}`), true)
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{}
	for _, i := range all {
		if i.Err == nil {
			codes[i.Name] = "created"
			continue
		}
		f, ok := errors.AsType[*fault.Error](i.Err)
		if !ok || f.Hint == "" {
			t.Errorf("%s: %v, want a fault with a hint", i.Name, i.Err)
			continue
		}
		codes[i.Name] = f.Code
		if strings.Contains(f.Error(), "hunter2") {
			t.Errorf("%s: the error shows a secret: %v", i.Name, f)
		}
	}
	want := map[string]string{
		"empty": "import-incomplete", "list": "import-shape", "null": "import-shape", "types": "import-shape",
		"args": "import-shape", "both": "import-ambiguous", "shell": "command-shell", "ws": "import-transport",
		"secret-arg": "import-secret-argument", "arg-ref": "import-template", "url-ref": "import-template",
		"url-secret": "server-invalid", "cwd": "server-invalid", "input": "import-template", "a b": "created", "a-b": "import-name",
		"good": "created",
	}
	if d := cmp.Diff(want, codes); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestParseImportSaysWhatIsWrong(t *testing.T) {
	for entry, want := range map[string]string{
		`{"command": 5}`:                       "e: the field command is a number, want a text",
		`{"command": {"a": 1}}`:                "e: the field command is an object, want a text",
		`{"command": ["x", true]}`:             "e: the field command holds true or false, want texts",
		`"npx server"`:                         "e: it is a text, want an object",
		`[]`:                                   "e: it is an array, want an object",
		`null`:                                 "e: it is null, want an object",
		`{"command": "x", "args": "-y"}`:       "e: the field args is or holds a text, want a list of texts",
		`{"command": "x", "args": [1]}`:        "e: the field args is or holds a number, want a text",
		`{"command": "x", "env": 5}`:           "e: the field env is or holds a number, want an object",
		`{"command": "x", "env": {"A": null}}`: "e: a variable or a header is null, a list or an object, want a text",
		`{"transport": {"type": "sse", "url": false}}`: "e: the field url is or holds true or false, want a text",
	} {
		all, err := ParseImport([]byte(`{"mcpServers": {"e": `+entry+`}}`), true)
		if err != nil || len(all) != 1 || all[0].Err == nil || all[0].Err.Error() != want {
			t.Errorf("%s: %+v, %v\nwant %s", entry, all, err, want)
		}
	}
}

func TestParseImportBrokenDocument(t *testing.T) {
	for doc, want := range map[string]struct{ code, says string }{
		"{\n  \"mcpServers\": {,}\n}": {"import-broken", "line 2, column 18"},
		"":                            {"import-broken", "line 1"},
		"[1]":                         {"import-empty", ""},
		"{}":                          {"import-empty", ""},
		`{"mcpServers": 3}`:           {"import-empty", ""},
		`{"a": ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "}": {"import-broken", "max depth"},
	} {
		_, err := ParseImport([]byte(doc), true)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Code != want.code || f.Hint == "" || !strings.Contains(f.Error(), want.says) {
			t.Errorf("%.40q: %v, want %s saying %q", doc, err, want.code, want.says)
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error quotes the document: %v", err)
		}
	}
}

func TestStandardJSON(t *testing.T) {
	for _, tc := range []struct {
		in, want         string // want "" is an error
		comments, commas bool
	}{
		{"{}", "{}", false, false},
		{"[1] // c", "[1]     ", true, false},
		{"[1] // c", "", false, true},
		{"/* [ \n \" */ {\"//\": \"/*\\\"*/\"}", "       \n      {\"//\": \"/*\\\"*/\"}", true, false},
		{"[1, // c\n]", "[1       \n]", true, true}, // the comma and the comment
		{"[1,]", "[1 ]", false, true},
		{"[1,]", "", true, false},
		{"{\"a\": {\"b\": [1,],},}", "{\"a\": {\"b\": [1 ] } }", false, true},
		{"[,]", "", true, true},
		{"{,}", "", true, true},
		{"[1,,]", "", true, true},
		{"[1] /* open", "", true, true},
		{"[\"open", "", true, true},
		{"/", "", true, true},
		{"", "", true, true},
	} {
		got, err := StandardJSON([]byte(tc.in), tc.comments, tc.commas)
		if (err != nil) != (tc.want == "") {
			t.Errorf("%q: error %v, want %q", tc.in, err, tc.want)
			continue
		}
		if err == nil && strings.Join(strings.Fields(string(got)), "") != strings.Join(strings.Fields(tc.want), "") || err == nil && len(got) != len(tc.in) {
			t.Errorf("%q becomes %q, want %q of the same length", tc.in, got, tc.want)
		}
	}
}

// FuzzStandardJSON compares with another implementation of the same grammar.
func FuzzStandardJSON(f *testing.F) {
	f.Add([]byte("{\"a\": [1, /* c */ ], // d\n \"b\\\"\": {\"c\": \"//\"},}"))
	f.Add([]byte("[1,,] /**/ /*/ x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append(data, '\n') // the other one wants a line end behind every line comment
		got, err := StandardJSON(data, true, true)
		if err == nil && len(got) != len(data) {
			t.Errorf("%d bytes became %d", len(data), len(got))
		}
		if !utf8.Valid(data) || bytes.ContainsAny(data, "\u2028\u2029\r") {
			return // the other one ends comments at more characters, and reads strings more strictly
		}
		want, wantErr := hujson.Minimize(bytes.Clone(data))
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%q: error %v, the other one says %v", data, err, wantErr)
		}
		var a, b any
		if err == nil && (json.Unmarshal(got, &a) != nil || json.Unmarshal(want, &b) != nil || !cmp.Equal(a, b)) {
			t.Errorf("%q: %v, the other one reads %v", data, a, b)
		}
	})
}

func FuzzParseImport(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"a": {"command": "npx -y x", "env": {"T": "Bearer ${T:-x}", "U": "{file:/x}"}}}}`))
	f.Add([]byte(`{"mcp": {"h": {"url": "http://h/?a=%zz", "headers": {"Authorization": "Bearer x"}}}} // c`))
	f.Add([]byte(`{"servers": {"c": {"transport": {"type": "sse", "url": "x"}, "command": ["a", ""]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := ParseImport(data, true)
		if err != nil && fault.KindOf(err) != fault.Invalid {
			t.Errorf("error %v, want it to be about the file", err)
		}
		for _, i := range all {
			if i.Err == nil {
				if err := Validate(i.Server); err != nil {
					t.Errorf("an imported entry is not valid: %v", err)
				}
			}
		}
	})
}

func FuzzRedactArgs(f *testing.F) {
	f.Add("--token\nx\nhttps://u:p@h/?key=1\nAuthorization: Bearer x\nA=${B}")
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\n")
		once := RedactArgs(args)
		if len(once) != len(args) {
			t.Fatalf("%d arguments became %d", len(args), len(once))
		}
		IdentifyCommand(once[0], once[1:])
	})
}
