package shim

import (
	"encoding/binary"
	"fmt"
)

// kind says what a frame carries (supervisor.md section 4). The numbers are sent: they are never used again for
// something else, and the list only grows.
type kind uint8

// The kinds.
const (
	kindHello      kind = 1
	kindWelcome    kind = 2
	kindRefused    kind = 3
	kindReady      kind = 4
	kindMsg        kind = 5
	kindWritten    kind = 6
	kindDone       kind = 7
	kindBlob       kind = 8
	kindStderr     kind = 9
	kindLost       kind = 10
	kindExit       kind = 11
	kindTerminate  kind = 12
	kindDetach     kind = 13
	kindDetached   kind = 14
	kindPing       kind = 15
	kindPong       kind = 16
	kindStatus     kind = 17
	kindSuperseded kind = 18
	kindOverlong   kind = 19
	kindJournal    kind = 20
)

// flagKept marks a message that the child sent before this daemon attached.
const flagKept = 1

const (
	// headerLen is the fixed part: u32 length | u8 kind | u8 flags | u16 tag length | u32 generation | u64 seq.
	headerLen = 20
	// maxTag bounds the opaque bytes that travel with a message and stay with its journal entry.
	maxTag = 512
	// maxToChild bounds one message to the child. Requests of clients are limited far below it at the edge.
	maxToChild = 32 << 20
	// maxFrame bounds the payload of any frame: one line of a child (rpc.MaxLine) or a message to it.
	maxFrame = 64 << 20
	// maxBlob bounds what the daemon stores with the supervisor for its successor: the state of one lane, some KiB.
	maxBlob = 1 << 20
)

// header is the fixed part of a frame. Length counts the bytes after it: tag and payload.
type header struct {
	length     uint32
	kind       kind
	flags      uint8
	tag        uint16
	generation uint32 // low 32 bits of the attachment's generation
	seq        uint64 // counts frames of kind MSG per direction and connection; WRITTEN names one of them
}

// append adds the encoded header to b.
func (h header) append(b []byte) []byte {
	be := binary.BigEndian
	b = be.AppendUint32(b, h.length)
	b = append(b, byte(h.kind), h.flags)
	b = be.AppendUint16(b, h.tag)
	b = be.AppendUint32(b, h.generation)
	return be.AppendUint64(b, h.seq)
}

// parseHeader decodes the first headerLen bytes of b, which must be there. An error means that the stream cannot be
// read any further.
func parseHeader(b []byte) (header, error) {
	be := binary.BigEndian
	h := header{
		length: be.Uint32(b), kind: kind(b[4]), flags: b[5], tag: be.Uint16(b[6:]),
		generation: be.Uint32(b[8:]), seq: be.Uint64(b[12:]),
	}
	switch {
	case h.tag > maxTag:
		return h, fmt.Errorf("a frame has a tag of %d bytes, more than %d", h.tag, maxTag)
	case h.length < uint32(h.tag):
		return h, fmt.Errorf("a frame of %d bytes has a tag of %d", h.length, h.tag)
	case h.length > maxFrame+maxTag:
		return h, fmt.Errorf("a frame has %d bytes, more than %d", h.length, maxFrame)
	}
	return h, nil
}
