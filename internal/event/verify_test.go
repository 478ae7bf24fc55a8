package event

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// slice is a log in memory.
type slice []Event

func (s slice) Events(_ context.Context, p ListEvents) ([]Event, error) {
	var page []Event
	for _, e := range s {
		if e.Seq > p.After && len(page) < p.PageLimit() {
			page = append(page, e)
		}
	}
	return page, nil
}

func (s slice) EventHead(context.Context) (Event, error) {
	if len(s) == 0 {
		return Event{}, nil
	}
	return s[len(s)-1], nil
}

type broken struct{ slice }

func (broken) Events(context.Context, ListEvents) ([]Event, error) { return nil, errBroken }

var errBroken = errors.New("broken")

// chain is a log of n events.
func chain(t interface{ Fatal(...any) }, n int) slice {
	var all slice
	var prev Event
	for i := range n {
		d := Draft{
			At: at.Add(time.Duration(i) * time.Second), Kind: PlanMade, Actor: Actor{Principal: "owner", Channel: "cli"},
			Refs: Refs{RefPlan: fmt.Sprint("plan_", i)}, Summary: "made",
		}
		if i%2 == 0 {
			d.Body = json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))
		}
		prev = mustSeal(t, prev, d)
		all = append(all, prev)
	}
	return all
}

func TestVerify(t *testing.T) {
	reseal := func(e Event) Event {
		e.Hash = digest(e.envelope())
		return e
	}
	for what, tc := range map[string]struct {
		spoil func(slice) slice
		want  *Bad
	}{
		"whole":            {func(s slice) slice { return s }, nil},
		"empty":            {func(slice) slice { return nil }, nil},
		"purged bodies":    {func(s slice) slice { s[0].Body, s[2].Body = nil, nil; return s }, nil},
		"end missing":      {func(s slice) slice { return s[:4] }, nil}, // nobody can notice, see Verify
		"first missing":    {func(s slice) slice { return s[1:] }, &Bad{1, SeqGap}},
		"one missing":      {func(s slice) slice { return slices.Delete(s, 2, 3) }, &Bad{3, SeqGap}},
		"one twice":        {func(s slice) slice { return slices.Insert(s, 2, s[1]) }, &Bad{3, SeqGap}},
		"swapped":          {func(s slice) slice { s[1], s[2] = s[2], s[1]; return s }, &Bad{2, SeqGap}},
		"kind":             {func(s slice) slice { s[2].Kind = PlanErrored; return s }, &Bad{3, HashDiffers}},
		"time":             {func(s slice) slice { s[2].At = s[2].At.Add(time.Microsecond); return s }, &Bad{3, HashDiffers}},
		"principal":        {func(s slice) slice { s[2].Actor.Principal = "x"; return s }, &Bad{3, HashDiffers}},
		"client":           {func(s slice) slice { s[2].Actor.Client = "x"; return s }, &Bad{3, HashDiffers}},
		"channel":          {func(s slice) slice { s[2].Actor.Channel = ""; return s }, &Bad{3, HashDiffers}},
		"ref":              {func(s slice) slice { s[2].Refs = Refs{RefPlan: "x"}; return s }, &Bad{3, HashDiffers}},
		"ref more":         {func(s slice) slice { s[2].Refs = Refs{RefPlan: "plan_2", RefPath: "x"}; return s }, &Bad{3, HashDiffers}},
		"no refs":          {func(s slice) slice { s[2].Refs = nil; return s }, &Bad{3, HashDiffers}},
		"summary":          {func(s slice) slice { s[2].Summary = "x"; return s }, &Bad{3, HashDiffers}},
		"hash":             {func(s slice) slice { s[2].Hash = s[1].Hash; return s }, &Bad{3, HashDiffers}},
		"body digest":      {func(s slice) slice { s[2].BodySHA256 = ""; return s }, &Bad{3, HashDiffers}},
		"body":             {func(s slice) slice { s[2].Body = json.RawMessage(`{"n":3}`); return s }, &Bad{3, BodyDiffers}},
		"body, respelt":    {func(s slice) slice { s[2].Body = json.RawMessage(`{ "n":2}`); return s }, &Bad{3, BodyDiffers}},
		"body put in":      {func(s slice) slice { s[1].Body = json.RawMessage(`{}`); return s }, &Bad{2, BodyDiffers}},
		"resealed":         {func(s slice) slice { s[2].Summary = "x"; s[2] = reseal(s[2]); return s }, &Bad{4, PrevDiffers}},
		"resealed, first":  {func(s slice) slice { s[0].Prev = "x"; s[0] = reseal(s[0]); return s }, &Bad{1, PrevDiffers}},
		"moved, renumberd": {func(s slice) slice { s[3].Seq = 3; s[3] = reseal(s[3]); return slices.Delete(s, 2, 3) }, &Bad{3, PrevDiffers}},
	} {
		t.Run(what, func(t *testing.T) {
			s := tc.spoil(chain(t, 5))
			if d := cmp.Diff(tc.want, Verify(Event{}, s)); d != "" {
				t.Errorf("Verify (-want +got):\n%s", d)
			}
		})
	}
}

