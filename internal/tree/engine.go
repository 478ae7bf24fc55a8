package tree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
	"mcpx/internal/text"
)

// files is the file work of a transaction, so that a test can play it. Names are "at/PATH" below the root, "txn/NAME" in
// the staging directory of the batch and "trash/NAME" in its trash. What lies under a name is told by its Digest, as the
// SHA256 of an atomicfile.Content; whatever it is, it can be read.
type files interface {
	atomicfile.Disk
	// Deep reads directories as the digest of all that is in them.
	Deep() files
	Rmdir(name string) error
	// Chmod changes the permissions of a file that has the first ones. atomicfile.ErrStale.
	Chmod(name string, from, to fs.FileMode) error
	// Flush makes the names durable of each directory that SyncDir was called for.
	Flush() error
}

// engine carries out the rows of a batch. It goes by what is on the disk alone.
type engine struct {
	files files
	rows  []Change
	// allowed is asked before a path is changed, once more on what is there then; nil: everything is.
	allowed func(Change) error
	tell    func([]Step) // of progress, stepsAtOnce at a time; nil: nobody

	steps   []Step
	outcome Outcome
}

func at(path RawPath) string { return "at/" + string(path) }

func (c Change) target() string    { return at(c.Path) }
func (c Change) slotName() string  { return "txn/" + c.slot() }
func (c Change) trashName() string { return "trash/" + c.trash() }

// wide says that a directory goes or comes with all that is in it.
func (c Change) wide() bool { return isTree(c.Expect) || isTree(c.Propose) }

// disk is the file work of one row.
func (e *engine) disk(c Change) files {
	f := e.files
	if c.wide() {
		f = f.Deep()
	}
	if c.Kind == Replace && (c.wide() || isLink(c.Expect) != isLink(c.Propose)) {
		f = modeless{f} // a file has no mode in common with a link or a directory
	}
	return f
}

// modeless leaves permissions out of what is read.
type modeless struct{ files }

func (d modeless) Read(name string) (atomicfile.Content, error) {
	c, err := d.files.Read(name)
	c.Mode = 0
	return c, err
}

func (d modeless) Settle(ctx context.Context, name string) (atomicfile.Content, error) {
	c, err := d.files.Settle(ctx, name)
	c.Mode = 0
	return c, err
}

// swap is the exchange of a row that has one. Its staged name is where the displaced bytes go first.
func (e *engine) swap(c Change) atomicfile.Swap {
	s := atomicfile.Swap{Disk: e.disk(c), Target: c.target(), Staged: c.slotName(), Old: state(c.Expect), New: state(c.Propose), Hold: true}
	if c.Kind == Delete {
		s.Staged = c.trashName()
	}
	return s
}

func state(digest string) atomicfile.State {
	return atomicfile.State{Absent: digest == "", SHA256: digest}
}

// apply is the live run: all rows, or none. Only a path that somebody else changed between its change and its undoing
// makes it end contested.
func (e *engine) apply(ctx context.Context) (Outcome, error) {
	for i, c := range e.rows {
		kept, err := e.forward(ctx, c)
		if err == nil {
			e.step(c, StepApplied)
			continue
		}
		if !clean(err) {
			e.outcome.Cause = cause(err, c)
			return e.undo(ctx, e.rows[:i+1])
		}
		return e.giveUp(ctx, i, kept, err)
	}
	return e.end(Applied)
}

// halfway is an error after which only what is on the disk tells how far a row has come.
type halfway struct{ error }

func (h halfway) Unwrap() error { return h.error }

// clean says that a change did not happen because of somebody else's bytes, which are where they were, or kept.
func clean(err error) bool {
	if _, ok := errors.AsType[halfway](err); ok {
		return false
	}
	return errors.Is(err, atomicfile.ErrStale) || errors.Is(err, atomicfile.ErrOpen) || errors.Is(err, errLastName) || isRefusal(err)
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*Problem](err)
	return ok
}

// cause says why a row was not applied.
func cause(err error, c Change) error {
	switch {
	case isRefusal(err):
	case errors.Is(err, atomicfile.ErrOpen):
		err = refuse(FileBusy, "another process has %s open for writing", c.Path).because(err)
	case errors.Is(err, atomicfile.ErrStale), errors.Is(err, errLastName):
		err = refuse(Moved, "%s was changed by somebody else", c.Path).because(err)
	}
	p, ok := errors.AsType[*Problem](writing(err, string(c.Path)))
	if ok && p.Details["edit"] == nil {
		p.note("edit", c.Edit)
		p.note("path", text.EncodePath(string(c.Path)))
	}
	return p
}

