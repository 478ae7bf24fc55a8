package tree

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// insideMount makes a test binary run TestWritable where it may mount.
const insideMount = "MCPX_TEST_MOUNT"

// TestWritable: RT-143, a directory with write bits on a mount that is read-only is not writable, and trying leaves nothing.
func TestWritable(t *testing.T) {
	if dir := os.Getenv(insideMount); dir != "" {
		if err := Writable(dir); err == nil {
			t.Error("a directory on a read-only mount is writable")
		}
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Writable(dir); err != nil {
		t.Errorf("an empty directory: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	if err := Writable(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is not there is writable")
	}
	unshare := []string{"--mount"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if out, err := exec.Command("unshare", append(unshare, "mount", "--bind", dir, dir)...).CombinedOutput(); err != nil {
		t.Skipf("nothing may be mounted here: %v: %s", err, out)
	}
	script := `mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && exec "$2" -test.run '^TestWritable$'`
	c := exec.Command("unshare", append(unshare, "sh", "-c", script, "sh", dir, os.Args[0])...)
	c.Env = append(os.Environ(), insideMount+"="+dir)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
