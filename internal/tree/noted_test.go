//go:build linux || darwin

package tree

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoted: a file that nobody has touched since the copy is not read again, and every way to give one other bytes is seen,
// also when its size and its time are what they were.
func TestNoted(t *testing.T) {
	dir := t.TempDir()
	names := []string{"stays", "written", "replaced", "mapped", "handle", "mode", "longer", "gone"}
	if err := os.Mkdir(filepath.Join(dir, "project"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, "project", name), []byte(name+" was"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	project, err := Open(filepath.Join(dir, "project"), Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer project.Close()
	p := Packet{filepath.Join(dir, "ws")}
	if err := p.Make(); err != nil {
		t.Fatal(err)
	}
	got, err := project.CopyTo(t.Context(), p.Copy(), p.Blobs(), CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(p.Copy(), Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	at := func(name string) string { return filepath.Join(p.Copy(), name) }
	// What was written at the time of the note may be written to once more in that time.
	last := got.Noted["stays"].changed
	for { // until the clock of the file system has gone on
		if err := os.WriteFile(filepath.Join(dir, "clock"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(dir, "clock"))
		if err != nil {
			t.Fatal(err)
		}
		if info.ModTime().UnixNano() > last+int64(time.Millisecond) {
			break
		}
	}
	late := got.Noted["gone"]
	late.changed = time.Now().Add(time.Hour).UnixNano()
	got.Noted["late"] = late
	if err := p.Note(got.Noted); err != nil {
		t.Fatal(err)
	}
	noted := p.Noted()
	if !root.volume.stamps {
		t.Skip("a store through a map may go unseen on the file system of the test, so that there is no note: TestNotedMapped")
	}
	if _, ok := noted["late"]; ok || len(noted) != len(names) {
		t.Fatalf("noted: %v", noted)
	}
	survey := func(noted Noted) (m Manifest, read int64) {
		t.Helper()
		var bytes atomic.Int64
		m, err := root.Survey(t.Context(), SurveyOptions{Noted: noted, Read: func(n int) { bytes.Add(int64(n)) }})
		if err != nil {
			t.Fatal(err)
		}
		return m, bytes.Load()
	}
	if all, read := survey(noted); read != 0 || all.Digest() != got.Manifest.Digest() {
		t.Errorf("%d bytes of what nobody touched were read, %v", read, all)
	}

	put := func(name string, do func(f *os.File) error) {
		t.Helper()
		info, err := os.Stat(at(name))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(at(name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := do(f); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at(name), info.ModTime(), info.ModTime()); err != nil { // as if nothing had been
			t.Fatal(err)
		}
	}
	write := func(f *os.File) error { _, err := f.WriteAt([]byte("X"), 0); return err }
	put("written", write)
	put("longer", func(f *os.File) error { return f.Truncate(100) })
	put("mode", func(f *os.File) error { return f.Chmod(0o755) })
	if err := os.WriteFile(at("other"), []byte("Xeplaced was"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(at("other"), at("replaced")); err != nil {
		t.Fatal(err)
	}
	put("replaced", func(*os.File) error { return nil })
	if err := os.Remove(at("gone")); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(at("mapped"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, 10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	mapped[0] = 'X'
	defer unix.Munmap(mapped) //nolint:errcheck // the process ends
	defer f.Close()
	handle, err := os.OpenFile(at("handle"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	if _, read := survey(noted); read == 0 {
		t.Error("nothing of what was changed was read")
	}
	if err := write(handle); err != nil { // one that was open while it was looked at
		t.Fatal(err)
	}
	trusting, some := survey(noted)
	reading, all := survey(nil)
	if !reflect.DeepEqual(trusting, reading) {
		t.Errorf("with what was noted: %v\nwithout: %v", trusting, reading)
	}
	if some >= all {
		t.Errorf("%d of %d bytes were read", some, all)
	}
	d := got.Manifest.Compare(trusting)
	if want := "[handle longer mapped mode replaced written] [gone]"; len(d.Added) > 0 || fmt.Sprint(d.Changed, d.Gone) != want {
		t.Errorf("changed and gone: %v %v, want %s", d.Changed, d.Gone, want)
	}

	// A note that is not whole says nothing, nor does one of another boot or of another form.
	raw, err := os.ReadFile(filepath.Join(p.Dir, notedFile))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte{}, raw...)
	flipped[len(raw)/2] ^= 1
	begins, rest, _ := bytes.Cut(raw[:len(raw)-sha256.Size], []byte("\n"))
	begun := func(line string) []byte {
		other := append([]byte(line), rest...)
		sum := sha256.Sum256(other)
		return append(other, sum[:]...)
	}
	if !bytes.Equal(begun(string(begins)+"\n"), raw) {
		t.Fatalf("the note begins with %q", begins)
	}
	for _, broken := range [][]byte{
		{}, raw[:len(raw)-1], raw[:len(raw)/2], flipped, begun("noted 1\n"), begun("noted 2 \n"), begun("noted 2 another boot\n"),
	} {
		if err := os.WriteFile(filepath.Join(p.Dir, notedFile), broken, 0o600); err != nil {
			t.Fatal(err)
		}
		if n := p.Noted(); len(n) != 0 {
			t.Errorf("%d of %d bytes of a note say %v", len(broken), len(raw), n)
		}
	}
}

// TestNotedMapped: an edit through a map that was read first is seen on every file system; where it does not change a time, as
// on tmpfs, nothing is noted.
func TestNotedMapped(t *testing.T) {
	dirs := []string{t.TempDir()}
	if shm, err := os.MkdirTemp("/dev/shm", "noted-*"); err == nil { //nolint:usetesting // on another kind of file system than tests are
		t.Cleanup(func() {
			if err := os.RemoveAll(shm); err != nil {
				t.Error(err)
			}
		})
		dirs = append(dirs, shm)
	}
	for _, dir := range dirs {
		t.Run(dir, func(t *testing.T) { notedMapped(t, dir) })
	}
}

func notedMapped(t *testing.T, dir string) {
	p := Packet{filepath.Join(dir, "ws")}
	project := filepath.Join(dir, "project")
	for _, made := range []string{project, p.Dir} {
		if err := os.Mkdir(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(project, "mapped"), []byte("mapped was"), 0o644); err != nil {
		t.Fatal(err)
	}
	from, err := Open(project, Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	got, err := from.CopyTo(t.Context(), p.Copy(), p.Blobs(), CopyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	root, err := Open(p.Copy(), Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for len(p.Noted()) == 0 { // until the clock of the file system has gone on
		if err := errors.Join(os.RemoveAll(filepath.Join(p.Dir, notedFile)), p.Note(got.Noted)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(filepath.Join(p.Dir, notedFile)); !root.volume.stamps {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a note where a store may go unseen: %v", err)
			}
			break
		}
	}
	f, err := os.OpenFile(filepath.Join(p.Copy(), "mapped"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, 10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped) //nolint:errcheck // the process ends
	if mapped[0] != 'm' {
		t.Fatalf("%q", mapped)
	}
	mapped[0] = 'X'
	now, err := root.Survey(t.Context(), SurveyOptions{Noted: p.Noted()})
	if err != nil {
		t.Fatal(err)
	}
	if d := got.Manifest.Compare(now); fmt.Sprint(d.Changed) != "[mapped]" {
		t.Errorf("changed: %v", d.Changed)
	}
}
