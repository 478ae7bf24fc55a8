//go:build unix

package shim

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"time"

	"mcpx/internal/process"
)

const (
	// helloWait bounds the silence of a new connection.
	helloWait = 5 * time.Second
	// maxControls bounds control connections: ps, logs, doctor and a stop together need three.
	maxControls = 8
	// readBuffer is the size of the buffer behind the attachment: a few dozen small messages.
	readBuffer = 32 << 10
	// controlBuffer is enough for HELLO, STATUS and TERMINATE.
	controlBuffer = 4 << 10
	// stdinWait is how long a child may live on after it closed stdin: nothing can be asked of it any more.
	stdinWait = 3 * time.Second
)

// accept serves connections until the listener is closed.
func (s *supervisor) accept(l *net.UnixListener) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(100 * time.Millisecond) // out of descriptors: somebody will close one
			continue
		}
		go s.serve(c)
	}
}

// peer is a connection before it is known what it wants, and a control connection afterwards.
type peer struct {
	conn       *net.UnixConn
	generation uint64
}

func (p peer) send(k kind, value any) error {
	var payload []byte
	if value != nil {
		b, err := json.Marshal(value)
		if err != nil {
			return err
		}
		payload = b
	}
	return p.sendRaw(k, payload)
}

func (p peer) sendRaw(k kind, payload []byte) error {
	h := header{length: uint32(len(payload)), kind: k, generation: uint32(p.generation)}
	_ = p.conn.SetWriteDeadline(time.Now().Add(helloWait)) // fails only on a closed connection, and so does Write
	_, err := p.conn.Write(append(h.append(nil), payload...))
	return err
}

// serve reads HELLO and does what its role asks.
func (s *supervisor) serve(c *net.UnixConn) {
	owner, err := process.PeerOf(c)
	if err != nil || owner.UID != os.Geteuid() {
		_ = c.Close() // the directory and the mode of the socket keep others out already
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(helloWait)) // fails only on a closed connection, and so does next
	r := newFrameReader(c, controlBuffer)
	f, err := r.next()
	var h hello
	if err != nil || f.kind != kindHello || json.Unmarshal(f.body, &h) != nil {
		_ = c.Close()
		return
	}
	_ = c.SetReadDeadline(time.Time{})
	p := peer{conn: c, generation: h.Generation}
	if reason := s.checkHello(h); reason != "" {
		_ = p.send(kindRefused, refused{Reason: reason})
		_ = c.Close()
		return
	}
	if h.Role == roleControl {
		s.control(p, r)
		_ = c.Close()
		return
	}
	if no := s.attach(c, h); no != nil {
		_ = p.send(kindRefused, no)
		_ = c.Close()
	}
}

func (s *supervisor) checkHello(h hello) string {
	switch {
	case subtle.ConstantTimeCompare([]byte(h.Token), []byte(s.token)) != 1 || h.Instance != s.spec.ID:
		return refusedToken
	case h.Role == roleControl:
		return "" // what a control connection may ask is frozen for ever
	case h.Max < protoMin || h.Min > protoMax || h.Role != roleAttach:
		return refusedProtocol
	}
	return ""
}

// attach makes the daemon the holder and starts the child at the first time. A nil answer means that the connection
// was taken over.
func (s *supervisor) attach(c *net.UnixConn, h hello) *refused {
	s.mu.Lock()
	if no := s.mayAttachLocked(h); no != nil {
		s.mu.Unlock()
		return no
	}
	a, err := newAttachment(c, h.Generation, h.Daemon)
	if err != nil {
		s.mu.Unlock()
		return &refused{Reason: refusedExiting}
	}
	before := s.generation
	s.generation, s.lastDaemon = h.Generation, h.Daemon.Identity
	if s.orphan != nil {
		s.orphan.Stop()
	}
	fresh := s.state == stateWaiting
	if fresh {
		s.spawnLocked()
	}
	w := welcome{
		Protocol: min(h.Max, protoMax), Version: s.spec.Version, State: s.state, Started: s.childStart,
		Generation: before, Counters: s.countersLocked(),
	}
	if s.life != nil {
		id := s.life.child.ID
		w.Child = &id
	}
	kept := s.kept.take()
	a.pong.Store(int64(time.Since(s.started)))
	a.mu.Lock() // before anything that the child says now, the daemon reads WELCOME, what was kept, and READY
	old := s.holder.Swap(a)
	s.mu.Unlock()

	if old != nil {
		old.supersede(h.Daemon)
	}
	if err := a.greetLocked(w, kept); err != nil {
		a.mu.Unlock()
		s.leave(a)
		return nil
	}
	a.mu.Unlock()
	if fresh {
		_ = s.writeRecord() // without it a later daemon cannot check the child's identity; the child goes on
		close(s.first)
		s.trimLater()
	}
	s.pumpInput(a)
	return nil
}

// mayAttachLocked applies the rules of generations; nil means yes.
func (s *supervisor) mayAttachLocked(h hello) *refused {
	same := h.Generation == s.generation && h.Daemon.Identity == s.lastDaemon
	old := s.holder.Load()
	switch {
	case s.exit != nil || s.state == stateEnding && s.life == nil:
		return &refused{Reason: refusedExiting}
	case h.Generation < s.generation, h.Generation == s.generation && s.generation != 0 && !same:
		return &refused{Reason: refusedStale, Generation: s.generation}
	case old == nil:
		return nil
	case h.Generation > s.generation && (h.Steal || s.deaf(old)):
		return nil
	}
	return &refused{Reason: refusedBusy, Holder: old.daemon, Generation: s.generation}
}

