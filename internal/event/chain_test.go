package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpx/internal/fault"
)

var at = time.Date(2026, 11, 29, 13, 30, 1, 123456789, time.FixedZone("east", 3600))

func mustSeal(t interface{ Fatal(...any) }, prev Event, d Draft) Event {
	e, err := Seal(prev, d)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSeal(t *testing.T) {
	prev := Event{Seq: 6, Hash: strings.Repeat("a", 64)}
	e := mustSeal(t, prev, Draft{
		At: at, Kind: PlanMade, Actor: Actor{Principal: "owner", Channel: "cli"}, Refs: Refs{RefPlan: "plan_x", RefPath: "/a\n\"b\" <ü>"},
		Summary: "one\ttwo \x1b[31m\u2028", Body: json.RawMessage("{ \"b\": \"<\", \"a\": 1e3 }"),
	})
	body := `{"b":"\u003c","a":1e3}`
	sum := sha256.Sum256([]byte(body))
	envelope := `{"actor":{"channel":"cli","principal":"owner"},"at":"2026-11-29T12:30:01.123456Z","body_sha256":"` + hex.EncodeToString(sum[:]) +
		`","kind":"plan.made","prev_hash":"` + prev.Hash + `","refs":{"path":"/a\n\"b\" <ü>","plan":"plan_x"},"seq":7,"summary":"one two  [31m` + "\u2028" + `"}`
	if d := cmp.Diff(envelope, string(e.envelope())); d != "" {
		t.Errorf("envelope (-want +got):\n%s", d)
	}
	if d := cmp.Diff(body, string(e.Body)); d != "" {
		t.Errorf("body (-want +got):\n%s", d)
	}
	// Written down so that a change of the form, which would break every stored log, cannot go unseen.
	if want := "652bbcfef0c279b83ac66b04c5894ccf0514dd44a8cee967e8e2736d009c31c0"; e.Hash != want {
		t.Errorf("hash %s, want %s", e.Hash, want)
	}
	for what, same := range map[string]bool{
		"the spelling of a body":     e.Hash == mustSeal(t, prev, respelt(e, `{"b":"\u003c","a":1e3}`)).Hash,
		"a body that differs":        e.Hash != mustSeal(t, prev, respelt(e, `{"b":"\u003c","a":1000}`)).Hash,
		"the predecessor":            e.Hash != mustSeal(t, Event{Seq: 6}, respelt(e, body)).Hash,
		"the first event has no one": mustSeal(t, Event{}, respelt(e, body)).Prev == "",
	} {
		if !same {
			t.Errorf("%s counts wrongly", what)
		}
	}
}

func respelt(e Event, body string) Draft {
	return Draft{At: e.At, Kind: e.Kind, Actor: e.Actor, Refs: e.Refs, Summary: e.Summary, Body: json.RawMessage(body)}
}

// TestSealMakesText: what a file name or an upstream can contain does not stop an act from being recorded.
func TestSealMakesText(t *testing.T) {
	long := strings.Repeat("ü", maxText)
	e := mustSeal(t, Event{}, Draft{
		At: at, Kind: PlanMade, Actor: Actor{Principal: "a\xff\x00"}, Refs: Refs{RefPath: "/x\xff\n"}, Summary: long,
		Body: json.RawMessage(`"` + strings.Repeat("<", MaxBody/2) + `"`),
	})
	if d := cmp.Diff(Refs{RefPath: "/x\uFFFD\n"}, e.Refs); d != "" {
		t.Errorf("refs (-want +got):\n%s", d)
	}
	if e.Actor.Principal != "a\uFFFD " {
		t.Errorf("principal %q", e.Actor.Principal)
	}
	if len(e.Summary) > maxText || !utf8.ValidString(e.Summary) || !strings.HasSuffix(e.Summary, "ü…") {
		t.Errorf("summary of %d bytes ends with %q", len(e.Summary), e.Summary[len(e.Summary)-8:])
	}
	// The bound counts the bytes that are stored, not those that were given.
	if want := fmt.Sprintf(`{"left_out_bytes":%d}`, 6*(MaxBody/2)+2); string(e.Body) != want {
		t.Errorf("body %.60s, want %s", e.Body, want)
	}
	if bad := Verify(Event{}, []Event{e}); bad != nil {
		t.Errorf("%+v", bad)
	}
}

func TestCheck(t *testing.T) {
	good := Draft{At: at, Kind: PlanMade, Actor: Actor{Principal: "owner"}, Refs: Refs{RefPath: "/x"}}
	if err := Check(good); err != nil {
		t.Fatal(err)
	}
	for what, spoil := range map[string]func(*Draft){
		"no kind":          func(d *Draft) { d.Kind = "" },
		"unknown kind":     func(d *Draft) { d.Kind = "plan.sung" },
		"an area":          func(d *Draft) { d.Kind = "plan" },
		"no time":          func(d *Draft) { d.At = time.Time{} },
		"time of no year":  func(d *Draft) { d.At = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"no principal":     func(d *Draft) { d.Actor.Principal = "" },
		"unknown ref":      func(d *Draft) { d.Refs = Refs{"song": "x"} },
		"empty ref":        func(d *Draft) { d.Refs = Refs{RefPlan: ""} },
		"long ref":         func(d *Draft) { d.Refs = Refs{RefPlan: strings.Repeat("x", maxText+1)} },
		"broken body":      func(d *Draft) { d.Body = json.RawMessage(`{"a":`) },
		"empty body":       func(d *Draft) { d.Body = json.RawMessage{} },
		"body of no UTF-8": func(d *Draft) { d.Body = json.RawMessage("\"\xff\"") },
	} {
		d := good
		spoil(&d)
		if f := fault.From(Check(d)); f == nil || f.Code != "event-malformed" || f.Kind != fault.Internal {
			t.Errorf("%s: %v, want event-malformed", what, f)
		}
		if _, err := Seal(Event{}, d); err == nil {
			t.Errorf("%s: sealed", what)
		}
	}
}

// TestKinds reads the source: each constant has its line, of the form that queries by area rely on.
func TestKinds(t *testing.T) {
	constants := map[Kind]bool{}
	for name, values := range parsedConstants(t, "kinds.go") {
		if constants[Kind(values)] {
			t.Errorf("%s: the kind %s is there twice", name, values)
		}
		constants[Kind(values)] = true
		if !kindForm().MatchString(values) {
			t.Errorf("%s: %q is no kind", name, values)
		}
		if line := Kinds[Kind(values)]; !strings.HasSuffix(line, ".") || strings.Contains(line, "\n") {
			t.Errorf("%s is told as %q, want one sentence", values, line)
		}
	}
	if len(constants) != len(Kinds) || len(constants) < 40 {
		t.Errorf("%d constants, %d lines", len(constants), len(Kinds))
	}
	for name, value := range parsedConstants(t, "event.go") {
		if strings.HasPrefix(name, "Ref") && !slices.Contains(allRefs, Ref(value)) {
			t.Errorf("%s is not in allRefs", name)
		}
	}
}

// parsedConstants are the string constants of a file, by name.
func parsedConstants(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			all[spec.Names[0].Name] = value
		}
		return true
	})
	return all
}

