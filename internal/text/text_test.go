package text

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// store is text as a file of the encoding has it, with a byte order mark where it needs one or wants one.
func store(text string, encoding Encoding, bom bool) []byte {
	f := &Facts{Encoding: encoding, BOM: bom || encoding != UTF8}
	return appendText([]byte(f.bom()), text, encoding)
}

// cell is one character of a file: its text, \n for a line end, and its bytes. The mark is a cell without text.
type cell struct{ text, raw string }

// cells is the definition of characters and lines, spelled out: what the package does must agree with it.
func cells(raw []byte) (all []cell, encoding Encoding) {
	encoding, bom := UTF8, ""
	for mark, e := range map[string]Encoding{bomUTF8: UTF8, bomUTF16LE: UTF16LE, bomUTF16BE: UTF16BE} {
		if bytes.HasPrefix(raw, []byte(mark)) {
			encoding, bom = e, mark
			all = append(all, cell{"", mark})
		}
	}
	chars := make([]cell, 0, len(raw))
	for b := raw[len(bom):]; len(b) > 0; {
		r, size := utf8.DecodeRune(b)
		if encoding != UTF8 {
			if len(b) < 2 {
				return nil, Binary
			}
			r, size = unit(b, encoding), 2
			if utf16.IsSurrogate(r) {
				if len(b) < 4 {
					return nil, Binary
				}
				r, size = utf16.DecodeRune(r, unit(b[2:], encoding)), 4
				if r == utf8.RuneError {
					return nil, Binary
				}
			}
		} else if r == utf8.RuneError && size == 1 {
			return nil, Binary
		}
		if r == 0 && len(raw)-len(b) < nulWindow {
			return nil, Binary
		}
		chars, b = append(chars, cell{string(r), string(b[:size])}), b[size:]
	}
	lf := false
	for _, c := range chars {
		lf = lf || c.text == "\n"
	}
	for i := 0; i < len(chars); i++ {
		switch c := chars[i]; {
		case c.text == "\r" && lf && i+1 < len(chars) && chars[i+1].text == "\n":
			all = append(all, cell{"\n", c.raw + chars[i+1].raw})
			i++
		case c.text == "\r" && !lf:
			all = append(all, cell{"\n", c.raw})
		default:
			all = append(all, c)
		}
	}
	return all, encoding
}

func textOf(all []cell) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(c.text)
	}
	return b.String()
}

func rawOf(all []cell) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(c.raw)
	}
	return b.String()
}

// factsOf is Facts by counting cells.
func factsOf(raw []byte) Facts {
	all, encoding := cells(raw)
	f := Facts{Size: int64(len(raw)), Encoding: encoding, EOL: EOL{Style: StyleNone}}
	if encoding == Binary {
		return f
	}
	f.BOM = len(all) > 0 && all[0].text == ""
	lf, crlf, cr := 0, 0, 0
	for _, c := range all {
		switch {
		case c.text != "\n":
		case len(c.raw) == 2*int((&Index{Facts: f}).width()):
			crlf++
		case strings.Contains(c.raw, "\r"):
			cr++
		default:
			lf++
		}
	}
	f.EOL = newEOL(lf, crlf, cr)
	text := textOf(all)
	f.FinalNewline = strings.HasSuffix(text, "\n")
	f.Lines = strings.Count(text, "\n")
	if text != "" && !f.FinalNewline {
		f.Lines++
	}
	return f
}

// files draws files of all encodings, line ends and lengths of line.
func files() *rapid.Generator[[]byte] {
	return rapid.Custom(func(t *rapid.T) []byte {
		atoms := []string{"a", "b", " ", "é", "世", "😀", "\t", "\n", "\r\n", "\r", "word", "\ufeff", "\x01"}
		switch rapid.SampledFrom([]Style{StyleNone, StyleLF, StyleCRLF, StyleCR, StyleMixed, "any"}).Draw(t, "style") {
		case StyleNone:
			atoms = []string{"a", "é", "世", "😀", "xyz"}
		case StyleLF:
			atoms = []string{"a", "é", "世", "😀", "\n", "xyz"}
		case StyleCRLF:
			atoms = []string{"a", "é", "世", "😀", "\r\n", "xyz"}
		case StyleCR:
			atoms = []string{"a", "é", "世", "😀", "\r", "xyz"}
		case StyleMixed:
			atoms = []string{"a", "é", "世", "😀", "\n", "\r\n", "xyz"}
		}
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(atoms), 0, 60).Draw(t, "atoms"), "")
		if rapid.Bool().Draw(t, "long") {
			long := strings.Repeat(rapid.SampledFrom(atoms).Draw(t, "atom"), rapid.IntRange(1, 300).Draw(t, "times"))
			at := rapid.IntRange(0, len(text)).Draw(t, "at")
			for !utf8.ValidString(text[:at]) {
				at--
			}
			text = text[:at] + long + text[at:]
		}
		encoding := rapid.SampledFrom([]Encoding{UTF8, UTF8, UTF8, UTF16LE, UTF16BE}).Draw(t, "encoding")
		return store(text, encoding, rapid.Bool().Draw(t, "bom"))
	})
}