// undo takes back rows, in reverse order.
func (e *engine) undo(ctx context.Context, rows []Change) (Outcome, error) {
	var errs []error
	for _, c := range slices.Backward(rows) {
		errs = append(errs, steadily(func() error { return e.back(ctx, c) }))
	}
	if err := errors.Join(errs...); err != nil { // what is on the disk decides, when it works again
		return Outcome{}, errors.Join(err, e.files.Flush())
	}
	return e.end(Unchanged)
}

// end is the outcome, once all of it is durable.
func (e *engine) end(s OutcomeState) (Outcome, error) {
	if err := e.files.Flush(); err != nil {
		return Outcome{}, err
	}
	crash.Point("fs.dirsync.after")
	e.outcome.State = s
	if len(e.outcome.Exceptions) > 0 {
		e.outcome.State = Contested
	}
	return e.outcome, nil
}

func (e *engine) step(c Change, s StepState) {
	e.steps = append(e.steps, Step{N: c.N, State: s})
	if len(e.steps) < stepsAtOnce {
		return
	}
	if e.tell != nil {
		e.tell(e.steps)
	}
	e.steps = nil
}

func (e *engine) warn(code string, c Change) {
	e.outcome.Warnings = append(e.outcome.Warnings, Warning{Code: code, Path: c.Path})
}

// dispute notes a path that somebody else has changed, and moves bytes that could not stay there to the trash.
func (e *engine) dispute(c Change, kept string) error {
	x := Exception{N: c.N, Path: c.Path}
	if kept != "" {
		to, err := e.discard(kept, fmt.Sprintf("trash/k_%d", c.N))
		if err != nil {
			return err
		}
		x.Kept = to
	}
	e.outcome.Exceptions = append(e.outcome.Exceptions, x)
	e.step(c, StepContested)
	return nil
}

// maxKept bounds the names for bytes of others that one path may leave, as in package atomicfile.
const maxKept = 64

