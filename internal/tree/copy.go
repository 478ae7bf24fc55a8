package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"mcpx/internal/text"
	"mcpx/internal/workspace"
)

const (
	// copyWorkers is how many files are copied at once; more than four gained nothing (durable-work.md section 18).
	copyWorkers = 4
	// copyTries is how often a copy is made of a tree that changes meanwhile.
	copyTries = 2
	// copyBuffer is the memory of one worker.
	copyBuffer = 256 << 10
	// copySmall is the size, in bytes, up to which a file is read at once, and its second copy is in a pack with others.
	copySmall = copyBuffer / 2
	// flushEvery is how many bytes are copied before they are made durable while others are copied: the disk need not wait for
	// the last one.
	flushEvery = 32 << 20
	// maxMoved is how many paths are named that changed while they were copied.
	maxMoved = 10
	// countFrom is the part of a limit from which a copy counts what is to come: what is smaller is copied before it is counted.
	countFrom = 8
)

// CopyOptions say what is copied.
type CopyOptions struct {
	// Skip says why an entry is left out, a directory with all that is below it; "" it is copied. nil: nothing is left out.
	Skip func(Seen) (why string)
	// Only are the paths that are copied, with all that is below them; none: everything is. What is beside them may be anything, and
	// may change.
	Only []string
	// Twice says that a second copy is made of the bytes of a file. It is not asked when there is no directory for them.
	Twice func(path string) bool
	// Refuse says that an entry which cannot be copied is a refusal, and is not only told of; nil: none is.
	Refuse func(path string) bool
	Git    bool   // what is in directories named .git is copied, too
	Setuid bool   // files that run as somebody else are copied, too, as files that do not
	Each   func() // is called after each file, by several goroutines; nil: nothing is
	// Limit bounds the bytes that are really copied, second copies included; 0: nothing does. No file that would exceed it is begun,
	// and a copy that has come to a part of it looks at all that is to come. LimitExceeded.
	Limit int64
}

// Copied is what a copy holds.
type Copied struct {
	Manifest Manifest
	Files    int
	Bytes    int64
	Real     int64     // bytes that are shared with no original, those of second copies included
	Shared   bool      // every file shares its bytes with its original until one of them is written
	Skipped  []Skipped // what was left out
	Linked   []Skipped // files with other names, and links that leave the root
	Noted    Noted     // the files of the copy, for those who look at it later
}

// Skipped is a path and what is to say about it.
type Skipped struct{ Path, Why string }

// CopyTo copies all that is below the root into one directory, and the bytes of some files once more into another one: each
// in a file that has its hash as its name, or in the pack. Both are made; what they are made in exists and is nobody else's;
// without a second one nothing is copied twice. The copy is the tree in one state: what changes meanwhile makes it begin
// again, and then refuse: Moved. When it returns everything is durable. SpecialFile, LimitExceeded, NoSpace, the codes of
// reading.
func (r *Root) CopyTo(ctx context.Context, to, twice string, o CopyOptions) (Copied, error) {
	for try := 1; ; try++ {
		c := r.copier(to, twice, o)
		err := c.run(ctx)
		var m *movedError
		if err == nil || !errors.As(err, &m) {
			return c.out, err
		}
		if try == copyTries {
			shown := make([]string, len(m.paths))
			for i, path := range m.paths {
				shown[i] = text.EncodePath(path)
			}
			return Copied{}, refuse(Moved, "files change while they are copied: %s", strings.Join(shown, ", ")).With("paths", shown).because(err)
		}
		for _, dir := range c.dirs() {
			if err := os.RemoveAll(dir); err != nil { // our own, that nobody has seen
				return Copied{}, writing(err, dir)
			}
		}
	}
}

func (r *Root) copier(to, twice string, o CopyOptions) *copier {
	return &copier{root: r, to: to, twice: twice, o: o, clone: clone, flush: flushAll, seen: map[string]looked{}, due: make(chan struct{}, 1), out: Copied{Shared: true, Noted: Noted{}}}
}

