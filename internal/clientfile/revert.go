package clientfile

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// whole drafts a change of the whole file. Remains: there is one afterwards.
func (w *drafting) whole(result []byte, remains bool) (drafted, error) {
	if err := checkBytes(result); err != nil {
		return drafted{}, err
	}
	if remains == w.exists && bytes.Equal(result, w.data) {
		return drafted{}, fault.New(fault.Conflict, "nothing-to-change").Saying("%s is as it should be already", w.d.Path)
	}
	var spans []span
	if s := differing(w.data, result); s.end > s.start || len(s.text) > 0 {
		spans = []span{s}
	}
	change, err := w.change(spans, remains)
	if err != nil {
		return drafted{}, err
	}
	if remains {
		sum := sha256.Sum256(result)
		change.Result = hex.EncodeToString(sum[:])
	} else {
		result = nil
	}
	return drafted{result: result, remove: !remains, change: change, moves: w.moves}, nil
}

// differing is the range in which two contents differ.
func differing(old, now []byte) span {
	start := 0
	for start < len(old) && start < len(now) && old[start] == now[start] {
		start++
	}
	oldEnd, nowEnd := len(old), len(now)
	for oldEnd > start && nowEnd > start && old[oldEnd-1] == now[nowEnd-1] {
		oldEnd, nowEnd = oldEnd-1, nowEnd-1
	}
	kind := spanReplace
	switch start {
	case oldEnd:
		kind = spanInsert
	case nowEnd:
		kind = spanRemove
	}
	return span{start: start, end: oldEnd, kind: kind, text: now[start:nowEnd]}
}

func changedSince(path string) *fault.Error {
	return fault.New(fault.Stale, "changed-since").
		Saying("%s was changed by somebody else where the rollback would write", path).
		Hinting("compare the file with its backup: `mcpx audit verify` names it, and edit by hand")
}

