package rpc

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":                `""`,
		"a<b>&\u2028\"\\": "\"a<b>&\u2028\\\"\\\\\"",
		"\n\r\t\x00\x1f":  `"\n\r\t\u0000\u001f"`,
		"\xffé":           "\"\uFFFDé\"",
	} {
		if got := string(Quote(in)); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

func TestUnquote(t *testing.T) {
	for in, want := range map[string]string{
		`""`: "", `"a\u0062\/\b\f\n\r\t\"\\"`: "ab/\b\f\n\r\t\"\\", `"\ud83d\ude00"`: "😀",
		`"\ud800"`: "\uFFFD", `"\ud800x"`: "\uFFFDx", `"\ud800\ud83d\ude00"`: "\uFFFD😀", `"\udc00\ud800"`: "\uFFFD\uFFFD",
	} {
		if got, ok := Unquote([]byte(in)); !ok || got != want {
			t.Errorf("%s: got %q, %v", in, got, ok)
		}
	}
	for _, in := range []string{``, `"`, `1`, `"\"`, `"\x"`, `"\u12"`, `"\u12G4"`, `null`} {
		if got, ok := Unquote([]byte(in)); ok {
			t.Errorf("%s: accepted as %q", in, got)
		}
	}
}

func TestIDKey(t *testing.T) {
	same := [][]string{
		{`"q\u0062"`, `"qb"`},
		{"0", "-0", "00"},
		{"7", "007"},
		{"-7", "-07"},
		{`"7"`},
		{`""`},
		{"9007199254740993"},
		{"9007199254740992"},
		{`"\ud800"`},
		{`"\ud801"`},
		{`"\ufffd"`, "\"\uFFFD\""},
		{strings.Repeat("9", 40)},
		{`"\ud83d\ude00"`, `"😀"`},
		{`"i:7"`},
	}
	seen := map[string]int{}
	for class, tokens := range same {
		for _, raw := range tokens {
			key, ok := IDKey([]byte(raw))
			if !ok {
				t.Fatalf("%s: refused", raw)
			}
			if was, dup := seen[key]; dup && was != class {
				t.Errorf("%s has the key of %v", raw, same[was])
			} else if !dup && raw != tokens[0] {
				t.Errorf("%s has another key than %s", raw, tokens[0])
			}
			seen[key] = class
		}
	}
	for _, raw := range []string{"", "1.0", "1e3", "-", "null", "true", "{}", `"`, `"\x"`} {
		if key, ok := IDKey([]byte(raw)); ok {
			t.Errorf("%s: accepted as %s", raw, key)
		}
	}
}

// FuzzText: Quote writes what encoding/json reads, and Unquote reads what it reads.
func FuzzText(f *testing.F) {
	f.Add("a\"\u2028\x00\xff", []byte(`"\ud800\u0041"`))
	f.Fuzz(func(t *testing.T, s string, raw []byte) {
		var back string
		if err := json.Unmarshal(Quote(s), &back); err != nil || back != string([]rune(s)) {
			t.Errorf("%q: %q, %v", s, back, err)
		}
		var want string
		if utf8.Valid(raw) && json.Unmarshal(raw, &want) == nil && len(raw) > 0 && raw[0] == '"' && raw[len(raw)-1] == '"' { // not null, no whitespace around
			if got, ok := Unquote(raw); !ok || got != want {
				t.Errorf("%s: got %q, want %q", raw, got, want)
			}
		}
	})
}
