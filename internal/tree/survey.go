package tree

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

// surveyWorkers is how many files are read at once.
const surveyWorkers = 4

// SurveyOptions say what a survey takes.
type SurveyOptions struct {
	// Skip leaves an entry out, a directory with all that is below it; nil: nothing is left out.
	Skip func(Visit) bool
	Git  bool            // what is in directories named .git is not left out
	Read func(bytes int) // is told of bytes of files as they are read, by several at once; nil: nobody is
	// Noted are files that are not read while they are what they were noted as; nil: all are read.
	Noted Noted
}

// Survey is the manifest of all that is below the root, in the order of walks. Directories of the runtime and what is named
// .git are left out, and what ignore files leave out is not. A directory that cannot be read is an error: nobody can say
// what is in it.
func (r *Root) Survey(ctx context.Context, o SurveyOptions) (Manifest, error) {
	var (
		mu    sync.Mutex // guards items
		items []Item
	)
	add := func(i Item) {
		mu.Lock()
		defer mu.Unlock()
		items = append(items, i)
	}
	into := io.Discard
	if o.Read != nil {
		into = counted(o.Read)
	}
	group, read := errgroup.WithContext(ctx)
	group.SetLimit(surveyWorkers)
	err := r.each(ctx, o.Git, func(v Visit) error {
		if o.Skip != nil && o.Skip(v) {
			return fs.SkipDir
		}
		if err := read.Err(); err != nil {
			return context.Cause(read)
		}
		item, err := v.item(o.Noted)
		if err != nil {
			return reading(err, v.Path)
		}
		if item.Digest != "" {
			add(item)
			return nil
		}
		release := v.Hold()
		group.Go(func() error {
			defer release()
			if err := v.hash(read, &item, into); err != nil {
				return reading(err, v.Path)
			}
			add(item)
			return nil
		})
		return nil
	})
	if failed := group.Wait(); failed != nil {
		return Manifest{}, failed
	}
	m := Manifest{Items: items}
	m.Sort()
	return m, err
}

// counted tells of the bytes that are written to it, and forgets them.
type counted func(bytes int)

func (c counted) Write(p []byte) (int, error) {
	c(len(p))
	return len(p), nil
}

// each visits everything below the root but, as a rule, what is named .git.
func (r *Root) each(ctx context.Context, git bool, visit func(Visit) error) error {
	top, err := r.Resolve(".", List)
	if err != nil {
		return err
	}
	defer top.Close()
	var failed error
	err = top.Walk(ctx, WalkOptions{Ignored: true, Git: git, Failed: func(_ string, err error) { failed = err }}, func(v Visit) error {
		switch {
		case failed != nil:
			return failed
		case v.name == ".git" && !git:
			return fs.SkipDir
		}
		return visit(v)
	})
	if err == nil {
		err = failed
	}
	return err
}

// item is the entry of a visit as a manifest has it. A file that is not as it was noted has no digest: it has to be read.
func (v Visit) item(known Noted) (Item, error) {
	facts, err := look(v.dir.File, v.name)
	if err != nil {
		return Item{}, err
	}
	i := Item{Path: RawPath(v.Path), Kind: facts.Kind, Mode: uint32(facts.Mode.Perm())}
	switch facts.Kind {
	case File:
		i.Size, i.Digest = facts.Size, known.digest(v.Path, facts)
	case Link:
		text, err := readlink(v.dir.File, v.name)
		if err != nil {
			return Item{}, err
		}
		i.Link, i.Digest, i.Mode = text, LinkDigest(text), 0
	case Directory:
		i.Digest = dirDigest
	case Other, Absent:
		i.Digest = oddDigest
	}
	return i, nil
}

// hash reads a file as an item. Its bytes are written to into as they are read.
func (v Visit) hash(ctx context.Context, i *Item, into io.Writer) (err error) {
	if i.Size <= copySmall {
		err = v.small(ctx, i, into)
	}
	if i.Size > copySmall || CodeOf(err) == LimitExceeded { // it has grown
		var c Content
		c, err = stable(ctx, v.dir.File, v.name, into)
		i.Size, i.Digest, i.Mode = c.Size, c.SHA256, uint32(c.Mode.Perm())
	}
	return err
}

// smallBuffers are for files that are read at once.
var smallBuffers = sync.Pool{New: func() any { return new([]byte) }}

// small reads a small file as an item, with as few calls of the system as there can be.
func (v Visit) small(ctx context.Context, i *Item, into io.Writer) (err error) {
	buf, _ := smallBuffers.Get().(*[]byte)
	defer smallBuffers.Put(buf)
	i.Digest, *buf, err = v.Sift(ctx, copySmall, *buf, func(facts Facts, data []byte) (bool, error) {
		i.Size, i.Mode = facts.Size, uint32(facts.Mode.Perm())
		_, err := into.Write(data)
		return true, err
	})
	return err
}

// Sort brings the entries into the order of walks.
func (m Manifest) Sort() {
	slices.SortFunc(m.Items, func(a, b Item) int { return Order(string(a.Path), string(b.Path)) })
}

// Order compares paths in the order of walks: a directory comes before what is in it, and that before its next sibling.
func Order(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
			return -1
		case y == '/':
			return 1
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// Item is what lies under a path; one that does not exist is Absent.
func (r *Root) Item(ctx context.Context, path string) (Item, error) {
	p, err := r.Resolve(path, Look)
	if CodeOf(err) == NotFound {
		return Item{Path: RawPath(path), Kind: Absent}, nil
	}
	if err != nil {
		return Item{}, err
	}
	defer p.Close()
	if p.Path != path {
		return Item{Path: RawPath(path), Kind: Absent}, nil // it is reached through a link, or has another name
	}
	v := p.Visit()
	i, err := v.item(nil)
	if err == nil && i.Digest == "" {
		err = v.hash(ctx, &i, io.Discard)
	}
	if err != nil {
		return Item{}, reading(err, path)
	}
	return i, nil
}
