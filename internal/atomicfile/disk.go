package atomicfile

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// What the file work of a swap may fail with, beside the errors of the system.
var (
	// ErrNoExchange says that the file system cannot exchange two names, or move one without replacing.
	ErrNoExchange = errors.New("the file system cannot exchange two names")
	// ErrIrregular says that a name leads to something else than a regular file: a link, a directory, a pipe.
	ErrIrregular = errors.New("it is no regular file")
	// ErrOpen says that some process keeps a file open for writing.
	ErrOpen = errors.New("another process has it open for writing")
	// ErrTooLarge says that a file is above MaxContent.
	ErrTooLarge = errors.New("it is too large")
	// ErrBusy says that a file changes as often as it is read.
	ErrBusy = errors.New("it changes all the time")
)

// MaxContent bounds a file that is read whole, in bytes: as much as the editors of package clientfile take.
const MaxContent = 16 << 20

// Content is a file as it was in one moment.
type Content struct {
	Absent bool
	Data   []byte
	SHA256 string // hex, of Data
	Facts
}

// Facts are what the system knows about a file beside its bytes.
type Facts struct {
	Identity  string      // device and inode, as "8:1234"; "" the system does not tell
	Mode      fs.FileMode // permission bits
	Links     uint64      // names of this file; 0 the system does not tell
	Owner     int         // user id; -1 the system does not tell
	Immutable bool        // a flag forbids every change, even to the owner
}

// Disk is the file work of a swap, so that a test can let each step fail or be the last. OS is the real one. No method
// follows a symbolic link in the last part of a name.
type Disk interface {
	// Read reads a file in one state.
	Read(path string) (Content, error)
	// Settle reads a file that nobody has open for writing, and waits for that until ctx is done: then ErrOpen.
	Settle(ctx context.Context, path string) (Content, error)
	// Stage makes a file that does not exist, with mode, owner, attributes and access list of the file at like, or with
	// perm when like is "", and makes its bytes durable.
	Stage(path string, data []byte, like string, perm fs.FileMode) error
	// Exchange gives each of two names the file of the other one, in one step. ErrNoExchange.
	Exchange(a, b string) error
	// Move renames a file and replaces nothing: fs.ErrExist. ErrNoExchange.
	Move(from, to string) error
	// Link gives a file another name and replaces nothing.
	Link(from, to string) error
	// Replace renames a file over another one.
	Replace(from, to string) error
	Remove(path string) error
	Mkdir(path string, perm fs.FileMode) error
	SyncDir(path string) error
}

// OS is the disk of this machine. The zero value is ready.
type OS struct{}

var _ Disk = OS{}

// maxReads bounds the tries on a file that changes while it is read.
const maxReads = 5

// Read reads a file in one state: size, time and identity are the same before and after.
func (OS) Read(path string) (Content, error) {
	for range maxReads {
		f, err := openRegular(path)
		if errors.Is(err, fs.ErrNotExist) {
			return Content{Absent: true}, nil
		}
		if err != nil {
			return Content{}, err
		}
		c, same, err := readOnce(f, path)
		if err := errors.Join(err, f.Close()); err != nil {
			return Content{}, err
		}
		if same {
			return c, nil
		}
	}
	return Content{}, &fs.PathError{Op: "read", Path: path, Err: ErrBusy}
}

// readOnce reads an open file. False: it changed meanwhile, or the name leads to another one now.
func readOnce(f *os.File, path string) (Content, bool, error) {
	before, err := f.Stat()
	if err != nil {
		return Content{}, false, err
	}
	if !before.Mode().IsRegular() { // it took the place of a file after that was looked at; a pipe might be read for ever
		return Content{}, false, &fs.PathError{Op: "read", Path: path, Err: ErrIrregular}
	}
	if before.Size() > MaxContent {
		return Content{}, false, &fs.PathError{Op: "read", Path: path, Err: ErrTooLarge}
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxContent+1))
	if err != nil {
		return Content{}, false, err
	}
	after, err := f.Stat()
	if err != nil {
		return Content{}, false, err
	}
	named, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Content{}, false, err
	}
	same := err == nil && os.SameFile(named, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()) && int64(len(data)) == after.Size()
	facts, err := factsOf(f, after)
	return Content{Data: data, SHA256: Sum(data), Facts: facts}, same, err
}

// Sum is the SHA-256 of data in hex.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// openRegular opens a regular file for reading. It does not wait for a pipe.
func openRegular(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrIrregular}
	}
	return os.OpenFile(path, os.O_RDONLY|noFollow|noWait, 0)
}

