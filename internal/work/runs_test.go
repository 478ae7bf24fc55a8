package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/clientfile"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/test/storetest"
)

// mortal is a store of a daemon that dies at one of its commits, before it or right after it: from then on nothing can be
// read or written through it.
type mortal struct {
	store.DB
	left  atomic.Int64 // commits until it dies
	after bool         // the last commit is written, and nobody hears of it
	dead  atomic.Bool
}

var errDead = fault.New(fault.Unavailable, "store-dead").Saying("the daemon is dead")

func (m *mortal) View(ctx context.Context, fn func(store.Reader) error) error {
	if m.dead.Load() {
		return errDead
	}
	return m.DB.View(ctx, fn)
}

func (m *mortal) Change(ctx context.Context, fn func(store.Tx) error) error {
	if m.dead.Load() {
		return errDead
	}
	if m.left.Add(-1) > 0 {
		return m.DB.Change(ctx, fn)
	}
	m.dead.Store(true)
	if m.after {
		if err := m.DB.Change(ctx, fn); err != nil {
			return err
		}
	}
	return errDead
}

// fate is what must be true of one operation id, whoever calls and whatever dies.
type fate struct {
	effects atomic.Int64
	yes     atomic.Int64 // of a person
	mu      sync.Mutex
	said    string // the data of the first answer that was a success
	ended   operation.Code
}

// heard compares an answer with what was answered before.
func (f *fate) heard(a operation.Answer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case a.OK:
		switch {
		case f.effects.Load() != 1:
			return fmt.Errorf("a success after %d effects", f.effects.Load())
		case f.ended != "":
			return fmt.Errorf("a success after %s", f.ended)
		case f.said != "" && f.said != string(a.Data):
			return fmt.Errorf("it answered %s and now %s", f.said, a.Data)
		}
		f.said = string(a.Data)
	case a.Operation != nil && a.Operation.State == operation.Failed:
		switch {
		case f.effects.Load() != 0:
			return fmt.Errorf("%s after %d effects", a.Refusal.Code, f.effects.Load())
		case f.said != "":
			return fmt.Errorf("%s after a success", a.Refusal.Code)
		case f.ended != "" && f.ended != a.Refusal.Code:
			return fmt.Errorf("it ended with %s and now with %s", f.ended, a.Refusal.Code)
		}
		f.ended = a.Refusal.Code
	}
	return nil
}

// life is one run: a few operations, their clients, a person, and one daemon after the other on one store.
type life struct {
	t     *testing.T
	r     *rand.Rand
	db    *storetest.Model
	clock atomic.Int64
	fates map[string]*fate

	store *mortal
	*Service

	calls, crashes, asked, effects int
}

var lifeIDs = []string{"op-plain-1", "op-plain-2", "op-asks-1", "op-asks-2", "op-asks-3"}

// lived is an effect with an evidence that outlives the daemon: its fate.
type lived struct {
	l    *life
	fate *fate
	id   string
	read func() string // what the arguments say
}

func (e *lived) question() *Question {
	if !strings.HasPrefix(e.id, "op-asks") {
		return nil
	}
	return &Question{Kind: approval.KindCommand, Subject: digest([]byte(e.id + e.read())), Display: e.id}
}
func (e *lived) stage(context.Context) (any, error) { return nil, nil }
func (e *lived) drop()                              {}
func (e *lived) settle(context.Context)             {}
func (e *lived) close()                             {}
func (e *lived) run(context.Context) (any, error) {
	if e.l.store.dead.Load() { // a daemon that is dead does nothing
		return nil, errDead
	}
	e.fate.effects.Add(1)
	return map[string]string{"did": e.id}, nil
}

