package httpedge

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"time"

	"mcpx/internal/rpc"
)

const (
	// sseWindow is how much of a stream is looked at in one piece: large answers are copied in few steps, and an idle
	// stream does not cost more than this.
	sseWindow = 16 << 10
	// sseMaxID bounds an event id. It goes back as a request header, and servers refuse header blocks above 8 KiB or so.
	sseMaxID = 4 << 10
	// sseMaxRetry bounds what a server may ask for as reconnection time, so that a typing error of it (seconds taken for
	// milliseconds) does not park a call for days.
	sseMaxRetry = time.Minute
	// sseMark is the byte order mark that may begin a stream.
	sseMark = "\xef\xbb\xbf"
	// ssePrefix begins a line with data, as servers write it.
	ssePrefix = "data: "
)

// sseEvent is one event of a server-sent event stream, as the HTML standard dispatches it. Events with empty data are
// reported too: MCP servers send them to hand out an id before anything can break.
type sseEvent struct {
	Type    string // "" is "message"
	ID      string // valid only with HasID
	HasID   bool
	Retry   time.Duration // valid only with HasRetry
	Data    []byte        // lines joined with LF; owned by the receiver
	HasData bool          // a data field was present, maybe an empty one
	TooLong bool          // the event was larger than the limit; Data is nil

	// Of an event that is too long because of a single line: the bytes of the line, and the raw id and method of the
	// message in it, nil where there is none.
	Size             int64
	LostID, LostCall []byte

	HasRetry bool
	// Partial says that the stream ended before the blank line. The standard drops such events; MCP servers that forget
	// the blank line exist, and a truncated JSON document cannot be taken for a whole one. Its ID must not be used.
	Partial bool
}

// sseReader parses a stream. Lines end with LF, CR or CRLF; one event may hold at most limit bytes and a longer one is
// discarded as it arrives.
type sseReader struct {
	br     *bufio.Reader
	limit  int
	line   []byte // the part of the current line from earlier windows
	long   bool   // the current line is over the limit; its rest is discarded
	begun  bool   // the byte order mark was looked for
	skipLF bool   // the last line ended with CR: an LF that follows belongs to it
	ev     sseEvent
	used   bool // ev has at least one field
	err    error
}

func newSSEReader(r io.Reader, limit int) *sseReader {
	return &sseReader{br: bufio.NewReaderSize(r, sseWindow), limit: limit}
}

// Next returns the next event. At the end of the stream it returns the error of the reader (io.EOF for a clean end),
// after an unfinished event if there is one.
func (s *sseReader) Next() (sseEvent, error) {
	for s.err == nil {
		line, owned, err := s.readLine()
		if err != nil {
			s.err = err
			if len(line) > 0 {
				s.field(line, owned)
			}
			if s.ev.HasData || s.ev.TooLong {
				s.ev.Partial = true
				return s.take(), nil
			}
			break
		}
		if len(line) == 0 {
			if s.used {
				return s.take(), nil
			}
			continue
		}
		s.field(line, owned)
	}
	return sseEvent{}, s.err
}

func (s *sseReader) take() sseEvent {
	ev := s.ev
	s.ev, s.used = sseEvent{}, false
	return ev
}

// readLine returns one line without its end; owned says that the slice is not part of the window and may be kept. With
// an error the line is what came before it.
func (s *sseReader) readLine() (line []byte, owned bool, err error) {
	s.line, s.long = nil, false
	if !s.begun {
		s.begun = true
		if mark, _ := s.br.Peek(len(sseMark)); string(mark) == sseMark {
			_, _ = s.br.Discard(len(sseMark)) // cannot fail: the bytes are buffered
		}
	}
	for {
		if _, err := s.br.Peek(1); err != nil {
			return s.line, true, err
		}
		window, _ := s.br.Peek(s.br.Buffered()) // cannot fail: asks only for what is buffered
		if s.skipLF {
			s.skipLF = false
			if window[0] == '\n' {
				_, _ = s.br.Discard(1) // cannot fail: the byte is buffered
				continue
			}
		}
		piece, ended, cr := sseCut(window)
		if len(s.line)+len(piece) > s.limit+len(ssePrefix) {
			return s.overlong()
		}
		s.skipLF = cr
		if ended {
			_, _ = s.br.Discard(len(piece) + 1) // cannot fail: the bytes are buffered
			if s.line == nil {
				return piece, false, nil // nothing is read before the caller is done with it
			}
			s.line = append(s.line, piece...)
			return s.line, true, nil
		}
		s.line = append(s.line, piece...)
		_, _ = s.br.Discard(len(piece)) // cannot fail: the bytes are buffered
	}
}

