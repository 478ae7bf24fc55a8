package operation

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mcpx/internal/fault"
)

var key = []byte("0123456789abcdef0123456789abcdef")

func printOf(t testing.TB, tool, args string) Print {
	t.Helper()
	parsed, err := ParseArgs(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Fingerprint(tool, parsed, key)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFingerprint(t *testing.T) {
	const base = `{"operation_id":"op-00001","path":"a","n":1,"o":{"x":1,"y":[1,2]}}`
	for name, c := range map[string]struct {
		args string
		same bool
	}{
		"order of names":          {`{"o":{"y":[1,2],"x":1},"n":1,"path":"a","operation_id":"op-00001"}`, true},
		"spaces and escapes":      {`{ "path" : "\u0061" , "n":1,"o":{"x":1,"y":[1,2]},"operation_id":"op-00002"}`, true},
		"what is told (RT-9)":     {`{"operation_id":"op-00001","path":"a","n":1,"o":{"x":1,"y":[1,2]},"wait_ms":5,"activity":{"intent":"x"},"output_bytes":9,"diff":"full"}`, true},
		"another value":           {`{"operation_id":"op-00001","path":"b","n":1,"o":{"x":1,"y":[1,2]}}`, false},
		"order of an array":       {`{"operation_id":"op-00001","path":"a","n":1,"o":{"x":1,"y":[2,1]}}`, false},
		"a name that is missing":  {`{"operation_id":"op-00001","path":"a","o":{"x":1,"y":[1,2]}}`, false},
		"a value that moved":      {`{"operation_id":"op-00001","path":1,"n":"a","o":{"x":1,"y":[1,2]}}`, false},
		"other numbers (DW-14)":   {`{"operation_id":"op-00001","path":"a","n":1.0,"o":{"x":10e-1,"y":[0.1E1,2.00]}}`, true},
		"a loose name deep below": {`{"operation_id":"op-00001","path":"a","n":1,"o":{"x":1,"y":[1,2],"limit":1}}`, false},
	} {
		if got := printOf(t, "edit_files", c.args).Sum == printOf(t, "edit_files", base).Sum; got != c.same {
			t.Errorf("%s: the same print: %v", name, got)
		}
	}
	if printOf(t, "a", base).Sum == printOf(t, "b", base).Sum {
		t.Error("two tools have one print")
	}
	big, bigger := printOf(t, "a", `{"n":9007199254740992}`), printOf(t, "a", `{"n":9007199254740993}`)
	if big.Sum == bigger.Sum {
		t.Error("two large integers are one")
	}
}

func TestNumber(t *testing.T) {
	for given, want := range map[string]string{
		"1": "1", "1.0": "1", "10e-1": "1", "0.1E+1": "1", "100": "100", "1e2": "100", "-0": "0", "-0.0e5": "0", "0.050": "0.05", "-1.50": "-1.5", "5e-3": "0.005",
		"123456789012345678901234567890": "123456789012345678901234567890", "1e999999999999": "1e999999999999", "1e65": "1e65", "0e0": "0",
	} {
		if got := number(json.Number(given)); string(got) != want {
			t.Errorf("%s is %s, want %s", given, got, want)
		}
	}
}

func TestParseArgs(t *testing.T) {
	for _, bad := range []string{
		`[]`, `1`, `null`, `{`, `{"a":1}{`, `{"a":1,"a":2}`, `{"a":{"b":1,"b":1}}`, `{"a":[{"c":1,"c":2}]}`, "{\"a\":\"\xff\"}", strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200),
	} {
		if got, err := ParseArgs(json.RawMessage(bad)); err == nil {
			t.Errorf("%.40s was read as %v", bad, got)
		}
	}
	for _, good := range []string{``, ` `, `{}`, `{"a":1,"b":{"a":1},"c":["a","a"]}`} {
		if _, err := ParseArgs(json.RawMessage(good)); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}

func TestValidID(t *testing.T) {
	for id, want := range map[string]bool{
		"op-00001": true, "a.b_c:d-E9": true, strings.Repeat("x", 128): true,
		"": false, "short": false, strings.Repeat("x", 129): false, "op 00001": false, "op-0000ü": false, "op-0000\n": false,
	} {
		if ValidID(id) != want {
			t.Errorf("%.20q valid: %v", id, !want)
		}
	}
}

func TestJudge(t *testing.T) {
	p := printOf(t, "edit_files", `{"path":"a","x":1}`)
	row := func(s State) *Operation {
		return &Operation{Name: Name{"owner", "op-00001"}, Tool: "edit_files", Print: p.Sum, Digests: p.Digests, State: s}
	}
	for name, c := range map[string]struct {
		row  *Operation
		busy bool
		want Step
		code Code
	}{
		"new":                          {nil, false, Begin, ""},
		"new, and somebody is faster":  {nil, true, WaitThen, ""},
		"a claim of a crash":           {row(Claimed), false, Resume, ""},
		"a claim that is worked on":    {row(Claimed), true, WaitThen, ""},
		"begun":                        {row(Dispatched), false, WaitThen, ""},
		"ended":                        {row(Succeeded), false, Replay, ""},
		"failed":                       {row(Failed), false, Replay, ""},
		"unknown is not carried out":   {row(Unknown), false, Refused, OutcomeUnknown},
		"a state of a later version":   {row("asleep"), false, Refused, InternalError},
		"ended, while another is busy": {row(Succeeded), true, Replay, ""},
	} {
		step, refused := Judge(c.row, "edit_files", p, c.busy)
		if step != c.want || (refused == nil) != (c.code == "") || refused != nil && refused.Code != c.code {
			t.Errorf("%s: %v, %v", name, step, refused)
		}
	}
	other := printOf(t, "edit_files", `{"path":"b","y":1}`)
	step, refused := Judge(row(Succeeded), "edit_files", other, false)
	if step != Refused || refused.Code != OperationIDReused || !slices.Equal(refused.Details["differs"].([]string), []string{"path", "x", "y"}) {
		t.Errorf("another call with the id (RT-64): %v, %v", step, refused)
	}
	if _, refused = Judge(row(Succeeded), "remove_files", p, false); refused == nil || refused.Code != OperationIDReused {
		t.Errorf("another tool with the id: %v", refused)
	}
}

func TestDuplicate(t *testing.T) {
	ages := map[string]time.Duration{"op-new": time.Minute, "op-old": time.Hour}
	age := func(o Operation) time.Duration { return ages[o.ID] }
	of := func(id string, s State, acked bool) Operation {
		return Operation{Name: Name{"owner", id}, State: s, Acked: acked}
	}
	for name, c := range map[string]struct {
		recent []Operation
		want   string
	}{
		"nothing":                 {nil, ""},
		"ended, nobody asked":     {[]Operation{of("op-new", Succeeded, false)}, "op-new"},
		"ended, somebody asked":   {[]Operation{of("op-new", Succeeded, true)}, ""},
		"under way, asked":        {[]Operation{of("op-new", Dispatched, true)}, "op-new"},
		"failed":                  {[]Operation{of("op-new", Failed, false)}, ""},
		"long ago":                {[]Operation{of("op-old", Succeeded, false)}, ""},
		"itself":                  {[]Operation{of("op-me", Claimed, false)}, ""},
		"the one it differs from": {[]Operation{of("op-not", Succeeded, false)}, ""},
	} {
		r := Duplicate("op-me", "op-not", c.recent, age)
		if (r == nil) != (c.want == "") || r != nil && r.Details["operation_id"] != c.want {
			t.Errorf("%s: %v", name, r)
		}
	}
}

func TestResolve(t *testing.T) {
	now := time.Unix(100, 0)
	for name, c := range map[string]struct {
		from State
		hold Hold
		v    Verdict
		want State
		code Code
	}{
		"done":                    {Unknown, "", Done, Succeeded, ""},
		"not done":                {Unknown, "", NotDone, Failed, ""},
		"given up":                {Unknown, "", Abandon, Failed, ""},
		"waiting, called done":    {Claimed, HoldApproval, Done, "", "WORKSPACE_STATE"},
		"ended":                   {Succeeded, "", NotDone, "", "WORKSPACE_STATE"},
		"under way":               {Dispatched, "", Done, "", "WORKSPACE_STATE"},
		"a verdict of no meaning": {Unknown, "", "perhaps", "", ArgumentInvalid},
	} {
		got, err := Resolve(Operation{State: c.from, Hold: c.hold}, c.v, now)
		var r *Refusal
		switch {
		case c.code == "" && (err != nil || got.State != c.want || !got.Ended.Equal(now)):
			t.Errorf("%s: %v, %v", name, got, err)
		case c.code != "" && (!errors.As(err, &r) || r.Code != c.code):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAtMostOnce: whatever callers, crashes and verdicts do in any order, an operation begins its effect once, and what
// has ended stays as it was.
func TestAtMostOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		prints := []Print{{Sum: "a"}, {Sum: "b"}}
		var (
			row    *Operation
			busy   bool
			effect int
		)
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			before := row
			switch rapid.SampledFrom([]string{"call", "dispatch", "end", "crash", "recover", "resolve", "refuse"}).Draw(rt, "what") {
			case "call":
				p := rapid.SampledFrom(prints).Draw(rt, "print")
				switch step, refused := Judge(row, "t", p, busy); step {
				case Begin:
					row, busy = &Operation{Name: Name{"owner", "op-00001"}, Tool: "t", Print: p.Sum, State: Claimed, Attempts: 1}, true
				case Resume:
					if row.Print != p.Sum {
						rt.Fatalf("another call goes on with the claim of %s", row.Print)
					}
					busy = true
				case Replay:
					if !row.State.Final() || row.Print != p.Sum {
						rt.Fatalf("a replay of %v", row)
					}
				case Refused:
					if refused == nil || refused.Retry == fault.SameID {
						rt.Fatalf("refused with %v", refused)
					}
				case WaitThen:
				}
			case "dispatch":
				if busy && row.State == Claimed {
					next := *row
					next.State = Dispatched
					row = &next
					effect++
				}
			case "end":
				if busy && row.State == Dispatched {
					next := *row
					next.State = rapid.SampledFrom([]State{Succeeded, Failed, Unknown}).Draw(rt, "end")
					row, busy = &next, false
				}
			case "refuse": // before the dispatch, the claim is released
				if busy && row.State == Claimed {
					row, busy = nil, false
				}
			case "crash":
				busy = false
			case "recover":
				if row != nil && !busy && row.State == Dispatched {
					next := *row
					next.State = rapid.SampledFrom([]State{Succeeded, Unknown}).Draw(rt, "evidence")
					row = &next
				}
			case "resolve":
				if row != nil && !busy {
					if next, err := Resolve(*row, rapid.SampledFrom([]Verdict{Done, NotDone, Abandon}).Draw(rt, "verdict"), time.Time{}); err == nil {
						row = &next
					}
				}
			}
			if before != nil && (before.State == Succeeded || before.State == Failed) && (row == nil || row.State != before.State) {
				rt.Fatalf("what had ended became %v", row)
			}
			if effect > 1 {
				rt.Fatal("the effect began twice")
			}
		}
	})
}

func FuzzParseArgs(f *testing.F) {
	for _, s := range []string{`{"a":1}`, `{"a":{"b":[1,"x",null]}}`, `{"a":1,"a":2}`, `[`, ``} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args, err := ParseArgs(json.RawMessage(s))
		if err != nil {
			return
		}
		one, err := Fingerprint("t", args, key)
		if err != nil {
			t.Fatalf("%q was read, and has no print: %v", s, err)
		}
		again, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		if two := printOf(t, "t", string(again)); one.Sum != two.Sum {
			t.Fatalf("%q has another print when it is written anew", s)
		}
	})
}
