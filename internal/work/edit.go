package work

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"strings"

	"mcpx/internal/approval"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
)

// EditFiles are the arguments of edit_files.
type EditFiles struct {
	ID
	InCopy
	Edits  []FileEdit `json:"edits" jsonschema:"1 to 200; all of them happen, or none"`
	DryRun bool       `json:"dry_run,omitempty" jsonschema:"only say what would happen; takes no operation_id"`
	Diff   string     `json:"diff,omitempty" jsonschema:"none, summary or full; summary without it"`
}

// FileEdit is one edit of a batch.
type FileEdit struct {
	AskedPath
	Op           string        `json:"op,omitempty" jsonschema:"create, update or rename; update without it"`
	Expect       string        `json:"expect_sha256,omitempty" jsonschema:"update, rename: the hash that was read"`
	To           string        `json:"to,omitempty" jsonschema:"rename: the new path"`
	Replacements []Replacement `json:"replacements,omitempty" jsonschema:"texts to replace, all found in the file as it was"`
	Range        *LineRange    `json:"range,omitempty" jsonschema:"lines to replace; to_line = from_line - 1 inserts"`
	Append       *string       `json:"append,omitempty" jsonschema:"lines after the last one"`
	Content      *string       `json:"content,omitempty" jsonschema:"the whole text"`
	Base64       *string       `json:"content_base64,omitempty" jsonschema:"the whole bytes"`
}

// Replacement puts New where Old is.
type Replacement struct {
	Old   string `json:"old" jsonschema:"exact text; line ends match in any form"`
	New   string `json:"new" jsonschema:"what takes its place"`
	Count *int   `json:"count,omitempty" jsonschema:"how often old occurs; 1 without it, 0 is every time"`
}

// LineRange puts Text in place of lines.
type LineRange struct {
	From int    `json:"from_line" jsonschema:"first line, 1-based"`
	To   int    `json:"to_line" jsonschema:"last line"`
	Text string `json:"text" jsonschema:"the new lines; empty deletes"`
}

// Bounds of a batch.
const (
	maxEdits     = 200
	maxEditBytes = 32 << 20
)

func editRehearses(t *turn) bool {
	var dry bool
	_ = json.Unmarshal(t.args["dry_run"], &dry) // what it is not is found by the check of the schema
	return dry
}

// editedFile is what became of one file.
type editedFile struct {
	shownPath
	To        string    `json:"to,omitempty"`
	ToPct     string    `json:"to_pct,omitempty"`
	Op        string    `json:"op"`
	Before    string    `json:"before_sha256,omitempty"`
	After     string    `json:"after_sha256,omitempty"`
	Added     int       `json:"added"`
	Removed   int       `json:"removed"`
	EOL       *text.EOL `json:"eol,omitempty"`
	Joined    bool      `json:"joined,omitempty"`
	Unchanged bool      `json:"unchanged,omitempty"`

	diff string // for the log; what recovery finds has none
}

// edited is the answer of edit_files.
type edited struct {
	Applied  bool           `json:"applied"`
	Batch    string         `json:"batch_id,omitempty"`
	Files    []editedFile   `json:"files"`
	Diff     string         `json:"diff,omitempty"`
	Warnings []tree.Warning `json:"warnings,omitempty"`
	Weak     string         `json:"cas,omitempty"`

	root string // of the project
}

// rehearseEdit computes a batch and changes nothing.
func rehearseEdit(ctx context.Context, s *Service, t *turn) (any, error) {
	e, err := s.planEdit(ctx, t, session.ActRead)
	if err != nil {
		return nil, err
	}
	e.close()
	return e.answer, nil
}

func beginEdit(ctx context.Context, s *Service, t *turn) (effect, error) {
	return s.planEdit(ctx, t, session.ActChange)
}

// edit is a batch on its way through the ledger.
type edit struct {
	s       *Service
	at      *target
	area    *tree.Area
	id      string
	intents []tree.Intent
	answer  edited
	diff    strings.Builder
	reasons []string // why a person has to be asked; none: nobody has to
	batch   tree.Batch
}

