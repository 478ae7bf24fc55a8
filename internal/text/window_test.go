package text

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// LineWindow is Index.LineWindow of the file in memory.
func (f *File) LineWindow(from, count, budget int) (*Window, error) {
	return f.Index.LineWindow(bytes.NewReader(f.raw), from, count, budget)
}

// ByteWindow is Index.ByteWindow of the file in memory.
func (f *File) ByteWindow(from int64, count, budget int) (*Window, error) {
	return f.Index.ByteWindow(bytes.NewReader(f.raw), from, count, budget)
}

// RawWindow is RawWindow of the file in memory.
func (f *File) RawWindow(from int64, count, budget int) (*Window, error) {
	return RawWindow(bytes.NewReader(f.raw), f.Size, from, count, budget)
}

func lineWindow(t *testing.T, raw string, from, count, budget int) *Window {
	t.Helper()
	w, err := Parse([]byte(raw)).LineWindow(from, count, budget)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestLineWindows(t *testing.T) {
	for name, c := range map[string]struct {
		raw                 string
		from, count, budget int
		want                Window
	}{
		"RT-31 from line 1":   {"a\nb\n", 1, 400, 16000, Window{FromLine: 1, ToLine: 2, ToByte: 3, Text: "a\nb\n"}},
		"empty":               {"", 1, 400, 16000, Window{FromLine: 1, ToByte: -1}},
		"mark only":           {bomUTF8, 1, 400, 16000, Window{FromLine: 1, ToByte: 2}},
		"RT-33 crlf":          {"a\r\nb\r\n", 1, 1, 9, Window{FromLine: 1, ToLine: 1, ToByte: 2, Text: "a\n", More: true, Next: &Next{FromLine: 2}}},
		"middle":              {"a\nb\nc\nd", 2, 2, 9, Window{FromLine: 2, ToLine: 3, FromByte: 2, ToByte: 5, Text: "b\nc\n", More: true, Next: &Next{FromLine: 4}}},
		"to an open end":      {"a\nb", 1, 9, 9, Window{FromLine: 1, ToLine: 2, ToByte: 2, Text: "a\nb"}},
		"no final newline":    {"a\nb", 2, 9, 9, Window{FromLine: 2, ToLine: 2, FromByte: 2, ToByte: 2, Text: "b"}},
		"budget, whole lines": {"a\nbcd\ne\n", 1, 9, 4, Window{FromLine: 1, ToLine: 1, ToByte: 1, Text: "a\n", More: true, Next: &Next{FromLine: 2}}},
		"budget, long line":   {"abé\nc", 1, 9, 3, Window{FromLine: 1, ToLine: 1, ToByte: 1, Text: "ab", LineContinues: true, More: true, Next: &Next{FromByte: 2, Bytes: 3}}},
		"less than one":       {"é\n", 1, 9, 1, Window{FromLine: 1, ToLine: 1, ToByte: 1, Text: "é", LineContinues: true, More: true, Next: &Next{FromByte: 2, Bytes: 1}}},
		"RT-35 cr in lf":      {"a\rb\nc", 1, 1, 9, Window{FromLine: 1, ToLine: 1, ToByte: 3, Text: "a\rb\n", More: true, Next: &Next{FromLine: 2}}},
		"RT-35 cr alone":      {"a\rb", 2, 1, 9, Window{FromLine: 2, ToLine: 2, FromByte: 2, ToByte: 2, Text: "b"}},
		"utf-16":              {"\xff\xfea\x00\r\x00\n\x00b\x00", 1, 9, 2, Window{FromLine: 1, ToLine: 1, ToByte: 7, Text: "a\n", More: true, Next: &Next{FromLine: 2}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(&c.want, lineWindow(t, c.raw, c.from, c.count, c.budget)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestByteWindows(t *testing.T) {
	for name, c := range map[string]struct {
		raw           string
		from          int64
		count, budget int
		want          Window
	}{
		"to the end":        {"a\nb\n", 1, 9, 9, Window{FromLine: 1, ToLine: 2, FromByte: 1, ToByte: 3, Text: "\nb\n"}},
		"ends with a line":  {"a\nb\n", 0, 2, 9, Window{FromLine: 1, ToLine: 1, ToByte: 1, Text: "a\n", More: true, Next: &Next{FromLine: 2}}},
		"within a line":     {"abc\nd", 1, 1, 9, Window{FromLine: 1, ToLine: 1, FromByte: 1, ToByte: 1, Text: "b", LineContinues: true, More: true, Next: &Next{FromByte: 2, Bytes: 2}}},
		"within characters": {"éé世", 1, 5, 9, Window{FromLine: 1, ToLine: 1, ToByte: 3, Text: "éé", LineContinues: true, More: true, Next: &Next{FromByte: 4, Bytes: 3}}},
		"within cr lf":      {"a\r\nb", 2, 1, 9, Window{FromLine: 1, ToLine: 1, FromByte: 1, ToByte: 2, Text: "\n", More: true, Next: &Next{FromLine: 2}}},
		"before lf":         {"a\r\nb", 0, 2, 9, Window{FromLine: 1, ToLine: 1, ToByte: 0, Text: "a", LineContinues: true, More: true, Next: &Next{FromByte: 1, Bytes: 2}}},
		"within the mark":   {bomUTF8 + "ab", 1, 3, 9, Window{FromLine: 1, ToLine: 1, ToByte: 3, Text: "a", LineContinues: true, More: true, Next: &Next{FromByte: 4, Bytes: 1}}},
		"half a pair":       {"\xff\xfe\x3d\xd8\x00\xde", 5, 9, 9, Window{FromLine: 1, ToLine: 1, FromByte: 2, ToByte: 5, Text: "😀"}},
		"empty":             {"", 0, 9, 9, Window{FromLine: 1, ToByte: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(c.raw)).ByteWindow(c.from, c.count, c.budget)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWindowProblems(t *testing.T) {
	file, binary := Parse([]byte("a\nb\n")), Parse([]byte("a\x00"))
	for name, c := range map[string]struct {
		run  func() (*Window, error)
		code string
		want map[string]any
	}{
		"line behind the end": {func() (*Window, error) { return file.LineWindow(3, 1, 9) }, CodeRange, map[string]any{"lines_total": 2}},
		"line 0":              {func() (*Window, error) { return file.LineWindow(0, 1, 9) }, CodeRange, map[string]any{"lines_total": 2}},
		"no lines":            {func() (*Window, error) { return file.LineWindow(1, 0, 9) }, CodeRange, map[string]any{"lines_total": 2}},
		"byte behind the end": {func() (*Window, error) { return file.ByteWindow(4, 1, 9) }, CodeRange, map[string]any{"size": int64(4)}},
		"raw behind the end":  {func() (*Window, error) { return file.RawWindow(4, 1, 9) }, CodeRange, map[string]any{"size": int64(4)}},
		"byte -1":             {func() (*Window, error) { return file.ByteWindow(-1, 1, 9) }, CodeRange, map[string]any{"size": int64(4)}},
		"nothing left":        {func() (*Window, error) { return file.LineWindow(2, 1, 0) }, CodeBudget, map[string]any{"next": map[string]any{"from_line": 2}}},
		"nothing left, bytes": {func() (*Window, error) { return file.ByteWindow(2, 7, 0) }, CodeBudget, map[string]any{"next": map[string]any{"from_byte": int64(2), "bytes": 7}}},
		"nothing left, raw":   {func() (*Window, error) { return file.RawWindow(2, 7, 0) }, CodeBudget, map[string]any{"next": map[string]any{"from_byte": int64(2), "bytes": 7}}},
		"RT-38 binary":        {func() (*Window, error) { return binary.LineWindow(1, 1, 9) }, CodeEncoding, map[string]any{"encoding": Binary}},
		"RT-38 binary, bytes": {func() (*Window, error) { return binary.ByteWindow(0, 1, 9) }, CodeEncoding, map[string]any{"encoding": Binary}},
	} {
		_, err := c.run()
		if code(err) != c.code {
			t.Errorf("%s: %v, want %s", name, err, c.code)
		}
		if diff := cmp.Diff(c.want, details(err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// shrunk is a file that became shorter after it was looked at.
type shrunk struct{}

func (shrunk) ReadAt([]byte, int64) (int, error) { return 0, io.EOF }

func TestFileThatChanges(t *testing.T) {
	x := Parse([]byte(strings.Repeat("line\n", blockSize))).Index
	if _, err := x.LineWindow(shrunk{}, 100, 1, 100); !errors.Is(err, errChanged) {
		t.Errorf("lines: %v", err)
	}
	if _, err := x.ByteWindow(shrunk{}, 100000, 1, 100); !errors.Is(err, errChanged) {
		t.Errorf("bytes: %v", err)
	}
}

// follow reads a file from a window on to its end as a client does: with what the window says is next, and other budgets.
func follow(t rapid.TB, f *File, w *Window, err error, budget func() int) string {
	var text strings.Builder
	line := 1 // in which the window begins
	for end := int64(0); ; {
		if err != nil {
			t.Fatal(err)
		}
		if w.FromByte != end || w.ToByte < w.FromByte && f.Size > 0 {
			t.Fatalf("bytes %d to %d after %d", w.FromByte, w.ToByte, end)
		}
		end = w.ToByte + 1
		text.WriteString(w.Text)
		last := line + strings.Count(strings.TrimSuffix(w.Text, "\n"), "\n")
		if w.FromLine != line || w.ToLine != last && text.Len() > 0 {
			t.Fatalf("lines %d to %d, want %d to %d", w.FromLine, w.ToLine, line, last)
		}
		line += strings.Count(w.Text, "\n")
		if w.LineContinues != (w.More && (w.Text == "" || !strings.HasSuffix(w.Text, "\n"))) {
			t.Fatalf("line_continues %v after %q", w.LineContinues, w.Text)
		}
		switch {
		case !w.More:
			return text.String()
		case w.Next.FromLine > 0:
			w, err = f.LineWindow(w.Next.FromLine, 400, budget())
		default:
			w, err = f.ByteWindow(w.Next.FromByte, w.Next.Bytes, budget())
		}
	}
}

// TestRT32ReadProperty: following the continuations gives the decoded text exactly once.
func TestRT32ReadProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := files().Draw(t, "file")
		f := Parse(raw)
		all, _ := cells(raw)
		budgets := rapid.IntRange(1, rapid.SampledFrom([]int{1, 2, 5, 20, 500}).Draw(t, "most"))
		budget := func() int { return budgets.Draw(t, "budget") }
		var w *Window
		var err error
		if rapid.Bool().Draw(t, "by lines") {
			w, err = f.LineWindow(1, rapid.IntRange(1, 30).Draw(t, "lines"), budget())
		} else {
			w, err = f.ByteWindow(0, rapid.IntRange(1, 30).Draw(t, "bytes"), budget())
		}
		if got, want := follow(t, f, w, err, budget), textOf(all); got != want {
			t.Fatalf("read %q, want %q", got, want)
		}
	})
}

// TestAdjacentWindows: windows of bytes that meet give every character once, wherever they are cut, when none is smaller
// than a character.
func TestAdjacentWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := files().Filter(func(raw []byte) bool { return len(raw) > 0 }).Draw(t, "file")
		f, text := Parse(raw), ""
		for at := int64(0); at < f.Size; {
			n := rapid.IntRange(8, 40).Draw(t, "bytes")
			w, err := f.ByteWindow(at, n, 1000)
			if err != nil {
				t.Fatal(err)
			}
			text, at = text+w.Text, at+int64(n)
		}
		if want := string(f.Text()); text != want {
			t.Fatalf("read %q, want %q", text, want)
		}
	})
}

// TestRT38RawWindows: any file is reproduced byte for byte, and no window is larger than its budget in base64.
func TestRT38RawWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "file")
		f, budget := Parse(raw), rapid.IntRange(1, 40).Draw(t, "budget")
		var got []byte
		w, err := f.RawWindow(0, rapid.IntRange(1, 40).Draw(t, "bytes"), budget)
		for err == nil {
			if (len(w.Raw)+2)/3*4 > max(budget, 4) {
				t.Fatalf("%d bytes for a budget of %d", len(w.Raw), budget)
			}
			if got = append(got, w.Raw...); !w.More {
				break
			}
			w, err = f.RawWindow(w.Next.FromByte, w.Next.Bytes, budget)
		}
		if err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%q %v, want %q", got, err, raw)
		}
	})
}

// TestLargeFile finds windows of a file by its marks, and agrees with counting.
func TestLargeFile(t *testing.T) {
	for name, line := range map[string]string{"lf": "世界 and the rest of a line\n", "crlf": "some words\r\n", "cr": "some words\r", "mixed": "a\r\nb\rb\n"} {
		for _, encoding := range []Encoding{UTF8, UTF16BE} {
			raw := store(strings.Repeat(line, 5*blockSize/len(line)), encoding, true)
			f := Parse(raw)
			lines := strings.SplitAfter(string(f.Text()), "\n")
			for from := 1; from < f.Lines; from += 997 {
				w, err := f.LineWindow(from, 3, 1000)
				if err != nil {
					t.Fatal(err)
				}
				if want := strings.Join(lines[from-1:min(from+2, len(lines))], ""); w.Text != want {
					t.Errorf("%s %s: line %d is %q, want %q", name, encoding, from, w.Text, want)
				}
				if v, err := f.ByteWindow(w.FromByte, 20, 1000); err != nil || v.FromLine != from || v.FromByte != w.FromByte {
					t.Errorf("%s %s: byte %d is in line %d, want %d: %v", name, encoding, w.FromByte, v.FromLine, from, err)
				}
			}
			if got := len(f.marks); got > 8*len(raw)/blockSize {
				t.Errorf("%s %s: %d marks for %d bytes", name, encoding, got, len(raw))
			}
		}
	}
}

func FuzzWindows(f *testing.F) {
	for _, seed := range []string{"", "a\r\nb\rc\n", bomUTF8 + "é\n", "\xff\xfea\x00\r\x00\n\x00", "\xfe\xff\xd8\x3d\xde\x00\x00\r", "a\rb"} {
		f.Add([]byte(seed), 1, 3, int64(2), 2)
	}
	f.Fuzz(func(t *testing.T, raw []byte, line, budget int, at int64, count int) {
		file := Parse(raw)
		if w, err := file.LineWindow(line, count, budget); err == nil && len(w.Text) > max(budget, 4) {
			t.Fatalf("%d bytes for a budget of %d", len(w.Text), budget)
		}
		if w, err := file.ByteWindow(at, count, budget); err == nil && (w.FromByte > at || at-w.FromByte > 3) {
			t.Fatalf("asked for byte %d, got %d", at, w.FromByte)
		}
		if file.Encoding == Binary {
			return
		}
		w, err := file.LineWindow(1, max(count, 1), max(budget, 1))
		if got, want := follow(t, file, w, err, func() int { return max(budget, 1) }), string(file.Text()); got != want {
			t.Fatalf("read %q, want %q", got, want)
		}
	})
}

// TestWindowsAreFast: a window of a large file costs its own size, wherever it lies.
func TestWindowsAreFast(t *testing.T) {
	raw := []byte(strings.Repeat("some words of a line\n", MaxEditSize/21))
	checkLinear(t, MaxEditSize, func(size int) {
		f := Parse(raw[:size])
		for range 100 {
			if _, err := f.LineWindow(f.Lines-10, 400, 16000); err != nil {
				t.Fatal(err)
			}
		}
	})
}