func (l *life) tool() tool {
	return tool{
		Tool: Tool{Name: "probe", Set: SetFiles}, mutates: true, class: operation.FS,
		begin: func(_ context.Context, _ *Service, t *turn) (effect, error) {
			return &lived{l: l, fate: l.fates[t.op.ID], id: t.op.ID, read: func() string { return t.text("what") }}, nil
		},
		recover: func(_ context.Context, _ *Service, t *turn) (any, ending, error) {
			e := &lived{l: l, fate: l.fates[t.op.ID], id: t.op.ID}
			switch {
			case t.op.State == operation.Claimed:
				return nil, e, nil
			case l.r.IntN(4) == 0:
				return nil, e, errors.New("the disk does not answer") // the next start decides
			case e.fate.effects.Load() > 0: // the evidence says that it happened
				return map[string]string{"did": e.id}, e, nil
			}
			return nil, e, operation.Refuse("CANONICAL_MOVED", "it never happened")
		},
	}
}

// start is the start of a daemon: the one before is dead, or is killed now.
func (l *life) start() {
	if l.store != nil {
		l.store.dead.Store(true)
		l.Stop() // what is in it ends, and leaves nothing
		l.crashes++
	}
	for {
		l.store = &mortal{DB: l.db, after: l.r.IntN(2) == 0}
		l.store.left.Store(int64(1 + l.r.IntN(40)))
		now := func() time.Time { return time.Unix(0, l.clock.Load()).UTC() }
		s, err := New(Config{
			DB: l.store, Key: []byte(strings.Repeat("k", 32)), IDs: id.NewSource(now, rand.NewChaCha8([32]byte{byte(l.r.IntN(256)), byte(l.r.IntN(256))})), Now: now,
			Log: slog.New(slog.DiscardHandler), State: "/state", Home: "/home/dev", Redact: func(s string) string { return s },
			Rules: func(string) policy.Rules { return policy.Rules{} }, YAML: clientfile.ReadYAML,
		})
		if err != nil {
			panic(err)
		}
		one := l.tool()
		s.tools[one.Name] = &one
		l.Service = s
		_ = s.Recover(l.t.Context()) // what it could not decide stays open
		if !l.store.dead.Load() {
			return
		}
		l.crashes++ // it died in its recovery: the next one goes on
	}
}

// call is one call by some client: mostly of what the id was used for before.
func (l *life) call(name string, wait int, client string, other bool) {
	what := "this"
	if other {
		what = "that"
	}
	a := l.Do(l.t.Context(), Call{
		Tool: "probe", Principal: session.Operator, Client: client, Channel: "test",
		Args: json.RawMessage(fmt.Sprintf(`{"operation_id":%q,"what":%q,"wait_ms":%d}`, name, what, wait)),
	})
	if a.Refusal != nil && a.Refusal.Code == operation.OperationIDReused {
		return
	}
	if err := l.fates[name].heard(a); err != nil {
		l.t.Errorf("%s: %v", name, err)
	}
}

// person answers one question, through a store that does not die.
func (l *life) person() {
	err := l.db.Change(l.t.Context(), func(tx store.Tx) error {
		pending, err := approval.All(l.t.Context(), tx, approval.ListApprovals{State: approval.Pending})
		if err != nil || len(pending) == 0 {
			return err
		}
		a, yes := pending[l.r.IntN(len(pending))], l.r.IntN(4) > 0
		now := time.Unix(0, l.clock.Load()).UTC()
		a, err = approval.Decide(a, approval.Decision{Principal: session.Operator, Channel: "cli", At: now, Digest: a.Subject}, yes)
		if err != nil {
			return nil // its time is over
		}
		l.asked++
		if yes {
			l.fates[a.Operation].yes.Add(1)
		}
		if err := tx.PutApproval(l.t.Context(), approval.PutApproval{Approval: a}); err != nil || yes {
			return err
		}
		return l.Ended(l.t.Context(), tx, event.Actor{Principal: session.Operator}, a)
	})
	if err != nil {
		panic(err)
	}
}

