package clientfile

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// write spells out the changes of k, of a knot that stays.
func (d *yamlEditor) write(k *yamlKnot) {
	switch {
	case k.gone || !k.touched || d.err != nil:
	case k.written != nil && k.up == nil:
		d.newRoot(*k.written)
	case k.written != nil:
		d.setValue(k, *k.written)
	case k.place.y == nil:
		d.newRoot(k.now())
	case k.place.y.Style&yaml.FlowStyle != 0:
		d.brackets(k)
	default:
		d.rows(k)
	}
}

func (d *yamlEditor) writeKids(k *yamlKnot) {
	for _, kid := range k.kids {
		if !kid.fresh {
			d.write(kid)
		}
	}
}

// inBrackets says whether the row of k is.
func inBrackets(k *yamlKnot) bool {
	return k.up != nil && k.up.place.y.Style&yaml.FlowStyle != 0
}

// split gives the members that the file has, and those that are new.
func split(k *yamlKnot) (old, fresh []*yamlKnot) {
	for _, kid := range k.kids {
		if kid.fresh {
			fresh = append(fresh, kid)
		} else {
			old = append(old, kid)
		}
	}
	return old, fresh
}

// brackets edits what is in brackets.
func (d *yamlEditor) brackets(k *yamlKnot) {
	old, fresh := split(k)
	if len(old) == 0 && len(fresh) > 0 && !inBrackets(k) {
		switch {
		case k.up == nil && d.begins(k.place.start):
			line := d.line(k.place.start)
			d.replace(d.starts[line], k.place.end, strings.Join(d.block(k.now(), 0), d.newline(line)))
			return
		case k.up != nil && k.was.kind == list && !d.short(k.now()):
			d.setValue(k, k.now())
			return
		}
	}
	parts := make([]part, len(old))
	for i, kid := range old {
		at := kid.place
		parts[i] = part{start: at.row, end: max(at.end, at.mark), gone: kid.gone, loose: at.odd || at.start == at.end && at.mark > at.keyEnd && k.was.kind == object}
		if kid.place.complex && kid.gone {
			d.fail(unsupported("a key is no simple one"))
		}
	}
	var all []string
	for _, kid := range fresh {
		text := d.inline(*kid.written)
		if k.was.kind == object {
			text = d.name(kid.name, true) + ": " + text
		}
		all = append(all, text)
	}
	d.writeKids(k) // first: a comma may follow at the same place
	d.bracketed(k.place.start, k.place.end, parts, all, "")
}

// newRoot writes the members of a document without any.
func (d *yamlEditor) newRoot(v node) {
	switch {
	case v.kind != object || len(v.fields) == 0:
		d.fail(unsupported("the document is no mapping"))
		return
	case d.root.place.odd:
		d.fail(unsupported("the document has a tag or an anchor"))
		return
	}
	lines := d.block(v, 0)
	if p := d.root.place; p.end > p.start {
		if !d.begins(p.start) {
			d.fail(unsupported("the document begins behind its marker"))
			return
		}
		line := d.line(p.start)
		d.replace(d.starts[line], p.end, strings.Join(lines, d.newline(line)))
		return
	}
	after := d.lastLine()
	for line := range d.count() {
		if bytes.HasPrefix(d.whole(line), []byte("---")) {
			after = line
		} else if bytes.HasPrefix(d.whole(line), []byte("...")) {
			d.fail(unsupported("the document ends before it begins"))
		}
	}
	d.insert(after, lines)
}

// setValue writes another value behind a name or a dash.
func (d *yamlEditor) setValue(k *yamlKnot, v node) {
	p := k.place
	nothing := p.start == p.end
	if p.complex {
		d.fail(unsupported("a key is no simple one"))
		return
	}
	if inBrackets(k) {
		if nothing {
			d.replace(p.mark, p.mark, " "+d.inline(v))
			return
		}
		d.replace(p.start, p.end, d.likewise(k, v, true))
		return
	}
	behind := d.line(p.mark) == d.line(p.start) && (k.was.kind != object && k.was.kind != list || p.y.Style&yaml.FlowStyle != 0)
	if d.short(v) {
		switch {
		case nothing:
			d.replace(p.mark, p.mark, " "+d.shortText(v))
		case behind:
			d.replace(p.start, p.end, d.likewise(k, v, false))
		default:
			d.replace(p.mark, p.end, " "+d.shortText(v))
		}
		return
	}
	line := d.line(p.end)
	nl := d.newline(d.line(p.mark))
	switch {
	case k.up.was.kind == list:
		item := strings.Join(d.item(v, k.up.place.col), nl)
		d.replace(p.mark, max(p.end, p.mark), item[k.up.place.col+1:])
	case nothing || behind:
		if p.end > p.mark {
			d.replace(p.mark, p.end, "")
		}
		d.insert(line, d.below(v, k.up.place.col))
	default:
		d.replace(p.mark, p.end, nl+strings.Join(d.below(v, k.up.place.col), nl))
	}
}

// likewise writes a value with the quotes of the old one.
func (d *yamlEditor) likewise(k *yamlKnot, v node, flow bool) string {
	if v.kind == text && k.place.y.Kind == yaml.ScalarNode {
		switch style := k.place.y.Style; {
		case style&yaml.DoubleQuotedStyle != 0:
			d.scalar(v, flow)
			return yamlQuoted(v.text)
		case style&yaml.SingleQuotedStyle != 0 && yamlPlain("a"+strings.ReplaceAll(v.text, "'", ""), false):
			return "'" + strings.ReplaceAll(v.text, "'", "''") + "'"
		}
	}
	if flow {
		return d.inline(v)
	}
	return d.shortText(v)
}