// planEdit reads every file of a batch and computes what it becomes. The first edit that cannot be made refuses all.
func (s *Service) planEdit(ctx context.Context, t *turn, act session.Act) (*edit, error) {
	var in EditFiles
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if len(in.Edits) == 0 || len(in.Edits) > maxEdits {
		return nil, operation.Refuse(operation.LimitExceeded, "a batch has 1 to %d edits", maxEdits).With("limit", maxEdits).With("value", len(in.Edits))
	}
	for i := range in.Edits {
		if err := in.Edits[i].decode(); err != nil {
			return nil, err
		}
	}
	x, err := s.at(ctx, t, in.Edits[0].Path, act)
	if err != nil {
		return nil, err
	}
	if err := x.root.Changeable(); err != nil {
		x.close()
		return nil, problem(err)
	}
	e := &edit{s: s, at: x, id: batchID(t.op), answer: edited{Files: []editedFile{}}}
	seen, total := map[string]int{}, 0
	for i, one := range in.Edits {
		size, err := e.plan(ctx, one, seen)
		if total += size; err == nil && total > maxEditBytes {
			err = operation.Refuse(operation.LimitExceeded, "a batch makes at most 32 MB").With("limit", maxEditBytes)
		}
		if err != nil {
			x.close()
			if r, ok := errors.AsType[*operation.Refusal](problem(err)); ok {
				if r.Code == "STALE_REVISION" || r.Code == "REVISION_REQUIRED" {
					r = r.Then(operation.Next{Tool: "read_file", Args: readAgain(in.InCopy, one.Path), Why: "what the file is now"})
				}
				return nil, r.With("edit", i)
			}
			return nil, err
		}
		seen[one.Path] = i
	}
	if in.Diff == "full" {
		e.answer.Diff = s.cfg.Redact(e.diff.String())
	}
	return e, nil
}

func readAgain(in InCopy, path string) map[string]any {
	shown, args := showPath(path), map[string]any{}
	for name, value := range map[string]string{"path": shown.Path, "path_pct": shown.Pct, "remote_session_id": in.Session, "handle": in.Handle} {
		if value != "" {
			args[name] = value
		}
	}
	return args
}

// plan computes one edit; the size is what it will write.
func (e *edit) plan(ctx context.Context, in FileEdit, seen map[string]int) (size int, err error) {
	if first, twice := seen[in.Path]; twice {
		return 0, operation.Refuse("DUPLICATE_PATH", "%s is edited twice in this batch", in.Path).With("first", first)
	}
	switch in.Op {
	case "create":
		return e.create(ctx, in)
	case "", "update", "rename":
		return e.change(ctx, in)
	case "delete", "remove":
		return 0, operation.Refuse("REMOVE_NOT_HERE", "edit_files removes nothing").Retrying(fault.Never)
	}
	return 0, operation.Refuse(operation.ArgumentInvalid, "%.32q is no op; create, update and rename are", in.Op)
}

func (e *edit) create(ctx context.Context, in FileEdit) (int, error) {
	p, err := e.place(ctx, in.Path)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	if p.Kind != tree.Absent {
		return 0, operation.Refuse(operation.Exists, "%s exists; an update needs its hash", p.Path)
	}
	var data []byte
	switch {
	case in.Content != nil && in.Base64 == nil:
		data = []byte(*in.Content)
	case in.Base64 != nil && in.Content == nil:
		if data, err = base64.StdEncoding.DecodeString(*in.Base64); err != nil {
			return 0, operation.Refuse(operation.ArgumentInvalid, "content_base64 is no base64")
		}
	default:
		return 0, operation.Refuse("EDIT_EMPTY", "create takes content or content_base64")
	}
	after := text.Parse(data)
	e.intents = append(e.intents, tree.Intent{Kind: tree.Add, Path: in.Path, Data: data})
	diff := text.Diff("", p.Path, text.Parse(nil), after)
	e.answer.Files = append(e.answer.Files, editedFile{shownPath: showPath(p.Path), Op: "create", After: digest(data), Added: after.Lines, EOL: &after.EOL, diff: diff})
	e.diff.WriteString(diff)
	return len(data), nil
}

