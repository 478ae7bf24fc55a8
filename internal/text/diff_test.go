package text

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDiff(t *testing.T) {
	ten := "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n"
	for name, c := range map[string]struct{ before, after, want string }{
		"equal":            {ten, ten, ""},
		"one line":         {ten, strings.Replace(ten, "5\n", "x\n", 1), "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"},
		"first":            {ten, "x\n" + ten, "@@ -1,3 +1,4 @@\n+x\n 1\n 2\n 3\n"},
		"last":             {ten, ten + "x\n", "@@ -8,3 +8,4 @@\n 8\n 9\n 10\n+x\n"},
		"two hunks":        {ten, "x" + ten[:len(ten)-1] + "x\n", "@@ -1,4 +1,4 @@\n-1\n+x1\n 2\n 3\n 4\n@@ -7,4 +7,4 @@\n 7\n 8\n 9\n-10\n+10x\n"},
		"one hunk":         {ten, strings.Replace(strings.Replace(ten, "2\n", "", 1), "9\n", "", 1), "@@ -1,10 +1,8 @@\n 1\n-2\n 3\n 4\n 5\n 6\n 7\n 8\n-9\n 10\n"},
		"created":          {"", "a\n", "@@ -0,0 +1 @@\n+a\n"},
		"emptied":          {"a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n"},
		"no final newline": {"a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		"crlf":             {"a\r\nb\r\n", "a\r\nc\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		"cr":               {"a\rb\r", "a\rc\r", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		"only ends":        {"a\r\nb\r\n", "a\nb\r\n", "@@ -1,2 +1,2 @@\n-a\r\n+a\n b\r\n"},
		"cr to lf":         {"a\r", "a\n", "@@ -1 +1 @@\n-a\r\n+a\n"},
		"utf-16":           {"\xff\xfea\x00\n\x00", "\xff\xfeb\x00\n\x00", "@@ -1 +1 @@\n-a\n+b\n"},
	} {
		want := c.want
		if want != "" {
			want = "--- a/x\n+++ b/x\n" + want
		}
		if got := Diff("a/x", "b/x", Parse([]byte(c.before)), Parse([]byte(c.after))); got != want {
			t.Errorf("%s:\n%s\nwant:\n%s", name, got, want)
		}
	}
	if got := Diff("a", "b", Parse([]byte{0}), Parse([]byte("x"))); got != "Binary files a and b differ\n" {
		t.Errorf("binary: %s", got)
	}
	if got := Diff("a", "b", Parse([]byte{0}), Parse([]byte{0})); got != "" {
		t.Errorf("equal binary: %s", got)
	}
}

// patched applies the diff of two files to the first one by reading it as patch does, and counts its lines.
func patched(t rapid.TB, before, after *File, r *Result) {
	t.Helper()
	d := compareFiles(before, after)
	text, want := d.before.text, d.after.text
	diff := Diff("a", "b", before, after)
	if (diff == "") != (text == want) {
		t.Fatalf("%q to %q is %q", text, want, diff)
	}
	old := strings.SplitAfter(text, "\n")
	var got strings.Builder
	at, added, removed := 0, 0, 0
	hunk := strings.SplitAfter(diff, "\n")
	for i, line := range hunk {
		if i < 2 || line == "" || line[0] == '\\' {
			continue
		}
		body := line[1:]
		if i+1 < len(hunk) && strings.HasPrefix(hunk[i+1], "\\") {
			body = strings.TrimSuffix(body, "\n")
		}
		switch line[0] {
		case '@':
			var from, n int
			if _, err := fmt.Sscanf(line, "@@ -%d,%d", &from, &n); err != nil {
				n = 1
			}
			if n > 0 {
				from--
			}
			for ; at < from; at++ {
				got.WriteString(old[at])
			}
		case '+':
			added++
			got.WriteString(body)
		case '-', ' ':
			if old[at] != body {
				t.Fatalf("line %d of the diff is %q, the file has %q", i, line, old[at])
			}
			if at++; line[0] == ' ' {
				got.WriteString(body)
			} else {
				removed++
			}
		}
	}
	for ; at < len(old); at++ {
		got.WriteString(old[at])
	}
	if got.String() != want {
		t.Fatalf("the diff gives %q, want %q:\n%s", got.String(), want, diff)
	}
	if r != nil && (added != r.Added || removed != r.Removed) {
		t.Fatalf("counted +%d -%d, the diff has +%d -%d", r.Added, r.Removed, added, removed)
	}
}

// TestDiffProperty: a diff, read as patch reads it, makes the one file of the other.
func TestDiffProperty(t *testing.T) {
	words := rapid.SampledFrom([]string{"a\n", "b\n", "c\n", "d\n", "e\r\n", "f\n", "g\n", "unique\n", "x"})
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most int) string {
			return strings.Join(rapid.SliceOfN(words, 0, most).Draw(t, name), "")
		}
		most := rapid.SampledFrom([]int{5, 20, 400}).Draw(t, "most")
		head, tail := draw("head", 20), draw("tail", 20)
		patched(t, Parse([]byte(head+draw("before", most)+tail)), Parse([]byte(head+draw("after", most)+tail)), nil)
	})
	rapid.Check(t, func(t *rapid.T) {
		patched(t, Parse(files().Draw(t, "before")), Parse(files().Draw(t, "after")), nil)
	})
}

func FuzzDiff(f *testing.F) {
	f.Add([]byte("a\nb\nc\n"), []byte("a\nc\nb"))
	f.Add([]byte("a\r\nb\rc\n"), []byte("\xff\xfea\x00\n\x00"))
	f.Fuzz(func(t *testing.T, before, after []byte) {
		b, a := Parse(before), Parse(after)
		if b.Encoding == Binary || a.Encoding == Binary {
			return
		}
		patched(t, b, a, nil)
	})
}

func TestDiffName(t *testing.T) {
	for path, want := range map[string]string{
		"/home/ada/.claude.json":    "/home/ada/.claude.json",
		"/home/ada/my dir/ü":        "/home/ada/my dir/ü",
		"/p\n+  \"x\": 1/.mcp.json": `"/p\n+  \"x\": 1/.mcp.json"`,
		"/p\x1b[2J":                 `"/p\x1b[2J"`,
	} {
		if got := DiffName(path); got != want {
			t.Errorf("%q is shown as %s, want %s", path, got, want)
		}
	}
}
