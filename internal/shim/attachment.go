//go:build unix

package shim

import (
	"encoding/json"
	"net"
	"os"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	// ackMessages and ackBytes, both reached, make an acknowledgement due at once: half of what the daemon lets be on
	// the way, so that its window never closes for a child that reads.
	ackMessages = windowMessages / 2
	ackBytes    = windowBytes / 2
	// copyBelow is the size up to which messages are copied together for one write; copying more costs more than a
	// system call.
	copyBelow = 16 << 10
)

// attachment is the connection of the daemon that holds this supervisor now.
type attachment struct {
	conn       *os.File // blocking
	generation uint64
	protocol   int // version of the attach protocol
	daemon     daemonInfo

	written atomic.Uint64 // seq of the last message that was written to the child completely
	acked   atomic.Uint64 // the last one that the daemon was told of
	pong    atomic.Int64  // when the daemon last showed life, nanoseconds of the supervisor's clock
	gone    chan struct{} // closed when the connection is over
	pinging atomic.Bool   // a ping waits for a daemon that reads nothing: another one would say no more

	// Of the pump that calls wrote:
	seen uint64 // acked at the last call
	due  int    // bytes written since seen changed

	closing sync.Once

	mu  sync.Mutex // guards out, seq and err; held while writing, so frames are never mixed
	out []byte     // frames that go out with the next write
	seq uint64     // of messages to the daemon
	err error      // first failed write: the frames after it have no place to start
}

// newAttachment takes the connection over in blocking mode: a pump that waits in read or write then costs one system
// call for each wake-up and no visit of the runtime's poller (BenchmarkHop).
func newAttachment(c *net.UnixConn, generation uint64, d daemonInfo) (*attachment, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var inner error
	err = raw.Control(func(old uintptr) { fd, inner = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) })
	if err != nil {
		return nil, err
	}
	if inner != nil {
		return nil, os.NewSyscallError("fcntl", inner)
	}
	_ = c.Close() // the duplicate lives on
	if err := unix.SetNonblock(fd, false); err != nil {
		_ = unix.Close(fd) // nothing was written to it
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &attachment{
		conn: os.NewFile(uintptr(fd), "attachment"), generation: generation, daemon: d, gone: make(chan struct{}),
	}, nil
}

// frame appends one frame of any kind to out. mu is held.
func (a *attachment) frameLocked(k kind, seq uint64, payload []byte) {
	h := header{length: uint32(len(payload)), kind: k, generation: uint32(a.generation), seq: seq}
	a.out = append(h.append(a.out), payload...)
}

// ackLocked lets an acknowledgement that is due ride with what goes out next.
func (a *attachment) ackLocked() {
	if w := a.written.Load(); w > a.acked.Load() {
		a.acked.Store(w)
		a.frameLocked(kindWritten, w, nil)
	}
}

func (a *attachment) flushLocked() error {
	if a.err == nil && len(a.out) > 0 {
		_, a.err = a.conn.Write(a.out)
	}
	a.out = a.out[:0]
	return a.err
}

// messages sends lines, and returns how many of them were handed to the socket completely.
func (a *attachment) messages(lines [][]byte) (sent int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ackLocked()
	for i, line := range lines {
		before, err := a.lineLocked(line, 0)
		if before {
			sent = i
		}
		if err != nil {
			return sent, err
		}
	}
	if err := a.flushLocked(); err != nil {
		return sent, err
	}
	return len(lines), nil
}

// lineLocked sends one line of the child, or leaves it in out when it is short. before says that whatever went before it
// was handed to the socket.
func (a *attachment) lineLocked(line []byte, flags uint8) (before bool, err error) {
	if len(a.out) > batchBytes {
		if err := a.flushLocked(); err != nil {
			return false, err
		}
		before = true
	}
	a.seq++
	h := header{length: uint32(len(line)), kind: kindMsg, flags: flags, generation: uint32(a.generation), seq: a.seq}
	if a.out = h.append(a.out); len(line) <= copyBelow {
		a.out = append(a.out, line...)
		return before, nil
	}
	if err := a.flushLocked(); err != nil {
		return before, err
	}
	_, a.err = a.conn.Write(line)
	return true, a.err
}

// journals says whether the daemon tells when it is done with an answer.
func (a *attachment) journals() bool { return a.protocol >= protoJournal }

// control sends one frame that is no message.
func (a *attachment) control(k kind, payload []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ackLocked()
	a.frameLocked(k, 0, payload)
	return a.flushLocked()
}

func (a *attachment) json(k kind, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return a.control(k, b)
}

// wrote records that the child has all messages up to seq. The acknowledgement travels with the next frame; alone
// only when several are due, or when the pump of this connection sees that nothing comes along (eagerly).
func (a *attachment) wrote(seq uint64, bytes int) {
	a.written.Store(seq)
	acked := a.acked.Load()
	if acked != a.seen {
		a.seen, a.due = acked, 0 // one rode along
	}
	if a.due += bytes; a.due >= ackBytes && seq-acked >= ackMessages {
		a.ack()
	}
}

// lateAck sends the acknowledgement that found nothing to ride with.
func (a *attachment) lateAck() {
	if a.written.Load() > a.acked.Load() {
		a.ack()
	}
}

func (a *attachment) ack() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ackLocked()
	_ = a.flushLocked() // the reader of this connection notices, too, and lets the daemon go
}

// close ends the connection and wakes its reader; safe to call twice.
func (a *attachment) close() {
	a.closing.Do(func() {
		raw, err := a.conn.SyscallConn()
		if err == nil {
			// close alone does not wake a thread that is blocked in read.
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
		}
		_ = a.conn.Close() // the daemon is gone or told everything
		close(a.gone)
	})
}
