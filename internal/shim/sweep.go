//go:build unix

package shim

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mcpx/internal/atomicfile"
	"mcpx/internal/process"
)

// Sweep ends what earlier daemons left below stateDir: a supervisor that lives is asked to carry out its ladder, the
// group of a child whose owner died is killed when its identity is proved, and bundles without an owner are removed.
// With wait it returns when the supervisors have ended, or ctx is over. Only the holder of the owner lock calls it.
// What is no bundle of ours is left alone.
func Sweep(ctx context.Context, stateDir string, wait bool) (ended int, err error) {
	dirs, err := os.ReadDir(filepath.Join(stateDir, "bundles"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var leaving []bundle
	var errs []error
	for _, d := range dirs {
		b := bundle(filepath.Join(stateDir, "bundles", d.Name()))
		r, err := b.readRecord()
		if errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, b.removeUnborn())
			continue
		}
		if err != nil {
			continue // of a newer version, or not ours
		}
		held, err := atomicfile.Held(b.lock())
		switch {
		case err != nil:
			errs = append(errs, err)
		case held:
			if process.Notify(r.Supervisor, sigTerm) {
				ended++
				leaving = append(leaving, b)
			}
		default:
			if r.Child != nil && process.KillOrphans(*r.Child) {
				ended++
				waitGone(*r.Child, groupWait)
			}
			removeSocket(r.Socket)
			errs = append(errs, b.remove())
		}
	}
	for _, b := range leaving {
		if !wait {
			break
		}
		// The supervisor holds its lock until it has ended, and removes the bundle before that.
		lock, err := atomicfile.WaitLock(ctx, b.lock())
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			errs = append(errs, err)
		default:
			errs = append(errs, lock.Release(), b.remove())
		}
	}
	return ended, errors.Join(errs...)
}

// removeUnborn removes a bundle whose supervisor never got as far as its record. One that is on its way there holds
// the lock, and removes the bundle itself when nobody attaches.
func (b bundle) removeUnborn() error {
	if checkOwned(string(b), fs.ModeDir) != nil {
		return nil // not ours
	}
	if held, err := atomicfile.Held(b.lock()); held || err != nil {
		return err
	}
	return b.remove()
}
