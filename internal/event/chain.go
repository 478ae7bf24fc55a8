package event

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
)

const (
	// MaxBody bounds a body in bytes: a page of the log holds 500 of them in memory. A larger one is left out, and the
	// event says so: an act must not fail because it is hard to tell.
	MaxBody = 256 << 10

	// maxText bounds the summary and each ref, in bytes: a summary is one line, and no path is longer.
	maxText = 4 << 10
)

var kindForm = lazyregexp.New(`^[a-z]+\.[a-z_]+$`)

// Check refuses a draft that is no event: an unknown kind or ref, one without a value, a body that is no JSON. It is a
// mistake of whoever drafted it, so the kind is Internal.
func Check(d Draft) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Internal, "event-malformed").
			Saying("the event %s cannot be recorded: %s", d.Kind, fmt.Sprintf(format, args...)).
			Hinting("report this; what it tells of was not done")
	}
	if _, known := Kinds[d.Kind]; !known || !kindForm().MatchString(string(d.Kind)) {
		return bad("no such kind")
	}
	if d.At.IsZero() || d.At.Year() < 1 || d.At.Year() > 9999 {
		return bad("no time")
	}
	if d.Actor.Principal == "" {
		return bad("no principal")
	}
	for name, value := range d.Refs {
		switch {
		case !slices.Contains(allRefs, name):
			return bad("no such ref as %q", name)
		case value == "":
			return bad("the ref %s is empty", name)
		case len(value) > maxText:
			return bad("the ref %s has %d bytes, at most %d are allowed", name, len(value), maxText)
		}
	}
	if d.Body != nil && (!json.Valid(d.Body) || !utf8.Valid(d.Body)) {
		return bad("the body is no JSON")
	}
	return nil
}

// Seal gives a draft the place after prev, the zero Event at the beginning of a log. What cannot be text is made text
// here, so that an odd file name never stops the act it belongs to.
func Seal(prev Event, d Draft) (Event, error) {
	if err := Check(d); err != nil {
		return Event{}, err
	}
	e := Event{
		Seq: prev.Seq + 1, At: d.At.UTC().Truncate(time.Microsecond), Kind: d.Kind,
		Actor:   Actor{Principal: text(d.Actor.Principal), Client: text(d.Actor.Client), Channel: text(d.Actor.Channel)},
		Summary: text(d.Summary), Prev: prev.Hash, Body: normal(d.Body),
	}
	for name, value := range d.Refs {
		if e.Refs == nil {
			e.Refs = make(Refs, len(d.Refs))
		}
		e.Refs[name] = strings.ToValidUTF8(value, "\uFFFD")
	}
	if e.Body != nil {
		e.BodySHA256 = digest(e.Body)
	}
	e.Hash = digest(e.envelope())
	return e, nil
}

// text is one line of at most maxText bytes.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r // an invalid byte comes as U+FFFD
	}, s)
	if len(s) <= maxText {
		return s
	}
	cut := maxText - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// normal is the one spelling of a body: no white space, and escapes for what encoding/json escapes. Writing the event
// as JSON again does not change these bytes, so the hash holds for the bytes of every copy.
func normal(body json.RawMessage) json.RawMessage {
	if body == nil {
		return nil
	}
	var compact, escaped bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		panic("event: a checked body is no JSON: " + err.Error())
	}
	json.HTMLEscape(&escaped, compact.Bytes())
	if escaped.Len() > MaxBody {
		return json.RawMessage(`{"left_out_bytes":` + strconv.Itoa(escaped.Len()) + `}`)
	}
	return escaped.Bytes()
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// envelope is what Hash is the SHA-256 of: the JSON of the event without the members hash and body, in the canonical
// form of RFC 8785. Anybody can compute it from a line of an export: parse the line, take the two members away, write
// it canonically. Members are in order of their names; absent ones are those that the JSON of an Event leaves out.
func (e Event) envelope() []byte {
	b := make([]byte, 0, 512)
	b = append(b, `{"actor":{`...)
	if e.Actor.Channel != "" {
		b = append(appendString(append(b, `"channel":`...), e.Actor.Channel), ',')
	}
	if e.Actor.Client != "" {
		b = append(appendString(append(b, `"client":`...), e.Actor.Client), ',')
	}
	b = appendString(append(b, `"principal":`...), e.Actor.Principal)
	b = append(b, `},"at":"`...)
	b = append(e.At.UTC().AppendFormat(b, time.RFC3339Nano), '"')
	if e.BodySHA256 != "" {
		b = appendString(append(b, `,"body_sha256":`...), e.BodySHA256)
	}
	b = appendString(append(b, `,"kind":`...), string(e.Kind))
	b = appendString(append(b, `,"prev_hash":`...), e.Prev)
	if len(e.Refs) > 0 {
		b = append(b, `,"refs":{`...)
		for i, name := range slices.Sorted(maps.Keys(e.Refs)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, string(name)), ':')
			b = appendString(b, e.Refs[name])
		}
		b = append(b, '}')
	}
	b = strconv.AppendUint(append(b, `,"seq":`...), e.Seq, 10)
	b = appendString(append(b, `,"summary":`...), e.Summary)
	return append(b, '}')
}

// appendString writes a string as RFC 8785 wants it: everything as it is, but for quotes, backslashes and controls.
func appendString(b []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		case c == '\b':
			b = append(b, `\b`...)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\f':
			b = append(b, `\f`...)
		case c == '\r':
			b = append(b, `\r`...)
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(b, '"')
}
