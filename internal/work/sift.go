package work

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mcpx/internal/policy"
	"mcpx/internal/text"
	"mcpx/internal/tree"
)

// search is one search on its way: one goroutine walks, some read, and the caller collects in the order of the walk.
type search struct {
	s         *Service
	at        *target
	finder    *finder
	choice    chosen
	ignored   bool
	namesOnly bool
	context   int
	perFile   int
	from      cursor
	scopes    []*tree.Place
}

// scope resolves the places to search, in the order of walks and none within another.
func (q *search) scope(paths []string) error {
	for _, path := range paths {
		p, err := q.at.root.Resolve(path, tree.List)
		if tree.CodeOf(err) == tree.NotADirectory {
			p, err = q.at.root.Resolve(path, tree.Read)
		}
		if err != nil {
			return problem(err)
		}
		q.scopes = append(q.scopes, p)
	}
	slices.SortFunc(q.scopes, func(a, b *tree.Place) int { return walkOrder(a.Path, b.Path) })
	kept := q.scopes[:0]
	for _, p := range q.scopes {
		if n := len(kept); n > 0 && inside(p.Path, kept[n-1].Path) {
			_ = p.Close() // nothing was read from it
			continue
		}
		kept = append(kept, p)
	}
	q.scopes = kept
	return nil
}

func (q *search) close() {
	for _, p := range q.scopes {
		_ = p.Close() // it was only read from
	}
}

// walkOrder compares two paths as a walk comes to them.
func walkOrder(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == ".":
		return -1
	case b == ".":
		return 1
	}
	return tree.Order(a, b)
}

// inside says whether a path is a directory or below it.
func inside(path, dir string) bool {
	return dir == "." || path == dir || strings.HasPrefix(path, dir+"/")
}

// skip says why a file was not searched.
type skip string

// The reasons.
const (
	searched   skip = ""
	isIgnored  skip = "ignored"
	binary     skip = "binary"
	tooLarge   skip = "too large"
	denied     skip = "denied"
	unreadable skip = "unreadable"
)

func (s *skippedFiles) count(why skip) {
	switch why {
	case searched:
	case isIgnored:
		s.Ignored++
	case binary:
		s.Binary++
	case tooLarge:
		s.TooLarge++
	case denied:
		s.Denied++
	case unreadable:
		s.Unreadable++
	}
}

// seenFile is an entry that the walk came to, and what was found in it.
type seenFile struct {
	visit tree.Visit
	why   skip
	sum   string
	hits  []hit
	more  bool
}

// batchFiles is how many files are handed over at once: what one takes is less than the waking of a goroutine.
const batchFiles = 64

// batch is a part of the walk. Its directories are held until it is read.
type batch struct {
	files   []seenFile
	release []func()
	read    chan struct{} // closed when all of it is read
}

// run searches until a page is full.
func (q *search) run(ctx context.Context, limit int) (found, cursor, error) {
	ctx, stop := context.WithCancel(ctx)
	workers := runtime.GOMAXPROCS(0)
	order, ready := make(chan *batch, 16*workers), make(chan *batch, 16*workers)
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	var walked error // written before order is closed
	all.Go(func() {
		defer close(order)
		defer close(ready)
		walked = q.walk(ctx, func(b *batch) error {
			select {
			case order <- b:
			case <-ctx.Done():
				b.done()
				return context.Cause(ctx)
			}
			ready <- b // taken until it is closed
			return nil
		})
	})
	for range workers {
		all.Go(func() {
			r := reader{search: q}
			for b := range ready {
				if ctx.Err() == nil {
					r.read(ctx, b)
				}
				b.done()
			}
		})
	}
	c := &collector{q: q, out: found{Files: []foundFile{}, Complete: true}, limit: limit, room: page{pageBytes}, end: q.from}
	late := time.NewTimer(searchWithin)
	defer late.Stop()
	for b := range order {
		select {
		case <-b.read:
		case <-late.C:
			c.out.Complete = false
		case <-ctx.Done():
			return c.out, c.end, context.Cause(ctx)
		}
		if !c.out.Complete || !c.collect(b) {
			return c.out, c.end, nil
		}
	}
	return c.out, c.end, walked
}

func (b *batch) done() {
	for _, release := range b.release {
		release()
	}
	close(b.read)
}

// walk hands the files of all scopes over in their order.
func (q *search) walk(ctx context.Context, hand func(*batch) error) error {
	after := string(q.from.After)
	b := &batch{read: make(chan struct{})}
	dir := "" // of the last file of the batch
	flush := func() error {
		full := b
		b, dir = &batch{read: make(chan struct{})}, ""
		if len(full.files) == 0 {
			return nil
		}
		return hand(full)
	}
	add := func(v tree.Visit, why skip) error {
		at := v.Path[:strings.LastIndexByte(v.Path, '/')+1]
		if why == searched && (at != dir || len(b.release) == 0) {
			b.release, dir = append(b.release, v.Hold()), at
		}
		b.files = append(b.files, seenFile{visit: v, why: why})
		if len(b.files) == batchFiles {
			return flush()
		}
		return nil
	}
	defer func() { // of a walk that did not come to its end
		for _, release := range b.release {
			release()
		}
	}()
	alone := func(p *tree.Place) error { return errors.Join(add(p.Visit(), searched), flush()) }
	scopes := q.scopes
	if q.from.Hits > 0 { // some hits of this file were told
		if p, err := q.at.root.Resolve(after, tree.Read); err == nil {
			q.scopes = append(q.scopes, p) // to be closed with them
			if err := alone(p); err != nil {
				return err
			}
		}
	}
	for _, p := range scopes {
		switch {
		case p.Kind == tree.File && (after == "" || walkOrder(p.Path, after) > 0):
			if err := alone(p); err != nil {
				return err
			}
		case p.Kind != tree.Directory, after != "" && walkOrder(p.Path, after) < 0 && !inside(after, p.Path):
		default:
			if err := q.below(ctx, p, after, add); err != nil {
				return err
			}
		}
	}
	return flush()
}

