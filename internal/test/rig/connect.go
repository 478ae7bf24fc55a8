package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// Bridge is one `mcpx connect` and the client on its stdio.
type Bridge struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser

	write sync.Mutex // held while writing a line

	mu      sync.Mutex // guards the fields below
	waiting map[string]chan []byte
	odd     []string // lines that answer nothing: duplicates, strangers, broken JSON
	others  [][]byte // requests and notifications of the server
	ended   error    // set when stdout ended
}

// Connect starts `mcpx connect` for a server, "" for the tools of mcpx; it waits for a daemon and starts none. The client ends with the test.
func (g *Gateway) Connect(server string, flags ...string) *Bridge {
	g.t.Helper()
	return g.connect(server, append([]string{"--no-start"}, flags...))
}

// ConnectStarting is Connect for a client that starts a daemon when none runs. Who lets it stops that daemon.
func (g *Gateway) ConnectStarting(server string, flags ...string) *Bridge {
	g.t.Helper()
	return g.connect(server, flags)
}

func (g *Gateway) connect(server string, flags []string) *Bridge {
	g.t.Helper()
	b := &Bridge{t: g.t, waiting: map[string]chan []byte{}}
	args := append([]string{"connect"}, flags...)
	if server != "" {
		args = append(args, server)
	}
	b.cmd = exec.Command(g.Binary, args...)
	b.cmd.Env, b.cmd.Dir = g.Environ(), g.Home
	b.cmd.Stderr = g.log
	var err error
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		g.t.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		g.t.Fatal(err)
	}
	if err := b.cmd.Start(); err != nil {
		g.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read(out)
	}()
	g.t.Cleanup(func() {
		_ = b.in.Close() // the orderly end
		late := time.AfterFunc(stopWithin, func() { _ = b.cmd.Process.Kill() })
		<-read
		err := b.cmd.Wait()
		if !late.Stop() || err != nil {
			b.t.Errorf("mcpx connect %s did not end in order: %v", server, err)
		}
		if odd := b.Odd(); len(odd) > 0 {
			b.t.Errorf("mcpx connect %s printed lines that answer nothing: %q", server, odd)
		}
	})
	return b
}

// errEnded: the client of a bridge sees EOF, which it must not see before it closes its own end.
var errEnded = errors.New("stdout of mcpx connect ended")

func (b *Bridge) read(out io.Reader) {
	lines := bufio.NewReaderSize(out, 1<<16)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			b.mu.Lock()
			b.ended = errEnded
			for id, w := range b.waiting {
				close(w)
				delete(b.waiting, id)
			}
			b.mu.Unlock()
			return
		}
		b.line(line)
	}
}

func (b *Bridge) line(line []byte) {
	var m map[string]json.RawMessage
	err := json.Unmarshal(line, &m)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil && m["method"] != nil {
		b.others = append(b.others, line)
		return
	}
	w := b.waiting[string(m["id"])]
	if err != nil || w == nil {
		b.odd = append(b.odd, fmt.Sprintf("%.200s", line))
		return
	}
	delete(b.waiting, string(m["id"]))
	w <- line
}

// PID is the process of the bridge.
func (b *Bridge) PID() int { return b.cmd.Process.Pid }

// Odd lists the lines that answer nothing.
func (b *Bridge) Odd() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.odd
}

// Asked gives the requests and notifications of the server so far.
func (b *Bridge) Asked() [][]byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([][]byte(nil), b.others...)
}

// Send writes one line.
func (b *Bridge) Send(line string) error {
	b.write.Lock()
	defer b.write.Unlock()
	_, err := io.WriteString(b.in, line+"\n")
	return err
}

// Call sends one request and waits for its answer.
func (b *Bridge) Call(ctx context.Context, id, body string) (Outcome, error) {
	answer := make(chan []byte, 1)
	b.mu.Lock()
	err := b.ended
	b.waiting[id] = answer
	b.mu.Unlock()
	if err == nil {
		err = b.Send(body)
	}
	if err != nil {
		return Outcome{}, err
	}
	select {
	case line, ok := <-answer:
		if !ok {
			return Outcome{}, errEnded
		}
		return Outcome{Class: ClassOf(line), Body: line}, nil
	case <-ctx.Done():
		return Outcome{}, fmt.Errorf("call %s has no end: %w", id, context.Cause(ctx))
	}
}

// Waits gives the answer to a request that goes out with another one, in a batch.
func (b *Bridge) Waits(id string) <-chan []byte {
	answer := make(chan []byte, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting[id] = answer
	return answer
}

// Initialize opens the session of a legacy client.
func (b *Bridge) Initialize(capabilities string) {
	b.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), answerWithin)
	defer stop()
	o, err := b.Call(ctx, `"init"`, fmt.Sprintf(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":%s,"clientInfo":{"name":"rig","version":"1"}}}`, capabilities))
	if err != nil || o.Class != "answer" {
		b.t.Fatalf("initialize: %v %s", err, o.Body)
	}
	if err := b.Send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		b.t.Fatal(err)
	}
}
