package shim

import "sync"

// stderrQueue bounds the stderr that waits for the daemon.
const stderrQueue = 64 << 10

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
