package work

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"mcpx/internal/approval"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Config is what a Service needs. Everything is required but Disabled, and what commands and the tools of other servers need.
type Config struct {
	DB  store.DB
	Key []byte // makes digests of arguments; the same in every daemon of this home
	IDs *id.Source
	Now func() time.Time
	Log *slog.Logger
	// State is the state directory, Own all files and directories of the product, Home that of the user.
	State  string
	Own    []string
	Home   string
	Data   string              // the directory of the user's data, in which the trash is; "" there is none
	Redact func(string) string // takes the values of secrets out of text
	// RedactText takes out what only looks like a secret, too: for what commands print and models say, not for content. nil: as
	// Redact.
	RedactText func(string) string
	// Rules are the rules of the user and of the project with this root, as they are now.
	Rules    func(root string) policy.Rules
	Disabled []Toolset       // their tools are not listed and answer TOOL_DISABLED
	Elicit   []approval.Kind // questions that a client may put to its user, of those that Elicitable names

	// Try runs a program of the system for what it prints; nil: environment_info runs none.
	Try func(ctx context.Context, argv []string) ([]byte, error)

	Gate    Gate             // nil: no command is started
	Runner  operation.Runner // nil: no command is started
	Environ []string         // our own environment; commands get the allowed part of it
	Secrets Secrets          // nil: no command is given a secret
	Jobs    int              // that run at once, for each principal and each project; 0 is operation.UsualJobs

	// YAML reads a document that people write as values; its errors quote nothing of it.
	YAML   func(data []byte) (map[string]any, error)
	Skills []string // absolute directories of the user's own skills; those that are not there have none

	Upstream Upstream // nil: no tool of another server is called
	// Allowed says whether a rule of the user lets a tool of a server be called without asking; nil: there is none.
	Allowed func(server, tool string) bool
}

// Service carries out calls.
type Service struct {
	cfg   Config
	tools map[string]*tool
	since time.Time // start of this daemon
	jobs  *jobs
	seen  seen
	used  used

	acts    *semaphore.Weighted // of the effects that change files; draining takes it whole
	leases  leases
	pending pending
	prunes  sync.Mutex // held during a look for what is old

	quit    chan struct{}  // closed when the daemon stops: what goes on by itself is left alone
	running sync.WaitGroup // what follows jobs

	mu      sync.Mutex                       // guards busy and stopped
	busy    map[operation.Name]chan struct{} // closed at the end of the work
	stopped bool
	all     sync.WaitGroup
}

// New makes a Service.
func New(c Config) (*Service, error) {
	switch {
	case c.DB == nil || c.IDs == nil || c.Now == nil || c.Log == nil:
		return nil, errors.New("work: Config.DB, Config.IDs, Config.Now and Config.Log are required")
	case c.State == "" || c.Home == "" || c.Redact == nil || c.Rules == nil || c.YAML == nil:
		return nil, errors.New("work: Config.State, Config.Home, Config.Redact, Config.Rules and Config.YAML are required")
	case len(c.Key) < 32:
		return nil, errors.New("work: Config.Key has less than 32 bytes")
	}
	if c.RedactText == nil {
		c.RedactText = c.Redact
	}
	if c.Allowed == nil {
		c.Allowed = func(string, string) bool { return false }
	}
	s := &Service{cfg: c, tools: map[string]*tool{}, busy: map[operation.Name]chan struct{}{}, since: c.Now(), quit: make(chan struct{}), acts: semaphore.NewWeighted(allActs), leases: leases{held: map[string]int{}, open: map[string]int{}}, pending: pending{ends: map[string]chan struct{}{}}}
	s.jobs = &jobs{s: s, limit: cmp.Or(c.Jobs, operation.UsualJobs)}
	for _, t := range catalogue() {
		s.tools[t.Name] = &t
	}
	return s, nil
}

// Stop lets nothing begin any more, and returns when what has begun is recorded, or is left to the next daemon: commands
// run on.
func (s *Service) Stop() {
	s.mu.Lock()
	if !s.stopped {
		close(s.quit)
	}
	s.stopped = true
	s.mu.Unlock()
	s.all.Wait()
	s.running.Wait()
	s.prunes.Lock() // a look for what is old ends with its step
	defer s.prunes.Unlock()
}

