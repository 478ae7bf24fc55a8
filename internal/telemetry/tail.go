package telemetry

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"time"
)

// The bounds of what is kept of one server's output. 2000 lines show a start with a stack trace several times over; a
// line is cut so that a server that never ends a line cannot fill memory.
const (
	tailLines = 2000
	tailBytes = 512 << 10
	lineBytes = 8 << 10
)

// Line is one line of a server's output.
type Line struct {
	Time time.Time
	Text string
}

// Tails keeps the newest output of each server in memory.
type Tails struct {
	now    func() time.Time
	redact func(string) string

	mu    sync.Mutex // guards of; ranks above the locks of the tails
	of    map[string]*tail
	limit int
}

// maxTails bounds the number of servers whose output is kept; removed servers make room first by Forget.
const maxTails = 1000

// NewTails makes an empty set. Each line passes redact before it is kept: servers print their own credentials.
func NewTails(now func() time.Time, redact func(string) string) *Tails {
	return &Tails{now: now, redact: redact, of: map[string]*tail{}, limit: maxTails}
}

// Writer takes the output of one server. It never blocks and never fails.
func (t *Tails) Writer(server string) io.Writer { return t.get(server) }

// Forget drops the output of a server that was removed.
func (t *Tails) Forget(server string) {
	t.mu.Lock()
	delete(t.of, server)
	t.mu.Unlock()
}

func (t *Tails) get(server string) *tail {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one, ok := t.of[server]; ok {
		return one
	}
	one := &tail{now: t.now, redact: t.redact, readers: map[chan struct{}]bool{}}
	if len(t.of) < t.limit {
		t.of[server] = one
	}
	return one
}

// Read gives the newest lines to emit, oldest first; with follow it goes on with new lines until ctx ends, which is no
// error. An error of emit ends it.
func (t *Tails) Read(ctx context.Context, server string, lines int, follow bool, emit func(Line) error) error {
	one := t.get(server)
	wake := make(chan struct{}, 1)
	one.mu.Lock()
	if follow {
		one.readers[wake] = true
	}
	next := one.first + uint64(max(0, len(one.lines)-lines))
	one.mu.Unlock()
	defer func() {
		one.mu.Lock()
		delete(one.readers, wake)
		one.mu.Unlock()
	}()
	for {
		batch, after := one.since(next)
		if missed := after - next - uint64(len(batch)); missed > 0 {
			if err := emit(Line{Time: t.now(), Text: "... lines were lost here: this reader was too slow ..."}); err != nil {
				return err
			}
		}
		next = after
		for _, line := range batch {
			if err := emit(line); err != nil {
				return err
			}
		}
		if !follow {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// tail is the output of one server.
type tail struct {
	now    func() time.Time
	redact func(string) string

	mu      sync.Mutex // guards everything below
	lines   []Line
	first   uint64 // number of lines[0], counted from the first line ever
	size    int
	partial []byte
	readers map[chan struct{}]bool
}

func (t *tail) Write(chunk []byte) (int, error) {
	texts := t.cut(chunk)
	for i, text := range texts {
		texts[i] = t.redact(strings.ToValidUTF8(text, "\uFFFD")) // not under the lock: it is somebody else's code
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, text := range texts {
		t.addLocked(Line{Time: now, Text: text})
	}
	for wake := range t.readers {
		select {
		case wake <- struct{}{}:
		default: // it is awake already
		}
	}
	return len(chunk), nil
}

// cut gives the lines that end in the chunk and keeps the beginning of the next one.
func (t *tail) cut(chunk []byte) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var texts []string
	for rest := chunk; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		rest = after
		if room := lineBytes - len(t.partial); len(line) > room {
			line = line[:room]
		}
		t.partial = append(t.partial, line...)
		if ended {
			texts = append(texts, string(bytes.TrimSuffix(t.partial, []byte{'\r'})))
			t.partial = t.partial[:0]
		}
	}
	return texts
}

func (t *tail) addLocked(line Line) {
	t.lines = append(t.lines, line)
	t.size += len(line.Text)
	for len(t.lines) > tailLines || t.size > tailBytes {
		t.size -= len(t.lines[0].Text)
		t.lines = t.lines[1:]
		t.first++
	}
}

// since gives the lines from number next on and the number after the last of them.
func (t *tail) since(next uint64) ([]Line, uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.first + uint64(len(t.lines))
	start := max(next, t.first) // a slow reader lost what the bounds pushed out; Read tells it
	return append([]Line(nil), t.lines[start-t.first:]...), end
}