func code(err error) string {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Code
	}
	if err != nil {
		return "other error: " + err.Error()
	}
	return ""
}

func details(err error) map[string]any {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Details
	}
	return nil
}

// checkLinear fails when 16 times as much takes more than 64 times as long; a square would be 256 times.
func checkLinear(t *testing.T, size int, run func(size int)) {
	t.Helper()
	if raceOn {
		size /= 16 // enough to run it once
	}
	measure := func(size, times int) time.Duration {
		began := cpuTime(t)
		for range times {
			run(size)
		}
		return (cpuTime(t) - began) / time.Duration(times)
	}
	small, large := measure(size/16, 16), measure(size, 1)
	for range 10 {
		if large <= 64*max(small, time.Millisecond/4) {
			t.Logf("%v for a sixteenth, %v for %d", small, large, size)
			return
		}
		small, large = measure(size/16, 16), min(large, measure(size, 1))
	}
	t.Errorf("%v for %d, %v for a sixteenth of it", large, size, small)
}

func TestFacts(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want Facts
	}{
		"empty":            {"", Facts{Encoding: UTF8, EOL: EOL{Style: StyleNone}}},
		"mark only":        {bomUTF8, Facts{Encoding: UTF8, BOM: true, EOL: EOL{Style: StyleNone}}},
		"no line end":      {"a", Facts{Encoding: UTF8, EOL: EOL{Style: StyleNone}, Lines: 1}},
		"lf":               {"a\nb\n", Facts{Encoding: UTF8, EOL: EOL{StyleLF, 2, 0, 0}, FinalNewline: true, Lines: 2}},
		"crlf, open":       {"a\r\nb", Facts{Encoding: UTF8, EOL: EOL{StyleCRLF, 0, 1, 0}, Lines: 2}},
		"cr":               {"a\rb\r", Facts{Encoding: UTF8, EOL: EOL{StyleCR, 0, 0, 2}, FinalNewline: true, Lines: 2}},
		"mixed":            {"a\r\nb\nc\rd", Facts{Encoding: UTF8, EOL: EOL{StyleMixed, 1, 1, 0}, Lines: 3}},
		"cr at the end":    {"a\nb\r", Facts{Encoding: UTF8, EOL: EOL{StyleLF, 1, 0, 0}, Lines: 2}},
		"utf-16le":         {"\xff\xfea\x00\r\x00\n\x00", Facts{Encoding: UTF16LE, BOM: true, EOL: EOL{StyleCRLF, 0, 1, 0}, FinalNewline: true, Lines: 1}},
		"utf-16be":         {"\xfe\xff\x00a\x00\r\x00b", Facts{Encoding: UTF16BE, BOM: true, EOL: EOL{StyleCR, 0, 0, 1}, Lines: 2}},
		"utf-16, half":     {"\xff\xfea", Facts{Encoding: Binary, EOL: EOL{Style: StyleNone}}},
		"utf-16, one half": {"\xff\xfe\x3d\xd8a\x00", Facts{Encoding: Binary, EOL: EOL{Style: StyleNone}}},
		"utf-32":           {"\xff\xfe\x00\x00a\x00\x00\x00", Facts{Encoding: Binary, EOL: EOL{Style: StyleNone}}},
		"latin-1":          {"gr\xfc\xdfe\n", Facts{Encoding: Binary, EOL: EOL{Style: StyleNone}}},
		"nul":              {"a\x00b\n", Facts{Encoding: Binary, EOL: EOL{Style: StyleNone}}},
	} {
		c.want.Size = int64(len(c.raw))
		if diff := cmp.Diff(c.want, Parse([]byte(c.raw)).Facts); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	late := strings.Repeat("x", nulWindow) + "\x00"
	if got := Parse([]byte(late)).Encoding; got != UTF8 {
		t.Errorf("a NUL behind the first 8 KiB makes the file %s", got)
	}
}

