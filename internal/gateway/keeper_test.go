package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/rpc"
)

// keeper is a Keeper in memory: its children and journals outlive every gateway that uses it.
type keeper struct {
	t      testing.TB
	handle func(c *child, m Outbound, msg rpc.Message)

	mu       sync.Mutex
	children []*child
	lost     []Lost
	refuse   map[string]error // by bundle: what Adopt answers
	ended    []string         // what End was called for
	adopting chan struct{}    // Adopt waits until it is closed; nil: not at all
	hangs    string           // the bundle that never answers
	frames   chan struct{}    // Adopt delivers nothing until it is closed; nil: at once
}

var _ Keeper = (*keeper)(nil)

// child is one process with its supervisor.
type child struct {
	k    *keeper
	n    int
	id   string
	open Open
	in   chan Outbound
	over chan struct{}

	deliver sync.Mutex // one delivery at a time, and none while an attachment begins

	mu        sync.Mutex
	link      *keptLink // nil: nobody is attached
	gone      bool
	blob      []byte
	entries   []*entry
	kept      [][]byte // notifications while nobody was attached
	questions [][]byte // requests of the child without an answer
	dropped   uint64
	blind     bool // it cannot tell what is not in its journal
	file      FileState
	said      []byte
	seen      []string
}

type entry struct {
	ref    uint64 // on the present link
	id     string
	method string
	tag    []byte
	at     time.Time
	state  CallState
	answer []byte
	done   bool
}

type keptLink struct {
	c    *child
	sink Sink
}

var (
	_ KeptLink = (*keptLink)(nil)
	_ Program  = (*keptLink)(nil)
)

func (k *keeper) Open(_ context.Context, o Open, sink Sink) (Link, error) {
	k.mu.Lock()
	c := &child{k: k, n: len(k.children) + 1, open: o, in: make(chan Outbound, 8192), over: make(chan struct{}), file: FileSame}
	c.id = "shim_" + strconv.Itoa(c.n)
	k.children = append(k.children, c)
	k.mu.Unlock()
	l := &keptLink{c, sink}
	c.link = l
	go c.run()
	return l, nil
}

// kill is the end of a daemon: every link is cut without a word.
func (k *keeper) kill() {
	for _, c := range k.all() {
		c.deliver.Lock()
		c.mu.Lock()
		c.link = nil
		c.mu.Unlock()
		c.deliver.Unlock()
	}
}

func (k *keeper) all() []*child {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.children)
}

func (k *keeper) newest() *child {
	all := k.all()
	return all[len(all)-1]
}

func (k *keeper) Survivors(context.Context) ([]Survivor, []Lost, error) {
	var alive []Survivor
	for _, c := range k.all() {
		c.mu.Lock()
		if !c.gone {
			alive = append(alive, c.survivorLocked())
		}
		c.mu.Unlock()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	lost := k.lost
	k.lost = nil
	return alive, lost, nil
}

func (c *child) survivorLocked() Survivor {
	return Survivor{ID: c.id, Server: c.open.Server.ID, Lane: c.open.Lane, Process: c.open.Process, Executable: c.file, Child: 1000 + c.n, Supervisor: 2000 + c.n, Started: time.Unix(int64(c.n), 0)}
}

func (k *keeper) Adopt(ctx context.Context, id string, take func(Adopted) (Sink, error)) error {
	k.mu.Lock()
	wait, refusal := k.adopting, k.refuse[id]
	if id == k.hangs {
		wait = make(chan struct{})
	}
	k.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "no-answer").Saying("no answer").Because(ctx.Err())
		}
	}
	if refusal != nil {
		return refusal
	}
	var c *child
	for _, one := range k.all() {
		if one.id == id {
			c = one
		}
	}
	c.deliver.Lock()
	defer c.deliver.Unlock()
	c.mu.Lock()
	if c.link != nil || c.gone {
		c.mu.Unlock()
		return fault.New(fault.Busy, "busy").Saying("another daemon holds it")
	}
	l := &keptLink{c: c}
	ad := Adopted{Survivor: c.survivorLocked(), Link: l, Blob: c.blob, Complete: !c.blind, Dropped: c.dropped, Said: c.said}
	var frames [][]byte
	frames = append(frames, c.kept...)
	ref := uint64(0)
	for _, e := range c.entries {
		call := KeptCall{ID: []byte(e.id), Method: e.method, Tag: e.tag, State: e.state, Age: time.Since(e.at)}
		if e.done {
			call.State = ""
			ad.Finished = append(ad.Finished, call)
			e.ref = 0
			continue
		}
		ref++
		e.ref, call.Ref = ref, ref
		ad.Calls = append(ad.Calls, call)
		if e.state == CallAnswered {
			frames = append(frames, e.answer)
		}
	}
	frames = append(frames, c.questions...)
	c.kept, c.dropped = nil, 0
	c.mu.Unlock()
	sink, err := take(ad)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.link, l.sink = l, sink
	c.mu.Unlock()
	if k.frames != nil {
		<-k.frames
	}
	for _, f := range frames {
		sink.Deliver(Inbound{Body: bytes.Clone(f)})
	}
	return nil
}

