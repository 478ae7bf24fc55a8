package gateway

import (
	"strconv"
	"sync"
	"time"

	"mcpx/internal/crash"
)

// Bounds of one stream (protocol.md section 8).
const (
	// maxStreamEvents and maxStreamBytes bound what one stream holds, read or unread. A slow or absent reader loses
	// the oldest messages of its own stream and nothing else.
	maxStreamEvents = 256
	maxStreamBytes  = 1 << 20
	// maxLiveEvents and maxLiveBytes bound a stream that a connected client is reading: bursts are normal there.
	maxLiveEvents = 8192
	maxLiveBytes  = 8 << 20
)

// Event is one message on its way to a client.
type Event struct {
	Seq    uint64 // from 1, per stream
	Data   []byte // one JSON-RPC message without line feeds
	Final  bool   // the response that ends the stream
	Status int    // HTTP status that a plain JSON answer uses
}

// Stream carries the messages of one request, or of one standalone GET, to a client. Writers never block: the stream
// is a bounded queue that also serves replay. One reader at a time; a second one takes over.
type Stream struct {
	// ID is the event-id prefix of a resumable stream, "" for one that cannot be resumed.
	ID string

	plain   bool            // the client takes the response and nothing else
	verdict bool            // it only says what became of a call of an earlier daemon
	moved   <-chan struct{} // closed when the server went to another daemon: nothing is accepted any more; nil: never

	mu     sync.Mutex    // guards the fields below; taken last, never with I/O
	gone   func()        // called when a modern client leaves; nil for streams whose end is no cancellation
	left   bool          // the client left, whether or not anyone was told
	events []Event       // retained, in order
	next   uint64        // seq of the next event, from 1
	bytes  int           // sum of the retained data
	lost   uint64        // highest seq that was evicted
	taken  uint64        // highest seq that a reader took
	ended  bool          // the final event was pushed, or the stream was closed without one
	whole  bool          // the final event was pushed
	keep   bool          // events stay for a resume after they were read
	reader uint64        // number of the present reader; an older one is told to stop
	live   bool          // a reader is attached
	wake   chan struct{} // cap 1: something changed for the reader
	began  time.Time     // when it became resumable
	closed time.Time     // when the stream ended
	debt   debt          // what the supervisor keeps until the response is delivered or dropped
	sent   bool          // the request was handed to a link
	wire   []byte        // its id there, of a modern client's request
}

func newStream(id string, keep bool) *Stream {
	return &Stream{ID: id, keep: keep, wake: make(chan struct{}, 1), next: 1}
}

// push appends one message. After the end it is a no-op that reports false.
func (s *Stream) push(data []byte) bool { return s.put(Event{Data: data}, debt{}) }

// finish appends the response and ends the stream.
func (s *Stream) finish(data []byte, status int) bool {
	return s.put(Event{Data: data, Final: true, Status: status}, debt{})
}

// finishOwing is finish with the answer of a backend, which its supervisor keeps until the client has it.
func (s *Stream) finishOwing(d debt, data []byte, status int) {
	if !s.put(Event{Data: data, Final: true, Status: status}, d) {
		d.drop()
	}
}

// Delivered tells the gateway that the response was written to the client. The edge calls it once it has.
func (s *Stream) Delivered() {
	crash.Point("gateway.answer-written")
	s.takeDebt().paid()
}

// Delivered is that of its stream. It reports true.
func (r *Reader) Delivered() bool {
	r.s.Delivered()
	return true
}

// drop gives up the response: nobody will read it.
func (s *Stream) drop() { s.takeDebt().drop() }

func (s *Stream) takeDebt() debt {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.debt
	s.debt = debt{}
	return d
}

func (s *Stream) put(e Event, owed debt) bool {
	s.mu.Lock()
	if s.ended || s.hasMoved() {
		s.mu.Unlock()
		return false
	}
	e.Seq = s.next
	s.next++
	s.events = append(s.events, e)
	s.bytes += len(e.Data)
	s.ended, s.whole = e.Final, e.Final
	if s.ended {
		s.closed, s.debt = time.Now(), owed
	}
	s.trimLocked()
	s.mu.Unlock()
	s.signal()
	return true
}

// trimLocked drops the oldest events above the bounds. The newest event always stays, so a large response is never
// lost to its own size, and the response is evicted last.
func (s *Stream) trimLocked() {
	events, bytes := maxStreamEvents, maxStreamBytes
	if s.live {
		events, bytes = maxLiveEvents, maxLiveBytes
	}
	drop := 0
	for drop < len(s.events)-1 && (len(s.events)-drop > events || s.bytes > bytes) {
		s.bytes -= len(s.events[drop].Data)
		s.lost = s.events[drop].Seq
		s.events[drop] = Event{}
		drop++
	}
	if drop > 0 {
		s.events = s.events[drop:] // the next append that has no room moves what is left: a flood copies it rarely
	}
}

