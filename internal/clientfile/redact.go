package clientfile

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"mcpx/internal/catalog"
	"mcpx/internal/lazyregexp"
	textfile "mcpx/internal/text" // text is a kind of node here
)

// mask is a range of a document that is not shown, and what stands there instead.
type mask struct {
	start, end int
	text       string
	secret     string // looked for everywhere else, too; "" the value may be any text
}

// valueFields hold variables and headers: their values are never shown, whatever they look like.
var valueFields = []string{"env", "environment", "headers", "http_headers"}

// notSecret are fields whose names look like those of secrets, and that hold the name of a variable or a command line.
var notSecret = []string{"bearer_token_env_var", "headersHelper", "http_headers_helper"}

// masks finds what must not be shown of a document, as far as it is near the ranges: values of variables and headers,
// what is a secret by its name or its shape, and what only looks like one. References are shown.
func masks(doc document, near []span) []mask {
	var all []mask
	for _, l := range literals(doc, near) {
		for len(near) > 0 && near[0].end < l.start {
			near = near[1:]
		}
		if len(near) == 0 {
			break
		}
		if l.end < near[0].start {
			continue
		}
		if text, hidden := l.hidden(); hidden && l.end > l.start {
			all = append(all, mask{start: l.start, end: l.end, text: text, secret: l.secret()})
		}
	}
	return all
}

// around widens ranges to the lines that a diff shows of them, and joins those that meet.
func around(data []byte, ranges []span) []span {
	var out []span
	for _, s := range ranges {
		for range contextLines + 2 { // one for the line itself, one in reserve
			s.start = max(0, bytes.LastIndexByte(data[:s.start], '\n'))
			if next := bytes.IndexByte(data[s.end:], '\n'); next >= 0 {
				s.end += next + 1
			} else {
				s.end = len(data)
			}
		}
		if n := len(out); n > 0 && s.start <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, s.end)
			continue
		}
		out = append(out, span{start: s.start, end: s.end})
	}
	return out
}

// isValue says whether the text is that of a variable or header.
func (l literal) isValue() bool {
	return l.list == nil && len(l.at) > 1 && slices.Contains(valueFields, l.at[len(l.at)-2])
}

// secret is a hidden text that is looked for everywhere else, too; "" it may be any text.
func (l literal) secret() string {
	if l.isValue() && !catalog.SecretName(l.at[len(l.at)-1]) && !catalog.SecretValue(l.value) {
		return ""
	}
	return l.value
}

// hidden says what stands in the place of the text, when it is not shown.
func (l literal) hidden() (text string, hidden bool) {
	name, parent := "value", ""
	if n := len(l.at); n > 0 {
		name = l.at[n-1]
		if n > 1 {
			parent = l.at[n-2]
		}
	}
	if l.list != nil {
		name = parent + "." + name
	}
	if l.value == "" {
		return "", false
	}
	redacted := "[redacted:" + safeLabel(name) + "]"
	template := catalog.HasTemplate(l.value)
	switch {
	case slices.Contains(notSecret, name):
		return "", false
	case l.isValue():
		return redacted, !template || catalog.SecretValue(l.value)
	case l.list != nil:
		i, err := strconv.Atoi(l.at[len(l.at)-1])
		if err != nil || i >= len(l.list) {
			return redacted, true
		}
		near := l.list[max(0, i-1) : i+1] // a flag says what the argument behind it is
		return redacted, catalog.RedactArgs(near)[len(near)-1] != l.value
	case catalog.SecretName(name) && !template:
		return redacted, true
	case catalog.SecretValue(l.value):
		return redacted, true
	case catalog.HideURL(l.value) != l.value && strings.Contains(l.value, "://"):
		return redacted, true
	}
	if words := strings.Fields(l.value); len(words) > 1 { // a shell line, or a remark
		return redacted, !slices.Equal(catalog.RedactArgs(words), words)
	}
	return "", false
}

// safeLabel is a name as it is shown: names of variables are, other text may be anything.
func safeLabel(name string) string {
	const longest = 64
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, name)
	if catalog.SecretValue(name) {
		return "value"
	}
	return name[:min(len(name), longest)]
}

// masked is a document with its masks in place, and a way from offsets in the old one to those in the new one.
type masked struct {
	text  string
	masks []mask
}

func under(data []byte, all []mask) masked {
	spans := make([]span, 0, len(all))
	for _, m := range all {
		spans = append(spans, span{start: m.start, end: m.end, text: []byte(m.text)})
	}
	return masked{text: string(applySpans(data, spans)), masks: all}
}

// at follows an offset. One within a mask is moved out of it, to its start or its end.
func (m masked) at(offset int, end bool) int {
	moved := 0
	for _, k := range m.masks {
		switch {
		case offset >= k.end:
			moved += len(k.text) - (k.end - k.start)
		case offset > k.start && end:
			return k.start + moved + len(k.text)
		case offset > k.start:
			return k.start + moved
		default:
			return offset + moved
		}
	}
	return offset + moved
}

// contextLines stand around a change, as diff -u has it.
const contextLines = 3

