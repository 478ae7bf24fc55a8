package tree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
)

// Reversal is what takes a batch back that was applied: the intents of another one, which is staged and applied as every batch
// is, and keeps what it displaces.
type Reversal struct {
	Intents []Intent
	Moved   []RawPath // paths that cannot go back: somebody has changed them since, or what was displaced from them
}

// Reverse says what takes back a batch that was applied and finished. A path that is as it was before stays so. The batch is
// one without renames, as integrations are. NotFound: what it has displaced is not kept any more.
func (r *Root) Reverse(ctx context.Context, a *Area, b Batch) (v Reversal, err error) {
	d, err := r.disk(ctx, a, b.ID)
	if err != nil {
		return v, reading(err, b.ID)
	}
	defer func() {
		err = errors.Join(err, d.Close(), a.dropDir(txnDir, b.ID), a.dropDir(trashDir, b.ID)) // empty ones were made by opening them
	}()
	s := &reverser{area: a, batch: b.ID, root: r, disk: d, engine: &engine{files: d}, modes: map[RawPath]Change{}}
	for _, c := range b.Changes {
		if c.Kind == SetMode {
			s.modes[c.Path] = c
		}
	}
	for _, c := range b.Changes {
		if err := s.add(ctx, c); err != nil {
			return v, reading(err, string(c.Path))
		}
	}
	slices.Reverse(s.Intents) // a directory comes back before what is in it
	return s.Reversal, nil
}

// reverser makes one Reversal.
type reverser struct {
	Reversal
	root   *Root
	area   *Area
	batch  string
	disk   *disk
	engine *engine
	modes  map[RawPath]Change // changes of permissions in the batch
}

// add looks at a change, and takes it back.
func (s *reverser) add(ctx context.Context, c Change) error {
	now, err := s.engine.look(c)
	if err != nil {
		return err
	}
	before, after := expected, proposed
	if c.Kind == Add || c.Kind == Mkdir {
		before = none
	}
	if c.Kind == Delete || c.Kind == Rmdir {
		after = none
	}
	displaces := c.Kind == Replace || c.Kind == Delete
	switch {
	case now.target == before:
		return nil
	case displaces && now.trash == none:
		return refuse(NotFound, "what was at %s is not kept any more", c.Path)
	case now.target != after || displaces && now.trash != expected:
		s.Moved = append(s.Moved, c.Path)
		return nil
	}
	in := Intent{Path: string(c.Path), Expect: c.Propose}
	switch c.Kind {
	case Mkdir:
		in.Kind = Rmdir
	case Add:
		in.Kind = Delete
	case Replace:
		in.Kind = Replace
		if err := s.permitted(c, &in); err != nil {
			return err
		}
		err = s.displaced(ctx, c, &in)
	case SetMode:
		if slices.ContainsFunc(s.Intents, func(i Intent) bool { return i.Path == in.Path }) {
			return nil // with its bytes
		}
		in.Kind, in.Mode = SetMode, c.Was
	case Delete:
		in.Kind = Add
		err = s.displaced(ctx, c, &in)
	case Rmdir:
		in.Kind, in.Mode = Mkdir, c.Was
	case Rename:
		return refuse(Internal, "%s was renamed", c.Path)
	}
	s.Intents = append(s.Intents, in)
	return err
}

// permitted gives a file whose bytes go back the permissions of then, if the batch has changed these, too.
func (s *reverser) permitted(c Change, in *Intent) error {
	mode, ok := s.modes[c.Path]
	if !ok {
		return nil
	}
	now, err := s.engine.look(mode)
	if now.target == proposed {
		in.Mode = mode.Was
	}
	return err
}

// displaced is what a change has displaced, as what an intent puts there.
func (s *reverser) displaced(ctx context.Context, c Change, in *Intent) error {
	name := c.trash()
	facts, err := look(s.disk.trash, name)
	if err != nil {
		return err
	}
	switch facts.Kind {
	case File:
		in.From, in.Like = s.bytes(ctx, c.Expect, name), s.file(name)
	case Link:
		to, err := readlink(s.disk.trash, name)
		if err != nil {
			return err
		}
		in.Link = &to
	case Directory:
		m, err := freeze(ctx, s.root, s.disk.trash, name, func(Seen) error { return nil })
		if err != nil {
			return err
		}
		in.Mode, in.Dir = facts.Mode.Perm(), &[]Below{}
		for _, i := range m.Items[1:] {
			b := Below{Path: string(i.Path), Kind: i.Kind, Link: i.Link, Mode: fs.FileMode(i.Mode)}
			if i.Kind == File {
				b.From, b.Like = s.bytes(ctx, i.Digest, name, b.Path), s.file(name, b.Path)
			}
			*in.Dir = append(*in.Dir, b)
		}
	case Other, Absent:
		return refuse(SpecialFile, "%s was no plain file", c.Path)
	}
	return nil
}

// bytes writes a file in the trash of the batch, and wants it to be what was looked at.
func (s *reverser) bytes(ctx context.Context, digest string, names ...string) func(io.Writer) error {
	return func(w io.Writer) error {
		p, err := s.place(names)
		if err != nil {
			return err
		}
		defer p.Close()
		if sum, err := p.Copy(ctx, w); err != nil || sum == digest {
			return err
		}
		return refuse(Moved, "what was displaced is written to at this moment")
	}
}

// file opens one.
func (s *reverser) file(names ...string) func() (*os.File, error) {
	return func() (*os.File, error) {
		p, err := s.place(names)
		if err != nil {
			return nil, err
		}
		defer p.Close()
		return openRegular(p.dir, p.base)
	}
}

func (s *reverser) place(names []string) (*Place, error) {
	at := append([]string{trashDir, s.batch}, components(path.Join(names...))...)
	dir, err := enterAllIn(s.area.dir, at[:len(at)-1]...)
	if err != nil {
		return nil, err
	}
	return &Place{root: s.root, dir: dir, base: at[len(at)-1], Asked: at[len(at)-1], released: dir.Close}, nil
}
