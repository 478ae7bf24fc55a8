package work

import (
	"context"
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/tree"
)

// SearchFiles are the arguments of search_files.
type SearchFiles struct {
	InCopy
	Query string   `json:"query" jsonschema:"what to find, in one line"`
	Mode  string   `json:"mode,omitempty" jsonschema:"literal or regex (RE2); literal without it"`
	Paths []string `json:"paths,omitempty" jsonschema:"files and directories; the project itself without it"`
	Chosen
	Case      string `json:"case,omitempty" jsonschema:"sensitive, insensitive or smart"`
	Word      bool   `json:"word,omitempty" jsonschema:"only whole words"`
	Context   int    `json:"context,omitempty" jsonschema:"lines shown before and after, 0 to 10"`
	NamesOnly bool   `json:"names_only,omitempty" jsonschema:"only which files have it"`
	PerFile   int    `json:"per_file,omitempty" jsonschema:"hits told of one file, 1 to 200; 20 without it"`
	Limit     int    `json:"limit,omitempty" jsonschema:"hits, or files with names_only, 1 to 500; 100 without it"`
	Cursor    string `json:"cursor,omitempty" jsonschema:"next_cursor of the page before"`
}

// Bounds of search_files, runtime.md section 11.
const (
	usualHits, mostHits       = 100, 500
	usualPerFile, mostPerFile = 20, 200
	mostContext               = 10
	maxSearched               = 4 << 20 // bytes of a file
	maxHitText                = 500     // bytes of a line that are shown
	maxScopes                 = 100
	// searchWithin ends a page of a search that finds little in a large tree, before the caller gives up.
	searchWithin = 15 * time.Second
)

// hit is a line that has the query.
type hit struct {
	Line   int      `json:"line"`
	Column int      `json:"column"` // in characters
	Text   string   `json:"text"`
	Cut    bool     `json:"cut,omitempty"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

// foundFile is a file with hits.
type foundFile struct {
	shownPath
	SHA256 string `json:"sha256"` // of the file in which the hits were seen
	Hits   []hit  `json:"hits,omitempty"`
	More   bool   `json:"more,omitempty"` // it has more hits than per_file
}

// skippedFiles counts what was not searched. An ignored directory is one.
type skippedFiles struct {
	Ignored    int `json:"ignored"`
	Binary     int `json:"binary"`
	TooLarge   int `json:"too_large"`
	Denied     int `json:"denied"`
	Unreadable int `json:"unreadable"`
}

// found is the answer of search_files.
type found struct {
	Files    []foundFile  `json:"files"`
	Skipped  skippedFiles `json:"skipped"`
	Complete bool         `json:"complete"`
	Next     string       `json:"next_cursor,omitempty"`
}

func searchFiles(ctx context.Context, s *Service, t *turn) (any, error) {
	var in SearchFiles
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if len(in.Paths) == 0 {
		in.Paths = []string{"."}
	}
	if len(in.Paths) > maxScopes {
		return nil, operation.Refuse(operation.LimitExceeded, "%d paths are too many for one search", len(in.Paths)).With("limit", maxScopes).With("value", len(in.Paths))
	}
	choice, err := in.read()
	if err != nil {
		return nil, err
	}
	from, err := t.from(in.Cursor)
	if err != nil {
		return nil, err
	}
	finder, err := newFinder(in.Query, in.Mode, in.Case, in.Word)
	if err != nil {
		return nil, err
	}
	x, err := s.at(ctx, t, in.Paths[0], session.ActRead)
	if err != nil {
		return nil, err
	}
	defer x.close()
	q := &search{
		s: s, at: x, finder: finder, choice: choice, ignored: in.Ignored, namesOnly: in.NamesOnly,
		context: min(max(in.Context, 0), mostContext), perFile: within(in.PerFile, usualPerFile, mostPerFile), from: from,
	}
	defer q.close()
	if err := q.scope(in.Paths); err != nil {
		return nil, err
	}
	out, end, err := q.run(ctx, within(in.Limit, usualHits, mostHits))
	if err != nil {
		return nil, problem(err)
	}
	answer := outcome{data: &out}
	if !out.Complete {
		answer.next = []operation.Next{t.goOn(end, &out.Next)}
	}
	return answer, nil
}

// collector makes a page of what was found.
type collector struct {
	q     *search
	out   found
	limit int
	told  int // hits, or files
	room  page
	end   cursor
}

// collect takes a batch; false: the page is full.
func (c *collector) collect(b *batch) bool {
	for i := range b.files {
		f := &b.files[i]
		if f.sum != "" && (c.q.namesOnly || len(f.hits) > 0) && !c.add(f) {
			c.out.Complete = false
			return false
		}
		c.out.Skipped.count(f.why)
		c.end = cursor{After: tree.RawPath(f.visit.Path)}
	}
	return true
}

// add takes a file with as many of its hits as find room; false: not all do.
func (c *collector) add(f *seenFile) bool {
	file := foundFile{shownPath: showPath(f.visit.Path), SHA256: f.sum}
	if !c.fits(file) {
		return false
	}
	if c.q.namesOnly {
		c.out.Files = append(c.out.Files, file)
		c.told++
		return true
	}
	for i, h := range f.hits {
		if !c.fits(h) {
			if i > 0 {
				file.Hits = f.hits[:i]
				c.out.Files = append(c.out.Files, file)
				c.end = cursor{After: tree.RawPath(f.visit.Path), Hits: c.q.told(f.visit.Path) + i}
			}
			return false
		}
		c.told++
	}
	file.Hits, file.More = f.hits, f.more
	c.out.Files = append(c.out.Files, file)
	return true
}

// fits says whether something finds room on the page. The first hit always does: a page says something.
func (c *collector) fits(v any) bool {
	return c.told < c.limit && (c.room.takes(v) || c.told == 0)
}
