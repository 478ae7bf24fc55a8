package clientfile

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
	"github.com/tailscale/hujson"
	"go.yaml.in/yaml/v3"
)

// excerpt is a range of a document that says the same wherever it stands, and out of which nothing reaches: an object of JSON,
// the sections of TOML that make one table, an item of a block of YAML. When a change is within one, the rest of the
// document says what it said before, and need not be read again: an agent's file may have megabytes beside one entry, or
// thousands of entries. An apply reads the whole result all the same before it writes.
type excerpt struct {
	at         []string // the value that the range holds
	was        node     // what it says
	start, end int      // the range
	lead       string   // what has to stand before it when it is read by itself
	inner      []string // where the value is then
}

// around is what the range says by itself when its value is v.
func (p excerpt) around(v node) node {
	for _, name := range slices.Backward(p.inner) {
		if _, err := strconv.Atoi(name); err == nil && len(p.lead) > 0 {
			v = node{kind: list, items: []node{v}}
			continue
		}
		v = wrapped([]string{name}, v)
	}
	return v
}

// within are operations on the range by itself.
func (p excerpt) within(ops []op) []op {
	out := make([]op, 0, len(ops))
	for _, o := range ops {
		out = append(out, op{at: join(p.inner, o.at[len(p.at):]), value: o.value})
	}
	return out
}

// read reads the range as its agent would, in the bytes of the document or in those behind a change.
func (p excerpt) read(d dialect, data []byte) (document, error) {
	return d.document(append([]byte(p.lead), data...))
}

// patch is how a document differs from another one.
type patch struct {
	excerpt

	old document
	now document // the excerpt, as it is in the new one
}

// index is what was found out about a document when somebody asked for it.
type index struct {
	objects  map[*hujson.Object]*jsonMembers
	sections map[string]tomlRun // by the path of their table
	page     *page              // of YAML
	knotted  *bool              // YAML with anchors
	literals []literal          // of TOML and YAML
	listed   bool               // literals are known
}

// after reads the bytes that the spans of the operations make of the document, as the agent would.
func (doc document) after(data []byte, spans []span, ops []op) (document, error) {
	p, ok := doc.excerptOf(ops)
	if !ok || len(spans) == 0 || spans[0].start < p.start || spans[len(spans)-1].end > p.end {
		return doc.dialect.document(data)
	}
	now, err := p.read(doc.dialect, data[p.start:p.end+len(data)-len(doc.data)])
	if err != nil {
		return document{}, err
	}
	if !same(now.root, p.around(lookup(now.root, p.inner))) { // it has become more than one value, or none
		return doc.dialect.document(data)
	}
	return document{dialect: doc.dialect, data: data, patch: &patch{p, doc, now}}, nil
}

// value is what stands at a place.
func (doc document) value(at []string) node {
	p := doc.patch
	switch {
	case p == nil:
		return lookup(doc.root, at)
	case hasPrefix(at, p.at):
		return lookup(p.now.root, join(p.inner, at[len(p.at):]))
	}
	return lookup(doc.whole(), at)
}

// whole is all that the document says.
func (doc document) whole() node {
	if p := doc.patch; p != nil {
		return p.old.root.with(p.at, lookup(p.now.root, p.inner))
	}
	return doc.root
}

// spliceExcerpt finds the spans of a change within one excerpt. False: the whole document has to be looked at.
func (doc document) spliceExcerpt(ops []op) ([]span, bool) {
	if doc.dialect.format != TOML && doc.dialect.format != YAML {
		return nil, false // how JSON is written in a place is seen around it, and it is found fast
	}
	p, ok := doc.excerptOf(ops)
	if !ok {
		return nil, false
	}
	old, err := p.read(doc.dialect, doc.data[p.start:p.end])
	if err != nil {
		return nil, false
	}
	spans, err := old.spliceWhole(p.within(ops))
	if err != nil {
		return nil, false
	}
	for i := range spans {
		s := &spans[i]
		if s.start < len(p.lead) {
			return nil, false
		}
		s.start, s.end = s.start-len(p.lead)+p.start, s.end-len(p.lead)+p.start
	}
	return spans, true
}

