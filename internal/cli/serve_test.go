package cli

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestNotify: a service manager that listens is told; without one nothing happens.
func TestNotify(t *testing.T) {
	dir, err := os.MkdirTemp("", "mx") //nolint:usetesting // the path of a socket is short, that of t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "n")
	env := func(value string) *Env {
		return &Env{Getenv: func(name string) string {
			if name == "NOTIFY_SOCKET" {
				return value
			}
			return ""
		}}
	}
	if env("").notify("READY=1") || env(socket).notify("READY=1") {
		t.Error("somebody was told although nobody listens")
	}
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !env(socket).notify("MAINPID=42") {
		t.Error("the service manager was not told")
	}
	if err := l.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	word := make([]byte, 64)
	n, err := l.Read(word)
	if err != nil || string(word[:n]) != "MAINPID=42" {
		t.Errorf("it was told %q, %v", word[:n], err)
	}
}