// overlong discards a line above the limit as it streams and looks for the call that it answered. The beginning stays,
// so that its field can be named.
func (s *sseReader) overlong() (line []byte, owned bool, err error) {
	s.long = true
	rest := &sseRest{s: s}
	all := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(s.line), rest), sseWindow)
	head, _ := all.Peek(len(ssePrefix)) // shorter only if the stream ends here
	head = bytes.Clone(head)
	if value, ok := bytes.CutPrefix(head, []byte("data:")); ok {
		_, _ = all.Discard(len(head) - len(bytes.TrimPrefix(value, []byte(" ")))) // cannot fail: the bytes are buffered
	}
	message := rpc.NewLineReader(all)
	message.Limit = 1 // everything is too long: only the description is wanted
	_, err = message.Next()
	if long, ok := errors.AsType[*rpc.LongLineError](err); ok && bytes.HasPrefix(head, []byte("data")) {
		s.ev.Size, s.ev.LostID, s.ev.LostCall = long.Size, long.ID, long.Method
	}
	s.line = nil
	return head, true, rest.err
}

// sseRest reads what is left of the current line.
type sseRest struct {
	s    *sseReader
	over bool
	err  error // what ended the stream inside the line
}

func (r *sseRest) Read(p []byte) (int, error) {
	if r.over {
		return 0, io.EOF
	}
	if _, err := r.s.br.Peek(1); err != nil {
		r.over, r.err = true, err
		return 0, io.EOF
	}
	window, _ := r.s.br.Peek(r.s.br.Buffered()) // cannot fail: asks only for what is buffered
	piece, ended, cr := sseCut(window)
	r.over, r.s.skipLF = ended, cr
	n := copy(p, piece)
	if n < len(piece) {
		r.over, r.s.skipLF = false, false
		_, _ = r.s.br.Discard(n) // cannot fail: the bytes are buffered
		return n, nil
	}
	if ended {
		n++
	}
	_, _ = r.s.br.Discard(n) // cannot fail: the bytes are buffered
	return len(piece), nil
}

// sseCut finds the end of the line that window begins with.
func sseCut(window []byte) (line []byte, ended, cr bool) {
	line = window
	if i := bytes.IndexByte(line, '\n'); i >= 0 {
		line, ended = line[:i], true
	}
	if i := bytes.IndexByte(line, '\r'); i >= 0 {
		line, ended, cr = line[:i], true, true
	}
	return line, ended, cr
}

// field adds one line to the current event.
func (s *sseReader) field(line []byte, owned bool) {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "data":
		s.used = true
		s.data(value, owned)
	case "event":
		s.used = true
		if !s.long {
			s.ev.Type = string(value)
		}
	case "id":
		s.used = true
		if !s.long && len(value) <= sseMaxID && bytes.IndexByte(value, 0) < 0 {
			s.ev.ID, s.ev.HasID = string(value), true
		}
	case "retry":
		s.used = true
		if ms, err := strconv.ParseUint(string(value), 10, 32); err == nil && !s.long {
			s.ev.Retry, s.ev.HasRetry = min(time.Duration(ms)*time.Millisecond, sseMaxRetry), true
		}
	}
}

func (s *sseReader) data(value []byte, owned bool) {
	first := !s.ev.HasData
	s.ev.HasData = true
	switch {
	case s.ev.TooLong:
	case s.long || len(s.ev.Data)+len(value) > s.limit:
		s.ev.TooLong, s.ev.Data = true, nil
	case first && owned:
		s.ev.Data = value // a large answer in one line is not copied again
	case first:
		s.ev.Data = bytes.Clone(value)
	default:
		s.ev.Data = append(append(s.ev.Data, '\n'), value...)
	}
}

// AppendEvent appends one event of the default type to dst: the id unless it is "", then data in a single line, each
// raw CR and LF in it replaced by a space (legal between the tokens of a JSON text only, so its value is unchanged).
// The id must have no line ends and no NUL. Empty data is sent as an empty data field.
func AppendEvent(dst []byte, id string, data []byte) []byte {
	if id != "" {
		dst = append(append(append(dst, "id: "...), id...), '\n')
	}
	dst = append(dst, "data: "...)
	from := len(dst)
	dst = append(dst, data...)
	if bytes.IndexByte(data, '\n') >= 0 || bytes.IndexByte(data, '\r') >= 0 {
		for i, b := range dst[from:] {
			if b == '\n' || b == '\r' {
				dst[from+i] = ' '
			}
		}
	}
	return append(dst, "\n\n"...)
}
