package work

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/era"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// fakeUpstream is every server of a catalog. Each has two pages of tools.
type fakeUpstream struct {
	mu    sync.Mutex
	tools map[string][]string // by server, each as JSON
	calls []gateway.Request   // of tools/call
	lists []gateway.Request
	reply func(gateway.Request) ([]byte, error)
}

func (u *fakeUpstream) Call(_ context.Context, r gateway.Request) ([]byte, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if r.Method == "tools/list" {
		u.lists = append(u.lists, r)
		all := u.tools[r.Server]
		if all == nil {
			return nil, &gateway.RPCError{Code: gateway.CodeUnavailable, Message: "it does not start"}
		}
		if len(r.Params) == 0 && len(all) > 1 {
			return fmt.Appendf(nil, `{"tools":[%s],"nextCursor":"2"}`, strings.Join(all[:len(all)-1], ",")), nil
		}
		return fmt.Appendf(nil, `{"tools":[%s]}`, all[len(all)-1]), nil
	}
	u.calls = append(u.calls, r)
	if u.reply == nil {
		return []byte(`{"content":[{"type":"text","text":"done"}],"resultType":"complete"}`), nil
	}
	return u.reply(r)
}

const (
	readsOnly = `{"name":"look","title":"Look it up","description":"Finds a word in the dictionary.","inputSchema":{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]},"annotations":{"readOnlyHint":true,"openWorldHint":false}}`
	writes    = `{"name":"store","description":"Stores a word.","inputSchema":{"type":"object"}}`
)

// library is a desk with servers, a session and the toolset on.
func library(t *testing.T, servers ...string) (*desk, *fakeUpstream, string) {
	t.Helper()
	u := &fakeUpstream{tools: map[string][]string{}}
	d := newDesk(t)
	d.project(t, "shop", t.TempDir())
	for _, name := range servers {
		u.tools[name] = []string{writes, readsOnly}
		d.server(t, name, func(*catalog.Server) {})
	}
	d.cfg.Upstream = u
	d.cfg.Allowed = func(server, tool string) bool { return tool == "allowed" }
	return d, u, read[openedSession](t, d.call(t, "session", `{"action":"open","project":"shop","operation_id":"open-00001"}`)).Session.ID
}

type openedSession struct {
	Session struct {
		ID string `json:"remote_session_id"`
	}
}

func (d *desk) server(t *testing.T, name string, change func(*catalog.Server)) {
	t.Helper()
	s := catalog.Server{ID: "srv_" + name, Name: name, Stdio: &catalog.Stdio{Command: "/bin/" + name}, Sharing: catalog.ShareSession, Review: catalog.ReviewApproved, Lifecycle: catalog.Enabled}
	change(&s)
	if err := d.db.Change(t.Context(), func(tx store.Tx) error { return tx.PutServer(t.Context(), catalog.PutServer{Server: s}) }); err != nil {
		t.Fatal(err)
	}
}

type foundPage struct {
	Items    []foundTool
	Total    int
	Next     string `json:"next_cursor"`
	Unlisted []string
}

