package clientfile

import (
	"bytes"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// Spell writes entries as a new file of an agent, one after the other. An entry that the agent has no way to write is left
// out, and one that loses a field is told too: dropped leads from the name of its server to the reason.
func Spell(agent string, forms []converge.Form) (document []byte, format Format, dropped map[string]string, err error) {
	a, err := ParseAgent(agent)
	if err != nil {
		return nil, "", nil, err
	}
	d, s := dialectOf(a), spellings[a]
	dropped = map[string]string{}
	if d.format == JSON || d.format == JSONC {
		document = []byte("{}\n")
	}
	for _, f := range forms {
		root, err := d.parse(document)
		if err != nil {
			return nil, "", nil, err
		}
		at, _ := placeOf(a, root, listing{}, converge.Step{Name: f.Server})
		ops, lost, err := entryOps(a, "", at, f.Server, node{}, f)
		if err != nil {
			dropped[f.Server] = fault.From(err).Message
			continue
		}
		if len(lost) > 0 {
			dropped[f.Server] = "this agent has no field for cwd"
		}
		if s.list && len(lookup(root, s.container).items) == 0 { // the first item makes the list
			ops = []op{{at: s.container, value: &node{kind: list, items: []node{*ops[0].value}}}}
		}
		spans, err := d.splice(document, ops)
		if err != nil {
			return nil, "", nil, err
		}
		document = applySpans(document, spans)
	}
	if !bytes.HasSuffix(document, []byte("\n")) {
		document = append(document, '\n')
	}
	return document, d.format, dropped, nil
}
