//go:build unix

package shim

import (
	"slices"

	"mcpx/internal/crash"
	"mcpx/internal/era"
	"mcpx/internal/rpc"
)

// messages is called by the stdout pump: to the daemon, or kept until one comes.
func (s *supervisor) messages(lines [][]byte) {
	s.mu.Lock()
	a := s.holder.Load()
	if a == nil || slices.ContainsFunc(lines, func(line []byte) bool { return len(line) >= bigMessage }) {
		defer s.trimLater()
	}
	now := s.now()
	s.held = s.held[:0]
	for _, line := range lines {
		s.held = append(s.held, s.journal.line(now, line, a != nil, a != nil && a.journals()))
	}
	refused := s.journal.takeRefusals()
	s.room.Broadcast()
	s.mu.Unlock()
	crash.Point("supervisor.answer-journalled")
	s.refuse(refused)
	if a != nil {
		s.pass(a, lines, s.held)
		crash.Point("supervisor.answer-sent")
	}
}

// pass sends lines to the holder. When it turns out to be gone, the next one gets those that the journal does not hold.
func (s *supervisor) pass(a *attachment, lines [][]byte, held []bool) {
	sent, err := a.messages(lines)
	if err == nil {
		return
	}
	s.leave(a)
	var rest [][]byte
	for i := sent; i < len(lines); i++ {
		if !held[i] {
			rest = append(rest, lines[i])
		}
	}
	for len(rest) > 0 {
		s.mu.Lock()
		if a = s.holder.Load(); a == nil {
			for _, line := range rest {
				s.journal.keepLine(line)
			}
			rest = nil
		}
		s.mu.Unlock()
		if a != nil {
			sent, err := a.messages(rest)
			if rest = rest[sent:]; err != nil {
				s.leave(a)
			}
		}
	}
}

// refuse answers questions of the child that nobody can answer. It waits for the child behind the pump's back: a child
// that reads only after it has written would wait for us, and we for it.
func (s *supervisor) refuse(ids [][]byte) {
	if len(ids) == 0 {
		return
	}
	var lines []byte
	for _, id := range ids {
		lines = append(append(lines, rpc.ErrorResponse(id, era.CodeInternal, "nobody is there to answer", nil)...), '\n')
	}
	go func() {
		s.toChild.Lock()
		defer s.toChild.Unlock()
		s.mu.Lock()
		l := s.life
		s.mu.Unlock()
		if l != nil && !l.ending() {
			_, _ = l.child.Stdin.Write(lines) // a child that is gone asks nothing any more
		}
	}()
}

// skipped is called by the stdout pump. The first of them is told at once: it is what a person looks for.
func (s *supervisor) skipped(line []byte) {
	if s.count.skipped.Add(1) == 1 {
		if a := s.holder.Load(); a != nil {
			go s.ping(a)
		}
	}
	s.takeStderr(skippedChunk(line))
}

// overlong is called by the stdout pump.
func (s *supervisor) overlong(o overlong) {
	s.count.overlong.Add(1)
	s.trimLater()
	s.mu.Lock()
	if o.ID != nil {
		s.journal.overlong(o.ID)
		s.room.Broadcast()
	}
	a := s.holder.Load()
	s.mu.Unlock()
	if a != nil {
		if a.json(kindOverlong, o) != nil {
			s.leave(a)
		}
	}
}

// takeStderr is called by both pumps and never blocks.
func (s *supervisor) takeStderr(chunk []byte) {
	s.tail.write(chunk)
	s.log.write(chunk)
	s.count.stderrLost.Add(s.stderr.put(chunk))
}

// sendStderr passes stderr on to the daemon, behind the pump's back: a slow daemon loses chunks, the child waits not.
func (s *supervisor) sendStderr() {
	for {
		chunk := s.stderr.take()
		a := s.holder.Load()
		if a == nil {
			s.count.stderrLost.Add(uint64(len(chunk)))
			continue
		}
		if a.control(kindStderr, chunk) != nil {
			s.leave(a)
		}
	}
}

// outputBusy reports whether the stdout pump waits for the daemon and not for the child.
func (s *supervisor) outputBusy() bool {
	a := s.holder.Load()
	if a == nil {
		return false
	}
	if a.mu.TryLock() {
		a.mu.Unlock()
		return false
	}
	return true
}
