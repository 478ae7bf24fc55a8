package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"

	"mcpx/internal/event"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/rpc"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// maxToldData bounds the data of an answer that its event repeats, in bytes: what a person reads, not what it carries.
const maxToldData = 4 << 10

// tell appends an event about the operation of a turn. Secret values are taken out of the body before it is stored.
func (s *Service) tell(ctx context.Context, tx store.Tx, t *turn, kind event.Kind, more event.Refs, summary string, body any) error {
	refs := operationRefs(t.op)
	maps.Copy(refs, more)
	d := event.Draft{At: s.cfg.Now(), Kind: kind, Actor: t.actor(), Refs: refs, Summary: s.cfg.Redact(summary)}
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return err
		}
		d.Body = s.redacted(raw)
	}
	_, err := tx.AppendEvent(ctx, d)
	return err
}

// redacted is JSON without secret values, and without what looks like one in its texts. Where a value was more than a part of a
// text, nothing is left of it.
func (s *Service) redacted(raw json.RawMessage) json.RawMessage {
	clean := json.RawMessage(s.cfg.Redact(string(raw)))
	if !json.Valid(clean) {
		return json.RawMessage(`{}`)
	}
	var edits []rpc.Edit
	var texts func(at rpc.Span)
	texts = func(at rpc.Span) {
		for m := range rpc.Members(clean, at) {
			texts(m.Value)
		}
		for e := range rpc.Elements(clean, at) {
			texts(e)
		}
		if text, ok := rpc.Unquote(at.Of(clean)); ok {
			if now := s.cfg.RedactText(text); now != text {
				edits = append(edits, rpc.Edit{At: at, With: rpc.Quote(now)})
			}
		}
	}
	texts(whole(clean))
	return rpc.Splice(clean, edits...)
}

// operationTold is the body of the first and of the last event of an operation.
type operationTold struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	State     operation.State `json:"state,omitempty"`
	OK        bool            `json:"ok,omitempty"`
	Code      string          `json:"code,omitempty"`
	Message   string          `json:"message,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Bytes     int             `json:"data_bytes,omitempty"` // of data that is too long to be told
}

// operationBody says what is done, and in the end what came of it. A change of the database alone has one event for both.
func (s *Service) operationBody(t *turn, kind event.Kind) any {
	told := operationTold{Tool: t.op.Tool}
	if kind == event.OperationClaimed || t.op.Class == operation.DB {
		told.Arguments = t.op.Args
	}
	if kind != event.OperationEnded {
		if told.Arguments == nil {
			return nil
		}
		return told
	}
	told.State, told.Code = t.op.State, t.op.Code
	var a operation.Answer
	if json.Unmarshal(t.op.Result, &a) != nil {
		return told
	}
	told.OK = a.OK
	if a.Refusal != nil {
		told.Message = head([]byte(a.Refusal.Message), maxMessage)
	}
	if told.Data = a.Data; len(told.Data) > maxToldData {
		told.Data, told.Bytes = nil, len(a.Data)
	}
	return told
}

// tellRuling tells what the rules said of the effect of a turn, before it begins: it may happen, or a person is asked.
func (s *Service) tellRuling(ctx context.Context, tx store.Tx, t *turn, asked *Question) error {
	if asked == nil && t.subject != "" {
		return nil // it was told when the person was asked
	}
	decision, reasons := policy.Allow, []string{}
	if asked != nil {
		decision, reasons = policy.Confirm, asked.Reasons
	}
	return s.tell(ctx, tx, t, event.PolicyDecided, nil, t.op.Tool+": "+string(decision), struct {
		Decision policy.Decision `json:"decision"`
		Reasons  []string        `json:"reasons"`
		Units    []policy.Unit   `json:"units,omitempty"`
		More     int             `json:"more_units,omitempty"`
	}{decision, reasons, t.ruled.Units, t.ruled.More})
}

// watched lets a batch be carried out so that others see how far it has come: each number of steps that is told is committed as
// an event. That it cannot be stops nothing.
func (s *Service) watched(ctx context.Context, t *turn, b tree.Batch, c tree.Conditions) tree.Conditions {
	p := operation.Progress{Of: len(b.Changes)}
	c.Tell = func(steps []tree.Step) {
		for _, one := range steps {
			switch one.State {
			case tree.StepApplied:
				p.Applied++
			case tree.StepUndone:
				p.Undone++
			case tree.StepContested:
			}
		}
		err := s.cfg.DB.Change(ctx, func(tx store.Tx) error {
			return s.tell(ctx, tx, t, event.OperationProgress, nil, fmt.Sprintf("%s %d of %d paths", t.op.Tool, p.Applied, p.Of), p)
		})
		if err != nil {
			s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the progress of an operation could not be written down", slog.String(key.Operation, t.op.ID), slog.Any(key.Cause, err))
		}
	}
	return c
}

// fileTold is one file that an effect has changed.
type fileTold struct {
	kind event.Kind
	root string // of the project
	what string
	file any // the body
	path string
}

// filesTold is the data of an answer that tells of files.
type filesTold interface{ told() []fileTold }

// tellFiles tells of each file that the effect of a turn has changed.
func (s *Service) tellFiles(ctx context.Context, tx store.Tx, t *turn, data any) error {
	all, ok := data.(filesTold)
	if !ok {
		return nil
	}
	for _, f := range all.told() {
		refs := event.Refs{event.RefPath: filepath.Join(f.root, f.path)}
		if err := s.tell(ctx, tx, t, f.kind, refs, f.what+" "+f.path, f.file); err != nil {
			return err
		}
	}
	return nil
}

func (e edited) told() []fileTold {
	all := make([]fileTold, 0, len(e.Files))
	for _, f := range e.Files {
		if f.Unchanged && f.To+f.ToPct == "" {
			continue
		}
		body := struct {
			editedFile
			Diff string `json:"diff,omitempty"`
		}{f, f.diff}
		all = append(all, fileTold{kind: event.FileChanged, root: e.root, what: f.Op, file: body, path: cmp.Or(f.To, f.ToPct, f.Path, f.Pct)})
	}
	return all
}

func (r removed) told() []fileTold {
	all := make([]fileTold, 0, len(r.Items))
	for _, item := range r.Items {
		all = append(all, fileTold{kind: event.FileRemoved, root: r.root, what: "remove", file: item, path: cmp.Or(item.Path, item.Pct)})
	}
	return all
}

func (r restored) told() []fileTold {
	all := make([]fileTold, 0, len(r.Restored))
	for _, p := range r.Restored {
		all = append(all, fileTold{kind: event.FileRestored, root: r.root, what: "restore", file: p, path: cmp.Or(p.Path, p.Pct)})
	}
	return all
}
