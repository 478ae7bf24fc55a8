//go:build linux || darwin

package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
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

// TestKeep: equal bytes are drafted once; nothing is begun after the first error or the end of the call; what an attempt that
// was cut off has left is removed, and nothing is left of this one.
func TestKeep(t *testing.T) {
	p := Packet{t.TempDir()}
	if err := errors.Join(os.Mkdir(p.Copy(), 0o700), os.Mkdir(p.Blobs(), 0o700)); err != nil {
		t.Fatal(err)
	}
	drafts := filepath.Join(p.Dir, draftsDir)
	var files []Item
	for n := range 50 {
		data := fmt.Appendf(nil, "file %d", n)
		i := Item{Path: RawPath(fmt.Sprint(n)), Kind: File, Digest: atomicfile.Sum(data)}
		if err := os.WriteFile(filepath.Join(p.Copy(), string(i.Path)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, i)
	}
	kept := func(want int) {
		t.Helper()
		all, err := os.ReadDir(p.Blobs())
		if err != nil || len(all) != want {
			t.Errorf("%d files are kept, want %d, %v", len(all), want, err)
		}
		if _, err := os.Lstat(drafts); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("drafts are left: %v", err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Keep(canceled, files...); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	kept(0)
	var wrong []Item // as many as are kept at once: the next one can only begin when one of them has failed
	for _, i := range files[:stageWorkers] {
		i.Digest = atomicfile.Sum([]byte(i.Path))
		wrong = append(wrong, i)
	}
	if err := p.Keep(t.Context(), append(wrong, files...)...); CodeOf(err) != FileBusy {
		t.Errorf("files with other bytes: %v", err)
	}
	kept(0)
	if err := errors.Join(os.Mkdir(drafts, 0o700), os.WriteFile(filepath.Join(drafts, files[0].Digest), []byte("half"), 0o600)); err != nil {
		t.Fatal(err)
	}
	same := files[0] // which nobody reads: there is no such file
	same.Path = "none"
	if err := p.Keep(t.Context(), append(files, same)...); err != nil {
		t.Error(err)
	}
	kept(len(files))
	for n, i := range files {
		if data, err := p.Bytes(i.Digest, 100); err != nil || string(data) != fmt.Sprintf("file %d", n) {
			t.Errorf("%s: %q, %v", i.Path, data, err)
		}
	}
}

// TestPackDamaged: bytes of a pack that are not those that were asked for are not there; they can be kept again, and are there
// then.
func TestPackDamaged(t *testing.T) {
	data := bytes.Repeat([]byte("bytes of BASE"), 100)
	digest := atomicfile.Sum(data)
	number := func(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
	const at, size = 32, 40 // in a row of the index
	for what, damage := range map[string]func(pack, index []byte) (newPack, newIndex []byte){
		"another byte":   func(pack, index []byte) ([]byte, []byte) { pack[7] ^= 1; return pack, index },
		"a short pack":   func(pack, index []byte) ([]byte, []byte) { return pack[:len(pack)-1], index },
		"an empty pack":  func(_, index []byte) ([]byte, []byte) { return nil, index },
		"an empty index": func(pack, _ []byte) ([]byte, []byte) { return pack, nil },
		"half a row":     func(pack, index []byte) ([]byte, []byte) { return pack, index[:packRow/2] },
		"no bytes":       func(pack, index []byte) ([]byte, []byte) { copy(index[size:], number(0)); return pack, index },
		"negative bytes": func(pack, index []byte) ([]byte, []byte) { copy(index[size:], number(-1)); return pack, index },
		"most bytes": func(pack, index []byte) ([]byte, []byte) {
			copy(index[size:], number(math.MaxInt64))
			return pack, index
		},
		"a negative place": func(pack, index []byte) ([]byte, []byte) { copy(index[at:], number(-1)); return pack, index },
		"the last place":   func(pack, index []byte) ([]byte, []byte) { copy(index[at:], number(math.MaxInt64)); return pack, index },
	} {
		t.Run(what, func(t *testing.T) {
			p := Packet{t.TempDir()}
			if err := errors.Join(os.Mkdir(p.Copy(), 0o700), os.Mkdir(p.Blobs(), 0o700), os.WriteFile(filepath.Join(p.Copy(), "a"), data, 0o600)); err != nil {
				t.Fatal(err)
			}
			pack, err := newPacker(p.Blobs())
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(pack.add(sha256.Sum256(data), data), pack.finish(), pack.close()); err != nil {
				t.Fatal(err)
			}
			if got, err := p.Bytes(digest, copySmall); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("undamaged: %d bytes, %v", len(got), err)
			}
			var raw [2][]byte
			for n, name := range []string{packFile, packIndex} {
				if raw[n], err = os.ReadFile(filepath.Join(p.Blobs(), name)); err != nil {
					t.Fatal(err)
				}
			}
			raw[0], raw[1] = damage(raw[0], raw[1])
			for n, name := range []string{packFile, packIndex} {
				if err := os.WriteFile(filepath.Join(p.Blobs(), name), raw[n], 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := p.Bytes(digest, copySmall); CodeOf(err) != NotFound {
				t.Errorf("damaged: %d bytes, %v", len(got), err)
			}
			if err := p.Keep(t.Context(), Item{Path: "a", Kind: File, Digest: digest}); err != nil {
				t.Fatal(err)
			}
			if got, err := p.Bytes(digest, copySmall); err != nil || !bytes.Equal(got, data) {
				t.Errorf("kept again: %d bytes, %v", len(got), err)
			}
		})
	}
}

// TestBlobDamaged: bytes of BASE in a file of their own that are others are not there, and are kept anew.
func TestBlobDamaged(t *testing.T) {
	p := Packet{t.TempDir()}
	data := []byte("bytes of BASE")
	i := Item{Path: "a", Kind: File, Digest: atomicfile.Sum(data)}
	if err := errors.Join(os.Mkdir(p.Copy(), 0o700), os.Mkdir(p.Blobs(), 0o700), os.WriteFile(filepath.Join(p.Copy(), "a"), data, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{nil, {}, []byte("bytes of base")} {
		if damaged != nil {
			if err := os.WriteFile(p.blob(i.Digest), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := p.Bytes(i.Digest, 100); CodeOf(err) != NotFound {
				t.Errorf("%q: %q, %v", damaged, got, err)
			}
		}
		if err := p.Keep(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		if got, err := p.Bytes(i.Digest, 100); err != nil || !bytes.Equal(got, data) {
			t.Errorf("kept anew over %q: %q, %v", damaged, got, err)
		}
	}
}
