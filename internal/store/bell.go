package store

import "sync"

// Bell tells everybody who waits for it that something was committed. Its zero value is ready.
type Bell struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

// Changed is closed at the next ring.
func (b *Bell) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Ring wakes them.
func (b *Bell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
