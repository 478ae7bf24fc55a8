package wire

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// hole marks what the gateway may replace in a message: ids and progress tokens, by one JSON string or number each.
var hole = regexp.MustCompile(`@(ID|TOKEN)@`)

var scalar = regexp.MustCompile(`^(?:"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)`)

// fits says whether got is the template with a scalar in each hole and no other byte changed. It returns where they
// part, for the message.
func fits(template, got string) (bool, string) {
	rest := got
	for _, literal := range splitHoles(template) {
		if literal == "" {
			token := scalar.FindString(rest)
			if token == "" {
				return false, "no id or token at: " + clip(rest)
			}
			rest = rest[len(token):]
			continue
		}
		if !strings.HasPrefix(rest, literal) {
			i := 0
			for i < len(rest) && i < len(literal) && rest[i] == literal[i] {
				i++
			}
			return false, "want …" + clip(literal[i:]) + "\n got …" + clip(rest[i:])
		}
		rest = rest[len(literal):]
	}
	return rest == "", "left over: " + clip(rest)
}

// splitHoles cuts a template into literals; "" stands for a hole.
func splitHoles(template string) []string {
	var parts []string
	at := 0
	for _, span := range hole.FindAllStringIndex(template, -1) {
		if span[0] > at {
			parts = append(parts, template[at:span[0]])
		}
		parts = append(parts, "")
		at = span[1]
	}
	if at < len(template) {
		parts = append(parts, template[at:])
	}
	return parts
}

func clip(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func fill(template, id, token string) string {
	return strings.NewReplacer("@ID@", id, "@TOKEN@", token).Replace(template)
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(b)
}

func TestFits(t *testing.T) {
	for _, c := range []struct {
		template, got string
		want          bool
	}{
		{`{"id":@ID@,"x":1}`, `{"id":"mx1.a","x":1}`, true},
		{`{"id":@ID@,"x":1}`, `{"id":-7,"x":1}`, true},
		{`{"id":@ID@,"x":1}`, `{"id":"a\"b","x":1}`, true},
		{`{"id":@ID@,"x":1}`, `{"id":7, "x":1}`, false},
		{`{"id":@ID@,"x":1}`, `{"id":{},"x":1}`, false},
		{`{"id":@ID@}`, `{"id":7} `, false},
	} {
		if got, why := fits(c.template, c.got); got != c.want {
			t.Errorf("fits(%s, %s) = %v: %s", c.template, c.got, got, why)
		}
	}
}
