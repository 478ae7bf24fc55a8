package shim

import (
	"bytes"
	"strings"
	"time"

	"mcpx/internal/rpc"
)

const (
	// maxEntries bounds the requests that are remembered in each direction. A lane of a busy gateway has some dozens.
	maxEntries = 4096
	// maxKept bounds the bytes of the answers and questions that are kept, both directions together, and of each of them.
	maxKept = 16 << 20
	// maxRequest bounds a handshake whose own bytes are kept; they are a few hundred.
	maxRequest = 64 << 10
	// maxSpares bounds the entries that wait to be used again: as many as a busy lane has open at a time.
	maxSpares = 64
	// maxMethod bounds what is kept of a method's name. It is for people and for the daemon's tables, all far shorter.
	maxMethod = 256
)

// callState is how far a request to the child is; gateway.CallState has the same texts.
type callState uint8

const (
	running callState = iota
	answered
	lost // answered, and the answer is not kept
)

func (s callState) String() string { return [...]string{"running", "answered", "lost"}[s] }

// Handshake states, as WELCOME names them.
const (
	handshakeNone        = "none"
	handshakeSent        = "sent"
	handshakeAnswered    = "answered"
	handshakeInitialized = "initialized"
)

// journal remembers what the child was asked, what it answered and what it asks, so that the next daemon loses nothing
// (supervisor.md section 6). It does no I/O and has no lock: the supervisor calls it with mu held. Times are readings of
// one monotonic clock.
//
// Invariant: the bytes that it holds are bounded by maxKept, keptBytes and the entries; what did not fit is counted.
type journal struct {
	bounds
	asked   order             // requests to the child that are not done with
	open    index             // those without an answer, by id
	numbers map[uint64]*entry // all of them, by number
	running int               // how many are open

	asking order // requests of the child without an answer
	wanted index // the same, by id

	frames kept // the answers and questions that are held
	ring   ring // what belongs to no request
	clock  uint64

	spare    *entry // entries to use again, linked by next
	spares   int
	finished finished
	blind    time.Duration // until then absence proves nothing
	away     time.Duration // how long there was no daemon: nothing of what it did is forgotten in that time

	handshake string
	shaken    *entry   // the entry whose request bytes are held
	refusals  [][]byte // raw ids of questions that nobody will answer: the caller must
	refused   uint64   // how many there were
}

// bounds are maxEntries and maxKept, but for tests.
type bounds struct{ entries, bytes int }

func newJournal(b bounds) journal {
	return journal{bounds: b, numbers: map[uint64]*entry{}, open: index{}, wanted: index{}, handshake: handshakeNone}
}

// number names a request for ever: seq is the one of its MSG frame.
func number(generation, seq uint64) uint64 { return generation<<32 + seq }

// entry is one request in either direction.
type entry struct {
	number uint64
	text   string // raw id, method and tag, one after the other: one allocation for what is kept of a request
	idEnd  int
	tagAt  int
	key    string        // of the id: two tokens that a peer may take for the same have the same
	at     time.Duration // when it was written
	state  callState

	frame     []byte // the answer, or the question of the child; nil: none is held
	arrived   uint64 // order of frames among all that is held
	delivered bool   // the frame is an answer that a daemon was given
	question  bool
	request   []byte // of a handshake

	same         *entry // the next younger one with the same key
	prev, next   *entry // in the order of registration
	older, newer *entry // among the frames that are held
}

func (e *entry) id() string     { return e.text[:e.idEnd] }
func (e *entry) method() string { return e.text[e.idEnd:e.tagAt] }
func (e *entry) tag() string    { return e.text[e.tagAt:] }

// entry copies what is kept of a request.
func (j *journal) entry(id, method, tag []byte, at time.Duration) *entry {
	var text strings.Builder
	text.Grow(len(id) + len(method) + len(tag))
	text.Write(id)
	text.Write(method)
	text.Write(tag)
	e := j.spare
	if e == nil {
		e = new(entry)
	} else {
		j.spare = e.next
		j.spares--
	}
	*e = entry{text: text.String(), idEnd: len(id), tagAt: len(id) + len(method), at: at}
	if e.key = e.id(); !plainID(id) {
		e.key = idKey(id)
	}
	return e
}

// ask registers a request before it is written to the child. id and method are raw tokens of line. There must be room.
func (j *journal) ask(now time.Duration, n uint64, id, method, tag, line []byte) {
	if j.asked.len >= j.entries {
		j.finishOldest(now)
	}
	name := methodName(method)
	e := j.entry(id, name, tag, now)
	e.number = n
	j.asked.add(e)
	j.open.add(e)
	j.numbers[n] = e
	j.running++
	if !isHandshake(name) {
		return
	}
	j.handshake = handshakeSent
	if j.shaken != nil {
		j.shaken.request = nil
	}
	if len(line) <= maxRequest {
		e.request = append([]byte(nil), line...)
	}
	j.shaken = e
}

// room says whether n more requests may be registered. Without room nothing is read from the daemon.
func (j *journal) room(n int) bool { return j.running+n <= j.entries }

// unseen notes that a request was written which could not be registered: absence proves nothing for a while.
func (j *journal) unseen(now time.Duration) { j.blind = now - j.away + finishedFor }

// unask takes a request back that was not written after all.
func (j *journal) unask(n uint64) {
	if e := j.numbers[n]; e != nil {
		j.remove(e)
	}
}

// told notes a message to the child that is no request.
func (j *journal) told(id, method []byte) {
	switch {
	case method != nil:
		if string(methodName(method)) == "notifications/initialized" {
			j.handshake = handshakeInitialized
		}
	case id != nil:
		if e := j.wanted.oldest(id); e != nil {
			j.drop(e)
		}
	}
}

