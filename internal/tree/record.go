package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/atomicfile"
	"mcpx/internal/text"
)

// Record is what a packet says of itself: enough to go on when nobody else knows it.
type Record struct {
	About    json.RawMessage // the business of the caller
	Manifest Manifest
}

// recordHead is the first line of a record. Then come what it is about, in one line, and a line for each entry of the manifest in
// their order: what its digest is over, and behind that the size of a file or the text of a link.
const recordHead = "base 1\n"

func (p Packet) record(rev int) string {
	return filepath.Join(p.Dir, recordPrefix+strconv.Itoa(rev))
}

// recordPrefix begins the name of a record; its revision ends it.
const recordPrefix = "base-"

// Write makes the record of a revision durable.
func (p Packet) Write(rev int, r Record) error {
	var about bytes.Buffer
	if err := json.Compact(&about, r.About); err != nil {
		return err
	}
	raw := append(append([]byte(recordHead), about.Bytes()...), '\n')
	for _, i := range r.Manifest.Items {
		raw = i.appendTo(raw)
		switch i.Kind {
		case File:
			raw = strconv.AppendInt(append(raw, ' '), i.Size, 10)
		case Link:
			raw = append(append(raw, ' '), text.EncodePath(i.Link)...)
		case Directory, Other, Absent:
		}
		raw = append(raw, '\n')
	}
	return writing(atomicfile.Write(p.record(rev), raw, 0o600), p.Dir)
}

// Read reads the record of a revision. ErrDamaged.
func (p Packet) Read(rev int) (r Record, err error) {
	raw, err := os.ReadFile(p.record(rev))
	if err != nil {
		return r, reading(err, p.Dir)
	}
	rest, ok := strings.CutPrefix(string(raw), recordHead)
	about, rest, found := strings.Cut(rest, "\n")
	if !ok || !found || !json.Valid([]byte(about)) {
		return r, p.damaged(rev, 1)
	}
	r.About = json.RawMessage(about)
	r.Manifest.Items = make([]Item, 0, strings.Count(rest, "\n"))
	for rest != "" {
		var line string
		if line, rest, found = strings.Cut(rest, "\n"); !found {
			return r, p.damaged(rev, len(r.Manifest.Items)+3)
		}
		i, ok := parseItem(line)
		if !ok {
			return r, p.damaged(rev, len(r.Manifest.Items)+3)
		}
		r.Manifest.Items = append(r.Manifest.Items, i)
	}
	return r, nil
}

// ErrDamaged says that a record is not as it was written.
var ErrDamaged = errors.New("the record is damaged")

func (p Packet) damaged(rev, line int) error {
	return fmt.Errorf("line %d of %s: %w", line, p.record(rev), ErrDamaged)
}

// parseItem reads a line of a record.
func parseItem(line string) (i Item, ok bool) {
	kind, rest, _ := strings.Cut(line, " ")
	perm, rest, _ := strings.Cut(rest, " ")
	digest, rest, ok := strings.Cut(rest, " ")
	if !ok {
		return i, false
	}
	mode, err := strconv.ParseUint(perm, 8, 32)
	path, more, has := strings.Cut(rest, " ")
	i.Kind, i.Mode, i.Digest = Kind(kind), uint32(mode), digest
	if err == nil {
		path, err = text.DecodePath(path)
	}
	i.Path = RawPath(path)
	var failed error
	switch i.Kind {
	case File:
		i.Size, failed = strconv.ParseInt(more, 10, 64)
	case Link:
		i.Link, failed = text.DecodePath(more)
	case Directory, Other, Absent:
		return i, err == nil && !has
	default:
		return i, false
	}
	return i, err == nil && failed == nil && has
}

// Latest is the highest revision that has a record; 0: none has.
func (p Packet) Latest() (rev int, err error) {
	all, err := os.ReadDir(p.Dir)
	if err != nil {
		return 0, reading(err, p.Dir)
	}
	for _, e := range all {
		if of, ok := strings.CutPrefix(e.Name(), recordPrefix); ok {
			if n, err := strconv.Atoi(of); err == nil {
				rev = max(rev, n)
			}
		}
	}
	return rev, nil
}

// Find is the entry with a path; one that the manifest does not have is Absent.
func (m Manifest) Find(path string) Item {
	n, ok := slices.BinarySearchFunc(m.Items, path, func(i Item, path string) int { return Order(string(i.Path), path) })
	if !ok {
		return Item{Path: RawPath(path), Kind: Absent}
	}
	return m.Items[n]
}

// With is the manifest with other entries at some paths; what is Absent there is in it no more.
func (m Manifest) With(changed map[string]Item) Manifest {
	out := Manifest{Items: make([]Item, 0, len(m.Items)+len(changed))}
	for _, i := range m.Items {
		if _, ok := changed[string(i.Path)]; !ok {
			out.Items = append(out.Items, i)
		}
	}
	for _, i := range changed {
		if i.Kind != Absent {
			out.Items = append(out.Items, i)
		}
	}
	out.Sort()
	return out
}
