package tree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/ignore"
)

const (
	// MaxDepth bounds the levels of a walk: each holds a descriptor, of which a process has 1024.
	MaxDepth = 256
	// maxIgnore bounds an ignore file, in bytes; a larger one says nothing. git takes 100 MB; those of people have a few KB.
	maxIgnore = 1 << 20
	// checkEvery is how many entries are passed between two looks at whether the caller still waits.
	checkEvery = 1024
)

// WalkOptions say which entries a walk comes to.
type WalkOptions struct {
	After   string // a path: only what comes after it in the order of walks; "" everything
	Depth   int    // levels below the place; 0 is MaxDepth
	Ignored bool   // what ignore files leave out is walked, too
	Git     bool   // and so is what is in directories named .git
	// Failed is told of a directory that cannot be walked: no right to, another mount, too deep. It is left out.
	Failed func(path string, err error)
}

// Visit is an entry that a walk has come to.
type Visit struct {
	Path    string // canonical, below the root
	Kind    Kind   // as the directory says it
	Ignored bool   // an ignore file leaves it out, or a directory that it is in
	Again   bool   // a directory that is or leads to After: it was visited before, and only fs.SkipDir counts
	name    string
	dir     *heldDir
	root    *Root
}

// heldDir is an open directory with the number of those who use it.
type heldDir struct {
	*os.File
	users atomic.Int32
	folds func() bool // whether the names in it know no case, looked up once
}

func (r *Root) hold(f *os.File) *heldDir {
	d := &heldDir{File: f, folds: sync.OnceValue(func() bool { return r.volume.folds(f) })}
	d.users.Store(1)
	return d
}

// hold keeps the directory open until release is called.
func (d *heldDir) hold() (release func()) {
	d.users.Add(1)
	return d.release
}

func (d *heldDir) release() {
	if d.users.Add(-1) == 0 {
		_ = d.Close() // it was only read from
	}
}

// Hold keeps what the visit needs beyond the call that got it, until release is called.
func (v Visit) Hold() (release func()) {
	return v.dir.hold()
}

// Look looks at the entry: Kind is what it is now. NotFound.
func (v Visit) Look() (Seen, error) {
	facts, err := look(v.dir.File, v.name)
	return Seen{Facts: facts, Path: v.Path, Folds: v.Folds()}, reading(err, v.Path)
}

// Folds says whether the names beside the entry know no case.
func (v Visit) Folds() bool { return v.dir.folds() }

// Link is the text of a symbolic link.
func (v Visit) Link() (string, error) {
	text, err := readlink(v.dir.File, v.name)
	return text, reading(err, v.Path)
}

// Sift reads a file of at most limit bytes and hands them to sieve, whose they are during the call. When they matter to it,
// their hash is told, and they are sure to be the file in one state: one that changes meanwhile is read, and sieved, again.
// buf is room to read into, and is given back for the next file.
//
// LimitExceeded, FileBusy, SpecialFile, Unsupported, NotFound, FileDenied.
func (v Visit) Sift(ctx context.Context, limit int64, buf []byte, sieve func(Facts, []byte) (matters bool, err error)) (sum string, _ []byte, err error) {
	for try := range maxReads {
		data, facts, err := readSmall(v.dir.File, v.name, buf, limit)
		buf = data[:0]
		if err == nil && facts.mount != v.root.facts.mount {
			err = refuse(Unsupported, "%s is on another mount than the project", v.Path).With("reason", "mount")
		}
		if err != nil {
			return "", buf, reading(err, v.Path)
		}
		matters, err := sieve(facts, data)
		if err != nil || !matters {
			return "", buf, err
		}
		now, err := look(v.dir.File, v.name)
		if err == nil && now.same(facts) && int64(len(data)) == facts.Size {
			return atomicfile.Sum(data), buf, nil
		}
		if err := pause(ctx, time.Duration(try)*readAgain); err != nil {
			return "", buf, err
		}
	}
	return "", buf, refuse(FileBusy, "%s changes all the time", v.Path)
}

// Visit is the place as a walk would come to it, until it is closed.
func (p *Place) Visit() Visit {
	return Visit{Path: p.Path, Kind: p.Kind, name: p.base, dir: p.root.hold(p.dir), root: p.root}
}

// Walk visits what is below a directory: each directory before what is in it, the entries of one in the order of the bytes
// of their names. No link is followed, nothing but directories and ignore files is opened, and neither directories of the
// runtime nor those named .git are walked. visit may return fs.SkipDir and fs.SkipAll. What changes meanwhile is visited or
// not, once at most.
func (p *Place) Walk(ctx context.Context, o WalkOptions, visit func(Visit) error) error {
	if o.Depth == 0 {
		o.Depth = MaxDepth
	}
	if o.Failed == nil {
		o.Failed = func(string, error) {}
	}
	w := &walk{ctx: ctx, root: p.root, o: o, visit: visit}
	prefix := ""
	if p.Path != "." {
		prefix = p.Path + "/"
	}
	var after []string
	if o.After != "" {
		rest, ok := strings.CutPrefix(o.After, prefix)
		if !ok {
			return refuse(CursorInvalid, "the cursor is of another directory")
		}
		after = components(rest)
	}
	rules, err := p.rulesAbove()
	if err != nil {
		return reading(err, p.Asked)
	}
	dir, err := enter(p.dir, p.base)
	if err != nil {
		return reading(err, p.Asked)
	}
	err = w.below(dir, prefix, rules, false, 1, after)
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return reading(err, p.Asked)
}

