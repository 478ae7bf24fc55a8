package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// checkArguments holds arguments against the schema that a server published for them. A schema that cannot be used makes
// no tool unusable: the server looks at its arguments itself, and the warning says so. A schema is as foreign as its
// server, so one that would take long to check is not used either.
func checkArguments(schema, arguments json.RawMessage) (warning string, err error) {
	if len(schema) == 0 {
		return "", nil
	}
	resolved, err := usable(schema, arguments)
	if err != nil {
		return fmt.Sprintf("the arguments were not checked, because the schema of the tool cannot be used: %.200s", err), nil
	}
	var v any
	if err := json.Unmarshal(arguments, &v); err != nil {
		return "", err
	}
	return "", resolved.Validate(v)
}

// The bounds of a check.
const (
	maxSchema = 256 << 10 // bytes
	maxNodes  = 20000     // subschemas
	maxVisits = 1 << 22   // of a subschema by a value
)

func usable(schema, arguments json.RawMessage) (*jsonschema.Resolved, error) {
	if len(schema) > maxSchema {
		return nil, fmt.Errorf("it has more than %d bytes", maxSchema)
	}
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	g := graph{root: root, nodes: map[string]*node{}}
	if err := g.read(); err != nil {
		return nil, err
	}
	if err := g.cheap(arguments); err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}

// graph is a schema as what its subschemas, named by their JSON pointers, have to do with each other.
type graph struct {
	root  any
	nodes map[string]*node
}

// node is a subschema: which others look at the same value, and which look at the values in it.
type node struct {
	same, inside []string
	patterns     int // of names of members: they may look at the same one
}

// read follows every subschema that can be reached.
func (g *graph) read() error {
	for open := []string{""}; len(open) > 0; {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		if g.nodes[at] != nil {
			continue
		}
		if len(g.nodes) == maxNodes {
			return fmt.Errorf("it has more than %d parts", maxNodes)
		}
		value, err := lookUp(g.root, at)
		if err != nil {
			return err
		}
		n := &node{}
		g.nodes[at] = n
		members, _ := value.(map[string]any) // true and false are schemas, too
		for name, v := range members {
			if err := n.take(at, name, v); err != nil {
				return err
			}
		}
		open = append(append(open, n.same...), n.inside...)
	}
	return nil
}

// take reads one keyword.
func (n *node) take(at, name string, v any) error {
	to := at + "/" + escaped(name)
	list, _ := v.([]any)
	all, _ := v.(map[string]any)
	switch name {
	case "$dynamicRef", "$recursiveRef":
		return fmt.Errorf("it has %s, which is not followed", name)
	case "$id":
		if at != "" {
			return errors.New("a part of it has an $id of its own")
		}
	case "$ref":
		ref, _ := v.(string)
		target, ok := strings.CutPrefix(ref, "#")
		target, err := url.PathUnescape(target)
		if !ok || err != nil || target != "" && target[0] != '/' {
			return fmt.Errorf("it refers to %.100q, and only references into itself are followed", ref)
		}
		n.same = append(n.same, target)
	case "allOf", "anyOf", "oneOf":
		for i := range list {
			n.same = append(n.same, to+"/"+strconv.Itoa(i))
		}
	case "not", "if", "then", "else":
		n.same = append(n.same, to)
	case "dependentSchemas", "dependencies":
		for key, sub := range all {
			if _, names := sub.([]any); !names {
				n.same = append(n.same, to+"/"+escaped(key))
			}
		}
	case "properties", "patternProperties":
		for key := range all {
			n.inside = append(n.inside, to+"/"+escaped(key))
		}
		if name == "patternProperties" {
			n.patterns = len(all)
		}
	case "items", "prefixItems":
		for i := range list {
			n.inside = append(n.inside, to+"/"+strconv.Itoa(i))
		}
		if list == nil {
			n.inside = append(n.inside, to)
		}
	case "additionalProperties", "unevaluatedProperties", "propertyNames", "additionalItems", "unevaluatedItems", "contains":
		n.inside = append(n.inside, to)
	}
	return nil
}

func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// lookUp finds the value that a JSON pointer leads to.
func lookUp(root any, pointer string) (any, error) {
	v := root
	if pointer == "" {
		return v, nil
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		var ok bool
		switch in := v.(type) {
		case map[string]any:
			v, ok = in[token]
		case []any:
			i, err := strconv.Atoi(token)
			if ok = err == nil && i >= 0 && i < len(in); ok {
				v = in[i]
			}
		}
		if !ok {
			return nil, fmt.Errorf("it refers to %.100q, which it does not have", "#"+pointer)
		}
	}
	return v, nil
}

// cheap says whether a check of these arguments ends soon.
func (g *graph) cheap(arguments json.RawMessage) error {
	same := func(n *node) []string { return n.same }
	here := map[string]int{}
	if _, err := g.count("", same, here); err != nil {
		return err
	}
	most, patterns := 1, 0
	for at, n := range g.nodes {
		one, err := g.count(at, same, here)
		if err != nil {
			return err
		}
		most, patterns = max(most, one), max(patterns, n.patterns)
	}
	// How many subschemas look at one value of the arguments. Without a cycle these are the paths to it; with one, every
	// level multiplies them.
	looks, err := g.count("", func(n *node) []string { return append(slices.Clip(n.same), n.inside...) }, map[string]int{})
	values, deep := extent(arguments)
	if err != nil {
		looks = most
		for range deep {
			looks = min(looks*most*(patterns+2), maxVisits+1)
		}
	}
	if looks > maxVisits/max(values, 1) {
		return errors.New("it would take too long")
	}
	return nil
}

// count is the number of paths from a node along some edges, at most maxVisits; an error when it leads back to itself.
func (g *graph) count(at string, edges func(*node) []string, known map[string]int) (int, error) {
	if n, begun := known[at]; begun {
		if n == 0 {
			return 0, fmt.Errorf("its part %.100q contains itself", "#"+at)
		}
		return n, nil
	}
	known[at] = 0
	total := 1
	for _, to := range edges(g.nodes[at]) {
		n, err := g.count(to, edges, known)
		if err != nil {
			return 0, err
		}
		total = min(total+n, maxVisits+1)
	}
	known[at] = total
	return total, nil
}

// extent is how many values there are in some JSON, and how deep they nest.
func extent(raw json.RawMessage) (values, deepest int) {
	deep, text := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case text:
			if c == '\\' {
				i++
			}
			text = c != '"'
		case c == '"':
			text = true
		case c == '{', c == '[':
			deep++
			values++
			deepest = max(deepest, deep)
		case c == '}', c == ']':
			deep--
		case c == ',':
			values++
		}
	}
	return values, deepest
}
