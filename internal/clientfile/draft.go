package clientfile

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// The bounds of a file that is edited. Larger and deeper ones are read only: nobody could look through a change of them.
const (
	maxEdited = 16 << 20
	maxDepth  = 200
)

// makesDirectory says whether the file may be made in a directory that does not exist yet.
func makesDirectory(steps []converge.Step) bool {
	return slices.ContainsFunc(steps, func(s converge.Step) bool {
		return s.Op == converge.StepFile || s.Op == converge.StepRevert || s.Want != nil && s.Want.Server == controlPlane
	})
}

// drafting is the work on one change of one file.
type drafting struct {
	*sheet
	*reading
	d converge.Drafting

	ops     []op
	touched []touched
	notes   []converge.Note
	moves   map[string]string
}

// touched is one entry that a step is about.
type touched struct {
	step converge.Step
	at   []string
	old  node
	gone bool
}

// draft makes the change of data, the content of the file; exists says whether there is one. Real and Expected of the
// change are the caller's.
func (f *Files) draft(look converge.Look, d converge.Drafting, data []byte, exists bool) (drafted, error) {
	r := f.reading(look)
	r.thorough = true // what is drafted so is written
	return r.draft(d, data, exists)
}

func (r *reading) draft(d converge.Drafting, data []byte, exists bool) (drafted, error) {
	if r.invalid != nil {
		return drafted{}, r.invalid
	}
	if whole := slices.ContainsFunc(d.Steps, func(s converge.Step) bool { return s.Op == converge.StepFile || s.Op == converge.StepRevert }); len(d.Steps) == 0 || whole && len(d.Steps) > 1 {
		return drafted{}, invalidSteps("what concerns a whole file is a change of its own")
	}
	s, err := r.sheet(d, data, exists)
	if err != nil {
		return drafted{}, err
	}
	w := &drafting{sheet: s, reading: r, d: d, moves: map[string]string{}}
	switch step := d.Steps[0]; {
	case step.Op == converge.StepRevert:
		return w.revert(step)
	case step.Op == converge.StepFile:
		return w.whole([]byte(step.Content), true)
	case d.Agent == "":
		return drafted{}, invalidSteps("a file that is no agent's has no entries")
	}
	return w.entries()
}

func nothingToChange(path string) *fault.Error {
	return fault.New(fault.Conflict, "nothing-to-change").Saying("%s is as it should be already", path)
}

func invalidSteps(why string) *fault.Error {
	return fault.New(fault.Invalid, "request-invalid").Saying("%s", why)
}

// checkBytes refuses what is no text that an editor of ours can keep as it is.
func checkBytes(data []byte) error {
	switch {
	case len(data) > maxEdited:
		return unsupportedFile("it is larger than " + strconv.Itoa(maxEdited>>20) + " MiB")
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return unsupportedFile("it is UTF-16")
	case !utf8.Valid(data):
		return unsupportedFile("it is not UTF-8")
	case bytes.IndexByte(data, 0) >= 0:
		return unsupportedFile("it holds a NUL character")
	}
	return nil
}

// open parses the file, refuses what cannot be edited, and finds the entries. It does so once.
func (s *sheet) open() error {
	if !s.opened {
		if s.doc, s.err = s.read(); s.err == nil {
			s.listed = s.dialect.list(s.doc.root)
		}
		s.opened = true
	}
	return s.err
}

// called gives the numbers of the entries of a name.
func (s *sheet) called(name string) []int {
	if s.byName == nil {
		s.byName = map[string][]int{}
		for i, f := range s.listed.entries {
			s.byName[f.name] = append(s.byName[f.name], i)
		}
	}
	return s.byName[name]
}

func (s *sheet) read() (document, error) {
	if !s.exists {
		return s.dialect.editable(nil)
	}
	if err := checkBytes(s.data); err != nil {
		return document{}, err
	}
	doc, err := s.dialect.document(s.data)
	if err != nil {
		return document{}, brokenForEdit(err)
	}
	if doc.root.kind != object {
		return document{}, brokenForEdit(errors.New("no object"))
	}
	if doc.root.deeper(maxDepth) {
		return document{}, unsupportedFile("it is nested deeper than " + strconv.Itoa(maxDepth) + " levels")
	}
	return doc, nil
}

// deeper says whether values are nested deeper than n levels.
func (n node) deeper(levels int) bool {
	if levels < 0 {
		return true
	}
	return slices.ContainsFunc(n.fields, func(f field) bool { return f.value.deeper(levels - 1) }) ||
		slices.ContainsFunc(n.items, func(item node) bool { return item.deeper(levels - 1) })
}

