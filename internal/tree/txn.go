package tree

import (
	"context"
	"errors"
)

// Conditions of a run of a transaction.
type Conditions struct {
	// Judge is asked about every path before it is changed, on what is there then; nil: nobody is asked. A *Problem is what
	// the caller gets.
	Judge func(*Place) error
	// Tell is told of progress, 500 steps at a time; nil: nobody is.
	Tell func([]Step)
}

// Apply carries out a batch that was staged and dispatched: all of it, or none of it. It does not end with ctx: once it has
// begun, the caller may leave, the files may not be left half done. An error says that the disk did not answer, and
// nothing is decided: Recover, later.
func (r *Root) Apply(ctx context.Context, a *Area, b Batch, cond Conditions) (Outcome, error) {
	return r.run(ctx, a, b, cond, "", (*engine).apply)
}

// Recover carries a dispatched batch to its end that was cut off anywhere, by what is on the disk: it goes on, unless
// somebody else has changed a path of it. It may be cut off itself, and called again. The errors are those of Apply.
func (r *Root) Recover(ctx context.Context, a *Area, b Batch, cond Conditions) (Outcome, error) {
	return r.run(ctx, a, b, cond, a.path, (*engine).recover)
}

func (r *Root) run(ctx context.Context, a *Area, b Batch, cond Conditions, whole string, do func(*engine, context.Context) (Outcome, error)) (o Outcome, err error) {
	ctx = context.WithoutCancel(ctx)
	d, err := r.disk(ctx, a, b.ID)
	if err != nil {
		return Outcome{}, writing(err, b.ID)
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	d.whole = whole
	e := &engine{files: r.over(d), rows: b.Changes, tell: cond.Tell, allowed: func(c Change) error { return r.allowed(c, cond.Judge) }}
	o, err = do(e, ctx)
	if err != nil {
		return Outcome{}, writing(err, b.ID)
	}
	return o, nil
}

// over is the disk of a run; a test lays its own over it.
func (r *Root) over(d files) files {
	if r.wrap != nil {
		return r.wrap(d)
	}
	return d
}

// disk opens the directories of a batch.
func (r *Root) disk(ctx context.Context, a *Area, id string) (*disk, error) {
	if !validID(id) {
		return nil, refuse(ArgumentInvalid, "%q is no name of a batch", id)
	}
	txn, err := a.batchDir(txnDir, id)
	if err != nil {
		return nil, err
	}
	trash, err := a.batchDir(trashDir, id)
	if err != nil {
		return nil, errors.Join(err, txn.Close())
	}
	return &disk{ctx: ctx, root: r, txn: txn, trash: trash, touched: map[string]bool{}}, nil
}

// Close gives the directories of the batch back.
func (d *disk) Close() error { return errors.Join(d.txn.Close(), d.trash.Close()) }

// allowed looks at the paths of a row once more, as they are now.
func (r *Root) allowed(c Change, judge func(*Place) error) error {
	if err := r.allowedAt(c, c.Path, judge); err != nil || c.Kind != Rename {
		return err
	}
	return r.allowedAt(c, c.To, judge)
}

func (r *Root) allowedAt(c Change, path RawPath, judge func(*Place) error) error {
	access := Look
	if c.Expect == "" || path == c.To {
		access = Write
	}
	p, err := r.Resolve(string(path), access)
	if c.Kind == Mkdir && CodeOf(err) == NotAFile {
		return nil // somebody has made it
	}
	if err != nil {
		return err
	}
	defer p.Close()
	if p.Path != string(path) {
		return refuse(Moved, "%s leads to %s now", path, p.Path)
	}
	if judge == nil {
		return nil
	}
	return judge(p)
}
