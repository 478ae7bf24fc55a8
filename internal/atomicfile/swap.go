package atomicfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"mcpx/internal/crash"
)

// ErrStale says that a file was not what the swap expected. The file is as others left it.
var ErrStale = errors.New("the file has changed")

// State is what a file has to be: absent, or these bytes.
type State struct {
	Absent bool
	SHA256 string // hex
}

// Is says whether a content is in this state.
func (s State) Is(c Content) bool {
	if s.Absent || c.Absent {
		return s.Absent && c.Absent
	}
	return s.SHA256 == c.SHA256
}

// Swap changes one file from one state to another, if it is in the first one at that moment. What somebody else writes
// meanwhile is never lost: it stays under its name, or, when it was displaced by something newer, in a file of its own.
//
// The way: the new bytes are staged beside the target, both names are exchanged, and what came out is looked at, once
// nobody has it open for writing any more. If it is not Old, it goes back. Afterwards Staged holds the old file, so that
// the reverse swap needs no space on the disk; Clean removes it.
type Swap struct {
	Disk   Disk
	Target string // absolute, without links
	Staged string // in the same directory
	Old    State
	New    State
	Data   []byte      // of New
	Perm   fs.FileMode // of a target that does not exist before
	Like   string      // whose mode, owner and attributes a target gets that does not exist before; "" Perm counts
	// Hold says that bytes may be nowhere else than under the staged name: what lies there is left there by a swap that
	// fails, and by Decide. Without it both leave nothing that is not needed.
	Hold bool
	// Guard is how long bytes of others are looked after that a swap displaced for a moment: see guard. 0 they are not.
	Guard time.Duration
}

// Done tells how a swap went.
type Done struct {
	Exchanged bool          // in one step; else with links, and what another process saved within Gap by a rename is lost
	Gap       time.Duration // 0 when exchanged
	// Kept is the file that holds bytes of somebody else, which came in between and could not stay under their name. When
	// there are several it is the newest; Swap.Kept lists all.
	Kept string
}

const (
	// settleWithin bounds the wait for a process that has the displaced file open for writing. Meanwhile the target has
	// the new bytes, so it is short; an editor that keeps its file open has to be told about it anyway.
	settleWithin = time.Second
	// maxTurns bounds how often two files are turned while somebody else goes on replacing the target.
	maxTurns = 16
)

// Run does the swap. With ErrStale, or ErrOpen, the target is as others left it; Done.Kept may be set then, too.
func (s Swap) Run(ctx context.Context) (Done, error) {
	if err := s.stage(ctx); err != nil {
		if now, readErr := s.Disk.Read(s.Target); readErr == nil && !s.Old.Is(now) {
			err = errors.Join(s.stale(), err) // its mode and owner could not be taken over, for example
		}
		return Done{}, errors.Join(err, s.unstage())
	}
	crash.Point("apply.staged")
	own, err := s.Disk.Read(s.Staged)
	var now Content
	if err == nil { // so that others see our bytes for a moment only when the swap is likely to hold
		now, err = s.settle(ctx, s.Target)
	}
	if err == nil && !s.Old.Is(now) {
		err = s.stale()
	}
	if err != nil {
		return Done{}, errors.Join(err, s.unstage())
	}
	var done Done
	switch {
	case s.Old.Absent:
		done, err = s.create()
	case s.New.Absent:
		done, err = s.takeAway(ctx)
	default:
		done, err = s.exchange(ctx, own, now)
	}
	if err != nil {
		return done, err
	}
	crash.Point("apply.swapped")
	return done, s.sync()
}

func (s Swap) stale() error {
	return &fs.PathError{Op: "swap", Path: s.Target, Err: ErrStale}
}

func (s Swap) sync() error { return s.Disk.SyncDir(filepath.Dir(s.Target)) }