// Call is one call of a tool.
type Call struct {
	Tool      string
	Args      json.RawMessage
	Principal string // whose call it is
	Client    string // the program, as it calls itself: a label
	Channel   string // how it came: a label
	ReadOnly  bool   // the caller was let in for calls that change nothing
	// Check holds arguments against the schema of a tool that is on. It is asked after the replay check: an exact retry of a
	// call from before a change of the schema is answered.
	Check func(tool string, args json.RawMessage) error
	Forms bool  // the client can put a form to its user
	Said  *Said // what the user said to the form of the answer before; nil: there was none
	// Gone says that nobody will read the answer, though the call was not canceled; nil: it is read.
	Gone func() bool
	step bool // it is one of a batch, which reveals what may be seen on the way to the caller alone
	// person says that the owner of the daemon makes the call at a terminal.
	person bool
	read   func(bytes int) // is told of bytes of a build as they are read; nil: nobody is
}

// turn is a call on its way.
type turn struct {
	Call
	tool *tool
	via  *tool // the alias that was called; nil: none
	args map[string]json.RawMessage
	sum  operation.Print
	op   operation.Operation // of a call with an effect
	// subject is what a person said yes to, for the dispatch; "" nobody had to be asked.
	subject string
	ruled   policy.Verdict // on a command, for the record; the zero one: none was judged
	keeper  keeper         // of an effect that has rows of its own
	left    atomic.Bool    // nobody waits for the end any more
	hungUp  func() bool    // its caller left before it was told that the work goes on
	ground  ground         // of a call that answers with it
	files   map[session.Evidence]fileVerdict
	copied  copied   // of a call that registers an artifact
	others  []string // the questions of others that an answer shows, the newest first
}

// actor is who the events of the turn tell of.
func (t *turn) actor() event.Actor {
	return event.Actor{Principal: t.Principal, Client: t.Client, Channel: t.Channel}
}

// scan reads the arguments.
func (t *turn) scan(into any) error {
	if len(t.Args) == 0 {
		return nil
	}
	if err := json.Unmarshal(t.Args, into); err != nil {
		return operation.Refuse(operation.ArgumentInvalid, "an argument has another type than the schema says: %s", err)
	}
	return nil
}

// text is one argument that is a string; "" when it is absent or something else.
func (t *turn) text(name string) (out string) {
	_ = json.Unmarshal(t.args[name], &out) // what it is not is found by the check of the schema
	return out
}

// unheard says that nobody will read the answer.
func (t *turn) unheard() bool { return t.Gone != nil && t.Gone() }

// patience is how long the caller waits; usual is in milliseconds, for a call that does not say.
func (t *turn) patience(usual int) time.Duration {
	ms := usual
	if raw, ok := t.args["wait_ms"]; ok {
		_ = json.Unmarshal(raw, &ms) // as in text
	}
	return min(max(time.Duration(ms)*time.Millisecond, 0), answerWithin-time.Second)
}

