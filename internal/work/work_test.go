package work

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

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

// desk is a Service with a store in memory.
type desk struct {
	*Service
	t     *testing.T
	db    *storetest.Model
	state string
	clock atomic.Int64
	rules policy.Rules  // of every project
	with  func(*Config) // changes what start makes
}

func newDesk(t *testing.T, more ...tool) *desk {
	t.Helper()
	d := &desk{t: t, db: storetest.NewModel(), state: t.TempDir()}
	d.clock.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixNano())
	d.start(t, d.db, more...)
	return d
}

// start makes a Service as a daemon would, on what is stored.
func (d *desk) start(t *testing.T, db store.DB, more ...tool) {
	t.Helper()
	now := func() time.Time { return time.Unix(0, d.clock.Load()).UTC() }
	c := Config{
		DB: db, Key: []byte(strings.Repeat("k", 32)), IDs: id.NewSource(now, rand.NewChaCha8([32]byte{1})), Now: now, Log: slog.New(slog.DiscardHandler),
		State: d.state, Home: "/home/dev", Data: filepath.Join(d.state, "data"), Redact: func(s string) string { return s }, Rules: func(string) policy.Rules { return d.rules },
		Disabled: []Toolset{SetCommands}, YAML: clientfile.ReadYAML,
	}
	if d.with != nil {
		d.with(&c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range more {
		s.tools[one.Name] = &one
	}
	d.Service = s
	t.Cleanup(s.Stop)
}

func (d *desk) project(t *testing.T, name, path string) {
	t.Helper()
	err := d.db.Change(t.Context(), func(tx store.Tx) error {
		return tx.PutProject(t.Context(), session.PutProject{Project: session.Project{
			ID: "proj_" + name, Name: name, Path: path, By: session.ByPath, State: session.ProjectOK,
		}})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (d *desk) as(t *testing.T, principal, tool, format string, args ...any) operation.Answer {
	t.Helper()
	return d.Do(t.Context(), Call{Tool: tool, Args: json.RawMessage(fmt.Sprintf(format, args...)), Principal: principal, Channel: "test"})
}

// Do carries out a call. Every answer of every test of this package comes through here: RT-4. A call that no client could
// make, because it does not fit the schema, may be proposed again.
func (d *desk) Do(ctx context.Context, c Call) operation.Answer {
	a := d.Service.Do(ctx, c)
	if one := d.tools[c.Tool]; one == nil || fits(*one, c.Args) != nil {
		return a
	}
	if err := d.proposes(c.Principal, a); err != nil {
		d.t.Errorf("%s %s: %v", c.Tool, c.Args, err)
	}
	return a
}

// proposes says what is wrong with the calls that an answer proposes: each is one of a tool that is on, fits its schema, and
// is permitted to the role of the caller.
func (d *desk) proposes(principal string, a operation.Answer) error {
	if len(a.Next) > maxNext {
		return fmt.Errorf("it proposes %d calls", len(a.Next))
	}
	for _, n := range a.Next {
		tool := d.tools[n.Tool]
		if tool == nil || slices.Contains(d.cfg.Disabled, tool.Set) {
			return fmt.Errorf("it proposes %s, which is not there", n.Tool)
		}
		raw, err := json.Marshal(n.Args)
		if err != nil {
			return err
		}
		if err := fits(*tool, raw); err != nil {
			return fmt.Errorf("it proposes %s %s: %w", n.Tool, raw, err)
		}
		args, err := operation.ParseArgs(raw)
		if err != nil {
			return err
		}
		next := &turn{Call: Call{Tool: n.Tool, Args: raw, Principal: principal}, tool: tool, args: args}
		ref, act := next.text("remote_session_id"), session.ActRead
		if tool.changes(next) {
			act = session.ActChange
		}
		err = d.db.View(context.Background(), func(r store.Reader) error {
			_, err := session.Admit(context.Background(), r, session.AdmitRequest{Session: ref, Principal: principal, Act: act})
			return err
		})
		if ref != "" && codeIn(err) == operation.RoleDenied {
			return fmt.Errorf("it proposes %s %s: %w", n.Tool, raw, err)
		}
	}
	return nil
}

// fits holds arguments against the schema of a tool, made as for a client. Tools of tests have none.
func fits(t tool, raw json.RawMessage) error {
	if t.Args == nil {
		return nil
	}
	schema, err := jsonschema.ForType(reflect.TypeOf(t.Args), &jsonschema.ForOptions{})
	if err != nil {
		return err
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	return resolved.Validate(v)
}

// TestRT4Proposals: RT-4, what the check of every answer finds.
func TestRT4Proposals(t *testing.T) {
	s := newShop(t)
	token := read[struct{ Token string }](t, s.do(t, "session", `"action":"handoff","operation_id":"hand-0001"`)).Token
	s.as(t, "bob", "session", `{"action":"attach","handoff_token":%q,"operation_id":"take-0001"}`, token)
	edit := map[string]any{"remote_session_id": s.session, "operation_id": "edit-0001", "edits": []any{}}
	for what, next := range map[string]operation.Next{
		"a tool that does not exist": {Tool: "nothing"},
		"a tool that is off":         {Tool: "command_status", Args: map[string]any{"job_id": "job_1"}},
		"another argument":           {Tool: "read_file", Args: map[string]any{"file": "a"}},
		"a missing one":              {Tool: "read_result", Args: map[string]any{}},
		"one of another type":        {Tool: "read_file", Args: map[string]any{"path": 1}},
		"what a viewer may not":      {Tool: "edit_files", Args: edit},
	} {
		if s.proposes("bob", operation.Answer{Next: []operation.Next{next}}) == nil {
			t.Errorf("%s is not found", what)
		}
	}
	if s.proposes("bob", operation.Answer{Next: make([]operation.Next, maxNext+1)}) == nil {
		t.Error("more calls than may be are not found")
	}
	if err := s.proposes(session.Operator, operation.Answer{Next: []operation.Next{{Tool: "edit_files", Args: edit}}}); err != nil {
		t.Errorf("the owner's edit: %v", err)
	}
}

func (d *desk) call(t *testing.T, tool, format string, args ...any) operation.Answer {
	t.Helper()
	return d.as(t, session.Operator, tool, format, args...)
}

func read[T any](t *testing.T, a operation.Answer) (out T) {
	t.Helper()
	if a.Refusal != nil {
		t.Fatalf("refused: %v", a.Refusal)
	}
	if err := json.Unmarshal(a.Data, &out); err != nil {
		t.Fatalf("%s: %v", a.Data, err)
	}
	return out
}

func refused(t *testing.T, a operation.Answer, code operation.Code, retry fault.Retry) {
	t.Helper()
	if a.Refusal == nil || a.Refusal.Code != code || a.Refusal.Retry != retry || a.OK {
		t.Errorf("answer %+v (%v), want %s, %s", a, a.Refusal, code, retry)
	}
}

func (d *desk) operations(t *testing.T) (all []operation.Operation) {
	t.Helper()
	if err := d.db.View(t.Context(), func(r store.Reader) (err error) {
		all, err = r.Operations(t.Context(), operation.ListOperations{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// probe is an effect that a test looks into.
type probe struct {
	fails  error
	stage_ func()
	ran    *atomic.Int64
	closed atomic.Int64
	held   chan struct{}
	asks   func() *Question // nil: nobody is asked
}

func (p *probe) question() *Question {
	if p.asks == nil {
		return nil
	}
	return p.asks()
}

func (p *probe) stage(context.Context) (any, error) {
	if p.stage_ != nil {
		p.stage_()
	}
	return map[string]string{"staged": "yes"}, nil
}
func (p *probe) drop()                  {}
func (p *probe) settle(context.Context) {}
func (p *probe) close()                 { p.closed.Add(1) }
func (p *probe) run(context.Context) (any, error) {
	if p.held != nil {
		<-p.held
	}
	p.ran.Add(1)
	return map[string]int64{"ran": p.ran.Load()}, p.fails
}

func probing(p *probe) tool {
	return tool{Tool: Tool{Name: "probe", Set: SetFiles}, mutates: true, class: operation.FS, begin: func(context.Context, *Service, *turn) (effect, error) { return p, nil }}
}

func TestRT8OperationIDRequired(t *testing.T) {
	d := newDesk(t)
	d.project(t, "shop", "/srv/shop")
	refused(t, d.call(t, "session", `{"action":"open","project":"shop"}`), operation.OperationIDRequired, fault.AfterFix)
	refused(t, d.call(t, "session", `{"action":"open","project":"shop","operation_id":"x y"}`), operation.ArgumentInvalid, fault.AfterFix)
	if got := d.operations(t); len(got) > 0 {
		t.Errorf("the ledger has %v", got)
	}
	if a := d.call(t, "session", `{"action":"open","project":"shop","operation_id":"op-00001"}`); !a.OK {
		t.Errorf("with an id: %+v", a)
	}
}

func TestRT16OpenTwice(t *testing.T) {
	d := newDesk(t)
	d.project(t, "shop", "/srv/shop")
	type opened struct {
		Session struct {
			ID string `json:"remote_session_id"`
		}
	}
	first := d.call(t, "session", `{"action":"open","project":"shop","operation_id":"op-00001"}`)
	d.start(t, d.db) // another daemon
	again := d.call(t, "session", `{"operation_id":"op-00001","project":"shop","action":"open","activity":{"intent":"again"}}`)
	if a, b := read[opened](t, first), read[opened](t, again); a.Session.ID == "" || a != b || string(first.Data) != string(again.Data) {
		t.Errorf("two calls opened %v and %v", a, b)
	}
	if first.Operation.Replayed || !again.Operation.Replayed {
		t.Errorf("replayed: %+v, %+v", first.Operation, again.Operation)
	}
	refused(t, d.call(t, "session", `{"operation_id":"op-00001","project":"other","action":"open"}`), operation.OperationIDReused, fault.NewID)
	if a := d.as(t, "guest", "session", `{"operation_id":"op-00001","project":"shop","action":"open"}`); a.Refusal == nil || a.Refusal.Code != operation.ProjectUnknown {
		t.Errorf("the id in another namespace: %+v", a)
	}
}

func TestRT17ProjectRequired(t *testing.T) {
	d := newDesk(t)
	d.project(t, "shop", "/srv/shop")
	a := d.call(t, "session", `{"action":"open","operation_id":"op-00001"}`)
	refused(t, a, operation.ProjectRequired, fault.AfterFix)
	if got := fmt.Sprint(a.Refusal.Details["projects"]); got != "[shop]" {
		t.Errorf("it lists %s", got)
	}
	if len(d.operations(t)) > 0 {
		t.Error("a refusal left a row")
	}
}

func TestRT21ForeignSession(t *testing.T) {
	d := newDesk(t)
	d.project(t, "shop", "/srv/shop")
	mine := read[struct {
		Session struct {
			ID string `json:"remote_session_id"`
		}
	}](t, d.call(t, "session", `{"action":"open","project":"shop","operation_id":"op-00001"}`)).Session.ID
	random := "rs_" + strings.Repeat("0", len(mine)-3)
	foreign, missing := d.as(t, "eve", "session", `{"action":"attach","remote_session_id":%q}`, mine), d.as(t, "eve", "session", `{"action":"attach","remote_session_id":%q}`, random)
	refused(t, foreign, operation.SessionNotFound, fault.AfterFix)
	a, _ := json.Marshal(foreign)
	b, _ := json.Marshal(missing)
	if strings.ReplaceAll(string(a), mine, "") != strings.ReplaceAll(string(b), random, "") {
		t.Errorf("a foreign session answers\n%s\na missing one\n%s", a, b)
	}
	if list := d.as(t, "eve", "session", `{"action":"list"}`); strings.Contains(string(list.Data), "shop") || strings.Contains(string(list.Data), mine) {
		t.Errorf("the list of a stranger: %s", list.Data)
	}
}

func TestRT22Handoff(t *testing.T) {
	d := newDesk(t)
	d.project(t, "shop", "/srv/shop")
	mine := read[struct {
		Session struct {
			ID string `json:"remote_session_id"`
		}
	}](t, d.call(t, "session", `{"action":"open","project":"shop","operation_id":"op-00001"}`)).Session.ID
	type handed struct{ Token string }
	call := fmt.Sprintf(`{"action":"handoff","remote_session_id":%q,"operation_id":"op-00002"}`, mine)
	token := read[handed](t, d.call(t, "session", "%s", call)).Token
	if again := read[handed](t, d.call(t, "session", "%s", call)).Token; token == "" || again != token {
		t.Errorf("the tokens %q and %q of one operation", token, again)
	}
	for _, o := range d.operations(t) {
		if strings.Contains(string(o.Result)+string(o.Args), token) {
			t.Error("the ledger holds the token")
		}
	}
	bob := d.as(t, "bob", "session", `{"action":"attach","handoff_token":%q,"operation_id":"op-00003"}`, token)
	if got := read[struct{ Session struct{ Role string } }](t, bob); got.Session.Role != "viewer" {
		t.Errorf("bob is %+v", got)
	}
	if again := read[handed](t, d.call(t, "session", "%s", call)).Token; again != "" {
		t.Errorf("a used token is shown: %q", again)
	}
	for i, wrong := range []string{token, "mcpx_ho_" + strings.Repeat("A", 26) + "_X"} {
		refused(t, d.as(t, "eve", "session", `{"action":"attach","handoff_token":%q,"operation_id":"op-1000%d"}`, wrong+strings.Repeat(" ", i%2), i), session.HandoffInvalid, fault.AfterFix)
	}
	refused(t, d.as(t, "bob", "session", `{"action":"close","remote_session_id":%q,"operation_id":"op-00004"}`, mine), operation.RoleDenied, fault.Never)
	list := d.as(t, "bob", "session", `{"action":"list"}`) // RT-30
	if got := read[struct{ Projects, Sessions []struct{ Root string } }](t, list); len(got.Projects) != 0 || len(got.Sessions) != 1 || got.Sessions[0].Root != "" {
		t.Errorf("the list of a guest: %+v", got)
	}
}

func TestRT10Panic(t *testing.T) {
	d := newDesk(t, tool{Tool: Tool{Name: "broken"}, read: func(context.Context, *Service, *turn) (any, error) { panic("kaboom") }},
		tool{Tool: Tool{Name: "breaks"}, mutates: true, change: func(context.Context, *Service, store.Tx, *turn) (any, error) { panic("kaboom") }})
	for _, name := range []string{"broken", "breaks"} {
		a := d.call(t, name, `{"operation_id":"op-00001"}`)
		refused(t, a, operation.InternalError, fault.SameID)
		if a.Refusal.Details["crash_id"] == "" || strings.Contains(a.Refusal.Message, "kaboom") {
			t.Errorf("%s: %v", name, a.Refusal)
		}
	}
	if a := d.call(t, "session", `{"action":"list"}`); !a.OK {
		t.Errorf("the next call: %+v", a)
	}
}

// deaf is a store whose log takes nothing.
type deaf struct{ store.DB }

type deafTx struct{ store.Tx }

func (deafTx) AppendEvent(context.Context, event.Draft) (event.Event, error) {
	return event.Event{}, fault.New(fault.Unavailable, "store-full").Saying("the disk is full")
}

func (d deaf) Change(ctx context.Context, fn func(store.Tx) error) error {
	return d.DB.Change(ctx, func(tx store.Tx) error { return fn(deafTx{tx}) })
}

func TestRT11AuditUnavailable(t *testing.T) {
	var ran atomic.Int64
	effect := &probe{ran: &ran}
	p := probing(effect)
	d := newDesk(t)
	d.project(t, "shop", "/srv/shop")
	d.start(t, deaf{d.db}, p)
	refused(t, d.call(t, "probe", `{"operation_id":"op-00001"}`), operation.AuditUnavailable, fault.AfterWait)
	refused(t, d.call(t, "session", `{"action":"open","project":"shop","operation_id":"op-00002"}`), operation.AuditUnavailable, fault.AfterWait)
	if ran.Load() != 0 || len(d.operations(t)) > 0 {
		t.Errorf("%d effects, %v", ran.Load(), d.operations(t))
	}
	if effect.closed.Load() != 1 {
		t.Errorf("an effect that did not begin was closed %d times", effect.closed.Load())
	}
	d.start(t, d.db, p)
	if a := d.call(t, "probe", `{"operation_id":"op-00001"}`); !a.OK || ran.Load() != 1 {
		t.Errorf("afterwards: %+v", a)
	}
}

func TestSameIDAtOnce(t *testing.T) {
	var ran atomic.Int64
	p := &probe{ran: &ran, held: make(chan struct{})}
	d := newDesk(t, probing(p))
	var group sync.WaitGroup
	answers := make([]operation.Answer, 20)
	for i := range answers {
		group.Go(func() { answers[i] = d.call(t, "probe", `{"operation_id":"op-00001"}`) })
	}
	refused(t, d.call(t, "probe", `{"operation_id":"op-00001","wait_ms":0}`), operation.OperationInProgress, fault.AfterWait)
	close(p.held)
	group.Wait()
	first := 0
	for _, a := range answers {
		if !a.OK || string(a.Data) != `{"ran":1}` {
			t.Errorf("%+v", a)
		} else if !a.Operation.Replayed {
			first++
		}
	}
	if ran.Load() != 1 || first > 1 { // the one that did not wait may have been the first
		t.Errorf("%d effects, %d first answers", ran.Load(), first)
	}
}

// TestEffectOutlivesItsCaller: DW-18. Who leaves after the dispatch ends nothing, and who leaves before it leaves nothing.
func TestEffectOutlivesItsCaller(t *testing.T) {
	var ran atomic.Int64
	p := &probe{ran: &ran, held: make(chan struct{})}
	d := newDesk(t, probing(p))
	ctx, leave := context.WithCancel(t.Context())
	p.stage_ = func() { time.AfterFunc(10*time.Millisecond, leave) }
	d.Do(ctx, Call{Tool: "probe", Args: json.RawMessage(`{"operation_id":"op-00001"}`), Principal: "owner"})
	close(p.held)
	d.all.Wait()
	if a := d.call(t, "probe", `{"operation_id":"op-00001"}`); !a.OK || !a.Operation.Replayed || ran.Load() != 1 {
		t.Errorf("%+v, %d effects", a, ran.Load())
	}
	// C12: who leaves before the dispatch leaves nothing.
	gone, leave := context.WithCancel(t.Context())
	p.stage_ = leave
	d.Do(gone, Call{Tool: "probe", Args: json.RawMessage(`{"operation_id":"op-00002"}`), Principal: "owner"})
	d.all.Wait()
	p.stage_ = nil
	if ran.Load() != 1 || len(d.operations(t)) != 1 {
		t.Errorf("%d effects, %v", ran.Load(), d.operations(t))
	}
	if a := d.call(t, "probe", `{"operation_id":"op-00002"}`); !a.OK || a.Operation.Replayed {
		t.Errorf("the same call later: %+v", a)
	}
	if p.closed.Load() != 3 { // of three attempts, one of which was given up
		t.Errorf("closed %d times", p.closed.Load())
	}
}

func TestEndsOfEffects(t *testing.T) {
	for name, c := range map[string]struct {
		end    error
		state  operation.State
		status operation.Outcome
		retry  fault.Retry
	}{
		"it did not work":  {operation.Refuse("CANONICAL_MOVED", "moved"), operation.Failed, operation.OutcomeFailed, fault.NewID},
		"nobody knows":     {operation.Refuse(operation.Contested, "both").Ending(operation.OutcomeUnclear).Retrying(fault.Never), operation.Unknown, operation.OutcomeUnclear, fault.Never},
		"a bug, afterward": {errors.New("io"), operation.Failed, operation.OutcomeFailed, fault.NewID},
	} {
		t.Run(name, func(t *testing.T) {
			var ran atomic.Int64
			d := newDesk(t, probing(&probe{ran: &ran, fails: c.end}))
			for range 3 {
				a := d.call(t, "probe", `{"operation_id":"op-00001"}`)
				if a.Status != c.status || a.Refusal.Retry != c.retry || a.Operation != nil && a.Operation.State != c.state {
					t.Errorf("%+v: %v", a, a.Refusal)
				}
			}
			if ran.Load() != 1 {
				t.Errorf("it ran %d times", ran.Load())
			}
			status := d.call(t, "operation_status", `{"operation_id":"op-00001"}`)
			if !strings.Contains(string(status.Data), string(c.state)) {
				t.Errorf("its status: %s", status.Data)
			}
			resolved := d.call(t, "resolve_operation", `{"operation_id":"op-00009","target":"op-00001","verdict":"done"}`)
			if (c.state == operation.Unknown) != resolved.OK {
				t.Errorf("resolved: %+v", resolved)
			}
		})
	}
}

func TestRT6LargeResult(t *testing.T) {
	text := strings.Repeat("üäö line\n", 8000)
	big := tool{Tool: Tool{Name: "big"}, read: func(context.Context, *Service, *turn) (any, error) { return map[string]string{"text": text}, nil }}
	d := newDesk(t, big)
	a := d.call(t, "big", `{}`)
	raw, _ := json.Marshal(a)
	if a.Spilled == nil || len(raw) > inlineLimit {
		t.Fatalf("%d bytes, %+v", len(raw), a.Spilled)
	}
	d.start(t, d.db) // another daemon
	var all []byte
	for offset, end := 0, false; !end; {
		w := read[resultWindow](t, d.call(t, "read_result", `{"ref":%q,"offset":%d}`, a.Spilled.Ref, offset))
		all = append(all, w.Text...)
		offset, end = w.Next, w.EOF
	}
	if sum := sha256.Sum256(all); hex.EncodeToString(sum[:]) != a.Spilled.SHA256 || len(all) != a.Spilled.Bytes {
		t.Errorf("read %d bytes, another digest", len(all))
	}
	past := read[resultWindow](t, d.call(t, "read_result", `{"ref":%q,"offset":100000000}`, a.Spilled.Ref)) // RT-15
	if !past.EOF || past.Text != "" {
		t.Errorf("past the end: %+v", past)
	}
	refused(t, d.as(t, "eve", "read_result", `{"ref":%q}`, a.Spilled.Ref), operation.NotFound, fault.AfterFix)
}

func TestToolDisabled(t *testing.T) {
	d := newDesk(t, tool{Tool: Tool{Name: "shell", Set: SetCommands}, mutates: true})
	a := d.call(t, "shell", `{"operation_id":"op-00001"}`)
	refused(t, a, operation.ToolDisabled, fault.Never)
	if a.Refusal.Details["setting"] != "runtime.commands" {
		t.Errorf("%v", a.Refusal.Details)
	}
}

// files are all that is in a directory: names and contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
