//go:build unix

package work

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"mcpx/internal/fault"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/operation"
	"mcpx/internal/session"
)

// askGate asks about everything that would be started: calls that are made at random run nothing.
type askGate struct{ openGate }

func (askGate) Judge(_ context.Context, c Command) (Ruling, error) {
	return ruled(c, "asked "+c.Shell+strings.Join(c.Argv, " "))
}

func (askGate) JudgeInput(_ context.Context, c Command, text string) (Ruling, error) {
	return ruled(c, "asked "+text)
}

// monkey makes calls at random: of any tool, with arguments that its schema describes, that nearly do, or that nothing does.
type monkey struct {
	*bench
	r     *rand.Rand
	names []string
	args  map[string]*jsonschema.Schema
	known []string // texts that answers had: ids, hashes, cursors
	made  int
	ended map[string]int // by code; "" is a success
}

// monkeyLife is how many calls a store sees before the next one is made anew: what it knows grows with them.
const monkeyLife = 3000

func newMonkey(t *testing.T, seed uint64) *monkey {
	b := newBench(t)
	was := b.with
	b.with = func(c *Config) {
		was(c)
		c.Gate, c.Upstream = askGate{}, &fakeUpstream{tools: map[string][]string{"alpha": {writes, readsOnly}}}
		c.Allowed = func(string, string) bool { return true }
	}
	b.Stop()
	b.pass(time.Second) // ids are made of the time
	b.start(t, b.db)
	for name, content := range map[string]string{"README.md": "one\ntwo\n", "src/main.go": "package main\r\n", "bin": "\x00\xff"} {
		path := filepath.Join(b.root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := &monkey{bench: b, r: rand.New(rand.NewPCG(seed, 76)), args: map[string]*jsonschema.Schema{}, ended: map[string]int{}}
	for name, one := range b.tools {
		m.names = append(m.names, name)
		m.args[name] = &jsonschema.Schema{Type: "object"}
		if one.Args != nil {
			schema, err := jsonschema.ForType(reflect.TypeOf(one.Args), &jsonschema.ForOptions{})
			if err != nil {
				t.Fatal(err)
			}
			m.args[name] = schema
		}
	}
	slices.Sort(m.names)
	m.known = []string{b.session, "app", "README.md", "src", "src/main.go", "bin", digest([]byte("one\ntwo\n")), "alpha/store", "alpha/look"}
	return m
}

// odd are texts for places where another one is meant.
var odd = []string{"", ".", "..", "../x", "/", "/etc/passwd", "a", "new/file", ".git/config", ".mcp.json", ".env", "\x00", "ü", "\u202e", "(", "*", "**/*", "-1", strings.Repeat("long", 3000), "op-random-1", "op-random-2"}

func pick[T any](r *rand.Rand, all []T) T { return all[r.IntN(len(all))] }

var words = lazyregexp.New(`[a-z_0-9]+`)

// likely are texts for fields that hardly any other text fits.
var likely = map[string][]string{
	"path": {"README.md", "src/main.go", "src", "bin", "new", "new/file", ".mcp.json"}, "to": {"moved", "src/moved"}, "op": {"create", "update", "rename"},
	"project": {"app"}, "content": {"one\ntwo\n", ""}, "old": {"one", "two"}, "new": {"1"}, "shell": {"true"}, "mode": {"plan", "apply", "literal", "regex"},
	"id": {"alpha/store", "alpha/look"}, "purpose": {"p"}, "query": {"one", "main"},
}

// text is a likely one, one that the description of its field names, that an answer had, or another.
func (m *monkey) text(s *jsonschema.Schema, name string) string {
	named := append(words().FindAllString(s.Description, -1), likely[name]...)
	if fits := likely[name]; len(fits) > 0 && m.r.IntN(2) == 0 {
		return pick(m.r, fits)
	}
	switch n := m.r.IntN(10); {
	case n < 5 && len(named) > 0:
		return pick(m.r, named)
	case n < 9:
		return pick(m.r, m.known)
	}
	return pick(m.r, odd)
}

// value is one of a schema; the name is that of its field.
func (m *monkey) value(s *jsonschema.Schema, name string, depth int) any {
	if name == "wait_ms" { // nobody waits for this test
		return m.r.IntN(3)
	}
	if depth > 6 || m.r.IntN(60) == 0 {
		return m.anything(3)
	}
	kind := s.Type
	for _, one := range s.Types {
		if one != "null" {
			kind = one
		}
	}
	switch kind {
	case "object":
		out := map[string]any{}
		for field, of := range s.Properties {
			needed := slices.Contains(s.Required, field)
			if needed && m.r.IntN(20) > 0 || !needed && m.r.IntN(3) == 0 {
				out[field] = m.value(of, field, depth+1)
			}
		}
		if m.r.IntN(40) == 0 {
			out[pick(m.r, odd)] = m.anything(2)
		}
		return out
	case "array":
		out := []any{}
		for range m.r.IntN(3) {
			out = append(out, m.value(s.Items, strings.TrimSuffix(name, "s"), depth+1))
		}
		return out
	case "integer", "number":
		return pick(m.r, []any{0, 1, 2, 5, -1, 100, 1 << 40, 1.5, -1 << 60})
	case "boolean":
		return m.r.IntN(2) == 0
	case "string":
		return m.text(s, name)
	}
	return m.anything(3)
}

// anything is any JSON.
func (m *monkey) anything(depth int) any {
	switch n := m.r.IntN(8); {
	case n == 0 && depth > 0:
		return []any{m.anything(depth - 1), m.anything(depth - 1)}
	case n == 1 && depth > 0:
		return map[string]any{pick(m.r, odd): m.anything(depth - 1), "path": m.anything(depth - 1)}
	case n == 2:
		return nil
	case n == 3:
		return m.r.IntN(2) == 0
	case n == 4:
		return json.Number(pick(m.r, []string{"0", "-1", "1e300", "12345678901234567890", "0.1"}))
	}
	return pick(m.r, append(m.known, odd...))
}

// arguments are those of one call, as they are sent.
func (m *monkey) arguments(tool string) json.RawMessage {
	v := m.value(m.args[tool], "", 0)
	if args, ok := v.(map[string]any); ok {
		if m.r.IntN(6) > 0 {
			args["remote_session_id"] = m.session
		}
		if _, takes := m.args[tool].Properties[operation.IDField]; takes && m.r.IntN(8) > 0 {
			args[operation.IDField] = "op-random-" + strconv.Itoa(m.r.IntN(400))
		}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if m.r.IntN(100) == 0 {
		raw = raw[:m.r.IntN(len(raw)+1)]
	}
	return raw
}

// marks say what is in the project: a change of it is an effect.
func (m *monkey) marks() string {
	var b strings.Builder
	err := filepath.WalkDir(m.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !strings.HasPrefix(path, filepath.Join(m.root, ".mcpx")) {
			fmt.Fprintln(&b, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return b.String()
}

var retries76 = []fault.Retry{fault.SameID, fault.AfterWait, fault.AfterFix, fault.NewID, fault.Never}

// step makes a call and holds what came of it against what must be true of every call.
func (m *monkey) step(tool string, raw json.RawMessage) {
	before, jobs := m.marks(), len(m.list(m.t, operation.ListJobs{}))
	a := m.Do(m.t.Context(), Call{Tool: tool, Args: raw, Principal: session.Operator, Client: "monkey", Channel: "test"})
	m.made++
	if answer, err := json.Marshal(a); err != nil {
		m.t.Errorf("%s %s: its answer cannot be written: %v", tool, raw, err)
	} else if len(answer) > inlineLimit-mirrored {
		m.t.Errorf("%s %.500s: its answer has %d bytes", tool, raw, len(answer))
	}
	m.ended[string(codeOf(a))]++
	if codeOf(a) == operation.SessionClosed {
		m.session = read[openedSession](m.t, m.call(m.t, "session", `{"action":"open","project":"app","operation_id":"reopen-%d"}`, m.made)).Session.ID
	}
	if r := a.Refusal; r != nil && (r.Code == "" || r.Message == "" || !slices.Contains(retries76, r.Retry)) {
		m.t.Errorf("%s %s: code %q, retry %q: %s", tool, raw, r.Code, r.Retry, r.Message)
	}
	if a.Refusal != nil && a.Refusal.Code == "INTERNAL" {
		m.t.Errorf("%s %s: %v %v", tool, raw, a.Refusal, a.Refusal.Details)
	}
	if !a.OK && a.Refusal == nil && a.Waiting == nil && a.Status == "" {
		m.t.Errorf("%s %s: neither a success nor a refusal: %+v", tool, raw, a)
	}
	changed := m.marks() != before || len(m.list(m.t, operation.ListJobs{})) != jobs
	if changed && (a.Operation == nil || !m.claimed(a.Operation.ID)) {
		m.t.Errorf("%s %s has an effect, and no row: %+v", tool, raw, a)
	}
	for _, text := range ids().FindAllString(string(a.Data)+a.Handle, 5) {
		if m.known = append(m.known, text); len(m.known) > 60 {
			m.known = slices.Delete(m.known, 9, 20) // the first ones are always there
		}
	}
}

var ids = lazyregexp.New(`[a-z]+_[0-9A-Za-z]{20,}(@[0-9]+)?|[0-9a-f]{64}`)

// claimed says whether the ledger has a row of an operation, or of a batch that it is a step of.
func (m *monkey) claimed(id string) bool {
	return slices.ContainsFunc(m.operations(m.t), func(o operation.Operation) bool {
		return o.ID == id || strings.HasPrefix(o.ID, id+".")
	})
}

// TestDW76RandomCalls: DW-76. Calls of all tools, with arguments out of their schemas and others: none ends in a panic, none
// has an effect without a row that claims it, and each refusal has a code and says how to go on. A few thousand here, as many
// as MCPX_RANDOM_CALLS says otherwise; `make fuzz` makes a million.
func TestDW76RandomCalls(t *testing.T) {
	calls, seed := 2000, uint64(1)
	if raceOn {
		calls = 300
	}
	for name, into := range map[string]func(uint64){"MCPX_RANDOM_CALLS": func(n uint64) { calls = int(n) }, "MCPX_SEED": func(n uint64) { seed = n }} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			into(n)
		}
	}
	ended, made := map[string]int{}, 0
	for ; made < calls && !t.Failed(); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newMonkey(t, seed)
			for range min(monkeyLife, calls-made) {
				tool := pick(m.r, m.names)
				m.step(tool, m.arguments(tool))
			}
			made += m.made
			for code, n := range m.ended {
				ended[code] += n
			}
		})
	}
	t.Logf("%d calls: %v", made, ended)
	if ended[""] < made/20 || len(ended) < 10 {
		t.Errorf("of %d calls %d succeeded, in %d ways they ended: they are not like those of clients", made, ended[""], len(ended))
	}
}

// FuzzCall: whatever bytes stand as arguments of a tool, it answers.
func FuzzCall(f *testing.F) {
	for n, args := range []string{
		`{"action":"list"}`, `{"path":"README.md"}`, `{"edits":[{"path":"a","op":"create","content":"x"}],"operation_id":"op-00001"}`,
		`{"query":"(","mode":"regex"}`, `{"items":[{"path":"a","from_byte":-1}]}`, `[]`, `null`, ``, `{"argv":["x"],"operation_id":"op-00002"}`, `{"path_pct":"%zz"}`,
	} {
		f.Add(uint8(n), args)
	}
	f.Fuzz(func(t *testing.T, which uint8, args string) {
		m := newMonkey(t, 1)
		m.step(m.names[int(which)%len(m.names)], json.RawMessage(args))
	})
}
