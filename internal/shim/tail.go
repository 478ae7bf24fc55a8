package shim

import "sync"

const (
	// tailRing is how much of stderr is kept in memory: last words, for errors and for `mcpx server logs`.
	tailRing = 64 << 10
	// tailShown is how much of it an exit carries.
	tailShown = 2 << 10
)

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex // guards ring and at
	ring []byte     // grows to tailRing: most servers say little
	at   int        // next byte goes here once the ring is full-sized
}

func (t *tail) write(p []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) > tailRing {
		p = p[len(p)-tailRing:]
	}
	if free := tailRing - len(t.ring); free > 0 {
		n := min(free, len(p))
		t.ring = append(t.ring, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(t.ring[t.at:], p)
		t.at = (t.at + n) % tailRing
		p = p[n:]
	}
}

// last is a copy of the last n bytes, fewer when fewer were written.
func (t *tail) last(n int) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append([]byte(nil), t.ring[t.at:]...)
	all = append(all, t.ring[:t.at]...)
	return all[max(0, len(all)-n):]
}