// drafts are events with all sorts of text in them.
func drafts() *rapid.Generator[Draft] {
	value := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
	})
	return rapid.Custom(func(t *rapid.T) Draft {
		d := Draft{
			At: at.Add(time.Duration(rapid.Int64Range(-1<<60, 1<<60).Draw(t, "at"))), Kind: PlanMade,
			Actor:   Actor{Principal: value.Draw(t, "principal"), Client: rapid.String().Draw(t, "client"), Channel: rapid.StringN(0, 2, -1).Draw(t, "channel")},
			Refs:    rapid.MapOfN(rapid.SampledFrom(allRefs), value, 0, 3).Draw(t, "refs"),
			Summary: value.Draw(t, "summary"),
		}
		if rapid.Bool().Draw(t, "body?") {
			body, err := json.Marshal(map[string]any{"k": rapid.String().Draw(t, "body"), "n": rapid.Int().Draw(t, "n"), "null": nil})
			if err != nil {
				t.Fatal(err)
			}
			d.Body = rapid.SampledFrom([]json.RawMessage{body, json.RawMessage("null"), json.RawMessage(" [ 1 ]\n")}).Draw(t, "raw")
		}
		return d
	})
}

// TestEnvelopeIsCanonical computes the hash in the way the documents tell outsiders: from the JSON of the event, with a
// general encoder.
func TestEnvelopeIsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := mustSeal(t, Event{Seq: rapid.Uint64Range(0, 1<<53).Draw(t, "seq"), Hash: "ab"}, drafts().Draw(t, "draft"))
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if e.Body != nil && !bytes.Contains(line, append([]byte(`,"body":`), e.Body...)) {
			t.Fatalf("the body stands in the line with other bytes: %s", line)
		}
		var members map[string]any
		in := json.NewDecoder(bytes.NewReader(line))
		in.UseNumber()
		if err := in.Decode(&members); err != nil {
			t.Fatal(err)
		}
		delete(members, "hash")
		delete(members, "body")
		var out bytes.Buffer
		enc := json.NewEncoder(&out) // sorts members
		enc.SetEscapeHTML(false)
		if err := enc.Encode(members); err != nil {
			t.Fatal(err)
		}
		// Go escapes these two everywhere; a backslash before the escape would be a pair of its own.
		canonical := strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029", `\u007f`, "\x7f").Replace(strings.TrimSuffix(out.String(), "\n"))
		if d := cmp.Diff(canonical, string(e.envelope())); d != "" {
			t.Fatalf("envelope (-general encoder +ours):\n%s", d)
		}
	})
}
