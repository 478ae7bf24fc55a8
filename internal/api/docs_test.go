package api

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/api.md anew")

func TestDoc(t *testing.T) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# Local API

Generated from the table in `+"`internal/api/ops.go` by `go test ./internal/api -update`"+`. API level %d.

- HTTP/1.1 and JSON over the unix socket `+"`run/daemon.sock`"+` (`+"`mcpx daemon status` shows its path"+`). The peer must be the same user, by the
  word of the kernel. A request with `+"`Origin` or `Referer`"+` gets 403.
- `+"`GET` changes nothing"+`. A mutation may carry `+"`%s`"+`: the id of the operation, chosen by the caller. It is not recorded yet, so a mutation
  whose answer was lost is not repeated blindly: enable, disable and remove can be sent again, a second add of a name is a
  conflict, and %s tells what is there.
- Both sides send their API level in `+"`%s`"+`. An unknown member of a request is an error.
- An answer that is no success is `+"`{\"error\": {kind, code, message, hint, retry}}`"+` with the status of its kind; the codes are in errors.md.
- A stream is NDJSON: `+"`{\"line\": ...}` for each line and `{\"end\": true}`"+` at its end. A stream without the end line was cut off.
- Times are RFC 3339, durations are nanoseconds.

| operation | request | needs | does |
|---|---|---|---|
`, Level, HeaderKey, "`server.show`", HeaderLevel)
	for _, op := range Ops {
		fmt.Fprintf(&b, "| [`%s`](#%s) | `%s %s` | %s | %s |\n", op.Name, strings.ReplaceAll(op.Name, ".", ""), op.Method, op.Path, op.Need, op.Short)
	}
	types := map[reflect.Type]bool{}
	for _, op := range Ops {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n", op.Name, op.Short)
		fmt.Fprintf(&b, "- `%s %s`\n", op.Method, op.Path)
		if in := reflect.TypeOf(op.In); in.NumField() > 0 {
			fmt.Fprintf(&b, "- takes `%s`\n", in.Name())
			collect(types, in)
		}
		out := reflect.TypeOf(op.Out)
		word := "gives"
		if op.Stream {
			word = "streams"
		}
		fmt.Fprintf(&b, "- %s `%s`\n", word, out.Name())
		collect(types, out)
	}
	b.WriteString("\n# Types\n")
	sorted := make([]reflect.Type, 0, len(types))
	for one := range types {
		sorted = append(sorted, one)
	}
	slices.SortFunc(sorted, func(a, b reflect.Type) int { return strings.Compare(a.String(), b.String()) })
	for _, one := range sorted {
		fmt.Fprintf(&b, "\n## %s\n\n| field | type | place |\n|---|---|---|\n", one.String())
		fields(&b, one)
	}

	path := filepath.Join("..", "..", "docs", "api.md")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), b.String()); diff != "" {
		t.Errorf("docs/api.md is not current; run `go test ./internal/api -update`\n%s", diff)
	}
}

// opaque types have a JSON form of their own.
var opaque = map[reflect.Type]string{
	reflect.TypeFor[time.Time](): "time", reflect.TypeFor[time.Duration](): "duration", reflect.TypeFor[json.RawMessage](): "any JSON",
}

// collect adds a struct type and those it is made of.
func collect(types map[reflect.Type]bool, t reflect.Type) {
	if _, ok := opaque[t]; ok {
		return
	}
	switch t.Kind() { //nolint:exhaustive // the other kinds are made of nothing
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collect(types, t.Elem())
	case reflect.Struct:
		if types[t] {
			return
		}
		types[t] = true
		for f := range t.Fields() {
			if !hidden(f) {
				collect(types, f.Type)
			}
		}
	}
}

// hidden says that a field does not travel.
func hidden(f reflect.StructField) bool {
	return f.Tag.Get("json") == "-" && f.Tag.Get("path") == "" && f.Tag.Get("query") == ""
}

func fields(b *bytes.Buffer, t reflect.Type) {
	for f := range t.Fields() {
		if hidden(f) {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		place := "body"
		switch {
		case f.Anonymous:
			fmt.Fprintf(b, "| (all fields of `%s`) | | |\n", f.Type)
			continue
		case f.Tag.Get("path") != "":
			name, place = f.Tag.Get("path"), "path"
		case f.Tag.Get("query") != "":
			name, place = f.Tag.Get("query"), "query"
		case name == "":
			name = f.Name
		}
		if strings.Contains(options, "omit") {
			place += ", may be absent"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, typeName(f.Type), place)
	}
}

func typeName(t reflect.Type) string {
	if name, ok := opaque[t]; ok {
		return name
	}
	switch t.Kind() { //nolint:exhaustive // the other kinds have their own name
	case reflect.Pointer:
		return typeName(t.Elem()) + " or null"
	case reflect.Slice:
		return "list of " + typeName(t.Elem())
	case reflect.Map:
		return "object of " + typeName(t.Elem())
	case reflect.Struct:
		return "`" + t.String() + "`"
	}
	return t.Kind().String()
}
