package gateway

import "sync"

// goes counts the gateway's goroutines, so that Stop can join them. Unlike a sync.WaitGroup it may grow while somebody
// waits: the end of a link, which Stop causes, starts short work of its own.
type goes struct {
	mu   sync.Mutex // guards n
	n    int
	none *sync.Cond
}

func newGoes() *goes {
	g := &goes{}
	g.none = sync.NewCond(&g.mu)
	return g
}

// Go runs f in a goroutine of its own.
func (g *goes) Go(f func()) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	go func() {
		defer func() {
			g.mu.Lock()
			if g.n--; g.n == 0 {
				g.none.Broadcast()
			}
			g.mu.Unlock()
		}()
		f()
	}()
}

// Wait returns when no goroutine runs.
func (g *goes) Wait() {
	g.mu.Lock()
	for g.n > 0 {
		g.none.Wait()
	}
	g.mu.Unlock()
}
