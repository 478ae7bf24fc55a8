package tree

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"mcpx/internal/atomicfile"
	"mcpx/internal/crash"
)

// stageWorkers is how many files are staged at once: the time goes into making each durable.
const stageWorkers = 8

// MaxChanges bounds the rows of a batch: the journal of an integration is one value.
const MaxChanges = 100_000

// Stage prepares a batch: every intent is resolved, asked for and checked, and what it proposes is written to the area and
// made durable. Nothing in the project changes. What it returns is kept with the record of dispatch, and then applied. A
// refusal names the intent in its detail "edit", and leaves nothing.
//
// Exists, NotFound, PathAlias, LinkEscape, SpecialFile, CaseCollision, DuplicatePath, ArgumentInvalid, the codes of
// Resolve, and those of the system.
func (r *Root) Stage(ctx context.Context, a *Area, id string, intents []Intent, cond Conditions) (Batch, error) {
	if err := r.Changeable(); err != nil {
		return Batch{}, err
	}
	if !validID(id) {
		return Batch{}, refuse(ArgumentInvalid, "%q is no name of a batch", id)
	}
	s := &stager{root: r, judge: cond.Judge}
	if err := s.plan(intents); err != nil {
		return Batch{}, err
	}
	if err := a.unused(id); err != nil {
		return Batch{}, err
	}
	if err := s.fill(ctx, a, id); err != nil {
		return Batch{}, errors.Join(err, a.Discard(id))
	}
	b := Batch{ID: id, Area: a.path}
	for _, row := range s.rows {
		b.Changes = append(b.Changes, row.Change)
	}
	return b, nil
}

// row is a change with what it is staged from.
type row struct {
	Change
	intent Intent
	like   RawPath // whose owner, permissions and attributes the staged file gets; "" those of its surroundings
	around Facts   // of the directory that it comes into, or of the last one on the way that exists
}

// stager plans and stages one batch.
type stager struct {
	root  *Root
	judge func(*Place) error
	rows  []row
	taken map[string]bool // paths of rows, folded where their directory folds
	made  map[string]bool // directories that the batch makes
	below int             // entries of directories that are staged as a whole
}

// plan turns intents into rows, in the order in which they are applied.
func (s *stager) plan(intents []Intent) error {
	s.taken, s.made = map[string]bool{}, map[string]bool{}
	for i, in := range intents {
		if err := s.intend(i, in); err != nil {
			if p, ok := errors.AsType[*Problem](err); ok {
				p.note("edit", i)
			}
			return err
		}
	}
	if s.below += len(s.rows); s.below > MaxChanges {
		return refuse(LimitExceeded, "a batch has at most %d changes", MaxChanges).With("limit", MaxChanges)
	}
	slices.SortStableFunc(s.rows, func(a, b row) int {
		order := cmp.Compare(slices.Index(applyOrder, a.Kind), slices.Index(applyOrder, b.Kind))
		if order == 0 && a.Kind == Rmdir { // what is deeper goes first
			return cmp.Compare(b.Path, a.Path)
		}
		return cmp.Or(order, cmp.Compare(a.Path, b.Path))
	})
	for n := range s.rows {
		s.rows[n].N = n
	}
	return nil
}

