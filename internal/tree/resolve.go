package tree

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Access says what a path is resolved for.
type Access string

// The accesses.
const (
	Look  Access = "look"  // the entry itself, whatever it is; a link in the last part is not followed
	Read  Access = "read"  // a regular file
	List  Access = "list"  // a directory
	Write Access = "write" // a regular file, or a name for one; directories on the way may be missing
)

// Place is where a path leads. It holds the directory of the entry open, so what is done with it is done there, whatever
// becomes of the path. Close it.
type Place struct {
	// Seen: Path is relative to the root, with "/" between components, without links, spelled as on the disk; "." is the
	// root itself. Kind is Absent when nothing is there.
	Seen
	Asked    string   // as it was asked for
	Through  []string // the links on the way
	Missing  []string // last components of Path that do not exist: more than one, and directories are missing, too
	root     *Root
	dir      *os.File // of the last component, or of the first missing one
	base     string
	released func() error
}

// Close gives the directory back.
func (p *Place) Close() error { return p.released() }

// Alias says why the entry may not be changed under this name: PathAlias when the path goes through a symbolic link, or
// when the file has other names. It says the name under which a call would do, where there is one.
func (p *Place) Alias() error {
	switch {
	case len(p.Through) > 0:
		return refuse(PathAlias, "%s goes through a symbolic link; use the name %s", p.Asked, p.Path).
			With("reason", "symlink").With("canonical", p.Path)
	case p.Kind == File && p.Links > 1:
		return refuse(PathAlias, "%s has other names (hard links), which would keep the old bytes", p.Asked).With("reason", "hardlink")
	}
	return nil
}

// Resolve says where a path leads. It goes component by component, each relative to the directory before it, follows
// links itself, and refuses what leaves the root, crosses a mount, or reaches into the runtime's own directories.
//
// ArgumentInvalid, Outside, PathAlias (too many links), NotFound, NotAFile, NotADirectory, SpecialFile,
// Unsupported, NameEncoding, FileDenied.
func (r *Root) Resolve(path string, a Access) (*Place, error) {
	switch {
	case path == "":
		return nil, refuse(ArgumentInvalid, "the path is empty; . is the root")
	case strings.ContainsRune(path, 0):
		return nil, refuse(ArgumentInvalid, "%q holds a NUL", path)
	case len(path) > maxPath:
		return nil, refuse(ArgumentInvalid, "the path is longer than %d bytes", maxPath)
	}
	pending, inside := r.below(path)
	if !inside {
		return nil, refuse(Outside, "%s is not in the project", path).With("path", path)
	}
	dir, err := enter(r.dir, ".")
	if err != nil {
		return nil, reading(err, path)
	}
	w := &walker{root: r, asked: path, access: a, pending: pending, dir: dir}
	p, err := w.run()
	if err != nil {
		_ = w.dir.Close() // it was only entered
		return nil, reading(err, path)
	}
	return p, nil
}

// walker is a path on its way.
type walker struct {
	root    *Root
	asked   string
	access  Access
	pending []string // components that are still to go
	done    []string // canonical
	dir     *os.File // of done
	through []string
}

func (w *walker) run() (*Place, error) {
	for len(w.pending) > 0 {
		name := w.pending[0]
		w.pending = w.pending[1:]
		if name == ".." {
			if err := w.up(); err != nil {
				return nil, err
			}
			continue
		}
		p, err := w.step(name)
		if p != nil || err != nil {
			return p, err
		}
	}
	if n := len(w.done); n > 0 { // the path ended in "..": once more by its last name
		name := w.done[n-1]
		if err := w.goTo(w.done[:n-1]); err != nil {
			return nil, err
		}
		return w.step(name)
	}
	facts, err := factsOf(w.dir)
	if err != nil {
		return nil, err
	}
	return w.found(".", facts)
}

// step goes one component on. A place: it was the last one.
func (w *walker) step(name string) (*Place, error) {
	if len(name) > maxName {
		return nil, refuse(ArgumentInvalid, "a name in the path is longer than %d bytes", maxName)
	}
	if len(w.done) == 0 && w.root.isArea(name, w.dir) {
		return nil, w.inArea()
	}
	facts, err := look(w.dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return w.missing(name)
	}
	if err != nil {
		return nil, err
	}
	if facts.mount != w.root.facts.mount {
		return nil, refuse(Unsupported, "%s is on another mount than the project", w.asked).With("mount", w.canonical(name))
	}
	last := len(w.pending) == 0
	switch {
	case facts.Kind == Link && (!last || w.access != Look || strings.HasSuffix(w.asked, "/")): // with a slash it is what the link leads to
		return nil, w.follow(name)
	case facts.Kind == Directory && w.root.areas[facts.ID]:
		return nil, w.inArea()
	case last:
		return w.found(w.spelled(name, facts.ID), facts)
	case facts.Kind != Directory:
		return nil, refuse(NotFound, "%s does not exist: %s is no directory", w.asked, w.canonical(name))
	}
	return nil, w.enter(name, facts.ID)
}

func (w *walker) canonical(name string) string {
	return strings.Join(append(slices.Clone(w.done), name), "/")
}

func (w *walker) inArea() error {
	return refuse(Outside, "%s is in a directory of mcpx itself", w.asked).With("reason", "runtime_area")
}

// isArea says whether a name at the top of the root is the runtime's own, whether it exists or not.
func (r *Root) isArea(name string, top *os.File) bool {
	return name == areaName || strings.EqualFold(name, areaName) && r.volume.folds(top)
}

