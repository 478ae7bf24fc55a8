package gateway

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// Promote makes the stream of a POST resumable; the edge calls it before it writes the first event id.
func (x *Session) Promote(st *Stream, id []byte) {
	name := era.StreamName(id)
	st.resumable(name)
	x.mu.Lock()
	former := x.streams[name]
	x.streams[name] = st
	over := x.trimStreamsLocked()
	x.mu.Unlock()
	if former != nil && former != st {
		over = append(over, former) // the client uses the id again
	}
	dropAll(over)
}

// dropAll gives up streams that nobody can resume any more.
func dropAll(streams []*Stream) {
	for _, st := range streams {
		st.drop()
	}
}

// trimStreamsLocked forgets the streams that ended first until what is kept for a resume is within the bounds. The one
// that ended last stays whatever its size: its client has not had time to come back.
// What it forgets is returned, to be dropped without the lock.
func (x *Session) trimStreamsLocked() (dropped []*Stream) {
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
		dropped = append(dropped, x.streams[over[0].name])
		delete(x.streams, over[0].name)
		total -= over[0].size
		over = over[1:]
	}
	return dropped
}

// sweepStreams forgets streams that nobody may resume any more.
func (x *Session) sweepStreams(now time.Time) {
	x.mu.Lock()
	var over []*Stream
	for name, st := range x.streams {
		if ended, at := st.isEnded(); ended && now.Sub(at) > replayFor {
			delete(x.streams, name)
			over = append(over, st)
		}
	}
	over = append(over, x.trimStreamsLocked()...)
	if x.past != nil && now.After(x.past.until.Add(witnessFor)) {
		x.past.ends, x.early = nil, nil
	}
	x.mu.Unlock()
	dropAll(over)
}

// Standalone is the stream of a GET without a cursor.
func (x *Session) Standalone() *Reader { return x.get.Follow() }

// Resume finds the stream that an event id names and continues after it. An event id of an earlier daemon names the
// request: it is joined again, or told how it ended (supervisor.md section 10); epoch 0 stands for any daemon. While it is
// being found out whether the server outlived that daemon, Resume waits. 400 for what cannot be resumed: 404 would tell the
// client that its session is gone.
//
// relayed says that a process asks which sends the request itself when nobody did: its client is not told.
func (x *Session) Resume(ctx context.Context, lastEventID string, relayed bool) (*Stream, *Reader, *Refusal) {
	bad := &Refusal{Status: 400, Code: era.CodeInvalidRequest, Message: "Last-Event-ID names no stream of this session that can be resumed; open one without it"}
	parts := strings.Split(lastEventID, ".")
	if len(parts) != 3 && len(parts) != 4 {
		return nil, nil, bad
	}
	began, fine := stampOf(parts[3:])
	if !fine {
		return nil, nil, bad
	}
	epoch, err1 := strconv.ParseUint(parts[1], 10, 64)
	seq, err2 := strconv.ParseUint(parts[2], 10, 64)
	if err1 != nil || err2 != nil || epoch > x.srv.g.cfg.Epoch || epoch == 0 && seq != 0 {
		return nil, nil, bad
	}
	// A daemon that ends knows nothing for certain any more: the next one does.
	ending := &Refusal{Status: 503, Code: CodeBusy, Message: "the daemon is stopping; try again"}
	if x.srv.ends() {
		return nil, nil, ending
	}
	if seq > 0 {
		began = longAgo // its client has seen a message of the stream: the request was sent, however young it is
	}
	if epoch == x.srv.g.cfg.Epoch {
		st := x.streamNamed(parts[0], nil)
		if st != nil {
			if r, ok := st.Read(seq); ok {
				return st, r, nil
			}
		}
		if st != nil || seq > 0 {
			return nil, nil, bad
		}
		// The beginning of a stream that is not kept, such as one that only told another process that a request was not sent.
		// What became of the request is known all the same.
	}
	id := streamID(parts[0])
	name := parts[0]
	if id != nil {
		name = era.StreamName(id) // a long id may come whole
	}
	st := x.streamNamed(name, id)
	if st == nil {
		x.slot.decided(ctx)
		if x.srv.ends() || ctx.Err() != nil {
			// Whoever asked may have been cut off before it was decided. What is not known yet must not be kept as the
			// outcome: the client asks again.
			return nil, nil, ending
		}
		if st = x.streamNamed(name, id); st == nil {
			st = x.outcome(name, id, began, relayed)
		}
	}
	if st == nil {
		return nil, nil, bad
	}
	return st, st.fromStart(), nil
}

// ends reports whether another daemon has the children of the server, or soon will have.
func (s *Server) ends() bool { return s.g.ctx.Err() != nil || s.moving.Load() }

// streamNamed finds a stream, or the call in flight that would have it; a call is joined only by a client that names its
// id or has seen events of it.
func (x *Session) streamNamed(name string, id []byte) *Stream {
	if name == standaloneID {
		return x.get
	}
	idKey, _ := rpc.IDKey(id)
	x.mu.Lock()
	st := x.streams[name]
	var c *call
	if st == nil && id != nil {
		c = x.calls[idKey]
	}
	x.mu.Unlock()
	if c == nil || c.stream == nil {
		return st
	}
	x.Promote(c.stream, c.id)
	return c.stream
}

// outcome makes the stream that tells how a call of an earlier daemon ended. began is when its stream did, zero when that is
// not known. relayed is that of Resume.
func (x *Session) outcome(name string, id []byte, began time.Time, relayed bool) *Stream {
	now := x.srv.g.now()
	x.mu.Lock()
	var k kept
	ok := false
	if x.past != nil {
		k, ok = x.past.of(name, id, relayed, now)
		if k.told.class == NotSent && !x.past.covers(id, began) {
			k.told = x.past.later
		}
	}
	x.mu.Unlock()
	if !ok {
		return nil
	}
	st := newStream(name, true) // who relays goes on with its event ids, too
	st.verdict = true
	st.finish(k.told.body(k.id, x.srv.name(), k.method), 200)
	if relayed && k.told.class == NotSent {
		return st // nobody else must find it
	}
	x.news.Store(nil) // this tells it
	if k.told.class != NotSent {
		st.began = longAgo // the call is older than this stream, and no later daemon may say that it was not sent
	}
	x.Promote(st, k.id)
	return st
}

// Epoch is the daemon's start counter, part of event ids.
func (x *Session) Epoch() uint64 { return x.srv.g.cfg.Epoch }
