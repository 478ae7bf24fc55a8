package atomicfile

import (
	"context"
	"errors"
	"io/fs"

	"mcpx/internal/crash"
)

// Verdict says what a swap has left.
type Verdict struct {
	At   At
	Kept string // a file with bytes of somebody else that could not stay under their name
}

// At says which of the states of a swap the target is in.
type At string

// The places.
const (
	AtOld   At = "old"
	AtNew   At = "new"
	AtOther At = "other" // neither: the bytes are somebody else's
)

// Decide says where a swap has come that was killed or failed somewhere, and its reverse with it. Bytes of others that it
// had displaced and not yet looked at go back to their name. Afterwards the staged name has the old file when the target
// is new, as after Run, or no file at all. It goes by what is on the disk alone, so it may be killed and called again.
func (s Swap) Decide(ctx context.Context) (Verdict, error) {
	if err := s.Tidy(ctx); err != nil {
		return Verdict{}, err
	}
	staged, err := s.settle(ctx, s.Staged)
	foreign := errors.Is(err, ErrIrregular) || errors.Is(err, ErrOpen)
	if err != nil && !foreign {
		return Verdict{}, err
	}
	target, at, err := s.where()
	if err != nil {
		return Verdict{}, err
	}
	if foreign || !staged.Absent && !s.Old.Is(staged) && !s.New.Is(staged) {
		return s.returned(ctx, target, at)
	}
	if s.Hold || staged.Absent || at == AtNew && !s.Old.Absent && s.Old.Is(staged) {
		err := s.sync() // a process that was killed may have put it there
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // a directory that is gone has no names
		}
		return Verdict{At: at}, err
	}
	// Our own, or the old file, of which there is a backup.
	if err := s.Disk.Remove(s.Staged); err != nil {
		return Verdict{}, err
	}
	crash.Point("apply.unstaged")
	return Verdict{At: at}, s.sync()
}

// Tidy removes what a swap that was killed has beside its two names: a file that was not staged whole, and the second name
// of the old file.
func (s Swap) Tidy(ctx context.Context) error {
	if err := s.dropFresh(); err != nil {
		return err
	}
	return s.oneName(ctx)
}

// where looks at the target.
func (s Swap) where() (Content, At, error) {
	c, err := s.Disk.Read(s.Target)
	switch {
	case errors.Is(err, ErrIrregular), errors.Is(err, ErrTooLarge), errors.Is(err, ErrBusy):
		return c, AtOther, nil
	case err != nil:
		return c, "", err
	case s.New.Is(c):
		return c, AtNew, nil
	case s.Old.Is(c):
		return c, AtOld, nil
	}
	return c, AtOther, nil
}

// returned gives bytes of somebody else, which lie under the staged name, back to the target if that holds ours.
func (s Swap) returned(ctx context.Context, target Content, at At) (Verdict, error) {
	var done Done
	var err error
	back, _ := s.Disk.Read(s.Staged) // one that is no regular file is put back like others
	switch {
	case at == AtOther: // newer ones of somebody else
		done, err = s.keep(nil)
	case target.Absent:
		err = s.rename(s.Staged, s.Target)
		if errors.Is(err, fs.ErrExist) {
			done, err = s.keep(nil)
		} else if err == nil {
			done, err = s.guard(ctx, back, Done{}, nil)
		}
	default:
		done, err = s.giveBack(ctx, target, nil)
		if errors.Is(err, ErrNoExchange) {
			if err = s.Disk.Replace(s.Staged, s.Target); err == nil {
				done, err = s.guard(ctx, back, Done{}, nil)
			}
		}
	}
	if err != nil {
		return Verdict{Kept: done.Kept}, err
	}
	crash.Point("apply.returned")
	if err := s.sync(); err != nil {
		return Verdict{Kept: done.Kept}, err
	}
	_, at, err = s.where()
	return Verdict{At: at, Kept: done.Kept}, err
}

// oneName undoes the second name that the old file has for a moment where nothing can be exchanged.
func (s Swap) oneName(ctx context.Context) error {
	second := s.Staged + secondName
	c, err := s.Disk.Read(second)
	if err != nil || c.Absent {
		return err
	}
	if same, err := s.targetIs(second); err != nil || same {
		if err == nil {
			err = s.Disk.Remove(second)
		}
		return err
	}
	staged, err := s.settle(ctx, s.Staged)
	if err != nil {
		return err
	}
	switch {
	case staged.Absent:
	case !s.New.Is(staged):
		_, err = s.keep(nil)
	case s.Hold: // our own was never put in place: beside it the old file would look like one that came out of an exchange
		_, err = s.keepFrom(second, nil)
		return err
	default:
		err = s.Disk.Remove(s.Staged)
	}
	if err != nil {
		return err
	}
	return s.Disk.Replace(second, s.Staged)
}
