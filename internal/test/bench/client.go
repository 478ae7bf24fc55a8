package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/rpc"
)

// A caller makes one call after the other.
type caller interface {
	call(payload []byte) error
	close()
}

// ids are unique over all callers of the run: the floor has no sessions that would keep equal ids apart.
var ids atomic.Int64

func request(payload []byte) (id, body []byte) {
	id = strconv.AppendInt(nil, ids.Add(1), 10)
	body = make([]byte, 0, len(payload)+128)
	body = append(append(body, `{"jsonrpc":"2.0","id":`...), id...)
	body = append(append(body, `,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`...), payload...)
	return id, append(body, `"}}}`...)
}

const (
	initBody  = `{"jsonrpc":"2.0","id":%s,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	readyBody = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// httpCaller is one client with one connection. It is as thin as a correct one can be: what it costs is in every
// number, and hides differences between the targets.
type httpCaller struct {
	conn   net.Conn
	in     *bufio.Reader
	out    *bufio.Writer
	addr   string
	path   string
	header string // session and version, once known
	used   time.Time
	unused *http.Request
}

// keepAlive is how long a connection may rest between two rounds. Node closes one after 5 s, and the first call of the
// next round would fail.
const keepAlive = 3 * time.Second

// dialHTTP opens a session at an address and a path.
func dialHTTP(addr, path string, handshake bool) (*httpCaller, error) {
	c := &httpCaller{addr: addr, path: path, unused: &http.Request{Method: http.MethodPost}}
	if err := c.connect(); err != nil {
		return nil, err
	}
	if !handshake {
		return c, nil
	}
	id := strconv.FormatInt(ids.Add(1), 10)
	answer, header, err := c.post([]byte(fmt.Sprintf(initBody, id)))
	if err != nil {
		c.close()
		return nil, fmt.Errorf("initialize: %w", err)
	}
	if err := isResult(answer, []byte(id)); err != nil {
		c.close()
		return nil, fmt.Errorf("initialize: %w", err)
	}
	c.header = "MCP-Protocol-Version: 2025-11-25\r\n"
	if session := header.Get("Mcp-Session-Id"); session != "" {
		c.header += "Mcp-Session-Id: " + session + "\r\n"
	}
	if _, _, err := c.post([]byte(readyBody)); err != nil {
		c.close()
		return nil, fmt.Errorf("initialized: %w", err)
	}
	return c, nil
}

func (c *httpCaller) connect() error {
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return err
	}
	c.conn, c.used = conn, time.Now()
	c.in, c.out = bufio.NewReaderSize(conn, 64<<10), bufio.NewWriterSize(conn, 64<<10)
	return nil
}

// moved says that the connection ends: the next call makes a new one.
func (c *httpCaller) moved() { c.used = time.Time{} }

func (c *httpCaller) close() { _ = c.conn.Close() }

func (c *httpCaller) call(payload []byte) error {
	id, body := request(payload)
	answer, _, err := c.post(body)
	if err != nil {
		return err
	}
	if len(answer) < len(payload) {
		return fmt.Errorf("an answer of %d bytes for a payload of %d: %.200s", len(answer), len(payload), answer)
	}
	return isResult(answer, id)
}

// post sends one body and returns the message that answers it, whether it came alone or on a stream.
func (c *httpCaller) post(body []byte) ([]byte, http.Header, error) {
	now := time.Now()
	if now.Sub(c.used) > keepAlive {
		c.close()
		if err := c.connect(); err != nil {
			return nil, nil, err
		}
	}
	c.used = now
	w := c.out
	_, _ = w.WriteString("POST " + c.path + " HTTP/1.1\r\nHost: " + c.addr + // a bufio.Writer keeps its error
		"\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n" + c.header + "Content-Length: ")
	_, _ = w.WriteString(strconv.Itoa(len(body)))
	_, _ = w.WriteString("\r\n\r\n")
	_, _ = w.Write(body)
	if err := w.Flush(); err != nil {
		return nil, nil, err
	}
	r, err := http.ReadResponse(c.in, c.unused)
	if err != nil {
		return nil, nil, err
	}
	defer r.Body.Close()
	if r.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(r.Body, 300)) // only for the message
		return nil, nil, fmt.Errorf("%s: %s", r.Status, text)
	}
	answer, err := readAll(r)
	if r.Close {
		c.moved()
	}
	if err == nil && strings.HasPrefix(r.Header.Get("Content-Type"), "text/event-stream") {
		answer = lastData(answer)
	}
	return answer, r.Header, err
}

func readAll(r *http.Response) ([]byte, error) {
	if r.ContentLength < 0 {
		return io.ReadAll(r.Body)
	}
	b := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, b)
	return b, err
}

// lastData is the data of the last event of a stream that has ended.
func lastData(stream []byte) []byte {
	stream = bytes.TrimRight(stream, "\r\n")
	at := bytes.LastIndex(stream, []byte("data:"))
	if at < 0 {
		return nil
	}
	line, _, _ := bytes.Cut(stream[at+len("data:"):], []byte("\n"))
	return bytes.TrimSpace(line)
}

// isResult checks that a message is the result for the id. It does not parse the payload: that would be the largest
// part of the time for 8 MiB.
func isResult(message, id []byte) error {
	head := message[:min(len(message), 400)]
	tail := message[max(len(message)-400, 0):]
	mark := append([]byte(`"id":`), id...)
	if !bytes.Contains(head, mark) && !bytes.Contains(tail, mark) || bytes.Contains(head, []byte(`"error":{`)) {
		return fmt.Errorf("no result for id %s: %.200s", id, message)
	}
	return nil
}

// pipe is the child itself, shared by callers as the floor shares it.
type pipe struct {
	write sync.Mutex
	in    io.WriteCloser

	mu      sync.Mutex // guards waiting
	waiting map[string]chan []byte
}

func newPipe(in io.WriteCloser, out io.Reader) *pipe {
	p := &pipe{in: in, waiting: map[string]chan []byte{}}
	go func() {
		lines := rpc.NewLineReader(out)
		for {
			line, err := lines.Next()
			p.mu.Lock()
			if err != nil {
				for _, waiter := range p.waiting {
					close(waiter)
				}
				p.waiting = nil
				p.mu.Unlock()
				return
			}
			key := idOf(line)
			waiter := p.waiting[key]
			delete(p.waiting, key)
			p.mu.Unlock()
			if waiter != nil {
				waiter <- line
			}
		}
	}()
	return p
}

func (p *pipe) close() {}

func (p *pipe) call(payload []byte) error {
	id, body := request(payload)
	waiter := make(chan []byte, 1)
	p.mu.Lock()
	if p.waiting == nil {
		p.mu.Unlock()
		return errors.New("the child is gone")
	}
	p.waiting[string(id)] = waiter
	p.mu.Unlock()
	p.write.Lock()
	_, err := p.in.Write(append(body, '\n'))
	p.write.Unlock()
	if err != nil {
		return err
	}
	answer, ok := <-waiter
	if !ok {
		return errors.New("the child is gone")
	}
	return isResult(answer, id)
}
