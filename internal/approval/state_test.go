package approval

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
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

var (
	start   = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	subject = strings.Repeat("5f", 32)
	other   = strings.Repeat("60", 32)
)

func question() Question {
	return Question{Kind: KindPlan, About: "plan_a", Subject: subject, Display: "route git", Reasons: []string{"r"}, Principal: "owner"}
}

func pending(t interface{ Fatal(...any) }) Approval {
	a, err := New("apr_1", question(), start)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func decision(at time.Time) Decision {
	return Decision{Principal: "owner", Channel: "cli", Terminal: "/dev/pts/1", At: at, Note: "fine", Digest: subject}
}

// in gives an approval that came to the state in the way that the package allows.
func in(t *testing.T, s State) Approval {
	t.Helper()
	a := pending(t)
	must := func(next Approval, err error) Approval {
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	yes := func() Approval { return must(Decide(a, decision(start), true)) }
	switch s {
	case Pending:
		return a
	case Approved:
		return yes()
	case Denied:
		return must(Decide(a, decision(start), false))
	case Expired:
		a, _ = Expire(a, a.Expires)
		return a
	case Revoked:
		return must(Revoke(a, WhyStale))
	case Consumed:
		return must(Consume(yes(), subject, "rcp_1", start))
	}
	t.Fatalf("no way to %s", s)
	return a
}

var allStates = []State{Pending, Approved, Denied, Expired, Revoked, Consumed}

func wantCode(t *testing.T, what string, err error, kind fault.Kind, code string) {
	t.Helper()
	if f := fault.From(err); f == nil || f.Kind != kind || f.Code != code || f.Hint == "" {
		t.Errorf("%s: %v, want %s %s with a hint", what, err, kind, code)
	}
}

func TestNew(t *testing.T) {
	q := question()
	want := Approval{
		ID: "apr_1", Kind: KindPlan, About: "plan_a", Subject: subject, Display: "route git", Reasons: []string{"r"}, Principal: "owner",
		Requested: start, Expires: start.Add(7 * 24 * time.Hour), State: Pending,
	}
	if d := cmp.Diff(want, pending(t)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	q.Kind = "trust"
	if a, err := New("apr_1", q, start); err != nil || !a.Expires.Equal(start.Add(30*time.Minute)) {
		t.Errorf("another kind waits until %v, %v; want 30 minutes", a.Expires, err)
	}
	for want, spoil := range map[string]func(*Question){
		"Subject":   func(q *Question) { q.Subject = "5f" },
		"Kind":      func(q *Question) { q.Kind = "" },
		"About":     func(q *Question) { q.About = "" },
		"Principal": func(q *Question) { q.Principal = "" },
	} {
		q := question()
		spoil(&q)
		if _, err := New("apr_1", q, start); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to name %s", err, want)
		}
	}
	if _, err := New("", question(), start); err == nil {
		t.Error("an approval without an id")
	}
}

// TestDisplay: a terminal shows what is approved and nothing else.
func TestDisplay(t *testing.T) {
	for in, want := range map[string]string{
		"plain ü 漢 🙂\n\tx":    "plain ü 漢 🙂\n\tx",
		"a\x1b[2Kb\r":         `a\u{1b}[2Kb\u{d}`,
		"pay\u202eevil\u200b": `pay\u{202e}evil\u{200b}`,
		"\x00\x7f\u0085\xff":  `\u{0}\u{7f}\u{85}\u{fffd}`,
		"\U000E0041tag":       `\u{e0041}tag`,
		"\u2028\u2029":        `\u{2028}\u{2029}`,
		"":                    "",
	} {
		q := question()
		q.Display = in
		a, err := New("apr_1", q, start)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, a.Display); d != "" {
			t.Errorf("%q (-want +got):\n%s", in, d)
		}
	}
	q := question()
	q.Display = strings.Repeat("ü", MaxDisplay)
	if a, err := New("apr_1", q, start); err != nil || len(a.Display) > MaxDisplay || !utf8.ValidString(a.Display) || !strings.HasSuffix(a.Display, "ü…") {
		t.Errorf("a long display has %d bytes, %v; want at most %d", len(a.Display), err, MaxDisplay)
	}
}

func TestDecide(t *testing.T) {
	a := pending(t)
	d := decision(start.Add(time.Minute))
	yes, err := Decide(a, d, true)
	if err != nil {
		t.Fatal(err)
	}
	want := a
	want.State, want.Decision, want.Expires = Approved, &d, d.At.Add(15*time.Minute)
	if diff := cmp.Diff(want, yes); diff != "" {
		t.Errorf("yes (-want +got):\n%s", diff)
	}
	no, err := Decide(a, d, false)
	if err != nil {
		t.Fatal(err)
	}
	want = a
	want.State, want.Decision = Denied, &d
	if diff := cmp.Diff(want, no); diff != "" {
		t.Errorf("no (-want +got):\n%s", diff)
	}

	shown := decision(start)
	shown.Digest = other
	_, err = Decide(a, shown, true)
	wantCode(t, "another digest", err, fault.Stale, "approval-stale")
	_, err = Decide(a, shown, false)
	wantCode(t, "no to another digest", err, fault.Stale, "approval-stale")
	_, err = Decide(a, decision(a.Expires), true)
	wantCode(t, "too late", err, fault.Stale, "approval-expired")
	if _, err := Decide(a, decision(a.Expires.Add(-1)), true); err != nil {
		t.Errorf("at the last moment: %v", err)
	}
	for want, spoil := range map[string]func(*Decision){
		"principal": func(d *Decision) { d.Principal = "" },
		"channel":   func(d *Decision) { d.Channel = "" },
		"time":      func(d *Decision) { d.At = time.Time{} },
	} {
		d := decision(start)
		spoil(&d)
		if _, err := Decide(a, d, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to name the %s", err, want)
		}
	}
}

// TestSteps: which step each state allows, and how it is refused.
func TestSteps(t *testing.T) {
	type refusal struct {
		kind fault.Kind
		code string
	}
	allowed := refusal{}
	ends := map[State]refusal{
		Denied: {fault.Denied, "approval-denied"}, Expired: {fault.Stale, "approval-expired"}, Revoked: {fault.Stale, "approval-stale"},
		Consumed: {fault.Conflict, "approval-consumed"}, "future": {fault.Conflict, "approval-final"},
	}
	with := func(p, a refusal) map[State]refusal {
		all := map[State]refusal{Pending: p, Approved: a}
		maps.Copy(all, ends)
		return all
	}
	steps := map[string]struct {
		do   func(Approval) (Approval, error)
		want map[State]refusal
	}{
		"yes":     {func(a Approval) (Approval, error) { return Decide(a, decision(start), true) }, with(allowed, refusal{fault.Conflict, "approval-approved"})},
		"no":      {func(a Approval) (Approval, error) { return Decide(a, decision(start), false) }, with(allowed, refusal{fault.Conflict, "approval-approved"})},
		"consume": {func(a Approval) (Approval, error) { return Consume(a, subject, "rcp_2", start) }, with(refusal{fault.NeedsApproval, "approval-pending"}, allowed)},
		"revoke":  {func(a Approval) (Approval, error) { return Revoke(a, WhyStale) }, with(allowed, allowed)},
	}
	for name, step := range steps {
		for state, want := range step.want {
			a := pending(t)
			a.State = state
			if slices.Contains(allStates, state) {
				a = in(t, state)
			}
			next, err := step.do(a)
			what := fmt.Sprintf("%s of %s", name, state)
			if want == allowed {
				if err != nil {
					t.Errorf("%s: %v", what, err)
				}
				continue
			}
			wantCode(t, what, err, want.kind, want.code)
			if d := cmp.Diff(Approval{}, next); d != "" {
				t.Errorf("%s is refused and gives something all the same: %s", what, d)
			}
		}
	}
	if r, _ := Revoke(in(t, Approved), WhyStale); r.State != Revoked || r.Why != WhyStale {
		t.Errorf("revoked: %+v", r)
	}
}

func TestConsume(t *testing.T) {
	a := in(t, Approved)
	used, err := Consume(a, subject, "rcp_1", a.Expires.Add(-1))
	if err != nil {
		t.Fatal(err)
	}
	want := a
	want.State, want.Consumer, want.Used = Consumed, "rcp_1", a.Expires.Add(-1)
	if d := cmp.Diff(want, used); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	_, err = Consume(a, other, "rcp_1", start)
	wantCode(t, "another subject", err, fault.Stale, "approval-stale")
	_, err = Consume(a, subject, "rcp_1", a.Expires)
	wantCode(t, "too late", err, fault.Stale, "approval-expired")
	if _, err := Consume(a, subject, "", start); err == nil {
		t.Error("consumed by nobody")
	}
	// A row in which decision and subject disagree was not written by this package.
	forged := a
	forged.Decision = &Decision{Digest: other}
	_, err = Consume(forged, subject, "rcp_1", start)
	wantCode(t, "decision about something else", err, fault.Stale, "approval-stale")
	forged.Decision = nil
	_, err = Consume(forged, subject, "rcp_1", start)
	wantCode(t, "no decision", err, fault.Stale, "approval-stale")
}

func TestExpire(t *testing.T) {
	for _, s := range allStates {
		a := in(t, s)
		late, changed := Expire(a, a.Expires.Add(time.Hour))
		want := a
		switch s {
		case Pending:
			want.State, want.Why = Expired, WhyUnanswered
		case Approved:
			want.State, want.Why = Expired, WhyUnused
		case Denied, Expired, Revoked, Consumed:
		}
		if d := cmp.Diff(want, late); d != "" || changed != !s.Final() {
			t.Errorf("%s, late: changed %v (-want +got):\n%s", s, changed, d)
		}
		if early, changed := Expire(a, a.Expires.Add(-1)); changed || cmp.Diff(a, early) != "" {
			t.Errorf("%s expires too early", s)
		}
	}
}

func TestAsk(t *testing.T) {
	q := question()
	changed := q
	changed.Subject = other
	elsewhere := q
	elsewhere.About = "plan_b"
	denied := in(t, Denied)
	rested := start.Add(30 * 24 * time.Hour)
	later := in(t, Denied)
	later.Decision = &Decision{At: start.Add(time.Hour)}
	again, err := New("apr_2", q, rested)
	if err != nil {
		t.Fatal(err)
	}
	trust := in(t, Denied)
	trust.Kind = "trust"
	trustQuestion := q
	trustQuestion.Kind = "trust"
	for what, tc := range map[string]struct {
		earlier []Approval
		q       Question
		now     time.Time
		open    State
		rests   time.Time // until when the no counts that is found
	}{
		"never asked":              {nil, q, start, "", time.Time{}},
		"asked already":            {[]Approval{in(t, Pending)}, q, start, Pending, time.Time{}},
		"answered already":         {[]Approval{in(t, Approved)}, q, start, Approved, time.Time{}},
		"asked long ago":           {[]Approval{in(t, Pending)}, q, start.Add(8 * 24 * time.Hour), "", time.Time{}},
		"answered long ago":        {[]Approval{in(t, Approved)}, q, start.Add(time.Hour), "", time.Time{}},
		"used":                     {[]Approval{in(t, Consumed)}, q, start, "", time.Time{}},
		"revoked":                  {[]Approval{in(t, Revoked)}, q, start, "", time.Time{}},
		"denied":                   {[]Approval{denied}, q, start.Add(time.Hour), "", rested},
		"denied, last moment":      {[]Approval{denied}, q, rested.Add(-1), "", rested},
		"denied 30 days ago":       {[]Approval{denied}, q, rested, "", time.Time{}},
		"denied twice":             {[]Approval{later, denied}, q, start.Add(2 * time.Hour), "", rested.Add(time.Hour)},
		"denied, then changed":     {[]Approval{denied}, changed, start, "", time.Time{}},
		"asked, then changed":      {[]Approval{in(t, Pending)}, changed, start, "", time.Time{}},
		"denied elsewhere":         {[]Approval{denied}, elsewhere, start, "", time.Time{}},
		"denied, then asked again": {[]Approval{denied, again}, q, rested, Pending, time.Time{}},
		"another kind":             {[]Approval{trust}, trustQuestion, start.Add(9 * time.Minute), "", start.Add(10 * time.Minute)},
		"another kind, rested":     {[]Approval{trust}, trustQuestion, start.Add(10 * time.Minute), "", time.Time{}},
	} {
		open, denied := Ask(tc.earlier, tc.q, tc.now)
		var state State
		if open != nil {
			state = open.State
		}
		var rests time.Time
		if denied != nil {
			rests = denied.Decision.At.Add(denied.Kind.rest())
		}
		if state != tc.open || !rests.Equal(tc.rests) {
			t.Errorf("%s: open %q, rests until %v, want %q until %v", what, state, rests, tc.open, tc.rests)
		}
	}
}

// TestMachine walks at random: a final state never changes, an approval is consumed at most once and only after a yes
// to the subject that counts, in its time.
func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, now := pending(t), start
		consumed := 0
		var saidYes time.Time
		t.Repeat(map[string]func(*rapid.T){
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(48*time.Hour)).Draw(t, "long")))
			},
			"wait a little": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Minute)).Draw(t, "short")))
			},
			"clock goes back": func(t *rapid.T) {
				now = now.Add(-time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "back")))
			},
			"step": func(t *rapid.T) {
				digest := rapid.SampledFrom([]string{subject, subject, other, ""}).Draw(t, "digest")
				before, next := a, a
				var err error
				step := rapid.SampledFrom([]string{"yes", "no", "consume", "revoke", "expire"}).Draw(t, "step")
				switch step {
				case "yes", "no":
					d := decision(now)
					d.Digest = digest
					next, err = Decide(a, d, step == "yes")
				case "consume":
					next, err = Consume(a, digest, "rcp", now)
				case "revoke":
					next, err = Revoke(a, WhyWithdrawn)
				case "expire":
					next, _ = Expire(a, now)
				}
				if cmp.Diff(before, a) != "" {
					t.Fatalf("%s changed the approval that it was given", step)
				}
				if err != nil {
					if fault.From(err).Code == "internal" {
						t.Fatalf("%s: %v has no code", step, err)
					}
					return
				}
				if a.State.Final() && cmp.Diff(a, next) != "" {
					t.Fatalf("%s changed the final %+v to %+v", step, a, next)
				}
				if next.State == Approved && a.State == Pending {
					saidYes = now
				}
				if next.State == Consumed && a.State != Consumed {
					consumed++
					if a.State != Approved || digest != subject || saidYes.IsZero() || now.Sub(saidYes) >= approvedLife {
						t.Fatalf("consumed with %q at %v, a yes at %v: %+v", digest, now, saidYes, a)
					}
				}
				a = next
			},
			"": func(t *rapid.T) {
				if consumed > 1 || !slices.Contains(allStates, a.State) || a.Subject != subject || a.ID != "apr_1" {
					t.Fatalf("consumed %d times, %+v", consumed, a)
				}
			},
		})
	})
}

// TestDocument: the states and the reasons for an end are explained.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "approvals.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range []string{"approval.go", "state.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(value, "approval-") || slices.Contains(allStates, State(value)) {
					found++
					if !strings.Contains(string(doc), "`"+value+"`") {
						t.Errorf("docs/approvals.md does not explain %s", value)
					}
				}
			}
			return true
		})
	}
	if found < 16 {
		t.Errorf("found %d states and codes; the test no longer sees them", found)
	}
}