// unifying makes the diff of one change.
type unifying struct {
	path            string
	exists, remains bool
	old, fresh      document
	spans           []span
	before, now     []mask // of old and fresh
}

func (u *unifying) mask() {
	put := make([]span, 0, len(u.spans))
	for _, s := range inverse(u.old.data, u.spans) {
		put = append(put, span{start: s.start, end: s.end})
	}
	u.before = masks(u.old, around(u.old.data, u.spans))
	u.now = masks(u.fresh, around(u.fresh.data, put))
}

// window is the part of the old bytes that the diff shows something of, as whole lines: the file may have megabytes.
func (u *unifying) window() (start, end int) {
	moved := len(u.fresh.data) - len(u.old.data)
	if len(u.spans) == 0 {
		return 0, 0
	}
	near := around(u.old.data, u.spans)
	start, end = near[0].start, near[len(near)-1].end
	for _, m := range u.before {
		start, end = min(start, m.start), max(end, m.end)
	}
	for _, m := range u.now {
		start, end = min(start, m.start), max(end, m.end-moved)
	}
	start = bytes.LastIndexByte(u.old.data[:start], '\n') + 1
	if next := bytes.IndexByte(u.old.data[end:], '\n'); next >= 0 {
		return start, end + next + 1
	}
	return start, len(u.old.data)
}

// shifted are masks as of other offsets.
func shifted(all []mask, by int) []mask {
	out := slices.Clone(all)
	for i := range out {
		out[i].start, out[i].end = out[i].start+by, out[i].end+by
	}
	return out
}

// unified is the diff of the real bytes, with masks over what must not be shown in both columns.
func (u *unifying) unified() (string, error) {
	start, end := u.window()
	old := under(u.old.data[start:end], shifted(u.before, -start))
	fresh := under(u.fresh.data[start:end+len(u.fresh.data)-len(u.old.data)], shifted(u.now, -start))
	var edits []udiff.Edit
	moved := 0
	for _, s := range u.spans {
		s.start, s.end = s.start-start, s.end-start
		from := s.start + moved
		moved += len(s.text) - (s.end - s.start)
		to := from + len(s.text)
		e := udiff.Edit{Start: old.at(s.start, false), End: old.at(s.end, true)}
		e.New = fresh.text[fresh.at(from, false):fresh.at(to, true)]
		if n := len(edits); n > 0 && e.Start < edits[n-1].End { // both end in one mask
			e.Start = edits[n-1].End
			e.End = max(e.End, e.Start)
		}
		edits = append(edits, e)
	}
	name := textfile.DiffName(u.path)
	from, to := name, name
	if !u.exists {
		from = "/dev/null"
	}
	if !u.remains {
		to = "/dev/null"
	}
	diff, err := udiff.ToUnified(from, to, old.text, edits, contextLines)
	if err != nil {
		return "", fmt.Errorf("diff: %w", err)
	}
	return scrub(renumbered(diff, bytes.Count(u.old.data[:start], []byte("\n"))), slices.Concat(u.before, u.now)), nil
}

// hunkHead is the line above each part of a diff: "@@ -3,7 +3,8 @@". Lines of a file have a sign before them.
var hunkHead = lazyregexp.New(`(?m)^@@ -(\d+)((?:,\d+)?) \+(\d+)((?:,\d+)?) @@`)

// renumbered is a diff of the part of a file that has some lines before it.
func renumbered(diff string, lines int) string {
	if lines == 0 {
		return diff
	}
	return hunkHead().ReplaceAllStringFunc(diff, func(head string) string {
		m := hunkHead().FindStringSubmatch(head)
		from, _ := strconv.Atoi(m[1]) // both are numbers
		to, _ := strconv.Atoi(m[3])
		return fmt.Sprintf("@@ -%d%s +%d%s @@", from+lines, m[2], to+lines, m[4])
	})
}

// shortest is the length from which a secret is looked for everywhere in a diff: a shorter one is also other text.
const shortest = 6

// tokenInText is what a secret in a comment would be written as.
var tokenInText = lazyregexp.New(`[A-Za-z0-9_\-.=+/]{8,}`)

// scrub takes secrets out of what is no value: comments, and names.
func scrub(diff string, all []mask) string {
	slices.SortStableFunc(all, func(a, b mask) int { return len(b.secret) - len(a.secret) })
	for _, m := range all {
		for _, v := range []string{m.secret, bearerToken(m.secret)} {
			if len(v) >= shortest && strings.Contains(diff, v) {
				diff = strings.ReplaceAll(diff, v, m.text)
			}
		}
	}
	return tokenInText().ReplaceAllStringFunc(diff, func(w string) string {
		for part := range strings.FieldsFuncSeq(w, func(r rune) bool { return r == '=' || r == '/' }) {
			if catalog.SecretValue(part) {
				return "[redacted]"
			}
		}
		return w
	})
}

// bearerToken is what follows the scheme of an Authorization value.
func bearerToken(v string) string {
	if scheme, token, ok := strings.Cut(v, " "); ok && slices.Contains([]string{"bearer", "basic", "token"}, strings.ToLower(scheme)) {
		return strings.TrimSpace(token)
	}
	return ""
}
