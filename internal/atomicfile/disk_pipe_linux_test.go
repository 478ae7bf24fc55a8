package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPipeInPlaceOfAFile: a pipe that takes the place of a file between the look at its name and its opening is not read,
// which would never end while somebody has it open for writing.
func TestPipeInPlaceOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|noFollow|noWait, 0) // as openRegular has it, with a writer
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, _, err := readOnce(f, path); !errors.Is(err, ErrIrregular) {
		t.Errorf("a pipe is read: %v", err)
	}
}
