package gateway

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/era"
)

// Promote makes the stream of a POST resumable; the edge calls it before it writes the first event id.
func (x *Session) Promote(st *Stream, id []byte) {
	name := era.StreamName(id)
	st.resumable(name)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.streams[name] = st
	x.trimStreamsLocked()
}

// trimStreamsLocked forgets the streams that ended first until what is kept for a resume is within the bounds. The one
// that ended last stays whatever its size: its client has not had time to come back.
func (x *Session) trimStreamsLocked() {
	type ended struct {
		name string
		at   time.Time
		size int
	}
	var over []ended
	total := 0
	for name, st := range x.streams {
		if done, at := st.isEnded(); done {
			size := st.size()
			total += size
			over = append(over, ended{name, at, size})
		}
	}
	slices.SortFunc(over, func(a, b ended) int { return a.at.Compare(b.at) })
	for len(over) > 1 && (total > maxReplayBytes || len(x.streams) > maxReplays) {
		delete(x.streams, over[0].name)
		total -= over[0].size
		over = over[1:]
	}
}

// sweepStreams forgets streams that nobody may resume any more.
func (x *Session) sweepStreams(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, st := range x.streams {
		if ended, at := st.isEnded(); ended && now.Sub(at) > replayFor {
			delete(x.streams, name)
		}
	}
	x.trimStreamsLocked()
}

// Standalone is the stream of a GET without a cursor.
func (x *Session) Standalone() *Reader { return x.get.Follow() }

// Resume finds the stream that an event id names and continues after it. 400 for what cannot be resumed: 404 would
// tell the client that its session is gone.
func (x *Session) Resume(lastEventID string) (*Stream, *Reader, *Refusal) {
	bad := &Refusal{Status: 400, Code: era.CodeInvalidRequest, Message: "Last-Event-ID names no stream of this session that can be resumed"}
	parts := strings.Split(lastEventID, ".")
	if len(parts) != 3 {
		return nil, nil, bad
	}
	epoch, err1 := strconv.ParseUint(parts[1], 10, 64)
	seq, err2 := strconv.ParseUint(parts[2], 10, 64)
	if err1 != nil || err2 != nil || epoch != x.srv.g.cfg.Epoch {
		return nil, nil, bad
	}
	st := x.get
	if parts[0] != standaloneID {
		x.mu.Lock()
		st = x.streams[parts[0]]
		x.mu.Unlock()
	}
	if st == nil {
		return nil, nil, bad
	}
	r, ok := st.Read(seq)
	if !ok {
		return nil, nil, bad
	}
	return st, r, nil
}

// Epoch is the daemon's start counter, part of event ids.
func (x *Session) Epoch() uint64 { return x.srv.g.cfg.Epoch }
