//go:build unix

package shim

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestSaid(t *testing.T) {
	line := strings.Repeat("x", 1023) + "\n"
	for _, c := range []struct {
		name     string
		log, old string
		want     string
	}{
		{"nothing", "", "", ""},
		{"all of it", "one\ntwo\n", "", "one\ntwo\n"},
		{"a line that has no end yet", "one\ntw", "", "one\n"},
		{"no whole line", "on", "", ""},
		{"just rotated", "wo\n", "one\nt", "one\ntwo\n"},
		{"exactly as much as is read", strings.Repeat(line, 64), "", strings.Repeat(line, 64)},
		{"more than is read", "lost\n" + strings.Repeat(line, 64), "older\n", strings.Repeat(line, 63)},
		{"more than is read, over both files", "end\n", strings.Repeat(line, 64), strings.Repeat(line, 63) + "end\n"},
		{"one endless line", strings.Repeat("x", 2*tailRing) + "\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := bundle(t.TempDir())
			for path, text := range map[string]string{b.stderr(): c.log, b.stderr() + ".1": c.old} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.said(); !bytes.Equal(got, []byte(c.want)) {
				t.Errorf("%d bytes %.40q, want %d bytes %.40q", len(got), got, len(c.want), c.want)
			}
		})
	}
}

// TestSaidReadsFilesOnly: whoever can write to a bundle gets no other file shown, and holds up nothing.
func TestSaidReadsFilesOnly(t *testing.T) {
	root := t.TempDir()
	other := filepath.Join(root, "other")
	if err := os.WriteFile(other, []byte("of somebody else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, put := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(other, path) },
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"dir":  func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		b := bundle(filepath.Join(root, name))
		if err := os.Mkdir(string(b), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := put(b.stderr()); err != nil {
			t.Fatal(err)
		}
		if got := b.said(); len(got) > 0 {
			t.Errorf("a %s gives %q", name, got)
		}
	}
	// A rotation between the two opens shows one file under both names.
	b := bundle(root)
	if err := os.WriteFile(b.stderr(), []byte("once\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(b.stderr(), b.stderr()+".1"); err != nil {
		t.Fatal(err)
	}
	if got := b.said(); string(got) != "once\n" {
		t.Errorf("got %q", got)
	}
}
