package work

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// OperationStatus are the arguments of operation_status.
type OperationStatus struct {
	OperationID string `json:"operation_id" jsonschema:"the id that the call had"`
	WaitMS      int    `json:"wait_ms,omitempty" jsonschema:"0 to 25000, for the end"`
}

// operationStatus looks an operation up. It is no operation itself, so its operation_id names another one.
func operationStatus(ctx context.Context, s *Service, t *turn) (any, error) {
	var in OperationStatus
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	name := operation.Name{Namespace: t.Principal, ID: in.OperationID}
	s.mu.Lock()
	busy := s.busy[name]
	s.mu.Unlock()
	if busy != nil && in.WaitMS > 0 {
		if err := t.wait(ctx, busy); err != nil {
			return nil, err
		}
	}
	row, err := s.find(ctx, name)
	if err == nil && row != nil && row.Hold != "" && s.decided(ctx, row.Approval, t.patience(0)) {
		row, err = s.find(ctx, name) // a no has ended it
	}
	if err != nil {
		return nil, err
	}
	if row == nil {
		if busy != nil {
			return nil, operation.InProgress(in.OperationID, time.Time{})
		}
		return nil, operation.Refuse(operation.OperationUnknown, "there is no operation %.128q: its call was never accepted, so it may be made", in.OperationID)
	}
	if row.State.Final() { // an end after this look is not told
		s.acknowledge(ctx, t, name)
	}
	out := struct {
		Operation operation.Standing  `json:"operation"`
		Tool      string              `json:"tool"`
		Progress  *operation.Progress `json:"progress,omitempty"`
		Approval  *approvalShown      `json:"approval,omitempty"`
		Result    json.RawMessage     `json:"result,omitempty"`
	}{Operation: *row.Standing(false), Tool: row.Tool, Result: row.Result}
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		out.Progress, err = operation.ProgressOf(ctx, r, *row)
		return err
	})
	if err != nil {
		return nil, err
	}
	if row.Hold != "" {
		a, err := s.approval(ctx, row.Approval)
		if err != nil {
			return nil, err
		}
		out.Approval = s.shownApproval(a)
		return outcome{data: out, next: held(*row, a, row.Args).Next[1:]}, nil
	}
	if row.State == operation.Unknown {
		return outcome{data: out, bad: true, next: operation.Unclear(*row).Next}, nil
	}
	return out, nil
}

// ResolveOperation are the arguments of resolve_operation.
type ResolveOperation struct {
	ID
	Target   string `json:"target" jsonschema:"id of the operation to resolve"`
	Verdict  string `json:"verdict" jsonschema:"done, not_done or abandon"`
	Evidence string `json:"evidence,omitempty" jsonschema:"what was looked at, in a sentence"`
}

func resolveOperation(ctx context.Context, s *Service, tx store.Tx, t *turn) (any, error) {
	var in ResolveOperation
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	o, err := s.Resolve(ctx, tx, t.actor(), operation.Name{Namespace: t.Principal, ID: in.Target}, operation.Verdict(in.Verdict))
	if fault.KindOf(err) == fault.NotFound {
		return nil, operation.Refuse(operation.OperationUnknown, "there is no operation %.128q", in.Target)
	}
	return resolved{*o.Standing(false)}, err
}

// Resolve writes down what somebody says who has looked how an operation ended, or gives up one that waits for a person.
func (s *Service) Resolve(ctx context.Context, tx store.Tx, by event.Actor, name operation.Name, v operation.Verdict) (operation.Operation, error) {
	o, err := tx.OperationByName(ctx, operation.ByName{Name: name})
	if err != nil {
		return o, err
	}
	if o.Hold != "" && v == operation.Abandon {
		return s.abandon(ctx, tx, by, o)
	}
	if o, err = operation.Resolve(o, v, s.cfg.Now()); err != nil {
		return o, err
	}
	if err := s.decideDispute(ctx, tx, by, o, v); err != nil {
		return o, err
	}
	o.Result, err = json.Marshal(operation.Answer{OK: o.State == operation.Succeeded, Status: operation.Outcome(o.State), Data: json.RawMessage(`{"resolved":` + strconv.Quote(string(v)) + `}`)})
	if err != nil {
		return o, err
	}
	if err := tx.PutOperation(ctx, operation.PutOperation{Operation: o}); err != nil {
		return o, err
	}
	_, err = tx.AppendEvent(ctx, event.Draft{
		At: s.cfg.Now(), Kind: event.OperationEnded, Actor: by, Refs: operationRefs(o), Summary: o.Tool + " " + string(o.State) + ", says who looked: " + string(v),
	})
	return o, err
}

