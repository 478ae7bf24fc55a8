package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mcpx/internal/catalog"
	"mcpx/internal/era"
	"mcpx/internal/fault"
	"mcpx/internal/rpc"
	"mcpx/internal/store"
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
	ad := Adopted{Survivor: c.survivorLocked(), Link: l, Blob: c.blob, Complete: !c.blind, Dropped: c.dropped}
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

func (l *keptLink) attached() bool {
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	return l.c.link == l
}

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
	}
	c.mu.Unlock()
	c.in <- m
	return nil
}

func (l *keptLink) Abort(uint64) bool            { return false }
func (l *keptLink) Close(string)                 { go l.c.die(Exit{Reason: Terminated}) }
func (l *keptLink) Detach(context.Context) error { l.c.cut(l); return nil }
func (l *keptLink) Info() LinkInfo               { return LinkInfo{Pid: 1000 + l.c.n, Supervisor: 2000 + l.c.n} }

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

// memory is a SessionStore.
type memory struct {
	mu  sync.Mutex
	all map[string]store.Session
	seq uint64
}

func (m *memory) Save(_ context.Context, s store.Session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil {
		m.all = map[string]store.Session{}
	}
	if old, ok := m.all[s.ID]; ok {
		s.Seq = old.Seq
	} else {
		m.seq++
		s.Seq = m.seq
	}
	m.all[s.ID] = s
	return nil
}

func (m *memory) Forget(_ context.Context, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.all, id)
	return nil
}

func (m *memory) All(context.Context) ([]store.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.all), func(a, b store.Session) int { return int(a.Seq) - int(b.Seq) }), nil
}

func (m *memory) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

// machine is what outlives the daemons of a test.
type machine struct {
	t     testing.TB
	k     *keeper
	store *memory
	epoch uint64
	edit  func(*catalog.Server)
	cfg   func(*Config)

	g *Gateway
	s *Server
}

func newMachine(t testing.TB, edit func(*catalog.Server), handle func(c *child, m Outbound, msg rpc.Message)) *machine {
	k := &keeper{t: t}
	k.handle = func(c *child, m Outbound, msg rpc.Message) {
		if m.Method == "initialize" {
			c.result(m, msg, legacyInit)
			return
		}
		handle(c, m, msg)
	}
	mc := &machine{t: t, k: k, store: &memory{}, epoch: 6, edit: edit}
	t.Cleanup(func() {
		if mc.g != nil {
			mc.stop(true)
		}
		for _, c := range k.all() {
			c.die(Exit{Reason: Terminated})
		}
	})
	mc.start()
	return mc
}

// start is a new daemon.
func (mc *machine) start() {
	mc.t.Helper()
	mc.epoch++
	cfg := Config{
		Stdio: mc.k, HTTP: mc.k, Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler), Epoch: mc.epoch, Version: "test", Sessions: mc.store,
		StateKey: bytes.Repeat([]byte{7}, sealKeyLen),
		Resolve:  func(context.Context, catalog.Server, Caller) (Resolved, error) { return Resolved{}, nil },
	}
	if mc.cfg != nil {
		mc.cfg(&cfg)
	}
	g, err := New(cfg)
	if err != nil {
		mc.t.Fatal(err)
	}
	e := catalog.Server{
		ID: "srv_1", Name: "peer", Stdio: &catalog.Stdio{Command: "peer"}, Sharing: catalog.ShareSession, Protocol: catalog.ProtocolLegacy,
		Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled,
	}
	if mc.edit != nil {
		mc.edit(&e)
	}
	g.Apply([]catalog.Server{e})
	if err := g.Restore(mc.t.Context()); err != nil {
		mc.t.Error(err)
	}
	s, ok := g.Route("peer")
	if !ok {
		mc.t.Fatal("the server is not routed")
	}
	mc.g, mc.s = g, s
}

// kill ends the daemon as SIGKILL does: no link, no answer, no write to the store follows.
func (mc *machine) kill() {
	mc.k.kill()
	g := mc.g
	g.shelf.stop(context.Background()) // what a client was told is written by then; nothing else is waited for
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	if err := g.Stop(ctx, false); err != nil { // only to end its goroutines
		mc.t.Errorf("stop: %v", err)
	}
	mc.g, mc.s = nil, nil
}

func (mc *machine) stop(children bool) {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	if err := mc.g.Stop(ctx, children); err != nil {
		mc.t.Errorf("stop: %v", err)
	}
	mc.g, mc.s = nil, nil
}

// crash is kill and start.
func (mc *machine) crash() {
	mc.kill()
	mc.start()
}

// again is the same session at the present daemon.
func (mc *machine) again(x *Session) *Session {
	mc.t.Helper()
	same, bad := mc.s.Session(x.ID, owner1)
	if bad != nil {
		mc.t.Fatalf("the session is gone: %v", bad)
	}
	return same
}

// resume follows the stream of a request by its id, as a client does that has seen an event of an earlier daemon.
func resume(t *testing.T, x *Session, id string, epoch uint64) *Reader {
	t.Helper()
	return resumeNamed(t, x, era.StreamName([]byte(id)), epoch)
}

func resumeNamed(t *testing.T, x *Session, name string, epoch uint64) *Reader {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	_, r, bad := x.Resume(ctx, EventID(name, epoch, 0))
	if bad != nil {
		t.Fatalf("the resume of %s got %v", name, bad)
	}
	return r
}

func b64(id string) string { return base64.RawURLEncoding.EncodeToString([]byte(id)) }

func callBody(id string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"a"}}`, id)
}

// end ends the machine inside of a test that has its own time: cleanups run too late there.
func (mc *machine) end() {
	mc.stop(true)
	for _, c := range mc.k.all() {
		c.die(Exit{Reason: Terminated})
	}
	synctest.Wait()
}
