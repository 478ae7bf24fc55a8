package shim

import "sync"

const (
	// keptBytes bounds what a child may say while no daemon is attached.
	keptBytes = 1 << 20
	// lineCost is what a kept line costs beside its bytes, so that many short ones stay within the bound, too.
	lineCost = 48
	// stderrQueue bounds the stderr that waits for the daemon.
	stderrQueue = 64 << 10
)

// ring keeps the last whole lines up to keptBytes, and counts what it dropped. The zero ring is empty.
type ring struct {
	lines []line
	size  int

	droppedFrames, droppedBytes uint64
}

// line is one line of the child and its place in the order of everything that is kept.
type line struct {
	arrived uint64
	text    []byte
}

func (r *ring) add(arrived uint64, text []byte) {
	r.lines = append(r.lines, line{arrived, text})
	r.size += len(text) + lineCost
	first := 0
	for r.size > keptBytes {
		n := len(r.lines[first].text)
		r.droppedFrames++
		r.droppedBytes += uint64(n)
		r.size -= n + lineCost
		r.lines[first].text = nil
		first++
	}
	r.lines = r.lines[first:]
}

// take empties the ring.
func (r *ring) take() []line {
	lines := r.lines
	r.lines, r.size = nil, 0
	return lines
}

// chunks is a bounded queue of bytes between one writer that must not wait and one reader that may.
type chunks struct {
	mu   sync.Mutex // guards buf and wake
	buf  []byte
	wake chan struct{} // closed when bytes arrive; nil while nobody waits
}

// put adds p and returns how many bytes had to be dropped for it.
func (c *chunks) put(p []byte) (lost uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buf = append(c.buf, p...)
	if over := len(c.buf) - stderrQueue; over > 0 {
		c.buf = append(c.buf[:0], c.buf[over:]...)
		lost = uint64(over)
	}
	if c.wake != nil {
		close(c.wake)
		c.wake = nil
	}
	return lost
}

// take waits for bytes and returns all there are.
func (c *chunks) take() []byte {
	for {
		c.mu.Lock()
		if len(c.buf) > 0 {
			p := c.buf
			c.buf = nil
			c.mu.Unlock()
			return p
		}
		wake := c.wake
		if wake == nil {
			wake = make(chan struct{})
			c.wake = wake
		}
		c.mu.Unlock()
		<-wake
	}
}
