package operation

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// IDField is the argument that names an operation.
const IDField = "operation_id"

// loose are the arguments that a retry may change: what they ask for is how much is told, or how long is waited, or they
// are guards against cost and accident (durable-work.md section 9 step 0, runtime.md section 3.1).
var loose = []string{IDField, "activity", "wait_ms", "output_bytes", "output", "diff", "limit", "include", "distinct_from", "confirm"}

// The bounds of an operation id.
const (
	minID = 8
	maxID = 128
)

// ValidID says whether a caller may name an operation like this.
func ValidID(id string) bool {
	if len(id) < minID || len(id) > maxID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return true
}

// Print is what a call asks for, as digests.
type Print struct {
	Sum     string            // hex of a SHA-256 over the tool and its arguments in a canonical form
	Digests map[string]string // of each argument, keyed
}

// ParseArgs reads the arguments of a call. They are one object in UTF-8 in which no name occurs twice: of two readings
// the fingerprint could be of one and the effect of the other. Numbers stay as they are written.
func ParseArgs(raw json.RawMessage) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return map[string]json.RawMessage{}, nil
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("the arguments are not UTF-8")
	}
	if err := unique(json.NewDecoder(bytes.NewReader(raw))); err != nil {
		return nil, err
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(raw, &args); err != nil || args == nil {
		return nil, errors.New("the arguments are no JSON object")
	}
	return args, nil
}

// maxDepth bounds how deep arguments nest.
const maxDepth = 100

// unique refuses an object in which a name occurs twice, at any depth.
func unique(d *json.Decoder) error {
	d.UseNumber()
	type level struct {
		names  map[string]bool // nil in an array
		inside bool            // a value follows the name
	}
	var stack []level
	for {
		token, err := d.Token()
		if err != nil {
			if errors.Is(err, io.EOF) && len(stack) == 0 {
				return nil
			}
			return fmt.Errorf("the arguments are no JSON: %w", err)
		}
		top := len(stack) - 1
		if name, ok := token.(string); ok && top >= 0 && stack[top].names != nil && !stack[top].inside {
			if stack[top].names[name] {
				return fmt.Errorf("the name %.64q occurs twice", name)
			}
			stack[top].names[name], stack[top].inside = true, true
			continue
		}
		if top >= 0 {
			stack[top].inside = false
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{names: map[string]bool{}})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if len(stack) > maxDepth {
			return fmt.Errorf("the arguments nest deeper than %d", maxDepth)
		}
	}
}

// Fingerprint is the print of a call. key makes the digests of single arguments useless for guessing them. The canonical
// form sorts names and writes each number in one way, with all its digits: RFC 8785 would read them as doubles, in which
// two large integers that differ are one.
func Fingerprint(tool string, args map[string]json.RawMessage, key []byte) (Print, error) {
	p := Print{Digests: map[string]string{}}
	all := sha256.New()
	all.Write([]byte(strconv.Quote(tool)))
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if slices.Contains(loose, name) {
			continue
		}
		value, err := canonical(args[name])
		if err != nil {
			return Print{}, fmt.Errorf("argument %s: %w", name, err)
		}
		field := strconv.Quote(name) + ":"
		all.Write([]byte(field + strconv.Itoa(len(value)) + ":"))
		all.Write(value)
		one := hmac.New(sha256.New, key)
		one.Write([]byte(field))
		one.Write(value)
		p.Digests[name] = hex.EncodeToString(one.Sum(nil)[:16])
	}
	p.Sum = hex.EncodeToString(all.Sum(nil))
	return p, nil
}

func canonical(raw json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(spelled(v)) // sorts the names of objects
}

// spelled writes every number of a value in one way.
func spelled(v any) any {
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i := range v {
			v[i] = spelled(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = spelled(v[name])
		}
	}
	return v
}

// maxZeros bounds how many zeros are written out for an exponent.
const maxZeros = 64

// number is a number without an exponent and without zeros that say nothing: 1 for 1.0 and 10e-1. One whose exponent would
// take too many zeros stays as it is.
func number(n json.Number) json.Number {
	text, negative := strings.CutPrefix(string(n), "-")
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(mantissa, ".")
	shift := 0
	if exponent != "" {
		var err error
		if shift, err = strconv.Atoi(exponent); err != nil || shift < -maxZeros || shift > maxZeros {
			return n
		}
	}
	digits, point := whole+fraction, len(whole)+shift
	if point < 0 {
		digits, point = strings.Repeat("0", -point)+digits, 0
	}
	if point > len(digits) {
		digits += strings.Repeat("0", point-len(digits))
	}
	whole, fraction = strings.TrimLeft(digits[:point], "0"), strings.TrimRight(digits[point:], "0")
	out := cmp.Or(whole, "0")
	if fraction != "" {
		out += "." + fraction
	}
	if negative && out != "0" {
		out = "-" + out
	}
	return json.Number(out)
}

// differing names the arguments in which two calls differ.
func differing(a, b map[string]string) []string {
	var names []string
	for name, digest := range a {
		if b[name] != digest {
			names = append(names, name)
		}
	}
	for name := range b {
		if _, both := a[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
