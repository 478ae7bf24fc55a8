package gateway

import (
	"context"
	"sync"
)

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

// Wait returns when no goroutine runs, or ctx is over: then it reports how many are left.
func (g *goes) Wait(ctx context.Context) int {
	stop := context.AfterFunc(ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.none.Broadcast()
	})
	defer stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.n > 0 && ctx.Err() == nil {
		g.none.Wait()
	}
	return g.n
}