// entries drafts a change of entries.
func (w *drafting) entries() (drafted, error) {
	if err := w.open(); err != nil {
		return drafted{}, err
	}
	if p := w.refused(w.hub); p != nil {
		return drafted{}, fault.New(fault.Conflict, "config-broken").
			Saying("the agent refuses the file: %s (%s)", p.Field, p.Text).Hinting("correct it by hand, then run `mcpx audit run`")
	}
	if err := w.plan(); err != nil {
		return drafted{}, err
	}
	spans, err := w.doc.splice(w.ops)
	if err != nil {
		return drafted{}, err
	}
	if len(spans) == 0 {
		return drafted{}, nothingToChange(w.d.Path)
	}
	return w.verified(spans)
}

// verified drafts the change that the spans make, when it is exactly what was asked for.
func (w *drafting) verified(spans []span) (drafted, error) {
	after, err := w.verify(spans)
	if err != nil {
		return drafted{}, err
	}
	return w.drafted(spans, after)
}

// refused is the first reason for which the agent refuses the file as it is, nil none.
func (s *sheet) refused(hub Hub) *Problem {
	if !s.judged {
		var o Observed
		o.read(s.location, s.doc, s.listed, hub, nil)
		s.refusal, s.judged = refusal(o), true
	}
	return s.refusal
}

// refusal is the first reason for which the agent refuses the whole file, nil none.
func refusal(o Observed) *Problem {
	for _, p := range o.Problems {
		if p.Code == "config-broken" {
			return &p
		}
	}
	return nil
}

// plan makes operations of the steps.
func (w *drafting) plan() error {
	l := w.listed
	if len(l.faults) > 0 {
		return wrongContainer(l.faults[0].Field)
	}
	appended := 0
	for _, step := range w.d.Steps {
		if step.Name == "" && len(step.At) == 0 {
			return invalidSteps("a step names no entry")
		}
		at, old := placeOf(w.agent, w.doc.root, l, step)
		if old.kind == absent && spellings[w.agent].list {
			at = slices.Clone(at)               // others may share it
			n, _ := strconv.Atoi(at[len(at)-1]) // placeOf wrote it
			at[len(at)-1] = strconv.Itoa(n + appended)
			appended++
		}
		if old.kind != absent && old.kind != object && step.Op != converge.StepRemove {
			return fault.New(fault.Conflict, "entry-broken").Saying("the entry %q is no object", step.Name).Hinting("correct it by hand")
		}
		t := touched{step: step, at: at, old: old}
		var err error
		switch step.Op {
		case converge.StepSet:
			err = w.set(t)
		case converge.StepRemove:
			if t.gone = true; old.kind == absent && !declared(w.doc.root, at) {
				err = absentEntry(step)
			}
			w.ops = append(w.ops, op{at: at})
		case converge.StepRef:
			err = w.refer(t, true)
		case converge.StepFile, converge.StepRevert: // refused before
		default:
			err = invalidSteps("no such step")
		}
		if err != nil {
			return err
		}
		w.touched = append(w.touched, t)
	}
	return nil
}

func absentEntry(step converge.Step) error {
	return fault.New(fault.Stale, "entry-absent").Saying("the file has no entry %q any more", step.Name).
		Hinting("run `mcpx audit run` again").Retrying(fault.AfterFix)
}

func (w *drafting) set(t touched) error {
	if t.step.Want == nil {
		return invalidSteps("a step says not what the entry shall be")
	}
	if len(t.step.Moves) > 0 {
		if err := w.refer(t, false); err != nil {
			return err
		}
	}
	ops, lost, err := entryOps(w.agent, w.d.Path, t.at, t.step.Name, t.old, *t.step.Want)
	if err != nil {
		return err
	}
	for _, name := range lost {
		w.note("field-not-kept", name+" has no place in an entry of this agent")
	}
	if up := t.at[:len(t.at)-1]; spellings[w.agent].list && lookup(w.doc.root, up).kind == absent {
		ops = w.firstItems(up, ops)
	}
	w.ops = append(w.ops, ops...)
	return nil
}

// firstItems makes the list that the items need.
func (w *drafting) firstItems(at []string, items []op) []op {
	n := node{kind: list}
	for i, o := range w.ops {
		if slices.Equal(o.at, at) {
			n = *o.value
			w.ops = slices.Delete(w.ops, i, i+1)
			break
		}
	}
	for _, o := range items {
		n.items = append(n.items, *o.value)
	}
	return []op{{at: at, value: &n}}
}

// refer takes values out of an entry. Edit: their places get what the step says; else the whole entry is written anew.
func (w *drafting) refer(t touched, edit bool) error {
	if t.old.kind != object || edit && len(t.step.Moves) == 0 {
		return absentEntry(t.step)
	}
	for _, m := range t.step.Moves {
		at, n := w.fieldOf(t, m.Field)
		if n.kind != text && n.kind != number && n.kind != boolean {
			return fault.New(fault.Stale, "value-absent").Saying("the entry %q has no value at the place that the plan names", t.step.Name).
				Hinting("run `mcpx audit run` again").Retrying(fault.AfterFix)
		}
		if m.Credential != "" {
			if old, taken := w.moves[m.Credential]; taken && old != n.text {
				return invalidSteps("two different values for one credential")
			}
			w.moves[m.Credential] = n.text
		}
		if !edit {
			continue
		}
		o := op{at: join(t.at, at)}
		if m.Put != "" {
			put := textNode(m.Put)
			o.value = &put
		}
		w.ops = append(w.ops, o)
	}
	return nil
}

