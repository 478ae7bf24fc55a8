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
		return drafted{}, nothingToChange(w.d.Path)
	}
	var spans []span
	if s := differing(w.data, result); s.end > s.start || len(s.text) > 0 {
		spans = []span{s}
	}
	// Both may be anything: a file that its agent cannot read is shown, too.
	old, _ := w.dialect.document(w.data)
	fresh, _ := w.dialect.document(result)
	change, err := w.change(spans, old, fresh, remains)
	if err != nil {
		return drafted{}, err
	}
	if remains {
		change.Result = hashOf(result)
	} else {
		result = nil
	}
	return drafted{result: result, spans: spans, remove: !remains, change: change, moves: w.moves}, nil
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
		Hinting("`mcpx rollback RECEIPT --merge` keeps what was written since, where it can be told apart")
}

// revert takes back what a receipt did to the file: the exact bytes when nobody wrote it since, else only the entries,
// when they are still as the receipt left them, or what the receipt did to them (governance.md section 7.5).
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
		if step.Merge {
			return drafted{}, w.cannotMerge(r)
		}
		return drafted{}, changedSince(w.d.Path)
	}
	return w.revertEntries(before.Data, !before.Absent, r, step.Merge)
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

// revertEntries takes back what the receipt did to entries of a file that others have written since. With merge it may
// also have been the same entries.
func (w *drafting) revertEntries(before []byte, existed bool, r *converge.Written, merge bool) (drafted, error) {
	if err := w.open(); err != nil {
		return drafted{}, err
	}
	old := node{kind: object}
	if existed {
		var err error
		if old, err = w.dialect.parse(before); err != nil {
			return drafted{}, changedSince(w.d.Path)
		}
	}
	if merge {
		w.note("third-party-edit", "the file was changed since: what was written since stays, in the entries of the receipt, too")
	} else {
		w.note("third-party-edit", "the file was changed since: only the entries of the receipt go back")
	}
	done := w.replay(before, existed, r)
	var m merging
	for _, b := range r.Leaves {
		was, applied := valueAt(old, b.At), valueAt(done.root, b.At)
		if b.Digest == "" {
			applied = nil // where it stood in a list another one may stand
		}
		known := b.Digest == "" || applied != nil && w.files.digest(*applied) == b.Digest
		if !known {
			applied = nil
		}
		at, sure := w.standing(b, was, applied)
		t := touched{at: at, old: lookup(w.doc.root, at), step: converge.Step{Op: converge.StepRevert, Name: b.At[len(b.At)-1]}, gone: was == nil}
		unchanged := w.files.digest(t.old) == b.Digest
		now := valueAt(w.doc.root, at)
		switch {
		case !sure && merge:
			m.conflict(at, was, applied, now)
		case !sure:
			return drafted{}, changedSince(w.d.Path)
		case unchanged && known && b.Digest != "" && was != nil: // field by field, so that more of the bytes stay
			m.join(at, was, applied, now)
		case unchanged:
			w.putBack(at, was, old, r.Leaves)
		case !merge:
			return drafted{}, changedSince(w.d.Path)
		case !known:
			m.conflict(at, was, nil, now)
			m.unknown = true
		default:
			m.join(at, was, applied, now)
		}
		w.touched = append(w.touched, t)
	}
	if err := m.failed(w.d.Path); err != nil {
		return drafted{}, err
	}
	w.ops = append(w.ops, m.ops...)
	spans, err := w.undoSpans(done)
	if err != nil {
		return drafted{}, err
	}
	if len(spans) == 0 {
		return drafted{}, nothingToChange(w.d.Path)
	}
	return w.verified(spans)
}

// putBack gives a whole entry what it was before.
func (w *drafting) putBack(at []string, was *node, old node, leaves []converge.Bound) {
	o := op{at: at, value: was}
	if was == nil {
		o.at = w.outermost(at, old, leaves)
	}
	if !slices.ContainsFunc(w.ops, func(p op) bool { return slices.Equal(p.at, o.at) }) {
		w.ops = append(w.ops, o)
	}
}

