// Package faultdisk decides what goes wrong on the disk under an atomicfile.Swap: a step fails, does what it says it could
// not, is the last one of its process, or somebody else writes beside it. Of a process whose system calls it records it tells
// what a failure of the power can leave on the disk. It refuses to know what the steps are for.
//
// Invariant: without a script it is the disk below it.
package faultdisk

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"mcpx/internal/atomicfile"
)

// Step is one call of a disk.
type Step struct {
	N        int // from 0
	Op       string
	Path, To string
}

// Killed is what a script panics with when the process shall end at a step.
type Killed struct{}

// ErrTorn lets a Stage write half of its bytes and end the process.
var ErrTorn = errors.New("torn")

// Disk is a disk with a script. It is for one goroutine.
type Disk struct {
	Under atomicfile.Disk
	// Before and After are called around each step. An error of Before keeps the step from being done, one of After is
	// its result though it was done.
	Before, After func(Step) error
	// NoExchange says that the file system can only link and replace.
	NoExchange bool
	Steps      []Step
}

var _ atomicfile.Disk = (*Disk)(nil)

// Kill runs f and says whether it was ended by Killed.
func Kill(f func()) (killed bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ours := r.(Killed); !ours {
				panic(r)
			}
			killed = true
		}
	}()
	f()
	return false
}

func (d *Disk) do(op, path, to string, f func() error) error {
	s := Step{N: len(d.Steps), Op: op, Path: path, To: to}
	d.Steps = append(d.Steps, s)
	if d.Before != nil {
		if err := d.Before(s); err != nil {
			return err
		}
	}
	err := f()
	if err == nil && d.After != nil {
		err = d.After(s)
	}
	return err
}

// Read reads a file.
func (d *Disk) Read(path string) (c atomicfile.Content, err error) {
	err = d.do("read", path, "", func() error {
		c, err = d.Under.Read(path)
		return err
	})
	return c, err
}

// Settle reads a file that nobody writes to.
func (d *Disk) Settle(ctx context.Context, path string) (c atomicfile.Content, err error) {
	err = d.do("settle", path, "", func() error {
		c, err = d.Under.Settle(ctx, path)
		return err
	})
	return c, err
}

// Stage makes a file.
func (d *Disk) Stage(path string, data []byte, like string, perm fs.FileMode) error {
	err := d.do("stage", path, like, func() error { return d.Under.Stage(path, data, like, perm) })
	if errors.Is(err, ErrTorn) {
		_ = d.Under.Stage(path, data[:len(data)/2], "", perm)
		panic(Killed{})
	}
	return err
}

// Exchange exchanges two names.
func (d *Disk) Exchange(a, b string) error {
	if d.NoExchange {
		return atomicfile.ErrNoExchange
	}
	return d.do("exchange", a, b, func() error { return d.Under.Exchange(a, b) })
}

// Move renames without replacing.
func (d *Disk) Move(from, to string) error {
	if d.NoExchange {
		return atomicfile.ErrNoExchange
	}
	return d.do("move", from, to, func() error { return d.Under.Move(from, to) })
}

// Link gives a second name.
func (d *Disk) Link(from, to string) error {
	return d.do("link", from, to, func() error { return d.Under.Link(from, to) })
}

// Replace renames.
func (d *Disk) Replace(from, to string) error {
	return d.do("replace", from, to, func() error { return d.Under.Replace(from, to) })
}

// Remove removes.
func (d *Disk) Remove(path string) error {
	return d.do("remove", path, "", func() error { return d.Under.Remove(path) })
}

// Mkdir makes a directory.
func (d *Disk) Mkdir(path string, perm fs.FileMode) error {
	return d.do("mkdir", path, "", func() error { return d.Under.Mkdir(path, perm) })
}

// SyncDir makes names durable.
func (d *Disk) SyncDir(path string) error {
	return d.do("sync", path, "", func() error { return d.Under.SyncDir(path) })
}

// Dir is a directory for one test, in memory where the system has a place for that: thousands of renames are a matter of
// seconds there.
func Dir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "mcpx-test-") //nolint:usetesting // that one is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
