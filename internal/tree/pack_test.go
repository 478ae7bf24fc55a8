//go:build linux || darwin

package tree

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"mcpx/internal/atomicfile"
)

// TestBaseBytes: the bytes of BASE are found by their hash, whatever their size, those of equal files once, also in a copy
// of the workspace; what is not there is not found, and what is too large is not read.
func TestBaseBytes(t *testing.T) {
	dir := t.TempDir()
	project := filepath.Join(dir, "project")
	files := map[string][]byte{
		"a": []byte("one"), "b/c": []byte("two"), "b/d": []byte("one"), "empty": {}, "most": bytes.Repeat([]byte("m"), copySmall), "large": bytes.Repeat([]byte("l"), copySmall+1),
	}
	for i := range 500 { // so that the search in the index takes steps
		files[filepath.Join("many", string(rune('a'+i%26)), string(rune('0'+i/26)))] = bytes.Repeat([]byte{byte(i)}, i)
	}
	for name, data := range files {
		path := filepath.Join(project, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	root, err := Open(project, Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	p, kept := Packet{filepath.Join(dir, "ws")}, Packet{filepath.Join(dir, "kept")}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	got, err := root.CopyTo(t.Context(), p.Copy(), p.Blobs(), CopyOptions{Twice: func(path string) bool { return path != "b/c" }})
	if err != nil {
		t.Fatal(err)
	}
	if got.Files != len(files) {
		t.Errorf("%d files, want %d", got.Files, len(files))
	}
	if _, err := p.Snapshot(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	for name, data := range files {
		info, err := os.Stat(filepath.Join(p.Copy(), name))
		if copied, _ := os.ReadFile(filepath.Join(p.Copy(), name)); err != nil || !bytes.Equal(copied, data) || info.Mode() != 0o640 {
			t.Errorf("%s: copied as %d bytes with %v, %v", name, len(copied), info.Mode(), err)
		}
		for _, in := range []Packet{p, kept} {
			switch base, err := in.Bytes(atomicfile.Sum(data), copySmall+1); {
			case name == "b/c" && CodeOf(err) != NotFound:
				t.Errorf("%s of %s is kept: %v", name, in.Dir, err)
			case name != "b/c" && (err != nil || !bytes.Equal(base, data)):
				t.Errorf("BASE of %s in %s: %d bytes, %v", name, in.Dir, len(base), err)
			}
		}
	}
	for _, large := range []string{"most", "large"} {
		if _, err := p.Bytes(atomicfile.Sum(files[large]), 100); CodeOf(err) != LimitExceeded {
			t.Errorf("more than 100 bytes of %s: %v", large, err)
		}
	}
	if _, err := p.Bytes("no hash", 100); CodeOf(err) != NotFound {
		t.Errorf("something that is no hash: %v", err)
	}
	// What is in the pack is not kept once more.
	if err := p.Keep(t.Context(), Item{Path: "most", Digest: atomicfile.Sum(files["most"])}); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(p.Blobs())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Keep(t.Context(), Item{Path: "b/c", Digest: atomicfile.Sum(files["b/c"])}); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadDir(p.Blobs())
	if base, readErr := p.Bytes(atomicfile.Sum(files["b/c"]), 10); err != nil || len(after) != len(before)+1 || readErr != nil || string(base) != "two" {
		t.Errorf("%d files of BASE after %d, %q, %v, %v", len(after), len(before), base, err, readErr)
	}
	if len(before) > 20 {
		t.Errorf("%d files for the bytes of BASE", len(before))
	}
}
