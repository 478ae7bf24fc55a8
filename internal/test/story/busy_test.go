package story

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
)

// busyport makes this test listen on a port: BUSY is its address, HOLDER its pid. It answers HTTP with 404.
func busyPort(ts *testscript.TestScript, _ bool, _ []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	server := &http.Server{Handler: http.NotFoundHandler()}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	ts.Defer(func() {
		_ = server.Close() // the test is over
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			ts.Logf("busyport: %v", err)
		}
	})
	ts.Setenv("BUSY", l.Addr().String())
	ts.Setenv("HOLDER", strconv.Itoa(os.Getpid()))
}
