package clientfile

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
	"mcpx/internal/crash"
	"mcpx/internal/fault"
)

// Recover decides an apply whose daemon was killed; see converge.Target. It goes by the intents beside the backups and by
// the files, so that it may be killed, too.
func (f *Files) Recover(ctx context.Context, look converge.Look, receipt string, changes []converge.Change) (written []converge.Written, applied bool, problems []converge.Problem, err error) {
	if err := checkReceipt(receipt, len(changes)); err != nil {
		return nil, false, nil, err
	}
	intents, err := f.intents(receipt)
	if err != nil {
		return nil, false, nil, err
	}
	f.dropOwnLocks(look, receipt, changes)
	if len(intents) == 0 || len(intents) != len(changes) {
		return nil, false, nil, f.untouched(look, receipt, changes)
	}
	held, err := f.lock(ctx, look, receipt, changes)
	if err != nil {
		return nil, false, nil, err
	}
	defer held.release()
	jobs := make([]*job, 0, len(intents))
	for n, i := range intents {
		j := &job{change: changes[n], number: n, written: i.Written}
		if j.before, err = f.beforeOf(receipt, i.Written); err != nil {
			return nil, false, nil, err
		}
		j.swap = atomicfile.Swap{
			Disk: f.disk(), Target: i.Written.Real, Staged: i.Staged,
			Old: atomicfile.State{Absent: i.Written.Before.Absent, SHA256: i.Written.Before.SHA256},
			New: atomicfile.State{Absent: i.Written.After.Absent, SHA256: i.Written.After.SHA256}, Guard: guardFor,
		}
		jobs = append(jobs, j)
	}
	applied, err = f.decide(ctx, look, receipt, jobs)
	for _, j := range jobs {
		for _, kept := range j.swap.Kept() { // by this recovery, by one before, or by the apply
			j.keeps(kept)
		}
		problems = append(problems, j.trouble...)
	}
	return writtenOf(jobs), applied, problems, err
}

// untouched fails when an apply without its intents has come to its files all the same: somebody has removed what says how
// far. Nothing is guessed then.
func (f *Files) untouched(look converge.Look, receipt string, changes []converge.Change) error {
	for n, c := range changes {
		real, now, err := f.survey(look, c.Path)
		if err != nil {
			continue // nothing of ours is to be seen there
		}
		staged, err := f.disk().Read(stagedName(real, receipt, n))
		done := len(c.Bound) == 0 && !now.Absent && now.SHA256 == c.Result && c.Result != c.Expected.SHA256
		if done || err == nil && !staged.Absent {
			return fault.New(fault.UnknownOutcome, "backup-damaged").Saying("%s was changed by %s, and what that was going to do is gone from its backups", c.Path, receipt).
				Hinting("compare the file with what is left in %s, and put back by hand what is wrong", filepath.Join(f.cfg.Backups, receipt))
		}
	}
	return nil
}

// decide goes forward when all files have what the apply wanted, else back.
func (f *Files) decide(ctx context.Context, look converge.Look, receipt string, jobs []*job) (applied bool, err error) {
	applied = true
	for _, j := range jobs {
		v, err := j.swap.Decide(ctx)
		j.keeps(v.Kept)
		if err != nil {
			return false, writeFailed(j.change.Path, err)
		}
		crash.Point("apply.decided")
		if v.At == atomicfile.AtOther {
			j.tell("third-party-edit", "another process has written the file since")
		}
		applied = applied && (v.At == atomicfile.AtNew || v.At == atomicfile.AtOther && f.holds(look, receipt, j))
	}
	for _, j := range slices.Backward(jobs) {
		if applied {
			kept, err := j.swap.Clean(ctx)
			j.keeps(kept)
			if err == nil {
				err = f.verifyAgain(look, j)
			}
			if err != nil {
				return false, writeFailed(j.change.Path, err)
			}
			continue
		}
		if _, err := f.back(ctx, j); err != nil {
			return false, writeFailed(j.change.Path, err)
		}
	}
	return applied, nil
}

// verifyAgain fills in what the killed apply could not.
func (f *Files) verifyAgain(look converge.Look, j *job) error {
	j.written.Exchange = "exchange"
	if c, err := f.disk().Read(j.swap.Target); err == nil && !j.swap.New.Is(c) {
		return nil // somebody else's, which is said already
	}
	return f.verify(look, j)
}

// holds says whether a file that somebody else has written has what the steps want, because he started from our bytes.
func (f *Files) holds(look converge.Look, receipt string, j *job) bool {
	now, err := f.disk().Read(j.swap.Target)
	if err != nil || now.Absent {
		return false
	}
	d := converge.Drafting{Agent: j.change.Agent, Path: j.change.Path, Steps: j.change.Steps}
	if d.Reverts, err = f.reverted(j.change); err != nil || d.Reverts != nil {
		return false // what a rollback leaves says nothing of whether it was done
	}
	again, err := f.draft(look, d, now.Data, true)
	if err != nil {
		return fault.From(err).Code == "nothing-to-change"
	}
	return !again.remove && atomicfile.Sum(again.result) == now.SHA256
}

func noteOf(code, format string, args ...any) converge.Note {
	return converge.Note{Code: code, Text: fmt.Sprintf(format, args...)}
}