// standing is where an entry of the receipt stands now. In a list others may have moved it, and its name tells which one
// it is; one that is not there gets the next number behind the last. Not sure: several could be it.
func (w *drafting) standing(b converge.Bound, was, applied *node) (at []string, sure bool) {
	container := b.At[:len(b.At)-1]
	up := lookup(w.doc.root, container)
	if up.kind != list {
		return b.At, true
	}
	behind := len(up.items)
	for _, t := range w.touched {
		if t.old.kind == absent {
			behind++
		}
	}
	numbered := func(i int) []string { return join(container, []string{strconv.Itoa(i)}) }
	var named, same []int
	for i, item := range up.items {
		if was != nil && item.get(nameField).text == was.get(nameField).text || applied != nil && item.get(nameField).text == applied.get(nameField).text {
			named = append(named, i)
			if w.files.digest(item) == b.Digest {
				same = append(same, i)
			}
		}
	}
	switch {
	case was == nil && applied == nil: // only its number is known
		return b.At, true
	case len(same) == 1:
		return numbered(same[0]), true
	case len(named) == 0:
		return numbered(behind), true
	}
	return numbered(named[0]), len(named) == 1
}

// nameField holds the name of an entry in a list.
const nameField = "name"

// valueAt is a value by its place, nil when there is none.
func valueAt(n node, at []string) *node {
	if v := lookup(n, at); v.kind != absent {
		return &v
	}
	return nil
}

// outermost is the container that the receipt made for its entries, when nothing else is in it; else the entry itself.
func (w *drafting) outermost(at []string, old node, leaves []converge.Bound) []string {
	for len(at) > 1 {
		up := at[:len(at)-1]
		n := lookup(w.doc.root, up)
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

// undoSpans follows the bytes that the receipt wrote into those of now, and puts back what stood there. Where somebody
// has written over them, the entries are written anew.
func (w *drafting) undoSpans(done replayed) ([]span, error) {
	if done.data != nil {
		spans, ok := carried(inverse(done.before, done.spans), hunks(done.data, w.data))
		if n, err := w.dialect.parse(applySpans(w.data, spans)); ok && err == nil && w.inPlace(n) {
			return spans, nil
		}
	}
	return w.doc.splice(w.ops)
}

// inPlace says whether a document is what the operations ask for. Items that come back into a list may stand where they
// stood, and not at its end: then the operations ask for that.
func (w *drafting) inPlace(n node) bool {
	want := applied(w.doc.root, w.ops)
	for i := range w.touched {
		t := &w.touched[i]
		container := t.at[:len(t.at)-1]
		if up := lookup(w.doc.root, container); up.kind != list || t.old.kind != absent || t.gone {
			continue
		}
		back, items := lookup(want, t.at), lookup(n, container).items
		here := slices.IndexFunc(items, func(item node) bool { return same(item, back) })
		if here < 0 {
			return false
		}
		moved := lookup(want, container)
		last, _ := strconv.Atoi(t.at[len(t.at)-1]) // standing wrote it
		moved.items = slices.Insert(slices.Delete(slices.Clone(moved.items), last, last+1), min(here, last), back)
		w.ops = append(slices.DeleteFunc(w.ops, func(o op) bool { return hasPrefix(o.at, container) }), op{at: container, value: &moved})
		want = applied(w.doc.root, w.ops)
		t.at = join(container, []string{strconv.Itoa(here)})
	}
	return same(n, want)
}

// replayed is what a receipt did, found out by doing it once more.
type replayed struct {
	root   node // the document as the receipt left it; what is in it counts where the receipt has the same digest
	before []byte
	data   []byte // as the receipt left it; nil when these bytes cannot be made any more
	spans  []span // of before
}

// replay drafts the change of a receipt once more. Another version of mcpx may have written other bytes for the same
// entries.
func (w *drafting) replay(before []byte, existed bool, r *converge.Written) replayed {
	if len(r.Steps) == 0 || r.Steps[0].Op == converge.StepFile {
		return replayed{}
	}
	past := &drafting{
		sheet:   &sheet{agent: w.agent, dialect: w.dialect, location: w.location, data: before, exists: existed},
		reading: w.reading, moves: map[string]string{}, d: converge.Drafting{Agent: w.d.Agent, Path: w.d.Path, Steps: r.Steps},
	}
	var spans []span
	if step := r.Steps[0]; step.Op == converge.StepRevert {
		var err error
		if past.d.Reverts, err = w.files.reverted(converge.Change{Path: w.d.Path, Steps: r.Steps}); err != nil {
			return replayed{}
		}
		dr, err := past.revert(step)
		if err != nil {
			return replayed{}
		}
		spans = dr.spans
	} else {
		err := past.open()
		if err == nil {
			err = past.plan()
		}
		if err == nil {
			spans, err = past.doc.splice(past.ops)
		}
		if err != nil {
			return replayed{}
		}
	}
	done := replayed{before: before, spans: spans, data: applySpans(before, spans)}
	n, err := w.dialect.parse(done.data)
	if err != nil {
		return replayed{}
	}
	done.root = n
	if hashOf(done.data) != r.After.SHA256 {
		done.data = nil
	}
	return done
}