// settleEvery is how often a file that is open for writing is looked at: a client writes its file in well under that.
const settleEvery = 5 * time.Millisecond

// Settle reads a file under a lease of the kernel, which there is only while nobody has the file open for writing.
// Somebody who opens it meanwhile waits until it is read. Where there are no leases it is read twice, unwatched apart.
func (OS) Settle(ctx context.Context, path string) (Content, error) {
	for {
		c, err := settled(path)
		if errors.Is(err, fs.ErrNotExist) {
			return Content{Absent: true}, nil
		}
		if !errors.Is(err, ErrOpen) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return Content{}, &fs.PathError{Op: "read", Path: path, Err: ErrOpen}
		case <-time.After(settleEvery):
		}
	}
}

// Stage makes the file. A failure leaves nothing.
func (OS) Stage(path string, data []byte, like string, perm fs.FileMode) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|noFollow, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if like == "" {
		if err := f.Chmod(perm); err != nil {
			return err
		}
		return f.Sync()
	}
	from, err := openRegular(like)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := KeepFacts(f, from); err != nil {
		return fmt.Errorf("keep mode, owner and attributes of %s: %w", like, err)
	}
	return f.Sync()
}

// Exchange gives each of two names the file of the other one.
func (OS) Exchange(a, b string) error { return exchange(cwd, a, cwd, b) }

// Move renames a file and replaces nothing.
func (OS) Move(from, to string) error { return move(cwd, from, cwd, to) }

// Link gives a file another name.
func (OS) Link(from, to string) error { return os.Link(from, to) }

// Replace renames a file over another one.
func (OS) Replace(from, to string) error { return os.Rename(from, to) }

// Remove removes a name.
func (OS) Remove(path string) error { return os.Remove(path) }

// Mkdir makes a directory; one that exists is fine.
func (OS) Mkdir(path string, perm fs.FileMode) error {
	err := os.Mkdir(path, perm)
	if info, statErr := os.Lstat(path); statErr == nil && info.IsDir() && errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// SyncDir makes the names in a directory durable.
func (OS) SyncDir(path string) error { return SyncDir(path) }

// maxLinks is how many links are followed, as by the kernel.
const maxLinks = 40

// ErrLinkLoop says that symbolic links lead back to themselves.
var ErrLinkLoop = errors.New("symbolic links lead in a circle")

// Resolve says where a name leads, whether a file is there or not; links in the last part are followed even when
// nothing is at their end. The directory has to exist: fs.ErrNotExist.
func Resolve(path string) (string, error) {
	for range maxLinks {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, filepath.Base(path))
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // it is no link, or nothing is there
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return "", &fs.PathError{Op: "resolve", Path: path, Err: ErrLinkLoop}
}

// ExchangeAt gives each of two names in open directories the file of the other one, in one step. ErrNoExchange.
func ExchangeAt(dirA *os.File, a string, dirB *os.File, b string) error {
	defer runtime.KeepAlive(dirA)
	defer runtime.KeepAlive(dirB)
	return exchange(int(dirA.Fd()), a, int(dirB.Fd()), b)
}

// MoveAt renames a name in an open directory to one in another, and replaces nothing: fs.ErrExist. ErrNoExchange.
func MoveAt(dirA *os.File, from string, dirB *os.File, to string) error {
	defer runtime.KeepAlive(dirA)
	defer runtime.KeepAlive(dirB)
	return move(int(dirA.Fd()), from, int(dirB.Fd()), to)
}

// settled reads a file that nobody has open for writing: ErrOpen.
func settled(path string) (Content, error) {
	f, err := openRegular(path)
	if err != nil {
		return Content{}, err
	}
	defer f.Close()
	var c Content
	var same bool
	leased, err := Unwritten(f, func() error {
		var err error
		c, same, err = readOnce(f, path)
		return err
	})
	switch {
	case err != nil:
		return Content{}, err
	case !leased:
		return settledTwice(path)
	case !same:
		return Content{}, ErrOpen
	}
	return c, nil
}

// settleApart is the time between two reads of a file where the kernel has no lease to give. A writer that keeps the
// file open longer than that without writing is not noticed there.
const settleApart = 50 * time.Millisecond

// settledTwice reads a file twice and wants the same.
func settledTwice(path string) (Content, error) {
	first, err := (OS{}).Read(path)
	if err != nil {
		return Content{}, err
	}
	time.Sleep(settleApart)
	second, err := (OS{}).Read(path)
	if err != nil {
		return Content{}, err
	}
	if first.SHA256 != second.SHA256 || first.Identity != second.Identity {
		return Content{}, ErrOpen
	}
	return second, nil
}