// stage makes the new file, unless the reverse swap left it there.
func (s Swap) stage(ctx context.Context) error {
	there, err := s.Disk.Read(s.Staged)
	if err != nil {
		return err
	}
	if s.New.Absent {
		if there.Absent {
			return nil
		}
		return &fs.PathError{Op: "stage", Path: s.Staged, Err: fs.ErrExist}
	}
	if !there.Absent {
		if settled, err := s.settle(ctx, s.Staged); err != nil || s.New.Is(settled) {
			return err
		}
		return &fs.PathError{Op: "stage", Path: s.Staged, Err: fs.ErrExist}
	}
	like := s.Like
	if !s.Old.Absent {
		like = s.Target
	}
	// Under a name of its own while it is written: so a file with the staged name is whole, whoever wrote it.
	fresh := s.Staged + freshName
	if err := s.Disk.Stage(fresh, s.Data, like, s.Perm); err != nil {
		return errors.Join(err, s.dropFresh())
	}
	crash.Point("apply.filled")
	if err := s.Disk.Replace(fresh, s.Staged); err != nil {
		return errors.Join(err, s.dropFresh())
	}
	return nil
}

// freshName ends the name of a staged file while it is written.
const freshName = "-new"

// dropFresh removes a file that was not staged whole.
func (s Swap) dropFresh() error {
	err := s.Disk.Remove(s.Staged + freshName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unstage removes a staged file that was never exchanged. One that holds something else stays: then the system did what
// it said it could not.
func (s Swap) unstage() error {
	if c, err := s.Disk.Read(s.Staged); err != nil || s.Hold || s.New.Absent || c.Absent || !s.New.Is(c) {
		return err
	}
	return s.Disk.Remove(s.Staged)
}

func (s Swap) settle(ctx context.Context, path string) (Content, error) {
	ctx, stop := context.WithTimeout(ctx, settleWithin)
	defer stop()
	return s.Disk.Settle(ctx, path)
}

// create moves the new file to a name that nobody has.
func (s Swap) create() (Done, error) {
	err := s.Disk.Move(s.Staged, s.Target)
	exchanged := !errors.Is(err, ErrNoExchange)
	if !exchanged { // a link replaces nothing either
		if err = s.Disk.Link(s.Staged, s.Target); err == nil {
			err = s.Disk.Remove(s.Staged)
		}
	}
	if err == nil {
		return Done{Exchanged: exchanged}, nil
	}
	if errors.Is(err, fs.ErrExist) {
		err = s.stale()
	}
	return Done{}, errors.Join(err, s.unstage())
}

// takeAway moves the file to the staged name and looks at it there.
func (s Swap) takeAway(ctx context.Context) (Done, error) {
	done, err := Done{Exchanged: true}, s.Disk.Move(s.Target, s.Staged)
	if errors.Is(err, ErrNoExchange) {
		done, err = s.unlink()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = s.stale()
	}
	if err != nil {
		return done, err
	}
	crash.Point("apply.taken-away")
	out, err := s.settle(ctx, s.Staged)
	if err == nil && s.Old.Is(out) {
		return done, nil
	}
	if err == nil || errors.Is(err, ErrIrregular) {
		err = s.stale()
	}
	back := s.rename(s.Staged, s.Target)
	if back == nil {
		crash.Point("apply.given-back")
		return s.guard(ctx, out, Done{}, errors.Join(err, s.sync()))
	}
	if !errors.Is(back, fs.ErrExist) {
		return Done{Kept: s.Staged}, errors.Join(err, back)
	}
	return s.keep(err) // somebody has made a new one
}

// unlink does what takeAway does where a move could replace something.
func (s Swap) unlink() (Done, error) {
	if err := s.Disk.Link(s.Target, s.Staged); err != nil {
		return Done{}, err
	}
	start := time.Now()
	if same, err := s.targetIs(s.Staged); err != nil || !same {
		if err == nil {
			err = s.stale()
		}
		return Done{}, errors.Join(err, s.Disk.Remove(s.Staged))
	}
	if err := s.Disk.Remove(s.Target); err != nil {
		done, dropErr := s.dropSecond(s.Staged)
		return done, errors.Join(err, dropErr)
	}
	return Done{Gap: time.Since(start)}, nil
}

// targetIs says whether the target is the same file as another name. The target is looked at last.
func (s Swap) targetIs(name string) (bool, error) {
	other, err := s.Disk.Read(name)
	if err != nil {
		return false, err
	}
	now, err := s.Disk.Read(s.Target)
	return !now.Absent && !other.Absent && now.Identity == other.Identity, err
}

// exchange replaces the file. own is the staged file, now the target as it was just before.
func (s Swap) exchange(ctx context.Context, own, now Content) (Done, error) {
	err := s.Disk.Exchange(s.Staged, s.Target)
	if errors.Is(err, ErrNoExchange) {
		return s.replace(ctx, now)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = s.stale()
	}
	if err != nil {
		return Done{}, errors.Join(err, s.unstage())
	}
	crash.Point("apply.exchanged")
	out, err := s.settle(ctx, s.Staged)
	if err == nil && s.Old.Is(out) && out.Mode == own.Mode {
		return Done{Exchanged: true}, nil
	}
	if err == nil || errors.Is(err, ErrIrregular) {
		err = s.stale()
	}
	return s.giveBack(ctx, own, err)
}

// giveBack ends a swap that displaced something else than it expected: it lies under the staged name, and own, our file,
// under the target or replaced by something newer. The two names are exchanged until what comes out is what was put
// there the turn before: then nobody has written in between, and the target has what others wrote last.
func (s Swap) giveBack(ctx context.Context, own Content, cause error) (Done, error) {
	put := own
	for range maxTurns {
		now, err := s.Disk.Read(s.Target)
		if err == nil && (now.Absent || put.Identity == own.Identity && !sameContent(now, own)) {
			return s.keep(cause) // it was removed or replaced after us, and that is the last word
		}
		next, _ := s.Disk.Read(s.Staged) // one that is no regular file has no identity, and is put back like others
		if err := s.Disk.Exchange(s.Staged, s.Target); errors.Is(err, fs.ErrNotExist) {
			return s.keep(cause)
		} else if err != nil {
			return Done{Kept: s.Staged}, errors.Join(cause, err)
		}
		crash.Point("apply.given-back")
		out, err := s.settle(ctx, s.Staged)
		switch {
		case err != nil && !errors.Is(err, ErrIrregular):
			return s.keep(errors.Join(cause, err)) // perhaps somebody writes to our file; the older bytes stay where they are
		case err == nil && sameContent(out, put):
			if put.Identity == own.Identity {
				if !s.Hold {
					cause = errors.Join(cause, s.Disk.Remove(s.Staged))
				}
				return s.guard(ctx, next, Done{}, errors.Join(cause, s.sync()))
			}
			done, err := s.keep(cause)
			return s.guard(ctx, next, done, err)
		}
		put = next
	}
	return s.keep(cause)
}

func sameContent(a, b Content) bool {
	return a.Absent == b.Absent && a.Identity == b.Identity && a.SHA256 == b.SHA256
}

// replace does what exchange does with links: the old file gets a second name, so that it is not lost by the rename.
func (s Swap) replace(ctx context.Context, now Content) (Done, error) {
	second := s.Staged + secondName
	if err := s.Disk.Link(s.Target, second); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = s.stale()
		} else {
			err = fmt.Errorf("%w, and no link to the old file can be made: %w", ErrNoExchange, err)
		}
		return Done{}, errors.Join(err, s.unstage())
	}
	crash.Point("apply.linked")
	old, err := s.settle(ctx, second)
	start := time.Now()
	if err == nil && (!s.Old.Is(old) || old.Mode != now.Mode) {
		err = s.stale()
	}
	if err == nil {
		var same bool
		if same, err = s.targetIs(second); err == nil && !same {
			err = s.stale()
		}
	}
	if err == nil {
		err = s.Disk.Replace(s.Staged, s.Target)
	}
	if err != nil {
		done, dropErr := s.dropSecond(second)
		return done, errors.Join(err, dropErr, s.unstage())
	}
	gap := time.Since(start)
	crash.Point("apply.replaced")
	if err := s.Disk.Replace(second, s.Staged); err != nil { // from here on as after an exchange
		return Done{Kept: second}, err
	}
	old, err = s.settle(ctx, s.Staged)
	if err == nil && s.Old.Is(old) {
		return Done{Gap: gap}, nil
	}
	if err == nil {
		err = s.stale()
	}
	if now, readErr := s.Disk.Read(s.Target); readErr != nil || !s.New.Is(now) {
		return s.keep(errors.Join(err, readErr))
	}
	if back := s.Disk.Replace(s.Staged, s.Target); back != nil {
		return Done{Kept: s.Staged}, errors.Join(err, back)
	}
	return s.guard(ctx, old, Done{}, errors.Join(err, s.sync()))
}

