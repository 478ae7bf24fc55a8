package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"mcpx/internal/operation"
)

func sealed(path, content string, exec bool) Sealed {
	return Sealed{path, int64(len(content)), Entry{File, exec, fmt.Sprintf("%x", sha256.Sum256([]byte(content)))}}
}

// TestManifestVectors: DW-57, and the example of durable-work.md section 12.
func TestManifestVectors(t *testing.T) {
	for _, tt := range []struct {
		name    string
		entries []Sealed
		size    int
		hash    string
	}{
		{"the example", []Sealed{
			sealed("out/run", "#!/bin/sh\n", true),
			sealed("out/a.txt", "hello\n", false),
			{"out/latest", 0, Entry{Kind: Link, Digest: "a.txt"}},
			{"out/empty", 0, Entry{Kind: Directory}},
		}, 283, "e31dc8d4bd72895d58f33852353d52a948c5fb0efa933c5ea5a552076edb513f"},
		{"DW-57", []Sealed{
			{"out/Empty", 0, Entry{Kind: Directory}},
			sealed("out/bad\xff\nname", "", false),
			{"out/ln k", 0, Entry{Kind: Link, Digest: "../out/a b"}},
			sealed("out/naïve file%.txt", "hello\n", false),
			sealed("out/中/x", "a\x00b", true),
		}, 397, "39e7558b216e96b2b99838d6c1350cc280eca0c05fa8e664949f63b23f3b04f4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := NewManifest(tt.entries)
			if err != nil {
				t.Fatal(err)
			}
			encoded, hash := m.Encode()
			if len(encoded) != tt.size || hash != tt.hash {
				t.Errorf("%d bytes, %s:\n%s", len(encoded), hash, encoded)
			}
			if again, err := ParseManifest(encoded); err != nil || !slices.Equal(again, m) {
				t.Errorf("read back: %v, %v", again, err)
			}
		})
	}
}

func TestManifestRefuses(t *testing.T) {
	dir := func(path string) Sealed { return Sealed{path, 0, Entry{Kind: Directory}} }
	link := func(path, target string) Sealed { return Sealed{path, 0, Entry{Kind: Link, Digest: target}} }
	for _, tt := range []struct {
		name    string
		entries []Sealed
		code    string
	}{
		{"twice", []Sealed{dir("a"), dir("a")}, "ARGUMENT_INVALID"},
		{"case", []Sealed{dir("out/A"), dir("out/a")}, "CASE_COLLISION"},
		{"case of a directory above", []Sealed{dir("Out/a"), dir("out/b")}, "CASE_COLLISION"},
		{"case beyond ASCII", []Sealed{dir("ſ"), dir("S")}, "CASE_COLLISION"},
		{"composition", []Sealed{dir("n\u0065\u0301"), dir("n\u00e9")}, "CASE_COLLISION"},
		{"absolute", []Sealed{dir("/a")}, "ARGUMENT_INVALID"},
		{"out of the root", []Sealed{dir("../a")}, "ARGUMENT_INVALID"},
		{"not clean", []Sealed{dir("a//b")}, "ARGUMENT_INVALID"},
		{"the root", []Sealed{dir(".")}, "ARGUMENT_INVALID"},
		{"an absolute link", []Sealed{link("a", "/etc")}, "ARGUMENT_INVALID"},
		{"a link that leads out", []Sealed{link("a/b", "../../c")}, "ARGUMENT_INVALID"},
		{"a link that leads out over another", []Sealed{link("a/b/up", "../.."), link("esc", "a/b/up/../../X")}, "ARGUMENT_INVALID"},
		{"the same in another case", []Sealed{link("a/b/up", "../.."), link("esc", "A/b/UP/../../X")}, "ARGUMENT_INVALID"},
		{"a link to itself", []Sealed{link("a", "./a")}, "ARGUMENT_INVALID"},
		{"a link without a target", []Sealed{link("a", "")}, "ARGUMENT_INVALID"},
		{"a pipe", []Sealed{{"a", 0, Entry{Kind: Other}}}, "SPECIAL_FILE"},
		{"no hash", []Sealed{{"a", 0, Entry{Kind: File, Digest: "ab"}}}, "ARGUMENT_INVALID"},
		{"below a file", []Sealed{sealed("a", "x", false), sealed("a/b", "x", false)}, "ARGUMENT_INVALID"},
		{"below an empty directory", []Sealed{dir("a"), sealed("a/b", "x", false)}, "ARGUMENT_INVALID"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var refusal *operation.Refusal
			if _, err := NewManifest(tt.entries); !errors.As(err, &refusal) || string(refusal.Code) != tt.code {
				t.Errorf("got %v, want %s", err, tt.code)
			}
		})
	}
}

// TestManifestKeeps: names that only look alike are two.
func TestManifestKeeps(t *testing.T) {
	for _, names := range [][]string{{"a\xfe", "a\xff"}, {"ı", "i"}, {"out", "out.d"}} {
		if m, err := NewManifest([]Sealed{sealed(names[0], "", false), sealed(names[1], "", false)}); err != nil || len(m) != 2 {
			t.Errorf("%q: %v", names, err)
		}
	}
}

// TestManifestLinks: links that stay in the build are kept, over other links, too, and to what is not there.
func TestManifestLinks(t *testing.T) {
	link := func(path, target string) Sealed { return Sealed{path, 0, Entry{Kind: Link, Digest: target}} }
	for _, links := range [][]Sealed{
		{link("a/b", "../c"), link("c", "d/e/f"), link("x", "a/b/../../g")},
		{link("a", "b"), link("b", "c"), link("c", "not/there/..")},
		{link("a/b/up", "../.."), link("x", "a/b/up/y")},
		{link("a", ".")},
	} {
		if m, err := NewManifest(links); err != nil || len(m) != len(links) {
			t.Errorf("%v: %v", links, err)
		}
	}
}

// TestManifestRoundTrip: names of any bytes come back.
func TestManifestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.SliceOfN(rapid.ByteRange(1, 255), 1, 12), func(b []byte) string { return fold(string(b)) }).Draw(t, "names")
		var entries []Sealed
		for i, n := range names {
			name := strings.ReplaceAll(string(n), "/", "_")
			if name == "." || name == ".." || slices.ContainsFunc(entries, func(e Sealed) bool { return fold(e.Path) == fold(name) }) {
				continue
			}
			switch i % 3 {
			case 0:
				entries = append(entries, sealed(name, name, i%2 == 0))
			case 1:
				entries = append(entries, Sealed{name, 0, Entry{Kind: Directory}})
			default:
				entries = append(entries, Sealed{name, 0, Entry{Kind: Link, Digest: "x" + name}})
			}
		}
		m, err := NewManifest(entries)
		if err != nil {
			t.Fatal(err)
		}
		encoded, _ := m.Encode()
		if again, err := ParseManifest(encoded); err != nil || !slices.Equal(again, m) {
			t.Fatalf("%v: %q", err, encoded)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(manifestHead))
	f.Add([]byte(manifestHead + "d a\nf 644 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 b%20c\n"))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		m, err := ParseManifest(encoded)
		if err != nil {
			return
		}
		if again, _ := m.Encode(); string(again) != string(encoded) {
			t.Errorf("%q is read as %q", encoded, again)
		}
	})
}