// excerptOf finds the innermost excerpt that all operations are within.
func (doc document) excerptOf(ops []op) (excerpt, bool) {
	if len(ops) == 0 || doc.index == nil {
		return excerpt{}, false
	}
	at := ops[0].at[:len(ops[0].at)-1]
	for _, o := range ops {
		n := 0
		for n < min(len(at), len(o.at)-1) && at[n] == o.at[n] {
			n++
		}
		at = at[:n]
	}
	var p excerpt
	ok := false
	switch doc.dialect.format {
	case TOML:
		p, ok = doc.tomlExcerpt(at)
	case YAML:
		p, ok = doc.yamlExcerpt(at)
	case JSON, JSONC:
		return doc.jsonExcerpt(at)
	}
	if !ok {
		return excerpt{}, false
	}
	// Whatever else there may be in such a document: read by itself the range has to say what it says in its place.
	p.was = lookup(doc.root, p.at)
	alone, err := p.read(doc.dialect, doc.data[p.start:p.end])
	return p, err == nil && p.was.kind == object && same(alone.root, p.around(p.was))
}

// jsonExcerpt is the innermost object on the way to a place.
func (doc document) jsonExcerpt(at []string) (excerpt, bool) {
	if doc.json.Value == nil {
		return excerpt{}, false
	}
	e := jsonEdit{doc: doc, data: doc.data}
	if bytes.HasPrefix(doc.data, byteOrderMark) {
		e.base = len(byteOrderMark)
	}
	var p excerpt
	v, n := doc.json, doc.root
	for i := 0; ; i++ {
		object, ok := v.Value.(*hujson.Object)
		if !ok {
			break
		}
		p = excerpt{at: at[:i], was: n, start: v.StartOffset + e.base, end: v.EndOffset + e.base}
		if i == len(at) {
			break
		}
		m := e.object(object)
		found := m.index[at[i]]
		if len(found) != 1 { // it is not there, or several times
			break
		}
		v, n = m.elements[found[0]].value, n.get(at[i])
	}
	return p, len(p.at) > 0
}

// tomlRun are the sections of one table and of the tables in it, when they stand together.
type tomlRun struct{ start, end int }

// tomlExcerpt is the innermost table on the way to a place that has sections of its own.
func (doc document) tomlExcerpt(at []string) (excerpt, bool) {
	if doc.index.sections == nil {
		doc.index.sections = tomlRuns(doc.data)
	}
	for n := len(at); n > 0; n-- {
		if r, ok := doc.index.sections[strings.Join(at[:n], pathEnd)]; ok {
			return excerpt{at: at[:n], inner: at[:n], start: r.start, end: r.end}, true
		}
	}
	return excerpt{}, false
}

// tomlRuns finds the sections by the paths of their headers.
func tomlRuns(data []byte) map[string]tomlRun {
	base := 0
	if bytes.HasPrefix(data, byteOrderMark) {
		base = len(byteOrderMark)
	}
	type section struct {
		path       []string
		start, end int // end: behind the last expression
	}
	var all []section
	var p unstable.Parser
	p.Reset(data[base:])
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind == unstable.KeyValue && len(all) > 0 {
			all[len(all)-1].end = base + int(e.Raw.Offset+e.Raw.Length)
		}
		if e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		s := section{}
		for keys := e.Key(); keys.Next(); {
			if len(s.path) == 0 {
				s.start = bytes.LastIndexByte(data[:base+int(keys.Node().Raw.Offset)], '\n') + 1
			}
			s.path = append(s.path, string(keys.Node().Data))
			s.end = base + int(keys.Node().Raw.Offset+keys.Node().Raw.Length)
		}
		all = append(all, s)
	}
	of := map[string]int{} // how many sections are of a table or of one in it
	for _, s := range all {
		for n := range s.path {
			of[strings.Join(s.path[:n+1], pathEnd)]++
		}
	}
	runs := map[string]tomlRun{}
	for i, s := range all {
		last := i
		for last+1 < len(all) && hasPrefix(all[last+1].path, s.path) {
			last++
		}
		at := strings.Join(s.path, pathEnd)
		if of[at] != last-i+1 {
			continue // others stand elsewhere
		}
		next := len(data)
		if last+1 < len(all) {
			next = all[last+1].start
		}
		runs[at] = tomlRun{start: s.start, end: all[last].end + ownLines(data[all[last].end:next])}
	}
	return runs
}

// ownLines is how much of what stands between an expression and the next one belongs to the first: the rest of its line,
// and blank lines. A comment may belong to what follows.
func ownLines(between []byte) int {
	at := 0
	for {
		line := lineOf(between[at:])
		if at > 0 && len(bytes.TrimSpace(line)) > 0 {
			return at
		}
		if at += len(line) + 1; at >= len(between) {
			return len(between)
		}
	}
}

