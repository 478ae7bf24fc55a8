//go:build linux || darwin

package tree

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func makePipe(t *testing.T, path string) {
	t.Helper()
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSpecialFiles: nothing but a regular file is opened. A pipe that was opened would block, or end its writer.
func TestSpecialFiles(t *testing.T) {
	y := newYard(t, Options{})
	makePipe(t, y.path("pipe"))
	writer := make(chan error, 1)
	go func() { // it waits for a reader, who must not come
		f, err := os.OpenFile(y.path("pipe"), os.O_WRONLY, 0)
		writer <- errors.Join(err, f.Close())
	}()
	special := []string{"pipe"}
	if err := unix.Mknod(y.path("device"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))); err == nil {
		special = append(special, "device")
	} else {
		t.Logf("skip: device: %v", err)
	}
	for _, name := range special {
		for _, a := range []Access{Read, Write} {
			if _, err := y.resolve(name, a); CodeOf(err) != SpecialFile {
				t.Errorf("%s for %s: %v", name, a, err)
			}
		}
		if p, err := y.resolve(name, Look); err != nil || p.Kind != Other {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	dir := mustEnter(t, y.root, nil)
	defer dir.Close()
	for _, name := range special {
		if _, err := openRegular(dir, name); CodeOf(err) != SpecialFile {
			t.Errorf("%s opened: %v", name, err)
		}
	}
	select {
	case err := <-writer:
		t.Errorf("somebody has opened the pipe: %v", err)
	default:
	}
	f, err := os.OpenFile(y.path("pipe"), os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(<-writer, f.Close()); err != nil {
		t.Error(err)
	}
}

// TestRT39HardLink: a file with several names is not changed under one of them, and read under each.
func TestRT39HardLink(t *testing.T) {
	y := newYard(t, Options{})
	if err := os.Link(y.path("README.md"), y.path("src/alias")); err != nil {
		t.Fatal(err)
	}
	one, err := y.resolve("README.md", Write)
	if err != nil {
		t.Fatal(err)
	}
	two, err := y.resolve("src/alias", Read)
	if err != nil {
		t.Fatal(err)
	}
	if one.ID != two.ID || one.Links != 2 {
		t.Errorf("%v and %v, %d names", one.ID, two.ID, one.Links)
	}
	if err := one.Alias(); CodeOf(err) != PathAlias || problemOf(t, err).Details["reason"] != "hardlink" {
		t.Errorf("alias: %v", err)
	}
}