// TestFactsProperty compares with the spelled out definition, in one piece and in pieces, also where blocks meet.
func TestFactsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := files().Draw(t, "file")
		if rapid.IntRange(0, 4).Draw(t, "large") == 4 {
			fill := rapid.SampledFrom([]string{"a", "a\r\n", "a\r", "世", "ab\n", "\r\n"}).Draw(t, "fill")
			n := blockSize/len(fill) + rapid.IntRange(-20, 0).Draw(t, "short")
			head := store(strings.Repeat(fill, n), factsOf(raw).Encoding, false)
			raw = append(head, raw...)
		}
		if rapid.Bool().Draw(t, "broken") && len(raw) > 0 {
			raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		f := Parse(raw)
		if diff := cmp.Diff(factsOf(raw), f.Facts); diff != "" {
			t.Fatal(diff)
		}
		all, _ := cells(raw)
		if got, want := string(f.Text()), textOf(all); got != want {
			t.Fatalf("text %q, want %q", got, want)
		}
		var s Scanner
		for i, rest := 0, raw; len(rest) > 0; i++ {
			n := len(rest)
			if i < 8 {
				n = rapid.IntRange(1, n).Draw(t, "piece")
			}
			if _, err := s.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		x := s.Index()
		if diff := cmp.Diff(f.Facts, x.Facts); diff != "" {
			t.Fatal(diff)
		}
		checkMarks(t, all, slices.Concat(x.marks, f.marks))
	})
}

// checkMarks wants every mark at the beginning of a line, with the line ends before it.
func checkMarks(t rapid.TB, all []cell, marks []mark) {
	t.Helper()
	known, at := map[mark]bool{}, mark{}
	for _, c := range all {
		if at.offset += int64(len(c.raw)); c.text == "\n" {
			at.ends++
			known[at] = true
		}
	}
	for _, m := range marks {
		if !known[m] {
			t.Fatalf("%+v is no beginning of a line", m)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a\r\nb\rc\n", bomUTF8 + "é", "\xff\xfea\x00\n\x00", "\xfe\xff\xd8\x3d\xde\x00", "\xff\xfe\x00", "a\x00"} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, raw []byte, piece int) {
		file := Parse(raw)
		if diff := cmp.Diff(factsOf(raw), file.Facts); diff != "" {
			t.Fatal(diff)
		}
		all, _ := cells(raw)
		if got, want := string(file.Text()), textOf(all); got != want {
			t.Fatalf("text %q, want %q", got, want)
		}
		var s Scanner
		for rest := raw; len(rest) > 0; {
			n := min(len(rest), max(piece, 1))
			_, _ = s.Write(rest[:n])
			rest = rest[n:]
		}
		if s.Index().Facts != file.Facts {
			t.Fatal("other facts in pieces")
		}
	})
}

func TestParsesAreLinear(t *testing.T) {
	for name, line := range map[string]string{"lf": "some words of a line\n", "crlf": "ab\r\n", "cr": "a\r", "wide": "世界\n"} {
		for _, encoding := range []Encoding{UTF8, UTF16LE} {
			t.Run(name+" "+string(encoding), func(t *testing.T) {
				raw := store(strings.Repeat(line, MaxEditSize/len(line)), encoding, false)
				checkLinear(t, MaxEditSize, func(size int) { Parse(raw[:size]) })
			})
		}
	}
}

func TestEncodingOf(t *testing.T) {
	for _, raw := range []string{
		"", "a\n", "\xef\xbb\xbfa", "\xef\xbb\xbf\xff", "\xe4", "\x00", strings.Repeat("a", nulWindow) + "\x00", strings.Repeat("a", nulWindow-1) + "\x00",
		"\xff\xfea\x00", "\xff\xfea", "\xfe\xff\x00a", "\xff\xfe\x00\xd8", "\xff\xfe\x00\x00", strings.Repeat("ä", blockSize), strings.Repeat("ä", blockSize) + "\xc3",
	} {
		if got, want := EncodingOf([]byte(raw)), Parse([]byte(raw)).Encoding; got != want {
			t.Errorf("%.20q of %d bytes is %s, want %s", raw, len(raw), got, want)
		}
	}
}