func (w *walker) enter(name string, id ID) error {
	next, err := enter(w.dir, name)
	if err != nil {
		return err
	}
	name = w.spelled(name, id)
	_ = w.dir.Close() // it was only entered
	w.dir, w.done = next, append(w.done, name)
	return nil
}

// up goes to the directory above: down again from the root, because a link may have led here and the directory may have
// been moved.
func (w *walker) up() error {
	if len(w.done) == 0 {
		return w.escaped()
	}
	return w.goTo(w.done[:len(w.done)-1])
}

// goTo opens the directory with these canonical components.
func (w *walker) goTo(done []string) error {
	next, err := w.root.enterAll(done)
	if err != nil {
		return err
	}
	_ = w.dir.Close() // it was only entered
	w.dir, w.done = next, slices.Clone(done)
	return nil
}

// enterAll opens a directory by its canonical components.
func (r *Root) enterAll(names []string) (*os.File, error) { return enterAllIn(r.dir, names...) }

// enterAllIn opens a directory below another one.
func enterAllIn(dir *os.File, names ...string) (*os.File, error) {
	at, err := enter(dir, ".")
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		var next *os.File
		next, err = enter(at, name)
		_ = at.Close() // it was only entered
		at = next
	}
	return at, err
}

func (w *walker) escaped() error {
	if len(w.through) > 0 {
		return refuse(Outside, "%s leaves the project through the link %s", w.asked, w.through[len(w.through)-1]).
			With("link", w.through[len(w.through)-1])
	}
	return refuse(Outside, "%s is not in the project", w.asked).With("path", w.asked)
}

// follow puts what a link says before the components that are still to go.
func (w *walker) follow(name string) error {
	text, err := readlink(w.dir, name)
	if err != nil {
		return err
	}
	w.through = append(w.through, w.canonical(name))
	if len(w.through) > maxHops {
		return refuse(PathAlias, "%s goes through more than %d symbolic links", w.asked, maxHops).With("reason", "links")
	}
	more, inside := w.root.below(text)
	if !inside {
		return w.escaped()
	}
	w.pending = append(more, w.pending...)
	if strings.HasPrefix(text, "/") {
		return w.goTo(nil)
	}
	return nil
}

// missing ends at a name that does not exist: it and all behind it are to be made, or it is not found. What would lead out
// if it existed is outside.
func (w *walker) missing(name string) (*Place, error) {
	missing := append([]string{name}, w.pending...)
	depth, up := len(w.done), false
	for _, name := range missing {
		switch {
		case len(name) > maxName:
			return nil, refuse(ArgumentInvalid, "a name in the path is longer than %d bytes", maxName)
		case name != "..":
			depth++
		case depth == 0:
			return nil, w.escaped()
		default:
			depth, up = depth-1, true
		}
	}
	if up || w.access != Write {
		return nil, refuse(NotFound, "%s does not exist", w.asked)
	}
	p := w.place(name, Facts{Kind: Absent})
	p.Missing = missing
	p.Path = strings.Join(append(slices.Clone(w.done), missing...), "/")
	return p, nil
}

// found ends at an entry, if it is what the access wants.
func (w *walker) found(name string, facts Facts) (*Place, error) {
	switch {
	case w.access == List && facts.Kind != Directory:
		return nil, refuse(NotADirectory, "%s is no directory", w.asked)
	case w.access == Look || w.access == List || facts.Kind == File:
		return w.place(name, facts), nil
	case facts.Kind == Directory:
		return nil, refuse(NotAFile, "%s is a directory", w.asked)
	}
	return nil, refuse(SpecialFile, "%s is no regular file", w.asked)
}

func (w *walker) place(name string, facts Facts) *Place {
	p := &Place{
		Seen:  Seen{Facts: facts, Folds: w.root.volume.folds(w.dir)},
		Asked: w.asked, Through: w.through, root: w.root, dir: w.dir, base: name, released: w.dir.Close,
	}
	if p.Path = name; len(w.done) > 0 {
		p.Path = w.canonical(name)
	}
	return p
}

// spelled is the name of an entry as it stands in its directory, where names know no case: of all spellings one is
// canonical.
func (w *walker) spelled(name string, id ID) string {
	if !w.root.volume.folds(w.dir) {
		return name
	}
	names, err := namesIn(w.dir)
	if err != nil || slices.Contains(names, name) {
		return name // without the right to list, it is canonical as it is asked for: nobody can see another spelling
	}
	for _, fold := range []bool{true, false} { // those that differ in case first: others may differ in their normal form
		for _, n := range names {
			if facts, err := look(w.dir, n); strings.EqualFold(n, name) == fold && err == nil && facts.ID == id {
				return n
			}
		}
	}
	return name
}

// maxNames bounds the names of one directory, which are sorted in memory: 100 bytes each.
const maxNames = 1_000_000

// namesIn lists the names in an open directory, in no order. LimitExceeded.
func namesIn(dir *os.File) ([]string, error) {
	f, err := openListing(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readNames(f)
}

// readNames reads the names in a directory that is open for that.
func readNames(f *os.File) ([]string, error) {
	names, err := f.Readdirnames(maxNames + 1)
	if len(names) > maxNames {
		return nil, tooManyNames()
	}
	if err != nil && len(names) == 0 && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return names, nil
}

func tooManyNames() error {
	return refuse(LimitExceeded, "a directory has more than %d names", maxNames).With("limit", maxNames)
}