// movedError says that a tree was not the same from the beginning to the end of its copy, and where.
type movedError struct {
	paths []string // at least one, at most maxMoved
	cause error    // nil: they are others than they were
}

func (e *movedError) Error() string {
	return "the tree changed while it was copied: " + strings.Join(e.paths, ", ")
}

func (e *movedError) Unwrap() error { return e.cause }

func movedAt(path string, cause error) error { return &movedError{[]string{path}, cause} }

// copier makes one copy.
type copier struct {
	root      *Root
	to, twice string
	o         CopyOptions
	clone     func(dst, src *os.File) error
	flush     func(dir string) error // makes a file system durable
	seen      map[string]looked      // everything, for the second look
	into      []*heldDir             // directories of the copy: of what the walk comes to, and those that it is in
	pack      *packer                // of second copies; nil: none is made
	plain     atomic.Bool            // files cannot share their bytes here
	due       chan struct{}          // has an element when a flush is due

	mu  sync.Mutex // guards what follows
	out Copied
}

// looked is what was seen of an entry, and whether that is copied.
type looked struct {
	Facts
	left bool // out
}

// dirs are the directories that it makes.
func (c *copier) dirs() []string {
	if c.twice == "" {
		return []string{c.to}
	}
	return []string{c.to, c.twice}
}

func (c *copier) run(ctx context.Context) (err error) {
	for _, dir := range c.dirs() {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return writing(err, dir)
		}
	}
	if c.twice != "" {
		if c.pack, err = newPacker(c.twice); err != nil {
			return writing(err, c.twice)
		}
		defer func() { err = errors.Join(err, writing(c.pack.close(), c.twice)) }()
	}
	ahead := c.flushAhead()
	if err = c.all(ctx); err == nil && c.pack != nil {
		err = writing(c.pack.finish(), c.twice)
	}
	close(c.due)
	if err != nil {
		return errors.Join(err, writing(<-ahead, c.to))
	}
	flushed := make(chan error, 1)
	go func() { flushed <- errors.Join(<-ahead, c.flush(c.to)) }() // while everything is looked at once more: each takes its time
	err = c.again(ctx)
	c.out.Manifest.Sort()
	return errors.Join(err, writing(<-flushed, c.to))
}

// flushAhead makes what is copied durable whenever that is due, until nothing is to come. An error is told once by the system: it
// is one of the whole copy.
func (c *copier) flushAhead() (ended <-chan error) {
	done := make(chan error, 1)
	go func() {
		var err error
		for range c.due {
			err = errors.Join(err, c.flush(c.to))
		}
		done <- err
	}()
	return done
}

// all copies everything.
func (c *copier) all(ctx context.Context) error {
	top, err := openRoot(c.to)
	if err != nil {
		return writing(err, c.to)
	}
	c.into = []*heldDir{c.root.hold(top)}
	defer func() { c.leave(0) }()
	group, copying := errgroup.WithContext(ctx)
	group.SetLimit(copyWorkers)
	buffers := sync.Pool{New: func() any { return make([]byte, copyBuffer) }}
	err = c.root.each(copying, c.o.Git, func(v Visit) error {
		if copying.Err() != nil {
			return context.Cause(copying)
		}
		if c.beside(v.Path) {
			return fs.SkipDir
		}
		seen, err := v.Look()
		if err != nil {
			return movedAt(v.Path, err)
		}
		why := c.leftOut(seen)
		c.seen[v.Path] = looked{seen.Facts, why != ""}
		if why != "" {
			if err := c.refused(v.Path, why); err != nil {
				return err
			}
			c.note(&c.out.Skipped, v.Path, why)
			return fs.SkipDir
		}
		c.leave(strings.Count(v.Path, "/") + 1)
		into := c.into[len(c.into)-1]
		if seen.Kind != File {
			return c.make(v, seen, into)
		}
		release, let := v.Hold(), into.hold()
		group.Go(func() error {
			defer release()
			defer let()
			buf, _ := buffers.Get().([]byte)
			defer buffers.Put(buf) //nolint:staticcheck // a slice of 256 KB: its header is nothing beside it
			err := c.file(copying, v, seen.Facts, into, buf)
			if c.o.Each != nil {
				c.o.Each()
			}
			return err
		})
		return nil
	})
	if failed := group.Wait(); failed != nil {
		return failed
	}
	return err
}