// guardEvery is how often a file that went back is looked at.
const guardEvery = 5 * time.Millisecond

// guard looks after bytes of somebody else that are back under the name of the target. Whoever read the target while they
// were displaced did not see them, and what he makes of that replaces them: then they are kept beside it. A process that is
// killed meanwhile keeps nothing.
func (s Swap) guard(ctx context.Context, back Content, done Done, cause error) (Done, error) {
	if back.Absent || back.SHA256 == "" { // a link or a directory is not made of what was read
		return done, cause
	}
	for until := time.Now().Add(s.Guard); time.Now().Before(until); {
		now, err := s.Disk.Read(s.Target)
		if err != nil || now.SHA256 != back.SHA256 || ctx.Err() != nil {
			return s.keepCopy(back, done, cause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(guardEvery, time.Until(until))):
		}
	}
	return done, cause
}

// keepCopy keeps bytes of somebody else that are under no name any more, beside what is kept already.
func (s Swap) keepCopy(c Content, done Done, cause error) (Done, error) {
	fresh := s.Staged + freshName
	if err := s.Disk.Stage(fresh, c.Data, "", c.Mode); err != nil {
		return done, errors.Join(cause, err, s.dropFresh())
	}
	return s.keepFrom(fresh, cause)
}

// dropSecond removes the second name of the old file. When others have replaced the target meanwhile, and what they
// replaced were no bytes of ours to remove, it is kept.
func (s Swap) dropSecond(second string) (Done, error) {
	same, err := s.targetIs(second)
	if err != nil {
		return Done{Kept: second}, err
	}
	if now, err := s.Disk.Read(second); same || err == nil && !s.Hold && s.Old.Is(now) {
		return Done{}, s.Disk.Remove(second)
	}
	return s.keepFrom(second, nil)
}

