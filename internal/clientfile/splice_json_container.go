package clientfile

import (
	"bytes"
	"slices"

	"github.com/tailscale/hujson"
)

// jsonElement is a member of an object or an item of a list.
type jsonElement struct {
	start, end int // from the name, or the value in a list, to the end of the value
	nameEnd    int
	value      hujson.Value
	comma      int // that follows, -1 none
}

// jsonContainer is an object or a list in a document.
type jsonContainer struct {
	edit        *jsonEdit
	open, close int // of the brackets
	list        bool
	above       jsonStyle // of what holds it
	elements    []jsonElement
}

func (e *jsonEdit) container(start, end int, above jsonStyle) *jsonContainer {
	return &jsonContainer{edit: e, open: start, close: end - 1, above: above}
}

func (e *jsonEdit) element(start, nameEnd int, v hujson.Value) jsonElement {
	el := jsonElement{start: start, nameEnd: nameEnd, end: v.EndOffset + e.base, value: v, comma: -1}
	if at := e.skip(el.end); at < len(e.data) && e.data[at] == ',' {
		el.comma = at
	}
	return el
}

// lead is what stands before an element, behind the comma or bracket before it.
func (c *jsonContainer) lead(i int) []byte {
	from := c.open + 1
	if i > 0 {
		from = c.elements[i-1].comma + 1
	}
	return c.edit.data[from:c.elements[i].start]
}

// looked bounds how many elements are looked at for the manner of a file: the last ones are the neighbours.
const looked = 16

// style is the manner in which the container and what is in it are written.
func (c *jsonContainer) style() jsonStyle {
	st, e := c.above, c.edit
	n := len(c.elements)
	st.newline = e.newlineAt(c.close)
	if n == 0 {
		if inner := e.data[c.open+1 : c.close]; bytes.IndexByte(inner, '\n') >= 0 {
			st.multi = true
		}
		st.indent = e.indentAt(c.open) + st.unit
		return st
	}
	lead := c.lead(n - 1)
	outer := e.indentAt(c.open)
	if at := bytes.LastIndexByte(lead, '\n'); at >= 0 {
		st.multi = true
		lead = lead[at+1:]
		st.indent = string(lead[:len(lead)-len(bytes.TrimLeft(lead, " \t"))])
		if unit, ok := cutPrefix(st.indent, outer); ok && unit != "" {
			st.unit = unit
		}
	} else {
		st.multi = false
		st.indent = outer + st.unit
	}
	st.objects = st.multi
	objectSeen, listSeen := false, false
	for i := n - 1; i >= max(0, n-looked); i-- {
		el := c.elements[i]
		if !c.list && i == n-1 {
			colon := string(e.data[el.nameEnd : el.value.StartOffset+e.base])
			if len(bytes.Trim([]byte(colon), " \t:")) == 0 {
				st.colon = colon
			}
		}
		if i == n-1 && n > 1 && !st.multi {
			if sep := c.lead(i); len(bytes.Trim(sep, " \t")) == 0 {
				st.space = string(sep)
			}
		}
		switch v := el.value.Value.(type) {
		case *hujson.Object:
			if len(v.Members) == 0 || objectSeen {
				break
			}
			objectSeen = true
			st.objects = bytes.IndexByte(e.data[el.value.StartOffset+e.base:el.end], '\n') >= 0
			for _, m := range v.Members {
				if a, ok := m.Value.Value.(*hujson.Array); ok && len(a.Elements) > 0 && !listSeen {
					listSeen = true
					st.lists = bytes.IndexByte(e.data[m.Value.StartOffset+e.base:m.Value.EndOffset+e.base], '\n') >= 0
				}
			}
		case *hujson.Array:
			if len(v.Elements) > 0 && !listSeen {
				listSeen = true
				st.lists = bytes.IndexByte(e.data[el.value.StartOffset+e.base:el.end], '\n') >= 0
			}
		}
	}
	if n == 1 && !st.multi {
		st.space = ""
		if len(st.colon) > 1 {
			st.space = " "
		}
	}
	return st
}

func cutPrefix(s, prefix string) (string, bool) {
	if len(s) >= len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):], true
	}
	return s, false
}

// separator stands between the comma and the next element.
func (st jsonStyle) separator() string {
	if st.multi {
		return st.newline + st.indent
	}
	return st.space
}

// text writes new elements, without a comma at the end.
func (c *jsonContainer) text(all []field, st jsonStyle) string {
	var b bytes.Buffer
	for i, f := range all {
		if i > 0 {
			b.WriteString("," + st.separator())
		}
		if !c.list {
			writeString(&b, f.name)
			b.WriteString(st.colon)
		}
		st.render(&b, f.value, st.indent, st.multi && (st.objects || f.value.kind != object))
	}
	return b.String()
}

