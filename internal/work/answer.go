package work

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

const (
	// inlineLimit bounds an answer, counted over the whole of it (runtime.md section 3.2): one client warns near 10,000
	// tokens, and cuts at 25,000.
	inlineLimit = 24 << 10
	// envelope is what an answer has beside its data, at most.
	envelope = 4 << 10
	// edge is how much of a result that was kept apart is shown from each end.
	edge = 1 << 10
	// maxNext is how many calls an answer may propose.
	maxNext = 3
)

// outcome is the data of an answer with what goes beside it.
type outcome struct {
	data     any
	warnings []string
	next     []operation.Next
	handle   string            // of the workspace that it is about
	bad      bool              // the call worked, and what it did has failed: a command that ended with 1
	status   operation.Outcome // "" is succeeded
	waiting  *operation.Waiting
	images   []operation.Image
	fits     bool            // the data are small enough already, and may hold what is never kept
	upstream json.RawMessage // in place of data: the result of another server's tool
}

// refusal is the answer of a refusal.
func refusal(r *operation.Refusal) operation.Answer {
	a := operation.Answer{Status: r.Outcome, Refusal: r, Next: r.Next[:min(len(r.Next), maxNext)]}
	if a.Status == "" {
		a.Status = operation.OutcomeRefused
	}
	return a
}

// answer makes the answer of a call from what its tool returned.
func (s *Service) answer(ctx context.Context, t *turn, data any, err error) operation.Answer {
	if err != nil {
		return refusal(s.refusalOf(ctx, t, err))
	}
	a := operation.Answer{OK: true, Status: operation.OutcomeSucceeded}
	o, ok := data.(outcome)
	if ok {
		data, a.OK, a.Handle, a.Warnings, a.Next = o.data, !o.bad, o.handle, o.warnings, o.next[:min(len(o.next), maxNext)]
		a.Status, a.Waiting = cmp.Or(o.status, a.Status), o.waiting
		a.Images = o.images
		if a.Upstream = o.upstream; a.Upstream != nil {
			return a
		}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return refusal(s.crashed(ctx, t.Tool, err, fault.Never))
	}
	a.Data = raw
	if !t.tool.changes(t) && !o.fits && !t.person && len(raw) > inlineLimit-envelope { // a person is shown all of it
		err := s.cfg.DB.Change(ctx, func(tx store.Tx) (err error) {
			a, err = s.fitted(ctx, tx, t, a)
			return err
		})
		if err != nil {
			return refusal(s.refusalOf(ctx, t, err))
		}
	}
	return a
}

// fitted keeps the data of an answer apart when the answer would be too large with it.
func (s *Service) fitted(ctx context.Context, tx store.Tx, t *turn, a operation.Answer) (operation.Answer, error) {
	if a.Upstream != nil {
		return s.slimmed(ctx, tx, t, a)
	}
	if len(a.Data) <= inlineLimit-envelope {
		return a, nil
	}
	kept, err := s.keep(ctx, tx, t, "application/json", a.Data)
	if err != nil {
		return a, err
	}
	a.Spilled = &operation.Spilled{
		Ref: kept.Ref, Bytes: len(kept.Bytes), SHA256: kept.SHA256, Media: kept.Media, Head: head(kept.Bytes, edge), Tail: tail(kept.Bytes, edge),
	}
	a.Data = nil
	if len(a.Next) < maxNext {
		a.Next = append(a.Next, operation.Next{Tool: "read_result", Args: map[string]any{"ref": kept.Ref}, Why: "the whole of it"})
	}
	return a, nil
}

// keep stores bytes so that a reference leads to them.
func (s *Service) keep(ctx context.Context, tx store.Tx, t *turn, media string, data []byte) (operation.Kept, error) {
	sum := digest(data)
	kept := operation.Kept{Ref: keptRef(sum), Principal: t.Principal, Media: media, SHA256: sum, Made: s.cfg.Now(), Bytes: data}
	return kept, tx.KeepResult(ctx, operation.KeepResult{Result: kept})
}

// keptRef is the reference to bytes with this digest.
func keptRef(sum string) string { return "r_" + sum[:24] }

// digest is the SHA-256 of bytes in hex.
func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// head is the beginning of some text, cut between characters.
func head(b []byte, n int) string {
	if len(b) <= n {
		return string(b)
	}
	for n > 0 && !utf8.RuneStart(b[n]) {
		n--
	}
	return string(b[:n])
}

// tail is its end.
func tail(b []byte, n int) string {
	if len(b) <= n {
		return string(b)
	}
	from := len(b) - n
	for from < len(b) && !utf8.RuneStart(b[from]) {
		from++
	}
	return string(b[from:])
}

// codeIn is the code of an error that is a refusal; "" of every other one.
func codeIn(err error) operation.Code {
	if r, ok := errors.AsType[*operation.Refusal](err); ok {
		return r.Code
	}
	return ""
}

// refusalOf is what a caller is told about an error.
func (s *Service) refusalOf(ctx context.Context, t *turn, err error) *operation.Refusal {
	if r, ok := errors.AsType[*operation.Refusal](err); ok {
		return r
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return operation.Refuse("TIMEOUT", "%s took too long, or its caller left; nothing was changed", t.Tool).Retrying(fault.AfterWait)
	}
	f := fault.From(err)
	switch f.Kind {
	case fault.Internal:
		return s.crashed(ctx, t.Tool, err, fault.SameID)
	case fault.Busy, fault.Unavailable, fault.Canceled:
		return degraded(f)
	case fault.NotFound:
		return operation.Refuse(operation.NotFound, "%s", f.Message)
	case fault.Invalid, fault.Unauthenticated, fault.Denied, fault.NeedsApproval, fault.Conflict, fault.Stale, fault.UnknownOutcome:
	}
	return operation.Refuse(operation.ArgumentInvalid, "%s", f.Message)
}
