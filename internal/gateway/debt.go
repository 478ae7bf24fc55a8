package gateway

import (
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// What a supervisor keeps for a call (its journal entry, with the answer) is given up with KeptLink.Done. Exactly one
// Done is due for each request that was handed to such a link:
//
//   - at once, when the call ended without its answer (cancelled, timed out), or was the gateway's own;
//   - when nobody may resume its stream any more, and nobody has read it;
//   - some time after its answer was written to the client: a daemon that dies in between can still repeat it.
const (
	// payAfter is the shortest time between the end of a write and Done. It has to cover what lies in buffers of this
	// process when the write returns, and in a process that relays it.
	payAfter = time.Second
	// settledAfter is the same for a daemon that lets go. What it wrote later stays, and the next one gives it up when nobody
	// may resume it any more.
	settledAfter = payAfter / 4
	// maxPaid and maxPaidBytes bound what waits for that time; above, the older half is given up early, but never what
	// was written last. The journal holds 4096 entries and 16 MiB, and a full journal stops the server.
	maxPaid      = 512
	maxPaidBytes = 4 << 20
	// maxOwed bounds the answers of one lane that nobody has read yet. Above it some are given up: they can still be
	// resumed, but not after a crash.
	maxOwed = 2048
	// maxGhosts bounds the ids of cancelled calls that a lane remembers: those of an earlier daemon, up to 4096, and as many.
	maxGhosts = 8192
)

// debt is an answer that a supervisor still keeps. The zero debt is none.
type debt struct {
	lane *lane
	key  string // comparison key of the id that the server sees
	ref  uint64
	size int
	at   time.Time // when it was delivered
}

// paid says that the answer was written to the client.
func (d debt) paid() {
	if d.lane != nil {
		d.lane.paid(d)
	}
}

// drop says that nobody will read the answer.
func (d debt) drop() {
	if d.lane != nil {
		d.lane.drop(d)
	}
}

// owe notes an answer that was received and not yet read by its client; the lane is locked.
func (l *lane) oweLocked(key string, ref uint64, size int) debt {
	if l.answered == nil {
		l.answered = map[string]uint64{}
	}
	l.answered[key] = ref
	return debt{lane: l, key: key, ref: ref, size: size}
}

func (l *lane) paid(d debt) {
	d.at = time.Now()
	l.mu.Lock()
	if l.answered[d.key] != d.ref {
		l.mu.Unlock()
		return
	}
	l.delivered = append(l.delivered, d)
	l.paidBytes += d.size
	var due []uint64
	if len(l.delivered) > maxPaid || l.paidBytes > maxPaidBytes {
		n := 0
		for left := l.paidBytes; n < len(l.delivered)-1 && (len(l.delivered)-n > maxPaid/2 || left > maxPaidBytes/2); n++ {
			left -= l.delivered[n].size
		}
		due = l.payLocked(n)
	}
	begin := !l.paying
	l.paying = true
	l.mu.Unlock()
	if begin {
		time.AfterFunc(payAfter, l.pay)
	}
	l.done(due...)
}

// pay gives up what was delivered at least payAfter ago.
func (l *lane) pay() {
	l.mu.Lock()
	due := l.payLocked(l.deliveredLocked(payAfter))
	l.paying = len(l.delivered) > 0
	again := l.paying
	l.mu.Unlock()
	l.done(due...)
	if again {
		time.AfterFunc(payAfter, l.pay)
	}
}

// settleUp gives up what surely reached its client, for a lane that is being left: the next daemon need not get it once more.
func (l *lane) settleUp() {
	l.mu.Lock()
	due := l.payLocked(l.deliveredLocked(settledAfter))
	l.mu.Unlock()
	l.done(due...)
}

// deliveredLocked counts the answers that were delivered so long ago.
func (l *lane) deliveredLocked(ago time.Duration) (n int) {
	now := time.Now() // as the timers have it
	for n < len(l.delivered) && now.Sub(l.delivered[n].at) >= ago {
		n++
	}
	return n
}

// payLocked gives up the n oldest of the answers that were delivered.
func (l *lane) payLocked(n int) []uint64 {
	var due []uint64
	for _, d := range l.delivered[:n] {
		if l.answered[d.key] == d.ref {
			delete(l.answered, d.key)
			due = append(due, d.ref)
		}
		l.paidBytes -= d.size
	}
	l.delivered = append(l.delivered[:0], l.delivered[n:]...)
	return due
}

func (l *lane) drop(d debt) {
	if l.srv.g.leaving() {
		return // the next daemon may still deliver it
	}
	l.mu.Lock()
	owed := l.answered[d.key] == d.ref
	if owed {
		delete(l.answered, d.key)
	}
	l.mu.Unlock()
	if owed {
		l.done(d.ref)
	}
}

// relieveLocked gives up unread answers when there are too many of them.
func (l *lane) relieveLocked() []uint64 {
	if len(l.answered) < maxOwed {
		return nil
	}
	due := make([]uint64, 0, maxOwed/4)
	for key, ref := range l.answered {
		delete(l.answered, key)
		if due = append(due, ref); len(due) == maxOwed/4 {
			break
		}
	}
	return due
}

// done tells the supervisor. A lane that ends needs no Done, and one that the next daemon takes over must not get it.
func (l *lane) done(refs ...uint64) {
	if len(refs) > 0 && l.kept != nil && !l.srv.g.leaving() {
		crash.Point("gateway.done")
		l.kept.Done(refs...)
	}
}

// leaving reports whether what is in flight belongs to the next daemon.
func (g *Gateway) leaving() bool { return g.handed.Load() || g.ctx.Err() != nil }

// ghostLocked remembers the id of a call that ended while the server worked on it. Its answer may still come, and must
// not be taken for that of a later call.
func (l *lane) ghostLocked(c *call) {
	if l.era != era.Legacy || c.stream == nil {
		return // ids of all others are never used twice
	}
	l.ghostKeyLocked(c.upKey)
}

func (l *lane) ghostKeyLocked(upKey string) {
	if len(l.ghosts) >= maxGhosts {
		l.distinct = true
		return
	}
	if l.ghosts == nil {
		l.ghosts = map[string]struct{}{}
	}
	l.ghosts[upKey] = struct{}{}
}

// exorcise forgets the id of a call that will not be answered.
func (l *lane) exorcise(c *call) {
	l.mu.Lock()
	delete(l.ghosts, c.upKey)
	l.mu.Unlock()
}

// distinguishLocked gives the call an id of its own when the one it has may still get the answer of an earlier call.
// It returns the entry of an earlier call with that id whose answer nobody needs any more, now that its client uses the
// id again.
func (l *lane) distinguishLocked(c *call) (former uint64) {
	if ref, ok := l.answered[c.upKey]; ok {
		delete(l.answered, c.upKey)
		former = ref
	}
	_, ghost := l.ghosts[c.upKey]
	if !ghost && !l.distinct && l.calls[c.upKey] == nil || c.stream == nil {
		return former
	}
	x, ok := c.owner.(*Session)
	if !ok {
		return former
	}
	w := wireID{Epoch: l.srv.g.cfg.Epoch, Kind: idLegacy, Session: x.short, Stream: l.nextStream()}
	m := mustScan(c.out.Body)
	w.Orig = origOf(c.id)
	c.upID = l.makeID(w)
	c.upKey, _ = rpc.IDKey(c.upID)
	edits := []rpc.Edit{{At: m.ID, With: c.upID}}
	if m.ProgressToken.Ok() && c.token != nil {
		w.Orig = origOf(c.token)
		c.upRaw = l.makeID(w)
		c.upTok, _ = rpc.IDKey(c.upRaw)
		edits = append(edits, rpc.Edit{At: m.ProgressToken, With: c.upRaw})
	}
	c.out.Body = rpc.Splice(c.out.Body, edits...)
	c.out.Tag = x.tagOf(c)
	return former
}

// finishedLocked removes a call that its backend has ended, and says what the supervisor is owed: refs to be given up at
// once, or the debt of an answer on its way to a client.
func (l *lane) finishedLocked(c *call, size int) (d debt, due []uint64) {
	ref := c.number()
	if l.kept == nil || ref == 0 {
		return debt{}, nil
	}
	switch {
	case c.hold:
		l.handshake = append(l.handshake, ref)
	case c.stream == nil:
		due = []uint64{ref}
	default:
		due = l.relieveLocked()
		d = l.oweLocked(c.upKey, ref, size)
	}
	return d, due
}
