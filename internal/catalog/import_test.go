package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
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
	f.Add([]byte(`{"catalog": [{"name": "a", "port": 1, "start_command": 5, "env": ["A", "B=c"]}], "projects": {"/p": {"mcpServers": []}}}`))
	f.Add([]byte(`{"format": "mcpx-catalog", "version": 1, "servers": [{"name": "a", "http": {"url": "http://h", "headers": {"A": {"literal": "x"}}}, "limits": {"idle": -1}}]}`))
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
		bare, bareErr := ParseImport(data, false)
		if (err == nil) != (bareErr == nil) {
			t.Errorf("with values: %v, without: %v", err, bareErr)
		}
		for _, i := range bare {
			for _, bindings := range []map[string]Binding{i.Server.variables(), i.Server.headers()} {
				for name, b := range bindings {
					if b.Literal != "" {
						t.Errorf("%s: the value of %s is imported", i.Name, name)
					}
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

// TestParseImportShapes: the exports of hubs and the files of every agent, and values stay where they are.
func TestParseImportShapes(t *testing.T) {
	for _, tc := range []struct {
		name, doc string
		want      string // name: what, notes
	}{
		{"a list", `[{"name": "a", "command": "x"}]`, "a: x"},
		{"servers as a list", `{"servers": [{"id": "a", "command": "x", "args": ["1"]}, {"serverName": "b", "url": "http://h/mcp"}]}`, "a: x 1; b: http://h/mcp"},
		{"catalog", `{"catalog": [{"server_name": "a", "transport_type": "sse", "endpoint": "http://h/sse"}]}`, "a: http://h/sse"},
		{"a port", `{"servers": {"a": {"port": 8123}, "b": {"port": "81", "transport": "sse"}, "c": {"port": 1, "path": "/x"}}}`, "a: http://127.0.0.1:8123/mcp (port-to-url); b: http://127.0.0.1:81/sse (port-to-url); c: http://127.0.0.1:1/x (port-to-url)"},
		{"a start command", `{"servers": {"a": {"port": 1, "command": "run me"}, "b": {"url": "http://h/mcp", "startCommand": ["x"]}, "c": {"type": "http", "url": "http://h/mcp", "command": "x"}}}`, "a: http://127.0.0.1:1/mcp (port-to-url start-not-imported); b: http://h/mcp (start-not-imported); c: http://h/mcp (start-not-imported)"},
		{"a bad port", `{"servers": {"a": {"port": 70000}}}`, "a: import-shape"},
		{"values", `{"mcpServers": {"a": {"command": "x", "env": {"T": "hunter2", "P": "/tmp", "E": "", "R": "${R}"}}}}`, "a: x E= P? R=env:R T? (value-not-imported value-not-imported)"},
		{"names of variables", `{"servers": [{"name": "a", "command": "x", "env": ["T", "P=hunter2"]}]}`, "a: x P? T? (value-not-imported value-not-imported)"},
		{"headers", `{"mcpServers": {"a": {"url": "http://h/mcp", "headers": {"Authorization": "Bearer hunter2", "X": "1", "Y": "Bearer ${T}"}}}}`, "a: http://h/mcp Authorization? X? Y=Bearer {env:T} (value-not-imported value-not-imported)"},
		{"a token", `{"mcp_servers": {"a": {"url": "http://h/mcp", "bearer_token": "hunter2"}}}`, "a: import-secret"},
		{"codex", `{"mcp_servers": {"a": {"command": "x", "env_vars": ["A"], "env": {"B": "1"}}, "b": {"url": "http://h/mcp", "bearer_token_env_var": "T", "env_http_headers": {"X": "V"}}}}`, "a: x A=env:A B? (value-not-imported); b: http://h/mcp Authorization=Bearer {env:T} X=env:V"},
		{"continue", `{"mcpServers": [{"name": "a", "type": "streamable-http", "url": "http://h/mcp", "requestOptions": {"headers": {"Authorization": "Bearer ${{ secrets.TOK }}"}}}, {"name": "b", "url": "http://h/mcp", "apiKey": "hunter2"}]}`, "a: http://h/mcp Authorization=Bearer {env:TOK}; b: http://h/mcp Authorization? (value-not-imported)"},
		{"projects of Claude", `{"mcpServers": {"a": {"command": "x"}}, "projects": {"/p": {"mcpServers": {"b": {"command": "y"}, "a": {"command": "x"}}}, "/q": {"mcpServers": {"b": {"command": "z"}}}, "/r": {}}}`, "a: x; b: y; b: import-name"},
		{"only projects", `{"projects": {"/p": {"mcpServers": {"b": {"command": "y"}}}}}`, "b: y"},
		{"an entry without a name", `[{"name": "a", "command": "x"}, {"command": "y"}, 5]`, "a: x; entry 2: import-shape; entry 3: import-shape"},
	} {
		all, err := ParseImport([]byte(tc.doc), false)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		var got []string
		for _, i := range all {
			got = append(got, i.Name+": "+inWords(i))
			for _, n := range i.Notes {
				if strings.Contains(n.Text, "hunter2") {
					t.Errorf("%s: a note shows a value: %s", tc.name, n.Text)
				}
			}
		}
		if d := cmp.Diff(tc.want, strings.Join(got, "; ")); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, d)
		}
	}
}

// inWords is an imported entry on one line: what runs, its bindings, the codes of its notes.
func inWords(i Imported) string {
	if i.Err != nil {
		return fault.From(i.Err).Code
	}
	var words []string
	bindings := i.Server.headers()
	if b := i.Server.Stdio; b != nil {
		words, bindings = append([]string{b.Command}, b.Args...), b.Env
	} else {
		words = []string{i.Server.HTTP.URL}
	}
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		b := bindings[name]
		if b.Unresolved {
			words = append(words, name+"?")
		} else {
			words = append(words, name+"="+b.Literal+b.Ref+b.Template)
		}
	}
	var codes []string
	for _, n := range i.Notes {
		codes = append(codes, n.Code)
	}
	if len(codes) > 0 {
		slices.Sort(codes)
		words = append(words, "("+strings.Join(codes, " ")+")")
	}
	return strings.Join(words, " ")
}

