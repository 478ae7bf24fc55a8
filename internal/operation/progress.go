package operation

import (
	"context"
	"encoding/json"
	"math"

	"mcpx/internal/event"
)

// Progress is how far an effect on many files has come, for those who watch. What has happened is decided by what is on the
// disk alone.
type Progress struct {
	Applied int `json:"applied"`
	Undone  int `json:"undone,omitempty"` // taken back, because somebody else was in the way
	Of      int `json:"of"`
}

// ProgressOf is what was told last about an operation whose effect has begun and not ended; nil: nothing was.
func ProgressOf(ctx context.Context, r event.Reader, o Operation) (*Progress, error) {
	if o.State != Dispatched {
		return nil, nil
	}
	told, err := r.Events(ctx, event.ListEvents{
		Before: math.MaxInt64, Kind: string(event.OperationProgress), Refs: event.Refs{event.RefOperation: o.ID}, Since: o.Begun,
	})
	if err != nil {
		return nil, err
	}
	for _, e := range told {
		var p Progress
		if e.Actor.Principal == o.Namespace && json.Unmarshal(e.Body, &p) == nil {
			return &p, nil
		}
	}
	return nil, nil
}