// abandon gives up an operation that waits for a person.
func (s *Service) abandon(ctx context.Context, tx store.Tx, by event.Actor, o operation.Operation) (operation.Operation, error) {
	a, err := s.overOrNot(ctx, tx, by, o.Approval)
	if err != nil {
		return o, err
	}
	if !a.State.Final() {
		if a, err = approval.Revoke(a, approval.WhyAbandoned); err != nil {
			return o, err
		}
		if err := s.tellRevoked(ctx, tx, by, a); err != nil {
			return o, err
		}
	}
	if _, err := s.letGo(ctx, tx, by, o, ended(a)); err != nil {
		return o, err
	}
	return tx.OperationByName(ctx, operation.ByName{Name: o.Name})
}

// resolved is the answer of resolve_operation.
type resolved struct {
	Target operation.Standing `json:"target"`
}

// ReadResult are the arguments of read_result.
type ReadResult struct {
	Ref     string `json:"ref" jsonschema:"the ref of a result_ref"`
	Offset  int    `json:"offset,omitempty" jsonschema:"first byte, 0-based"`
	Limit   int    `json:"limit,omitempty" jsonschema:"bytes, 1 to 20000; 16000 without it"`
	Tail    int    `json:"tail,omitempty" jsonschema:"instead: so many bytes of the end"`
	Grep    string `json:"grep,omitempty" jsonschema:"instead: lines that match this RE2"`
	Context int    `json:"context,omitempty" jsonschema:"lines around each match, 0 to 10"`
}

const (
	windowUsual = 16000
	windowMost  = 20000
)

func readResult(ctx context.Context, s *Service, t *turn) (any, error) {
	var in ReadResult
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	var k operation.Kept
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		k, err = r.KeptResult(ctx, operation.KeptByRef{Principal: t.Principal, Ref: in.Ref})
		return err
	})
	if err != nil {
		return nil, err
	}
	out := resultWindow{Bytes: len(k.Bytes), SHA256: k.SHA256}
	if in.Grep != "" {
		return out.matching(k.Bytes, in.Grep, in.Context)
	}
	from, limit := in.Offset, within(in.Limit, windowUsual, windowMost)
	if in.Tail > 0 {
		limit = min(in.Tail, windowMost)
		from = max(len(k.Bytes)-limit, 0)
	}
	from = min(max(from, 0), len(k.Bytes))
	return out.window(k.Bytes[from:], from, limit), nil
}

// resultWindow is a part of a kept result.
type resultWindow struct {
	Text   string `json:"text,omitempty"`
	Base64 string `json:"base64,omitempty"`
	Offset int    `json:"offset"`
	Next   int    `json:"next_offset,omitempty"`
	EOF    bool   `json:"eof"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// window is the part that begins at from. b is what follows there: all of it, or the part and one more character. It ends
// between characters; bytes that are no text come in base64. It may hold less than is asked for: what a window has is
// counted in the answer as JSON, which may be longer.
func (w resultWindow) window(b []byte, from, limit int) resultWindow {
	part := b[:min(limit, len(b))]
	for {
		text := part
		if len(part) < len(b) {
			text = []byte(head(b, len(part)))
		}
		if utf8.Valid(text) && (len(text) > 0 || len(part) == 0) {
			w.Text, part = string(text), text
		} else {
			w.Base64 = base64.StdEncoding.EncodeToString(part)
		}
		if quoted, err := json.Marshal(w.Text + w.Base64); err == nil && len(quoted) <= inlineLimit-envelope || len(part) < 1024 {
			break
		}
		w.Text, w.Base64, part = "", "", part[:len(part)*3/4]
	}
	w.Offset = from
	if end := from + len(part); end < w.Bytes {
		w.Next = end
	} else {
		w.EOF = true
	}
	return w
}

func (w resultWindow) matching(b []byte, expression string, around int) (any, error) {
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, operation.Refuse(operation.ArgumentInvalid, "grep is no RE2 expression: %s", err)
	}
	around = min(max(around, 0), 10)
	lines := bytes.Split(b, []byte("\n"))
	var out strings.Builder
	shown := -1
	for i, line := range lines {
		if !re.Match(line) {
			continue
		}
		for j := max(i-around, shown+1); j <= min(i+around, len(lines)-1); j++ {
			if out.Len() > windowUsual {
				w.Text, w.EOF = out.String(), false
				return w, nil
			}
			out.WriteString(strconv.Itoa(j+1) + ":" + head(lines[j], 500) + "\n")
			shown = j
		}
	}
	w.Text, w.EOF = out.String(), true
	return w, nil
}
