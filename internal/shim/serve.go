//go:build unix

package shim

import (
	"crypto/subtle"
	"encoding/json"
	"errors"
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
	case h.Max < spoken.min || h.Min > spoken.max || h.Role != roleAttach:
		return refusedProtocol
	}
	return ""
}

// deaf reports whether a holder has shown no life for too long.
func (s *supervisor) deaf(a *attachment) bool {
	return s.now()-time.Duration(a.pong.Load()) > deafAfter
}

// supersede tells a holder that it lost its place. It may be deaf, so nothing waits for it.
func (a *attachment) supersede(by daemonInfo) {
	go func() {
		_ = a.json(kindSuperseded, by)
		a.close()
	}()
	time.AfterFunc(helloWait, a.close)
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
		Generation: s.generation, Counters: s.countersLocked(), Min: spoken.min, Max: spoken.max, Journal: s.journal.sizes(),
	}
	st.Journal.Blob = len(s.blob)
	if s.life != nil {
		id := s.life.child.ID
		st.Child = &id
	}
	if a := s.holder.Load(); a != nil {
		st.Attached, st.Holder, st.Protocol = true, a.daemon, a.protocol
	}
	return st
}
