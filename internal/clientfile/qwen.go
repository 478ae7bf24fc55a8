package clientfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// qwenDecision is what the user told Qwen Code about one server of the project. It is bound to the definition that the
// user saw: one that was changed since is neither approved nor rejected.
type qwenDecision struct {
	hash, status string
	expand       func(string) string
}

func (d qwenDecision) approves(entry node) bool { return d.status == "approved" && d.bound(entry) }
func (d qwenDecision) rejects(entry node) bool  { return d.status == "rejected" && d.bound(entry) }

// qwenDecisions reads the record of the project.
func (s System) qwenDecisions(root node) map[string]qwenDecision {
	expand := func(v string) string {
		out, err := expandPlain(v, world{lookup: s.Lookup})
		if err != nil {
			return v // what is not set stays as it is there
		}
		return out
	}
	all := map[string]qwenDecision{}
	for _, f := range root.get(s.Project).fields {
		all[f.name] = qwenDecision{hash: f.value.get("hash").text, status: f.value.get("status").text, expand: expand}
	}
	return all
}

// qwenHashLength is how much of the SHA-256 the record keeps, in hex digits.
const qwenHashLength = 16

// bound computes the hash as Qwen Code does: SHA-256 of the entry as JSON with sorted names and expanded variables,
// without the fields that only describe it. Where our JSON differs from its own the entry stays unapproved.
func (d qwenDecision) bound(entry node) bool {
	if entry.kind != object || d.hash == "" {
		return false
	}
	entry.fields = slices.DeleteFunc(slices.Clone(entry.fields), func(f field) bool {
		return f.name == "scope" || f.name == "extensionName" || f.name == "description"
	})
	var b bytes.Buffer
	d.canonical(&b, entry)
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:])[:qwenHashLength] == d.hash
}

func (d qwenDecision) canonical(b *bytes.Buffer, n node) {
	switch n.kind {
	case object:
		names := make([]string, 0, len(n.fields))
		for _, f := range n.fields {
			names = append(names, f.name)
		}
		slices.Sort(names)
		b.WriteByte('{')
		for i, name := range slices.Compact(names) {
			if i > 0 {
				b.WriteByte(',')
			}
			writeString(b, name)
			b.WriteByte(':')
			d.canonical(b, n.get(name))
		}
		b.WriteByte('}')
	case list:
		b.WriteByte('[')
		for i, item := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			d.canonical(b, item)
		}
		b.WriteByte(']')
	case text:
		writeString(b, d.expand(n.text))
	case number, boolean:
		b.WriteString(n.text)
	case absent:
		b.WriteString("null")
	}
}

// writeString writes a JSON string as JavaScript does: <, > and & stay as they are.
func writeString(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)         // a string can be encoded, and the buffer takes all
	b.Truncate(b.Len() - 1) // the newline that Encode adds
}