// wait waits for the end of something, as long as the caller does.
func (t *turn) wait(ctx context.Context, end <-chan struct{}) error {
	over := time.NewTimer(t.patience(0))
	defer over.Stop()
	select {
	case <-end:
	case <-over.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

const (
	// answerWithin is the deadline of every answer: several clients give up after a minute, some before.
	answerWithin = 25 * time.Second
	// defaultWait is how long an effect may take before its call answers in_progress, in milliseconds.
	defaultWait = 20000
)

// Do carries out one call. It never panics, and always answers within the deadline; to a person, when it is done.
func (s *Service) Do(ctx context.Context, c Call) (a operation.Answer) {
	defer func() {
		if p := recover(); p != nil {
			a = refusal(s.crashed(ctx, c.Tool, p, fault.SameID))
		}
	}()
	tool := s.tools[c.Tool]
	if tool == nil {
		return refusal(operation.Refuse(operation.ArgumentInvalid, "there is no tool %.64q", c.Tool))
	}
	args, err := operation.ParseArgs(c.Args)
	if err != nil {
		return refusal(operation.Refuse(operation.ArgumentInvalid, "%s", err))
	}
	t := &turn{Call: c, tool: tool, args: args}
	var ignored []string
	if tool.Set == SetCompat {
		if ignored, err = s.translate(t); err != nil {
			return s.answer(ctx, t, nil, err)
		}
	}
	if c.Said != nil {
		heard, err := s.hear(ctx, t)
		if err != nil {
			return s.answer(ctx, t, nil, err)
		}
		ignored = append(ignored, heard...)
	}
	warnings := s.note(ctx, t)
	a = s.dispatch(ctx, t)
	a.Warnings = slices.Concat(a.Warnings, ignored, warnings)
	if !c.person {
		a = s.bounded(ctx, t, a)
	}
	s.offerForm(ctx, t, &a)
	return a
}

// dispatch takes a call its way.
func (s *Service) dispatch(ctx context.Context, t *turn) operation.Answer {
	tool := t.tool
	if tool.changes(t) {
		if t.ReadOnly {
			return refusal(operation.Refuse(operation.RoleDenied, "you were let in to read only, and %s changes something", t.Tool).Retrying(fault.Never).
				With("hint", "a person lets this client in again for more: it asks for the scope runtime:use"))
		}
		return s.operate(ctx, t)
	}
	if err := s.admit(t); err != nil {
		return s.answer(ctx, t, nil, err)
	}
	if !t.person { // who sits at a terminal sees that it goes on, and ends it at will
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, answerWithin)
		defer stop()
	}
	data, err := tool.read(ctx, s, t)
	return s.answer(ctx, t, data, err)
}

// admit says whether the call may be looked at: its tool is enabled and its arguments fit.
func (s *Service) admit(t *turn) error {
	for _, one := range []*tool{t.via, t.tool} {
		if one != nil && !t.person && slices.Contains(s.cfg.Disabled, one.Set) {
			return toolDisabled(one.Name, one.Set)
		}
	}
	if t.Check != nil {
		if err := t.Check(t.Tool, t.Args); err != nil {
			return operation.Refuse(operation.ArgumentInvalid, "%s", err)
		}
	}
	return nil
}

func toolDisabled(what string, set Toolset) *operation.Refusal {
	return operation.Refuse(operation.ToolDisabled, "%s belongs to the toolset %s, which is off", what, set).Retrying(fault.Never).With("setting", "runtime."+string(set))
}

// crashed is the refusal after a bug of ours. The crash id leads from what a person sees to the log.
func (s *Service) crashed(ctx context.Context, tool string, cause any, retry fault.Retry) *operation.Refusal {
	raw := make([]byte, 6)
	_, _ = rand.Read(raw) // never fails
	crash := hex.EncodeToString(raw)
	s.cfg.Log.LogAttrs(ctx, slog.LevelError, "a tool crashed", slog.String(key.Tool, tool), slog.String(key.Crash, crash),
		slog.String(key.Cause, fmt.Sprint(cause)), slog.String(key.Stack, string(debug.Stack())))
	return operation.Refuse(operation.InternalError, "mcpx has a bug; the log has more under %s", crash).Retrying(retry).With("crash_id", crash)
}

// enter takes the work of an operation. While somebody has it, it gives what tells of the end instead. Both are nil in a
// daemon that stops.
func (s *Service) enter(n operation.Name) (leave func(), busy <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.busy[n]; c != nil {
		return nil, c
	}
	if s.stopped {
		return nil, nil
	}
	c := make(chan struct{})
	s.busy[n] = c
	s.all.Add(1)
	return func() {
		s.mu.Lock()
		delete(s.busy, n)
		s.mu.Unlock()
		close(c)
		s.all.Done()
	}, nil
}

// find reads the row of an operation; nil when there is none.
func (s *Service) find(ctx context.Context, n operation.Name) (*operation.Operation, error) {
	var row *operation.Operation
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		o, err := r.OperationByName(ctx, operation.ByName{Name: n})
		if err == nil {
			row = &o
		}
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		return nil, nil
	}
	return row, err
}
