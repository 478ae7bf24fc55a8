package clientfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
	"mcpx/internal/crash"
	"mcpx/internal/fault"
)

var _ converge.Target = (*Files)(nil)

const (
	// finishWithin bounds an apply from its first write on: the caller may leave then, the files may not be left half
	// done. Most of it is for clients that have a file open.
	finishWithin = 30 * time.Second
	// guardFor is how long a file that a swap has given back is looked after: a client may have read ours in between. It
	// takes milliseconds from its read to its write; more is left to a machine that does much else.
	guardFor = time.Second
	// maxChanges bounds the files of one plan: an agent has some dozens at most.
	maxChanges = 64
)

// job is one file of an apply.
type job struct {
	change  converge.Change
	number  int
	before  atomicfile.Content
	drafted drafted
	written converge.Written
	swap    atomicfile.Swap
	trouble []converge.Problem // what a person has to know of
}

// Apply writes all changes or none; see converge.Target. An error of kind UnknownOutcome says that the files could not be
// put back either: Recover decides then.
func (f *Files) Apply(ctx context.Context, look converge.Look, receipt string, changes []converge.Change, before []converge.Receipt) ([]converge.Written, error) {
	if err := checkReceipt(receipt, len(changes)); err != nil {
		return nil, err
	}
	held, err := f.lock(ctx, look, receipt, changes)
	if err != nil {
		return nil, err
	}
	defer held.release()
	jobs, err := f.prepare(look, receipt, changes, before)
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		j.written.Notes = append(j.written.Notes, held.notes(j.change)...)
		if err := f.keepMoved(ctx, j.drafted.moves); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// From here on the caller may leave, the files may not be left half done.
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), finishWithin)
	defer stop()
	if err := f.backUp(receipt, jobs); err != nil {
		return nil, err
	}
	for i, j := range jobs {
		err := f.swapIn(ctx, look, j)
		if err != nil {
			return f.undo(ctx, jobs[:i+1], err)
		}
	}
	for _, j := range jobs {
		kept, err := j.swap.Clean(ctx)
		j.keeps(kept)
		if err != nil {
			j.note("file-left", "%s could not be removed: %v", filepath.Base(j.swap.Staged), cause(err))
		}
	}
	return writtenOf(jobs), nil
}

func checkReceipt(receipt string, files int) error {
	rest, ok := strings.CutPrefix(receipt, "rcp_")
	if !ok || rest == "" || strings.Trim(rest, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" {
		return fault.New(fault.Invalid, "request-invalid").Saying("%q is no id of a receipt", receipt)
	}
	if files > maxChanges {
		return fault.New(fault.Invalid, "request-invalid").Saying("%d files in one plan, want at most %d", files, maxChanges)
	}
	return nil
}