func (e *edit) change(ctx context.Context, in FileEdit) (int, error) {
	p, err := e.place(ctx, in.Path)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	switch {
	case p.Kind == tree.Absent:
		return 0, operation.Refuse(operation.NotFound, "%s does not exist", in.Path)
	case in.Expect == "":
		return 0, operation.Refuse("REVISION_REQUIRED", "give expect_sha256 of %s, as read_file tells it", p.Path)
	}
	c, err := p.Read(ctx, tree.MaxEdit)
	if err != nil {
		return 0, err
	}
	if c.SHA256 != in.Expect {
		return 0, operation.Refuse("STALE_REVISION", "%s has changed since it was read", p.Path).With("current_sha256", c.SHA256)
	}
	before := text.Parse(c.Data)
	file := editedFile{shownPath: showPath(p.Path), Op: "update", Before: c.SHA256, After: c.SHA256, EOL: &before.EOL}
	wanted, empty, err := in.edit()
	if err != nil {
		return 0, err
	}
	intent := tree.Intent{Kind: tree.Replace, Path: in.Path, Expect: c.SHA256}
	if in.Op == "rename" {
		if in.To == "" {
			return 0, operation.Refuse(operation.ArgumentInvalid, "a rename needs to")
		}
		to, err := e.place(ctx, in.To)
		if err != nil {
			return 0, err
		}
		defer to.Close()
		file.Op, file.To, file.ToPct = "rename", showPath(to.Path).Path, showPath(to.Path).Pct
		intent.Kind, intent.To = tree.Rename, in.To
		if empty {
			e.intents, e.answer.Files = append(e.intents, intent), append(e.answer.Files, file)
			return 0, nil
		}
	}
	result, err := before.Apply(wanted)
	if err != nil {
		return 0, err
	}
	file.After, file.Added, file.Removed, file.Joined, file.Unchanged = digest(result.After.Raw()), result.Added, result.Removed, result.Joined, result.Unchanged
	file.EOL = &result.After.EOL
	file.diff = text.Diff(p.Path, p.Path, before, result.After)
	e.answer.Files = append(e.answer.Files, file)
	e.diff.WriteString(file.diff)
	if result.Unchanged && intent.Kind == tree.Replace {
		return 0, nil
	}
	intent.Data = result.After.Raw()
	e.intents = append(e.intents, intent)
	return len(intent.Data), nil
}