// leave closes directories of the copy, the innermost first, until so many are left.
func (c *copier) leave(left int) {
	for len(c.into) > left {
		c.into[len(c.into)-1].release()
		c.into = c.into[:len(c.into)-1]
	}
}

// beside says whether a path is none of those that are copied, and does not lead to one.
func (c *copier) beside(path string) bool {
	return len(c.o.Only) > 0 && !c.above(path) && !slices.ContainsFunc(c.o.Only, func(o string) bool { return workspace.Below(path, o) })
}

// above says whether a path leads to one that is copied, and is none of them itself: others may change what else is in it.
func (c *copier) above(path string) bool {
	return slices.ContainsFunc(c.o.Only, func(o string) bool { return workspace.Below(o, path) && o != path }) &&
		!slices.ContainsFunc(c.o.Only, func(o string) bool { return workspace.Below(path, o) })
}

// leftOut says why an entry is not copied.
func (c *copier) leftOut(s Seen) string {
	switch {
	case s.mount != c.root.facts.mount:
		return leftMount
	case s.Kind == Other:
		return leftSpecial
	case s.special() && !c.o.Setuid:
		return leftSetuid
	case c.o.Skip != nil:
		return c.o.Skip(s)
	}
	return ""
}

// refused is the refusal of an entry that cannot be copied, where it is one.
func (c *copier) refused(path, why string) error {
	switch {
	case c.o.Refuse == nil || !c.o.Refuse(path):
		return nil
	case why == leftMount:
		return refuse(Unsupported, "%s is on another mount than the project", path).With("mount", path)
	case why == leftSpecial, why == leftSetuid, why == leftUnreadable:
		return refuse(SpecialFile, "%s cannot be copied: it is %s", path, why).With("reason", why)
	}
	return nil
}

// Why an entry is left out.
const (
	leftMount      = "mount"
	leftSpecial    = "special"
	leftSetuid     = "setuid"
	leftUnreadable = "unreadable"
)

func (c *copier) note(list *[]Skipped, path, why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, Skipped{path, why})
}

func (c *copier) add(i Item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Manifest.Items = append(c.out.Manifest.Items, i)
}

// make makes a directory or a link in a directory of the copy.
func (c *copier) make(v Visit, s Seen, into *heldDir) error {
	item := Item{Path: RawPath(v.Path), Kind: s.Kind, Mode: uint32(s.Mode.Perm()), Digest: dirDigest}
	if s.Kind == Directory {
		c.add(item)
		if err := mkdirAt(into.File, v.name, s.Mode.Perm()|0o700); err != nil {
			return writing(err, v.Path)
		}
		dir, err := enter(into.File, v.name)
		if err == nil {
			c.into = append(c.into, c.root.hold(dir))
		}
		return writing(err, v.Path)
	}
	to, err := v.Link()
	if err != nil {
		return movedAt(v.Path, err)
	}
	if leaves(v.Path, to) {
		c.note(&c.out.Linked, v.Path, "symlink_out")
	}
	item.Link, item.Digest, item.Mode = to, LinkDigest(to), 0
	c.add(item)
	return writing(symlinkAt(to, into.File, v.name), v.Path)
}