// deaf reports whether a holder has shown no life for too long.
func (s *supervisor) deaf(a *attachment) bool {
	return time.Since(s.started)-time.Duration(a.pong.Load()) > deafAfter
}

func (a *attachment) greetLocked(w welcome, kept [][]byte) error {
	b, err := json.Marshal(w)
	if err != nil {
		return err
	}
	a.frameLocked(kindWelcome, 0, b)
	for _, line := range kept {
		a.seq++
		h := header{length: uint32(len(line)), kind: kindMsg, flags: flagKept, generation: uint32(a.generation), seq: a.seq}
		a.out = append(h.append(a.out), line...)
	}
	a.frameLocked(kindReady, 0, nil)
	return a.flushLocked()
}

// supersede tells a holder that it lost its place. It may be deaf, so nothing waits for it.
func (a *attachment) supersede(by daemonInfo) {
	go func() {
		_ = a.json(kindSuperseded, by)
		a.close()
	}()
	time.AfterFunc(helloWait, a.close)
}

// pumpInput carries messages of one holder to the child until the holder leaves.
func (s *supervisor) pumpInput(a *attachment) {
	defer s.leave(a)
	r := newFrameReader(eagerly(a.conn, a.lateAck), readBuffer)
	out := make([]byte, 0, readBuffer)
	var last uint64
	for {
		f, err := r.next()
		if err != nil {
			if errors.Is(err, io.ErrUnexpectedEOF) {
				s.count.partialIn.Add(1)
			}
			return
		}
		if f.generation != uint32(a.generation) {
			return
		}
		if f.kind != kindMsg {
			if !s.command(a, f) {
				return
			}
			continue
		}
		if len(f.body) > maxToChild {
			return
		}
		last = f.seq
		a.pong.Store(int64(time.Since(s.started)))
		if f.owned {
			if !s.write(a, append(f.body, '\n'), last) {
				return
			}
			if len(f.body) >= bigMessage {
				s.trimLater()
			}
			continue
		}
		out = append(append(out, f.body...), '\n')
		if r.buffered() && r.peekKind() == kindMsg && len(out) < readBuffer {
			continue // one write for all that came together
		}
		if !s.write(a, out, last) {
			return
		}
		out = out[:0]
	}
}

// write gives whole lines to the child and acknowledges them. False: the holder was superseded.
func (s *supervisor) write(a *attachment, lines []byte, seq uint64) bool {
	s.toChild.Lock()
	defer s.toChild.Unlock()
	if s.holder.Load() != a {
		return false
	}
	s.mu.Lock()
	l := s.life
	s.mu.Unlock()
	if l == nil || l.ending() {
		return true // not acknowledged: the message never reached the child, and EXIT says so
	}
	if _, err := l.child.Stdin.Write(lines); err != nil {
		if process.IsClosedPipe(err) {
			go l.stdinClosed()
		}
		return true
	}
	a.wrote(seq, len(lines))
	return true
}

// stdinClosed ends a child that lives on although nobody can ask it anything any more.
func (l *life) stdinClosed() {
	if !within(l.child.Done(), stdinWait) {
		l.end(reasonTerminated, "it closed stdin", process.Ladder{})
	}
}

// command handles what is no message. False: the connection is over.
func (s *supervisor) command(a *attachment, f frame) bool {
	a.pong.Store(int64(time.Since(s.started)))
	switch f.kind {
	case kindPing:
		return a.control(kindPong, nil) == nil
	case kindTerminate:
		s.terminate(f.body)
	case kindDetach:
		// The place is free before the answer is sent: the next daemon may follow at once. TestAttachRules reads `busy`
		// with the two lines swapped.
		s.vacate(a)
		_ = a.control(kindDetached, nil) // the daemon takes the end of the connection for an answer, too
		s.mu.Lock()
		ended := s.exit != nil
		s.mu.Unlock()
		if ended {
			close(s.delivered)
		}
		return false
	}
	return true // PONG was noted above; kinds of newer daemons are ignored
}

func (s *supervisor) terminate(body []byte) {
	var t terminate
	if json.Unmarshal(body, &t) != nil {
		t.Reason = "stop" // a stop is a stop, whatever a newer daemon wrote beside it
	}
	s.end(t.Reason, t.Ladder)
}

// control serves status, last words and stop beside the attachment, so a child that reads nothing can be stopped.
func (s *supervisor) control(p peer, r *frameReader) {
	s.mu.Lock()
	full := s.controls >= maxControls
	if !full {
		s.controls++
	}
	s.mu.Unlock()
	if full {
		_ = p.send(kindRefused, refused{Reason: refusedBusy})
		return
	}
	defer func() {
		s.mu.Lock()
		s.controls--
		s.mu.Unlock()
	}()
	if p.send(kindReady, nil) != nil {
		return
	}
	for {
		f, err := r.next()
		if err != nil {
			return
		}
		switch f.kind {
		case kindStatus:
			err = p.send(kindStatus, s.status())
		case kindStderr:
			err = p.sendRaw(kindStderr, s.tail.last(tailRing))
		case kindTerminate:
			s.terminate(f.body)
			err = p.send(kindTerminate, nil) // understood; the end itself is told to the holder
		case kindPing:
			err = p.send(kindPong, nil)
		}
		if err != nil {
			return
		}
	}
}

func (s *supervisor) status() status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := status{
		Version: s.spec.Version, State: s.state, Pid: s.self.Pid, Started: s.childStart,
		Generation: s.generation, Counters: s.countersLocked(),
	}
	if s.life != nil {
		id := s.life.child.ID
		st.Child = &id
	}
	if a := s.holder.Load(); a != nil {
		st.Attached, st.Holder = true, a.daemon
	}
	return st
}
