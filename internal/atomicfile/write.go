package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/crash"
)

// tempMark is in the names of temporary files, which begin with a dot and end in digits.
const tempMark = ".tmp-"

// Write replaces the file at path by data with the given permission bits: temporary file in the same directory, fsync,
// rename, fsync of the directory. A symbolic link at path is replaced, not followed.
func Write(path string, data []byte, perm fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+tempMark+"*")
	if err != nil {
		return err
	}
	temp := f.Name()
	if err := fill(f, data, perm); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	crash.Point("atomicfile.temp-synced")
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	crash.Point("atomicfile.renamed")
	// fsync the directory too: a power cut can bring back the old name.
	return SyncDir(dir)
}

func fill(f *os.File, data []byte, perm fs.FileMode) error {
	_, err := f.Write(data)
	crash.Point("atomicfile.temp-written")
	if err == nil {
		err = f.Chmod(perm) // CreateTemp made it 0600: it is never more open than asked for
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir makes the names in dir durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory %s: %w", dir, err)
	}
	return nil
}

// Room reports why n bytes cannot be written into dir; what it writes to find out is gone again.
func Room(dir string, n int) error {
	f, err := os.CreateTemp(dir, ".room"+tempMark+"*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, n))
	if err == nil {
		err = f.Sync() // some file systems look for room only now
	}
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// Sweep removes the temporary files that a Write or Room in dir left behind when its process was killed. Nobody else may write
// there at the same time.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		name, digits, found := strings.Cut(e.Name(), tempMark)
		if found && strings.HasPrefix(name, ".") && digits != "" && strings.Trim(digits, "0123456789") == "" && e.Type().IsRegular() {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
