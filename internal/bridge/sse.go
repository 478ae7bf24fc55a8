package bridge

import (
	"bytes"
	"io"
	"strconv"
	"time"

	"mcpx/internal/rpc"
)

// eventSlack is what an event line may have beside a message of the longest size.
const eventSlack = 64

// event is one event of a stream. An event without data still carries an id, before anything can break.
type event struct {
	id       string
	retry    time.Duration
	hasRetry bool
	data     []byte // nil for none
}

// eventReader reads the streams of our own daemon: one data field for an event, lines that end with LF. Fields that
// MCP does not use are skipped, as the standard wants.
type eventReader struct{ lines *rpc.LineReader }

func newEventReader(r io.Reader) *eventReader {
	lines := rpc.NewLineReader(r)
	lines.Limit = rpc.MaxLine + eventSlack
	return &eventReader{lines: lines}
}

// next is the next event. An error ends the stream; the event with it may have an id but never data, because its end
// was not seen.
func (r *eventReader) next() (event, error) {
	var e event
	for {
		line, err := r.lines.Next()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if e.id != "" || e.data != nil || e.hasRetry {
				return e, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "id":
			e.id = string(value)
		case "data":
			e.data = value
		case "retry":
			if ms, err := strconv.ParseUint(string(value), 10, 31); err == nil {
				e.retry, e.hasRetry = min(time.Duration(ms)*time.Millisecond, maxRetryAfter), true
			}
		}
	}
}
