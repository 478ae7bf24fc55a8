package shim

import (
	"io"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// eagerFor is how long a pump waits for its next bytes without leaving its processor. The bytes of a busy connection come
// sooner; an idle supervisor waits this long once and then sleeps as usual. It also bounds how long a garbage collection
// waits for a pump.
const eagerFor = time.Millisecond

// eager reads a descriptor in blocking mode. A read that blocks tells the scheduler that its thread is away: the
// processor is handed on, the monitor thread wakes up, and the way back costs more switches than the relay itself. So the
// wait is first made behind the scheduler's back, for a short time.
type eager struct {
	f    *os.File
	fd   uintptr
	idle func() // called when nothing came in that time; may be nil
}

// eagerly wraps a descriptor in blocking mode. idle runs on the reader's goroutine before it goes to sleep.
func eagerly(f *os.File, idle func()) io.Reader { return &eager{f: f, fd: f.Fd(), idle: idle} }

func (e *eager) Read(p []byte) (int, error) {
	fds := unix.PollFd{Fd: int32(e.fd), Events: unix.POLLIN}
	wait := unix.NsecToTimespec(int64(eagerFor))
	// A signal, or a descriptor that was closed meanwhile, ends the wait early; the read below finds out.
	n, _, _ := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&wait)), 0, 0, 0)
	if n != 1 && e.idle != nil {
		e.idle()
	}
	return e.f.Read(p)
}
