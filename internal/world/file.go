package world

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"mcpx/internal/policy"
)

// maxHops is the kernel's bound of links in one path.
const maxHops = 40

// File says what an absolute path leads to.
func (w *World) File(path string) policy.File {
	f := policy.File{Path: w.follow(path)}
	info, err := os.Lstat(f.Path)
	if err == nil {
		f.Exists, f.Dir = true, info.IsDir()
		f.Device = info.Mode()&os.ModeDevice != 0
		if info.Mode().IsRegular() {
			f.Names = w.otherNames(f.Path, info)
		}
	}
	f.Folds = folds(filepath.Dir(f.Path))
	return f
}

// follow resolves links part by part, as the kernel does: ".." is of the directory that was reached. Of what does not exist
// the rest is taken as it is written.
func (w *World) follow(path string) string {
	at, rest, hops := "/", strings.Split(path, "/"), 0
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		to, followed := w.link(next)
		if !followed {
			at = next
			continue
		}
		if hops++; hops > maxHops {
			return next // the kernel refuses it: nothing is reached
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return at
}

// link is where a name leads. What /proc says of the process that asks is said of the command, not of us.
func (w *World) link(path string) (to string, followed bool) {
	for _, own := range []string{"/proc/self", "/proc/thread-self"} {
		switch path {
		case own:
			return "", false // it stays a name: the number is another one then
		case own + "/root":
			return "/", true
		case own + "/cwd":
			return w.cfg.Dir, true
		}
		if strings.HasPrefix(path, own+"/") {
			return "", false
		}
	}
	to, err := os.Readlink(path)
	if err != nil {
		return "", false
	}
	if strings.HasPrefix(path, "/proc/") && !filepath.IsAbs(to) && strings.Contains(to, ":[") {
		return "", false // a pipe, a socket or a namespace
	}
	return to, true
}

// folds tells that a directory ignores case: the name of an entry in other letters is the same file.
func folds(dir string) bool {
	d, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer d.Close()
	names, err := d.Readdirnames(16)
	if err != nil {
		return false
	}
	for _, name := range names {
		other := swapCase(name)
		if other == name || slices.Contains(names, other) {
			continue
		}
		a, errA := os.Lstat(filepath.Join(dir, name))
		b, errB := os.Lstat(filepath.Join(dir, other))
		return errA == nil && errB == nil && os.SameFile(a, b)
	}
	return false
}

func swapCase(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, name)
}

// otherNames are the names of the same file that the lists know: a second name, or a mount, is no way around them.
func (w *World) otherNames(path string, info os.FileInfo) []string {
	if w.secrets == nil {
		w.secrets = map[fileID][]string{}
		for _, place := range policy.SecretPlaces(w.homes()...) {
			left := maxPlaced
			w.index(place, &left, func(string) bool { return true })
		}
	}
	if linkCount(info) > 1 && w.cfg.Place.Target != "" && !w.indexed {
		w.indexed = true
		for _, own := range w.cfg.Place.Own {
			left := maxPlaced
			w.index(own, &left, func(string) bool { return true })
		}
		left := maxLooked
		w.index(w.cfg.Place.Target, &left, func(path string) bool {
			return policy.SecretName(filepath.Base(path)) || strings.Contains(path, "/.git/")
		})
	}
	id, ok := idOf(info)
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.secrets[id]), func(name string) bool { return name == path })
}

// maxPlaced bounds the entries that are looked at in one place of the lists: a directory of keys has a few.
const maxPlaced = 4096

// index keeps the identities of files that the lists deny.
func (w *World) index(root string, left *int, wanted func(string) bool) {
	all := &World{} // what the sandbox hides counts here: it can have a second name
	all.walk(root, left, func(path string, e os.DirEntry) bool {
		if e != nil && !e.Type().IsRegular() || !wanted(path) {
			return false
		}
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() {
			return false
		}
		if id, ok := idOf(info); ok {
			w.secrets[id] = append(w.secrets[id], path)
		}
		return false
	})
}
