package work

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/store"
)

// What may stand in an answer beside its data, in bytes of JSON: whatever text or list a caller, a file or a rule has put into
// it, the answer fits into inlineLimit.
const (
	maxMessage  = 2 << 10
	maxDetails  = 8 << 10
	maxProposed = 2 << 10 // the arguments of all calls that are proposed
	maxWarned   = 1 << 10
	maxReasons  = 4 << 10 // of a question
)

// bounded makes an answer fit. Details of a refusal that are cut are kept whole, and read_result gives them.
func (s *Service) bounded(ctx context.Context, t *turn, a operation.Answer) operation.Answer {
	a.Warnings = few(a.Warnings, maxWarned)
	if r := a.Refusal; r != nil && (jsonSize(r.Message) > maxMessage || jsonSize(r.Details) > maxDetails) {
		whole, err := json.Marshal(r)
		if err != nil {
			return refusal(s.crashed(ctx, t.Tool, err, r.Retry))
		}
		short := *r
		short.Message, _ = shrunk(r.Message, maxMessage).(string)
		short.Details, _ = shrunk(generic(r.Details), maxDetails).(map[string]any)
		a.Refusal = &short
		a = s.keptWhole(context.WithoutCancel(ctx), t, a, s.redacted(whole))
	}
	room := maxProposed
	a.Next = slices.DeleteFunc(slices.Clone(a.Next), func(n operation.Next) bool {
		room -= jsonSize(n.Args)
		return room < 0
	})
	return a
}

// keptWhole adds to an answer whose refusal was cut where the whole of it is.
func (s *Service) keptWhole(ctx context.Context, t *turn, a operation.Answer, whole []byte) operation.Answer {
	var kept operation.Kept
	err := s.cfg.DB.Change(ctx, func(tx store.Tx) (err error) {
		kept, err = s.keep(ctx, tx, t, "application/json", whole)
		return err
	})
	if err != nil { // what is told of the refusal is true without it
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "the details of a refusal were not kept", slog.Any(key.Cause, err))
		return a
	}
	a.Spilled = &operation.Spilled{Ref: kept.Ref, Bytes: len(kept.Bytes), SHA256: kept.SHA256, Media: kept.Media}
	read := operation.Next{Tool: "read_result", Args: map[string]any{"ref": kept.Ref}, Why: "all of the error"}
	a.Next = append(slices.Clone(a.Next[:min(len(a.Next), maxNext-1)]), read)
	return a
}

// few are the first texts of a list, as many as fit, and how many more there are.
func few(all []string, most int) []string {
	for i, text := range all {
		if most -= jsonSize(text); most < 0 {
			return append(slices.Clone(all[:i]), fmt.Sprintf("and %d more", len(all)-i))
		}
	}
	return all
}

// jsonSize is how many bytes a value takes in an answer.
func jsonSize(v any) int {
	raw, _ := json.Marshal(v) // the answer as a whole tells
	return len(raw)
}

// generic is a value as whoever reads its JSON has it.
func generic(v any) any {
	raw, _ := json.Marshal(v) // as in jsonSize
	var out any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&out) // it was just written
	return out
}

// shrunk is a generic value in at most so many bytes of JSON: of a text the beginning, of a list the first entries, of an
// object what is short whole, and of the rest equal shares.
func shrunk(v any, most int) any {
	if jsonSize(v) <= most {
		return v
	}
	switch v := v.(type) {
	case string:
		return shrunkText(v, most)
	case []any:
		return shrunkList(v, most)
	case map[string]any:
		return shrunkObject(v, most)
	}
	return nil
}

func shrunkText(text string, most int) string {
	const mark = "…"
	for n := min(len(text), most); n > 0; n = n * 3 / 4 {
		if cut := head([]byte(text), n) + mark; jsonSize(cut) <= most {
			return cut
		}
	}
	return ""
}

func shrunkList(list []any, most int) []any {
	out, left := []any{}, most-len("[]")
	for _, one := range list {
		size := jsonSize(one) + len(",")
		if size > left && len(out) > 0 {
			break
		}
		out = append(out, shrunk(one, left))
		left -= size
	}
	return out
}

func shrunkObject(object map[string]any, most int) map[string]any {
	names := slices.SortedFunc(maps.Keys(object), func(a, b string) int {
		return cmp.Or(cmp.Compare(jsonSize(object[a]), jsonSize(object[b])), cmp.Compare(a, b))
	})
	out, left := map[string]any{}, most-len("{}")
	for _, name := range names {
		left -= jsonSize(name) + len(":,")
	}
	for i, name := range names {
		if left <= 0 {
			break
		}
		one := shrunk(object[name], left/(len(names)-i))
		out[name] = one
		left -= jsonSize(one)
	}
	return out
}
