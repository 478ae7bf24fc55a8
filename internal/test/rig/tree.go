package rig

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Tree is all that a directory holds, by name: permissions, and bytes or the text of a link.
func Tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content string
		switch {
		case info.Mode().IsRegular():
			raw, failed := os.ReadFile(path)
			content, err = string(raw), failed
		case info.Mode()&fs.ModeSymlink != 0:
			content, err = os.Readlink(path)
		}
		all[strings.TrimPrefix(path, dir+"/")] = info.Mode().String() + " " + content
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
