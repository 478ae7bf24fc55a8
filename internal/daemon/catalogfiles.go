package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"mcpx/internal/atomicfile"
	"mcpx/internal/catalog"
	"mcpx/internal/clientfile"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/watch"
)

const (
	// maxCatalogFile bounds one file of config/catalog, in bytes: people write some hundred lines.
	maxCatalogFile = 1 << 20
	// maxCatalogFiles bounds their number.
	maxCatalogFiles = 200
)

// catalogFiles reads the servers that a person keeps by hand. Each call reads anew.
func (d *Daemon) catalogFiles() []catalog.File {
	dir := d.cfg.Paths.Catalog()
	// Who can write to a directory can put another file in the place of each of its files. The directory of all settings may
	// be a link, below it there are none.
	for _, one := range []struct {
		path string
		look func(string) (fs.FileInfo, error)
	}{{d.cfg.Paths.Config, os.Stat}, {dir, os.Lstat}} {
		info, err := one.look(one.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			err = unreadableCatalog(err)
		case !info.IsDir():
			err = unsafeCatalog("it is no directory").Hinting("put a directory in its place")
		default:
			err = ownCatalog(one.path, info.Mode(), atomicfile.OwnerOf(info))
		}
		if err != nil {
			return []catalog.File{brokenCatalog(one.path, err)}
		}
	}
	paths, err := catalogPaths(dir)
	if err != nil {
		return []catalog.File{brokenCatalog(dir, err)}
	}
	files := make([]catalog.File, 0, len(paths))
	for _, path := range paths {
		files = append(files, readCatalogFile(path))
	}
	return files
}

// watchCatalog reads config/catalog again when something in it changes.
func (d *Daemon) watchCatalog() *loop {
	dir := d.cfg.Paths.Catalog()
	seen := map[string]bool{} // a file that goes is of interest, too
	watcher := watch.New(watch.Config{Log: d.log, Dirs: func() []string { return []string{dir} }, Files: func() []string {
		paths, err := catalogPaths(dir)
		if err != nil {
			paths = nil // a reload says why
		}
		for _, path := range paths {
			seen[path] = true
		}
		return slices.Sorted(maps.Keys(seen))
	}})
	ctx, end := context.WithCancel(d.ending)
	l := &loop{end: end, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		take := func([]string) {
			if _, _, err := d.control.Reapply(ctx); err != nil && ctx.Err() == nil {
				d.log.LogAttrs(ctx, slog.LevelWarn, "the files of the catalog were not taken", slog.Any(key.Cause, err))
			}
		}
		take(nil) // what changed since the catalog was loaded
		watcher.Run(ctx, take)
	}()
	return l
}

func brokenCatalog(path string, err error) catalog.File {
	p := catalog.ProblemIn(path, err)
	return catalog.File{Path: path, Problem: &p}
}

// catalogPaths lists the files of the directory in order of name.
func catalogPaths(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, unreadableCatalog(err)
	}
	var paths []string
	for _, e := range entries {
		if name := e.Name(); filepath.Ext(name) == ".toml" && !strings.HasPrefix(name, ".") { // editors keep others beside it
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	if len(paths) > maxCatalogFiles {
		return nil, fault.New(fault.Invalid, "catalog-file-broken").Saying("it has %d files, at most %d are read", len(paths), maxCatalogFiles).
			Hinting("put their servers together")
	}
	return paths, nil // ReadDir sorts
}

func readCatalogFile(path string) catalog.File {
	content, err := (atomicfile.OS{}).Read(path)
	switch {
	case errors.Is(err, atomicfile.ErrIrregular):
		return brokenCatalog(path, unsafeCatalog("it is no plain file").Hinting("put the file itself in its place; links are not followed here"))
	case err != nil:
		return brokenCatalog(path, unreadableCatalog(err))
	case content.Absent: // gone since the directory was read
		return catalog.File{Path: path}
	case len(content.Data) > maxCatalogFile:
		return brokenCatalog(path, fault.New(fault.Invalid, "catalog-file-broken").Saying("it is larger than %d KiB", maxCatalogFile>>10).
			Hinting("split it into several files"))
	}
	if err := ownCatalog(path, content.Mode, content.Owner); err != nil {
		return brokenCatalog(path, err)
	}
	doc, line, err := clientfile.ReadTOML(content.Data)
	if err != nil {
		file := brokenCatalog(path, fault.New(fault.Invalid, "catalog-file-broken").Saying("it is no TOML").Hinting("correct the file").Because(err))
		if at, ok := errors.AsType[*catalog.SyntaxError](err); ok {
			file.Problem.Line = at.Line
		}
		return file
	}
	return catalog.ReadFile(path, doc, line)
}

// ownCatalog refuses what somebody else could have written: it says which programs run.
func ownCatalog(path string, mode fs.FileMode, owner int) error {
	if runtime.GOOS == "windows" { // the access list of the user's profile decides
		return nil
	}
	if owner > 0 && owner != os.Geteuid() {
		return unsafeCatalog("it belongs to another user").Hinting("make a copy that is yours")
	}
	if mode.Perm()&0o022 != 0 {
		return unsafeCatalog("it can be written by others (mode %04o)", mode.Perm()).Hinting("run `chmod go-w %s`", path)
	}
	return nil
}

func unsafeCatalog(format string, args ...any) *fault.Error {
	return fault.New(fault.Denied, "catalog-file-unsafe").Saying(format, args...).Retrying(fault.AfterFix)
}

func unreadableCatalog(err error) error {
	return fault.New(fault.Unavailable, "catalog-file-broken").Saying("it cannot be read").Hinting("check its owner and mode").Because(err)
}
