package shim

import (
	"errors"
	"io"

	"mcpx/internal/rpc"
)

const (
	// batchBytes bounds the lines that are handed on in one go. A full pipe holds 64 KiB.
	batchBytes = 64 << 10
	// batchLines bounds their number, for a child that writes very short ones.
	batchLines = 256
	// skippedShown bounds what is shown of a stdout line that is no message.
	skippedShown = 1 << 10
	// stderrChunk is the size of one read of stderr.
	stderrChunk = 4 << 10
)

// output takes what a child writes on stdout, by the rules of protocol.md section 7.6.
type output interface {
	// messages takes whole lines that start like messages, in order. The lines are the callee's, the slice is not. It
	// may block: the child then waits when its pipe is full.
	messages(lines [][]byte)
	// skipped takes a line that is no message.
	skipped(line []byte)
	// overlong takes what is known of a line that passed the limit and was discarded.
	overlong(o overlong)
}

// pumpOutput reads stdout to its end. It hands over what one read brought in one call, so that a burst of lines
// costs one write on the other side.
func pumpOutput(stdout io.Reader, to output) {
	r := rpc.NewLineReader(stdout)
	var batch [][]byte
	size := 0
	flush := func() {
		if len(batch) > 0 {
			to.messages(batch)
			clear(batch) // a big line must not stay in memory until the next one
			batch, size = batch[:0], 0
		}
	}
	for {
		line, err := r.Next()
		var long *rpc.LongLineError
		switch {
		case errors.As(err, &long):
			flush()
			o := overlong{Size: long.Size}
			if long.Method == nil {
				o.ID = long.ID // with a method it is a request of the server, and its id is no call of ours
			}
			to.overlong(o)
			continue
		case err != nil:
			flush()
			return
		}
		switch rpc.LineClass(line) {
		case rpc.Blank:
		case rpc.Skipped:
			to.skipped(line)
		case rpc.MessageLike:
			batch = append(batch, line)
			size += len(line)
		}
		if !r.Buffered() || size >= batchBytes || len(batch) >= batchLines {
			flush()
		}
	}
}

// pumpStderr reads stderr to its end. It never waits for anybody: take must not block.
func pumpStderr(stderr io.Reader, take func(chunk []byte)) {
	buf := make([]byte, stderrChunk)
	for {
		n, err := stderr.Read(buf)
		if n > 0 {
			take(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// skippedChunk is how a skipped stdout line appears in the server's log.
func skippedChunk(line []byte) []byte {
	more := ""
	if len(line) > skippedShown {
		line, more = line[:skippedShown], "..."
	}
	chunk := append([]byte("stdout: "), line...)
	return append(append(chunk, more...), '\n')
}
