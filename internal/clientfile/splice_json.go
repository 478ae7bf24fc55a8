package clientfile

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/tailscale/hujson"

	"mcpx/internal/fault"
)

// spliceJSON finds the spans in JSON and JSONC. What is inserted looks like its neighbours: line breaks, indentation,
// spaces around colons, and a trailing comma where the file has one.
func spliceJSON(doc document, ops []op) ([]span, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	data := doc.data
	todo, err := planOps(ops)
	if err != nil {
		return nil, err
	}
	mark := 0
	if bytes.HasPrefix(data, byteOrderMark) {
		mark = len(byteOrderMark)
	}
	e := jsonEdit{doc: doc, data: data, base: mark}
	if doc.json.Value == nil { // nothing there yet, or a file that its agent takes for one without servers
		n := todo.node()
		if n.kind == absent {
			return nil, nil
		}
		var b bytes.Buffer
		plainStyle.render(&b, n, "", true)
		b.WriteByte('\n')
		return []span{{start: mark, end: len(data), kind: spanInsert, text: b.Bytes()}}, nil
	}
	if err := e.value(doc.json, todo, plainStyle); err != nil {
		return nil, err
	}
	return joined(ordered(e.spans)), nil
}

// joined makes one span of removals that touch each other, or that both take the spaces between them.
func joined(spans []span) []span {
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].end >= s.start && out[n-1].kind == spanRemove && s.kind == spanRemove {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, s)
	}
	return out
}

func unsupportedFile(why string) *fault.Error {
	return fault.New(fault.Invalid, "unsupported-file").Saying("the file is not edited: %s", why).
		Hinting("change it in the agent itself")
}

// brokenForEdit says where the agent stops reading; the error of a parser may quote the file.
func brokenForEdit(err error) *fault.Error {
	p := brokenFile(err)
	f := fault.New(fault.Conflict, "config-broken")
	if p.Line == 0 {
		f = f.Saying("the agent cannot read the file: %s", p.Text)
	} else {
		f = f.Saying("the agent cannot read the file: line %d, column %d: %s", p.Line, p.Column, p.Text)
	}
	return f.Hinting("correct it by hand, then run `mcpx audit run`")
}

func duplicateKeys(name string) *fault.Error {
	return fault.New(fault.Conflict, "duplicate-keys").
		Saying("the name %q stands more than once in its object, and only the last one counts", name).
		Hinting("delete the other ones by hand")
}

func wrongContainer(name string) *fault.Error {
	return fault.New(fault.Conflict, "wrong-type").Saying("%q holds something else than servers", name).
		Hinting("correct it by hand, then run `mcpx audit run`")
}

// todo is what happens to one value: it is replaced, it goes, or something happens below it.
type todo struct {
	value  *node
	remove bool // alone: the member goes; with value: its duplicates go
	below  []todoMember
}

type todoMember struct {
	name string
	todo *todo
}

// planOps makes a tree of the operations. Only one may reach a place.
func planOps(ops []op) (*todo, error) {
	root := &todo{}
	for _, o := range ops {
		at := root
		for _, name := range o.at {
			if at.value != nil || at.remove {
				return nil, fault.New(fault.Internal, "internal").Saying("a change below another change")
			}
			i := slices.IndexFunc(at.below, func(m todoMember) bool { return m.name == name })
			if i < 0 {
				at.below = append(at.below, todoMember{name, &todo{}})
				i = len(at.below) - 1
			}
			at = at.below[i].todo
		}
		if len(o.at) == 0 || at.value != nil || len(at.below) > 0 {
			return nil, fault.New(fault.Internal, "internal").Saying("two changes of one place")
		}
		at.value, at.remove = o.value, at.remove || o.value == nil
	}
	return root, nil
}

// node is what has to be made where nothing is. It is absent when nothing has to.
func (t *todo) node() node {
	if t.value != nil {
		return *t.value
	}
	n := node{}
	for _, m := range t.below {
		if v := m.todo.node(); v.kind != absent || m.todo.value != nil {
			n.kind = object
			n.fields = append(n.fields, field{name: m.name, value: v})
		}
	}
	return n
}

// jsonEdit collects the spans of one document.
type jsonEdit struct {
	doc   document
	data  []byte
	base  int // of the offsets of the parser
	spans []span
}

func (e *jsonEdit) add(start, end int, kind, text string) {
	e.spans = append(e.spans, span{start: start, end: end, kind: kind, text: []byte(text)})
}

// value changes one value that is there.
func (e *jsonEdit) value(v hujson.Value, t *todo, st jsonStyle) error {
	start, end := v.StartOffset+e.base, v.EndOffset+e.base
	if t.value != nil {
		if !same(fromJSON(v), *t.value) { // what says the same stays as it is written
			e.replace(start, end, *t.value, st)
		}
		return nil
	}
	switch x := v.Value.(type) {
	case *hujson.Object:
		c := e.container(start, end, st)
		m := e.object(x)
		c.elements = m.elements
		return e.members(c, t, func(name string) []int { return m.index[name] })
	case *hujson.Array:
		c := e.container(start, end, st)
		c.list = true
		for _, v := range x.Elements {
			c.elements = append(c.elements, e.element(v.StartOffset+e.base, v.StartOffset+e.base, v))
		}
		return e.members(c, t, func(name string) []int {
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(x.Elements) {
				return []int{i}
			}
			return nil
		})
	case hujson.Literal:
		if x.Kind() != 'n' { // null is as good as absent
			return wrongContainer(t.below[0].name)
		}
		if n := t.node(); n.kind != absent {
			e.replace(start, end, n, st)
		}
	}
	return nil
}