func (k *keeper) End(id, reason string) {
	k.mu.Lock()
	k.ended = append(k.ended, id+": "+reason)
	k.mu.Unlock()
	for _, c := range k.all() {
		if c.id == id {
			c.die(Exit{Reason: Terminated})
		}
	}
}

// die ends the child; who is attached learns it.
func (c *child) die(e Exit) {
	c.deliver.Lock()
	defer c.deliver.Unlock()
	c.mu.Lock()
	l := c.link
	again := c.gone
	c.gone, c.link = true, nil
	c.mu.Unlock()
	if again {
		return
	}
	close(c.over)
	if l != nil {
		l.sink.Closed(e)
	}
}

// mourned is what Survivors reports of a child that died unattached.
func (c *child) mourned(e Exit) Lost {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := Lost{Survivor: c.survivorLocked(), Exit: e, Complete: !c.blind}
	for _, one := range c.entries {
		call := KeptCall{ID: []byte(one.id), Method: one.method, Tag: one.tag, State: one.state}
		if one.state == CallRunning {
			d.Open = append(d.Open, call)
		} else {
			d.Answered = append(d.Answered, call)
		}
	}
	return d
}

func (c *child) run() {
	for {
		select {
		case m := <-c.in:
			msg, err := rpc.Scan(m.Body)
			if err != nil {
				c.k.t.Errorf("the gateway sent %s: %v", m.Body, err)
				return
			}
			c.mu.Lock()
			c.seen = append(c.seen, string(m.Body))
			l := c.link
			c.mu.Unlock()
			if m.Kind == rpc.Request && l != nil {
				l.sink.Written(m.Ref)
			}
			c.k.handle(c, m, msg)
		case <-c.over:
			return
		}
	}
}

// say is one line of the child.
func (c *child) say(body string) {
	c.deliver.Lock()
	defer c.deliver.Unlock()
	msg, err := rpc.Scan([]byte(body))
	if err != nil {
		c.k.t.Errorf("the child said %s: %v", body, err)
		return
	}
	c.mu.Lock()
	l := c.link
	switch msg.Kind {
	case rpc.Result, rpc.Error:
		open := slices.IndexFunc(c.entries, func(e *entry) bool {
			return !e.done && e.state == CallRunning && e.id == string(msg.ID.Of([]byte(body)))
		})
		if open >= 0 {
			c.entries[open].state, c.entries[open].answer = CallAnswered, []byte(body)
		} else if l == nil {
			c.kept = append(c.kept, []byte(body)) // a line that belongs to nothing
		}
	case rpc.Request:
		c.questions = append(c.questions, []byte(body))
	case rpc.Notification:
		if l == nil {
			c.kept = append(c.kept, []byte(body))
		}
	}
	c.mu.Unlock()
	if l != nil {
		l.sink.Deliver(Inbound{Body: []byte(body)})
	}
}