// prepare reads all files again and drafts the changes anew; nothing is written. The first one that is not as the plan
// expects ends it.
func (f *Files) prepare(look converge.Look, receipt string, changes []converge.Change, own []converge.Receipt) ([]*job, error) {
	jobs := make([]*job, 0, len(changes))
	for i, c := range changes {
		real, before, err := f.survey(look, c.Path)
		if err != nil {
			return nil, err
		}
		j := &job{change: c, number: i, before: before}
		if c.Real != "" && c.Real != real {
			return nil, stale(c).Because(errors.New("it leads to another file"))
		}
		j.drafted, err = f.fits(look, c, before)
		if fault.KindOf(err) == fault.Stale && len(own) > 0 {
			j.drafted, err = f.follow(look, c, real, before, own, err)
		}
		if err != nil {
			return nil, err
		}
		j.plan(real, receipt)
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// fits drafts a change of a content once more and compares everything that the plan depends on.
func (f *Files) fits(look converge.Look, c converge.Change, content atomicfile.Content) (drafted, error) {
	if content.Absent != c.Expected.Absent || len(c.Bound) == 0 && content.SHA256 != c.Expected.SHA256 {
		return drafted{}, stale(c)
	}
	d := converge.Drafting{Agent: c.Agent, Path: c.Path, Steps: c.Steps}
	var err error
	if d.Reverts, err = f.reverted(c); err != nil {
		return drafted{}, err
	}
	dr, err := f.draft(look, d, content.Data, !content.Absent)
	if err != nil {
		if content.SHA256 != c.Expected.SHA256 {
			return drafted{}, stale(c).Because(err) // the entry is not as it was
		}
		return drafted{}, err
	}
	if !sameBound(c.Bound, dr.change.Bound) {
		return drafted{}, stale(c)
	}
	if len(c.Bound) == 0 && dr.state().SHA256 != c.Result {
		return drafted{}, stale(c).Because(errors.New("the change would be another one now"))
	}
	return dr, nil
}

func stale(c converge.Change) *fault.Error {
	return fault.New(fault.Stale, "plan-stale").Saying("%s changed since the plan was made", c.Path).
		Hinting("run `mcpx audit run` again; nothing was written. Plans of one file are applied by one command: `mcpx apply PLAN1 PLAN2`").Retrying(fault.AfterFix)
}

// sameBound compares the parts that the plan depends on with those of the file as it is.
func sameBound(planned, now []converge.Bound) bool {
	return slices.EqualFunc(planned, now, func(a, b converge.Bound) bool {
		return a.Digest == b.Digest && slices.Equal(a.At, b.At)
	})
}

// state is the one that the file shall have.
func (d drafted) state() atomicfile.State {
	if d.remove {
		return atomicfile.State{Absent: true}
	}
	return atomicfile.State{SHA256: atomicfile.Sum(d.result)}
}

// Modes of files that did not exist: a project's are for everybody who works on it.
const (
	ownMode    fs.FileMode = 0o600
	sharedMode fs.FileMode = 0o644
)

// plan fills in what will be written, for the receipt and for a recovery.
func (j *job) plan(real, receipt string) {
	after := j.drafted.state()
	c := j.drafted.change
	j.written = converge.Written{
		Path: j.change.Path, Real: real, Before: expected(j.before), Edits: c.Edits, Diff: c.Diff, Notes: slices.Clone(c.Notes),
		Steps: j.change.Steps, Leaves: c.Leaves,
	}
	perm := ownMode
	if Scope(j.change.Scope) == ScopeProject || j.change.Agent == "" {
		perm = sharedMode
	}
	j.written.After = converge.Expected{Absent: after.Absent, SHA256: after.SHA256}
	if !after.Absent {
		j.written.After.Mode = uint32(perm)
		if !j.before.Absent {
			j.written.After.Mode = uint32(j.before.Mode)
		}
	}
	if !j.before.Absent {
		j.written.Backup = strconv.Itoa(j.number)
	}
	j.swap = atomicfile.Swap{
		Target: real, Staged: stagedName(real, receipt, j.number), Perm: perm,
		Old: atomicfile.State{Absent: j.before.Absent, SHA256: j.before.SHA256}, New: after, Data: j.drafted.result, Guard: guardFor,
	}
}

func expected(c atomicfile.Content) converge.Expected {
	if c.Absent {
		return converge.Expected{Absent: true}
	}
	return converge.Expected{SHA256: c.SHA256, Identity: c.Identity, Mode: uint32(c.Mode)}
}

// maxStagedBase bounds what a staged name takes over of the file's: names may have 255 bytes, and ours adds some dozens.
const maxStagedBase = 150

// stagedName is where the new bytes wait, beside the file. It carries the receipt, so that a recovery knows its own.
func stagedName(real, receipt string, number int) string {
	base := filepath.Base(real)
	if len(base) > maxStagedBase {
		base = base[:maxStagedBase]
	}
	return filepath.Join(filepath.Dir(real), "."+base+".mcpx-"+receipt+"-"+strconv.Itoa(number))
}

// keepMoved stores the values that leave the file before the file loses them.
func (f *Files) keepMoved(ctx context.Context, moves map[string]string) error {
	for credential, value := range moves {
		if err := f.cfg.Keep(ctx, credential, value); err != nil {
			return err
		}
	}
	return nil
}

// swapIn writes one file and reads it again.
func (f *Files) swapIn(ctx context.Context, look converge.Look, j *job) error {
	j.swap.Disk = f.disk()
	if j.swap.Old == j.swap.New {
		return f.verify(look, j) // somebody else has done it
	}
	if err := f.makeDirectory(j); err != nil {
		return writeFailed(j.change.Path, err)
	}
	done, err := j.swap.Run(ctx)
	j.keeps(done.Kept)
	if err != nil {
		return writeFailed(j.change.Path, err)
	}
	j.written.Exchange = "exchange"
	if !done.Exchanged {
		j.written.Exchange = "rename, with a gap of " + done.Gap.Round(time.Microsecond).String()
	}
	return f.verify(look, j)
}

// verify reads a file as its agent does. One that somebody else has written since is told about and left alone.
func (f *Files) verify(look converge.Look, j *job) error {
	now, err := f.disk().Read(j.swap.Target)
	if err != nil {
		return writeFailed(j.change.Path, err)
	}
	if !j.swap.New.Is(now) {
		j.tell("third-party-edit", "the file was written by another process right after the change")
		return nil
	}
	j.written.After = expected(now)
	if now.Absent || j.change.Agent == "" {
		j.written.Verified = "read"
		return nil
	}
	if _, err := dialectOf(Agent(j.change.Agent)).parse(now.Data); err != nil {
		return fault.New(fault.Internal, "result-broken").Saying("%s would not be read by %s any more", j.change.Path, Agent(j.change.Agent).Title()).Because(err)
	}
	j.written.Verified = "parsed"
	return nil
}

// undo takes back what was written before a failure.
func (f *Files) undo(ctx context.Context, jobs []*job, why error) ([]converge.Written, error) {
	for _, j := range slices.Backward(jobs) {
		if _, err := f.back(ctx, j); err != nil {
			return writtenOf(jobs), fault.New(fault.UnknownOutcome, "apply-undecided").
				Saying("%s could not be written, and %s could not be put back", jobs[len(jobs)-1].change.Path, j.change.Path).
				Hinting("correct what the cause says, then run `mcpx daemon restart`: it decides by the files").Because(errors.Join(why, err))
		}
	}
	return writtenOf(jobs), why
}

// back brings a file to what it was before, wherever its swap has come. It says where the file is then.
func (f *Files) back(ctx context.Context, j *job) (atomicfile.At, error) {
	if j.swap.Old == j.swap.New {
		return atomicfile.AtOld, nil
	}
	j.swap.Disk = f.disk()
	v, err := j.swap.Decide(ctx)
	j.keeps(v.Kept)
	if err != nil || v.At != atomicfile.AtNew {
		return v.At, err
	}
	crash.Point("apply.undoing")
	reverse := j.swap.Reverse(j.before.Data)
	done, err := reverse.Run(ctx)
	j.keeps(done.Kept)
	if errors.Is(err, atomicfile.ErrStale) || errors.Is(err, atomicfile.ErrOpen) {
		v, err := j.swap.Decide(ctx) // somebody else was faster
		j.keeps(v.Kept)
		return v.At, err
	}
	if err != nil {
		return "", err
	}
	crash.Point("apply.undone")
	kept, err := reverse.Clean(ctx)
	j.keeps(kept)
	return atomicfile.AtOld, err
}

// note adds a note to what was written.
func (j *job) note(code, format string, args ...any) {
	j.written.Notes = append(j.written.Notes, noteOf(code, format, args...))
}

// tell adds a note that is a problem, too. It is told once.
func (j *job) tell(code, format string, args ...any) {
	p := converge.Problem{Code: code, Field: j.change.Path, Text: fmt.Sprintf(format, args...)}
	if slices.Contains(j.trouble, p) {
		return
	}
	j.trouble = append(j.trouble, p)
	j.written.Notes = append(j.written.Notes, converge.Note{Code: code, Text: p.Text})
}

// keeps tells of a file with bytes of somebody else, and of those that the swap kept beside it.
func (j *job) keeps(path string) {
	if path == "" {
		return
	}
	for _, kept := range append(j.swap.Kept(), path) {
		j.tell("third-party-kept", "what another process wrote meanwhile is in %s", kept)
	}
}

func writtenOf(jobs []*job) []converge.Written {
	all := make([]converge.Written, 0, len(jobs))
	for _, j := range jobs {
		all = append(all, j.written)
	}
	return all
}

// writeFailed says for people why a file could not be written.
func writeFailed(path string, err error) error {
	switch {
	case errors.Is(err, atomicfile.ErrStale), errors.Is(err, atomicfile.ErrIrregular):
		return fault.New(fault.Stale, "plan-stale").Saying("%s was changed by another process while it was written", path).
			Hinting("run `mcpx audit run` again; the change of the other process is there").Retrying(fault.AfterFix).Because(err)
	case errors.Is(err, atomicfile.ErrOpen), errors.Is(err, atomicfile.ErrBusy):
		return fault.New(fault.Busy, "file-in-use").Saying("another process has %s open for writing", path).
			Hinting("close the editor or agent that writes it, then apply again").Retrying(fault.AfterWait).Because(err)
	case errors.Is(err, syscall.ENOSPC):
		return fault.New(fault.Unavailable, "write-failed").Saying("the disk is full, so %s was not changed", path).
			Hinting("free some space, then apply again").Retrying(fault.AfterFix).Because(cause(err))
	}
	return fault.New(fault.Unavailable, "write-failed").Saying("%s could not be written", path).
		Hinting("correct what the cause says, then apply again").Retrying(fault.AfterFix).Because(cause(err))
}

// cause is an error without the names of our temporary files.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