// below hands over what is below one directory.
func (q *search) below(ctx context.Context, p *tree.Place, after string, add func(tree.Visit, skip) error) error {
	if !inside(after, p.Path) || after == p.Path {
		after = ""
	}
	var failed error
	err := p.Walk(ctx, tree.WalkOptions{After: after, Ignored: q.ignored, Failed: func(path string, _ error) {
		failed = errors.Join(failed, add(tree.Visit{Path: path}, unreadable))
	}}, func(v tree.Visit) error {
		switch {
		case failed != nil:
			return failed
		case q.choice.exclude.Fit(v.Path), v.Again && v.Ignored && !q.ignored:
			return fs.SkipDir
		case v.Again:
			return nil
		case v.Ignored && !q.ignored:
			if err := add(v, isIgnored); err != nil {
				return err
			}
			return fs.SkipDir
		case v.Kind != tree.File, !q.choice.takes(v.Path):
			return nil
		}
		return add(v, searched)
	})
	return err
}

// reader reads files for a search, with room that it uses again.
type reader struct {
	*search
	buf, lower []byte
}

func (r *reader) read(ctx context.Context, b *batch) {
	for i := range b.files {
		if f := &b.files[i]; f.why == searched {
			r.readFile(ctx, f)
		}
	}
}

func (r *reader) readFile(ctx context.Context, f *seenFile) {
	if r.denied(ctx, tree.Seen{Facts: tree.Facts{Kind: tree.File}, Path: f.visit.Path, Folds: f.visit.Folds()}) {
		f.why = denied
		return
	}
	var err error
	f.sum, r.buf, err = f.visit.Sift(ctx, maxSearched, r.buf, func(facts tree.Facts, data []byte) (bool, error) {
		f.hits, f.more, f.why = nil, false, searched
		if facts.Links > 1 && r.denied(ctx, tree.Seen{Facts: facts, Path: f.visit.Path, Folds: f.visit.Folds()}) {
			f.why = denied
			return false, nil
		}
		return r.sieve(f, data), nil
	})
	switch code := tree.CodeOf(err); {
	case code == tree.LimitExceeded:
		f.why = tooLarge
	case code != "" && code != tree.NotFound: // what is gone is no file
		f.why = unreadable
	}
}

func (q *search) denied(ctx context.Context, e tree.Seen) bool {
	return q.s.verdict(ctx, q.at, e, policy.AccessRead).Decision == policy.Deny
}

// sieve finds the hits in the bytes of a file.
func (r *reader) sieve(f *seenFile, data []byte) bool {
	switch text.EncodingOf(data) {
	case text.Binary:
		f.why = binary
		return false
	case text.UTF8:
		if !r.finder.mayBeIn(data, &r.lower) {
			return false
		}
	case text.UTF16LE, text.UTF16BE:
	}
	all := text.Parse(data).Text()
	told, n := r.told(f.visit.Path), 0
	matters := false
	r.finder.lines(all, func(number, from, to, at int) bool {
		matters = true
		if r.namesOnly {
			return false
		}
		if n++; n > r.perFile {
			f.more = true
			return false
		}
		if n > told {
			f.hits = append(f.hits, r.hit(all, number, from, to, at))
		}
		return true
	})
	return matters
}

// told is how many hits of a file were on the pages before.
func (q *search) told(path string) int {
	if path == string(q.from.After) {
		return q.from.Hits
	}
	return 0
}

// hit is the line of a text between two places as it is told.
func (q *search) hit(all []byte, number, from, to, at int) hit {
	line := all[from:to]
	shown, cut := clip(line, at)
	h := hit{Line: number, Column: utf8.RuneCount(line[:at]) + 1, Text: q.s.cfg.Redact(shown), Cut: cut}
	for begin := from; begin > 0 && len(h.Before) < q.context; {
		end := begin - 1
		begin = bytes.LastIndexByte(all[:end], '\n') + 1
		shown, _ := clip(all[begin:end], 0)
		h.Before = append(h.Before, q.s.cfg.Redact(shown))
	}
	slices.Reverse(h.Before)
	for rest := all[min(to+1, len(all)):]; len(rest) > 0 && len(h.After) < q.context; {
		line, more, _ := bytes.Cut(rest, []byte{'\n'})
		shown, _ := clip(line, 0)
		h.After, rest = append(h.After, q.s.cfg.Redact(shown)), more
	}
	return h
}

// lead is how much of a long line is shown before its match.
const lead = 100

// clip cuts a line between characters, so that what is at a place in it is shown.
func clip(line []byte, at int) (shown string, cut bool) {
	if len(line) <= maxHitText {
		return string(line), false
	}
	from := max(min(at-lead, len(line)-maxHitText), 0)
	for from > 0 && !utf8.RuneStart(line[from]) {
		from--
	}
	return head(line[from:], maxHitText), true
}