// file copies one file into a directory of the copy.
func (c *copier) file(ctx context.Context, v Visit, before Facts, into *heldDir, buf []byte) error {
	if before.Links > 1 {
		c.note(&c.out.Linked, v.Path, "hardlink")
	}
	item := Item{Path: RawPath(v.Path), Kind: File, Mode: uint32(before.Mode.Perm()), Size: before.Size}
	if c.plain.Load() && before.Size <= copySmall {
		return c.small(ctx, v, before, into, item, buf)
	}
	src, err := openRegular(v.dir.File, v.name)
	if err != nil {
		return c.unopened(v.Path, err)
	}
	defer src.Close()
	made, shared, err := c.content(ctx, src, v, before, into, &item, buf)
	if err != nil {
		return writing(err, v.Path)
	}
	after, err := factsOf(src)
	if err != nil || !after.same(before) {
		return movedAt(v.Path, err)
	}
	return c.done(item, made, shared)
}

// small copies a file with as few calls of the system as there can be. What it was when it was looked at it still is when it
// is open, and when everything is looked at once more.
func (c *copier) small(ctx context.Context, v Visit, before Facts, into *heldDir, item Item, buf []byte) error {
	data, facts, err := readSmall(v.dir.File, v.name, buf, copySmall)
	if err != nil {
		return c.unopened(v.Path, err)
	}
	if !facts.same(before) || int64(len(data)) != before.Size {
		return movedAt(v.Path, nil)
	}
	if err := c.fits(ctx, v.Path, before.Size); err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	item.Digest = hex.EncodeToString(sum[:])
	made, err := writeSmall(into.File, v.name, data, workable(before), before.Modified)
	if err != nil {
		return writing(err, v.Path)
	}
	if c.second(v.Path) {
		if err := c.pack.add(sum, data); err != nil {
			return writing(err, v.Path)
		}
	}
	return c.done(item, made, before.Size == 0)
}

// workable are the permissions of a copy: whoever works there may write to it, whatever the original says.
func workable(f Facts) fs.FileMode { return f.Mode.Perm() | 0o600 }

// second says whether the bytes of a file are kept once more.
func (c *copier) second(path string) bool {
	return c.pack != nil && c.o.Twice != nil && c.o.Twice(path)
}

// unopened is what it means that a file cannot be opened.
func (c *copier) unopened(path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return movedAt(path, err)
	}
	if err := c.refused(path, leftUnreadable); err != nil {
		return err
	}
	c.note(&c.out.Skipped, path, leftUnreadable)
	return nil
}