// yamlExcerpt is an item of a list that is a block in the outermost mapping: the servers of a file.
func (doc document) yamlExcerpt(at []string) (excerpt, bool) {
	if len(at) < 2 || doc.yaml == nil || len(doc.yaml.Content) == 0 {
		return excerpt{}, false
	}
	root := doc.yaml.Content[0]
	number, err := strconv.Atoi(at[1])
	i := slices.IndexFunc(root.Content, func(n *yaml.Node) bool { return n.Value == at[0] })
	if root.Kind != yaml.MappingNode || root.Style&yaml.FlowStyle != 0 || err != nil || i < 0 || i%2 != 0 {
		return excerpt{}, false
	}
	key, items := root.Content[i], root.Content[i+1]
	if items.Kind != yaml.SequenceNode || items.Style&yaml.FlowStyle != 0 || number < 0 || number >= len(items.Content) || doc.yamlKnotted() {
		return excerpt{}, false
	}
	if doc.index.page == nil {
		doc.index.page = newPage(doc.data, yamlBreak)
	}
	g := doc.index.page
	start, ok := yamlRow(g, items.Content[number])
	if !ok {
		return excerpt{}, false
	}
	end := g.count() // a line
	switch {
	case number+1 < len(items.Content):
		end = items.Content[number+1].Line - 1
	case i+2 < len(root.Content):
		end = root.Content[i+2].Line - 1
	}
	p := excerpt{at: at[:2], inner: []string{at[0], "0"}, start: g.starts[start], end: min(g.starts[end], g.length)}
	p.lead = at[0] + ":\n"
	if key.Style&yaml.DoubleQuotedStyle != 0 {
		p.lead = strconv.Quote(at[0]) + ":\n"
	}
	return p, true
}

// yamlRow is the line on which an item begins behind its dash.
func yamlRow(g *page, item *yaml.Node) (line int, ok bool) {
	line = item.Line - 1
	if line >= g.count() {
		return 0, false
	}
	row := bytes.TrimLeft(g.whole(line), " ")
	return line, len(row) > 1 && row[0] == '-' && row[1] == ' '
}

// yamlKnotted says whether one place of the document may stand for another one.
func (doc document) yamlKnotted() bool {
	if doc.index.knotted == nil {
		var knotted func(n *yaml.Node) bool
		knotted = func(n *yaml.Node) bool {
			return n.Anchor != "" || n.Kind == yaml.AliasNode || slices.ContainsFunc(n.Content, knotted)
		}
		is := knotted(doc.yaml)
		doc.index.knotted = &is
	}
	return *doc.index.knotted
}

// with is the value with another one at a place that is there. The old one is left as it is.
func (n node) with(at []string, v node) node {
	if len(at) == 0 {
		return v
	}
	if n.kind == list {
		n.items = slices.Clone(n.items)
		if i, err := strconv.Atoi(at[0]); err == nil && i >= 0 && i < len(n.items) {
			n.items[i] = n.items[i].with(at[1:], v)
		}
		return n
	}
	n.fields = slices.Clone(n.fields)
	for i, f := range slices.Backward(n.fields) {
		if f.name == at[0] {
			n.fields[i].value = f.value.with(at[1:], v)
			break
		}
	}
	return n
}

// literals are those of the old document outside of the excerpt, and those in it.
func (p *patch) literals(near []span) []literal {
	now := p.now.data[len(p.lead):]
	moved := len(now) - (p.end - p.start)
	var outside, inside []span
	for _, s := range near {
		if s.start <= p.end+moved && s.end >= p.start {
			inside = append(inside, span{start: max(0, s.start-p.start) + len(p.lead), end: s.end - p.start + len(p.lead)})
		}
		if s.start > p.start {
			s.start = max(p.start, s.start-moved)
		}
		if s.end > p.start {
			s.end = max(p.start, s.end-moved)
		}
		outside = append(outside, s)
	}
	var all []literal
	for _, l := range literals(p.old, outside) {
		switch {
		case !slices.ContainsFunc(outside, func(s span) bool { return s.start <= l.end && s.end >= l.start }):
		case l.end <= p.start:
			all = append(all, l)
		case l.start >= p.end:
			l.start, l.end = l.start+moved, l.end+moved
			all = append(all, l)
		}
	}
	for _, l := range literals(p.now, inside) {
		l.at, l.start, l.end = join(p.at, l.at[len(p.inner):]), l.start-len(p.lead)+p.start, l.end-len(p.lead)+p.start
		all = append(all, l)
	}
	slices.SortStableFunc(all, func(a, b literal) int { return a.start - b.start })
	return all
}
