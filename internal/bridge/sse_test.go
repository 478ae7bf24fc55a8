package bridge

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type flatEvent struct {
	ID, Data string
	Retry    time.Duration
}

func readEvents(t testing.TB, stream string) []flatEvent {
	t.Helper()
	r := newEventReader(strings.NewReader(stream))
	var all []flatEvent
	for {
		e, err := r.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			if e.data != nil || e.id != "" || e.hasRetry {
				t.Fatalf("%+v of an event whose end was not seen", e)
			}
			return all
		}
		all = append(all, flatEvent{ID: e.id, Data: string(e.data), Retry: e.retry})
	}
}

func TestEventReader(t *testing.T) {
	tests := map[string]struct {
		stream string
		want   []flatEvent
	}{
		"one":         {"id: a.1.1\ndata: {}\n\n", []flatEvent{{ID: "a.1.1", Data: "{}"}}},
		"crlf":        {"data: {}\r\n\r\n", []flatEvent{{Data: "{}"}}},
		"no space":    {"data:{}\n\n", []flatEvent{{Data: "{}"}}},
		"priming":     {"id: a\nretry: 1000\ndata: \n\n", []flatEvent{{ID: "a", Retry: time.Second}}},
		"comments":    {": hi\n\n:\ndata: 1\n\n: bye\n\n", []flatEvent{{Data: "1"}}},
		"other field": {"event: message\ndata: 1\n\n", []flatEvent{{Data: "1"}}},
		"cut off":     {"data: 1\n\nid: b\ndata: 2\n", []flatEvent{{Data: "1"}}},
		"id alone":    {"id: b\n", nil},
		"long retry":  {"retry: 99999999\n\n", []flatEvent{{Retry: maxRetryAfter}}},
		"bad retry":   {"retry: x\ndata: 1\n\n", []flatEvent{{Data: "1"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, readEvents(t, tt.stream)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// What emitAll writes is read back, whatever the data.
func FuzzEventReader(f *testing.F) {
	f.Add([]byte(`{"a":1}`), "r1.1.1")
	f.Add([]byte{}, "")
	f.Fuzz(func(t *testing.T, data []byte, id string) {
		_ = readEvents(t, string(data)) // never panics, never reports data of an open event
		if bytes.ContainsAny(data, "\r\n") || strings.ContainsAny(id, "\r\n") || len(data) == 0 || strings.HasPrefix(id, " ") {
			return
		}
		want := []flatEvent{{ID: id, Data: string(data)}}
		if diff := cmp.Diff(want, readEvents(t, "id: "+id+"\ndata: "+string(data)+"\n\n")); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	})
}