// revert takes back what a receipt did to the file: the exact bytes when nobody wrote it since, else only the entries,
// when they are still as the receipt left them (governance.md section 7.5).
func (w *drafting) revert(step converge.Step) (drafted, error) {
	r := w.d.Reverts
	if r == nil {
		return drafted{}, invalidSteps("what the receipt did to the file is not known")
	}
	before, err := w.files.beforeOf(step.Receipt, *r)
	if err != nil {
		return drafted{}, err
	}
	if r.After.Absent && !w.exists || !r.After.Absent && w.exists && hashOf(w.data) == r.After.SHA256 {
		dr, err := w.whole(before.Data, !before.Absent)
		if err != nil {
			return drafted{}, err
		}
		dr.change.Leaves = w.leaves(before.Data, r.Leaves)
		return dr, nil
	}
	if r.After.Absent || !w.exists || w.agent == "" || len(r.Leaves) == 0 {
		return drafted{}, changedSince(w.d.Path)
	}
	return w.revertEntries(before.Data, !before.Absent, r)
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// leaves tells how entries stand in a content.
func (w *drafting) leaves(data []byte, all []converge.Bound) []converge.Bound {
	root := node{}
	if n, err := w.dialect.parse(data); w.agent != "" && err == nil {
		root = n
	}
	out := make([]converge.Bound, 0, len(all))
	for _, b := range all {
		out = append(out, converge.Bound{At: b.At, Digest: w.files.digest(lookup(root, b.At))})
	}
	return out
}

func (w *drafting) revertEntries(before []byte, existed bool, r *converge.Written) (drafted, error) {
	var err error
	if w.root, err = w.read(w.data); err != nil {
		return drafted{}, err
	}
	old := node{kind: object}
	if existed {
		if old, err = w.dialect.parse(before); err != nil {
			return drafted{}, changedSince(w.d.Path)
		}
	}
	w.note("third-party-edit", "the file was changed since: only the entries of the receipt go back")
	for _, b := range r.Leaves {
		up := lookup(w.root, b.At[:len(b.At)-1])
		t := touched{at: b.At, old: lookup(w.root, b.At), step: converge.Step{Op: converge.StepRevert, Name: b.At[len(b.At)-1]}}
		if up.kind == list && b.Digest == "" { // it was removed from a list, where another item may stand now
			t.at, t.old = join(b.At[:len(b.At)-1], []string{itemBehind(up)}), node{}
		}
		if w.files.digest(t.old) != b.Digest {
			return drafted{}, changedSince(w.d.Path)
		}
		was := lookup(old, b.At)
		o := op{at: t.at}
		if was.kind != absent {
			o.value = &was
		} else {
			t.gone = true
			o.at = w.outermost(t.at, old, r.Leaves)
		}
		if !slices.ContainsFunc(w.ops, func(p op) bool { return slices.Equal(p.at, o.at) }) {
			w.ops = append(w.ops, o)
		}
		w.touched = append(w.touched, t)
	}
	spans, err := w.undoSpans(before, existed, r)
	if err != nil {
		return drafted{}, err
	}
	result := applySpans(w.data, spans)
	after, err := w.verify(spans, result)
	if err != nil {
		return drafted{}, err
	}
	return w.drafted(spans, result, after)
}

// outermost is the container that the receipt made for its entries, when nothing else is in it; else the entry itself.
func (w *drafting) outermost(at []string, old node, leaves []converge.Bound) []string {
	for len(at) > 1 {
		up := at[:len(at)-1]
		n := lookup(w.root, up)
		others := slices.ContainsFunc(n.names(), func(name string) bool {
			return !slices.ContainsFunc(leaves, func(b converge.Bound) bool { return hasPrefix(b.At, join(up, []string{name})) })
		})
		if declared(old, up) || n.kind != object || others {
			return at
		}
		at = up
	}
	return at
}

// undoSpans looks for the very bytes that the receipt wrote, and puts back what stood there. Where somebody has written
// in between, the entries are written anew.
func (w *drafting) undoSpans(before []byte, existed bool, r *converge.Written) ([]span, error) {
	if spans, ok := w.exactly(before, existed, r); ok {
		if n, err := w.dialect.parse(applySpans(w.data, spans)); err == nil && same(n, applied(w.root, w.ops)) {
			return spans, nil
		}
	}
	return w.dialect.splice(w.data, w.ops)
}

// exactly drafts the change of the receipt once more, which gives the bytes behind it, and follows its spans into the
// bytes of now. It works when the other edits are in one range that has no byte of a span.
func (w *drafting) exactly(before []byte, existed bool, r *converge.Written) ([]span, bool) {
	if len(r.Steps) == 0 || r.Steps[0].Op == converge.StepRevert || r.Steps[0].Op == converge.StepFile {
		return nil, false
	}
	past := &drafting{files: w.files, system: w.system, hub: w.hub, agent: w.agent, dialect: w.dialect, location: w.location, moves: map[string]string{}}
	past.d = converge.Drafting{Agent: w.d.Agent, Path: w.d.Path, Steps: r.Steps}
	past.root, past.exists = node{kind: object}, existed
	if existed {
		n, err := w.dialect.parse(before)
		if err != nil {
			return nil, false
		}
		past.root, past.data = n, before
	}
	if past.plan() != nil {
		return nil, false
	}
	spans, err := w.dialect.splice(past.data, past.ops)
	if err != nil {
		return nil, false
	}
	after := applySpans(past.data, spans)
	if hashOf(after) != r.After.SHA256 {
		return nil, false // another version of us wrote it
	}
	edit := differing(after, w.data)
	back := inverse(past.data, spans)
	for i, s := range back {
		switch {
		case s.end <= edit.start:
		case s.start >= edit.end:
			shift := len(edit.text) - (edit.end - edit.start)
			back[i].start, back[i].end = s.start+shift, s.end+shift
		default:
			return nil, false
		}
	}
	return back, true
}

// itemBehind is the number behind the last item of a list.
func itemBehind(n node) string { return strconv.Itoa(len(n.items)) }
