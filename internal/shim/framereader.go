package shim

import (
	"io"
)

// frame is one frame as it was read.
type frame struct {
	header
	tag  []byte
	body []byte
	// owned says that body has memory of its own, with room for one more byte. Without it tag and body lie in the
	// reader's buffer and are valid until the next call of next.
	owned bool
}

// frameReader cuts a stream into frames. It is for one goroutine.
type frameReader struct {
	r          io.Reader
	buf        []byte
	start, end int
}

// newFrameReader reads frames from r through a buffer of size bytes; a longer frame is read into memory of its own.
func newFrameReader(r io.Reader, size int) *frameReader {
	return &frameReader{r: r, buf: make([]byte, max(size, headerLen))}
}

// next is the next frame. io.EOF means that the stream ended between two frames.
func (r *frameReader) next() (frame, error) {
	if err := r.need(headerLen); err != nil {
		return frame{}, err
	}
	h, err := parseHeader(r.buf[r.start:])
	if err != nil {
		return frame{}, err
	}
	total := headerLen + int(h.length)
	if total > len(r.buf) {
		return r.long(h)
	}
	if err := r.need(total); err != nil {
		return frame{}, cutOff(err)
	}
	rest := r.buf[r.start+headerLen : r.start+total]
	r.start += total
	return frame{header: h, tag: rest[:h.tag:h.tag], body: rest[h.tag:len(rest):len(rest)]}, nil
}

// long reads a frame that does not fit the buffer.
func (r *frameReader) long(h header) (frame, error) {
	n := int(h.length)
	mem := make([]byte, n, n+1)
	had := copy(mem, r.buf[r.start+headerLen:r.end])
	r.start, r.end = 0, 0
	if _, err := io.ReadFull(r.r, mem[had:]); err != nil {
		return frame{}, cutOff(err)
	}
	return frame{header: h, tag: mem[:h.tag:h.tag], body: mem[h.tag:], owned: true}, nil
}

// buffered reports whether next returns a frame without reading from the stream.
func (r *frameReader) buffered() bool {
	have := r.end - r.start
	if have < headerLen {
		return false
	}
	h, err := parseHeader(r.buf[r.start:])
	return err == nil && have >= headerLen+int(h.length)
}

// peekKind is the kind of the next frame, which must be buffered.
func (r *frameReader) peekKind() kind { return kind(r.buf[r.start+4]) }

// need makes n unread bytes available, n being at most the size of the buffer.
func (r *frameReader) need(n int) error {
	if r.start == r.end {
		r.start, r.end = 0, 0
	}
	if r.start+n > len(r.buf) {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	for r.end-r.start < n {
		k, err := r.r.Read(r.buf[r.end:])
		r.end += k
		if err != nil && r.end-r.start < n {
			if r.end > r.start {
				return cutOff(err)
			}
			return err
		}
	}
	return nil
}

// cutOff is err for a stream that ended inside a frame.
func cutOff(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return io.EOF itself
		return io.ErrUnexpectedEOF
	}
	return err
}
