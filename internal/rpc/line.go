package rpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the default bound of one line, in bytes without its newline: the largest answer the gateway passes on
// (a 60 MiB result must come through; protocol.md 7.6).
const MaxLine = 64 << 20

// lineBuffer is the size of the read buffer: one full Linux pipe, so that one read empties it and callers can
// coalesce what they write.
const lineBuffer = 64 << 10

// longHead bounds the part of a discarded line that is kept to show people what it was.
const longHead = 1 << 10

// maxEmptyReads bounds reads that give neither bytes nor an error, as in package bufio.
const maxEmptyReads = 100

// Class is what a line of a child's output is.
type Class uint8

// The classes.
const (
	Blank       Class = iota // whitespace only: ignored
	Skipped                  // prose on stdout: logged, counted
	MessageLike              // starts like a message; Scan decides whether it is one
)

// LineClass is the class of a line by its first byte that is not whitespace (protocol.md 7.6).
func LineClass(line []byte) Class {
	s := scanner{b: line}
	i := s.space(0)
	switch {
	case i == len(line):
		return Blank
	case line[i] == '{' || line[i] == '[':
		return MessageLike
	}
	return Skipped
}

// LongLineError reports a line above the limit. It was discarded as it streamed; the next line can be read.
type LongLineError struct {
	Head   []byte // first 1 KiB
	ID     []byte // raw top-level id wherever it stood in the line, nil when there is none or no single one
	Method []byte // raw top-level method, likewise; nil for an answer
	Size   int64  // bytes of the whole line, without its newline
}

func (e *LongLineError) Error() string {
	return fmt.Sprintf("a line of %d bytes is above the limit", e.Size)
}

// LineReader reads newline-framed messages. It is for one goroutine.
type LineReader struct {
	// Limit is the bound of one line in bytes; 0 means MaxLine. It may be set before the first call of Next.
	Limit int

	r          io.Reader
	buf        []byte
	start, end int   // unread bytes of buf
	clean      int   // buf[start:clean] holds no newline
	err        error // what r said last
}

// NewLineReader reads lines from r.
func NewLineReader(r io.Reader) *LineReader {
	return &LineReader{r: r, buf: make([]byte, lineBuffer)}
}

// Next is the next line without its newline and without a carriage return in front of that; the slice is the
// caller's. A *LongLineError is not final. The last line needs no newline when the stream ends with io.EOF; a partial
// line in front of another error is dropped, because its end is missing.
func (l *LineReader) Next() ([]byte, error) {
	limit := l.Limit
	if limit == 0 {
		limit = MaxLine
	}
	var line []byte // what went out of buf of a line longer than it
	for {
		if k := l.newline(); k >= 0 {
			line = join(line, l.buf[l.start:k], limit)
			l.start, l.clean = k+1, k+1
			if len(line) > limit {
				return nil, l.tooLong(line, true)
			}
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		if l.err != nil {
			if !errors.Is(l.err, io.EOF) || len(line)+l.end-l.start == 0 {
				return nil, l.err
			}
			line = join(line, l.buf[l.start:l.end], limit)
			l.start = l.end
			if len(line) > limit {
				return nil, l.tooLong(line, true)
			}
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		if l.end-l.start == len(l.buf) {
			line = join(line, l.buf[l.start:l.end], limit)
			l.start = l.end
			if len(line) > limit {
				return nil, l.tooLong(line, false)
			}
		}
		l.fill()
	}
}

// Buffered says whether Next will return without reading from the stream: another whole line is in memory already.
func (l *LineReader) Buffered() bool { return l.newline() >= 0 }

// newline is the index of the first newline in the unread bytes, or -1.
func (l *LineReader) newline() int {
	l.clean = max(l.clean, l.start)
	k := bytes.IndexByte(l.buf[l.clean:l.end], '\n')
	if k < 0 {
		l.clean = l.end
		return -1
	}
	l.clean += k
	return l.clean
}

// fill reads once into the free end of buf, after moving what is left of it to the front.
func (l *LineReader) fill() {
	if l.start > 0 {
		l.end = copy(l.buf, l.buf[l.start:l.end])
		l.start, l.clean = 0, l.end
	}
	for range maxEmptyReads {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		l.err = err
		if n > 0 || err != nil {
			return
		}
	}
	l.err = io.ErrNoProgress
}

// join appends part to line. Capacity doubles and stops at the limit: append's own growth of a quarter would copy a
// 64 MiB line five times over.
func join(line, part []byte, limit int) []byte {
	need := len(line) + len(part)
	if need > cap(line) {
		size := need
		if len(line) > 0 || len(part) == lineBuffer {
			size = max(need, min(2*need, limit))
		}
		grown := make([]byte, len(line), size)
		copy(grown, line)
		line = grown
	}
	return append(line, part...)
}

// tooLong describes the line that begins with line and, unless it is whole, discards the rest of it.
func (l *LineReader) tooLong(line []byte, whole bool) error {
	e := &LongLineError{Head: bytes.Clone(line[:min(len(line), longHead)]), Size: int64(len(line))}
	var t tracker
	t.feed(line)
	for !whole {
		l.fill()
		k := l.newline()
		if k < 0 {
			k = l.end
		}
		t.feed(l.buf[l.start:k])
		e.Size += int64(k - l.start)
		whole = k < l.end || l.err != nil
		l.start = min(k+1, l.end)
	}
	t.feed([]byte{'\n'}) // ends a number
	e.ID, e.Method = t.id.token(), t.method.token()
	return e
}
