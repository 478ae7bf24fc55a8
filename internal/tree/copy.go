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
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

const (
	// copyWorkers is how many files are copied at once; more than four gained nothing (durable-work.md section 18).
	copyWorkers = 4
	// copyTries is how often a copy is made of a tree that changes meanwhile.
	copyTries = 2
	// copyBuffer is the memory of one worker.
	copyBuffer = 256 << 10
)

// CopyOptions say what is copied.
type CopyOptions struct {
	// Skip says why an entry is left out, a directory with all that is below it; "" it is copied. nil: nothing is left out.
	Skip func(Seen) (why string)
	// Twice says that a second copy is made of the bytes of a file; nil: of none.
	Twice func(path string) bool
	// Refuse says that an entry which cannot be copied is a refusal, and is not only told of; nil: none is.
	Refuse func(path string) bool
	Git    bool   // what is in directories named .git is copied, too
	Setuid bool   // files that run as somebody else are copied, too, as files that do not
	Each   func() // is called after each file, by several goroutines; nil: nothing is
	// Limit bounds the bytes that are really copied; 0: nothing does. No file that would exceed it is begun. LimitExceeded.
	Limit int64
}

// Copied is what a copy holds.
type Copied struct {
	Manifest Manifest
	Files    int
	Bytes    int64
	Shared   bool      // every file shares its bytes with its original until one of them is written
	Skipped  []Skipped // what was left out
	Linked   []Skipped // files with other names, and links that leave the root
}

// Skipped is a path and what is to say about it.
type Skipped struct{ Path, Why string }

// CopyTo copies all that is below the root into one directory, and the bytes of some files once more into another one, each
// under its hash. Both are made; what they are made in exists and is nobody else's. The copy is the tree in one state: what
// changes meanwhile makes it begin again, and then refuse: Moved. SpecialFile, LimitExceeded, NoSpace, the codes of reading.
func (r *Root) CopyTo(ctx context.Context, to, twice string, o CopyOptions) (Copied, error) {
	for try := range copyTries {
		c := &copier{root: r, to: to, twice: twice, o: o, seen: map[string]Facts{}, out: Copied{Shared: true}}
		err := c.run(ctx)
		if err == nil || !errors.Is(err, errMoved) {
			return c.out, err
		}
		if try == copyTries-1 {
			break
		}
		for _, dir := range []string{to, twice} {
			if err := os.RemoveAll(dir); err != nil { // our own, that nobody has seen
				return Copied{}, writing(err, dir)
			}
		}
	}
	return Copied{}, refuse(Moved, "files change while they are copied").because(errMoved)
}

// errMoved says that a tree was not the same from the beginning to the end of its copy.
var errMoved = errors.New("the tree changed while it was copied")

// copier makes one copy.
type copier struct {
	root      *Root
	to, twice string
	o         CopyOptions
	seen      map[string]Facts // of everything that was looked at, for the second look

	mu     sync.Mutex // guards what follows
	out    Copied
	copied int64 // bytes that are shared with no original
}

func (c *copier) run(ctx context.Context) error {
	for _, dir := range []string{c.to, c.twice} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return writing(err, dir)
		}
	}
	group, copying := errgroup.WithContext(ctx)
	group.SetLimit(copyWorkers)
	buffers := sync.Pool{New: func() any { return make([]byte, copyBuffer) }}
	err := c.root.each(copying, c.o.Git, func(v Visit) error {
		if copying.Err() != nil {
			return context.Cause(copying)
		}
		seen, err := v.Look()
		if err != nil {
			return errors.Join(errMoved, err)
		}
		c.seen[v.Path] = seen.Facts
		if why := c.leftOut(seen); why != "" {
			if err := c.refused(v.Path, why); err != nil {
				return err
			}
			c.note(&c.out.Skipped, v.Path, why)
			return fs.SkipDir
		}
		if seen.Kind != File {
			return c.make(v, seen)
		}
		release := v.Hold()
		group.Go(func() error {
			defer release()
			buf, _ := buffers.Get().([]byte)
			defer buffers.Put(buf) //nolint:staticcheck // a slice of 256 KB: its header is nothing beside it
			err := c.file(copying, v, seen.Facts, buf)
			if c.o.Each != nil {
				c.o.Each()
			}
			return err
		})
		return nil
	})
	if failed := group.Wait(); failed != nil {
		err = failed
	}
	if err == nil {
		err = c.again(ctx)
	}
	if err != nil {
		return err
	}
	c.out.Manifest.Sort()
	return writing(flushAll(c.to), c.to)
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

