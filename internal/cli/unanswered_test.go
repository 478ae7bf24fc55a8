package cli

import (
	"context"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/fault"
)

// TestUnanswered: who loses the daemon in the middle of an operation that can be repeated is told its id.
func TestUnanswered(t *testing.T) {
	gone := func() error {
		return fault.New(fault.UnknownOutcome, "daemon-gone").Saying("the daemon went away").Hinting("look")
	}
	refused := fault.New(fault.Conflict, "workspace-busy").Hinting("wait")
	under := api.Under(t.Context(), "op_1")
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		hint string
	}{
		"gone":             {under, gone(), "--operation op_1"},
		"gone from a look": {t.Context(), gone(), "look"},
		"refused":          {under, refused, "wait"},
	} {
		if f := fault.From(unanswered(c.ctx, c.err)); !strings.Contains(f.Hint, c.hint) || f.Code != fault.From(c.err).Code {
			t.Errorf("%s: %s, %q", name, f.Code, f.Hint)
		}
	}
	if err := unanswered(under, nil); err != nil {
		t.Error(err)
	}
}
