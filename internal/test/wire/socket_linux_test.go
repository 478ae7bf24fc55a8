package wire

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/test/rig"
)

// TestRT140Socket: RT-140. The socket is the owner's alone, by its mode and, should somebody open it, by the kernel's word on
// who is connected. A second daemon names the first and ends, a mistyped command is an error, and neither touches the socket,
// the daemon or a command that runs.
func TestRT140Socket(t *testing.T) {
	g := rig.New(t)
	commanding(t, g)
	g.Serve()
	g.AddURL("notes", "http://127.0.0.1:1/mcp", "--no-check")
	dir, session, b := inShop(t, g)
	job := startHeld(t, b, dir, session, "held-0001")
	paths, err := api.FindPaths(func(name string) string { return map[string]string{"MCPX_HOME": g.Home}[name] })
	if err != nil {
		t.Fatal(err)
	}
	socket, pid := paths.Socket(), g.PID()
	first, err := os.Stat(socket)
	if err != nil || first.Mode().Perm() != 0o600 {
		t.Fatalf("the socket: %v, %v", first.Mode(), err)
	}
	untouched := func(after string) {
		t.Helper()
		now, err := os.Stat(socket)
		if err != nil || !os.SameFile(first, now) || now.Mode() != first.Mode() {
			t.Errorf("after %s the socket is another: %v", after, err)
		}
		about, err := g.API().DaemonStatus(t.Context(), api.None{})
		if err != nil || about.Pid != pid || g.Ended() {
			t.Errorf("after %s the daemon is %d, %v", after, about.Pid, err)
		}
		if j := told(t, b, job); j.State != "running" {
			t.Errorf("after %s the command is %+v", after, j)
		}
	}
	second := g.Run("serve", "--listen", fmt.Sprintf("127.0.0.1:%d", rig.Port(t)))
	if second.Code != 75 || !strings.Contains(second.Stderr, fmt.Sprintf("pid %d", pid)) {
		t.Errorf("a second daemon ends with %d: %s%s", second.Code, second.Stdout, second.Stderr)
	}
	untouched("a second daemon")
	mistyped := g.Run("observ")
	if mistyped.Code != 2 || !strings.Contains(mistyped.Stderr, "did you mean `mcpx observe`?") {
		t.Errorf("observ ends with %d: %s%s", mistyped.Code, mistyped.Stdout, mistyped.Stderr)
	}
	untouched("a mistyped command")
	if os.Geteuid() == 0 { // nobody else can become another user
		for at := filepath.Dir(socket); strings.HasPrefix(at, g.Home); at = filepath.Dir(at) {
			if err := os.Chmod(at, 0o711); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := asNobody("unix", socket, "/v1/daemon"); !errors.Is(err, os.ErrPermission) {
			t.Errorf("another user connects to a socket of mode 0600: %v", err)
		}
		if err := os.Chmod(socket, 0o666); err != nil {
			t.Fatal(err)
		}
		if status, err := asNobody("unix", socket, "/v1/daemon"); err != nil || status != http.StatusForbidden {
			t.Errorf("another user at an open socket: status %d, %v", status, err)
		}
		if err := os.Chmod(socket, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/mcp", "/servers/mcp_hub/mcp"} {
			if status, err := asNobody("tcp", g.Addr, path); err != nil || status != http.StatusUnauthorized {
				t.Errorf("another user at %s: status %d, %v", path, status, err)
			}
		}
		before := refusals(t, g)["peer-refused"]
		if before == 0 {
			t.Error("another user at the socket is not recorded")
		}
		// The address of a server needs no token from us; the kernel says who is at the other end.
		const path = "/servers/notes/mcp"
		answer, err := http.Get("http://" + g.Addr + path) //nolint:noctx // it answers at once
		if err != nil || answer.Body.Close() != nil || answer.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("ourselves at %s: %v, %v", path, answer, err)
		}
		if status, err := asNobody("tcp", g.Addr, path); err != nil || status != http.StatusUnauthorized {
			t.Errorf("another user at %s: status %d, %v", path, status, err)
		}
		if n := refusals(t, g)["peer-refused"] - before; n != 1 {
			t.Errorf("another user at %s is recorded %d times", path, n)
		}
		untouched("another user")
	}
	if out := g.Must("job", "stop", job); !strings.Contains(out, "killed") {
		t.Errorf("the end of the command: %s", out)
	}
}

// asNobody asks the daemon for something as another user. The kernel notes who connects by the thread that
// does, which has this user for the rest of its life.
func asNobody(network, address, path string) (status int, err error) {
	const nobody = 65534
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); no != 0 {
			err = fmt.Errorf("setresuid: %w", no)
			return
		}
		var conn net.Conn
		if conn, err = net.Dial(network, address); err != nil {
			return
		}
		defer conn.Close()
		if _, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path); err != nil {
			return
		}
		var answer *http.Response
		if answer, err = http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
			status = answer.StatusCode
			_ = answer.Body.Close()
		}
	}()
	<-done
	return status, err
}