// fieldOf finds a field of an entry, by its own name or by the one that most agents have for it.
func (w *drafting) fieldOf(t touched, want []string) ([]string, node) {
	if len(want) == 0 {
		return nil, node{}
	}
	if n := lookup(t.old, want); n.kind != absent {
		return want, n
	}
	s := spellings[w.agent]
	var names [][]string
	switch want[0] {
	case "env":
		names = [][]string{{s.env}}
	case "headers":
		names = [][]string{s.headers}
	case "url":
		names = [][]string{{"httpUrl"}, {"url"}}
	case "args":
		names = [][]string{{"args"}}
		if s.argv && len(want) == 2 { // the program comes first
			if i, err := strconv.Atoi(want[1]); err == nil {
				want = []string{want[0], strconv.Itoa(i + 1)}
				names = [][]string{{"command"}}
			}
		}
	default:
		names = [][]string{{want[0]}}
	}
	for _, name := range names {
		for _, prefix := range [][]string{nil, {nestedField}} {
			at := join(join(prefix, name), want[1:])
			if n := lookup(t.old, at); n.kind != absent {
				return at, n
			}
		}
	}
	return nil, node{}
}

func (w *drafting) note(code, text string) {
	w.notes = append(w.notes, converge.Note{Code: code, Text: text})
}

// drafted tells of the change. After is the document behind it.
func (w *drafting) drafted(spans []span, after document) (drafted, error) {
	change, err := w.change(spans, w.doc, after, true)
	if err != nil {
		return drafted{}, err
	}
	change.Result = hashOf(after.data)
	bound := w.rewritten()
	var was []converge.Bound
	for _, t := range w.touched {
		was = append(was, converge.Bound{At: t.at, Digest: w.files.digest(t.old)})
		left := after.value(t.at)
		if t.gone {
			left = node{}
		}
		change.Leaves = append(change.Leaves, converge.Bound{At: t.at, Digest: w.files.digest(left)})
		if !bound {
			continue
		}
		change.Bound = append(change.Bound, was[len(was)-1])
		if up := t.at[:len(t.at)-1]; t.old.kind == absent {
			change.Bound = append(change.Bound, converge.Bound{At: up, Digest: w.files.digest(lookup(w.doc.root, up))})
		}
	}
	if bound {
		change.Notes = append(change.Notes, converge.Note{Code: "context-may-move", Text: w.agent.Title() + " rewrites this file while it runs: the plan holds as long as the entry is the same, and the lines around it may differ when it is applied"})
	}
	return drafted{result: after.data, spans: spans, change: change, was: was, moves: w.moves}, nil
}

// rewritten says whether the agent writes the file by itself, so that only the entries count (governance.md section 7.3).
func (w *drafting) rewritten() bool {
	switch w.agent { //nolint:exhaustive // the others write their file only when they are told to
	case Claude:
		return w.location.File.Scope == ScopeUser
	case Qwen, OpenCode, Kilo:
		return true
	}
	return false
}

// change is the part that every change has. Remains: there is a file afterwards.
func (w *drafting) change(spans []span, old, fresh document, remains bool) (converge.Change, error) {
	c := converge.Change{
		Agent: w.d.Agent, Path: w.d.Path, Scope: string(w.location.File.Scope), Steps: w.d.Steps, Edits: []converge.Edit{}, Notes: []converge.Note{},
	}
	shown := unifying{path: w.d.Path, exists: w.exists, remains: remains, old: old, fresh: fresh, spans: spans}
	shown.mask()
	moved := 0
	for _, s := range spans {
		from := s.start + moved
		moved += len(s.text) - (s.end - s.start)
		c.Edits = append(c.Edits, converge.Edit{Start: s.start, End: s.end, Kind: s.kind, SHA256: w.files.sum(s.text, slices.ContainsFunc(shown.now, func(m mask) bool {
			return m.start < from+len(s.text) && m.end > from
		}))})
	}
	var err error
	if c.Diff, err = shown.unified(); err != nil {
		return c, err
	}
	c.Notes = append(append(c.Notes, w.notes...), notesOf(old, fresh, c.Diff)...)
	return c, nil
}

// sum is the hash of new bytes. One that anybody could make would let a short secret be guessed.
func (f *Files) sum(data []byte, secret bool) string {
	if secret {
		return keyed(f.cfg.Key, data)
	}
	return hashOf(data)
}

// digest is that of a part of a document, "" of an absent one.
func (f *Files) digest(n node) string { return digest(f.cfg.Key, n) }
