package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mcpx/internal/crash"
)

// Write replaces the file at path by data with the given permission bits: temporary file in the same directory, fsync,
// rename, fsync of the directory. A symbolic link at path is replaced, not followed.
func Write(path string, data []byte, perm fs.FileMode) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".tmp-*")
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
