//go:build linux

package tree

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// binned removes src and README.md into the bin of a root.
func (y *yard) binned(open func(*Area) (*Bin, error)) (Batch, *Bin) {
	y.t.Helper()
	state := filepath.Join(filepath.Dir(y.dir), "state")
	if err := os.MkdirAll(state, 0o700); err != nil {
		y.t.Fatal(err)
	}
	a, err := y.root.Area(state)
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() { _ = a.Close() })
	var intents []Intent
	for _, path := range []string{"src", "README.md"} {
		p, err := y.root.Resolve(path, Look)
		if err != nil {
			y.t.Fatal(err)
		}
		digest, err := p.Digest(y.t.Context())
		if err != nil {
			y.t.Fatal(err)
		}
		_ = p.Close()
		intents = append(intents, Intent{Kind: Delete, Path: path, Expect: digest})
	}
	b, err := y.root.Stage(y.t.Context(), a, "op-bin", intents, Conditions{})
	if err != nil {
		y.t.Fatal(err)
	}
	bin, err := open(a)
	if err != nil {
		y.t.Fatal(err)
	}
	y.t.Cleanup(func() { _ = bin.Close() })
	if out, err := y.root.Apply(y.t.Context(), a, b, Conditions{}); err != nil || out.State != Applied {
		y.t.Fatalf("%+v, %v", out, err)
	}
	for range 2 { // as after a crash
		if err := y.root.Empty(y.t.Context(), a, b, bin, time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)); err != nil {
			y.t.Fatal(err)
		}
	}
	if err := y.root.Finish(y.t.Context(), a, b); err != nil {
		y.t.Fatal(err)
	}
	return b, bin
}

func (y *yard) inBin(b Batch, bin *Bin) {
	y.t.Helper()
	for _, x := range b.Names() {
		path := bin.Where(x)
		if string(x.Path) == "src" {
			path = filepath.Join(path, "main.go")
		}
		if raw, err := os.ReadFile(path); err != nil || !bin.Has(x) || len(raw) == 0 {
			y.t.Errorf("%s in the bin: %q, %v", x.Path, raw, err)
		}
	}
	if y.content("README.md") != "" || y.content("src/main.go") != "" {
		y.t.Error("what was removed is there")
	}
}

func TestRT72Bins(t *testing.T) {
	uid := os.Getuid()
	t.Run("home", func(t *testing.T) {
		y := newYard(t, Options{})
		data := filepath.Join(y.outside, "data")
		b, bin := y.binned(func(a *Area) (*Bin, error) { return y.root.Bin(a, BinOptions{Data: data, UID: uid}) })
		y.inBin(b, bin)
		info, err := os.ReadFile(filepath.Join(data, "Trash", "info", string(b.Names()[0].Name)+".trashinfo"))
		if want := "[Trash Info]\nPath=" + y.path(string(b.Names()[0].Path)) + "\nDeletionDate=2026-11-30T12:00:00\n"; err != nil || bin.Kind != HomeBin || string(info) != want {
			t.Errorf("%s: %q, %v", bin.Kind, info, err)
		}
	})
	t.Run("second volume", func(t *testing.T) {
		base, err := os.MkdirTemp("/dev/shm", "mcpx") //nolint:usetesting // on another volume than those of tests
		if err != nil {
			t.Skipf("no second volume: %v", err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(base) })
		y := yardIn(t, base, Options{})
		top := y.root.top()
		if top == "/" {
			t.Skip("/dev/shm is no volume of its own")
		}
		own := filepath.Join(top, ".Trash-"+strconv.Itoa(uid))
		_, before := os.Lstat(own)
		b, bin := y.binned(func(a *Area) (*Bin, error) { return y.root.Bin(a, BinOptions{Data: t.TempDir(), UID: uid}) })
		t.Cleanup(func() {
			if os.IsNotExist(before) {
				_ = os.RemoveAll(own)
			}
		})
		y.inBin(b, bin)
		info, err := os.ReadFile(filepath.Join(bin.Path, "info", string(b.Names()[0].Name)+".trashinfo"))
		if err != nil || bin.Kind != VolumeBin || !strings.HasPrefix(bin.Path, top) || !strings.Contains(string(info), "\nPath="+strings.TrimPrefix(y.path(string(b.Names()[0].Path)), top+"/")+"\n") {
			t.Errorf("%+v: %q, %v", bin.BinName, info, err)
		}
	})
	t.Run("no trash", func(t *testing.T) {
		y := newYard(t, Options{})
		data := filepath.Join(y.outside, "data")
		y.put("../outside/data/Trash", "a file is in its place")
		for _, name := range y.root.trashes(BinOptions{Data: data, UID: -2}) { // nobody's: no directory of theirs can be used
			if b, err := y.root.trash(name, -2); err == nil {
				t.Errorf("%+v is used", name)
				_ = b.Close()
			} else if name.Kind == VolumeBin && filepath.Base(name.Path) == ".Trash--2" {
				_ = os.RemoveAll(name.Path) // it was made before it was looked at
			}
		}
		b, bin := y.binned(func(a *Area) (*Bin, error) { return a.OpenBin(a.Quarantine()) })
		y.inBin(b, bin)
		if bin.Kind != Quarantine || !strings.HasSuffix(filepath.Dir(bin.Where(b.Names()[0])), quarantineDir) {
			t.Errorf("%+v", bin.BinName)
		}
	})
}

// TestBinOfOthers: a trash for all users that is a link, or from which others could remove, is none.
func TestBinOfOthers(t *testing.T) {
	y := newYard(t, Options{})
	uid := os.Getuid()
	shared := BinName{Kind: VolumeBin, Path: filepath.Join(y.outside, ".Trash", strconv.Itoa(uid)), Top: y.outside}
	if b, err := y.root.trash(shared, uid); err == nil {
		t.Errorf("%+v was made", b.BinName)
	}
	if err := os.Mkdir(filepath.Join(y.outside, ".Trash"), 0o777); err != nil {
		t.Fatal(err)
	}
	if b, err := y.root.trash(shared, uid); err == nil {
		t.Errorf("%+v without the sticky bit", b.BinName)
	}
	if err := os.Chmod(filepath.Join(y.outside, ".Trash"), 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	b, err := y.root.trash(shared, uid)
	if err != nil {
		t.Fatal(err)
	}
	_ = b.Close()
	own := BinName{Kind: VolumeBin, Path: filepath.Join(y.outside, ".Trash-"+strconv.Itoa(uid)), Top: y.outside}
	if err := os.Symlink(t.TempDir(), own.Path); err != nil {
		t.Fatal(err)
	}
	if b, err := y.root.trash(own, uid); err == nil {
		t.Errorf("%+v is a link", b.BinName)
	}
}
