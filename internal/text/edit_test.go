package text

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func apply(t rapid.TB, raw string, e Edit) *Result {
	t.Helper()
	r, err := Parse([]byte(raw)).Apply(e)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func replacing(old, new string, count int) Edit {
	return Edit{Replacements: []Replacement{{old, new, count}}}
}

func lines(from, to int, text string) Edit { return Edit{Range: &Range{from, to, text}} }

func TestEdits(t *testing.T) {
	long := strings.Repeat("x", 20)
	for name, c := range map[string]struct {
		raw  string
		edit Edit
		want string
	}{
		"RT-50 several lines":               {"a\r\nb\r\nc\r\n", replacing("a\nb", "x\ny\nz", 1), "x\r\ny\r\nz\r\nc\r\n"},
		"RT-50 crlf in new":                 {"a\r\nb\r\n", replacing("b", "x\r\ny", 1), "a\r\nx\r\ny\r\n"},
		"RT-50 crlf in old":                 {"a\nb\n", replacing("a\r\nb", "x\r\ny", 1), "x\ny\n"},
		"RT-50 in cr":                       {"a\rb\r", replacing("a\nb", "x\ny\r\nz", 1), "x\ry\rz\r"},
		"RT-51 one line in mixed":           {"a\r\nb\nc\r\nd\n", lines(3, 2, "x"), "a\r\nb\nx\nc\r\nd\n"},
		"RT-51 replaced line keeps its end": {"a\r\nb\nc\r\n", replacing("a\nb\n", "x\ny\n", 1), "x\r\ny\nc\r\n"},
		"RT-51 split line":                  {"a\r\nbc\nd\r\n", replacing("bc", "b\nc", 1), "a\r\nb\nc\nd\r\n"},
		"RT-51 open last line":              {"a\r\nb\nc\r\nd", replacing("d", "d\ne", 1), "a\r\nb\nc\r\nd\r\ne"},
		"RT-51 before the first":            {"a\r\nb\r\nc\n", lines(1, 0, "x"), "x\r\na\r\nb\r\nc\n"},
		"RT-51 more lines than before":      {"a\nb\r\nc\n", lines(2, 2, "x\ny"), "a\nx\r\ny\r\nc\n"},
		"RT-51 content, mixed":              {"a\r\nb\nc\r\nd\n", Edit{Content: new("a\nx\nb\nc\nd\n")}, "a\r\nx\r\nb\nc\r\nd\n"},
		"RT-52 every one":                   {"aXbX", replacing("X", "y", 0), "ayby"},
		"RT-52 every one, overlapping":      {"aaaaa", replacing("aa", "b", 0), "bba"},
		"RT-52 two":                         {"aXbX", replacing("X", "y", 2), "ayby"},
		"several":                           {"abc", Edit{Replacements: []Replacement{{"c", "a", 1}, {"a", "c", 1}}}, "cba"},
		"adjacent":                          {"abc", Edit{Replacements: []Replacement{{"b", "y", 1}, {"a", "x", 1}}}, "xyc"},
		"RT-58 insert":                      {"a\nb\n", lines(2, 1, "x\ny\n"), "a\nx\ny\nb\n"},
		"RT-58 insert an empty line":        {"a\nb\n", lines(2, 1, "\n"), "a\n\nb\n"},
		"RT-58 insert at the end":           {"a\r\n", lines(2, 1, "x"), "a\r\nx\r\n"},
		"RT-58 insert after open":           {"a\r\nb", lines(3, 2, "x"), "a\r\nb\r\nx"},
		"RT-58 delete":                      {"a\nb\nc\n", lines(2, 3, ""), "a\n"},
		"RT-58 delete open":                 {"a\nb", lines(2, 2, ""), "a\n"},
		"RT-58 insert nothing":              {"a\nb", lines(3, 2, ""), "a\nb"},
		"RT-58 replace open":                {"a\nb", lines(2, 2, "x"), "a\nx"},
		"RT-58 replace open with an end":    {"a\nb", lines(2, 2, "x\n"), "a\nx\n"},
		"RT-58 append":                      {"a\r\n", Edit{Append: new("b\nc")}, "a\r\nb\r\nc\r\n"},
		"RT-58 append to open":              {"a\r\nb", Edit{Append: new("c\n")}, "a\r\nb\r\nc\r\n"},
		"RT-58 append to one open line":     {"a", Edit{Append: new("c\r\n")}, "a\r\nc\r\n"},
		"RT-58 append to nothing":           {"", Edit{Append: new("c")}, "c"},
		"RT-58 append nothing":              {"a", Edit{Append: new("")}, "a"},
		"RT-59 mark":                        {bomUTF8 + "a\nb", replacing("a", "x", 1), bomUTF8 + "x\nb"},
		"RT-59 utf-16":                      {"\xff\xfea\x00\r\x00\n\x00b\x00", replacing("b", "😀\n", 1), "\xff\xfea\x00\r\x00\n\x00\x3d\xd8\x00\xde\r\x00\n\x00"},
		"RT-59 content in utf-16":           {"\xfe\xff\x00a", Edit{Content: new("\ufeffb")}, "\xfe\xff\x00b"},
		"content":                           {"a\r\nb\r\n", Edit{Content: new("x\ny")}, "x\r\ny"},
		"content of a new file":             {"", Edit{Content: new("x\r\ny\nz")}, "x\r\ny\nz"},
		"content empties":                   {bomUTF8 + "a\n", Edit{Content: new("")}, bomUTF8},
		"bytes":                             {"a\n", Edit{Raw: []byte{0, 0xff}}, "\x00\xff"},
		"bytes of a binary file":            {"\x00", Edit{Raw: []byte{}}, ""},
		"cr that is a character":            {"a\rb\r\nc\r\r\n", replacing("c\r\n", "d\r\n", 1), "a\rb\r\nd\r\r\n"},
		"long":                              {long, replacing(long, "", 1), ""},
	} {
		r := apply(t, c.raw, c.edit)
		if got := string(r.After.Raw()); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if r.Unchanged != (c.raw == c.want) {
			t.Errorf("%s: unchanged is %v", name, r.Unchanged)
		}
	}
}

func TestRT58Joined(t *testing.T) {
	for raw, want := range map[string]bool{"a": true, "a\n": false, "": false, "a\r\nb": true} {
		if got := apply(t, raw, Edit{Append: new("x")}); got.Joined != want {
			t.Errorf("%q: joined %v", raw, got.Joined)
		}
	}
	if apply(t, "a", Edit{Append: new("")}).Joined || apply(t, "a\nb", lines(2, 2, "x")).Joined || !apply(t, "a", lines(2, 1, "x")).Joined {
		t.Error("joined is not the end of a line that others follow")
	}
}

func TestCounts(t *testing.T) {
	for name, c := range map[string]struct {
		raw            string
		edit           Edit
		added, removed int
	}{
		"one line":     {"a\nb\nc\n", replacing("b", "x", 1), 1, 1},
		"insert":       {"a\nb\nc\n", lines(2, 1, "x\ny"), 2, 0},
		"delete":       {"a\nb\nc\n", lines(1, 2, ""), 0, 2},
		"joined":       {"a\nb", Edit{Append: new("c")}, 2, 1},
		"unchanged":    {"a\nb", replacing("b", "b", 1), 0, 0},
		"far apart":    {strings.Repeat("a\nb\n", 40) + "x\n" + strings.Repeat("c\n", 99) + "x\n", replacing("x", "y", 2), 2, 2},
		"only a end":   {"a\r\nb\n", Edit{Raw: []byte("a\nb\n")}, 1, 1},
		"binary":       {"a\n", Edit{Raw: []byte{0}}, 0, 0},
		"created":      {"", Edit{Content: new("a\r\nb\r\n")}, 2, 0},
		"mark is gone": {bomUTF8 + "a\n", Edit{Raw: []byte("a\n")}, 0, 0},
	} {
		r := apply(t, c.raw, c.edit)
		if r.Added != c.added || r.Removed != c.removed {
			t.Errorf("%s: +%d -%d, want +%d -%d", name, r.Added, r.Removed, c.added, c.removed)
		}
	}
}

func TestEditProblems(t *testing.T) {
	type m = map[string]any
	text := "one\r\ntwo two\r\nthree\r\n"
	for name, c := range map[string]struct {
		raw  string
		edit Edit
		code string
		want map[string]any
	}{
		"RT-49 nothing":              {text, Edit{}, CodeEmpty, nil},
		"RT-49 no replacements":      {text, Edit{Replacements: []Replacement{}}, CodeEmpty, nil},
		"two changes":                {text, Edit{Append: new(""), Content: new("")}, CodeArgument, nil},
		"RT-52 two, not one":         {text, replacing("two", "x", 1), CodeCount, m{"replacement": 0, "found": 2, "lines": []int{2}}},
		"RT-52 one, not two":         {text, replacing("three", "x", 2), CodeCount, m{"replacement": 0, "found": 1, "lines": []int{3}}},
		"RT-52 lines":                {text, replacing("\n", "x", 2), CodeCount, m{"replacement": 0, "found": 3, "lines": []int{1, 2, 3}}},
		"RT-52 none":                 {text, replacing("  three", "x", 1), CodeNotFound, m{"replacement": 0, "closest_line": 3}},
		"RT-52 none of any":          {text, replacing("four", "x", 0), CodeNotFound, m{"replacement": 0}},
		"RT-52 overlapping":          {"aaa", replacing("aa", "x", 1), CodeCount, m{"replacement": 0, "found": 2, "lines": []int{1}}},
		"RT-53 overlap of itself":    {"aaa", replacing("aa", "x", 2), CodeOverlap, m{"replacements": []int{0, 0}, "line": 1}},
		"RT-53 overlap":              {text, Edit{Replacements: []Replacement{{"three", "x", 1}, {"one\ntwo", "x", 1}, {"e\nt", "y", 1}}}, CodeOverlap, m{"replacements": []int{1, 2}, "line": 1}},
		"RT-53 the second":           {text, Edit{Replacements: []Replacement{{"one", "x", 1}, {"tree", "y", 1}}}, CodeNotFound, m{"replacement": 1}},
		"RT-53 twice":                {text, Edit{Replacements: []Replacement{{"one", "x", 1}, {"one", "x", 1}}}, CodeOverlap, m{"replacements": []int{0, 1}, "line": 1}},
		"RT-53 range too far":        {text, lines(3, 4, "x"), CodeRange, m{"lines_total": 3}},
		"RT-53 range from 0":         {text, lines(0, 1, "x"), CodeRange, m{"lines_total": 3}},
		"RT-53 range backwards":      {text, lines(3, 1, "x"), CodeRange, m{"lines_total": 3}},
		"RT-53 insert too far":       {text, lines(5, 4, "x"), CodeRange, m{"lines_total": 3}},
		"RT-35 cr is no line":        {"a\rb\nc\n", lines(3, 3, "x"), CodeRange, m{"lines_total": 2}},
		"empty old":                  {text, replacing("", "x", 1), CodeArgument, m{"replacement": 0}},
		"count -1":                   {text, replacing("one", "x", -1), CodeArgument, m{"replacement": 0}},
		"not utf-8":                  {text, replacing("one", "\xff", 1), CodeArgument, nil},
		"text of a binary file":      {"\x00", Edit{Append: new("x")}, CodeEncoding, m{"encoding": Binary}},
		"nul":                        {text, replacing("one", "\x00", 1), CodeEncoding, nil},
		"too large before":           {strings.Repeat("x", MaxEditSize+1), Edit{Append: new("x")}, CodeLimit, m{"limit": "file_bytes", "value": MaxEditSize}},
		"too large after":            {strings.Repeat("x", MaxEditSize/2), replacing("x", strings.Repeat("y", 5000), 0), CodeLimit, m{"limit": "file_bytes", "value": MaxEditSize}},
		"too large after, bytes":     {"", Edit{Raw: make([]byte, MaxEditSize+1)}, CodeLimit, m{"limit": "file_bytes", "value": MaxEditSize}},
		"too many replacements":      {text, Edit{Replacements: make([]Replacement, MaxReplacements+1)}, CodeLimit, m{"limit": "replacements", "value": MaxReplacements}},
		"longer than the whole file": {"a", replacing("aaaa", "", 1), CodeNotFound, m{"replacement": 0}},
	} {
		_, err := Parse([]byte(c.raw)).Apply(c.edit)
		if code(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if diff := cmp.Diff(c.want, details(err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestClosestLine(t *testing.T) {
	text := "package main\n\nfunc a() {\n\treturn 1\n}\n\nfunc b() {\n\treturn 2\n}\n"
	for old, want := range map[string]int{
		"func b() {\n  return 2\n}\n":       7, // other spaces
		"func b() {\n\treturn 3\n}\n":       7, // one line differs, the others decide
		"func c() {\n\treturn 2\n}\n":       7, // the first line differs
		"return 2\n}\n":                     8,
		"func bb() {":                       7, // only alike
		"\n\nfunc bb() {":                   5,
		"nothing like it is anywhere":       0,
		"\n\n":                              0,
		"before the file\n\npackage main\n": 1,
	} {
		if got := closestLine([]byte(text), old); got != want {
			t.Errorf("%q is closest to line %d, want %d", old, got, want)
		}
	}
	if got := closestLine([]byte("x\n1\n2\nx\n3\nx\ny\n"), "x\ny\nz"); got != 6 {
		t.Errorf("two lines of a block are at line 6, got %d", got)
	}
	if got := closestLine([]byte("aaaaaaaa\naaabx\n"), "aaab"); got != 2 {
		t.Errorf("what is repeated counts once: got line %d", got)
	}
}

// naive is what section 4.2 says, spelled out on cells: the cells of from to to become new.
func naive(all []cell, from, to int, new string, f *File) []cell {
	var ends []string // of the lines
	at := make([]int, len(all)+1)
	for i, c := range all {
		at[i] = len(ends)
		if c.text == "\n" {
			ends = append(ends, c.raw)
		}
	}
	at[len(all)] = len(ends)
	// The lines whose place the new ones take; an insertion follows the line of the character before it.
	first, last := -1, -1
	if from < to {
		first, last = at[from], at[to-1]
	} else if from > 0 && all[from-1].text != "" {
		first, last = at[from-1], at[from-1]
	}
	var put []cell
	for _, r := range new {
		c := cell{string(r), string(appendText(nil, string(r), f.Encoding))}
		if r == '\n' && f.EOL.Style != StyleNone {
			i := min(first, len(ends)-1)
			if c.raw = string(appendText(nil, f.EOL.major(), f.Encoding)); i >= 0 {
				c.raw = ends[i]
			}
			first = min(first+1, last)
		}
		put = append(put, c)
	}
	return slices.Concat(all[:from], put, all[to:])
}

// TestApplyProperty: edits do what the spelled out rules say, and every other byte stays.
func TestApplyProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := files().Draw(t, "file")
		f := Parse(raw)
		all, _ := cells(raw)
		new := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "世", "\n", "new", "😀"}), 0, 6).Draw(t, "new"), "")
		low := 0
		if f.BOM {
			low = 1
		}
		from := rapid.IntRange(low, len(all)).Draw(t, "from")
		to := rapid.IntRange(from, len(all)).Draw(t, "to")
		var want []cell
		var edit Edit
		switch rapid.SampledFrom([]string{"replacement", "lines"}).Draw(t, "edit") {
		case "lines":
			first := 1 + strings.Count(textOf(all[:from]), "\n")
			last := 1 + strings.Count(textOf(all[:to]), "\n")
			if last = min(last, f.Lines); first > last && first > f.Lines+1 {
				return
			}
			if rapid.Bool().Draw(t, "insert") {
				last = first - 1
			}
			edit = lines(first, last, new)
			from, to = lineCells(all, low, first), lineCells(all, low, last+1)
			if open := to == len(all) && !f.FinalNewline; new != "" && !open && !strings.HasSuffix(new, "\n") {
				new += "\n"
			} else if open && first > f.Lines && f.Lines > 0 && new != "" {
				new = "\n" + new
			}
		default:
			old := textOf(all[from:to])
			if old == "" || !strings.Contains(textOf(all), old) {
				return
			}
			edit = replacing(old, new, 1)
			if _, found := occurrences(f.Text(), old, 1); found > 1 {
				if _, err := f.Apply(edit); code(err) != CodeCount {
					t.Fatalf("%d occurrences: %v", found, err)
				}
				return
			}
			if rapid.Bool().Draw(t, "crlf") && !strings.Contains(old, "\r") {
				edit.Replacements[0].Old = strings.ReplaceAll(old, "\n", "\r\n")
			}
		}
		want = naive(all, from, to, new, f)
		r, err := f.Apply(edit)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(r.After.Raw()); got != rawOf(want) {
			t.Fatalf("%+v:\n got %q\nwant %q", edit, got, rawOf(want))
		}
		if r.After.BOM != f.BOM && !strings.HasPrefix(rawOf(want), bomUTF8) {
			t.Fatal("the byte order mark is lost")
		}
	})
}