// place resolves a path that will be written.
func (e *edit) place(ctx context.Context, path string) (*tree.Place, error) {
	p, err := e.s.resolve(ctx, e.at, path, tree.Write)
	if err != nil {
		return nil, err
	}
	if v := e.s.verdict(ctx, e.at, p.Seen, policy.AccessWrite); v.Decision == policy.Confirm {
		e.reasons = append(e.reasons, p.Path+": "+v.Reason)
	}
	if err := p.Alias(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// question asks a person about the whole batch when one of its files makes other programs act.
func (e *edit) question() *Question {
	if len(e.reasons) == 0 {
		return nil
	}
	frozen, err := json.Marshal(struct {
		Project string       `json:"project"`
		Root    string       `json:"root"`
		Files   []editedFile `json:"files"`
	}{e.at.Project.ID, e.at.root.Path(), e.answer.Files})
	if err != nil {
		panic("work: a record of texts cannot be written: " + err.Error())
	}
	var shown strings.Builder
	for _, f := range e.answer.Files {
		shown.WriteString(f.Op + " " + cmp.Or(f.Path, f.Pct))
		if to := cmp.Or(f.To, f.ToPct); to != "" {
			shown.WriteString(" to " + to)
		}
		shown.WriteString("\n")
	}
	return &Question{
		Kind: approval.KindFileWrite, Subject: digest(append([]byte("mcpx files 1\n"), frozen...)), Display: shown.String() + e.diff.String(), Reasons: few(e.reasons, maxReasons),
	}
}

// edit is the change of the text; empty: none is asked for.
func (in FileEdit) edit() (e text.Edit, empty bool, err error) {
	for _, r := range in.Replacements {
		count := 1
		if r.Count != nil {
			count = *r.Count
		}
		e.Replacements = append(e.Replacements, text.Replacement{Old: r.Old, New: r.New, Count: count})
	}
	if in.Range != nil {
		e.Range = &text.Range{From: in.Range.From, To: in.Range.To, Text: in.Range.Text}
	}
	e.Append, e.Content = in.Append, in.Content
	if in.Base64 != nil {
		raw, err := base64.StdEncoding.DecodeString(*in.Base64)
		if err != nil {
			return e, false, operation.Refuse(operation.ArgumentInvalid, "content_base64 is no base64")
		}
		e.Raw = append([]byte{}, raw...)
	}
	return e, len(in.Replacements) == 0 && in.Range == nil && in.Append == nil && in.Content == nil && in.Base64 == nil, nil
}

// editEvidence is what recovery needs of a batch.
type editEvidence struct {
	Project string `json:"project_id"`
	// Workspace is the one whose working copy was edited; "" the project itself.
	Workspace string     `json:"workspace_id,omitempty"`
	Batch     tree.Batch `json:"batch"`
	Answer    edited     `json:"answer"`
}

// batchID names the directories of an operation's batch: each attempt has its own, and recovery knows it from the row.
func batchID(o operation.Operation) string {
	return "op-" + digest([]byte(o.Namespace + "\x00" + o.ID))[:32] + "-" + strconv.Itoa(o.Attempts)
}

// conditions let the policy look at every path once more, as it is when it is changed.
func (s *Service) conditions(ctx context.Context, x *target) tree.Conditions {
	return tree.Conditions{Judge: func(p *tree.Place) error { return s.judge(ctx, x, p.Seen, policy.AccessWrite) }}
}

func (e *edit) stage(ctx context.Context) (any, error) {
	area, err := e.at.root.Area(e.s.cfg.State)
	if err != nil {
		return nil, problem(err)
	}
	e.area = area
	if e.batch, err = e.at.root.Stage(ctx, area, e.id, e.intents, e.s.conditions(ctx, e.at)); err != nil {
		return nil, problem(err)
	}
	e.answer.Batch = e.id
	return editEvidence{Project: e.at.Project.ID, Workspace: e.at.id(), Batch: e.batch, Answer: e.answer}, nil
}

func (e *edit) drop() {
	if e.area != nil {
		_ = e.area.Discard(e.id) // what is left of it is found by the next start
	}
}

func (e *edit) run(ctx context.Context) (any, error) {
	o, err := e.at.root.Apply(ctx, e.area, e.batch, e.s.conditions(ctx, e.at))
	if err != nil {
		return nil, undecided(err)
	}
	return e.ended(e.answer, o)
}

// keep raises the revision of the workspace that was edited.
func (e *edit) keep(ctx context.Context, tx store.Tx, t *turn, a *operation.Answer) error {
	return e.s.changed(ctx, tx, t, e.at, a)
}

func (e *edit) settle(ctx context.Context) {
	e.s.cleared(ctx, e.at.root.Finish(ctx, e.area, e.batch))
}

func (e *edit) close() {
	if e.area != nil {
		_ = e.area.Close() // what was written to it is flushed
	}
	e.at.close()
}

// cleared notes that something of a batch that has ended could not be cleared away: it is in nobody's way.
func (s *Service) cleared(ctx context.Context, err error) {
	if err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the staging of a batch stays", slog.Any(key.Cause, err))
	}
}

// ended is what a batch has come to, as an answer.
func (e *edit) ended(answer edited, o tree.Outcome) (any, error) {
	if err := notApplied(o); err != nil {
		return nil, err
	}
	answer.Applied, answer.Warnings, answer.Weak, answer.root = true, o.Warnings, weak(o), e.at.root.Path()
	return answer, nil
}

// weak is what is told of a file system that cannot exchange two names.
func weak(o tree.Outcome) string {
	if o.Weak {
		return "weak"
	}
	return ""
}

// notApplied is the refusal of a batch that was not applied; nil: it was.
func notApplied(o tree.Outcome) error {
	switch o.State {
	case tree.Contested:
		return operation.Refuse(operation.Contested, "somebody else changed files of this batch at the same moment; nothing of theirs is lost, and every path that is not named is as it was before").
			Retrying(fault.Never).Ending(operation.OutcomeUnclear).With("paths", o.Exceptions)
	case tree.Unchanged:
		if o.Cause != nil {
			return problem(o.Cause)
		}
		return operation.Refuse("CANONICAL_MOVED", "a file changed meanwhile; nothing was changed")
	case tree.Applied:
	}
	return nil
}
