package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"mcpx/internal/rpc"
)

// runChild is the server behind every target: it returns the text of a call as fast as Go can, in the legacy era.
func runChild(in io.Reader, out io.Writer) error {
	lines := rpc.NewLineReader(in)
	w := bufio.NewWriterSize(out, 64<<10)
	for {
		line, err := lines.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return w.Flush()
			}
			return err
		}
		if m, err := rpc.Scan(line); err == nil && m.Kind == rpc.Request {
			if err := answer(w, line, m); err != nil {
				return err
			}
			if bytes.Contains(line, floodText) {
				if err := flood(w); err != nil {
					return err
				}
			}
		}
		if !lines.Buffered() {
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// floodText in a call makes the child talk on after its answer: floodAfter later floodLines notifications, more than a
// supervisor without a daemon keeps.
var floodText = []byte("@flood@")

const (
	floodAfter = 3 * time.Second
	floodLines = 3 << 10
)

func flood(w *bufio.Writer) error {
	if err := w.Flush(); err != nil {
		return err
	}
	time.Sleep(floodAfter) // by then its daemon was killed
	for range floodLines {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"%0400d"}}`+"\n", 0) // as below
	}
	return w.Flush()
}

func answer(w *bufio.Writer, line []byte, m rpc.Message) error {
	_, _ = w.WriteString(`{"jsonrpc":"2.0","id":`) // a bufio.Writer keeps its error
	_, _ = w.Write(m.ID.Of(line))
	switch m.MethodOf(line) {
	case "initialize":
		_, _ = w.WriteString(`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}}`)
	case "tools/list":
		_, _ = w.WriteString(`,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}}`)
	case "tools/call":
		_, _ = w.WriteString(`,"result":{"content":[{"type":"text","text":`)
		_, _ = w.Write(rpc.Find(line, rpc.Find(line, m.Params, "arguments"), "text").Of(line))
		_, _ = w.WriteString(`}]}}`)
	case "ping":
		_, _ = w.WriteString(`,"result":{}}`)
	default:
		_, _ = w.WriteString(`,"error":{"code":-32601,"message":"method not found"}}`)
	}
	return w.WriteByte('\n')
}
