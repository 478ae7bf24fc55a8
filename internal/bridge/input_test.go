package bridge

import (
	"net/http"
	"testing"
)

// TestCancelledWhileNoDaemonIsThere: the exchange of a call may be over when its cancellation was read, but the server
// still works on it, so the next daemon is told.
func TestCancelledWhileNoDaemonIsThere(t *testing.T) {
	const line = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	d, c := inFlight(t, nothing, callLine(1, "tools/call"))
	c.send(line)
	d.script(oneSession("s1", standalone(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })))
	d.start()
	for d.next().Body != line {
		// Beside it the standalone stream comes back, and the call may be asked for once more.
	}
	c.quiet()
}