// secondName ends the name that the old file has for a moment where nothing can be exchanged.
const secondName = "-old"

// keptName ends the names of files that hold bytes of others, with a number behind it.
const keptName = "-kept"

// maxKept bounds the kept files of one swap; each attempt leaves at most one.
const maxKept = 64

// keep gives the staged file, which holds bytes of somebody else, a name that no swap uses.
func (s Swap) keep(cause error) (Done, error) { return s.keepFrom(s.Staged, cause) }

func (s Swap) keepFrom(from string, cause error) (Done, error) {
	for n := range maxKept {
		name := fmt.Sprintf("%s%s%d", s.Staged, keptName, n)
		err := s.rename(from, name)
		switch {
		case errors.Is(err, fs.ErrExist):
			continue
		case errors.Is(err, fs.ErrNotExist):
			return Done{}, cause
		case err != nil:
			return Done{Kept: from}, errors.Join(cause, err)
		}
		crash.Point("apply.kept")
		return Done{Kept: name}, errors.Join(cause, s.sync())
	}
	return Done{Kept: from}, cause
}

// Kept lists the files with bytes of others that this swap, or its reverse, has kept.
func (s Swap) Kept() []string {
	var all []string
	for n := range maxKept {
		name := fmt.Sprintf("%s%s%d", s.Staged, keptName, n)
		if c, err := s.Disk.Read(name); err != nil || !c.Absent {
			all = append(all, name)
		}
	}
	return all
}

// rename renames a file that only a swap knows of, and replaces nothing.
func (s Swap) rename(from, to string) error {
	err := s.Disk.Move(from, to)
	if !errors.Is(err, ErrNoExchange) {
		return err
	}
	if err := s.Disk.Link(from, to); err != nil {
		return err
	}
	return s.Disk.Remove(from)
}

// Clean removes the displaced file after a swap. What is in it is in Old's backup; if somebody has written to it after
// all, it is kept and named.
func (s Swap) Clean(ctx context.Context) (kept string, err error) {
	c, err := s.settle(ctx, s.Staged)
	switch {
	case err == nil && c.Absent:
		return "", nil
	case err == nil && s.Old.Is(c):
		if err := s.Disk.Remove(s.Staged); err != nil {
			return "", err
		}
		crash.Point("apply.cleaned")
		return "", s.sync()
	}
	done, err := s.keep(err)
	return done.Kept, err
}

// Reverse is the swap that takes this one back. data are the bytes of Old.
func (s Swap) Reverse(data []byte) Swap {
	r := s
	r.Old, r.New, r.Data = s.New, s.Old, data
	return r
}
