package sqlite

import (
	"context"
	"encoding/json"
	"math"

	"mcpx/internal/fault"
)

// Most rows are documents: the value as JSON in the column body, and beside it copies of what statements select by.

// scanDocument reads the column body.
func scanDocument[T any](row scanner) (T, error) {
	var (
		v    T
		body []byte
	)
	if err := row.Scan(&body); err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fault.New(fault.Internal, "store-failed").Saying("a stored row cannot be read").Because(err)
	}
	return v, nil
}

// scanNumbered reads a number and the column body.
func scanNumbered[T any](number func(*T) *uint64) func(scanner) (T, error) {
	return func(row scanner) (T, error) {
		var (
			v    T
			seq  uint64
			body []byte
		)
		if err := row.Scan(&seq, &body); err != nil {
			return v, err
		}
		if err := json.Unmarshal(body, &v); err != nil {
			return v, fault.New(fault.Internal, "store-failed").Saying("a stored row cannot be read").Because(err)
		}
		*number(&v) = seq
		return v, nil
	}
}

// document is a value for the column body.
func document(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fault.New(fault.Internal, "store-failed").Saying("a value of type %T cannot be stored", v).Because(err)
	}
	return body, nil
}

// byPrefix finds the one document whose id begins with prefix, with a statement that takes the bounds of a range of
// ids and gives the first two in order. The whole id wins over longer ones.
func byPrefix[T any](ctx context.Context, t *tx, scan func(scanner) (T, error), query, prefix string, idOf func(T) string, unknown, several func(string) *fault.Error) (T, error) {
	var none T
	if prefix == "" {
		return none, unknown(prefix)
	}
	found, err := rows(ctx, t, scan, query, prefix, prefix+"\U0010FFFF")
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, unknown(prefix)
	case len(found) > 1 && idOf(found[0]) != prefix:
		return none, several(prefix)
	}
	return found[0], nil
}

// newest is the bound of the first page of a list that goes from the newest to the oldest.
const newest = int64(math.MaxInt64)

// beforeOr is the number that a page ends before; 0, and one that no row can have, begin with the newest.
func beforeOr(before uint64) int64 {
	if before == 0 || before > math.MaxInt64 {
		return newest
	}
	return int64(before)
}

// stateList is a list of states for json_each.
func stateList[S ~string](states []S) (string, error) {
	if states == nil {
		states = []S{}
	}
	in, err := document(states)
	return string(in), err
}
