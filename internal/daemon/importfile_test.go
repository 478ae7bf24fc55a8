package daemon

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// TestImportFixtures: the servers in the files of every agent are imported, and no value of a variable or header with
// them.
func TestImportFixtures(t *testing.T) {
	files, err := filepath.Glob("../clientfile/testdata/*/written/*")
	cases, caseErr := filepath.Glob("../clientfile/testdata/*/cases/*/input.*")
	if err != nil || caseErr != nil || len(files) < 30 || len(cases) < 20 {
		t.Fatalf("%d files, %d cases: %v, %v", len(files), len(cases), err, caseErr)
	}
	imported := 0
	for _, file := range slices.Concat(files, cases) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := ImportJSON(file, data, "auto")
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		guess, err := ImportJSON("-", data, "auto")
		if err != nil {
			t.Errorf("%s as stdin: %v", file, err)
		}
		all, err := catalog.ParseImport(doc, false)
		if fault.From(err) != nil && fault.From(err).Code == "import-empty" {
			continue // a second file of the agent, such as its list of what is off
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if again, err := catalog.ParseImport(guess, false); err != nil || len(again) != len(all) {
			t.Errorf("%s as stdin: %d servers, want %d: %v", file, len(again), len(all), err)
		}
		for _, i := range all {
			raw, err := json.Marshal(i.Server)
			if err != nil || strings.Contains(string(raw), "FAKE") {
				t.Errorf("%s: %s holds a value: %s, %v", file, i.Name, raw, err)
			}
			for _, n := range i.Notes {
				if strings.Contains(n.Text, "FAKE") {
					t.Errorf("%s: a note holds a value: %s", file, n.Text)
				}
			}
			if i.Err != nil {
				t.Logf("%s: %s: %v", file, i.Name, i.Err)
				continue
			}
			imported++
		}
	}
	if imported < 80 {
		t.Errorf("only %d servers are imported", imported)
	}
}

func TestImportJSON(t *testing.T) {
	for _, tc := range []struct{ name, format, in, want string }{
		{"a.json", "auto", "{}", "{}"},
		{"-", "auto", "// c\n{\"a\": 1,}", "// c\n{\"a\": 1,}"},
		{"-", "auto", "[mcp_servers.a]\ncommand = 'x'\n", `{"mcp_servers":{"a":{"command":"x"}}}`},
		{"-", "auto", "mcpServers:\n- name: a\n", `{"mcpServers":[{"name":"a"}]}`},
		{"-", "auto", `[{"name": "a"}]`, `[{"name":"a"}]`},
		{"-", "auto", "hello", "hello"},
		{"a.json", "yaml", "a: 1", `{"a":1}`},
		{"a.TOML", "auto", "a = 1", `{"a":1}`},
	} {
		got, err := ImportJSON(tc.name, []byte(tc.in), tc.format)
		if err != nil || string(got) != tc.want {
			t.Errorf("%+v: %s, %v", tc, got, err)
		}
	}
	_, err := ImportJSON("a.toml", []byte("a = 'hunter2"), "auto")
	if f := fault.From(err); f == nil || f.Code != "import-broken" || strings.Contains(f.Error(), "hunter2") {
		t.Errorf("%v, want import-broken without the text", err)
	}
}
