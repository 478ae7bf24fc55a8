package clientfile

import (
	"bytes"
	"slices"
	"strings"
)

// write spells out the changes of k, of a knot that stays.
func (d *tomlEditor) write(k *tomlKnot) {
	if k.gone || !k.touched || d.err != nil {
		return
	}
	switch {
	case k.written != nil && k.place.end > 0:
		d.replace(k.place.start, k.place.end, d.rewritten(k))
	case k.written != nil: // its parent writes it
	case k.place.tables:
		d.fail(unsupported("arrays of tables are not edited"))
	case k.place.end > 0 && k.was.kind == list:
		var parts []part
		var fresh []string
		for _, kid := range k.kids {
			if kid.fresh {
				fresh = append(fresh, d.spell(*kid.written))
				continue
			}
			parts = append(parts, part{start: kid.place.start, end: kid.place.end, gone: kid.gone})
		}
		d.writeKids(k)
		d.bracketed(k.place.start, k.place.end, parts, fresh, "")
	case k.place.end > 0:
		d.inline(k)
	default:
		d.table(k)
	}
}

func (d *tomlEditor) writeKids(k *tomlKnot) {
	for _, kid := range k.kids {
		if !kid.fresh {
			d.write(kid)
		}
	}
}

func (d *tomlEditor) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// anew are the members of a table that have to be written.
func anew(k *tomlKnot) []*tomlKnot {
	var out []*tomlKnot
	for _, kid := range k.kids {
		if !kid.gone && (kid.fresh || replaced(kid)) && kid.written.kind != absent {
			out = append(out, kid)
		}
	}
	return out
}

// inline edits an inline table.
func (d *tomlEditor) inline(k *tomlKnot) {
	parts := make([]part, len(k.place.members))
	eq := " = "
	for i, m := range k.place.members {
		parts[i] = part{start: m.start, end: m.end, gone: dead(m.target)}
		if i == 0 {
			eq = d.equals(m.start, m.target.place.start)
		}
	}
	var fresh []string
	var gather func(q *tomlKnot, prefix string)
	gather = func(q *tomlKnot, prefix string) {
		if dead(q) || !q.touched {
			return
		}
		if q != k && len(q.live()) == 0 {
			fresh = append(fresh, strings.TrimSuffix(prefix, ".")+eq+"{}")
		}
		for _, kid := range anew(q) {
			fresh = append(fresh, prefix+keyOf(kid)+eq+d.spell(*kid.written))
		}
		for _, kid := range q.kids {
			switch {
			case kid.fresh:
			case kid.place.end > 0:
				d.write(kid)
			default: // dotted keys in the braces
				gather(kid, prefix+keyOf(kid)+".")
			}
		}
	}
	gather(k, "")
	d.bracketed(k.place.start, k.place.end, parts, fresh, " ")
}

// equals is how keys and values are kept apart between two offsets.
func (d *tomlEditor) equals(from, value int) string {
	if b := d.data[from:value]; bytes.HasSuffix(b, []byte("=")) && !bytes.HasSuffix(b, []byte(" =")) {
		return "="
	}
	return " = "
}

// table edits a table that lines make.
func (d *tomlEditor) table(k *tomlKnot) {
	var values, tables []*tomlKnot
	for _, kid := range anew(k) {
		if kid.written.kind == object && !d.valueLike(k) {
			tables = append(tables, kid)
			continue
		}
		values = append(values, kid)
	}
	switch section := k.place.section; {
	case k == d.root && len(values) > 0:
		d.rootValues(values)
	case k == d.root || section != nil && len(values) == 0:
	case section != nil:
		d.insert(d.line(section.last.end), d.assignments(section.last, "", values))
	case k.place.host != nil:
		d.writeKids(k)
		h := k.place.host
		prefix := string(d.data[h.start:h.keyEnds[k.place.depth-1]])
		if len(k.live()) == 0 {
			d.insert(d.line(h.end), []string{d.indent(d.line(h.start)) + prefix + d.equals(h.start, h.value) + "{}"})
		} else if len(values) > 0 {
			d.insert(d.line(h.end), d.assignments(h, prefix+".", values))
		}
	case len(values) > 0 || len(k.live()) == 0: // only tables in it have headers
		n := node{kind: object}
		for _, kid := range append(values, tables...) {
			n.fields = append(n.fields, field{kid.name, *kid.written})
		}
		d.newTable(k, pathOf(k), n)
		tables = nil
	}
	if section := k.place.section; section != nil || k.place.host == nil {
		d.writeKids(k)
	}
	for _, kid := range tables {
		d.newTable(k, append(pathOf(k), keyOf(kid)), *kid.written)
	}
}