// jsonMembers are those of one object, in file order and by name.
type jsonMembers struct {
	elements []jsonElement
	index    map[string][]int
}

// object finds the members of an object once: it may have thousands, of which each draft changes one.
func (e *jsonEdit) object(x *hujson.Object) *jsonMembers {
	if m, known := e.doc.index.objects[x]; known {
		return m
	}
	m := &jsonMembers{index: make(map[string][]int, len(x.Members))}
	for i, member := range x.Members {
		m.elements = append(m.elements, e.element(member.Name.StartOffset+e.base, member.Name.EndOffset+e.base, member.Value))
		literal, _ := member.Name.Value.(hujson.Literal) // only strings are names
		name := unquoted(literal)
		m.index[name] = append(m.index[name], i)
	}
	e.doc.index.objects[x] = m
	return m
}

// replace writes a value in the manner of the one that it replaces.
func (e *jsonEdit) replace(start, end int, n node, st jsonStyle) {
	multi := st.multi
	if old := e.data[start:end]; old[0] == '{' || old[0] == '[' {
		if len(bytes.TrimSpace(old[1:len(old)-1])) > 0 {
			multi = bytes.IndexByte(old, '\n') >= 0
			st.lists = multi
		}
	}
	var b bytes.Buffer
	st.newline = e.newlineAt(start)
	st.render(&b, n, e.indentAt(start), multi)
	e.add(start, end, spanReplace, b.String())
}

// members changes what is in a container.
func (e *jsonEdit) members(c *jsonContainer, t *todo, find func(name string) []int) error {
	st := c.style()
	gone := make([]bool, len(c.elements))
	var inserted []field
	for _, m := range t.below {
		at := find(m.name)
		switch {
		case len(at) == 0:
			if n := m.todo.node(); n.kind != absent || m.todo.value != nil {
				inserted = append(inserted, field{name: m.name, value: n})
			}
			continue
		case len(at) > 1 && !m.todo.remove:
			return duplicateKeys(m.name)
		}
		last := at[len(at)-1]
		for _, i := range at {
			gone[i] = i != last || m.todo.value == nil && m.todo.remove
		}
		if !gone[last] {
			if err := e.value(c.elements[last].value, m.todo, st); err != nil {
				return err
			}
		}
	}
	// New members take the place of old ones that stood last.
	if n := len(gone); len(inserted) > 0 && n > 0 && gone[n-1] {
		first := n - 1
		for first > 0 && gone[first-1] {
			first--
		}
		c.put(first, inserted, st)
		gone[first] = false
		inserted = nil
	}
	if len(inserted) > 0 {
		c.insert(inserted, st)
	}
	c.remove(gone)
	return nil
}

// indentAt is the white space at the beginning of the line that holds an offset.
func (e *jsonEdit) indentAt(at int) string {
	start := bytes.LastIndexByte(e.data[:at], '\n') + 1
	if start == 0 {
		start = e.base
	}
	end := start
	for end < at && isBlank(e.data[end]) {
		end++
	}
	return string(e.data[start:end])
}

// newlineAt is how the line before an offset ends, or else the next one.
func (e *jsonEdit) newlineAt(at int) string {
	i := bytes.LastIndexByte(e.data[:at], '\n')
	if i < 0 {
		if i = bytes.IndexByte(e.data[at:], '\n'); i >= 0 {
			i += at
		}
	}
	if i > 0 && e.data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// skip is the next offset that is neither white space nor comment.
func (e *jsonEdit) skip(at int) int {
	for at < len(e.data) {
		rest := e.data[at:]
		switch {
		case isBlank(rest[0]) || rest[0] == '\n' || rest[0] == '\r':
			at++
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				return len(e.data)
			}
			at += end
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return len(e.data)
			}
			at += end + len("/**/")
		default:
			return at
		}
	}
	return at
}

// skipBlank is the next offset that is no space of the same line.
func (e *jsonEdit) skipBlank(at int) int {
	for at < len(e.data) && isBlank(e.data[at]) {
		at++
	}
	return at
}

// backBlank is the end of what stands before the spaces at an offset.
func (e *jsonEdit) backBlank(at int) int {
	for at > e.base && isBlank(e.data[at-1]) {
		at--
	}
	return at
}

// lineBreak is the length of the line break at an offset, 0 none.
func (e *jsonEdit) lineBreak(at int) int {
	switch rest := e.data[at:]; {
	case bytes.HasPrefix(rest, []byte("\r\n")):
		return len("\r\n")
	case bytes.HasPrefix(rest, []byte("\n")):
		return 1
	}
	return 0
}

// remarkEnd is the end of the comments that end the line at an offset; the offset itself when there are none.
func (e *jsonEdit) remarkEnd(at int) int {
	end := at
	for i := e.skipBlank(at); ; i = e.skipBlank(i) {
		rest := e.data[i:]
		switch {
		case bytes.HasPrefix(rest, []byte("//")):
			i += len(bytes.TrimSuffix(lineOf(rest), []byte("\r")))
			end = i
		case bytes.HasPrefix(rest, []byte("/*")):
			close := bytes.Index(rest[2:], []byte("*/"))
			if close < 0 || bytes.IndexByte(rest[:close+2], '\n') >= 0 {
				return at
			}
			i += close + len("/**/")
			end = i
		case e.lineBreak(i) > 0 || i == len(e.data):
			return end
		default:
			return at // more of the document stands on this line
		}
	}
}

func lineOf(b []byte) []byte {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	return line
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }
