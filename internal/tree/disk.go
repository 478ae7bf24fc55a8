package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"time"

	"mcpx/internal/atomicfile"
)

// disk is the file work of a transaction on this machine. Every name is looked up anew from the open root or area, and no
// link is followed, so that nobody can lead a change elsewhere by exchanging a directory on the way.
type disk struct {
	ctx     context.Context
	root    *Root
	txn     *os.File
	trash   *os.File
	deep    bool
	touched map[string]bool
	// whole is a directory of the area when Flush makes the whole file system durable: what a process that was killed has
	// changed, and not flushed, looks like what is durable.
	whole string
}

var _ files = (*disk)(nil)

// errLastName keeps a transaction from removing bytes.
var errLastName = errors.New("it is the last name of these bytes")

// dir opens a directory: "txn", "trash", "at" or one below the root. Where a link or a file is on the way, the directory of
// that name does not exist.
func (d *disk) dir(name string) (*os.File, error) {
	where, path, _ := strings.Cut(name, "/")
	switch where {
	case "txn":
		return enter(d.txn, ".")
	case "trash":
		return enter(d.trash, ".")
	}
	dir, err := d.root.enterAll(components(path))
	if isNotDir(err) || isLoop(err) {
		err = named("open", path, fs.ErrNotExist)
	}
	return dir, err
}

// in does something in the directory of a name.
func (d *disk) in(name string, do func(dir *os.File, base string) error) error {
	end := strings.LastIndexByte(name, '/')
	dir, err := d.dir(name[:end])
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(dir, name[end+1:])
}

// between does something with two names.
func (d *disk) between(a, b string, do func(dirA *os.File, a string, dirB *os.File, b string) error) error {
	return d.in(a, func(dirA *os.File, baseA string) error {
		return d.in(b, func(dirB *os.File, baseB string) error { return do(dirA, baseA, dirB, baseB) })
	})
}

// Deep reads directories with all that is in them.
func (d *disk) Deep() files {
	deep := *d
	deep.deep = true
	return &deep
}

// Read tells what lies under a name. A name in a directory that does not exist is absent.
func (d *disk) Read(name string) (c atomicfile.Content, err error) {
	err = d.in(name, func(dir *os.File, base string) error {
		c, err = d.read(dir, base)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return atomicfile.Content{Absent: true}, nil
	}
	return c, err
}

func (d *disk) read(dir *os.File, base string) (atomicfile.Content, error) {
	facts, err := look(dir, base)
	if err != nil {
		return atomicfile.Content{}, err
	}
	if facts.mount != d.root.facts.mount {
		return atomicfile.Content{}, refuse(Unsupported, "%s is on another mount", base).With("reason", "mount")
	}
	switch facts.Kind {
	case File:
		read, err := stable(d.ctx, dir, base, io.Discard)
		return told(read.Facts, read.SHA256), err
	case Link:
		text, err := readlink(dir, base)
		return told(facts, LinkDigest(text)), err
	case Directory:
		if !d.deep {
			return told(facts, dirDigest), nil
		}
		m, err := freeze(d.ctx, d.root, dir, base, func(Seen) error { return nil })
		return told(facts, m.Digest()), err
	case Other, Absent:
	}
	return told(facts, oddDigest), nil
}

// told is what a swap is told. Permissions are those of files: only these are kept by it.
func told(f Facts, digest string) atomicfile.Content {
	c := atomicfile.Content{SHA256: digest, Facts: atomicfile.Facts{Identity: f.ID.String(), Links: f.Links, Owner: -1}}
	if f.Kind == File {
		c.Mode = f.Mode.Perm()
	}
	return c
}

const (
	// settleEvery is how often a file that somebody has open for writing is looked at, as in package atomicfile.
	settleEvery = 5 * time.Millisecond
	// settleApart is the time between two reads of a file for which the kernel gives no lease.
	settleApart = 50 * time.Millisecond
)

// Settle reads a file that nobody has open for writing, and waits for that until ctx is done: atomicfile.ErrOpen. A directory is
// as it is: who goes on writing to what was in it writes to what is in the trash.
func (d *disk) Settle(ctx context.Context, name string) (atomicfile.Content, error) {
	for {
		c, err := d.settled(ctx, name)
		if !errors.Is(err, atomicfile.ErrOpen) {
			return c, err
		}
		if pause(ctx, settleEvery) != nil {
			return c, err
		}
	}
}

func (d *disk) settled(ctx context.Context, name string) (c atomicfile.Content, err error) {
	leased := false
	err = d.in(name, func(dir *os.File, base string) error {
		facts, err := look(dir, base)
		if err != nil || facts.Kind != File {
			return err
		}
		f, err := openRegular(dir, base)
		if err != nil {
			return err
		}
		defer f.Close() // which gives the lease back, too
		leased, err = atomicfile.Unwritten(f, func() error {
			c, err = d.still(f, dir, base)
			return err
		})
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return atomicfile.Content{Absent: true}, nil
	case err != nil || leased:
		return c, err
	}
	if c, err = d.Read(name); err != nil || !isFile(c.SHA256) {
		return c, err
	}
	if pause(ctx, settleApart) != nil {
		return c, atomicfile.ErrOpen
	}
	again, err := d.Read(name)
	if err == nil && (again.SHA256 != c.SHA256 || again.Identity != c.Identity) {
		err = atomicfile.ErrOpen
	}
	return again, err
}

// still reads an open file that is under a name, and wants it to stay as it is: atomicfile.ErrOpen.
func (d *disk) still(f, dir *os.File, base string) (atomicfile.Content, error) {
	read, same, err := readOpen(d.ctx, f, math.MaxInt64-1, math.MaxInt64, io.Discard)
	if err != nil {
		return atomicfile.Content{}, err
	}
	now, err := look(dir, base)
	if err == nil && (!same || now.ID != read.ID) {
		err = atomicfile.ErrOpen
	}
	return told(read.Facts, read.SHA256), err
}

// Stage is not for a transaction: what is staged is staged before it is dispatched.
func (d *disk) Stage(path string, _ []byte, _ string, _ fs.FileMode) error {
	return fmt.Errorf("%s: %w", path, errNotStaged)
}

// errNotStaged says that somebody has removed what was staged.
var errNotStaged = errors.New("it was staged, and is not there any more")

// Exchange gives each of two names what lies under the other one.
func (d *disk) Exchange(a, b string) error { return d.between(a, b, atomicfile.ExchangeAt) }

// Move renames and replaces nothing.
func (d *disk) Move(from, to string) error { return d.between(from, to, atomicfile.MoveAt) }

// Link gives a second name.
func (d *disk) Link(from, to string) error { return d.between(from, to, linkAt) }

// Replace renames over something. Only where names cannot be exchanged it is over a name of the project, whose bytes have
// a second name then.
func (d *disk) Replace(from, to string) error { return d.between(from, to, renameAt) }

// Remove removes a second name. The last one of a file is never removed.
func (d *disk) Remove(name string) error {
	return d.in(name, func(dir *os.File, base string) error {
		facts, err := look(dir, base)
		if err != nil {
			return err
		}
		if facts.Links < 2 || facts.Kind == Directory {
			return named("unlink", base, errLastName)
		}
		return unlinkAt(dir, base)
	})
}

// Mkdir makes a directory; one that exists is fine.
func (d *disk) Mkdir(name string, perm fs.FileMode) error {
	return d.in(name, func(dir *os.File, base string) error { return ensureDir(dir, base, perm) })
}

// ensureDir makes a directory with these permissions, whatever the umask is; one that exists is fine as it is.
func ensureDir(dir *os.File, name string, perm fs.FileMode) error {
	err := mkdirAt(dir, name, perm)
	if errors.Is(err, fs.ErrExist) {
		if facts, lookErr := look(dir, name); lookErr == nil && facts.Kind == Directory {
			return nil
		}
	}
	if err != nil {
		return err
	}
	made, err := enter(dir, name)
	if err != nil {
		return err
	}
	defer made.Close()
	f, err := openListing(made)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(perm), f.Close())
}

// Rmdir removes an empty directory.
func (d *disk) Rmdir(name string) error { return d.in(name, rmdirAt) }

// Chmod changes the permissions of an open file, if they are the first ones, and makes that durable.
func (d *disk) Chmod(name string, from, to fs.FileMode) error {
	return d.in(name, func(dir *os.File, base string) error {
		f, err := openRegular(dir, base)
		if err != nil {
			return err
		}
		defer f.Close()
		facts, err := factsOf(f)
		if err != nil {
			return err
		}
		if facts.Mode.Perm() != from.Perm() {
			return named("chmod", base, atomicfile.ErrStale)
		}
		return errors.Join(f.Chmod(to.Perm()), f.Sync())
	})
}

// SyncDir notes a directory for Flush: a batch makes each durable once.
func (d *disk) SyncDir(name string) error {
	d.touched[name] = true
	return nil
}

// Flush makes the names in the noted directories durable. One that is gone has none.
func (d *disk) Flush() error {
	if d.whole != "" {
		return flushAll(d.whole)
	}
	for name := range d.touched {
		if err := d.sync(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(d.touched, name)
	}
	return nil
}

func (d *disk) sync(name string) error {
	dir, err := d.dir(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return syncDir(dir)
}

func syncDir(dir *os.File) error {
	f, err := openListing(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
