package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/fault"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// value is a token that depends on one byte.
func value(t *testing.T, b byte) Value {
	t.Helper()
	v, err := Make(OfAgent, bytes.NewReader(bytes.Repeat([]byte{b}, valueBytes)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestValue(t *testing.T) {
	v := value(t, 7)
	if got := v.Reveal(); len(got) != len(Prefix)+49 || !strings.HasPrefix(got, Prefix) {
		t.Errorf("a token is %q", got)
	}
	back, err := Parse(OfAgent, v.Reveal())
	if err != nil || back.Digest() != v.Digest() {
		t.Errorf("read again: %v", err)
	}
	if _, err := Make(OfAgent, bytes.NewReader(nil)); fault.From(err).Code != "token-unmade" {
		t.Errorf("without random bytes: %v", err)
	}
	if value(t, 1).Digest() == v.Digest() {
		t.Error("two tokens have one digest")
	}
}

// TestMalformed changes every letter of a token, cuts it and adds to it: the checksum tells each.
func TestMalformed(t *testing.T) {
	text := value(t, 200).Reveal()
	bad := []string{"", "Bearer", Prefix, text[:len(text)-1], text + "A", strings.ToUpper(text), " " + text, text + "\n"}
	for i := range text {
		for _, c := range "Aa0-" {
			if changed := text[:i] + string(c) + text[i+1:]; changed != text {
				bad = append(bad, changed)
			}
		}
	}
	for _, b := range bad {
		if _, err := Parse(OfAgent, b); fault.From(err).Code != "token-malformed" {
			t.Errorf("%q: %v", b, err)
		}
	}
}

func TestValueIsNotShown(t *testing.T) {
	v := value(t, 9)
	data, err := json.Marshal(map[string]any{"a": v, "b": &v})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{fmt.Sprint(v), fmt.Sprintf("%v %+v %#v %s %q", v, v, v, v, v), string(data)} {
		if strings.Contains(shown, v.Reveal()[len(Prefix):]) {
			t.Errorf("shown: %s", shown)
		}
	}
}

func TestScopes(t *testing.T) {
	for given, want := range map[string][]Scope{
		"":                               {HubRead, ServersUse},
		"hub:read":                       {HubRead},
		"servers:use:gh hub:read":        {HubRead, "servers:use:gh"},
		"hub:propose hub:read hub:read":  {HubPropose, HubRead},
		"servers:use:a.b-c servers:use":  {ServersUse, "servers:use:a.b-c"},
		"hub:approve":                    nil,
		"servers:use:":                   nil,
		"servers:use:a/b":                nil,
		"*":                              nil,
		"servers:use:" + long(65):        nil,
		strings.Repeat("hub:read ", 201): nil,
	} {
		got, err := ParseScopes(strings.Fields(given))
		if want == nil {
			if fault.From(err).Code != "scope-invalid" {
				t.Errorf("%q: %v, %v", given, got, err)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v\n%s", given, err, diff)
		}
	}
	for _, c := range []struct {
		have []Scope
		need Scope
		want bool
	}{
		{[]Scope{ServersUse}, Server("gh"), true},
		{[]Scope{"servers:use:gh"}, Server("gh"), true},
		{[]Scope{"servers:use:gh"}, Server("ghx"), false},
		{[]Scope{"servers:use:gh"}, ServersUse, false},
		{[]Scope{HubRead}, HubRead, true},
		{[]Scope{HubRead}, HubPropose, false},
		{[]Scope{HubPropose, ServersUse}, HubRead, false},
		{nil, HubRead, false},
	} {
		if Allows(c.have, c.need) != c.want {
			t.Errorf("%v allows %s: want %v", c.have, c.need, c.want)
		}
	}
}

func long(n int) string { return strings.Repeat("x", n) }

func TestLife(t *testing.T) {
	v1, v2, v3 := value(t, 1), value(t, 2), value(t, 3)
	first := Issue(Order{ID: "tok_1", Agent: "codex", Scopes: Usual(), For: 24 * time.Hour}, v1, noon)
	later := noon.Add(time.Hour)
	before, second, err := Rotate(first, "tok_2", v2, later)
	if err != nil {
		t.Fatal(err)
	}
	third := Issue(Order{ID: "tok_3", Agent: "codex", Scopes: []Scope{HubRead}}, v3, noon)
	third, ended := Revoke(third, later)
	if !ended {
		t.Error("a live token cannot be revoked")
	}
	if _, again := Revoke(third, later); again {
		t.Error("a token was revoked twice")
	}
	book := NewBook([]Token{before, second, third})
	judge := func(v Value, at time.Time) string {
		got, err := book.Check(v.Reveal(), at)
		if err != nil {
			return fault.From(err).Code
		}
		return got.ID + " " + string(got.At(at))
	}
	for _, c := range []struct {
		v    Value
		at   time.Time
		want string
	}{
		{v1, later, "tok_1 replaced"},
		{v1, later.Add(RotationGrace - time.Nanosecond), "tok_1 replaced"},
		{v1, later.Add(RotationGrace), "token-expired"},
		{v2, later, "tok_2 live"},
		{v2, later.Add(24 * time.Hour), "token-expired"},
		{v3, later, "token-revoked"},
		{value(t, 4), later, "token-unknown"},
	} {
		if got := judge(c.v, c.at); got != c.want {
			t.Errorf("at %s: %s, want %s", c.at, got, c.want)
		}
	}
	for text, want := range map[string]string{"": "token-missing", "x": "token-malformed"} {
		if _, err := book.Check(text, noon); fault.From(err).Code != want || fault.KindOf(err) != fault.Unauthenticated {
			t.Errorf("%q: %v", text, err)
		}
	}
	if second.Line != "tok_1" || second.Agent != "codex" || second.Expires.Sub(second.Created) != 24*time.Hour {
		t.Errorf("after a rotation: %+v", second)
	}
	if _, _, err := Rotate(before, "tok_9", v3, later); fault.From(err).Code != "token-not-live" {
		t.Errorf("rotated twice: %v", err)
	}
	short := Issue(Order{ID: "tok_5", Agent: "codex", For: time.Minute}, v1, noon)
	if old, _, err := Rotate(short, "tok_6", v2, noon); err != nil || old.Expires.After(noon.Add(time.Minute)) {
		t.Errorf("a rotation made a token live longer: %v, %v", old.Expires, err)
	}
	if got, ok := Current([]Token{before, third, second}, "codex", later); !ok || got.ID != "tok_2" {
		t.Errorf("the current token is %v", got.ID)
	}
	if _, ok := Current([]Token{before, third}, "codex", later); ok {
		t.Error("a token that does not count is current")
	}
}

func FuzzParse(f *testing.F) {
	v, _ := Make(OfAgent, bytes.NewReader(make([]byte, valueBytes)))
	f.Add(v.Reveal())
	f.Add(Prefix)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := Parse(OfAgent, text)
		if err == nil && v.Reveal() != text {
			t.Errorf("%q became %q", text, v.Reveal())
		}
	})
}