// lineCells is the cell with which a line begins.
func lineCells(all []cell, low, line int) int {
	for i := low; i < len(all); i++ {
		if line <= 1 {
			return i
		}
		if all[i].text == "\n" {
			line--
		}
	}
	if line <= 1 && len(all) == low {
		return low
	}
	return len(all)
}

// TestRT51Content: content in which some lines differ changes only those, whatever the line ends.
func TestRT51Content(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "lines")
		var raw, content strings.Builder
		var want []string
		for i := range n {
			line := fmt.Sprintf("line %d", i)
			end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
			raw.WriteString(line + end)
			if rapid.IntRange(0, 5).Draw(t, "change") == 0 {
				line = "changed"
			}
			content.WriteString(line + "\n")
			want = append(want, line+end)
		}
		r := apply(t, raw.String(), Edit{Content: new(content.String())})
		if got := string(r.After.Raw()); got != strings.Join(want, "") {
			t.Fatalf("got %q, want %q", got, strings.Join(want, ""))
		}
	})
}

// TestManyReplacements: several replacements, each known by a number, are those of a simultaneous one, and CRLF stays.
func TestManyReplacements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 60).Draw(t, "words")
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
		var raw, want strings.Builder
		var edit Edit
		for _, i := range rapid.Permutation(slices.Collect(seq(n))).Draw(t, "order") {
			word := fmt.Sprintf("<%d>", i)
			raw.WriteString(word)
			if rapid.Bool().Draw(t, "replaced") {
				edit.Replacements = append(edit.Replacements, Replacement{word, fmt.Sprintf("<%d>\n", i+1), 1})
				word = fmt.Sprintf("<%d>%s", i+1, end)
			}
			want.WriteString(word)
			raw.WriteString(end)
			want.WriteString(end)
		}
		if len(edit.Replacements) == 0 {
			return
		}
		edit.Replacements = rapid.Permutation(edit.Replacements).Draw(t, "given")
		if got := string(apply(t, raw.String(), edit).After.Raw()); got != want.String() {
			t.Fatalf("got %q, want %q", got, want.String())
		}
	})
}

