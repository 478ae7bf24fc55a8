package work

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mcpx/internal/era"
	"mcpx/internal/operation"
	"mcpx/internal/rpc"
	"mcpx/internal/store"
)

// ownMeta begins the names in _meta that are mcpx's own: what a server says there is not passed on.
const ownMeta = "mcpx/"

// passed is the result of another server as it is passed on: every member and number as it came, without what only mcpx
// may say, the name of the server's own program, and the values of secrets.
func (s *Service) passed(result []byte) json.RawMessage {
	meta := rpc.Find(result, whole(result), "_meta")
	var remove []string
	for m := range rpc.Members(result, meta) {
		if name, ok := rpc.Unquote(m.Key.Of(result)); ok && (strings.HasPrefix(name, ownMeta) || name == era.MetaServerInfo) {
			remove = append(remove, name)
		}
	}
	if len(remove) > 0 {
		result = rpc.Splice(result, rpc.EditObject(result, meta, remove)...)
	}
	if clean := s.cfg.Redact(string(result)); json.Valid([]byte(clean)) {
		return json.RawMessage(clean)
	}
	return s.cleaned(result)
}

// cleaned takes the values of secrets out of JSON in which they also stand outside of texts, such as in a number.
func (s *Service) cleaned(result []byte) json.RawMessage {
	var clean func(at rpc.Span) []byte
	clean = func(at rpc.Span) []byte {
		var edits []rpc.Edit
		for m := range rpc.Members(result, at) {
			edits = append(edits, rpc.Edit{At: m.Value, With: clean(m.Value)})
		}
		for e := range rpc.Elements(result, at) {
			edits = append(edits, rpc.Edit{At: e, With: clean(e)})
		}
		raw := at.Of(result)
		if raw[0] == '{' || raw[0] == '[' {
			for i := range edits {
				edits[i].At.From, edits[i].At.To = edits[i].At.From-at.From, edits[i].At.To-at.From
			}
			return rpc.Splice(raw, edits...)
		}
		now := s.cfg.Redact(string(raw))
		if !json.Valid([]byte(now)) {
			return rpc.Quote(now)
		}
		return []byte(now)
	}
	return clean(whole(result))
}

func whole(b []byte) rpc.Span { return rpc.Span{To: len(b)} }

// part is one piece of a result that may be kept apart.
type part struct {
	at    rpc.Span
	name  string // content/0, structuredContent
	media string
	bytes []byte
	text  bool // at is the text of an item: its ends are shown
}

// slimmed keeps the largest items of another server's result apart, one by one, until the rest fits into an answer.
func (s *Service) slimmed(ctx context.Context, tx store.Tx, t *turn, a operation.Answer) (operation.Answer, error) {
	a.Parts = nil
	all := a.Upstream
	apart := map[string]bool{}
	for len(a.Upstream)+sizeOf(a.Parts) > inlineLimit-envelope {
		p, ok := largest(a.Upstream, apart)
		if !ok {
			a.Upstream = all
			return s.wholeApart(ctx, tx, t, a)
		}
		kept, err := s.keep(ctx, tx, t, p.media, p.bytes)
		if err != nil {
			return a, err
		}
		apart[p.name] = true
		a.Parts = append(a.Parts, operation.Part{At: p.name, Ref: kept.Ref, Bytes: len(kept.Bytes), SHA256: kept.SHA256, Media: kept.Media})
		note := fmt.Sprintf("[%d bytes of %s: read_result %s]", len(p.bytes), p.media, kept.Ref)
		switch {
		case p.name == structured:
			a.Upstream = rpc.Splice(a.Upstream, rpc.EditObject(a.Upstream, whole(a.Upstream), []string{structured})...)
		case p.text:
			note = head(p.bytes, edge) + "\n" + note + "\n" + tail(p.bytes, edge)
			a.Upstream = rpc.Splice(a.Upstream, rpc.Edit{At: p.at, With: rpc.Quote(note)})
		default:
			a.Upstream = rpc.Splice(a.Upstream, rpc.Edit{At: p.at, With: textItem(note)})
		}
	}
	for _, p := range a.Parts[:min(len(a.Parts), maxNext-min(len(a.Next), maxNext))] {
		a.Next = append(a.Next, operation.Next{Tool: "read_result", Args: map[string]any{"ref": p.Ref}, Why: "the whole of " + p.At})
	}
	return a, nil
}

// textItem is a content item of text.
func textItem(text string) []byte {
	return append(append([]byte(`{"type":"text","text":`), rpc.Quote(text)...), '}')
}

// structured is the member of a result that holds data.
const structured = "structuredContent"

// minPart is the size from which an item is worth a reference: what takes its place is not much shorter below it.
const minPart = 3 * edge

// largest is the piece of a result that takes the most room and is not kept apart yet; false when all of them are small.
func largest(result []byte, apart map[string]bool) (p part, ok bool) {
	best := minPart
	if data := rpc.Find(result, whole(result), structured); data.To-data.From > best {
		best = data.To - data.From
		p, ok = part{at: data, name: structured, media: "application/json", bytes: slices.Clone(data.Of(result))}, true
	}
	i := 0
	for item := range rpc.Elements(result, rpc.Find(result, whole(result), "content")) {
		name := "content/" + strconv.Itoa(i)
		if size := item.To - item.From; size > best && !apart[name] {
			best, ok = size, true
			p = part{at: item, name: name, media: "application/json", bytes: slices.Clone(item.Of(result))}
			if kind, _ := rpc.Unquote(rpc.Find(result, item, "type").Of(result)); kind == "text" {
				at := rpc.Find(result, item, "text")
				if text, is := rpc.Unquote(at.Of(result)); is {
					p.at, p.media, p.bytes, p.text = at, "text/plain", []byte(text), true
				}
			}
		}
		i++
	}
	return p, ok
}

// wholeApart keeps a result apart that is large in many small pieces.
func (s *Service) wholeApart(ctx context.Context, tx store.Tx, t *turn, a operation.Answer) (operation.Answer, error) {
	kept, err := s.keep(ctx, tx, t, "application/json", a.Upstream)
	if err != nil {
		return a, err
	}
	a.Parts = []operation.Part{{At: "", Ref: kept.Ref, Bytes: len(kept.Bytes), SHA256: kept.SHA256, Media: kept.Media}}
	note := fmt.Sprintf("%s\n[the whole result has %d bytes: read_result %s]", head(a.Upstream, edge), len(kept.Bytes), kept.Ref)
	a.Upstream = fmt.Appendf(nil, `{"content":[%s],"isError":%t}`, textItem(note), !a.OK)
	a.Next = []operation.Next{{Tool: "read_result", Args: map[string]any{"ref": kept.Ref}, Why: "the whole result"}}
	return a, nil
}
