package work

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mcpx/internal/fault"
	"mcpx/internal/workspace"
)

// volume mounts a file system for one test, in which its temporary directories are from then on; a machine that cannot is
// told of. make is the program that makes one in a file, with its arguments; none: it is in memory.
func volume(t *testing.T, kind, options string, megabytes int64, make ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mcpx-volume-") //nolint:usetesting // the directories of the test are to be in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	if len(make) == 0 {
		if err := syscall.Mount("none", dir, kind, 0, options); err != nil {
			t.Skipf("skip: %s: %v", kind, err)
		}
	} else {
		image := dir + ".image"
		if err := os.WriteFile(image, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(image) }) // nobody needs it
		if err := os.Truncate(image, megabytes<<20); err != nil {
			t.Fatal(err)
		}
		mount := []string{"mount", "-t", kind, "-o", "loop," + options, image, dir}
		for _, argv := range [][]string{append(make, image), mount} {
			if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
				t.Skipf("skip: %s: %v %s", kind, err, out)
			}
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", dir)
	return dir
}

// TestDW35Reflink: DW-35. Where files can share their bytes a workspace does, and elsewhere it has copies; the tree is the same, and what
// is written in the workspace is not in the project.
func TestDW35Reflink(t *testing.T) {
	for _, c := range []struct {
		kind, method string
		make         []string
	}{
		{"btrfs", "reflink", []string{"mkfs.btrfs", "-q"}},
		{"xfs", "reflink", []string{"mkfs.xfs", "-q"}},
		{"ext4", "copy", []string{"mkfs.ext4", "-q", "-F"}},
		{"tmpfs", "copy", nil},
	} {
		t.Run(c.kind, func(t *testing.T) {
			dir := volume(t, c.kind, "", 320, c.make...)
			s := newShop(t)
			big := strings.Repeat("shared\n", 1<<20)
			s.save(t, "docs/big.txt", big)
			used := free(t, dir)
			a := s.do(t, "create_agent_workspace", `"purpose":"one","mutable":["docs"],"operation_id":"create-01"`)
			used -= free(t, dir)
			got := read[created](t, a)
			if got.Method != c.method {
				t.Errorf("the copy was made by %s, want %s", got.Method, c.method)
			}
			if shared := used < int64(len(big)); shared != (c.method == "reflink") {
				t.Errorf("%d bytes of the volume were used for a file of %d", used, len(big))
			}
			w := openedWorkspace{got.ID, got.Path}
			copied, err := os.ReadFile(filepath.Join(w.Path, "docs/big.txt"))
			if err != nil || string(copied) != big {
				t.Errorf("the copy differs: %v", err)
			}
			w.write(t, "docs/big.txt", "mine\n")
			if s.file(t, "docs/big.txt") != big {
				t.Error("what was written in the workspace is in the project")
			}
			read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, a.Handle))
			if s.file(t, "docs/big.txt") != "mine\n" || !kept(t, s.state, big) {
				t.Error("the integration is not there, or what it displaced is lost")
			}
		})
	}
}

// free is the space of a volume that nobody uses.
func free(t *testing.T, dir string) int64 {
	t.Helper()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil { // what is not written yet is not counted
		t.Fatal(err)
	}
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bfree) * st.Bsize
}

// TestDW44Obstacles: DW-44. A full disk, a quota of files and a read-only mount stop an integration of twenty paths as a whole: nothing
// is applied, nothing stays staged, and the same call does it when the obstacle is gone. TestNoRight has the directory that may not be
// written to.
func TestDW44Obstacles(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		block   func(t *testing.T, dir string) (lift func() error)
	}{
		"full disk": {"size=4m", func(t *testing.T, dir string) func() error {
			f, err := os.Create(filepath.Join(dir, "filler"))
			if err != nil {
				t.Fatal(err)
			}
			for chunk := make([]byte, 64<<10); err == nil; {
				_, err = f.Write(chunk)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			return func() error { return os.Remove(f.Name()) }
		}},
		"no inodes": {"size=4m,nr_inodes=400", func(t *testing.T, dir string) func() error {
			filler := filepath.Join(dir, "filler")
			err := os.Mkdir(filler, 0o700)
			for n := 0; err == nil; n++ {
				err = os.WriteFile(filepath.Join(filler, fmt.Sprint(n)), nil, 0o600)
			}
			return func() error { return os.RemoveAll(filler) }
		}},
		"read-only mount": {"size=4m", func(t *testing.T, dir string) func() error {
			remount := func(flags uintptr) error { return syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, "size=4m") }
			if err := remount(syscall.MS_RDONLY); err != nil {
				t.Fatal(err)
			}
			return func() error { return remount(0) }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := volume(t, "tmpfs", c.options, 0)
			s := newShop(t)
			handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
			for i := range 20 {
				w.write(t, fmt.Sprintf("docs/%02d.md", i), strings.Repeat("new\n", 100))
			}
			lift := c.block(t, dir)
			a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
			if err := lift(); err != nil {
				t.Fatal(err)
			}
			s.blocked(t, a)
			got := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle))
			if len(got.Applied) != 20 || s.file(t, "docs/19.md") != strings.Repeat("new\n", 100) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestDW27Folds: DW-27. Two spellings of a path that does not exist yet are one where names know no case, and two where they do;
// the claim holds when the path is made by hand. TestCovers has the suffixes.
func TestDW27Folds(t *testing.T) {
	for _, c := range []struct {
		kind  string
		folds bool
		make  []string
	}{
		{"ext4", true, []string{"mkfs.ext4", "-q", "-F", "-O", "casefold", "-E", "encoding=utf8"}},
		{"ext4", false, []string{"mkfs.ext4", "-q", "-F"}},
		{"tmpfs", false, nil},
	} {
		t.Run(fmt.Sprintf("%s, folds %v", c.kind, c.folds), func(t *testing.T) {
			volume(t, c.kind, "", 32, c.make...)
			s := newShop(t)
			above := filepath.Join(s.root, "a")
			if err := os.Mkdir(above, 0o755); err != nil {
				t.Fatal(err)
			}
			if c.folds {
				if out, err := exec.Command("chattr", "+F", above).CombinedOutput(); err != nil {
					t.Skipf("skip: directories that fold: %v %s", err, out)
				}
			}
			_, first := s.workspaceOf(t, "create-01", `"mutable":["a/B","new/out"]`)
			refused(t, s.do(t, "create_agent_workspace", `"purpose":"deep","mutable":["new/out/deep"],"operation_id":"create-02"`), workspace.ScopeOverlap, fault.AfterWait)
			s.save(t, "new/out/made.txt", "by hand\n")
			refused(t, s.do(t, "create_agent_workspace", `"purpose":"deep","mutable":["new/out/deep"],"operation_id":"create-02"`), workspace.ScopeOverlap, fault.AfterWait)
			a := s.do(t, "create_agent_workspace", `"purpose":"case","mutable":["a/b"],"operation_id":"create-03"`)
			if c.folds {
				refused(t, a, workspace.ScopeOverlap, fault.AfterWait)
			} else if !a.OK {
				t.Errorf("a/b beside a/B of %s: %v", first.ID, a.Refusal)
			}
		})
	}
}