// end closes the stream without a response (session over, standalone stream taken over).
func (s *Stream) end() {
	s.mu.Lock()
	if !s.ended && !s.hasMoved() {
		s.ended = true
		s.closed = time.Now()
	}
	s.mu.Unlock()
	s.signal()
}

func (s *Stream) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Reader is the client's side of a stream.
type Reader struct {
	s    *Stream
	n    uint64
	last uint64 // seq of the last event taken
}

// Read attaches a reader that continues after the given seq; 0 is the beginning. An earlier reader is told to stop.
// It reports false when events after that seq are gone.
func (s *Stream) Read(after uint64) (*Reader, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < s.lost || after >= s.next {
		return nil, false
	}
	return s.attachLocked(after), true
}

// fromStart attaches a reader at the first message that is still there.
func (s *Stream) fromStart() *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attachLocked(s.lost)
}

// Follow attaches a reader at the first message that nobody took yet, for a standalone stream that is opened without a
// cursor.
func (s *Stream) Follow() *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attachLocked(max(s.lost, s.taken))
}

func (s *Stream) attachLocked(last uint64) *Reader {
	s.reader++
	s.live = true
	s.signal()
	return &Reader{s: s, n: s.reader, last: last}
}

// At is the seq of the last event that was taken: a reader attached behind it goes on where this one is.
func (r *Reader) At() uint64 {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.last
}

// ReadState says what Next found.
type ReadState uint8

// The results of Next.
const (
	ReadEvent  ReadState = iota + 1 // an event was returned
	ReadWait                        // nothing yet: wait on Wake and call again
	ReadEnd                         // the stream is over, or another reader took over
	ReadMissed                      // events were evicted before this reader took them
	ReadMoved                       // the next daemon has the rest (HandOver)
)

// Whole reports whether the stream ended with its response. One that only ended may go on at the next daemon.
func (r *Reader) Whole() bool {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.s.whole
}

// Next returns the next event without waiting.
func (r *Reader) Next() (Event, ReadState) {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader != r.n {
		return Event{}, ReadEnd
	}
	if r.last < s.lost {
		return Event{}, ReadMissed
	}
	if n := len(s.events); n > 0 && s.events[n-1].Seq > r.last {
		at := int(r.last + 1 - s.events[0].Seq)
		e := s.events[at]
		r.last = e.Seq
		s.taken = max(s.taken, e.Seq)
		if !s.keep {
			// A stream without resumption forgets what was read.
			s.bytes -= len(e.Data)
			s.events[at] = Event{}
			s.events = s.events[at+1:]
			s.lost = e.Seq
		}
		return e, ReadEvent
	}
	if s.ended {
		return Event{}, ReadEnd
	}
	if s.hasMoved() {
		return Event{}, ReadMoved
	}
	return Event{}, ReadWait
}

// Wake is signalled when Next may have something new.
func (r *Reader) Wake() <-chan struct{} { return r.s.wake }

// Stop detaches the reader.
func (r *Reader) Stop() {
	s := r.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reader == r.n {
		s.live = false
		s.trimLocked()
	} else {
		// The one who took over may have missed a signal that this reader consumed.
		s.signal()
	}
}

// Gone tells the gateway that the client closed the stream. For a modern request that cancels it; for a legacy one it
// means nothing, because the client may resume.
func (s *Stream) Gone() {
	s.mu.Lock()
	gone := s.gone
	s.left = true
	s.mu.Unlock()
	if gone != nil {
		gone()
	}
	s.drop()
}

// onGone sets what happens when the client leaves. A client that left before, while the server was starting, counts.
func (s *Stream) onGone(f func()) {
	s.mu.Lock()
	s.gone = f
	left := s.left
	s.mu.Unlock()
	if left {
		f()
	}
}

// Resumable turns on retention; the edge calls it before it writes the first event id.
func (s *Stream) resumable(id string) {
	s.mu.Lock()
	s.ID, s.keep = id, true
	if s.began.IsZero() {
		s.began = time.Now()
	}
	s.mu.Unlock()
}

func (s *Stream) isEnded() (bool, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended, s.closed
}

// size is what the stream retains, in bytes.
func (s *Stream) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

func (s *Stream) isLive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live
}

// EventID is the id of one event: <stream>.<epoch>.<seq>, to which Reader.Stamp may be added.
func EventID(stream string, epoch, seq uint64) string {
	return stream + "." + strconv.FormatUint(epoch, 10) + "." + strconv.FormatUint(seq, 10)
}
