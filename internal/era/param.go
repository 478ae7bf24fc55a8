package era

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/rpc"
)

// maxSchemaNodes bounds what is walked of one schema (protocol.md 11.8).
const maxSchemaNodes = 10_000

// maxSafe is the largest integer that every JSON implementation reads exactly: 2^53-1.
const maxSafe = 1<<53 - 1

// headerKeyword marks a property whose value is repeated in a header.
const headerKeyword = "x-mcp-header"

// ParamHeader is one argument of a tool that is repeated in the header Mcp-Param-{Name}.
type ParamHeader struct {
	Name string
	Path []string // property names from the arguments object down
}

// ParamHeaders is the header annotations of a tool, given as its raw object. An annotation is valid on integer,
// string or boolean properties reached through properties alone, is a token of RFC 9110, and unique without regard to
// case; the error names the first one that is not.
func ParamHeaders(tool []byte) ([]ParamHeader, error) {
	schema := rpc.Find(tool, whole(tool), "inputSchema")
	w := paramWalk{b: tool}
	if err := w.schema(schema, nil, true); err != nil {
		return nil, err
	}
	return w.found, nil
}

type paramWalk struct {
	b     []byte
	found []ParamHeader
	nodes int
}

// schema walks one schema; reached says that only properties led here.
func (w *paramWalk) schema(at rpc.Span, path []string, reached bool) error {
	if w.nodes++; w.nodes > maxSchemaNodes {
		return errors.New("the input schema has more than 10000 nodes")
	}
	var kind string
	var header rpc.Span
	for m := range rpc.Members(w.b, at) {
		key, _ := rpc.Unquote(m.Key.Of(w.b))
		var err error
		switch key {
		case headerKeyword:
			header = m.Value
		case "type":
			kind, _ = rpc.Unquote(m.Value.Of(w.b))
		case "properties":
			err = w.named(m.Value, path, reached)
		case "$defs", "definitions", "patternProperties", "dependentSchemas":
			err = w.named(m.Value, path, false)
		case "default", "const", "enum", "examples", "required":
			// data, not schemas
		default:
			err = w.inner(m.Value, path)
		}
		if err != nil {
			return err
		}
	}
	if !header.Ok() {
		return nil
	}
	return w.add(header, kind, path, reached)
}

// named walks a map from names to schemas.
func (w *paramWalk) named(at rpc.Span, path []string, reached bool) error {
	for m := range rpc.Members(w.b, at) {
		name, _ := rpc.Unquote(m.Key.Of(w.b))
		if err := w.schema(m.Value, append(slices.Clip(path), name), reached); err != nil {
			return err
		}
	}
	return nil
}

// inner walks the value of any other keyword: a schema, or an array of schemas.
func (w *paramWalk) inner(at rpc.Span, path []string) error {
	switch w.b[at.From] {
	case '{':
		return w.schema(at, path, false)
	case '[':
		for e := range rpc.Elements(w.b, at) {
			if w.b[e.From] == '{' {
				if err := w.schema(e, path, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (w *paramWalk) add(header rpc.Span, kind string, path []string, reached bool) error {
	where := strings.Join(path, ".")
	name, ok := rpc.Unquote(header.Of(w.b))
	switch {
	case len(path) == 0 || !reached:
		return fmt.Errorf("%s at %q is not on a property reached through properties alone", headerKeyword, where)
	case !ok || !isToken(name):
		return fmt.Errorf("%s of property %q is not a header token", headerKeyword, where)
	case kind != "integer" && kind != "string" && kind != "boolean":
		return fmt.Errorf("%s is on property %q of type %q; integer, string and boolean are allowed", headerKeyword, where, kind)
	}
	for _, p := range w.found {
		if strings.EqualFold(p.Name, name) {
			return fmt.Errorf("%s %q is on two properties, %q and %q", headerKeyword, name, strings.Join(p.Path, "."), where)
		}
	}
	w.found = append(w.found, ParamHeader{Name: name, Path: path})
	return nil
}

// isToken is the token of RFC 9110 section 5.6.2.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c > '~' || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// argument is the argument at the path, absent when it is missing or null.
func (p ParamHeader) argument(b []byte, m rpc.Message) rpc.Span {
	at := rpc.Find(b, m.Params, "arguments")
	for _, name := range p.Path {
		at = rpc.Find(b, at, name)
	}
	if at.Ok() && b[at.From] == 'n' {
		return rpc.Span{}
	}
	return at
}

// CheckParams is check (g) of protocol.md 3.2 for a tools/call: each annotated argument equals its header, and an
// absent or null one has none.
func CheckParams(b []byte, m rpc.Message, h Headers, params []ParamHeader) *Refusal {
	for _, p := range params {
		name := HeaderParamPrefix + p.Name
		at := p.argument(b, m)
		got, n := h.one(name)
		switch {
		case n > 1:
			return mismatch("%s came %d times", name, n)
		case n == 1 && !at.Ok():
			return mismatch("%s is sent, the argument %q is not", name, strings.Join(p.Path, "."))
		case n == 0 && at.Ok():
			return mismatch("%s is required for the argument %q", name, strings.Join(p.Path, "."))
		case n == 0:
			continue
		}
		if text, valid := DecodeHeader(got); !valid || !equalArgument(text, at.Of(b)) {
			return mismatch("%s is %q, which is not the argument %q", name, got, strings.Join(p.Path, "."))
		}
	}
	return nil
}

// equalArgument compares the text of a header with a raw argument; integers compare as numbers.
func equalArgument(text string, raw []byte) bool {
	if n, ok := integer(string(raw)); ok {
		m, ok := integer(text)
		return ok && m == n
	}
	want, ok := argumentText(raw)
	return ok && text == want
}

// argumentText is how a raw argument is written in a header, before the sentinel. False for what may not be in one.
func argumentText(raw []byte) (string, bool) {
	switch raw[0] {
	case '"':
		return rpc.Unquote(raw)
	case 't', 'f':
		return string(raw), true
	}
	if n, ok := integer(string(raw)); ok {
		return strconv.FormatInt(n, 10), true
	}
	return "", false
}

// integer reads a JSON number that is a whole one within ±(2^53-1), in any notation: 42, 42.0, 4.2e1.
func integer(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789+-.eE") != "" {
		return 0, false // ParseFloat also reads hexadecimal, "inf" and "nan"
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > maxSafe {
		return 0, false
	}
	return int64(f), true
}

// ParamValues is the Mcp-Param-* headers of a tools/call, by full name and encoded. Arguments that may not be in a
// header have none: the backend judges them.
func ParamValues(b []byte, m rpc.Message, params []ParamHeader) map[string]string {
	var h map[string]string
	for _, p := range params {
		at := p.argument(b, m)
		if !at.Ok() {
			continue
		}
		if text, ok := argumentText(at.Of(b)); ok {
			if h == nil {
				h = make(map[string]string, len(params)+2)
			}
			h[HeaderParamPrefix+p.Name] = EncodeHeader(text)
		}
	}
	return h
}