// line takes what the child said. given says that a daemon is attached and gets the line at once; keep says that it
// will tell when it is done with an answer. held means that the journal has taken care of the line: it must not be sent
// again when the daemon turns out to be gone.
func (j *journal) line(now time.Duration, line []byte, given, keep bool) (held bool) {
	if rpc.IsBatch(line) {
		return j.batch(now, line, given, keep)
	}
	id, method, ok := rpc.Ends(line)
	switch {
	case ok && id.Ok() && !method.Ok():
		held = j.answer(now, id.Of(line), line, given, keep)
	case ok && id.Ok():
		held = j.question(now, id.Of(line), method.Of(line), line, given)
	}
	if !held && !given {
		j.keepLine(line)
	}
	return held
}

// batch goes through the messages of an array; unattached they are kept one by one.
func (j *journal) batch(now time.Duration, line []byte, given, keep bool) (held bool) {
	parts, err := rpc.Batch(line)
	if err != nil {
		if !given {
			j.keepLine(line)
		}
		return false
	}
	for _, p := range parts {
		part := append([]byte(nil), p.Of(line)...)
		if rpc.IsBatch(part) {
			continue // no message, and nobody reads it as one
		}
		held = j.line(now, part, given, keep) || held
	}
	return held || !given
}

// keepLine keeps a line that belongs to no request.
func (j *journal) keepLine(line []byte) {
	j.clock++
	j.ring.add(j.clock, line)
}

// answer takes a response of the child. False: it answers nothing that is known.
func (j *journal) answer(now time.Duration, id, line []byte, given, keep bool) bool {
	e := j.open.oldest(id)
	if e == nil {
		return false
	}
	j.close(e)
	switch {
	case given && !keep:
		j.finish(now, e)
	case len(line) > j.bytes:
		e.state = lost
	default:
		e.state = answered
		j.hold(e, line, given)
	}
	// With the answer not held the daemon must get it now; when it is gone, the entry says that it is lost.
	return true
}

// close notes that an open entry has its answer.
func (j *journal) close(e *entry) {
	j.open.drop(e)
	j.running--
	if j.shaken == e && j.handshake == handshakeSent {
		j.handshake = handshakeAnswered
	}
}

// overlong notes an answer that passed the limit of a line.
func (j *journal) overlong(id []byte) {
	if e := j.open.oldest(id); e != nil {
		j.close(e)
		e.state = lost
	}
}

// question takes a request of the child.
func (j *journal) question(now time.Duration, id, method, line []byte, given bool) bool {
	if len(line) > j.bytes {
		if !given {
			j.refuse(string(id))
		}
		return !given
	}
	if j.asking.len >= j.entries {
		j.refuseEntry(j.asking.first)
	}
	e := j.entry(id, methodName(method), nil, now)
	e.question = true
	j.asking.add(e)
	j.wanted.add(e)
	j.hold(e, line, given)
	return true
}

// done removes entries that nobody needs any more.
func (j *journal) done(now time.Duration, n uint64) {
	if e := j.numbers[n]; e != nil {
		j.finish(now, e)
	}
}

// finish moves an entry to the done ring.
func (j *journal) finish(now time.Duration, e *entry) {
	j.remove(e)
	if !j.finished.add(now-j.away, e, j.entries) {
		j.unseen(now)
	}
	if j.spares < maxSpares {
		*e = entry{next: j.spare}
		j.spare = e
		j.spares++
	}
}

// finishOldest makes room: the oldest entry with an answer is given up. Whoever asks for it later is told what it would
// have been told of a lost answer.
func (j *journal) finishOldest(now time.Duration) {
	for e := j.asked.first; e != nil; e = e.next {
		if e.state != running {
			j.finish(now, e)
			return
		}
	}
}

// remove forgets an entry of a request to the child.
func (j *journal) remove(e *entry) {
	if e.state == running && j.open.drop(e) {
		j.running--
	}
	j.release(e)
	j.asked.remove(e)
	delete(j.numbers, e.number)
	e.request = nil
	if j.shaken == e {
		j.shaken = nil
	}
}

func isHandshake(method []byte) bool {
	return string(method) == "initialize" || string(method) == "server/discover"
}

// methodName is the text of a raw method, cut to what is kept of it.
func methodName(raw []byte) []byte {
	if len(raw) < 2 {
		return nil
	}
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') >= 0 {
		text, _ := rpc.Unquote(raw)
		inner = []byte(text)
	}
	return inner[:min(len(inner), maxMethod)]
}

// calls lists the requests that are not done with, oldest first.
func (j *journal) calls(now time.Duration) []keptCall {
	calls := make([]keptCall, 0, j.asked.len)
	for e := j.asked.first; e != nil; e = e.next {
		calls = append(calls, keptCall{
			Number: e.number, ID: []byte(e.id()), Method: e.method(), Tag: []byte(e.tag()), State: e.state.String(),
			Age: (now - e.at).Milliseconds(), Request: e.request,
		})
	}
	return calls
}

// sizes say how full it is.
func (j *journal) sizes() journalSizes {
	return journalSizes{
		Handshake: j.handshake, Running: j.running, Entries: j.asked.len, Questions: j.asking.len, Kept: j.frames.bytes,
		Ring: j.ring.size, Finished: j.finished.len,
	}
}

// info is what the next daemon is told.
func (j *journal) info(now time.Duration) journalInfo {
	present := now - j.away
	return journalInfo{Entries: j.calls(now), Finished: j.finished.calls(present), Complete: present >= j.blind}
}
