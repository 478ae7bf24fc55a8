package clientfile

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"mcpx/internal/fault"
)

// yamlKnot is a value of a YAML file that is edited.
type yamlKnot = knot[yamlPlace]

// yamlPlace says where a value stands. The parser tells where values begin; where they end is found from there.
type yamlPlace struct {
	y          *yaml.Node
	row        int  // where its row begins: its key, or its dash
	keyEnd     int  // in a mapping
	mark       int  // behind its colon or its dash
	start, end int  // of the value; equal when nothing is written
	col        int  // of the rows in it, when it is a block
	odd        bool // it or its key has an anchor or a tag, or is an alias
	merge      bool // its key is <<
	complex    bool // its key is no simple key
}

type yamlEditor struct {
	*page
	root  *yamlKnot
	style yamlStyle
	err   error // the first thing that is not edited
	// The last position that was asked for: positions are asked for in order, and lines may be long.
	seenLine, seenCol, seenAt int
}

// spliceYAML gives the spans that make the changes of ops in a YAML document. Blocks stay blocks, and what is in
// brackets stays there. Entries with anchors, aliases, tags or merge keys are refused: what they mean elsewhere would
// change with them.
func spliceYAML(doc document, ops []op) ([]span, error) {
	n := doc.root
	if n.kind != object && n.kind != absent {
		return nil, unsupported("the document is no mapping")
	}
	root, err := grow[yamlPlace](n, "", nil, 0)
	if err != nil {
		return nil, err
	}
	d := &yamlEditor{page: newPage(doc.data, yamlBreak), root: root, seenLine: -1}
	if len(doc.yaml.Content) > 0 {
		d.locate(doc.yaml.Content[0], -1, d.base, root)
	}
	for _, o := range ops {
		if err := d.change(o); err != nil {
			return nil, err
		}
	}
	if !d.root.touched {
		return nil, nil
	}
	d.style = styleOf(d.root)
	d.write(d.root)
	if d.err != nil {
		return nil, d.err
	}
	d.ended = d.openEnd([]*yamlKnot{d.root}, false)
	return d.spans(), nil
}

// yamlBreak gives the length of a line break, for the parser that gives the positions: YAML 1.1 has more of them.
func yamlBreak(b []byte) int {
	switch {
	case b[0] == '\r' && len(b) > 1 && b[1] == '\n':
		return 2
	case b[0] == '\n' || b[0] == '\r':
		return 1
	case b[0] == 0xc2 && len(b) > 1 && b[1] == 0x85:
		return 2
	case b[0] == 0xe2 && len(b) > 2 && b[1] == 0x80 && (b[2] == 0xa8 || b[2] == 0xa9):
		return 3
	}
	return 0
}

func (d *yamlEditor) change(o op) error {
	k := d.root
	for i := 0; ; i++ {
		switch {
		case k.place.odd, i > 0 && merges(k), (i == 2 || i == len(o.at)) && anchored(k):
			return fault.New(fault.Conflict, "yaml-anchored").
				Saying("%q has an anchor, an alias, a tag or a merge key, and something else may depend on it", strings.Join(o.at[:i], ".")).
				Hinting("make this change by hand")
		case i == len(o.at):
			return d.root.do(o.at, o.value)
		}
		next := k.find(o.at[i])
		if next == nil || next.fresh {
			return d.root.do(o.at, o.value)
		}
		k = next
	}
}

func merges(k *yamlKnot) bool {
	return slices.ContainsFunc(k.kids, func(kid *yamlKnot) bool { return kid.place.merge })
}

func anchored(k *yamlKnot) bool {
	return k.place.odd || k.place.merge || slices.ContainsFunc(k.kids, anchored)
}

// offset finds a position of the parser, which counts runes.
func (d *yamlEditor) offset(line, col int) int {
	line, col = line-1, col-1
	if line >= d.count() {
		return len(d.data)
	}
	at, from := d.starts[line], 0
	if line == d.seenLine && col >= d.seenCol {
		at, from = d.seenAt, d.seenCol
	}
	for ; from < col && at < len(d.data); from++ {
		_, size := utf8.DecodeRune(d.data[at:])
		at += size
	}
	d.seenLine, d.seenCol, d.seenAt = line, col, at
	return at
}

