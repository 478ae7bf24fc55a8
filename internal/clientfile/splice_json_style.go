package clientfile

import "bytes"

// jsonStyle is the manner of one place of a document.
type jsonStyle struct {
	newline string
	unit    string // of indentation
	indent  string // of the elements here
	colon   string // between name and value
	space   string // behind a comma within a line
	multi   bool   // each element has its line
	objects bool   // objects here take several lines
	lists   bool   // lists here take several lines
}

// plainStyle is that of a file without any: as JSON.stringify writes with two spaces, which most agents do.
var plainStyle = jsonStyle{newline: "\n", unit: "  ", indent: "  ", colon: ": ", space: " ", multi: true, objects: true, lists: true}

// render writes a value. Indent is that of the line that it begins in.
func (st jsonStyle) render(b *bytes.Buffer, n node, indent string, multi bool) {
	switch n.kind {
	case object:
		if len(n.fields) == 0 {
			b.WriteString("{}")
			return
		}
		st.block(b, '{', '}', len(n.fields), indent, multi, func(i int, inner string) {
			writeString(b, n.fields[i].name)
			b.WriteString(st.colon)
			st.render(b, n.fields[i].value, inner, multi)
		})
	case list:
		if len(n.items) == 0 {
			b.WriteString("[]")
			return
		}
		multi = multi && (st.lists || n.items[0].kind == object)
		st.block(b, '[', ']', len(n.items), indent, multi, func(i int, inner string) { st.render(b, n.items[i], inner, multi) })
	case text:
		writeString(b, n.text)
	case number, boolean:
		b.WriteString(n.text)
	case absent:
		b.WriteString("null")
	}
}

func (st jsonStyle) block(b *bytes.Buffer, open, close byte, n int, indent string, multi bool, one func(i int, inner string)) {
	inner := indent + st.unit
	b.WriteByte(open)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		switch {
		case multi:
			b.WriteString(st.newline + inner)
		case i > 0:
			b.WriteString(st.space)
		}
		one(i, inner)
	}
	if multi {
		b.WriteString(st.newline + indent)
	}
	b.WriteByte(close)
}
