package clientfile

import (
	"bytes"
	"errors"

	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlKnot is a value of a TOML file that is edited.
type tomlKnot = knot[tomlPlace]

// tomlPlace says where a value stands. It has a range, or it is a table that lines make: a header, dotted keys, or
// headers of tables in it.
type tomlPlace struct {
	start, end int          // of the value; end 0: none
	members    []tomlMember // of an inline table
	section    *tomlSection // the one whose header names it
	last       *tomlSection // the last one whose header names it or something in it
	host       *tomlLine    // the last line that leads here by dotted keys
	depth      int          // how many keys of host lead here
	tables     bool         // made of [[headers]]; what is in it has no knots
	raw        string       // its name as it is written
}

// tomlMember is one key = value of an inline table.
type tomlMember struct {
	start, end int
	target     *tomlKnot
}

// tomlLine is one expression: a header, or key = value.
type tomlLine struct {
	start, end int
	keyEnds    []int // of each key
	value      int   // where it starts; 0 in a header
	target     *tomlKnot
	section    *tomlSection // the one it begins or belongs to
}

// tomlSection is a header with the lines up to the next one. The first section has no header.
type tomlSection struct {
	header *tomlLine
	last   *tomlLine // nil in a first section without lines
}

type tomlEditor struct {
	*page
	root     *tomlKnot
	top      *tomlSection
	lines    []*tomlLine
	sections int
	err      error // the first thing that TOML cannot say, or that is not edited
}

// spliceTOML gives the spans that make the changes of ops in a TOML document. What is inline stays inline, a dotted
// entry stays dotted, and a new table gets a header behind its last sibling.
func spliceTOML(doc document, ops []op) ([]span, error) {
	root, err := grow[tomlPlace](doc.root, "", nil, 0)
	if err != nil {
		return nil, err
	}
	d := &tomlEditor{page: newPage(doc.data, lineFeeds), root: root}
	if err := d.locate(); err != nil {
		return nil, err
	}
	for _, o := range ops {
		if o.value != nil && o.value.kind == absent { // TOML has no null
			o.value = nil
		}
		if err := d.root.do(o.at, o.value); err != nil {
			return nil, err
		}
	}
	if !d.root.touched {
		return nil, nil
	}
	d.write(d.root)
	d.drops()
	if d.err != nil {
		return nil, d.err
	}
	return d.spans(), nil
}

// locate gives the knots their places.
func (d *tomlEditor) locate() error {
	var p unstable.Parser
	p.Reset(d.data[d.base:d.length])
	section := &tomlSection{}
	d.top = section
	for p.NextExpression() {
		e := p.Expression()
		l := &tomlLine{}
		var keys unstable.Iterator
		from := d.root
		switch e.Kind { //nolint:exhaustive // an expression is one of these or a comment
		case unstable.Table, unstable.ArrayTable:
			section = &tomlSection{header: l}
			d.sections++
			keys = e.Key()
		case unstable.KeyValue:
			if section.header != nil {
				from = section.header.target
			}
			l.start, l.end = d.base+int(e.Raw.Offset), d.base+int(e.Raw.Offset+e.Raw.Length)
			keys = e.Key()
		default:
			continue
		}
		l.section, section.last = section, l
		path, err := d.follow(from, keys, l)
		if err != nil {
			return err
		}
		l.target = path[len(path)-1]
		if e.Kind != unstable.KeyValue {
			d.header(l, path, e.Kind == unstable.ArrayTable)
		} else if !l.target.place.tables {
			for i, q := range path[:len(path)-1] {
				q.place.host, q.place.depth = l, i+1
			}
			l.value = d.valueAfter(l.keyEnds[len(l.keyEnds)-1])
			if _, err := d.value(l.target, e.Value(), l.value); err != nil {
				return err
			}
		}
		d.lines = append(d.lines, l)
	}
	return p.Error()
}

var errLost = errors.New("clientfile: the reading and the expressions of a TOML file differ")

// follow goes along keys, and notes how they are written. It stops at an array of tables.
func (d *tomlEditor) follow(k *tomlKnot, keys unstable.Iterator, l *tomlLine) ([]*tomlKnot, error) {
	var path []*tomlKnot
	for keys.Next() {
		n := keys.Node()
		start := d.base + int(n.Raw.Offset)
		end := start + int(n.Raw.Length)
		if l.start == 0 && len(l.keyEnds) == 0 {
			l.start = start
		}
		l.end = max(l.end, end)
		l.keyEnds = append(l.keyEnds, end)
		if k.place.tables {
			path = append(path, k)
			continue
		}
		if k = k.member(string(n.Data)); k == nil {
			return nil, errLost
		}
		k.place.raw = string(d.data[start:end])
		path = append(path, k)
	}
	return path, nil
}

func (d *tomlEditor) header(l *tomlLine, path []*tomlKnot, array bool) {
	if !l.target.place.tables {
		l.target.place.tables = array
		if !array {
			l.target.place.section = l.section
		}
	}
	for q := l.target; q != nil; q = q.up {
		q.place.last = l.section
	}
}

// valueAfter is where the value begins behind its last key.
func (d *tomlEditor) valueAfter(at int) int {
	for d.data[at] == ' ' || d.data[at] == '\t' || d.data[at] == '=' {
		at++
	}
	return at
}

// value places k at start, and what is in it. It gives the end.
func (d *tomlEditor) value(k *tomlKnot, n *unstable.Node, start int) (end int, err error) {
	switch n.Kind { //nolint:exhaustive // the others are scalars
	case unstable.InlineTable:
		end = start + 1
		for it := n.Children(); it.Next(); {
			m := it.Node()
			l := &tomlLine{start: d.base + int(m.Raw.Offset)}
			end = l.start + int(m.Raw.Length)
			path, err := d.follow(k, m.Key(), l)
			if err != nil {
				return 0, err
			}
			target := path[len(path)-1]
			k.place.members = append(k.place.members, tomlMember{start: l.start, end: end, target: target})
			if _, err := d.value(target, m.Value(), d.valueAfter(l.keyEnds[len(l.keyEnds)-1])); err != nil {
				return 0, err
			}
		}
		end = d.skip(end) + 1
	case unstable.Array:
		end = start + 1
		i := 0
		for it := n.Children(); it.Next(); i++ {
			if i >= len(k.kids) {
				return 0, errLost
			}
			if end, err = d.value(k.kids[i], it.Node(), d.skip(end)); err != nil {
				return 0, err
			}
		}
		end = d.skip(end) + 1
	default:
		end = start + int(n.Raw.Length)
	}
	k.place.start, k.place.end = start, end
	return end, nil
}

// skip passes space, line ends, commas and comments.
func (d *tomlEditor) skip(at int) int {
	for at < d.length {
		switch d.data[at] {
		case ' ', '\t', '\r', '\n', ',':
			at++
		case '#':
			i := bytes.IndexByte(d.data[at:d.length], '\n')
			if i < 0 {
				return d.length
			}
			at += i
		default:
			return at
		}
	}
	return at
}

// replaced says whether a table that lines make gets another value: its lines go, and the value is written anew.
func replaced(k *tomlKnot) bool { return k.written != nil && !k.fresh && k.place.end == 0 }

// dead says whether the lines of k go.
func dead(k *tomlKnot) bool {
	for q := k; q != nil; q = q.up {
		if q.gone || replaced(q) {
			return true
		}
	}
	return false
}

// drops removes the lines of what is gone.
func (d *tomlEditor) drops() {
	floor := 0
	var gone *tomlSection
	for _, l := range d.lines {
		first, last, header := d.line(l.start), d.line(l.end), l.value == 0 && l.section.header == l
		switch {
		case l.section == gone:
		case !dead(l.target):
		case header:
			gone = l.section
			d.drop(d.above(first, floor, always), d.sectionEnd(gone), floor, false)
		default:
			d.drop(d.above(first, floor, always), last, floor, false)
		}
		floor = last + 1
	}
}

func always(int) bool { return true }

// sectionEnd is the last line of a section. Comments right below it belong to it, unless a header is right below them.
func (d *tomlEditor) sectionEnd(s *tomlSection) int {
	last := d.line(s.last.end)
	end := last
	for {
		if _, ok := d.comment(end + 1); !ok {
			break
		}
		end++
	}
	if d.blank(end + 1) {
		return end
	}
	return last
}
