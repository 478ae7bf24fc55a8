package era

import (
	"strings"
	"testing"
)

// The names are part of event ids that clients keep over an upgrade: they never change.
func TestStreamName(t *testing.T) {
	for id, want := range map[string]string{
		`1`:                                 "rMQ",
		`"a"`:                               "rImEi",
		`"` + strings.Repeat("x", 33) + `"`: "rInh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eCI",
		`"` + strings.Repeat("x", 34) + `"`: "h",
	} {
		got := StreamName([]byte(id))
		if want == "h" {
			if !strings.HasPrefix(got, "h") || len(got) > maxStreamName || got == StreamName([]byte(id+" ")) {
				t.Errorf("StreamName(%s) = %s, want a hash", id, got)
			}
			continue
		}
		if got != want {
			t.Errorf("StreamName(%s) = %s, want %s", id, got, want)
		}
	}
	if got := RejoinID([]byte("1")); got != "rMQ.0.0" {
		t.Errorf("RejoinID(1) = %s", got)
	}
}
