//go:build unix

package process_test

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/process"
)

// TestSuccessor: a successor has our files and a pipe each way, and ends when it is told to.
func TestSuccessor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("content\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	next, err := process.StartSuccessor(process.Succession{
		Exe: "/bin/sh", Args: []string{"-c", `read -r a <&3; read -r b <&5; echo "$a $b $MARK" >&4; exec sleep 1000`}, Env: []string{"PATH=/usr/bin:/bin", "MARK=m"}, Files: []*os.File{file},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := next.Orders.WriteString("go\n"); err != nil {
		t.Fatal(err)
	}
	if err := next.Reports.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(next.Reports).ReadString('\n')
	if err != nil || line != "go content m\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	next.End()
	if err := syscall.Kill(next.Pid, 0); err == nil {
		t.Errorf("pid %d lives on", next.Pid)
	}
}

func TestSuccessorCannotStart(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := process.StartSuccessor(process.Succession{Exe: plain}); err == nil || !strings.Contains(err.Error(), "could not be started") {
		t.Errorf("a plain file: %v", err)
	}
}

// TestInheritNothing: a process that was started by hand has no descriptors of a daemon.
func TestInheritNothing(t *testing.T) {
	if in, err := process.Inherit(1 << 10); err == nil {
		t.Errorf("it inherited %d files", len(in.Files))
	}
}

// TestDuplicate: the copy of a listener leaves it non-blocking, also when the copy is given to another process. A listener
// in blocking mode could not be closed before its next connection.
func TestDuplicate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := process.Duplicate(l.(*net.TCPListener))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	next, err := process.StartSuccessor(process.Succession{Exe: "/bin/sh", Args: []string{"-c", "exec sleep 1000"}, Env: []string{"PATH=/usr/bin:/bin"}, Files: []*os.File{file}})
	if err != nil {
		t.Fatal(err)
	}
	defer next.End()
	flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("flags %o, %v", flags, err)
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-accepted:
		if err == nil {
			t.Error("somebody connected")
		}
	case <-time.After(10 * time.Second):
		t.Error("accept goes on after the listener was closed")
	}
}