func seq(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// TestRT50Copied: every piece of what is read can be replaced by itself, which changes nothing.
func TestRT50Copied(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Parse(files().Draw(t, "file"))
		w, err := f.LineWindow(rapid.IntRange(1, max(f.Lines, 1)).Draw(t, "line"), rapid.IntRange(1, 5).Draw(t, "lines"), 1000)
		if err != nil || w.Text == "" {
			return
		}
		r, err := f.Apply(replacing(w.Text, w.Text, 0))
		if err != nil || !r.Unchanged {
			t.Fatalf("%q: %v", w.Text, err)
		}
	})
}

// TestOccurrences compares with looking at every place.
func TestOccurrences(t *testing.T) {
	letters := func(bits, n int) string {
		text := make([]byte, n)
		for i := range text {
			text[i] = 'a' + byte(bits>>i&1)
		}
		return string(text)
	}
	for n := 1; n <= 7; n++ {
		for bits := range 1 << n {
			old := letters(bits, n)
			text := old + old + letters(0x5a6b3c1d2e9f7, 51) + old[:n-1] + old + old[1:]
			var want, got []int
			for i := range text {
				if strings.HasPrefix(text[i:], old) {
					want = append(want, i)
				}
			}
			for m := newMatcher([]byte(text), old); ; {
				i := m.next()
				if i < 0 {
					break
				}
				got = append(got, i)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%q in %q: %v, want %v", old, text, got, want)
			}
			if at, found := occurrences([]byte(text), old, 0); found != len(want) || len(at) != strings.Count(text, old) {
				t.Fatalf("%q in %q: %v of %d", old, text, at, found)
			}
		}
	}
}