// TestExport: what is exported is imported as the same, without any value.
func TestExport(t *testing.T) {
	servers := []Server{
		stdio(func(s *Server) {
			s.ID, s.Name, s.Tags, s.Profiles, s.Risk, s.Pins = "srv_1", "git", []string{"vcs"}, []string{"work"}, RiskHigh, PinsWarn
			s.Aliases, s.Title, s.Notes, s.Limits.Idle, s.OnChange = []string{"scm"}, "Git <&>", "n", -1, OnChangeKeep
			s.Stdio.CwdPolicy, s.Stdio.EnvPass = CwdHome, []string{"HOME"}
			s.Stdio.Env = map[string]Binding{"A": {Literal: "hunter2"}, "B": {Ref: "env:B"}, "C": {Template: "x {env:C}"}, "D": {Unresolved: true}}
		}),
		remote("https://example.com/mcp", func(b *HTTP) {
			b.Transport, b.Headers = TransportSSE, map[string]Binding{"Authorization": {Template: "Bearer {env:T}"}, "X": {Literal: "hunter2"}}
		}),
	}
	servers[1].Name = "far"
	doc, err := Export(servers)
	if err != nil || bytes.Contains(doc, []byte("hunter2")) {
		t.Fatalf("%v\n%s", err, doc)
	}
	all, err := ParseImport(doc, false)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for n, i := range all {
		want := WithoutValues(servers[n])
		want.ID, want.Review, want.Source = "", ReviewPending, "import"
		if d := cmp.Diff(want, i.Server, cmpopts.EquateEmpty()); d != "" || i.Err != nil {
			t.Errorf("%s: %v (-exported +imported):\n%s", i.Name, i.Err, d)
		}
	}
	plain, err := ExportPlain(servers)
	if err != nil || bytes.Contains(plain, []byte("hunter2")) {
		t.Fatalf("%v\n%s", err, plain)
	}
	for _, want := range []string{`"A": "${A}"`, `"B": "${B}"`, `"C": "x ${C}"`, `"HOME": "${HOME}"`, `"Authorization": "Bearer ${T}"`, `"X": "${FAR_X}"`, `"type": "sse"`} {
		if !bytes.Contains(plain, []byte(want)) {
			t.Errorf("no %s in\n%s", want, plain)
		}
	}
	if all, err := ParseImport(plain, false); err != nil || len(all) != 2 || all[0].Err != nil || all[1].Err != nil {
		t.Errorf("the plain export is not read: %+v, %v", all, err)
	}
}

// TestExportIsStrict: a key that is not known would be a decision that is not heard.
func TestExportIsStrict(t *testing.T) {
	entry := func(text string) string {
		return `{"format": "mcpx-catalog", "version": 1, "servers": [{"name": "a", "sharing": "session", "review": "approved", "lifecycle": "enabled", ` + text + `}]}`
	}
	for doc, want := range map[string]string{
		`{"format": "mcpx-catalog", "version": 1, "server": []}`:                   `import-unknown-key the document: there is no field "server"; did you mean "servers"?`,
		`{"format": "mcpx-catalog", "version": 2, "servers": []}`:                  `import-version the export has version 2; this mcpx reads version 1; export it again with this version of mcpx, or import it with the newer one`,
		entry(`"stdio": {"command": "x"}, "shraing": "none"`):                      `import-unknown-key a: there is no field "shraing"; did you mean "sharing"?`,
		entry(`"stdio": {"command": "x", "comand": "y"}`):                          `import-unknown-key a: there is no field "comand"; did you mean "command"?`,
		entry(`"stdio": {"command": "x", "env": {"A": {"literall": "x"}}}`):        `import-unknown-key a: there is no field "literall"; did you mean "literal"?`,
		entry(`"stdio": {"command": "x"}, "zzzzzzzz": 1`):                          `import-unknown-key a: there is no field "zzzzzzzz"; remove it`,
		entry(`"stdio": {"command": 5}`):                                           `import-shape a: the field stdio.command is or holds a number, want a text; correct it in the file and import again`,
		entry(`"stdio": {"command": "x", "args": ["--token", "[redacted]"]}`):      `import-secret-argument a: an argument was or looks like a secret, which an export does not carry; pass it as a variable if the server takes one, or add it yourself with ` + "`mcpx server add`",
		entry(`"http": {"url": "https://ada:hunter2@h/"}`):                         `server-invalid url: holds a user name or password; remove it and use ` + "`--header Authorization=...`" + ` with a reference`,
		entry(`"stdio": {"command": "x", "env": {"A": {"literal": "hunter2aa"}}}`): "",
	} {
		all, err := ParseImport([]byte(doc), false)
		if err == nil && len(all) == 1 {
			err = all[0].Err
		}
		got := ""
		if f := fault.From(err); f != nil {
			got = f.Code + " " + f.Message + "; " + f.Hint
		}
		if got != want {
			t.Errorf("%s:\n%s, want\n%s", doc, got, want)
		}
		if err == nil && !all[0].Server.Stdio.Env["A"].Unresolved {
			t.Errorf("%s: a value in an export is imported", doc)
		}
	}
}
