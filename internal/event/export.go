package event

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"

	"mcpx/internal/fault"
)

// Closing is the last line of an export. An export without it was cut off.
type Closing struct {
	Count uint64 `json:"count"`
	First uint64 `json:"first"` // Seq; 0 without events
	Last  uint64 `json:"last"`
	Head  string `json:"head_hash"` // of the last event
}

func (c *Closing) add(e Event) {
	if c.Count == 0 {
		c.First = e.Seq
	}
	c.Count, c.Last, c.Head = c.Count+1, e.Seq, e.Hash
}

// maxLine bounds a line of an export: a body of MaxBody, and an envelope in which every character is an escape.
const maxLine = 1 << 20

// Export writes the events from one Seq to another, one JSON object a line, and the closing line; from 0 is the first,
// to 0 the last. It does not verify: a broken log can be exported, too, and VerifyExport then finds it broken.
func Export(ctx context.Context, r Reader, w io.Writer, from, to uint64) (Closing, error) {
	var (
		closing Closing
		failed  error
	)
	out := bufio.NewWriter(w)
	err := pages(ctx, r, from, to, func(_ Event, page []Event) bool {
		for _, e := range page {
			if failed = writeLine(out, e); failed != nil {
				return false
			}
			closing.add(e)
		}
		return true
	})
	if err := errors.Join(err, failed); err != nil {
		return Closing{}, err
	}
	return closing, errors.Join(writeLine(out, closing), out.Flush())
}

func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fault.New(fault.Internal, "event-malformed").Saying("an event cannot be written as JSON").Because(err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// VerifyExport looks at an export alone. Every line must be byte for byte what Export writes, so nothing can be added to
// it that the hashes do not cover. An export that begins later than the first event is taken to follow what its first
// line says. The error is that of r.
func VerifyExport(r io.Reader) (Verdict, error) {
	var (
		v    Verdict
		prev Event
	)
	in := bufio.NewScanner(r)
	in.Buffer(nil, maxLine)
	in.Split(wholeLines)
	bad := func(why Why) (Verdict, error) {
		v.Bad = &Bad{Seq: prev.Seq + 1, Why: why}
		return v, nil
	}
	for in.Scan() {
		line := in.Bytes()
		if bytes.HasPrefix(line, []byte(`{"count":`)) {
			var c Closing
			switch {
			case !exact(line, &c):
				return bad(LineMalformed)
			case c != v.Closing:
				return bad(ClosingDiffers)
			case in.Scan() || errors.Is(in.Err(), bufio.ErrTooLong):
				return bad(LineMalformed)
			}
			return v, in.Err()
		}
		var e Event
		if !exact(line, &e) {
			return bad(LineMalformed)
		}
		if v.Count == 0 && e.Seq > 1 {
			prev = Event{Seq: e.Seq - 1, Hash: e.Prev}
		}
		if v.Bad = Verify(prev, []Event{e}); v.Bad != nil {
			return v, nil
		}
		v.count([]Event{e})
		prev = e
	}
	switch err := in.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return bad(LineMalformed)
	case err != nil:
		return v, err
	}
	return bad(ClosingMissing)
}

// wholeLines splits like bufio.ScanLines, but keeps the ends of lines: a missing one is found, too.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// exact reads a line into v and tells whether it is what writeLine makes of v.
func exact(line []byte, v any) bool {
	if json.Unmarshal(line, v) != nil {
		return false
	}
	if e, ok := v.(*Event); ok {
		e.At = e.At.UTC() // one moment has many spellings, and a time remembers the zone it was read with
	}
	var again bytes.Buffer
	return writeLine(&again, v) == nil && bytes.Equal(line, again.Bytes())
}