// make makes a directory or a link.
func (c *copier) make(v Visit, s Seen) error {
	item := Item{Path: RawPath(v.Path), Kind: s.Kind, Mode: uint32(s.Mode.Perm()), Digest: dirDigest}
	if s.Kind == Directory {
		c.add(item)
		return writing(os.Mkdir(filepath.Join(c.to, v.Path), s.Mode.Perm()|0o700), v.Path)
	}
	text, err := v.Link()
	if err != nil {
		return errors.Join(errMoved, err)
	}
	if leaves(v.Path, text) {
		c.note(&c.out.Linked, v.Path, "symlink_out")
	}
	item.Link, item.Digest, item.Mode = text, LinkDigest(text), 0
	c.add(item)
	return writing(os.Symlink(text, filepath.Join(c.to, v.Path)), v.Path)
}

// file copies one file.
func (c *copier) file(ctx context.Context, v Visit, before Facts, buf []byte) error {
	if before.Links > 1 {
		c.note(&c.out.Linked, v.Path, "hardlink")
	}
	src, err := openRegular(v.dir.File, v.name)
	if errors.Is(err, fs.ErrPermission) {
		if err := c.refused(v.Path, leftUnreadable); err != nil {
			return err
		}
		c.note(&c.out.Skipped, v.Path, leftUnreadable)
		return nil
	}
	if err != nil {
		return errors.Join(errMoved, err)
	}
	defer src.Close()
	item, shared, err := c.content(ctx, src, v.Path, before, buf)
	if err != nil {
		return writing(err, v.Path)
	}
	after, err := factsOf(src)
	if err != nil || !after.same(before) {
		return errors.Join(errMoved, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Manifest.Items = append(c.out.Manifest.Items, item)
	c.out.Files++
	c.out.Bytes += item.Size
	c.out.Shared = c.out.Shared && shared
	return nil
}

// fits counts the bytes of a file that is about to be copied.
func (c *copier) fits(size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.copied += size
	if c.o.Limit > 0 && c.copied > c.o.Limit {
		return tooLarge("what is to be copied", c.o.Limit)
	}
	return nil
}

// content copies the bytes, and gives the hash of our copy.
func (c *copier) content(ctx context.Context, src *os.File, path string, facts Facts, buf []byte) (Item, bool, error) {
	item := Item{Path: RawPath(path), Kind: File, Mode: uint32(facts.Mode.Perm()), Size: facts.Size}
	dst, err := os.OpenFile(filepath.Join(c.to, path), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return item, false, err
	}
	defer dst.Close()
	var second *os.File
	if c.o.Twice != nil && c.o.Twice(path) {
		if second, err = os.CreateTemp(c.twice, ".copy-*"); err != nil {
			return item, false, err
		}
		defer second.Close()
	}
	sum := sha256.New()
	shared := facts.Size == 0 || clone(dst, src) == nil && (second == nil || clone(second, src) == nil)
	if shared {
		_, err = io.CopyBuffer(struct{ io.Writer }{sum}, canceled{ctx, dst}, buf)
	} else if err = c.fits(facts.Size); err == nil {
		err = c.bytes(ctx, dst, second, src, sum, buf)
	}
	if err != nil {
		return item, shared, err
	}
	item.Digest = hex.EncodeToString(sum.Sum(nil))
	if second != nil {
		if err := os.Rename(second.Name(), filepath.Join(c.twice, item.Digest)); err != nil {
			return item, shared, err
		}
	}
	// Whoever works here may write to it, whatever the original says; its time is kept for programs that compare times.
	if err := dst.Chmod(facts.Mode.Perm() | 0o600); err != nil {
		return item, shared, err
	}
	return item, shared, os.Chtimes(dst.Name(), facts.Modified, facts.Modified)
}

func (c *copier) bytes(ctx context.Context, dst, second, src *os.File, sum hash.Hash, buf []byte) error {
	for _, f := range []*os.File{dst, second} { // a clone that succeeded for one of two
		if f != nil {
			if err := f.Truncate(0); err != nil {
				return err
			}
		}
	}
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
	left := len(c.seen)
	err := c.root.each(ctx, c.o.Git, func(v Visit) error {
		before, known := c.seen[v.Path]
		now, err := v.Look()
		if !known || err != nil || !now.same(before) {
			return errors.Join(errMoved, err)
		}
		left--
		if c.leftOut(now) != "" {
			return fs.SkipDir
		}
		return nil
	})
	if err == nil && left != 0 {
		err = errMoved
	}
	return err
}

// leaves says whether a link at a path leads out of the root, by its text.
func leaves(at, text string) bool {
	to := path.Join(path.Dir(at), text)
	return strings.HasPrefix(text, "/") || to == ".." || strings.HasPrefix(to, "../")
}
