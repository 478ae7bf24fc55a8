package work

import (
	"fmt"
	"testing"
	"time"

	"mcpx/internal/session"
)

// TestUsed: a session is looked at again when its next use has to be written down, and what is remembered is bounded.
func TestUsed(t *testing.T) {
	var u used
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if u.lately("rs_1", at) {
		t.Error("a session of which nothing is known was used lately")
	}
	u.note("rs_1", at)
	for after, want := range map[time.Duration]bool{0: true, session.UseEvery - 1: true, session.UseEvery: false} {
		if got := u.lately("rs_1", at.Add(after)); got != want {
			t.Errorf("%s after its use: lately %t, want %t", after, got, want)
		}
	}
	for i := range 3 * maxUsed {
		u.note(fmt.Sprint("rs_", i), at)
	}
	if len(u.all) > maxUsed {
		t.Errorf("%d sessions are remembered, want at most %d", len(u.all), maxUsed)
	}
}
