package localapi

import (
	"errors"
	"net"
	"net/http"
	"sync"
)

// accepting is the loop of one server that takes connections from one listener.
type accepting struct {
	listener net.Listener
	loop     sync.WaitGroup
}

// start begins to accept; failed hears why it ended when nobody wanted that.
func (a *accepting) start(s *http.Server, l net.Listener, failed func(error)) {
	a.listener = l
	a.loop.Go(func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			failed(err)
		}
	})
}

// stop closes the listener and returns when the last connection from it was taken.
func (a *accepting) stop() {
	if a.listener != nil {
		_ = a.listener.Close() // it may be closed already
	}
	a.loop.Wait()
}

func (a *accepting) wait() { a.loop.Wait() }
