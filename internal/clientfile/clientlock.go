package clientfile

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

const (
	// lockWithin bounds the wait for a lock, ours or the client's: a client holds its own for milliseconds.
	lockWithin = 10 * time.Second
	// lockEvery is how often a lock of a client is tried.
	lockEvery = 20 * time.Millisecond
	// refreshEvery is how often our lock says that we live; the client takes over one that is silent for 10 s.
	refreshEvery = time.Second
	// staleAfter is the silence after which a lock belongs to a client that died. It is told about and left there.
	staleAfter = 60 * time.Second
)

// locks are what an apply holds.
type locks struct {
	ours    []*atomicfile.Lock
	clients []*clientLock
	stale   map[string]string // path of a file -> lock of a dead client
}

// lock takes, for all files in one order, our lock and the client's own.
func (f *Files) lock(ctx context.Context, look converge.Look, receipt string, changes []converge.Change) (*locks, error) {
	ctx, stop := context.WithTimeout(ctx, lockWithin)
	defer stop()
	l := &locks{stale: map[string]string{}}
	if err := f.lockOurs(ctx, changes, l); err != nil {
		l.release()
		return nil, err
	}
	for _, c := range changes {
		for _, dir := range clientLocks(c) {
			held, err := lockClient(ctx, dir, receipt)
			if errors.Is(err, errStaleLock) {
				l.stale[c.Path] = dir
				continue
			}
			if err != nil {
				l.release()
				return nil, fault.New(fault.Busy, "config-locked").Saying("%s is locked by its agent", c.Path).
					Hinting("wait until the agent has written it, then try again; the lock is %s", dir).Retrying(fault.AfterWait).Because(err)
			}
			l.clients = append(l.clients, held)
		}
	}
	return l, nil
}

func (f *Files) lockOurs(ctx context.Context, changes []converge.Change, l *locks) error {
	dir := filepath.Join(filepath.Dir(f.cfg.Backups), "locks")
	if err := os.MkdirAll(dir, backupDirMode); err != nil {
		return fault.New(fault.Unavailable, "write-failed").Saying("no locks can be made in %s", dir).Hinting("check its owner and mode").Because(cause(err))
	}
	var names []string
	for _, c := range changes {
		real, err := resolved(c.Path)
		if err != nil {
			real = c.Path // survey says what is wrong
		}
		names = append(names, atomicfile.Sum([]byte(real))[:32]+".lock")
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		held, err := atomicfile.WaitLock(ctx, filepath.Join(dir, name))
		if err != nil {
			return fault.New(fault.Busy, "apply-running").Saying("another plan is written to the same file").Hinting("try again when it is done").Retrying(fault.AfterWait).Because(err)
		}
		l.ours = append(l.ours, held)
	}
	return nil
}

func (l *locks) release() {
	for _, c := range slices.Backward(l.clients) {
		c.release()
	}
	for _, o := range slices.Backward(l.ours) {
		_ = o.Release() // the kernel has it back in any case
	}
}

// notes are what is to be told of the locks of a file.
func (l *locks) notes(c converge.Change) []converge.Note {
	if dir, ok := l.stale[c.Path]; ok {
		return []converge.Note{noteOf("client-lock-stale", "%s was left by an agent that died; it was not removed", dir)}
	}
	return nil
}

// clientLocks are the directories that the agent makes while it writes the file. Claude Code locks the file that its
// name leads to.
func clientLocks(c converge.Change) []string {
	if Agent(c.Agent) != Claude || filepath.Base(c.Path) != ".claude.json" {
		return nil
	}
	all := []string{c.Path + ".lock"}
	if real, err := resolved(c.Path); err == nil && real != c.Path {
		all = append(all, real+".lock")
	}
	return all
}

// clientLock is a lock in the manner of the client: a directory whose time is refreshed while it is held. Ours has a
// fraction of a second in its time that only the receipt has, so that we know it again after a kill.
type clientLock struct {
	dir  string
	mark time.Duration
	stop chan struct{}
	over sync.WaitGroup
}

var errStaleLock = errors.New("the lock was left by a process that died")

func lockClient(ctx context.Context, dir, receipt string) (*clientLock, error) {
	if _, err := os.Lstat(filepath.Dir(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // no directory, no client
	}
	for {
		err := os.Mkdir(dir, 0o755) // as the client does
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > staleAfter {
			return nil, errStaleLock
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lockEvery):
		}
	}
	l := &clientLock{dir: dir, mark: lockMark(receipt), stop: make(chan struct{})}
	l.refresh()
	l.over.Go(func() {
		tick := time.NewTicker(refreshEvery)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
				if !l.own() {
					return // a client thought that we were dead
				}
				l.refresh()
			}
		}
	})
	return l, nil
}

// lockMark is the fraction of a second that the locks of a receipt have in their time.
func lockMark(receipt string) time.Duration {
	sum := sha256.Sum256([]byte(receipt))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%uint64(time.Second-1) + 1)
}

// refresh says that we live. When it fails the lock grows old, and the exchange still loses nothing.
func (l *clientLock) refresh() {
	now := time.Now().Truncate(time.Second).Add(l.mark)
	_ = os.Chtimes(l.dir, now, now)
}

func (l *clientLock) own() bool { return marked(l.dir, l.mark) }

func marked(dir string, mark time.Duration) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir() && time.Duration(info.ModTime().Nanosecond()) == mark
}

func (l *clientLock) release() {
	if l == nil {
		return
	}
	close(l.stop)
	l.over.Wait()
	if l.own() {
		_ = os.Remove(l.dir) // the client takes over what is left
	}
}

// dropOwnLocks removes locks of clients that this receipt took before its daemon was killed.
func (f *Files) dropOwnLocks(_ converge.Look, receipt string, changes []converge.Change) {
	for _, c := range changes {
		for _, dir := range clientLocks(c) {
			if marked(dir, lockMark(receipt)) {
				_ = os.Remove(dir) // the client takes over what is left
			}
		}
	}
}