// done notes a file that was copied, and what its copy is.
func (c *copier) done(item Item, made Facts, shared bool) error {
	s := noted{inode: inodeOf(made)}
	if _, err := hex.Decode(s.sum[:], []byte(item.Digest)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Noted[string(item.Path)] = s
	c.out.Manifest.Items = append(c.out.Manifest.Items, item)
	c.out.Files++
	c.out.Bytes += item.Size
	c.out.Shared = c.out.Shared && shared
	return nil
}

// fits counts the bytes of a file that is about to be copied.
func (c *copier) fits(ctx context.Context, path string, size int64) error {
	if c.second(path) {
		size *= 2
	}
	c.mu.Lock()
	before := c.out.Real
	c.out.Real += size
	c.mu.Unlock()
	passed := func(mark int64) bool { return before/mark != (before+size)/mark }
	if passed(flushEvery) {
		select {
		case c.due <- struct{}{}:
		default: // it is told to already
		}
	}
	switch {
	case c.o.Limit <= 0:
		return nil
	case before+size > c.o.Limit:
		return c.tooMuch()
	case before <= c.o.Limit/countFrom && before+size > c.o.Limit/countFrom && c.plain.Load():
		return c.count(ctx)
	}
	return nil
}

func (c *copier) tooMuch() error { return tooLarge("what is to be copied", c.o.Limit) }

// count refuses a copy of which all together is too much, before most of it is made.
func (c *copier) count(ctx context.Context) error {
	var all int64
	return c.root.each(ctx, c.o.Git, func(v Visit) error {
		if c.beside(v.Path) {
			return fs.SkipDir
		}
		seen, err := v.Look()
		if err != nil || c.leftOut(seen) != "" {
			return fs.SkipDir // what has moved is found by the copy
		}
		if seen.Kind == File {
			if all += seen.Size; c.second(v.Path) {
				all += seen.Size
			}
		}
		if all > c.o.Limit {
			return c.tooMuch()
		}
		return nil
	})
}

// content copies the bytes of an open file, and gives the item the hash of our copy, and what that is.
func (c *copier) content(ctx context.Context, src *os.File, v Visit, before Facts, into *heldDir, item *Item, buf []byte) (made Facts, shared bool, err error) {
	dst, err := create(into.File, v.name)
	if err != nil {
		return made, false, err
	}
	defer dst.Close()
	var second *os.File
	if c.second(v.Path) {
		if second, err = os.CreateTemp(c.twice, ".copy-*"); err != nil {
			return made, false, err
		}
		defer second.Close()
	}
	sum := sha256.New()
	shared = before.Size == 0
	if !shared && !c.plain.Load() {
		if shared, err = c.share(src, dst, second); err != nil {
			return made, false, err
		}
	}
	if shared {
		_, err = io.CopyBuffer(struct{ io.Writer }{sum}, canceled{ctx, dst}, buf)
	} else if err = c.fits(ctx, v.Path, before.Size); err == nil {
		err = copyBytes(ctx, src, sum, dst, second, buf)
	}
	if err != nil {
		return made, shared, err
	}
	item.Digest = hex.EncodeToString(sum.Sum(nil))
	if second != nil {
		if err := os.Rename(second.Name(), filepath.Join(c.twice, item.Digest)); err != nil {
			return made, shared, err
		}
	}
	if err := dst.Chmod(workable(before)); err != nil {
		return made, shared, err
	}
	// Its time is kept for programs that compare times.
	if err := os.Chtimes(filepath.Join(c.to, v.Path), before.Modified, before.Modified); err != nil {
		return made, shared, err
	}
	made, err = factsOf(dst)
	return made, shared, err
}

// share lets new files share the bytes of another one, all of them or none; second may be nil. One that cannot be shared, for
// what it is or at this moment, says nothing of the others.
func (c *copier) share(src, dst, second *os.File) (bool, error) {
	err := c.clone(dst, src)
	if err == nil && second != nil {
		err = c.clone(second, src)
	}
	if err == nil {
		return true, nil
	}
	if isUncloned(err) {
		c.plain.Store(true)
	}
	return false, dst.Truncate(0)
}

func copyBytes(ctx context.Context, src *os.File, sum hash.Hash, dst, second *os.File, buf []byte) error {
	to := io.MultiWriter(dst, sum)
	if second != nil {
		to = io.MultiWriter(dst, second, sum)
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, canceled{ctx, src}, buf)
	return err
}

// again looks at everything once more: the copy is of one instant if nothing of it was touched from its first to its last
// file.
func (c *copier) again(ctx context.Context) error {
	var paths []string
	err := c.root.each(ctx, c.o.Git, func(v Visit) error {
		if c.beside(v.Path) {
			return fs.SkipDir
		}
		before, known := c.seen[v.Path]
		delete(c.seen, v.Path)
		now, err := v.Look()
		gone := !known || err != nil
		if gone || !now.same(before.Facts) && (!c.above(v.Path) || now.ID != before.ID) {
			if paths = append(paths, v.Path); len(paths) == maxMoved {
				return fs.SkipAll
			}
		}
		if gone || before.left {
			return fs.SkipDir
		}
		return nil
	})
	for path := range c.seen { // what is there no more
		if len(paths) < maxMoved {
			paths = append(paths, path)
		}
	}
	if err == nil && len(paths) > 0 {
		slices.Sort(paths)
		err = &movedError{paths: paths}
	}
	return err
}

// leaves says whether a link at a path leads out of the root, by its text.
func leaves(at, text string) bool {
	to := path.Join(path.Dir(at), text)
	return strings.HasPrefix(text, "/") || to == ".." || strings.HasPrefix(to, "../")
}
