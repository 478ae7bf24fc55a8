package event_test

import (
	"fmt"
	"testing"

	"mcpx/internal/event"
)

func TestRanges(t *testing.T) {
	for want, seqs := range map[string][]uint64{
		"[]":            {},
		"[[1 3]]":       {1, 2, 3},
		"[[5 7]]":       {7, 6, 5},
		"[[1 2] [4 5]]": {1, 2, 4, 5},
		"[[9 9] [3 4]]": {9, 4, 3},
	} {
		var r event.Ranges
		for _, seq := range seqs {
			r = r.Add(seq)
		}
		if got := fmt.Sprint([][2]uint64(r)); got != want {
			t.Errorf("%v are %s, want %s", seqs, got, want)
		}
	}
}