// TestRT125FindStartsNothing: searching reads what is stored.
func TestRT125FindStartsNothing(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("s%02d", i))
	}
	d, u, rs := library(t, names...)
	if err := d.db.Change(t.Context(), func(tx store.Tx) error {
		pin, _ := catalog.PinTool([]byte(readsOnly))
		return tx.PutPins(t.Context(), catalog.PutPins{Pins: catalog.Pins{Server: "srv_s00", Tools: []catalog.ToolPin{pin}}})
	}); err != nil {
		t.Fatal(err)
	}
	a := d.call(t, "find_tools", `{"remote_session_id":%q,"query":"dictionary"}`, rs)
	got := read[foundPage](t, a)
	if len(got.Items) != 1 || got.Items[0].ID != "s00/look" || got.Items[0].Risk != RiskRead || got.Items[0].State != stateReady || len(got.Unlisted) != 19 {
		t.Errorf("%+v", got)
	}
	if len(u.lists)+len(u.calls) != 0 {
		t.Errorf("servers were asked: %v %v", u.lists, u.calls)
	}
	// What is proposed tells the tools of a server, and calls none.
	next, err := json.Marshal(a.Next[0].Args)
	if err != nil || a.Next[0].Tool != "call_tool" {
		t.Fatal(a.Next, err)
	}
	refused(t, d.call(t, "call_tool", "%s", next), toolUnknown, fault.AfterFix)
	if len(u.calls) != 0 || len(u.lists) != 2 {
		t.Errorf("%d calls, %d lists", len(u.calls), len(u.lists))
	}
	if got := read[foundPage](t, d.call(t, "find_tools", `{"remote_session_id":%q,"server":"s01","detail":"full"}`, rs)); len(got.Items) != 2 || !strings.Contains(string(got.Items[0].Schema), "word") {
		t.Errorf("afterwards: %+v", got)
	}
	for _, o := range d.operations(t) {
		if o.Tool == "call_tool" {
			t.Errorf("a refusal left %v", o)
		}
	}
}