// walk is one walk on its way.
type walk struct {
	ctx    context.Context
	root   *Root
	o      WalkOptions
	visit  func(Visit) error
	passed int
}

// entry is a name in a directory.
type entry struct {
	name string
	kind Kind // Absent: the directory does not say
}

// below visits what is in a directory, and closes it.
func (w *walk) below(dir *os.File, prefix string, rules *ignore.Rules, ignored bool, depth int, after []string) error {
	held := w.root.hold(dir)
	defer held.release()
	entries, err := sortedEntries(dir)
	if err != nil {
		return w.failed(prefix, err)
	}
	rules = w.rules(dir, prefix, entries, rules)
	for _, e := range entries {
		if w.passed++; w.passed%checkEvery == 0 && w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
		order := 1
		if len(after) > 0 {
			order = strings.Compare(e.name, after[0])
		}
		if order < 0 || prefix == "" && (w.root.isArea(e.name, dir) || w.root.unwalked[e.name]) {
			continue
		}
		if e.kind == Absent {
			facts, err := look(dir, e.name)
			if err != nil {
				continue // it is gone
			}
			e.kind = facts.Kind
		}
		v := Visit{Path: prefix + e.name, Kind: e.kind, Again: order == 0, name: e.name, dir: held, root: w.root}
		if v.Again && e.kind != Directory {
			continue
		}
		v.Ignored = ignored || rules.Ignores(v.Path, e.kind == Directory)
		rest := after
		if after = nil; order > 0 {
			rest = nil
		} else {
			rest = rest[1:]
		}
		if err := w.enter(v, rules, depth, rest); err != nil {
			return err
		}
	}
	return nil
}

// enter visits an entry, and what is below it.
func (w *walk) enter(v Visit, rules *ignore.Rules, depth int, after []string) error {
	if v.Kind != Directory {
		if err := w.visit(v); err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
		return nil
	}
	next, err := enter(v.dir.File, v.name)
	if err == nil {
		var facts Facts
		if facts, err = factsOf(next); err == nil && w.root.areas[facts.ID] {
			return next.Close()
		}
	}
	visited := w.visit(v)
	wanted := visited == nil && (w.o.Git || v.name != ".git") && (w.o.Ignored || !v.Ignored) && (depth < w.o.Depth || depth == MaxDepth)
	if wanted && err == nil && depth == MaxDepth {
		err = refuse(LimitExceeded, "%s is deeper than %d levels", v.Path, MaxDepth)
	}
	if wanted && err == nil {
		return w.below(next, v.Path+"/", rules, v.Ignored, depth+1, after)
	}
	if next != nil {
		_ = next.Close() // it was only entered
	}
	if visited != nil && !errors.Is(visited, fs.SkipDir) {
		return visited
	}
	if wanted && !v.Again {
		return w.failed(v.Path+"/", err)
	}
	return nil
}

// failed tells of a directory that cannot be walked; one that is gone is none.
func (w *walk) failed(prefix string, err error) error {
	path := strings.TrimSuffix(prefix, "/")
	if path == "" {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		w.o.Failed(path, reading(err, path))
	}
	return nil
}

// rules adds the ignore files of a directory: its own, and before that the one that a repository keeps apart.
func (w *walk) rules(dir *os.File, prefix string, entries []entry, rules *ignore.Rules) *ignore.Rules {
	has := func(name string) bool {
		_, ok := slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
		return ok
	}
	return rulesIn(dir, strings.TrimSuffix(prefix, "/"), rules, has)
}

// rulesIn reads the ignore files of the directory with this path. One that cannot be read says nothing, as in git.
func rulesIn(dir *os.File, path string, rules *ignore.Rules, has func(name string) bool) *ignore.Rules {
	if has(".git") {
		if info, err := enterAllIn(dir, ".git", "info"); err == nil {
			rules = rules.With(path, ignoreFile(info, "exclude"))
			_ = info.Close() // it was only read from
		}
	}
	if has(".gitignore") {
		rules = rules.With(path, ignoreFile(dir, ".gitignore"))
	}
	return rules
}

// ignoreFile reads an ignore file, which is a regular one.
func ignoreFile(dir *os.File, name string) []byte {
	data, _, err := readSmall(dir, name, nil, maxIgnore)
	if err != nil {
		return nil
	}
	return data
}

// rulesAbove are those of the directories that the place is in.
func (p *Place) rulesAbove() (rules *ignore.Rules, err error) {
	if p.Path == "." {
		return nil, nil
	}
	names := components(p.Path)
	for i := range names {
		dir, err := p.root.enterAll(names[:i])
		if err != nil {
			return nil, err
		}
		rules = rulesIn(dir, strings.Join(names[:i], "/"), rules, func(string) bool { return true })
		_ = dir.Close() // it was only read from
	}
	return rules, nil
}

// sortedEntries lists an open directory in the order of walks. LimitExceeded.
func sortedEntries(dir *os.File) ([]entry, error) {
	f, err := openListing(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := entriesIn(f)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return entries, nil
}
