package clientfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// disk is where files are written; a test has its own.
func (f *Files) disk() atomicfile.Disk {
	if f.cfg.Disk == nil {
		return atomicfile.OS{}
	}
	return f.cfg.Disk
}

// home is the home directory of a look.
func (f *Files) home(look converge.Look) string {
	if look.Home != "" {
		return look.Home
	}
	return f.cfg.Getenv("HOME")
}

// survey follows the links of a path, reads the file, and refuses one that must not be written: governance.md section
// 7.2. A file that does not exist is absent, and so is its directory.
func (f *Files) survey(look converge.Look, path string) (real string, c atomicfile.Content, err error) {
	if !filepath.IsAbs(path) {
		return "", c, fault.New(fault.Invalid, "request-invalid").Saying("%q is no absolute path", path)
	}
	real, err = resolved(path)
	switch {
	case errors.Is(err, atomicfile.ErrLinkLoop), errors.Is(err, errLinkLoop):
		return "", c, fault.New(fault.Denied, "link-loop").Saying("the links of %s lead in a circle", path).Hinting("correct the link").Retrying(fault.AfterFix)
	case err != nil:
		return "", c, unreadableFile(path, err)
	}
	if err := f.insideOf(look, path, real); err != nil {
		return "", c, err
	}
	if c, err = f.disk().Read(real); err != nil {
		return "", c, unreadableFile(path, err)
	}
	return real, c, writable(path, real, c)
}

func unreadableFile(path string, err error) error {
	switch {
	case errors.Is(err, atomicfile.ErrIrregular):
		return fault.New(fault.Denied, "file-irregular").Saying("%s is no regular file", path).Hinting("mcpx writes regular files only; put one there").Retrying(fault.AfterFix)
	case errors.Is(err, atomicfile.ErrTooLarge):
		return fault.New(fault.Invalid, "unsupported-file").Saying("%s is larger than %d MiB", path, atomicfile.MaxContent>>20).Hinting("edit it by hand")
	case errors.Is(err, atomicfile.ErrBusy):
		return fault.New(fault.Busy, "file-in-use").Saying("%s changes as often as it is read", path).
			Hinting("close the program that writes it, then try again").Retrying(fault.AfterWait)
	}
	return fault.New(fault.Unavailable, "file-unreadable").Saying("%s cannot be read", path).Hinting("check its owner and mode").Retrying(fault.AfterFix).Because(cause(err))
}

// resolved is where a path leads, the directories that do not exist yet included.
func resolved(path string) (string, error) {
	real, err := atomicfile.Resolve(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return real, err
	}
	parent := filepath.Dir(path)
	if parent == path {
		return "", err
	}
	if real, err = resolved(parent); err != nil {
		return "", err
	}
	return filepath.Join(real, filepath.Base(path)), nil
}

// insideOf refuses a link that leaves the home, or the project.
func (f *Files) insideOf(look converge.Look, path, real string) error {
	root := filepath.Dir(path)
	for _, dir := range []string{look.Project, f.home(look)} {
		if dir != "" && below(path, dir) {
			root = dir
		}
	}
	canonical, err := resolved(root)
	if err != nil {
		return unreadableFile(root, err)
	}
	if below(real, canonical) {
		return nil
	}
	return fault.New(fault.Denied, "link-outside-home").Saying("%s is a link to %s, which is outside of %s", path, real, root).Hinting("edit %s by hand, or move it into %s", real, root).Retrying(fault.AfterFix)
}

// below says whether a cleaned path lies in a directory.
func below(path, dir string) bool {
	rest, ok := strings.CutPrefix(filepath.Clean(path), strings.TrimSuffix(filepath.Clean(dir), string(filepath.Separator)))
	return ok && strings.HasPrefix(rest, string(filepath.Separator))
}

// ownerWrites is the bit without which a file is not meant to be written.
const ownerWrites fs.FileMode = 0o200

// writable refuses what others own, share or have locked.
func writable(path, real string, c atomicfile.Content) error {
	if !c.Absent {
		switch {
		case c.Immutable:
			return fault.New(fault.Denied, "file-immutable").Saying("%s is marked as immutable", path).Hinting("take the mark away with `chattr -i %s` (macOS: `chflags nouchg`)", real).Retrying(fault.AfterFix)
		case c.Owner >= 0 && c.Owner != os.Geteuid():
			return fault.New(fault.Denied, "file-foreign-owner").Saying("%s belongs to another user (id %d)", path, c.Owner).Hinting("give it back with `chown`, or let its owner run mcpx").Retrying(fault.AfterFix)
		case c.Mode&ownerWrites == 0:
			return fault.New(fault.Denied, "file-read-only").Saying("%s is read-only", path).Hinting("if you want it changed, run `chmod u+w %s`", real).Retrying(fault.AfterFix)
		case c.Links > 1:
			return fault.New(fault.Denied, "file-hard-linked").Saying("%s has %d names: the others would keep the old content", path, c.Links).
				Hinting("make it a file of its own: `cp -p %s %s.own && mv %s.own %s`", real, real, real, real).Retrying(fault.AfterFix)
		}
	}
	dir := filepath.Dir(real)
	for { // the first directory that exists
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	if err := atomicfile.Writable(dir); err != nil {
		return fault.New(fault.Denied, "directory-read-only").Saying("no file can be made in %s, so %s cannot be replaced", dir, path).
			Hinting("check the mode of the directory, and whether its disk is mounted read-only").Retrying(fault.AfterFix).Because(cause(err))
	}
	return nil
}

// controlPlane is the entry for which the directory of an agent is made, when the agent never ran.
const controlPlane = "mcp_hub"

// makeDirectory makes the directory of a file that is new: only for the control plane and for files of the system's
// services. Elsewhere its absence says that the agent is not here.
func (f *Files) makeDirectory(j *job) error {
	dir := filepath.Dir(j.swap.Target)
	if j.swap.New.Absent || !j.before.Absent {
		return nil
	}
	var missing []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Lstat(d); !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		missing = append(missing, d)
	}
	if len(missing) == 0 {
		return nil
	}
	if !makesDirectory(j.change.Steps) {
		return &fs.PathError{Op: "open", Path: dir, Err: fs.ErrNotExist}
	}
	for _, d := range slices.Backward(missing) {
		if err := f.disk().Mkdir(d, 0o700); err != nil {
			return err
		}
		if err := f.disk().SyncDir(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}