// TestVerifyFinds: of two different runs of the same length that begin in the same way, only one is well.
func TestVerifyFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := chain(t, 6)
		i := rapid.IntRange(0, 5).Draw(t, "which")
		other := mustSeal(t, Event{Seq: all[i].Seq - 1, Hash: rapid.SampledFrom([]string{all[i].Prev, "", "ab"}).Draw(t, "prev")}, drafts().Draw(t, "draft"))
		if other.Hash == all[i].Hash {
			t.Skip("the same event")
		}
		all[i] = other
		bad := Verify(Event{}, all)
		// The last one may be replaced by one that follows: a log can be continued in two ways.
		if (bad == nil) != (i == 5 && other.Prev == all[4].Hash) {
			t.Fatalf("%d replaced: %+v", i, bad)
		}
		if bad != nil && bad.Seq != uint64(i+1) && bad.Seq != uint64(i+2) {
			t.Fatalf("%d replaced, found at %d", i+1, bad.Seq)
		}
	})
}

func TestVerifyLog(t *testing.T) {
	const n = MaxEventPage*2 + 7
	whole := chain(t, n)
	purged := slices.Clone(whole)
	purged[0].Body = nil
	changed := slices.Clone(whole)
	changed[MaxEventPage].Summary = "x"
	missing := slices.Delete(slices.Clone(whole), MaxEventPage, MaxEventPage+1)
	verdict := func(first, last, purged uint64, bad *Bad) Verdict {
		v := Verdict{Closing: Closing{Count: last - first + 1, First: first, Last: last, Head: whole[last-1].Hash}, Purged: purged, Bad: bad}
		if purged > 0 { // the body of the first one
			v.Pruned = Ranges{{1, 1}}
		}
		return v
	}
	for what, tc := range map[string]struct {
		log      slice
		from, to uint64
		want     Verdict
	}{
		"empty":                     {nil, 0, 0, Verdict{}},
		"whole":                     {whole, 0, 0, verdict(1, n, 0, nil)},
		"a whole page":              {whole[:MaxEventPage], 0, 0, verdict(1, MaxEventPage, 0, nil)},
		"from 1":                    {whole, 1, 0, verdict(1, n, 0, nil)},
		"in the middle":             {whole, 3, 700, verdict(3, 700, 0, nil)},
		"one":                       {whole, 9, 9, verdict(9, 9, 0, nil)},
		"behind the end":            {whole, n + 1, 0, Verdict{}},
		"to behind the end":         {whole, 0, n + 99, verdict(1, n, 0, nil)},
		"nothing":                   {whole, 9, 8, Verdict{}},
		"purged":                    {purged, 0, 0, verdict(1, n, 1, nil)},
		"changed":                   {changed, 0, 0, verdict(1, MaxEventPage, 0, &Bad{MaxEventPage + 1, HashDiffers})},
		"changed, not looked at":    {changed, 0, MaxEventPage, verdict(1, MaxEventPage, 0, nil)},
		"missing":                   {missing, 0, 0, verdict(1, MaxEventPage, 0, &Bad{MaxEventPage + 1, SeqGap})},
		"missing before the first":  {missing, MaxEventPage + 2, 0, Verdict{Bad: &Bad{MaxEventPage + 2, PrevDiffers}}},
		"missing, not looked at":    {missing, MaxEventPage + 3, 0, verdict(MaxEventPage+3, n, 0, nil)},
		"changed, just before from": {changed, MaxEventPage + 2, 0, verdict(MaxEventPage+2, n, 0, nil)},
	} {
		t.Run(what, func(t *testing.T) {
			got, err := VerifyLog(t.Context(), tc.log, tc.from, tc.to)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("verdict (-want +got):\n%s", d)
			}
			// An export of the same range is judged alike, but for what lies before it.
			var out bytes.Buffer
			if _, err := Export(t.Context(), tc.log, &out, tc.from, tc.to); err != nil {
				t.Fatal(err)
			}
			alone, err := VerifyExport(&out)
			if err != nil {
				t.Fatal(err)
			}
			if what == "missing before the first" {
				tc.want = verdict(MaxEventPage+2, n, 0, nil)
			}
			if d := cmp.Diff(tc.want, alone); d != "" {
				t.Errorf("verdict about the export (-want +got):\n%s", d)
			}
		})
	}
	if _, err := VerifyLog(t.Context(), broken{}, 0, 0); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of the log", err)
	}
	if _, err := VerifyLog(t.Context(), broken{}, 5, 0); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of the log", err)
	}
}

