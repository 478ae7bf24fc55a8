package fakemcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Server is one fixture. Stdio and HTTP share it: only the way lines leave differs.
type Server struct {
	opt     Options
	answers map[string][]string

	out    io.Writer  // stdout; nil for HTTP
	outMu  sync.Mutex // guards out: a line is never torn
	record *os.File

	mu      sync.Mutex // guards the fields below
	counter int
	times   map[string]int          // calls of the tool work, by key
	asks    int                     // numbers the requests of the server
	waiting map[string]chan message // answers of the client, by id of our request
	stops   map[string]func()       // running calls by raw request id, for notifications/cancelled
	tasks   map[string]*task
}

// New makes a fixture. It fails when a file of the options cannot be used.
func New(o Options) (*Server, error) {
	s := &Server{opt: o, times: map[string]int{}, waiting: map[string]chan message{}, stops: map[string]func(){}, tasks: map[string]*task{}}
	if s.opt.Era == "" {
		s.opt.Era = Legacy
	}
	if o.Answers != "" {
		raw, err := os.ReadFile(o.Answers)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(raw, &s.answers); err != nil {
			return nil, fmt.Errorf("fakemcp: %s: %w", o.Answers, err)
		}
	}
	if o.Record != "" {
		f, err := os.OpenFile(o.Record, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		s.record = f
	}
	return s, nil
}

// Main runs the fixture of a command line until its input ends and returns the exit code.
func Main(args []string, in io.Reader, out, complaints io.Writer) int {
	o, err := ParseFlags(args, complaints)
	if err != nil {
		return 2
	}
	s, err := New(o)
	if err == nil && o.Serve != "" {
		err = s.listen()
	} else if err == nil {
		err = s.Stdio(in, out, complaints)
	}
	if err != nil {
		_, _ = fmt.Fprintln(complaints, err) // nobody may be reading
		return 1
	}
	return 0
}

// Stdio answers lines until in ends.
func (s *Server) Stdio(in io.Reader, out, complaints io.Writer) error {
	if s.opt.IgnoreTerm {
		signal.Ignore(syscall.SIGTERM)
	}
	s.out = out
	if s.opt.Tail != "" {
		_, _ = fmt.Fprintln(complaints, s.opt.Tail) // nobody may be reading
	}
	if s.opt.Banner != "" {
		s.print([]byte(s.opt.Banner + "\n"))
	}
	time.Sleep(s.opt.StartDelay)
	reader := bufio.NewReaderSize(in, 1<<16)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 {
			s.keep(line)
			s.line(bytes.TrimRight(line, "\r\n"))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if s.opt.IgnoreEOF {
		<-context.Background().Done() // for ever: somebody has to end it
	}
	return nil
}

func (s *Server) keep(line []byte) {
	if s.record == nil {
		return
	}
	if _, err := s.record.Write(line); err != nil {
		panic(err) // a test that reads the record must not pass because it is short
	}
}

// print writes bytes as they are.
func (s *Server) print(b []byte) {
	s.outMu.Lock()
	defer s.outMu.Unlock()
	_, _ = s.out.Write(b) // the reader may be gone; the end of stdin tells us
}

// line handles one line of stdin.
func (s *Server) line(line []byte) {
	if s.opt.Hang || len(bytes.TrimSpace(line)) == 0 {
		return
	}
	m, err := parse(line)
	if err != nil {
		return
	}
	if s.opt.ExitOn != "" && m.method() == s.opt.ExitOn {
		os.Exit(3)
	}
	c := &call{server: s, msg: m, modern: m.modern(), ctx: context.Background(), send: func(line []byte) { s.print(append(slices.Clip(line), '\n')) }}
	switch {
	case m.method() == "":
		s.answered(m)
	case m.id() == "":
		s.notified(c)
	default:
		s.request(c)
	}
}

// answered hands a response of the client to the call that asked.
func (s *Server) answered(m message) {
	s.mu.Lock()
	waiter := s.waiting[m.id()]
	delete(s.waiting, m.id())
	s.mu.Unlock()
	if waiter != nil {
		waiter <- m
	}
}

func (s *Server) notified(c *call) {
	if c.msg.method() != "notifications/cancelled" {
		return
	}
	s.mu.Lock()
	stop := s.stops[string(c.msg.params["requestId"])]
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// request answers one request. Calls of tools run on their own, so that a hanging one does not stop the reader.
func (s *Server) request(c *call) {
	method := c.msg.method()
	if lines, ok := s.answers[method]; ok {
		for _, line := range lines {
			c.raw(line)
		}
		return
	}
	if method == "tools/call" && blocking[text(c.msg.params["name"])] {
		ctx, stop := context.WithCancel(c.ctx)
		c.ctx = ctx
		s.mu.Lock()
		s.stops[c.msg.id()] = stop
		s.mu.Unlock()
		if s.out == nil { // HTTP: the handler waits for the answer
			c.tool()
			return
		}
		go c.tool()
		return
	}
	c.answer(method)
}