func FuzzApply(f *testing.F) {
	f.Add([]byte("a\r\nb\nc"), "b", "x\r\ny", 1, 1, uint8(0))
	f.Add([]byte(bomUTF8+"a\rb\r"), "a\nb", "x\n", 1, 2, uint8(1))
	f.Add([]byte("\xff\xfea\x00\r\x00\n\x00"), "a", "😀", 2, 1, uint8(2))
	f.Add([]byte("\xfe\xff\x00a"), "a", "\ufeffx\x00", 0, 0, uint8(3))
	f.Fuzz(func(t *testing.T, raw []byte, old, text string, from, to int, kind uint8) {
		file, kept := Parse(raw), bytes.Clone(raw)
		edit := replacing(old, text, from)
		switch kind % 4 {
		case 1:
			edit = lines(from, to, text)
		case 2:
			edit = Edit{Append: &text}
		case 3:
			edit = Edit{Content: &text}
		}
		r, err := file.Apply(edit)
		if !bytes.Equal(raw, kept) {
			t.Fatal("the file before is changed")
		}
		if err != nil {
			if c := code(err); strings.HasPrefix(c, "other") {
				t.Fatal(err)
			}
			return
		}
		if r.After.Encoding != file.Encoding || file.BOM && !r.After.BOM {
			t.Fatalf("%s %v became %s %v", file.Encoding, file.BOM, r.After.Encoding, r.After.BOM)
		}
		if r.Unchanged != bytes.Equal(raw, r.After.Raw()) {
			t.Fatal("unchanged is wrong")
		}
		patched(t, file, r.After, r)
	})
}

