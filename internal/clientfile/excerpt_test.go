package clientfile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// excerpts counts the changes that were within an excerpt.
var excerpts atomic.Int64

// checkExcerpt: what is told of a result from an excerpt of it is what is told from the whole.
func checkExcerpt(t testing.TB, d dialect, data, after []byte, spans []span, ops []op) {
	t.Helper()
	doc, err := d.editable(data)
	if err != nil {
		t.Fatal(err)
	}
	quick, err := doc.after(after, spans, ops)
	if err != nil {
		t.Errorf("%v\nfrom %q\nto   %q\nby %v", err, data, after, show(ops))
		return
	}
	whole, err := d.document(after)
	if err != nil {
		return // a file without text, which the agent does not read
	}
	if !same(quick.whole(), whole.root) {
		t.Errorf("the excerpt says something else\nfrom %q\nto   %q\nby %v", data, after, show(ops))
	}
	if quick.patch == nil {
		return
	}
	excerpts.Add(1)
	put := make([]span, 0, len(spans))
	for _, s := range inverse(data, spans) {
		put = append(put, span{start: s.start, end: s.end})
	}
	for _, near := range [][]span{{{start: 0, end: len(after)}}, around(after, put)} {
		tell := func(doc document) (all []string) {
			for _, l := range literals(doc, near) {
				if slices.ContainsFunc(near, func(s span) bool { return s.start <= l.end && s.end >= l.start }) {
					all = append(all, fmt.Sprintf("%q %q %d-%d %q", l.at, l.value, l.start, l.end, l.list))
				}
			}
			return all
		}
		if quick, whole := tell(quick), tell(whole); !slices.Equal(quick, whole) {
			t.Errorf("the excerpt has other texts\n%s\nwant\n%s\nfrom %q\nto   %q\nby %v", strings.Join(quick, "\n"), strings.Join(whole, "\n"), data, after, show(ops))
		}
	}
}

// TestExcerpts changes one entry of many, in documents of all manners.
func TestExcerpts(t *testing.T) {
	n := 1000
	if raceOn {
		n /= 20
	}
	servers := func(g invented, kind kind) node {
		all := node{kind: kind}
		for i := range 1 + g.IntN(5) {
			entry := g.object(1)
			if kind == list {
				all.items = append(all.items, entry)
			} else {
				all.fields = append(all.fields, field{"s" + strconv.Itoa(i), entry})
			}
		}
		root := g.object(1)
		root.fields = slices.DeleteFunc(root.fields, func(f field) bool { return f.name == "servers" })
		root.fields = slices.Insert(root.fields, g.IntN(len(root.fields)+1), field{"servers", all})
		return root
	}
	for name, one := range map[string]struct {
		dialect
		write func(g invented) []byte
	}{
		"JSON": {dialect{format: JSONC, lenient: anyJSON}, func(g invented) []byte {
			m := manners{Rand: g.Rand, l: anyJSON}
			return m.one()
		}},
		"TOML": {dialect{format: TOML}, func(g invented) []byte {
			return (&tomlPage{invented: g}).page(func() node { return servers(g, object) })
		}},
		"YAML": {dialect{format: YAML}, func(g invented) []byte { return (&yamlPage{invented: g}).page(func() node { return servers(g, list) }) }},
	} {
		t.Run(name, func(t *testing.T) {
			before, edited := excerpts.Load(), 0
			for i := range n {
				g := invented{rand.New(rand.NewPCG(9, uint64(i)))}
				data := one.write(g)
				root, err := one.parse(data)
				if err != nil {
					t.Fatalf("%d: the generator is wrong: %v\n%s", i, err, data)
				}
				var ops []op
				for range 20 { // changes below one value that is deep enough
					ops = slices.DeleteFunc(g.changes(root), func(o op) bool { return len(o.at) < 3 || root.has("servers") && o.at[0] != "servers" })
					if len(ops) > 0 {
						break
					}
				}
				ops = slices.DeleteFunc(ops, func(o op) bool { return !slices.Equal(o.at[:2], ops[0].at[:2]) })
				if len(ops) == 0 {
					continue
				}
				if _, ok := checkSplice(t, one.dialect, data, ops); ok {
					edited++
				}
				if t.Failed() {
					t.Fatalf("document %d:\n%s", i, data)
				}
			}
			t.Logf("%d edited, %d of them by an excerpt", edited, excerpts.Load()-before)
			if got := int(excerpts.Load() - before); got < edited/4 {
				t.Errorf("only %d of %d changes were within an excerpt", got, edited)
			}
		})
	}
}