// locate finds where a value begins and ends, behind from. Col is that of the block it is in. k may be nil.
func (d *yamlEditor) locate(y *yaml.Node, col, from int, k *yamlKnot) (end int, odd bool) {
	start := d.offset(y.Line, y.Column)
	plain := y.Kind == yaml.ScalarNode && y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0
	if plain && y.Value == "" && y.Anchor == "" && y.Style&yaml.TaggedStyle == 0 {
		if next := d.blanks(from, false); start != next || next >= d.length || d.data[next] != '!' { // a tag without a name
			start = from
		}
	}
	if k != nil {
		k.place.y = y
		defer func() { k.place.start, k.place.end, k.place.odd = start, end, odd || k.place.odd }()
	}
	if y.Kind == yaml.AliasNode {
		return start + len("*") + len(y.Value), true
	}
	at := start
	block := (y.Kind == yaml.MappingNode || y.Kind == yaml.SequenceNode) && y.Style&yaml.FlowStyle == 0
	if !block || y.Anchor != "" || y.Style&yaml.TaggedStyle != 0 || d.tagged(y, start) {
		at = d.properties(start, !plain || y.Value != "")
		odd = at > start
	}
	switch y.Kind {
	case yaml.MappingNode:
		if block {
			return d.blockMapping(y, at, k), odd
		}
		end, implicit := d.flow(y, at, k)
		return end, odd || implicit
	case yaml.SequenceNode:
		if block {
			return d.blockSequence(y, at, k), odd
		}
		end, _ := d.flow(y, at, k)
		return end, odd
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
	switch {
	case y.Style&yaml.DoubleQuotedStyle != 0:
		for at++; d.data[at] != '"'; at++ {
			if d.data[at] == '\\' {
				at++
			}
		}
		return at + 1, odd
	case y.Style&yaml.SingleQuotedStyle != 0:
		for at++; d.data[at] != '\'' || at+1 < len(d.data) && d.data[at+1] == '\''; at++ {
			if d.data[at] == '\'' {
				at++
			}
		}
		return at + 1, odd
	case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return d.blockScalar(at, col), odd
	}
	return d.plain(y.Value, at), odd
}

// tagged says whether a block has a tag without a name. What stands at the beginning of a mapping may also belong to
// its first key.
func (d *yamlEditor) tagged(y *yaml.Node, start int) bool {
	first := y.Content[0]
	return start < d.length && d.data[start] == '!' && (first.Line != y.Line || first.Column != y.Column)
}

// properties passes anchors and tags. More says whether a value follows them, and not nothing.
func (d *yamlEditor) properties(at int, more bool) int {
	for at < d.length && (d.data[at] == '&' || d.data[at] == '!') {
		end := at
		for end < d.length && d.data[end] > ' ' && yamlBreak(d.data[end:]) == 0 && !strings.ContainsRune(",]}", rune(d.data[end])) {
			end++
		}
		next := d.blanks(end, false)
		if !more && (next >= d.length || d.line(next) != d.line(end) || d.data[next] != '&' && d.data[next] != '!') {
			return end
		}
		at = next
	}
	return at
}

// plain passes a text without quotes: the same runes stand in the file, with other space between them.
func (d *yamlEditor) plain(value string, at int) int {
	end := at
	for _, r := range value {
		if yamlSpace(r) {
			continue
		}
		for {
			q, size := utf8.DecodeRune(d.data[at:])
			if size == 0 {
				return end
			}
			at += size
			if q == r {
				end = at
				break
			}
		}
	}
	return end
}

func yamlSpace(r rune) bool {
	return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}

// blockScalar passes a text of lines. It ends behind its last line that is not blank, or behind all when they count.
func (d *yamlEditor) blockScalar(at, col int) int {
	header := d.line(at)
	explicit, keep := 0, false
	for i := at + 1; i < len(d.data) && d.data[i] > ' ' && d.data[i] != '#'; i++ {
		switch c := d.data[i]; {
		case c == '+':
			keep = true
		case c >= '1' && c <= '9':
			explicit = int(c - '0')
		}
	}
	indent := max(col, 0) + explicit
	last := header
	for line := header + 1; line < d.count(); line++ {
		if d.blank(line) {
			if explicit == 0 && last == header {
				indent = max(indent, len(d.indent(line)))
			}
			continue
		}
		width := len(d.whole(line)) - len(bytes.TrimLeft(d.whole(line), " "))
		if explicit == 0 && last == header {
			if indent = max(indent, width); width <= col || width == 0 {
				break
			}
		}
		if width < indent {
			break
		}
		last = line
	}
	if keep {
		for last+1 < d.count() && d.blank(last+1) && d.starts[last+1] < d.length {
			last++
		}
	}
	if last == header {
		return at + len(bytes.TrimRight(d.data[at:d.after(header)], " \t\r\n"))
	}
	return d.after(last) - d.breakOf(last)
}

func (d *yamlEditor) breakOf(line int) int {
	b := d.whole(line)
	for i := max(len(b)-3, 0); i < len(b); i++ {
		if n := yamlBreak(b[i:]); i+n == len(b) {
			return n
		}
	}
	return 0
}

// blanks passes space, and line breaks and comments, and what separates members in brackets when flow is set.
func (d *yamlEditor) blanks(at int, flow bool) int {
	for at < d.length {
		c := d.data[at]
		switch n := yamlBreak(d.data[at:]); {
		case n > 0:
			at += n
		case c == ' ' || c == '\t' || flow && (c == ',' || c == ':' || c == '?'):
			at++
		case c == '#':
			at = d.after(d.line(at))
		default:
			return at
		}
	}
	return at
}

func (d *yamlEditor) blockMapping(y *yaml.Node, at int, k *yamlKnot) int {
	end := at
	for i := 0; i+1 < len(y.Content); i += 2 {
		kid := kidAt(k, i/2)
		end = d.pair(y.Content[i], y.Content[i+1], y.Content[0].Column-1, end, kid)
	}
	if k != nil {
		k.place.col = y.Content[0].Column - 1
		if first := k.kids[0].place; first.complex {
			k.place.complex = true
		}
	}
	return end
}

func kidAt(k *yamlKnot, i int) *yamlKnot {
	if k == nil || i >= len(k.kids) {
		return nil
	}
	return k.kids[i]
}

// pair passes a key and its value.
func (d *yamlEditor) pair(key, value *yaml.Node, col, from int, kid *yamlKnot) int {
	row := d.offset(key.Line, key.Column)
	if key.Kind == yaml.ScalarNode && key.Value == "" && key.Style == 0 {
		row = max(from, min(row, d.blanks(from, true)))
	}
	keyEnd, odd := d.locate(key, col, row, nil)
	mark := d.blanks(keyEnd, false)
	colon := mark < d.length && d.data[mark] == ':'
	if colon {
		mark++
	} else {
		mark = keyEnd
	}
	if kid != nil {
		before := bytes.TrimRight(d.data[d.starts[d.line(row)]:row], " \t")
		kid.place = yamlPlace{row: row, keyEnd: keyEnd, mark: mark, odd: odd, merge: key.ShortTag() == "!!merge"}
		kid.place.complex = key.Kind != yaml.ScalarNode || bytes.HasSuffix(before, []byte("?")) || !colon || d.line(mark) != d.line(row) || keyEnd == row
	}
	end, _ := d.locate(value, col, mark, kid)
	return max(end, mark)
}

func (d *yamlEditor) blockSequence(y *yaml.Node, at int, k *yamlKnot) int {
	end := at
	if k != nil && len(y.Content) > 0 {
		k.place.col = utf8.RuneCount(d.data[d.starts[d.line(at)]:at])
	}
	col := utf8.RuneCount(d.data[d.starts[d.line(at)]:at])
	for i, item := range y.Content {
		dash := d.blanks(end, false)
		kid := kidAt(k, i)
		if kid != nil {
			kid.place = yamlPlace{row: dash, mark: dash + 1}
		}
		last, _ := d.locate(item, col, dash+1, kid)
		end = max(last, dash+1)
	}
	return end
}

// flow passes what is in brackets. Implicit: it is a single pair without brackets of its own.
func (d *yamlEditor) flow(y *yaml.Node, at int, k *yamlKnot) (end int, implicit bool) {
	implicit = y.Kind == yaml.MappingNode && d.data[at] != '{'
	end = at
	if !implicit {
		end++
	}
	step := 1
	if y.Kind == yaml.MappingNode {
		step = 2
	}
	for i := 0; i+step <= len(y.Content); i += step {
		kid := kidAt(k, i/step)
		if step == 2 {
			end = d.pair(y.Content[i], y.Content[i+1], -1, end, kid)
			continue
		}
		start := d.blanks(end, true)
		if kid != nil {
			kid.place = yamlPlace{row: start, mark: start}
		}
		end, _ = d.locate(y.Content[i], -1, start, kid)
	}
	if implicit {
		return end, true
	}
	return d.blanks(end, true) + 1, false
}
