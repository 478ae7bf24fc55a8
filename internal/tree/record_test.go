//go:build unix

package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestRecord: a record is read as it was written, with every kind of entry and names of any bytes.
func TestRecord(t *testing.T) {
	p := Packet{t.TempDir()}
	sum := strings.Repeat("ab", 32)
	m := Manifest{Items: []Item{
		{Path: "a b", Kind: Directory, Mode: 0o755, Digest: dirDigest},
		{Path: "a b/\xff%\n", Kind: File, Mode: 0o4640, Size: 1 << 40, Digest: sum},
		{Path: "empty", Kind: File, Mode: 0o600, Digest: sum},
		{Path: "link", Kind: Link, Digest: LinkDigest("to a\nb"), Link: "to a\nb"},
		{Path: "pipe", Kind: Other, Mode: 0o600, Digest: oddDigest},
	}}
	about := json.RawMessage("{\n \"purpose\": \"a\\nb\"}")
	if err := p.Write(7, Record{About: about, Manifest: m}); err != nil {
		t.Fatal(err)
	}
	got, err := p.Read(7)
	if err != nil || !reflect.DeepEqual(got.Manifest, m) || string(got.About) != `{"purpose":"a\nb"}` {
		t.Errorf("%+v, %v", got, err)
	}
	if err := p.Write(12, Record{About: about}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"base-99.json", "base-x", "base", "noted"} { // of others
		if err := os.WriteFile(filepath.Join(p.Dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if rev, err := p.Latest(); rev != 12 || err != nil {
		t.Errorf("the latest is %d, %v", rev, err)
	}
	if _, err := p.Read(3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
}

// TestRecordDamaged: of a record that is cut off, or has a line that nobody wrote, nothing is taken.
func TestRecordDamaged(t *testing.T) {
	p := Packet{t.TempDir()}
	m := Manifest{Items: []Item{
		{Path: "a", Kind: File, Mode: 0o644, Size: 3, Digest: strings.Repeat("ab", 32)}, {Path: "b", Kind: Link, Digest: LinkDigest("a"), Link: "a"}, {Path: "c", Kind: Directory, Mode: 0o755, Digest: dirDigest},
	}}
	if err := p.Write(1, Record{About: json.RawMessage(`{}`), Manifest: m}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(p.record(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"nothing":        nil,
		"another head":   bytes.Replace(whole, []byte("base 1"), []byte("base 2"), 1),
		"no about":       bytes.Replace(whole, []byte("{}"), []byte("{"), 1),
		"cut off":        whole[:len(whole)-1],
		"no size":        bytes.Replace(whole, []byte(" a 3\n"), []byte(" a\n"), 1),
		"a size of text": bytes.Replace(whole, []byte(" a 3\n"), []byte(" a x\n"), 1),
		"a kind":         bytes.Replace(whole, []byte("file "), []byte("files "), 1),
		"a mode":         bytes.Replace(whole, []byte("644"), []byte("648"), 1),
		"an encoding":    bytes.Replace(whole, []byte(" b a\n"), []byte(" b a%\n"), 1),
		"more":           bytes.Replace(whole, []byte(" c\n"), []byte(" c 1\n"), 1),
		"an empty line":  append(bytes.Clone(whole), '\n'),
	} {
		if bytes.Equal(raw, whole) {
			t.Fatalf("%s: it is not damaged", name)
		}
		if err := os.WriteFile(p.record(1), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Read(1); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManifestWith: a manifest with other entries is in the order of walks, and each is found there.
func TestManifestWith(t *testing.T) {
	file := func(path string, size int64) Item { return Item{Path: RawPath(path), Kind: File, Size: size} }
	m := Manifest{Items: []Item{file("a", 1), file("b", 1), file("d", 1)}}
	got := m.With(map[string]Item{"b": {Path: "b", Kind: Absent}, "c": file("c", 2), "d": file("d", 2), "x": {Path: "x", Kind: Absent}})
	if want := []Item{file("a", 1), file("c", 2), file("d", 2)}; !reflect.DeepEqual(got.Items, want) {
		t.Errorf("%+v", got.Items)
	}
	for path, want := range map[string]Item{"a": file("a", 1), "d": file("d", 2), "b": {Path: "b", Kind: Absent}} {
		if i := got.Find(path); i != want {
			t.Errorf("%s is %+v", path, i)
		}
	}
}