func TestEditsAreLinear(t *testing.T) {
	const size = MaxEditSize / 4
	one := strings.Repeat("some words of a line\n", size/21)
	mixed := strings.Repeat("some words of a line\r\nand\n", size/26)
	long := strings.Repeat("x", size)
	half := func(n int) string { return strings.Repeat("ab", n/4) }
	for name, c := range map[string]struct {
		raw  string
		edit func(size int) Edit
	}{
		"every line":           {one, func(int) Edit { return replacing("words", "word", 0) }},
		"every line, crlf":     {strings.ReplaceAll(one, "\n", "\r\n")[:size], func(int) Edit { return replacing("words", "word\n", 0) }},
		"every line, mixed":    {mixed, func(int) Edit { return replacing("words", "wor\nds", 0) }},
		"one long line":        {long + "\n", func(int) Edit { return replacing("x", "y", 0) }},
		"long line, mixed":     {"a\r\nb\n" + long, func(int) Edit { return replacing("x", "\n", 0) }},
		"far too many":         {long, func(int) Edit { return replacing("x", "y", 1) }},
		"periodic":             {long, func(size int) Edit { return replacing(long[:size/2], "y", 0) }},
		"periodic, too many":   {half(2 * size), func(size int) Edit { return replacing(half(size), "y", 1) }},
		"not there":            {one, func(int) Edit { return replacing("some word of the line", "y", 1) }},
		"not there, equal":     {strings.Repeat("}\n", size/2), func(int) Edit { return replacing("}\n}\nx\n}\n", "y", 1) }},
		"content, mixed":       {mixed, func(size int) Edit { return Edit{Content: new(one[:min(size, len(one))])} }},
		"content, other lines": {one, func(size int) Edit { return Edit{Content: new(strings.Repeat("}\n", size/2))} }},
		"append":               {one, func(int) Edit { return Edit{Append: new("x")} }},
		"range":                {one, func(size int) Edit { return lines(size/30, size/25, "x") }},
	} {
		t.Run(name, func(t *testing.T) {
			checkLinear(t, size, func(size int) {
				f := Parse([]byte(c.raw[:min(size, len(c.raw))]))
				r, err := f.Apply(c.edit(size))
				if err == nil {
					_ = Diff("a", "b", f, r.After)
				}
			})
		})
	}
}