func export(t *testing.T, s slice) []byte {
	t.Helper()
	var out bytes.Buffer
	closing, err := Export(t.Context(), s, &out, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	last := out.Bytes()[bytes.LastIndexByte(bytes.TrimSpace(out.Bytes()), '\n')+1:]
	if want := fmt.Sprintf(`{"count":%d,"first":%d,"last":%d,"head_hash":%q}`+"\n", closing.Count, closing.First, closing.Last, closing.Head); string(last) != want {
		t.Errorf("closing line %s, want %s", last, want)
	}
	return out.Bytes()
}

// TestExportEveryByte: no byte of an export can be changed, removed or added without being found.
func TestExportEveryByte(t *testing.T) {
	stream := export(t, chain(t, 2))
	check := func(what string, changed []byte) {
		t.Helper()
		v, err := VerifyExport(bytes.NewReader(changed))
		if err != nil || v.Bad == nil {
			t.Errorf("%s: %+v, %v; want it found", what, v, err)
		}
	}
	for i := range stream {
		for _, mask := range []byte{1, 0x20} { // another digit, another case
			changed := slices.Clone(stream)
			changed[i] ^= mask
			check(fmt.Sprintf("byte %d (%q) ^ %x", i, stream[i], mask), changed)
		}
		check(fmt.Sprint("cut at ", i), stream[:i])
		check(fmt.Sprint("without byte ", i), slices.Delete(slices.Clone(stream), i, i+1))
		for _, b := range []byte(" 0") {
			check(fmt.Sprintf("%q before byte %d", b, i), slices.Insert(slices.Clone(stream), i, b))
		}
	}
}

func TestVerifyExport(t *testing.T) {
	whole := string(export(t, chain(t, 3)))
	lines := strings.SplitAfter(whole, "\n")
	for what, tc := range map[string]struct {
		stream string
		want   *Bad
	}{
		"whole":                 {whole, nil},
		"empty log":             {`{"count":0,"first":0,"last":0,"head_hash":""}` + "\n", nil},
		"no bytes":              {"", &Bad{1, ClosingMissing}},
		"cut after a line":      {lines[0] + lines[1], &Bad{3, ClosingMissing}},
		"cut in a line":         {lines[0] + lines[1][:20], &Bad{2, LineMalformed}},
		"end missing":           {lines[0] + lines[1] + lines[3], &Bad{3, ClosingDiffers}},
		"one missing":           {lines[0] + lines[2] + lines[3], &Bad{2, SeqGap}},
		"more after the end":    {whole + lines[0], &Bad{4, LineMalformed}},
		"closing line twice":    {whole + lines[3], &Bad{4, LineMalformed}},
		"something else":        {"hello\n", &Bad{1, LineMalformed}},
		"a member more":         {strings.Replace(whole, `{"seq":2`, `{"note":"x","seq":2`, 1), &Bad{2, LineMalformed}},
		"a member twice":        {strings.Replace(whole, `{"seq":2`, `{"seq":9,"seq":2`, 1), &Bad{2, LineMalformed}},
		"other case":            {strings.Replace(whole, `{"seq":2`, `{"Seq":2`, 1), &Bad{2, LineMalformed}},
		"another zone":          {strings.Replace(whole, "T12:30:02.123456Z", "T13:30:02.123456+01:00", 1), &Bad{2, LineMalformed}},
		"escapes":               {strings.Replace(whole, `"made"`, `"\u006dade"`, 1), &Bad{1, LineMalformed}},
		"a line without an end": {`{"seq":1,"summary":"` + strings.Repeat("x", maxLine), &Bad{1, LineMalformed}},
	} {
		t.Run(what, func(t *testing.T) {
			v, err := VerifyExport(iotest.HalfReader(strings.NewReader(tc.stream)))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, v.Bad); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
	if _, err := VerifyExport(io.MultiReader(strings.NewReader(lines[0]), iotest.ErrReader(errBroken))); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of the reader", err)
	}
	if _, err := VerifyExport(io.MultiReader(strings.NewReader(whole), iotest.ErrReader(errBroken))); !errors.Is(err, errBroken) {
		t.Errorf("error %v after the closing line, want that of the reader", err)
	}
}

// TestLargestLine: an event of which every part has its largest size can be exported and read back.
func TestLargestLine(t *testing.T) {
	d := Draft{At: at, Kind: PlanMade, Refs: Refs{}, Body: json.RawMessage(`"` + strings.Repeat("x", MaxBody-2) + `"`)}
	widest := strings.Repeat("<", maxText)
	d.Actor, d.Summary = Actor{widest, widest, widest}, widest
	for _, name := range allRefs {
		d.Refs[name] = widest
	}
	if v, err := VerifyExport(bytes.NewReader(export(t, slice{mustSeal(t, Event{}, d)}))); err != nil || v.Bad != nil || v.Count != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

type failing struct{ after int }

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestExportTellsErrors(t *testing.T) {
	for _, after := range []int{0, 100_000} {
		if _, err := Export(t.Context(), chain(t, 900), &failing{after}, 0, 0); !errors.Is(err, errBroken) {
			t.Errorf("error %v, want that of the writer", err)
		}
	}
	if _, err := Export(t.Context(), broken{}, io.Discard, 0, 0); !errors.Is(err, errBroken) {
		t.Errorf("error %v, want that of the log", err)
	}
}

// FuzzVerifyExport: a stream that is found well says exactly what an export of its events says.
func FuzzVerifyExport(f *testing.F) {
	var out bytes.Buffer
	for _, n := range []int{0, 1, 3} {
		out.Reset()
		if _, err := Export(f.Context(), chain(f, n), &out, 0, 0); err != nil {
			f.Fatal(err)
		}
		f.Add(slices.Clone(out.Bytes()))
	}
	f.Add([]byte(`{"seq":1,"at":"0000-01-01T00:00:00Z","kind":"","actor":{"principal":""},"summary":"","prev_hash":"","hash":""}` + "\n"))
	f.Add([]byte("null\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		v, err := VerifyExport(bytes.NewReader(stream))
		if err != nil {
			t.Fatal(err)
		}
		if v.Bad != nil {
			return
		}
		var all slice
		for line := range bytes.Lines(stream) {
			var e Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
			if e.Seq > 0 {
				all = append(all, e)
			}
		}
		var again bytes.Buffer
		if _, err := Export(t.Context(), all, &again, v.First, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(stream, again.Bytes()) {
			t.Errorf("found well, but not what an export writes:\n%q\n%q", stream, again.Bytes())
		}
	})
}

// FuzzVerify: whatever is sealed is found well, alone and in an export; a change of any part of it is not.
func FuzzVerify(f *testing.F) {
	f.Add("owner", "cli", "/a/b", "made", []byte(`{"a":1}`), int64(1_700_000_000_000_000))
	f.Add("\xff", "", "\n", "\u2028<", []byte(" null"), int64(-1))
	f.Fuzz(func(t *testing.T, principal, channel, path, summary string, body []byte, us int64) {
		d := Draft{
			At: time.UnixMicro(us), Kind: PlanMade, Actor: Actor{Principal: principal, Channel: channel}, Refs: Refs{RefPath: path},
			Summary: summary, Body: body,
		}
		e, err := Seal(Event{Seq: 4, Hash: "ab"}, d)
		if err != nil {
			if Check(d) == nil {
				t.Fatalf("checked, but not sealed: %v", err)
			}
			return
		}
		next := mustSeal(t, e, Draft{At: time.UnixMicro(0), Kind: PlanErrored, Actor: Actor{Principal: "p"}})
		v, err := VerifyExport(bytes.NewReader(exportFrom(t, slice{e, next}, 5)))
		if err != nil || v.Bad != nil || v.Count != 2 {
			t.Fatalf("%+v, %v", v, err)
		}
		for i, spoil := range []func(*Event){
			func(e *Event) { e.Actor.Principal += "x" },
			func(e *Event) { e.Actor.Channel += "x" },
			func(e *Event) { e.Refs = Refs{RefPath: e.Refs[RefPath] + "x"} },
			func(e *Event) { e.Summary += "x" },
			func(e *Event) { e.At = e.At.Add(time.Microsecond) },
			func(e *Event) { e.Actor.Client, e.Actor.Channel = e.Actor.Channel+"x", "" },
		} {
			changed := e
			spoil(&changed)
			if Verify(Event{Seq: 4, Hash: "ab"}, []Event{changed, next}) == nil {
				t.Errorf("change %d is not found", i)
			}
		}
	})
}

func exportFrom(t *testing.T, s slice, from uint64) []byte {
	t.Helper()
	var out bytes.Buffer
	if _, err := Export(t.Context(), s, &out, from, 0); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func BenchmarkVerify(b *testing.B) {
	all := chain(b, 10_000)
	for b.Loop() {
		if v, err := VerifyLog(b.Context(), all, 0, 0); err != nil || v.Bad != nil || v.Count != 10_000 {
			b.Fatal(v, err)
		}
	}
}

func TestVerifyHead(t *testing.T) {
	all := chain(t, 5)
	other := mustSeal(t, all[1], Draft{Kind: all[2].Kind, At: all[2].At, Actor: all[2].Actor, Summary: "another one"})
	for _, c := range []struct {
		name  string
		log   []Event
		noted Event
		bad   uint64
	}{
		{"nothing was noted", all, Event{}, 0},
		{"the last one", all, all[4], 0},
		{"an earlier one", all, all[1], 0},
		{"cut", all[:3], all[4], 4},
		{"all is gone", nil, all[4], 1},
		{"another one is there", append(slices.Clone(all[:2]), other), all[2], 3},
	} {
		bad, err := VerifyHead(t.Context(), slice(c.log), Head{c.noted.Seq, c.noted.Hash})
		if err != nil || (bad == nil) != (c.bad == 0) || bad != nil && (bad.Seq != c.bad || bad.Why != HeadDiffers) {
			t.Errorf("%s: %+v, %v", c.name, bad, err)
		}
	}
}