// intend plans one intent.
func (s *stager) intend(i int, in Intent) error {
	access := Look
	if in.Kind == Add || in.Kind == Mkdir {
		access = Write
	}
	p, err := s.place(in.Path, access)
	if err != nil {
		return err
	}
	defer p.Close()
	c := Change{Kind: in.Kind, Path: RawPath(p.Path), Expect: in.Expect, Edit: i}
	if err := s.check(p, in); err != nil {
		return err
	}
	if err := s.take(p); err != nil {
		return err
	}
	switch in.Kind {
	case Mkdir:
		return s.mkdirs(p, i, len(p.Missing), in.Mode)
	case Add:
		return s.add(p, row{Change: c, intent: in})
	case Replace:
		if in.Dir != nil {
			s.below += len(*in.Dir)
		}
		r := row{Change: c, intent: in}
		if p.Kind == File && in.Link == nil && in.Dir == nil {
			r.like = c.Path
		}
		if err := s.stages(p, r); err != nil || r.like == "" || in.Mode == 0 || in.Mode.Perm() == p.Mode.Perm() {
			return err
		}
		s.rows = append(s.rows, row{Change: Change{Kind: SetMode, Path: c.Path, Was: p.Mode.Perm(), Mode: in.Mode.Perm(), Edit: i}})
	case Rename:
		return s.rename(c, in)
	case SetMode:
		c.Expect, c.Was, c.Mode = "", p.Mode.Perm(), in.Mode.Perm()
		if c.Was != c.Mode {
			s.rows = append(s.rows, row{Change: c})
		}
	case Delete:
		s.rows = append(s.rows, row{Change: c})
	case Rmdir:
		c.Expect, c.Was = dirDigest, p.Mode.Perm()
		s.rows = append(s.rows, row{Change: c})
	}
	return nil
}

// place resolves a path of an intent and asks about it.
func (s *stager) place(asked string, a Access) (*Place, error) {
	p, err := s.root.Resolve(asked, a)
	if err != nil {
		return nil, err
	}
	err = s.ask(p)
	if err == nil && len(p.Through) > 0 {
		err = p.Alias()
	}
	if err != nil {
		_ = p.Close() // it was only looked at
		return nil, err
	}
	return p, nil
}

func (s *stager) ask(p *Place) error {
	if s.judge == nil {
		return nil
	}
	return s.judge(p)
}