// put writes new elements in the place of an old one.
func (c *jsonContainer) put(i int, all []field, st jsonStyle) {
	c.edit.add(c.elements[i].start, c.elements[i].end, spanReplace, c.text(all, st))
}

// insert adds elements behind the last one.
func (c *jsonContainer) insert(all []field, st jsonStyle) {
	e := c.edit
	n := len(c.elements)
	text := c.text(all, st)
	if n == 0 {
		c.insertFirst(text, st)
		return
	}
	last := c.elements[n-1]
	if last.comma >= 0 { // a trailing comma stays one
		e.insertAt(e.afterRemark(last.comma+1, st), st.separator()+text+",")
		return
	}
	at := e.afterRemark(last.end, st)
	if at == last.end {
		e.insertAt(at, ","+st.separator()+text)
		return
	}
	e.insertAt(last.end, ",")
	e.insertAt(at, st.separator()+text)
}

func (e *jsonEdit) insertAt(at int, text string) { e.add(at, at, spanInsert, text) }

// afterRemark is behind the comment that ends the line: it belongs to what stands before it.
func (e *jsonEdit) afterRemark(at int, st jsonStyle) int {
	if !st.multi {
		return at
	}
	return e.remarkEnd(at)
}

// insertFirst fills a container that has no elements.
func (c *jsonContainer) insertFirst(text string, st jsonStyle) {
	e := c.edit
	from, outer := c.open+1, e.indentAt(c.open)
	inner := e.data[from:c.close]
	comments := len(bytes.TrimSpace(inner)) > 0
	switch {
	case !comments && st.multi:
		e.add(from, c.close, spanInsert, st.newline+st.indent+text+st.newline+outer)
	case !comments:
		e.add(from, c.close, spanInsert, text)
	default: // behind the comments; the rest of the white space leads to the bracket
		at := from + len(bytes.TrimRight(inner, " \t\r\n"))
		if bytes.IndexByte(e.data[at:c.close], '\n') >= 0 {
			e.insertAt(at, st.newline+st.indent+text)
			return
		}
		if st.multi {
			e.add(at, c.close, spanInsert, st.newline+st.indent+text+st.newline+outer)
			return
		}
		e.insertAt(at, " "+text)
	}
}

// remove takes elements out with the commas that they no longer need. Comments between elements stay.
func (c *jsonContainer) remove(gone []bool) {
	e := c.edit
	n := len(c.elements)
	if n > 0 && !slices.Contains(gone, false) && c.onlyBlank(c.open+1, c.close, 0) {
		e.add(c.open+1, c.close, spanRemove, "")
		return
	}
	kept := n // the last ones that go, without a comma behind them
	for kept > 0 && gone[kept-1] && c.elements[n-1].comma < 0 {
		kept--
	}
	for i := range kept {
		if gone[i] {
			e.removeOne(c.elements[i].start, c.elements[i].comma+1, true)
		}
	}
	if kept == n {
		return
	}
	if kept > 0 {
		comma := c.elements[kept-1].comma
		if c.onlyBlank(comma+1, c.elements[n-1].end, kept) {
			e.add(comma, c.elements[n-1].end, spanRemove, "")
			return
		}
		e.add(comma, comma+1, spanRemove, "")
	}
	for i := kept; i < n; i++ {
		if i < n-1 {
			e.removeOne(c.elements[i].start, c.elements[i].comma+1, true)
		} else {
			e.removeOne(c.elements[i].start, c.elements[i].end, false)
		}
	}
}

// onlyBlank says whether a range holds nothing but elements from the first one on, commas and white space.
func (c *jsonContainer) onlyBlank(from, to, first int) bool {
	for _, el := range c.elements[first:] {
		if len(bytes.Trim(c.edit.data[from:el.start], ", \t\r\n")) > 0 {
			return false
		}
		from = el.end
	}
	return from >= to || len(bytes.Trim(c.edit.data[from:to], ", \t\r\n")) == 0
}

// removeOne takes a range out, with its line when nothing else stands there, else with the spaces of one side.
func (e *jsonEdit) removeOne(start, end int, more bool) {
	before, after := e.backBlank(start), e.skipBlank(end)
	alone := before == e.base || e.data[before-1] == '\n'
	switch broken := e.lineBreak(after); {
	case alone && broken > 0:
		e.add(before, after+broken, spanRemove, "")
	case broken > 0 || !more:
		e.add(before, end, spanRemove, "")
	default:
		e.add(start, after, spanRemove, "")
	}
}
