package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"

	"mcpx/internal/rpc"
)

// floor is the least that HTTP in front of a stdio child can cost: one line goes out, the line with the same id comes
// back. It knows no session, no era and no policy. Ids must be unique over all its clients.
type floor struct {
	write sync.Mutex
	in    io.Writer

	mu      sync.Mutex // guards waiting
	waiting map[string]chan []byte
}

// runFloor serves argv as the child and prints the address it listens on.
func runFloor(argv []string, out io.Writer) error {
	if len(argv) == 0 {
		return errors.New("no command for the floor")
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	f := &floor{in: in, waiting: map[string]chan []byte{}}
	go f.read(lines)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	return http.Serve(l, f)
}

func (f *floor) read(r io.Reader) {
	lines := rpc.NewLineReader(r)
	for {
		line, err := lines.Next()
		if err != nil {
			os.Exit(1) // the child is gone, and nothing can be measured any more
		}
		key := idOf(line)
		f.mu.Lock()
		waiter := f.waiting[key]
		delete(f.waiting, key)
		f.mu.Unlock()
		if waiter != nil {
			waiter <- line
		}
	}
}

// idOf is the raw id of a message of this program, which puts it in second place.
func idOf(line []byte) string {
	const before = `{"jsonrpc":"2.0","id":`
	rest, ok := bytes.CutPrefix(line, []byte(before))
	if !ok {
		return ""
	}
	return string(rest[:max(bytes.IndexByte(rest, ','), 0)])
}

func (f *floor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	line := make([]byte, r.ContentLength, r.ContentLength+1)
	if _, err := io.ReadFull(r.Body, line); err != nil {
		return
	}
	key := idOf(line)
	if key == "" { // a notification
		if f.send(append(line, '\n')) == nil {
			w.WriteHeader(http.StatusAccepted)
		}
		return
	}
	waiter := make(chan []byte, 1)
	f.mu.Lock()
	f.waiting[key] = waiter
	f.mu.Unlock()
	if f.send(append(line, '\n')) != nil {
		return
	}
	answer := <-waiter
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	_, _ = w.Write(answer) // a client that left needs no answer
}

func (f *floor) send(line []byte) error {
	f.write.Lock()
	defer f.write.Unlock()
	_, err := f.in.Write(line)
	return err
}