func (c *child) result(m Outbound, msg rpc.Message, result string) {
	c.say(string(rpc.ResultResponse(msg.ID.Of(m.Body), []byte(result))))
}

// messages is what the child read so far.
func (c *child) messages() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// count says how many messages that the child read hold the text.
func (c *child) count(text string) (n int) {
	for _, m := range c.messages() {
		if bytes.Contains([]byte(m), []byte(text)) {
			n++
		}
	}
	return n
}

// undone gives the entries of the journal that are not Done.
func (c *child) undone() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if !e.done {
			all = append(all, fmt.Sprint(e.ref, " ", e.id, " ", e.method, " ", e.state))
		}
	}
	return all
}

// empty waits until nothing is kept for any call.
func (k *keeper) empty() {
	k.t.Helper()
	var left []string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		left = nil
		for _, c := range k.all() {
			left = append(left, c.undone()...)
		}
		if len(left) == 0 {
			return
		}
	}
	k.t.Errorf("the journals still hold %q", left)
}

var errCut = errors.New("the link is cut")

func (l *keptLink) Send(m Outbound) error {
	msg, err := rpc.Scan(m.Body)
	if err != nil {
		return err
	}
	c := l.c
	c.mu.Lock()
	if c.gone || c.link != nil && c.link != l {
		c.mu.Unlock()
		return errCut
	}
	if c.link == nil && l.sink != nil { // what a dead daemon writes goes nowhere
		c.mu.Unlock()
		return nil
	}
	id := string(msg.ID.Of(m.Body))
	switch m.Kind {
	case rpc.Request:
		for _, e := range c.entries {
			if !e.done && e.id == id {
				c.k.t.Errorf("two entries have the id %s", id)
			}
			if !e.done && e.ref == m.Ref {
				c.k.t.Errorf("two entries have the number %d", m.Ref)
			}
		}
		c.entries = append(c.entries, &entry{ref: m.Ref, id: id, method: m.Method, tag: bytes.Clone(m.Tag), at: time.Now(), state: CallRunning})
	case rpc.Result, rpc.Error:
		c.questions = slices.DeleteFunc(c.questions, func(q []byte) bool {
			qm, _ := rpc.Scan(q)
			return string(qm.ID.Of(q)) == id
		})
	case rpc.Notification:
	}
	c.mu.Unlock()
	c.in <- m
	return nil
}

func (l *keptLink) Abort(uint64) bool            { return false }
func (l *keptLink) Close(string)                 { go l.c.die(Exit{Reason: Terminated}) }
func (l *keptLink) Detach(context.Context) error { l.c.cut(l); return nil }
func (l *keptLink) Info() LinkInfo {
	return LinkInfo{Pid: 1000 + l.c.n, Supervisor: 2000 + l.c.n, Started: time.Unix(int64(l.c.n), 0)}
}

// File is how the program of the child compares with what is there now.
func (l *keptLink) File() FileState {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.c.file
}

func (c *child) cut(l *keptLink) {
	c.deliver.Lock()
	defer c.deliver.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == l {
		c.link = nil
	}
}

func (l *keptLink) Save(blob []byte) error {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.link == l {
		l.c.blob = bytes.Clone(blob)
	}
	return nil
}

func (l *keptLink) Done(refs ...uint64) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != l {
		return
	}
	for _, ref := range refs {
		at := slices.IndexFunc(c.entries, func(e *entry) bool { return !e.done && e.ref == ref })
		if at < 0 {
			c.k.t.Errorf("Done for number %d, which is no entry", ref)
			continue
		}
		c.entries[at].done = true
		c.entries[at].answer = nil
	}
}