func (l *life) live() {
	l.start()
	for range 10 + l.r.IntN(30) {
		if l.store.dead.Load() {
			l.start()
		}
		name := lifeIDs[l.r.IntN(len(lifeIDs))]
		switch l.r.IntN(12) {
		case 0:
			l.start()
		case 1, 2, 3:
			l.person()
		case 4:
			l.clock.Add(int64(l.r.IntN(20)) * int64(time.Minute))
		case 5, 6: // several clients at once
			var group sync.WaitGroup
			for i := range 2 + l.r.IntN(4) {
				l.calls++
				wait := l.r.IntN(2) * 3
				other := l.r.IntN(8) == 0
				group.Go(func() { l.call(name, wait, fmt.Sprint("client ", i), other) })
			}
			group.Wait()
		case 7:
			l.Do(l.t.Context(), Call{Tool: "resolve_operation", Principal: session.Operator, Args: json.RawMessage(fmt.Sprintf(`{"operation_id":"resolve-%d","target":%q,"verdict":"abandon"}`, l.r.Int64(), name))})
		default:
			l.calls++
			l.call(name, 3, "client", l.r.IntN(10) == 0)
		}
	}
	l.start() // one more daemon decides what is open
	for _, name := range lifeIDs {
		l.call(name, 20, "the last client", false)
		f := l.fates[name]
		if n := f.effects.Load(); n > 1 {
			l.t.Errorf("%s: %d effects", name, n)
		} else if strings.HasPrefix(name, "op-asks") && n > f.yes.Load() {
			l.t.Errorf("%s: %d effects, and a person said yes %d times", name, n, f.yes.Load())
		}
		l.effects += int(f.effects.Load())
	}
	l.Stop()
	l.consistent()
}

// consistent: every yes that was used is of exactly one operation, which began after it.
func (l *life) consistent() {
	err := l.db.View(l.t.Context(), func(r store.Reader) error {
		all, err := approval.All(l.t.Context(), r, approval.ListApprovals{State: approval.Consumed})
		if err != nil {
			return err
		}
		used := map[string]int{}
		for _, a := range all {
			if used[a.Consumer]++; used[a.Consumer] > 1 || a.Decision == nil || a.Used.Before(a.Decision.At) {
				return errors.New("a yes was used twice, or before it was said: " + a.ID)
			}
			o, err := r.OperationByName(l.t.Context(), operation.ByName{Name: operation.Name{Namespace: session.Operator, ID: a.Consumer}})
			if err != nil || o.Approval != a.ID || o.Begun.IsZero() {
				return fmt.Errorf("the consumer of %s is %+v: %w", a.ID, o, err)
			}
		}
		for _, name := range lifeIDs {
			if n := int(l.fates[name].effects.Load()); strings.HasPrefix(name, "op-asks") && n > used[name] {
				return fmt.Errorf("%s had %d effects and used %d times a yes", name, n, used[name])
			}
		}
		return nil
	})
	if err != nil {
		l.t.Error(err)
	}
}

// TestThousandRuns is a thousand lives with other orders of calls, retries, clients, answers of a person, deaths of the
// daemon and recoveries: an operation has at most one effect, only after a yes where one is needed, and what it answered
// once it answers for ever.
func TestThousandRuns(t *testing.T) {
	runs := 1000
	if testing.Short() || raceOn {
		runs = 100
	}
	var (
		calls, crashes, asked, effects int
		sum                            sync.Mutex // guards them
		lives                          = make(chan uint64)
		group                          sync.WaitGroup
	)
	for range 16 { // most of a life is waiting
		group.Go(func() {
			for seed := range lives {
				l := &life{t: t, r: rand.New(rand.NewPCG(seed, 5)), db: storetest.NewModel(), fates: map[string]*fate{}}
				l.clock.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano())
				for _, name := range lifeIDs {
					l.fates[name] = &fate{}
				}
				l.live()
				sum.Lock()
				calls, crashes, asked, effects = calls+l.calls, crashes+l.crashes, asked+l.asked, effects+l.effects
				sum.Unlock()
			}
		})
	}
	for seed := 0; seed < runs && !t.Failed(); seed++ {
		lives <- uint64(seed)
	}
	close(lives)
	group.Wait()
	t.Logf("%d runs: %d calls, %d deaths of the daemon, %d decisions of a person, %d effects of %d operations, none of them twice", runs, calls, crashes, asked, effects, runs*len(lifeIDs))
	if !t.Failed() && (crashes < runs || asked < runs/4 || effects < runs) {
		t.Error("the runs do not try what they are there for")
	}
}
