package atomicfile_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcpx/internal/atomicfile"
)

// accessList gives user 4242 the right to read, as setfacl -m u:4242:r writes it on a file of mode 0640.
var accessList = []byte{
	2, 0, 0, 0,
	1, 0, 6, 0, 255, 255, 255, 255, // owner rw
	2, 0, 4, 0, 0x92, 0x10, 0, 0, // user 4242 r
	4, 0, 4, 0, 255, 255, 255, 255, // group r
	16, 0, 4, 0, 255, 255, 255, 255, // mask r
	32, 0, 0, 0, 255, 255, 255, 255, // others none
}

// setAttribute skips the test where the file system has no such attributes.
func setAttribute(t *testing.T, path, name string, value []byte) {
	t.Helper()
	if err := unix.Setxattr(path, name, value, 0); errors.Is(err, unix.ENOTSUP) {
		t.Skipf("skip: attributes: no %s on this file system", name)
	} else if err != nil {
		t.Fatal(err)
	}
}

func attributeOf(t *testing.T, path, name string) []byte {
	t.Helper()
	value := make([]byte, 1<<10)
	n, err := unix.Getxattr(path, name, value)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return value[:n]
}

func TestSwapKeepsWhatIsNoContent(t *testing.T) {
	for _, mode := range []fs.FileMode{0o600, 0o644, 0o640, 0o755} {
		t.Run(mode.String(), func(t *testing.T) {
			w := newWorld(t, t.TempDir(), shapes["replace"], false)
			w.swap.Disk = atomicfile.OS{}
			if err := os.Chmod(w.target, mode); err != nil {
				t.Fatal(err)
			}
			setAttribute(t, w.target, "user.note", []byte("kept\x00as it is"))
			if mode == 0o640 {
				setAttribute(t, w.target, "system.posix_acl_access", accessList)
			}
			group := os.Getegid()
			if os.Geteuid() == 0 {
				group = 4343
				if err := os.Chown(w.target, -1, group); err != nil {
					t.Fatal(err)
				}
			}
			before, _, err := atomicfile.LookAt(w.target)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.swap.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			after, ok, err := atomicfile.LookAt(w.target)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if after.Mode != before.Mode || after.Owner != before.Owner || after.Links != 1 {
				t.Errorf("before %+v, after %+v", before, after)
			}
			if after.Identity == before.Identity {
				t.Error("it is the same file")
			}
			if got := attributeOf(t, w.target, "user.note"); string(got) != "kept\x00as it is" {
				t.Errorf("the attribute is %q", got)
			}
			if mode == 0o640 && !bytes.Equal(attributeOf(t, w.target, "system.posix_acl_access"), accessList) {
				t.Error("the access list is another one")
			}
			var stat unix.Stat_t
			if err := unix.Stat(w.target, &stat); err != nil || int(stat.Gid) != group {
				t.Errorf("the group is %d, %v; want %d", stat.Gid, err, group)
			}
		})
	}
}

// TestDefaultAccessList: what the directory hands down to new files is not given to a file that has it not.
func TestDefaultAccessList(t *testing.T) {
	w := newWorld(t, t.TempDir(), shapes["replace"], false)
	w.swap.Disk = atomicfile.OS{}
	setAttribute(t, w.dir, "system.posix_acl_default", accessList)
	if _, err := w.swap.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Getxattr(w.target, "system.posix_acl_access", nil); err == nil {
		t.Errorf("the new file has an access list of %d bytes", n)
	}
	if info, err := os.Stat(w.target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestImmutable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chattr", "+i", path).CombinedOutput(); err != nil {
		t.Skipf("skip: immutable: chattr +i: %v %s", err, out)
	}
	defer func() {
		if out, err := exec.Command("chattr", "-i", path).CombinedOutput(); err != nil {
			t.Errorf("chattr -i: %v %s", err, out)
		}
	}()
	if facts, _, err := atomicfile.LookAt(path); err != nil || !facts.Immutable {
		t.Errorf("%+v, %v", facts, err)
	}
}

// TestFullDisk swaps on a file system without space: nothing is left, and the way back needs none.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("skip: full disk: no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t, filepath.Join(dir, "d"), shapes["replace"], false)
	w.swap.Disk = atomicfile.OS{}
	if _, err := w.swap.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	fill := filepath.Join(dir, "fill")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	back := w.swap.Reverse([]byte(oldBytes))
	if _, err := back.Run(t.Context()); err != nil {
		t.Fatalf("back on a full disk: %v", err)
	}
	if _, err := back.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err) // takes what Clean has freed
	}
	if _, err := w.swap.Run(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("forward on a full disk: %v", err)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	w.whole(oldBytes, oldBytes, nil)
}

func TestSettleWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	over, stop := context.WithCancel(t.Context())
	stop()
	if _, err := (atomicfile.OS{}).Settle(over, path); !errors.Is(err, atomicfile.ErrOpen) {
		t.Errorf("a file that is open for writing: %v", err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := (atomicfile.OS{}).Settle(over, path); err != nil || c.SHA256 != atomicfile.Sum(nil) {
		t.Errorf("a file that is only read: %+v, %v", c, err)
	}
}