// valueLike says whether a new table in k is written as a value: its siblings are, or all of an entry is dotted.
func (d *tomlEditor) valueLike(k *tomlKnot) bool {
	if k == d.root {
		return false
	}
	inline := false
	for _, kid := range k.kids {
		if kid.fresh || kid.was.kind != object {
			continue
		}
		if kid.place.end == 0 {
			inline = false
			break
		}
		inline = true
	}
	if k.place.section != nil {
		return inline
	}
	return k.place.host != nil && k.up != d.root
}

// rootValues writes values in front of all headers.
func (d *tomlEditor) rootValues(values []*tomlKnot) {
	if d.top.last != nil {
		d.insert(d.line(d.top.last.end), d.assignments(d.top.last, "", values))
		return
	}
	e := d.insert(-1, d.assignments(nil, "", values))
	e.trail = d.newline(-1)
}

// assignments are lines for values, in the manner of a neighbour.
func (d *tomlEditor) assignments(like *tomlLine, prefix string, values []*tomlKnot) []string {
	eq, indent := " = ", ""
	if like != nil {
		indent = d.indent(d.line(like.start))
		if like.value > 0 {
			eq = d.equals(like.start, like.value)
		}
	}
	var lines []string
	for _, kid := range values {
		if prefix == "" {
			lines = append(lines, indent+keyOf(kid)+eq+d.spell(*kid.written))
			continue
		}
		lines = d.dotted(lines, indent+prefix+keyOf(kid), eq, *kid.written)
	}
	return lines
}

// dotted writes an object as lines with dotted keys.
func (d *tomlEditor) dotted(lines []string, key, eq string, v node) []string {
	if v.kind != object || empty(v) {
		return append(lines, key+eq+d.spell(v))
	}
	for _, f := range v.fields {
		if f.value.kind != absent {
			lines = d.dotted(lines, key+"."+tomlKey(f.name), eq, f.value)
		}
	}
	return lines
}

// newTable writes a table with a header behind the last one in k.
func (d *tomlEditor) newTable(k *tomlKnot, path []string, v node) {
	blank := d.airy(k)
	after, indent, inner := d.lastLine(), "", ""
	eq := " = "
	if s := k.place.last; s != nil && k != d.root {
		after = d.sectionEnd(s)
		indent = d.indent(d.line(s.header.start))
		inner = indent
		if s.last != s.header {
			inner = d.indent(d.line(s.last.start))
			if s.last.value > 0 {
				eq = d.equals(s.last.start, s.last.value)
			}
		}
	}
	var lines []string
	var section func(path []string, v node)
	section = func(path []string, v node) {
		var tables []field
		var body []string
		for _, f := range v.fields {
			switch f.value.kind {
			case absent:
			case object:
				tables = append(tables, f)
			case list, text, number, boolean:
				body = append(body, inner+tomlKey(f.name)+eq+d.spell(f.value))
			}
		}
		if len(body) > 0 || len(tables) == 0 {
			if len(lines) > 0 && blank {
				lines = append(lines, "")
			}
			lines = append(append(lines, indent+"["+strings.Join(path, ".")+"]"), body...)
		}
		for _, t := range tables {
			section(append(slices.Clone(path), tomlKey(t.name)), t.value)
		}
	}
	section(path, v)
	e := d.insert(after, lines)
	e.trail = d.newline(after)
	if blank {
		e.lead = d.newline(after)
	} else {
		e.trail = ""
	}
}

// lastLine is the last line that is not blank, -1 in an empty file.
func (p *page) lastLine() int {
	line := p.count() - 1
	for line >= 0 && p.blank(line) {
		line--
	}
	return line
}

// airy says whether headers have a blank line above: those in k, or else all of the file.
func (d *tomlEditor) airy(k *tomlKnot) bool {
	verdict := true
	floor := 0
	for i, l := range d.lines {
		if l.section.header == l && i > 0 {
			first := d.above(d.line(l.start), floor, always)
			verdict = first > 0 && d.blank(first-1)
			for q := l.target.up; q != nil && q != d.root; q = q.up {
				if q == k {
					return verdict
				}
			}
		}
		floor = d.line(l.end) + 1
	}
	return verdict
}