func TestFindTools(t *testing.T) {
	d, u, rs := library(t, "words")
	for i := range 30 {
		u.tools["words"] = append(u.tools["words"], fmt.Sprintf(`{"name":"tool%02d","description":"Number %d.","inputSchema":{"type":"object","description":%q}}`, i, i, strings.Repeat("x", 2000)))
	}
	d.server(t, "new", func(s *catalog.Server) { s.Review = catalog.ReviewPending })
	d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/*","operation_id":"list-00001"}`, rs)
	var ids []string
	for cursor := ""; ; {
		a := d.call(t, "find_tools", `{"remote_session_id":%q,"detail":"full","limit":50,"cursor":%q}`, rs, cursor)
		got := read[foundPage](t, a)
		if got.Total != 32 || len(a.Data) > inlineLimit {
			t.Fatalf("%d of them, %d bytes", got.Total, len(a.Data))
		}
		for _, one := range got.Items {
			ids = append(ids, one.ID)
		}
		if cursor = got.Next; cursor == "" {
			break
		}
	}
	if len(ids) != 32 || !slices.IsSorted(ids) || len(slices.Compact(ids)) != 32 {
		t.Errorf("pages have %v", ids)
	}
	for query, want := range map[string]string{"store a word": "words/store", "LOOK": "words/look", "number 17": "words/tool17", "tool07": "words/tool07"} {
		if got := read[foundPage](t, d.call(t, "find_tools", `{"remote_session_id":%q,"query":%q}`, rs, query)); len(got.Items) == 0 || got.Items[0].ID != want {
			t.Errorf("%q finds %+v, want %s first", query, got.Items, want)
		}
	}
	a := d.call(t, "find_tools", `{"remote_session_id":%q,"ids":["words/stor"]}`, rs)
	refused(t, a, operation.NotFound, fault.AfterFix)
	if a.Refusal.Details["nearest"] != "words/store" {
		t.Errorf("%v", a.Refusal.Details)
	}
	refused(t, d.call(t, "find_tools", `{"remote_session_id":%q,"server":"wrds"}`, rs), "SERVER_UNKNOWN", fault.AfterFix)
	refused(t, d.as(t, "eve", "find_tools", `{"remote_session_id":%q}`, rs), operation.SessionNotFound, fault.AfterFix)
	refused(t, d.call(t, "call_tool", `{"remote_session_id":%q,"id":"new/x","operation_id":"new-000001"}`, rs), trustRequired, fault.AfterWait)
}

// TestRT127OneInstance: the tool is looked for on all pages, by the caller as which it is called.
func TestRT127OneInstance(t *testing.T) {
	d, u, rs := library(t, "words")
	a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":"call-00001"}`, rs)
	if !a.OK || len(u.lists) != 2 || len(u.calls) != 1 {
		t.Fatalf("%+v (%v), %d lists, %d calls", a, a.Refusal, len(u.lists), len(u.calls))
	}
	as := u.calls[0].As
	if as.Instance != rs || as.Principal != session.Operator || as.Local {
		t.Errorf("called as %+v", as)
	}
	for _, l := range u.lists {
		if l.As.Instance != as.Instance || l.As.Principal != as.Principal || l.As.Workspace != as.Workspace {
			t.Errorf("listed as %+v, called as %+v", l.As, as)
		}
	}
	if got := string(u.calls[0].Params); got != `{"name":"look","arguments":{"word":"a"}}` {
		t.Errorf("sent %s", got)
	}
}

// TestRT128SchemaChanged: what is not as it was shown is not called.
func TestRT128SchemaChanged(t *testing.T) {
	d, u, rs := library(t, "words")
	call := func(id, more string) operation.Answer {
		return d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":%q%s}`, rs, id, more)
	}
	if a := call("call-00001", ""); !a.OK {
		t.Fatal(a.Refusal)
	}
	u.tools["words"][1] = strings.Replace(readsOnly, "dictionary", "cellar", 1)
	for range 2 { // also when it is tried again without a look
		refused(t, call("call-00002", ""), schemaChanged, fault.AfterFix)
	}
	a := call("call-00002", `,"revision":"0000"`)
	refused(t, a, schemaChanged, fault.AfterFix)
	now := a.Refusal.Details["revision"].(string)
	if len(u.calls) != 1 {
		t.Fatalf("%d calls", len(u.calls))
	}
	d.start(t, d.db) // another daemon, which knows only what is stored
	d.cfg.Upstream = u
	if a := call("call-00003", fmt.Sprintf(`,"revision":%q`, now)); !a.OK {
		t.Errorf("with the new revision: %v", a.Refusal)
	}
	if a := call("call-00004", ""); !a.OK {
		t.Errorf("once it was called so: %v", a.Refusal)
	}
	u.tools["words"][1] = strings.Replace(readsOnly, "dictionary", "attic", 1)
	refused(t, call("call-00005", ""), schemaChanged, fault.AfterFix)
	if got := read[foundPage](t, d.call(t, "find_tools", `{"remote_session_id":%q,"ids":["words/look"]}`, rs)); !strings.Contains(got.Items[0].Summary, "attic") {
		t.Errorf("it shows %+v", got.Items[0])
	}
	if a := call("call-00005", ""); !a.OK || len(u.calls) != 4 {
		t.Errorf("after a look: %v, %d calls", a.Refusal, len(u.calls))
	}
}

// TestRT129Arguments: a whole validator looks at the arguments, and a schema that cannot be used is in nobody's way.
func TestRT129Arguments(t *testing.T) {
	for name, c := range map[string]struct {
		schema, arguments string
		bad, warns        bool
	}{
		"open object":       {`{"type":"object"}`, `{"x":1}`, false, false},
		"missing":           {`{"type":"object","required":["x"]}`, `{}`, true, false},
		"wrong type":        {`{"properties":{"x":{"type":"integer"}}}`, `{"x":"1"}`, true, false},
		"one of":            {`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"b":1}`, false, false},
		"one of, both":      {`{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":1}`, true, false},
		"reference":         {`{"$defs":{"w":{"type":"string","minLength":2}},"properties":{"x":{"$ref":"#/$defs/w"}}}`, `{"x":"ab"}`, false, false},
		"reference, broken": {`{"$defs":{"w":{"type":"string","minLength":2}},"properties":{"x":{"$ref":"#/$defs/w"}}}`, `{"x":"a"}`, true, false},
		"format":            {`{"properties":{"x":{"type":"string","format":"email"}}}`, `{"x":"me@here"}`, false, false},
		"a tree":            {`{"properties":{"in":{"$ref":"#"},"x":{"type":"integer"}}}`, `{"in":{"in":{"x":1}}}`, false, false},
		"a tree, broken":    {`{"properties":{"in":{"$ref":"#"},"x":{"type":"integer"}}}`, `{"in":{"in":{"x":""}}}`, true, false},
		"refers to itself":  {`{"$ref":"#"}`, `{}`, false, true},
		"in two steps":      {`{"$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, `{}`, false, true},
		"far away":          {`{"$ref":"https://example.org/schema"}`, `{}`, false, true},
		"nowhere":           {`{"$ref":"#/$defs/none"}`, `{}`, false, true},
		"no regexp of ours": {`{"properties":{"x":{"pattern":"(?=a)b"}}}`, `{"x":"b"}`, false, true},
		"no schema":         {`{"type":7}`, `{}`, false, true},
		"doubles":           {doubling(40), `{}`, false, true},
		"doubles inside":    {`{"properties":{"a":{"allOf":[{"$ref":"#"},{"$ref":"#"},{"$ref":"#"}]}}}`, nested(60), false, true},
		"large integers":    {`{"properties":{"x":{"type":"integer"}}}`, `{"x":9007199254740993}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			warning, err := checkArguments(json.RawMessage(c.schema), json.RawMessage(c.arguments))
			if (err != nil) != c.bad || (warning != "") != c.warns {
				t.Errorf("refused: %v, warning: %q", err, warning)
			}
		})
	}
	d, u, rs := library(t, "words")
	a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":1},"operation_id":"call-00001"}`, rs)
	refused(t, a, operation.ArgumentInvalid, fault.AfterFix)
	if len(u.calls) != 0 {
		t.Errorf("it was sent: %v", u.calls)
	}
}

// doubling is a schema of a few lines that takes 2^n visits.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":true}}`, n)
	return b.String()
}

func nested(n int) string { return strings.Repeat(`{"a":`, n) + `{}` + strings.Repeat(`}`, n) }

// TestRT130Unchanged: what a server says arrives as it said it, but for what only mcpx may say.
func TestRT130Unchanged(t *testing.T) {
	d, u, rs := library(t, "words")
	u.reply = func(gateway.Request) ([]byte, error) {
		return []byte(`{"content":[{"type":"hologram","depth":9007199254740993,"x":1.50}],"structuredContent":{"n":18446744073709551616,"s":"<&>"},"vendor":[1e3],"_meta":{"vendor/a":1,"mcpx/operation":{"ok":false},"mcpx/x":2}}`), nil
	}
	call := func(id string) operation.Answer {
		return d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":%q}`, rs, id)
	}
	want := `{"content":[{"type":"hologram","depth":9007199254740993,"x":1.50}],"structuredContent":{"n":18446744073709551616,"s":"<&>"},"vendor":[1e3],"_meta":{"vendor/a":1}}`
	if a := call("call-00001"); string(a.Upstream) != want || !a.OK || a.Data != nil {
		t.Errorf("got %s\n%v", a.Upstream, a.Refusal)
	}
	// A replay comes from the record.
	again := call("call-00001")
	if got := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(again.Upstream)); got != want || !again.Operation.Replayed || len(u.calls) != 1 {
		t.Errorf("again: %s, %d calls", got, len(u.calls))
	}
	d.cfg.Redact = func(s string) string { return strings.ReplaceAll(s, "9007199254740993", "[redacted]") }
	if a := call("call-00002"); !json.Valid(a.Upstream) || strings.Contains(string(a.Upstream), "9007199254740993") || !strings.Contains(string(a.Upstream), `"depth":"[redacted]"`) {
		t.Errorf("a secret that is a number: %s", a.Upstream)
	}
}

// TestRT6LargeUpstream: what is too large is kept apart, piece by piece, and the rest arrives.
func TestRT6LargeUpstream(t *testing.T) {
	long := strings.Repeat("größe ", 5000)
	picture := `{"type":"image","data":"` + strings.Repeat("QUJD", 10000) + `","mimeType":"image/png"}`
	many := strings.Repeat(`{"type":"text","text":"`+strings.Repeat("x", 1000)+`"},`, 60)
	album := `{"content":[` + strings.TrimSuffix(strings.Repeat(picture+",", 90), ",") + `],"_meta":{"album":"xxx"}}`
	for name, c := range map[string]struct {
		result string
		kept   []string // what references lead to
		stays  string
	}{
		"text":       {`{"content":[{"type":"text","text":` + quoted(long) + `,"annotations":{"priority":1}},{"type":"text","text":"short"}]}`, []string{long}, `"short"`},
		"picture":    {`{"content":[` + picture + `,{"type":"text","text":"short"}]}`, []string{picture}, `"short"`},
		"data":       {`{"content":[{"type":"text","text":"short"}],"structuredContent":{"a":` + quoted(long) + `}}`, []string{`{"a":` + quoted(long) + `}`}, `"short"`},
		"both":       {`{"content":[` + picture + `],"structuredContent":{"a":` + quoted(long) + `}}`, []string{picture, `{"a":` + quoted(long) + `}`}, `"content"`},
		"many small": {`{"content":[` + strings.TrimSuffix(many, ",") + `]}`, []string{`{"content":[` + strings.TrimSuffix(many, ",") + `]}`}, `xxx`},
		"many large": {album, []string{album}, `the whole result`},
		"controls":   {`{"content":[{"type":"text","text":` + quoted(strings.Repeat("\x01", 30000)) + `}]}`, []string{strings.Repeat("\x01", 30000)}, `read_result`},
	} {
		t.Run(name, func(t *testing.T) {
			d, u, rs := library(t, "words")
			u.reply = func(gateway.Request) ([]byte, error) { return []byte(c.result), nil }
			a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":"call-00001"}`, rs)
			raw, err := json.Marshal(a)
			if err != nil || len(raw) > inlineLimit || !strings.Contains(string(a.Upstream), c.stays) || len(a.Parts) != len(c.kept) {
				t.Fatalf("%d bytes, %d parts, %v: %.300s", len(raw), len(a.Parts), err, a.Upstream)
			}
			for i, want := range c.kept {
				if got := d.whole(t, a.Parts[i].Ref); got != want && a.Parts[(i+1)%len(a.Parts)].SHA256 != digest([]byte(want)) {
					t.Errorf("part %d has %d bytes, want %d", i, len(got), len(want))
				}
			}
		})
	}
}

func quoted(s string) string {
	raw, _ := json.Marshal(s)
	return string(raw)
}

// whole reads what a reference leads to.
func (d *desk) whole(t *testing.T, ref string) string {
	t.Helper()
	var k operation.Kept
	if err := d.db.View(t.Context(), func(r store.Reader) (err error) {
		k, err = r.KeptResult(t.Context(), operation.KeptByRef{Principal: session.Operator, Ref: ref})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return string(k.Bytes)
}

// TestRT131Failed: a tool that says it failed has been called, and is not called again.
func TestRT131Failed(t *testing.T) {
	d, u, rs := library(t, "words")
	u.reply = func(gateway.Request) ([]byte, error) { return []byte(`{"content":[],"isError":true}`), nil }
	for i := range 3 {
		a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":"call-00001"}`, rs)
		if a.OK || a.Status != operation.OutcomeSucceeded || a.Operation.State != operation.Succeeded || a.Operation.Replayed != (i > 0) || !strings.Contains(string(a.Upstream), `"isError":true`) {
			t.Errorf("%d: %+v", i, a)
		}
	}
	// A replay looks at nothing: the tool, its server and the right to call it may be gone.
	delete(u.tools, "words")
	d.cfg.Disabled = append(d.cfg.Disabled, SetExtensions)
	if a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":"call-00001"}`, rs); !a.Operation.Replayed || len(u.calls) != 1 {
		t.Errorf("%+v, %d calls", a, len(u.calls))
	}
	a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":"call-00002"}`, rs) // RT-7
	refused(t, a, operation.ToolDisabled, fault.Never)
	if a.Refusal.Details["setting"] != "runtime.extensions" {
		t.Errorf("%v", a.Refusal.Details)
	}
}

// TestRT133Risk: only what says of itself that it reads, on a server that a person agreed to, is called without asking.
func TestRT133Risk(t *testing.T) {
	tool := func(annotations string) string {
		return `{"name":"t","inputSchema":{},"annotations":` + annotations + `}`
	}
	for name, c := range map[string]struct {
		tool string
		risk catalog.Risk
		want Risk
	}{
		"nothing said":        {`{"name":"t","inputSchema":{}}`, "", RiskWrite},
		"reads":               {tool(`{"readOnlyHint":true,"openWorldHint":false}`), "", RiskRead},
		"reads, world unsaid": {tool(`{"readOnlyHint":true}`), "", RiskOpen},
		"reads, open world":   {tool(`{"readOnlyHint":true,"openWorldHint":true}`), "", RiskOpen},
		"not destructive":     {tool(`{"destructiveHint":false,"openWorldHint":false}`), "", RiskWrite},
		"reads, feared":       {tool(`{"readOnlyHint":true,"openWorldHint":false}`), catalog.RiskHigh, RiskWrite},
		"a word for a truth":  {tool(`{"readOnlyHint":"true","openWorldHint":false}`), "", RiskWrite},
	} {
		t.Run(name, func(t *testing.T) {
			d, u, rs := library(t)
			u.tools["s"] = []string{c.tool}
			d.server(t, "s", func(s *catalog.Server) { s.Risk = c.risk })
			a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"s/t","operation_id":"call-00001"}`, rs)
			if a.OK != (c.want == RiskRead) || len(u.calls) != 0 && c.want != RiskRead {
				t.Errorf("%+v (%v), %d calls", a, a.Refusal, len(u.calls))
			}
			if got := read[foundPage](t, d.call(t, "find_tools", `{"remote_session_id":%q}`, rs)); got.Items[0].Risk != c.want {
				t.Errorf("shown as %s, want %s", got.Items[0].Risk, c.want)
			}
		})
	}
	// What a person has said yes to is called once, as it was shown (RT-131).
	d, u, rs := library(t, "words")
	u.reply = func(gateway.Request) ([]byte, error) { return []byte(`{"content":[],"isError":true}`), nil }
	store := fmt.Sprintf(`{"remote_session_id":%q,"id":"words/store","arguments":{"word":"a"},"operation_id":"call-00001"}`, rs)
	asked := d.waits(t, "call_tool", store)
	if asked.Kind != approval.KindCallTool || !strings.Contains(asked.Display, "call store of the server words") || !strings.Contains(asked.Display, `"word":"a"`) {
		t.Errorf("a person is asked %q", asked.Display)
	}
	d.waits(t, "call_tool", store)
	d.decide(t, asked, true)
	for i := range 3 {
		if a := d.call(t, "call_tool", "%s", store); a.Operation.Replayed != (i > 0) || a.Operation.State != operation.Succeeded || len(u.calls) != 1 {
			t.Errorf("%d: %+v, %d calls", i, a, len(u.calls))
		}
	}
	if got := d.approvals(t)[0]; got.State != approval.Consumed || got.Consumer != "call-00001" {
		t.Errorf("the approval is %+v", got)
	}
	other := strings.ReplaceAll(store, "call-00001", "call-00002")
	d.decide(t, d.waits(t, "call_tool", other), true)
	d.server(t, "words", func(s *catalog.Server) { s.Stdio.Command = "/tmp/other" })
	refused(t, d.call(t, "call_tool", "%s", other), "APPROVAL_REVOKED", fault.NewID)
	if len(u.calls) != 1 {
		t.Errorf("another program was called")
	}
	d, u, rs = library(t)
	u.tools["s"] = []string{`{"name":"allowed","inputSchema":{}}`}
	d.server(t, "s", func(*catalog.Server) {})
	if a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"s/allowed","operation_id":"call-00001"}`, rs); !a.OK {
		t.Errorf("with a rule of the user: %v", a.Refusal)
	}
}

// TestCallEnds: what an error says about the call decides whether it may be repeated.
func TestCallEnds(t *testing.T) {
	for name, c := range map[string]struct {
		end   error
		state operation.State
		code  operation.Code
	}{
		"not sent":         {&gateway.RPCError{Code: gateway.CodeNotSent, Message: "x"}, operation.Failed, serverUnavailable},
		"unavailable":      {&gateway.RPCError{Code: gateway.CodeUnavailable, Message: "x"}, operation.Failed, serverUnavailable},
		"busy":             {&gateway.RPCError{Code: gateway.CodeBusy, Message: "x"}, operation.Failed, serverUnavailable},
		"sent, not known":  {&gateway.RPCError{Code: gateway.CodeSentUnknown, Message: "x"}, operation.Unknown, operation.OutcomeUnknown},
		"answer lost":      {&gateway.RPCError{Code: gateway.CodeAnsweredLost, Message: "x"}, operation.Unknown, operation.OutcomeUnknown},
		"too late":         {&gateway.RPCError{Code: gateway.CodeTimeout, Message: "x"}, operation.Unknown, operation.OutcomeUnknown},
		"refused by it":    {&gateway.RPCError{Code: era.CodeInvalidParams, Message: "x"}, operation.Failed, operation.ArgumentInvalid},
		"broke in between": {&gateway.RPCError{Code: -32603, Message: "x"}, operation.Unknown, operation.OutcomeUnknown},
		"no server":        {fault.New(fault.NotFound, "server-unknown").Saying("x"), operation.Failed, serverUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			d, u, rs := library(t, "words")
			u.reply = func(gateway.Request) ([]byte, error) { return nil, c.end }
			for range 2 {
				a := d.call(t, "call_tool", `{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":"call-00001"}`, rs)
				if a.Refusal == nil || a.Refusal.Code != c.code || a.Operation != nil && a.Operation.State != c.state {
					t.Errorf("%+v: %v", a, a.Refusal)
				}
			}
			if len(u.calls) != 1 {
				t.Errorf("%d calls", len(u.calls))
			}
		})
	}
}

// TestCallRecovered: a call that an earlier daemon had sent is not sent again, and one that it had not is.
func TestCallRecovered(t *testing.T) {
	d, u, rs := library(t, "words")
	args := fmt.Sprintf(`{"remote_session_id":%q,"id":"words/look","arguments":{"word":"a"},"operation_id":"call-00001"}`, rs)
	parsed, err := operation.ParseArgs(json.RawMessage(args))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := operation.Fingerprint("call_tool", parsed, d.cfg.Key)
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []operation.State{operation.Claimed, operation.Dispatched} {
		o := operation.Operation{Name: operation.Name{Namespace: session.Operator, ID: "call-00001"}, Tool: "call_tool", Print: sum.Sum, State: state, Class: operation.External, Claimed: d.cfg.Now()}
		if err := d.db.Change(t.Context(), func(tx store.Tx) error {
			return tx.PutOperation(t.Context(), operation.PutOperation{Operation: o})
		}); err != nil {
			t.Fatal(err)
		}
		d.start(t, d.db)
		d.cfg.Upstream = u
		if err := d.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		if state == operation.Dispatched {
			refused(t, d.call(t, "call_tool", "%s", args), operation.OutcomeUnknown, fault.Never)
		}
	}
	if len(u.calls) != 0 {
		t.Errorf("%d calls", len(u.calls))
	}
}