// check refuses what an intent cannot be made of.
func (s *stager) check(p *Place, in Intent) error {
	fresh := in.Kind == Add || in.Kind == Mkdir
	switch {
	case p.Path == ".":
		return refuse(TargetRoot, "%s is the root itself", in.Path)
	case fresh && p.Kind != Absent:
		return refuse(Exists, "%s exists", in.Path)
	case in.Kind == Rmdir && p.Kind != Directory:
		return refuse(NotADirectory, "%s is no directory", in.Path)
	case p.Kind == Directory && (in.Kind == Replace && !isTree(in.Expect) || in.Kind == Rename || in.Kind == SetMode):
		return refuse(NotAFile, "%s is a directory", in.Path)
	case (in.Kind == Rename || in.Kind == SetMode) && p.Kind == Link:
		return refuse(PathAlias, "%s is a symbolic link", in.Path).With("reason", "symlink")
	case p.Kind == Other && in.Kind != Delete, p.special() && in.Kind != Delete:
		return refuse(SpecialFile, "%s is no plain file", in.Path)
	case p.Kind == File && p.Links > 1 && (!in.BreakLinks || in.Kind == SetMode): // all names have one mode
		return p.Alias()
	case (in.Kind == Replace || in.Kind == Rename || in.Kind == Delete) && in.Expect == "":
		return refuse(ArgumentInvalid, "it is not said what is expected at %s", in.Path)
	}
	if in.Link != nil {
		return inside(p.Path, *in.Link)
	}
	if in.Dir != nil {
		for _, b := range *in.Dir {
			if b.Kind == Link {
				if err := inside(p.Path+"/"+b.Path, b.Link); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// inside refuses a proposed link that leads out of the root.
func inside(path, text string) error {
	if text == "" || leaves(path, text) {
		return refuse(LinkEscape, "the link %s would leave the project", path)
	}
	return nil
}

// take notes a path that a row changes: no other row may.
func (s *stager) take(p *Place) error {
	name := p.Path
	if p.Folds {
		name = strings.ToLower(name)
	}
	if !s.taken[name] {
		s.taken[name] = true
		return nil
	}
	if p.Folds {
		return refuse(CaseCollision, "%s is named twice, by names that are one here", p.Asked)
	}
	return refuse(DuplicatePath, "%s is named twice", p.Asked)
}

// mkdirs plans the first n of the directories that are missing on the way to a place, the last one with these permissions, if
// it has some.
func (s *stager) mkdirs(p *Place, edit, n int, last fs.FileMode) error {
	parent, err := around(p)
	if err != nil {
		return err
	}
	above := components(p.Path)
	above = above[:len(above)-len(p.Missing)]
	for i := range n {
		dir := strings.Join(slices.Concat(above, p.Missing[:i+1]), "/")
		if s.made[dir] {
			continue
		}
		s.made[dir] = true
		mode := parent.Mode.Perm()
		if i == n-1 {
			mode = cmp.Or(last.Perm(), mode)
		}
		s.rows = append(s.rows, row{Change: Change{Kind: Mkdir, Path: RawPath(dir), Propose: dirDigest, Mode: mode, Edit: edit}})
	}
	return nil
}

// around looks at the directory that an entry comes into, or at the last one on the way that exists.
func around(p *Place) (Facts, error) {
	facts, err := factsOf(p.dir)
	return facts, reading(err, p.Asked)
}

// add plans a new entry, and the directories on the way.
func (s *stager) add(p *Place, r row) error {
	if err := s.mkdirs(p, r.Edit, len(p.Missing)-1, 0); err != nil {
		return err
	}
	return s.stages(p, r)
}

// stages plans a row that something is staged for.
func (s *stager) stages(p *Place, r row) (err error) {
	if r.around, err = around(p); err != nil {
		return err
	}
	s.rows = append(s.rows, r)
	return nil
}

// rename plans a rename; with other bytes it is a new file that is like the old one, and the removal of that.
func (s *stager) rename(c Change, in Intent) error {
	to, err := s.place(in.To, Write)
	if err != nil {
		return err
	}
	defer to.Close()
	if to.Kind != Absent {
		if to.Folds && strings.EqualFold(to.Path, string(c.Path)) {
			return refuse(CaseCollision, "%s and %s are one name here", in.Path, in.To)
		}
		return refuse(Exists, "%s exists", in.To)
	}
	if err := s.take(to); err != nil {
		return err
	}
	if in.Data == nil && in.From == nil {
		c.To = RawPath(to.Path)
		s.rows = append(s.rows, row{Change: c})
		return s.mkdirs(to, c.Edit, len(to.Missing)-1, 0)
	}
	fresh := row{Change: Change{Kind: Add, Path: RawPath(to.Path), Edit: c.Edit}, intent: in, like: c.Path}
	old := row{Change: Change{Kind: Delete, Path: c.Path, Expect: c.Expect, Edit: c.Edit}}
	s.rows = append(s.rows, old)
	return s.add(to, fresh)
}

// fill writes what the rows propose, and makes it durable.
func (s *stager) fill(ctx context.Context, a *Area, id string) error {
	txn, err := a.batchDir(txnDir, id)
	if err != nil {
		return writing(err, id)
	}
	defer txn.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(stageWorkers)
	for n := range s.rows {
		r := &s.rows[n]
		if r.Kind != Add && r.Kind != Replace {
			continue
		}
		group.Go(func() (err error) {
			if r.Propose, err = s.stage(ctx, txn, *r); err != nil {
				return s.problem(writing(err, string(r.Path)), *r)
			}
			crash.Point("op.stage.each")
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, r := range s.rows {
		if r.Kind == Replace && r.Propose == r.Expect {
			return s.problem(refuse(ArgumentInvalid, "%s would not change", r.Path), r)
		}
	}
	return writing(syncDir(txn), id)
}

func (s *stager) problem(err error, r row) error {
	if p, ok := errors.AsType[*Problem](err); ok {
		p.note("edit", r.Edit)
	}
	return err
}

// stage writes what one row proposes into its slot, and gives the digest of it.
func (s *stager) stage(ctx context.Context, txn *os.File, r row) (string, error) {
	if r.intent.Link != nil {
		return LinkDigest(*r.intent.Link), symlinkAt(*r.intent.Link, txn, r.slot())
	}
	if r.intent.Dir != nil {
		return s.directory(ctx, txn, r)
	}
	f, err := create(txn, r.slot())
	if err != nil {
		return "", err
	}
	digest, err := s.write(ctx, f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	return digest, nil
}

// directory stages a directory with all that is below it.
func (s *stager) directory(ctx context.Context, txn *os.File, r row) (string, error) {
	if err := ensureDir(txn, r.slot(), cmp.Or(r.intent.Mode.Perm(), r.around.Mode.Perm())); err != nil {
		return "", err
	}
	dirs := [][]string{{r.slot()}}
	for _, b := range *r.intent.Dir {
		names := append([]string{r.slot()}, components(b.Path)...)
		dir, err := enterAllIn(txn, names[:len(names)-1]...)
		if err != nil {
			return "", err
		}
		err = s.entry(ctx, dir, names[len(names)-1], b, r)
		if _ = dir.Close(); err != nil { // it was only entered
			return "", err
		}
		if b.Kind == Directory {
			dirs = append(dirs, names)
		}
	}
	for _, names := range dirs {
		dir, err := enterAllIn(txn, names...)
		if err != nil {
			return "", err
		}
		err = syncDir(dir)
		if _ = dir.Close(); err != nil { // it was only entered
			return "", err
		}
	}
	m, err := freeze(ctx, s.root, txn, r.slot(), func(Seen) error { return nil })
	return m.Digest(), err
}

// entry stages an entry of a directory that is staged.
func (s *stager) entry(ctx context.Context, dir *os.File, name string, b Below, r row) error {
	switch b.Kind {
	case Directory:
		return ensureDir(dir, name, cmp.Or(b.Mode.Perm(), r.around.Mode.Perm()))
	case Link:
		return symlinkAt(b.Link, dir, name)
	case File, Other, Absent:
	}
	f, err := create(dir, name)
	if err != nil {
		return err
	}
	one := row{intent: Intent{From: b.From, Exec: b.Exec, Mode: b.Mode, Like: b.Like}, around: r.around}
	_, err = s.write(ctx, f, one)
	return errors.Join(err, f.Close())
}

func (s *stager) write(ctx context.Context, f *os.File, r row) (string, error) {
	sum := sha256.New()
	to := io.MultiWriter(f, sum)
	var err error
	if r.intent.From != nil {
		err = r.intent.From(to)
	} else {
		_, err = io.Copy(to, canceled{ctx, bytes.NewReader(r.intent.Data)})
	}
	if err != nil {
		return "", err
	}
	if err := s.dress(f, r); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), f.Sync()
}

// dress gives a staged file what is no content: from the file that it replaces, or from its surroundings.
func (s *stager) dress(f *os.File, r row) error {
	open := r.intent.Like
	if r.like != "" {
		open = func() (*os.File, error) { return s.replaced(r.like) }
	}
	if open == nil {
		return dressAround(f, r)
	}
	like, err := open()
	if err != nil {
		return err
	}
	defer like.Close()
	return atomicfile.KeepFacts(f, like)
}

// replaced opens a file of the root.
func (s *stager) replaced(path RawPath) (*os.File, error) {
	names := components(string(path))
	dir, err := s.root.enterAll(names[:len(names)-1])
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openRegular(dir, names[len(names)-1])
}

// dressAround gives a new file its permissions, and the group of a directory that hands its group down: the file is made
// elsewhere.
func dressAround(f *os.File, r row) error {
	if r.around.Mode&fs.ModeSetgid != 0 {
		if err := regroup(f, r.around.group); err != nil {
			return err
		}
	}
	if r.intent.Mode != 0 {
		return f.Chmod(r.intent.Mode.Perm())
	}
	mode := r.around.Mode.Perm() & 0o666
	if r.intent.Exec {
		mode |= mode & 0o444 >> 2
	}
	return f.Chmod(mode)
}
