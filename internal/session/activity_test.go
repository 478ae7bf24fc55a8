package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpx/internal/event"
)

// TestRT27Activity: what is too long is cut at a character, what is wrong is dropped, and each adds one warning.
func TestRT27Activity(t *testing.T) {
	read := func(raw string) (Activity, []string) { return ReadActivity(ActivityRequest{Raw: json.RawMessage(raw)}) }
	for raw, want := range map[string]struct {
		said     string
		warnings int
	}{
		``:                                       {"", 0},
		`null`:                                   {"", 0},
		`{}`:                                     {"", 0},
		`{"intent":""}`:                          {"", 0},
		`{"evidence":5,"other":"x"}`:             {"", 2},
		`{"intent":null}`:                        {"", 1},
		`"fix it"`:                               {"", 1},
		`[]`:                                     {"", 1},
		`{`:                                      {"", 1},
		`{"status":"s","intent":"i","next":"n"}`: {"intent=i next=n status=s", 0},
		`{"Intent":"i"}`:                         {"", 1}, // names are exact
		`{"intent":{"a":1},"conclusion":"c"}`:    {"conclusion=c", 1},
	} {
		a, warnings := read(raw)
		var said []string
		for _, s := range a {
			said = append(said, s.Field+"="+s.Text)
		}
		if got := strings.Join(said, " "); got != want.said || len(warnings) != want.warnings {
			t.Errorf("%s: %q with %q, want %q with %d warnings", raw, got, warnings, want.said, want.warnings)
		}
	}
	a, warnings := read(`{"intent":"` + strings.Repeat("ü", 300) + `"}`)
	if len(a) != 1 || len(a[0].Text) != MaxActivity || !utf8.ValidString(a[0].Text) || len(warnings) != 1 {
		t.Errorf("cut to %d bytes, warnings %q", len(a[0].Text), warnings)
	}
	a, _ = read(`{"intent":"x` + strings.Repeat("ü", 300) + `"}`)
	if len(a[0].Text) != MaxActivity-1 || !utf8.ValidString(a[0].Text) {
		t.Errorf("cut to %d bytes", len(a[0].Text))
	}
}

// TestRedactThenCut: a secret at the limit is not told in part.
func TestRedactThenCut(t *testing.T) {
	secret := "s3cr3t-value"
	raw, err := json.Marshal(map[string]string{"intent": strings.Repeat("x", MaxActivity-4) + secret})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := ReadActivity(ActivityRequest{Raw: raw, Redact: func(s string) string { return strings.ReplaceAll(s, secret, "[redacted]") }})
	if strings.Contains(a[0].Text, "s3c") {
		t.Errorf("it ends with %q", a[0].Text[MaxActivity-20:])
	}
}

// TestReadActivity: whatever a model sends, what comes out is bounded, valid and in order.
func TestReadActivity(t *testing.T) {
	value := rapid.OneOf(
		rapid.Map(rapid.StringN(0, 400, -1), func(s string) any { return s }),
		rapid.Map(rapid.Int(), func(n int) any { return n }),
		rapid.Just[any](nil),
	)
	name := rapid.OneOf(rapid.SampledFrom([]string{"intent", "hypothesis", "evidence", "conclusion", "next", "status"}), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.Marshal(rapid.MapOfN(name, value, 0, 20).Draw(t, "activity"))
		if err != nil {
			t.Fatal(err)
		}
		a, warnings := ReadActivity(ActivityRequest{Raw: raw})
		order := -1
		for _, said := range a {
			at := slices.IndexFunc(activityFields, func(f struct {
				name string
				kind event.Kind
			},
			) bool {
				return f.name == said.Field && f.kind == said.Kind
			})
			if at <= order || said.Text == "" || len(said.Text) > MaxActivity || !utf8.ValidString(said.Text) {
				t.Fatalf("%+v after field %d", said, order)
			}
			order = at
		}
		if len(warnings) > maxWarnings+1 {
			t.Fatalf("%d warnings", len(warnings))
		}
		for _, w := range warnings {
			if len(w) > 200 {
				t.Fatalf("a warning of %d bytes", len(w))
			}
		}
	})
}

// TestRT28Turns: events carry the mark of a claim and their turn, in the order of the fields; a new intent starts a turn.
func TestRT28Turns(t *testing.T) {
	s := Session{ID: "rs_1", Project: "proj_1"}
	turns := []int{}
	for _, raw := range []string{
		`{"intent":"a"}`, `{"intent":"a","status":"s"}`, `{"status":"s"}`, `{"intent":"b"}`, `{}`, `{"intent":"a"}`,
	} {
		a, _ := ReadActivity(ActivityRequest{Raw: json.RawMessage(raw)})
		next, write := Say(s, a)
		if write != (next != s) {
			t.Errorf("%s: write %v, changed %v", raw, write, next != s)
		}
		s = next
		turns = append(turns, s.Turn)
	}
	if d := cmp.Diff([]int{1, 1, 1, 2, 2, 3}, turns); d != "" {
		t.Error(d)
	}
	a, _ := ReadActivity(ActivityRequest{Raw: json.RawMessage(`{"status":"half","intent":"a <b>"}`)})
	drafts, err := ActivityDrafts{Activity: a, Session: s, Operation: "op-1", Actor: event.Actor{Principal: "ann"}, Now: noon}.Drafts()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range drafts {
		if err := event.Check(d); err != nil {
			t.Error(err)
		}
		got = append(got, fmt.Sprint(d.Kind, " ", d.Refs, " ", string(d.Body)))
	}
	if d := cmp.Diff([]string{
		`activity.intent map[operation:op-1 project:proj_1 session:rs_1] {"claim":true,"turn":3,"text":"a \u003cb\u003e"}`,
		`activity.status map[operation:op-1 project:proj_1 session:rs_1] {"claim":true,"turn":3,"text":"half"}`,
	}, got); d != "" {
		t.Error(d)
	}
}

func FuzzReadActivity(f *testing.F) {
	f.Add([]byte(`{"intent":"a","evidence":5,"other":"x"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, _ := ReadActivity(ActivityRequest{Raw: raw})
		for _, said := range a {
			if len(said.Text) > MaxActivity || !utf8.ValidString(said.Text) {
				t.Errorf("%q", said.Text)
			}
		}
	})
}
