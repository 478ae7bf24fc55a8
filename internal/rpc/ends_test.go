package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line, id, method string
		ok                     bool
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"a"}`, `1`, `"a"`, true},
		{"answer", ` { "result" : {"id":9,"method":"x"} , "id" : "s" } `, `"s"`, ``, true},
		{"notification", `{"method":"n","params":{"id":4}}`, ``, `"n"`, true},
		{"neither", `{}`, ``, ``, true},
		{"escaped name", `{"i\u0064":7}`, `7`, ``, true},
		{"other case", `{"ID":7,"Method":"x"}`, ``, ``, true},
		{"null id", `{"id":null,"error":{}}`, ``, ``, true},
		{"no jsonrpc and both", `{"id":1,"method":"m","result":1}`, `1`, `"m"`, true},
		{"id twice", `{"id":1,"id":1}`, ``, ``, false},
		{"id twice, one escaped", `{"id":1,"\u0069d":2}`, ``, ``, false},
		{"method twice", `{"id":1,"method":"a","method":"a"}`, ``, ``, false},
		{"uri twice below", `{"id":1,"method":"a","params":{"uri":1,"uri":2}}`, `1`, `"a"`, true},
		{"fraction", `{"id":1.5}`, ``, ``, false},
		{"object", `{"id":{}}`, ``, ``, false},
		{"long id", `{"id":"` + strings.Repeat("x", maxID+1) + `"}`, ``, ``, false},
		{"method is a number", `{"method":3}`, ``, ``, false},
		{"array", `[{"id":1}]`, ``, ``, false},
		{"cut", `{"id":1`, ``, ``, false},
		{"more behind", `{"id":1} x`, ``, ``, false},
		{"not UTF-8", "{\"id\":1,\"x\":\"\xff\"}", ``, ``, false},
		{"empty", ``, ``, ``, false},
	} {
		id, method, ok := Ends([]byte(c.line))
		if got := string(id.Of([]byte(c.line))); got != c.id || ok != c.ok {
			t.Errorf("%s: id %q, %v; want %q, %v", c.name, got, ok, c.id, c.ok)
		}
		if got := string(method.Of([]byte(c.line))); got != c.method {
			t.Errorf("%s: method %q, want %q", c.name, got, c.method)
		}
	}
}

// FuzzEnds compares with the parser of the standard library: both find the same id and method, or both refuse.
func FuzzEnds(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"method":"m"}`, `{"id":"a\u0000","result":{"id":2}}`, `{"id":1,"id":2}`, `{"i\u0064":null}`, `[1]`, `{"id":-0}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, method, ok := Ends(b)
		wantID, wantMethod, want := parsedEnds(b)
		if ok && !want {
			t.Fatalf("accepted; the parser refuses")
		}
		if !ok {
			if want && len(wantID) <= maxID {
				t.Fatalf("refused; the parser finds id %q and method %q", wantID, wantMethod)
			}
			return
		}
		if !bytes.Equal(id.Of(b), wantID) || !bytes.Equal(method.Of(b), wantMethod) {
			t.Fatalf("id %q, method %q; the parser finds %q and %q", id.Of(b), method.Of(b), wantID, wantMethod)
		}
	})
}

// parsedEnds does what Ends does with a full parser.
func parsedEnds(b []byte) (id, method []byte, ok bool) {
	if !json.Valid(b) || !validText(b) {
		return nil, nil, false
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, nil, false
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, false // deeper than one of both parsers allows
		}
		switch name {
		case "id":
			if id != nil {
				return nil, nil, false
			}
			id = value
		case "method":
			if method != nil {
				return nil, nil, false
			}
			method = value
		}
	}
	if _, err := d.Token(); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, false
	}
	switch {
	case method != nil && method[0] != '"', id != nil && id[0] != '"' && id[0] != 'n' && bytes.ContainsAny(id, ".eE{[t"):
		return nil, nil, false
	case id != nil && id[0] == 'f':
		return nil, nil, false
	case id != nil && id[0] == 'n':
		id = nil
	}
	return id, method, true
}

// validText says whether b is UTF-8 and nested no deeper than Ends reads: the standard library is laxer in both.
func validText(b []byte) bool {
	s := scanner{b: b}
	return bytes.Equal(bytes.ToValidUTF8(b, nil), b) && s.value(s.space(0), 0, elsewhere) >= 0
}