// discard moves something to a name in the trash that nothing has.
func (e *engine) discard(from, to string) (string, error) {
	for n := range maxKept {
		name := fmt.Sprintf("%s_%d", to, n)
		err := e.move(from, name)
		if !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
	return "", fmt.Errorf("keep %s: %w", from, fs.ErrExist)
}

// move renames something and replaces nothing, and makes that durable later.
func (e *engine) move(from, to string) error {
	if err := e.shift(from, to); err != nil {
		return err
	}
	return e.sync(from, to)
}

func (e *engine) shift(from, to string) error {
	err := e.files.Move(from, to)
	if errors.Is(err, atomicfile.ErrNoExchange) { // a link replaces nothing either
		if err = e.files.Link(from, to); err == nil {
			err = e.files.Remove(from)
		}
	}
	return err
}

func (e *engine) sync(names ...string) error {
	for _, name := range names {
		if err := e.files.SyncDir(name[:strings.LastIndexByte(name, '/')]); err != nil {
			return err
		}
	}
	return nil
}

// forward carries out a row of which nothing is done yet. kept is where bytes of somebody else are that came in between
// and could not stay under their name.
func (e *engine) forward(ctx context.Context, c Change) (kept string, err error) {
	if e.allowed != nil {
		if err := e.allowed(c); err != nil {
			return "", err
		}
	}
	crash.Point("fs.exchange.before")
	if kept, err = e.do(ctx, c); err != nil {
		return kept, err
	}
	crash.Point("fs.exchange.after")
	return "", e.put(c)
}

func (e *engine) do(ctx context.Context, c Change) (kept string, err error) {
	switch c.Kind {
	case Add, Replace, Delete:
		done, err := e.run(ctx, e.swap(c))
		e.outcome.Weak = e.outcome.Weak || err == nil && !done.Exchanged
		return done.Kept, err
	case Mkdir:
		err = e.files.Mkdir(c.target(), c.Mode)
	case Rmdir:
		err = e.rmdir(c)
	case SetMode:
		err = e.files.Chmod(c.target(), c.Was, c.Mode)
	case Rename:
		err = e.rename(c, c.target(), at(c.To))
	}
	return "", errors.Join(displaced(err), e.sync(c.target()))
}

// displaced is what it means that a name is there or not, where it was the other way round before.
func displaced(err error) error {
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || isNotDir(err) {
		return errors.Join(atomicfile.ErrStale, err)
	}
	return err
}

// rmdir removes a directory if it is empty; that it is gone is fine, too.
func (e *engine) rmdir(c Change) error {
	err := e.files.Rmdir(c.target())
	switch {
	case isNotEmpty(err):
		e.warn(KeptForeign, c)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

func (e *engine) run(ctx context.Context, s atomicfile.Swap) (atomicfile.Done, error) {
	done, err := s.Run(ctx)
	if err != nil && done.Kept == s.Staged { // it could not even be given a name of its own
		done.Kept, err = "", halfway{err}
	}
	return done, err
}

// rename moves a file to a name that nothing has, and looks at it there: if it is another one, it goes back.
func (e *engine) rename(c Change, from, to string) error {
	for _, look := range []struct{ name, want string }{{to, ""}, {from, c.Expect}} {
		now, err := e.files.Read(look.name)
		if err != nil {
			return err
		}
		if !state(look.want).Is(now) {
			return atomicfile.ErrStale
		}
	}
	if err := e.shift(from, to); errors.Is(err, errLastName) { // somebody has a new file under the old name
		return halfway{err}
	} else if err != nil {
		return err
	}
	crash.Point("fs.renamed")
	now, err := e.files.Read(to)
	if err == nil && !state(c.Expect).Is(now) {
		err = atomicfile.ErrStale
	}
	if err != nil {
		if back := e.shift(to, from); back != nil {
			return halfway{fmt.Errorf("%s stays at %s: %w", c.Path, c.To, back)}
		}
	}
	return errors.Join(err, e.sync(from, to))
}

// put moves the displaced bytes of a row that is done from its slot to the trash.
func (e *engine) put(c Change) error {
	if c.Kind == Replace {
		if err := e.move(c.slotName(), c.trashName()); err != nil {
			return err
		}
	}
	if c.Kind == Replace || c.Kind == Delete {
		crash.Point("fs.trash.after")
	}
	return nil
}

// tidy removes what a killed row has beside its places: second names of one file, where names cannot be exchanged.
func (e *engine) tidy(ctx context.Context, c Change) error {
	if c.Kind == Add || c.Kind == Replace || c.Kind == Delete {
		if err := e.swap(c).Tidy(ctx); err != nil {
			return err
		}
	}
	known := map[string]bool{}
	for _, name := range c.places() {
		now, err := e.files.Read(name)
		if err != nil {
			return err
		}
		if now.Links > 1 && known[now.Identity] {
			if err := e.files.Remove(name); err != nil {
				return err
			}
		}
		known[now.Identity] = true
	}
	return nil
}

// places are the names under which the bytes of a row may lie: target, trash, slot, those that the row has.
func (c Change) places() []string {
	switch c.Kind {
	case Add, Replace:
		return []string{c.target(), c.trashName(), c.slotName()}
	case Delete:
		return []string{c.target(), c.trashName()}
	case Rename:
		return []string{c.target(), at(c.To)}
	case Mkdir, Rmdir, SetMode:
	}
	return []string{c.target()}
}

// look sees what lies in the places of a row.
func (e *engine) look(c Change) (evidence, error) {
	v := evidence{none, none, none}
	d := e.disk(c)
	into := map[string]*seen{c.target(): &v.target, c.trashName(): &v.trash, c.slotName(): &v.slot, at(c.To): &v.slot}
	for _, name := range c.places() {
		now, err := d.Read(name)
		if err != nil {
			return v, err
		}
		*into[name] = c.see(now)
	}
	return v, nil
}

// see compares what is under a name with what the row expects and proposes.
func (c Change) see(now atomicfile.Content) seen {
	switch {
	case c.Kind == SetMode && !now.Absent && now.Mode == c.Mode:
		return proposed
	case c.Kind == SetMode && !now.Absent && now.Mode == c.Was:
		return expected
	case now.Absent:
		return none
	case c.Kind == SetMode:
		return foreign
	case now.SHA256 == c.Expect:
		return expected
	case now.SHA256 == c.Propose:
		return proposed
	}
	return foreign
}

// maxLooks bounds how often a row is looked at anew, while somebody else goes on replacing its file.
const maxLooks = 5

// steadily does something again that somebody else got in the way of: the next look says what that means.
func steadily(do func() error) (err error) {
	for range maxLooks {
		err = do()
		if _, half := errors.AsType[halfway](err); !half && !errors.Is(err, errLastName) {
			break
		}
	}
	return err
}

// judged tidies a row and says how far it has come.
func (e *engine) judged(ctx context.Context, c Change) (verdict, error) {
	if err := steadily(func() error { return e.tidy(ctx, c) }); err != nil {
		return "", err
	}
	v, err := e.look(c)
	return judge(c.Kind, v), err
}

// recover carries on where a batch was cut off: to its end, or, if somebody else is in the way of a row, back to its
// beginning, as in a live run. It may be cut off, and called again. An error says that the disk did not answer: nothing is
// decided.
func (e *engine) recover(ctx context.Context) (o Outcome, err error) {
	err = steadily(func() error {
		e.outcome = Outcome{}
		o, err = e.goOn(ctx)
		return err
	})
	return o, err
}

func (e *engine) goOn(ctx context.Context) (Outcome, error) {
	all := make([]verdict, len(e.rows))
	for i, c := range e.rows {
		v, err := e.judged(ctx, c)
		if err != nil {
			return Outcome{}, err
		}
		all[i] = v
	}
	if i := slices.IndexFunc(all, verdict.stuck); i >= 0 {
		e.outcome.Cause = cause(atomicfile.ErrStale, e.rows[i])
		return e.takeBack(ctx)
	}
	for i, c := range e.rows {
		if all[i] == notYet {
			continue
		}
		if all[i] == changed {
			e.warn(ChangedAfterApply, c)
		}
		if err := e.fill(c); err != nil {
			return Outcome{}, err
		}
		e.step(c, StepApplied)
	}
	for i, c := range e.rows {
		if all[i] != notYet {
			continue
		}
		kept, err := e.forward(ctx, c)
		switch {
		case err == nil:
			e.step(c, StepApplied)
		case !clean(err):
			return Outcome{}, err
		default:
			return e.giveUp(ctx, i, kept, err)
		}
	}
	return e.end(Applied)
}

// giveUp takes back what was done of a batch whose n-th row did not happen because of somebody else.
func (e *engine) giveUp(ctx context.Context, n int, kept string, why error) (Outcome, error) {
	e.outcome.Cause = cause(why, e.rows[n])
	if kept != "" {
		if err := e.dispute(e.rows[n], kept); err != nil {
			return Outcome{}, err
		}
	}
	return e.undo(ctx, slices.Delete(slices.Clone(e.rows), n, n+1))
}

// fill moves the displaced bytes to the trash, unless they are there.
func (e *engine) fill(c Change) error {
	if c.Kind != Replace {
		return nil
	}
	now, err := e.files.Read(c.slotName())
	if err != nil || now.Absent {
		return err
	}
	return e.put(c)
}

// giveBack returns bytes of somebody else that a killed row has displaced.
func (e *engine) giveBack(ctx context.Context, c Change) (kept string, err error) {
	v, err := e.swap(c).Decide(ctx)
	if errors.Is(err, atomicfile.ErrOpen) && v.Kept != "" {
		err = nil // they are back; somebody has what came out open for writing, and it is kept
	}
	return v.Kept, err
}

// back undoes a row as far as it has come.
func (e *engine) back(ctx context.Context, c Change) error {
	v, err := e.judged(ctx, c)
	if err != nil {
		return err
	}
	switch v {
	case notYet, missed:
		return nil
	case swapped, applied:
		kept, err := e.reverse(ctx, c)
		switch {
		case err == nil:
			crash.Point("fs.undo.after")
			e.step(c, StepUndone)
			return nil
		case clean(err):
			if err := e.fill(c); err != nil {
				return err
			}
			return e.dispute(c, kept)
		}
		return err
	case over:
		kept, err := e.giveBack(ctx, c)
		if err != nil {
			return err
		}
		return e.dispute(c, kept)
	case changed, contested:
		if err := e.fill(c); v == changed && err != nil {
			return err
		}
		return e.dispute(c, "")
	}
	panic("tree: unknown verdict " + string(v))
}

// reverse takes a row back that is done.
func (e *engine) reverse(ctx context.Context, c Change) (kept string, err error) {
	switch c.Kind {
	case Replace:
		if err := e.empty(c); err != nil {
			return "", err
		}
		fallthrough
	case Add, Delete:
		done, err := e.run(ctx, e.swap(c).Reverse(nil))
		return done.Kept, displaced(err) // its directory may be gone
	case Mkdir:
		err = e.rmdir(c)
	case Rmdir:
		err = e.files.Mkdir(c.target(), c.Was)
	case SetMode:
		err = e.files.Chmod(c.target(), c.Mode, c.Was)
	case Rename:
		err = e.rename(c, at(c.To), c.target())
	}
	return "", errors.Join(displaced(err), e.sync(c.target()))
}

// empty moves the displaced bytes of a row from the trash to its slot, unless they are there: a reverse that is killed
// then leaves what the table knows.
func (e *engine) empty(c Change) error {
	now, err := e.files.Read(c.trashName())
	if err != nil || now.Absent {
		return err
	}
	return e.move(c.trashName(), c.slotName())
}

// takeBack undoes all that a batch has done, as far as nobody else has changed it since.
func (e *engine) takeBack(ctx context.Context) (Outcome, error) {
	return e.undo(ctx, e.rows)
}