// rows edits a block.
func (d *yamlEditor) rows(k *yamlKnot) {
	old, fresh := split(k)
	for _, kid := range old {
		if kid.place.complex {
			d.fail(unsupported("a key is no simple one"))
			return
		}
	}
	d.writeKids(k)
	next := 0 // the first row that stays
	for next < len(old) && old[next].gone {
		next++
	}
	first, last := old[0], old[len(old)-1]
	shared := !d.begins(first.place.row)
	var lines []string
	for _, kid := range fresh {
		if k.was.kind == list {
			lines = append(lines, d.item(*kid.written, k.place.col)...)
			continue
		}
		lines = append(lines, d.row(kid.name, *kid.written, k.place.col)...)
	}
	bottom := d.rowEnd(last, k.place.col)
	nl := d.newline(d.line(first.place.row))
	if next == len(old) && len(lines) == 0 {
		d.emptied(k, first, bottom, shared)
	}
	from := 0 // the first row that goes by its lines
	switch {
	case !shared || next == 0:
	case next < len(old):
		d.pullUp(first, old[next-1], old[next], k.place.col)
		from = next
	case len(lines) > 0:
		text := strings.Join(lines, nl)
		d.replace(first.place.row, d.after(bottom)-d.breakOf(bottom), text[k.place.col:])
		return
	default:
		return
	}
	for i := from; i < len(old); i++ {
		if !old[i].gone {
			continue
		}
		floor := 0
		switch {
		case i > 0:
			floor = d.rowEnd(old[i-1], k.place.col) + 1
		case k.up != nil:
			floor = d.line(k.place.mark) + 1
		}
		top := d.above(d.line(old[i].place.row), floor, func(indent int) bool { return indent == k.place.col })
		end := d.rowEnd(old[i], k.place.col)
		for i > 0 && end+1 < d.count() && d.blank(end+1) && d.openEnd(old[:i], true) { // or they become part of the text above
			end++
		}
		d.drop(top, end, floor, i == len(old)-1 && len(lines) == 0)
	}
	if len(lines) == 0 {
		return
	}
	if bottom == d.count()-1 && d.length < len(d.data) && openEnded(last.place.y) {
		d.fail(unsupported("its last text would get another end"))
	}
	e := d.insert(bottom, lines)
	if len(old) > 1 && k.was.kind == list && d.blank(d.line(old[1].place.row)-1) {
		e.lead = nl
	}
}

// emptied writes what is left of a block without rows.
func (d *yamlEditor) emptied(k, first *yamlKnot, bottom int, shared bool) {
	text := "{}"
	if k.was.kind == list {
		text = "[]"
	}
	switch {
	case shared:
		d.replace(first.place.row, d.after(bottom)-d.breakOf(bottom), text)
	case k.up != nil:
		d.replace(k.place.mark, k.place.mark, " "+text)
	default:
		d.insert(d.line(first.place.row)-1, []string{text})
	}
}

// pullUp removes the rows from first to last, the first of which stands behind a dash, so that next comes there.
func (d *yamlEditor) pullUp(first, last, next *yamlKnot, col int) {
	floor := d.line(last.place.end) + 1
	line := d.line(next.place.row)
	if d.above(line, floor, always) == line {
		d.replace(first.place.row, next.place.row, "")
		return
	}
	start := first.place.row
	for d.data[start-1] == ' ' || d.data[start-1] == '\t' {
		start--
	}
	end := d.rowEnd(last, col)
	d.replace(start, d.after(end)-d.breakOf(end), "")
}

// rowEnd is the last line of a row, with the comments below that are indented more than it.
func (d *yamlEditor) rowEnd(k *yamlKnot, col int) int {
	line := d.line(max(k.place.end, k.place.mark))
	if k.place.end > k.place.start && k.place.end == d.starts[line] && openEnded(k.place.y) {
		return line // blank lines that count
	}
	for {
		indent, ok := d.comment(line + 1)
		if !ok || indent <= col {
			return line
		}
		line++
	}
}

// openEnd says whether the last of rows that stays ends in a text to which the line break behind it belongs; with keep,
// also all blank lines below.
func (d *yamlEditor) openEnd(rows []*yamlKnot, keep bool) bool {
	for _, k := range slices.Backward(rows) {
		switch {
		case k.gone:
			continue
		case k.fresh, k.written != nil, k.place.y == nil, k.place.y.Style&yaml.FlowStyle != 0:
			return false
		case len(k.kids) > 0:
			return d.openEnd(k.kids, keep)
		}
		head, _, _ := bytes.Cut(d.data[k.place.start:k.place.end], []byte("\n"))
		return openEnded(k.place.y) && (bytes.ContainsRune(head, '+') || !keep && !bytes.ContainsRune(head, '-'))
	}
	return false
}

// openEnded says whether a value ends in a text whose end is the line break behind it.
func openEnded(y *yaml.Node) bool {
	for y.Kind != yaml.ScalarNode {
		if len(y.Content) == 0 || y.Style&yaml.FlowStyle != 0 {
			return false
		}
		y = y.Content[len(y.Content)-1]
	}
	return y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
}
