package work

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"mcpx/internal/ignore"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/tree"
)

// Chosen says which entries below a directory a call is about.
type Chosen struct {
	Glob    []string `json:"glob,omitempty" jsonschema:"only what fits one: *.go at any depth, src/**/*.{ts,tsx} from the root"`
	Exclude []string `json:"exclude,omitempty" jsonschema:"not what fits one; of a directory, nothing"`
	Ignored bool     `json:"ignored,omitempty" jsonschema:"also what .gitignore files leave out"`
}

// chosen is Chosen, read.
type chosen struct{ glob, exclude ignore.Globs }

func (c Chosen) read() (out chosen, err error) {
	if out.glob, err = ignore.ParseGlobs(c.Glob); err == nil {
		out.exclude, err = ignore.ParseGlobs(c.Exclude)
	}
	if err != nil {
		return out, operation.Refuse(operation.ArgumentInvalid, "%s", err)
	}
	return out, nil
}

// takes says whether an entry is one of those that a call is about.
func (c chosen) takes(path string) bool { return len(c.glob) == 0 || c.glob.Fit(path) }

// ListFiles are the arguments of list_files.
type ListFiles struct {
	InCopy
	Path  string `json:"path,omitempty" jsonschema:"a directory; the project itself without it"`
	Depth int    `json:"depth,omitempty" jsonschema:"levels, 1 to 64; 1 without it"`
	Chosen
	Kinds  []string `json:"kinds,omitempty" jsonschema:"only these: file, dir, link, other"`
	Limit  int      `json:"limit,omitempty" jsonschema:"entries, 1 to 1000; 200 without it"`
	Cursor string   `json:"cursor,omitempty" jsonschema:"next_cursor of the page before"`
}

// Bounds of list_files, runtime.md section 11.
const (
	maxListDepth = 64
	usualEntries = 200
	mostEntries  = 1000
)

// listedEntry is an entry as it is told. Of one that is denied nothing but name and kind is.
type listedEntry struct {
	shownPath
	Kind    tree.Kind  `json:"kind"`
	Size    *int64     `json:"size,omitempty"`
	MTime   *time.Time `json:"mtime,omitempty"`
	Exec    bool       `json:"exec,omitempty"`
	Link    *string    `json:"link,omitempty"`
	Ignored bool       `json:"ignored,omitempty"`
	Denied  bool       `json:"denied,omitempty"`
}

// listing is the answer of list_files.
type listing struct {
	Entries  []listedEntry `json:"entries"`
	Complete bool          `json:"complete"`
	Next     string        `json:"next_cursor,omitempty"`
}

func listFiles(ctx context.Context, s *Service, t *turn) (any, error) {
	var in ListFiles
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if in.Path == "" {
		in.Path = "."
	}
	choice, err := in.read()
	if err != nil {
		return nil, err
	}
	for _, kind := range in.Kinds {
		if !slices.Contains([]tree.Kind{tree.File, tree.Directory, tree.Link, tree.Other}, tree.Kind(kind)) {
			return nil, operation.Refuse(operation.ArgumentInvalid, "%.32q is no kind; file, dir, link and other are", kind)
		}
	}
	from, err := t.from(in.Cursor)
	if err != nil {
		return nil, err
	}
	x, err := s.at(ctx, t, in.Path, session.ActRead)
	if err != nil {
		return nil, err
	}
	defer x.close()
	p, err := s.resolve(ctx, x, in.Path, tree.List)
	if err != nil {
		return nil, err
	}
	defer p.Close()

	out := listing{Entries: []listedEntry{}, Complete: true}
	limit, room := within(in.Limit, usualEntries, mostEntries), page{pageBytes}
	last, failed := string(from.After), []string(nil)
	err = p.Walk(ctx, tree.WalkOptions{
		After: string(from.After), Depth: within(in.Depth, 1, maxListDepth), Ignored: in.Ignored,
		Failed: func(path string, _ error) { failed = append(failed, path) },
	}, func(v tree.Visit) error {
		switch {
		case v.Ignored && !in.Ignored, choice.exclude.Fit(v.Path):
			return fs.SkipDir
		case v.Again, !choice.takes(v.Path), len(in.Kinds) > 0 && !slices.Contains(in.Kinds, string(v.Kind)):
			return nil
		}
		e, ok := s.listed(ctx, x, v)
		if !ok {
			return nil
		}
		if len(out.Entries) == limit || !room.takes(e) {
			out.Complete = false
			return fs.SkipAll
		}
		out.Entries, last = append(out.Entries, e), v.Path
		return nil
	})
	if err != nil {
		return nil, problem(err)
	}
	answer := outcome{data: &out, warnings: unwalked(failed)}
	if !out.Complete {
		answer.next = []operation.Next{t.goOn(cursor{After: tree.RawPath(last)}, &out.Next)}
	}
	return answer, nil
}

// listed looks at an entry; false: it is gone.
func (s *Service) listed(ctx context.Context, x *target, v tree.Visit) (listedEntry, bool) {
	seen, err := v.Look()
	if err != nil {
		return listedEntry{}, false
	}
	e := listedEntry{shownPath: showPath(v.Path), Kind: seen.Kind, Ignored: v.Ignored}
	if s.verdict(ctx, x, seen, policy.AccessRead).Decision == policy.Deny {
		e.Denied = true
		return e, true
	}
	modified := seen.Modified.UTC()
	e.MTime = &modified
	switch seen.Kind {
	case tree.File:
		e.Size, e.Exec = &seen.Size, seen.Mode&0o111 != 0
	case tree.Link:
		if text, err := v.Link(); err == nil {
			e.Link = &text
		}
	case tree.Directory, tree.Other, tree.Absent:
	}
	return e, true
}

// maxFailed is how many directories a warning names.
const maxFailed = 3

// unwalked warns of directories that could not be walked.
func unwalked(failed []string) []string {
	if len(failed) == 0 {
		return nil
	}
	names := failed[:min(len(failed), maxFailed)]
	return []string{fmt.Sprintf("%d directories could not be read, among them %q", len(failed), names)}
}
