package work

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/catalog"
	"mcpx/internal/era"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Upstream reaches the servers of the catalog; *gateway.Gateway does. Its errors are a *gateway.RPCError, which is an
// answer, too, or say that nothing was sent.
type Upstream interface {
	Call(ctx context.Context, r gateway.Request) ([]byte, error)
}

// The codes of tools that belong to others.
const (
	serverUnavailable operation.Code = "SERVER_UNAVAILABLE"
	toolUnknown       operation.Code = "TOOL_UNKNOWN"
	schemaChanged     operation.Code = "SCHEMA_CHANGED"
	trustRequired     operation.Code = "TRUST_REQUIRED"
)

// CallTool are the arguments of call_tool.
type CallTool struct {
	ID
	Claims
	Session   string         `json:"remote_session_id" jsonschema:"the session"`
	Tool      string         `json:"id" jsonschema:"server/tool, as find_tools gives it"`
	Arguments map[string]any `json:"arguments,omitempty" jsonschema:"what the tool takes, by its own schema"`
	Revision  string         `json:"revision,omitempty" jsonschema:"refuses when the tool has another revision"`
	Timeout   int            `json:"timeout_s,omitempty" jsonschema:"1 to 600; 120 without it"`
	WaitMS    int            `json:"wait_ms,omitempty" jsonschema:"0 to 25000, for the end"`
}

const (
	usualCallTime = 120
	mostCallTime  = 600
	// maxOfferedNames is how many names a refusal lists.
	maxOfferedNames = 50
)

// callee is a server under the name that sessions know it by, which the gateway may have under another one.
type callee struct {
	catalog.Server
	route string
}

// callee finds the server of a call, in the catalog or else in the repository of its project, and the tools of it that are held
// back.
func (s *Service) callee(ctx context.Context, at session.Admission, name string) (one callee, held []catalog.Held, err error) {
	var all []catalog.Server
	err = s.cfg.DB.View(ctx, func(r store.Reader) error {
		found, err := r.ServerByName(ctx, catalog.ServerByName{Name: name})
		if fault.KindOf(err) == fault.NotFound {
			all, err = catalog.All(ctx, r)
			return err
		}
		if err != nil {
			return err
		}
		one = callee{found, found.Name}
		if err := callable(found); err != nil {
			return err
		}
		pins, err := r.PinsOf(ctx, catalog.PinsOf{Server: one.ID})
		held = pins.Held
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		return err
	})
	if err != nil || one.ID != "" {
		return one, held, err
	}
	g, err := s.groundsOf(ctx, at, session.EntryServer)
	if err != nil {
		return one, nil, err
	}
	one, err = g.callee(name, all)
	return one, nil, err
}

// callee finds a server that the repository names and a person has agreed to.
func (g grounds) callee(name string, all []catalog.Server) (callee, error) {
	names := make([]string, 0, len(all))
	for _, s := range all {
		names = append(names, s.Name)
	}
	for _, e := range g.servers(all) {
		if e.Name != name {
			names = append(names, e.Name)
			continue
		}
		if !g.trust.Covers(e) {
			return callee{}, g.mistrusted(e)
		}
		if e.Server == nil {
			return callee{}, operation.Refuse(serverUnavailable, "the server %s of this project cannot be started: %s", e.Name, e.Problem).With("server", e.Name)
		}
		one := g.callable(e)
		return one, callable(one.Server)
	}
	return callee{}, serverUnknown(name, names)
}

// callable is the server of an entry, under the name that the repository gives it.
func (g grounds) callable(e session.Entry) callee {
	one := callee{Server: e.Routed(g.project)}
	one.route, one.Name = one.Name, e.Name
	return one
}

// upstreamCall is a call of a tool of another server on its way through the ledger.
type upstreamCall struct {
	s       *Service
	request gateway.Request
	server  callee
	tool    catalog.ToolPin
	op      operation.Operation
	warning string
	reasons []string // why a person has to be asked
}

var _ asking = (*upstreamCall)(nil)

// beginCall asks the server for its tools, on the instance that is called then, and decides by what it says now.
func beginCall(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in CallTool
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	server, name, ok := strings.Cut(in.Tool, "/")
	switch {
	case !ok || server == "" || name == "":
		return nil, operation.Refuse(operation.ArgumentInvalid, "id is server/tool, as find_tools gives it")
	case in.Timeout < 0 || in.Timeout > mostCallTime:
		return nil, operation.Refuse(operation.LimitExceeded, "timeout_s is 1 to %d", mostCallTime).With("limit", mostCallTime).With("value", in.Timeout)
	case in.Timeout == 0:
		in.Timeout = usualCallTime
	}
	var at session.Admission
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		at, err = session.Admit(ctx, r, session.AdmitRequest{Session: in.Session, Principal: t.Principal, Act: session.ActChange})
		return err
	})
	if err != nil {
		return nil, err
	}
	t.op.Session, t.op.Project = at.Session.ID, at.Project.ID
	one, held, err := s.callee(ctx, at, server)
	if err != nil {
		return nil, err
	}
	if s.cfg.Upstream == nil {
		return nil, operation.Refuse(serverUnavailable, "this daemon reaches no servers").Retrying(fault.AfterWait)
	}
	as := gateway.Caller{Principal: t.Principal, Workspace: at.Project.Physical.Real, Instance: at.Session.ID}
	list, before, err := s.offered(ctx, as, one)
	if err != nil {
		return nil, err
	}
	tool, ok := list.Tool(name)
	if !ok {
		return nil, noSuchTool(in, one, name, list, held)
	}
	if err := s.sameRevision(in, tool, before, name); err != nil {
		return nil, err
	}
	p := publishedOf(tool)
	arguments := t.args["arguments"]
	if len(arguments) == 0 {
		arguments = json.RawMessage(`{}`)
	}
	c := &upstreamCall{s: s, server: one, tool: tool, op: t.op}
	if c.warning, err = checkArguments(p.Schema, arguments); err != nil {
		return nil, operation.Refuse(operation.ArgumentInvalid, "%s does not take these arguments: %s", in.Tool, err).Then(lookAgain(in))
	}
	if risk := riskOf(one.Server, p); risk != RiskRead && !s.cfg.Allowed(one.route, name) {
		c.reasons = []string{"its risk is " + string(risk) + ", and no rule allows " + in.Tool}
	}
	params, err := json.Marshal(struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}{name, arguments})
	if err != nil {
		return nil, err
	}
	c.request = gateway.Request{As: as, Server: one.route, Method: "tools/call", Params: params, Limit: time.Duration(in.Timeout) * time.Second}
	return c, nil
}

// offered asks a server for its tools and stores what it says. before is what was stored.
func (s *Service) offered(ctx context.Context, as gateway.Caller, server callee) (now, before catalog.Offer, err error) {
	raw, err := gateway.ListTools(ctx, s.cfg.Upstream, as, server.route)
	if err != nil {
		return now, before, unreached(server.Name, err)
	}
	now = catalog.Offer{Server: server.ID, Seen: s.cfg.Now()}
	for _, one := range raw[:min(len(raw), catalog.MaxPinnedTools)] {
		if pin, ok := catalog.PinTool(one); ok { // one without a name cannot be called
			now.Tools = append(now.Tools, pin)
		}
	}
	slices.SortStableFunc(now.Tools, func(a, b catalog.ToolPin) int { return strings.Compare(a.Name, b.Name) })
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		before, err = r.OfferOf(ctx, catalog.OfferOf{Server: server.ID})
		return err
	})
	same := func(a, b catalog.ToolPin) bool { return a.Name == b.Name && a.Digest == b.Digest }
	if err != nil || slices.EqualFunc(now.Tools, before.Tools, same) {
		return now, before, err
	}
	return now, before, s.cfg.DB.Change(ctx, func(tx store.Tx) error { return tx.PutOffer(ctx, catalog.PutOffer{Offer: now}) })
}

func noSuchTool(in CallTool, server callee, name string, list catalog.Offer, held []catalog.Held) error {
	if isHeld(held, catalog.ToolPin{Name: name}) {
		return operation.Refuse(toolUnknown, "the tool %.64s of %s is not as a person has agreed to it, and is held back; a person looks at it with `mcpx catalog review %s --tools`", name, server.Name, server.Name).
			Retrying(fault.AfterWait)
	}
	names := make([]string, 0, len(list.Tools))
	for _, t := range list.Tools {
		names = append(names, t.Name)
	}
	r := operation.Refuse(toolUnknown, "%s has no tool %.64q", server.Name, name).With("tools", names[:min(len(names), maxOfferedNames)])
	return nearest(r, name, names).Then(operation.Next{
		Tool: "find_tools", Args: map[string]any{"remote_session_id": in.Session, "server": server.Name}, Why: "what it has",
	})
}

// sameRevision refuses a tool that is not as its caller knows it: as it says, as its session was shown it, or, when an
// earlier daemon has shown it, as it was stored.
func (s *Service) sameRevision(in CallTool, tool catalog.ToolPin, before catalog.Offer, name string) error {
	known := in.Revision
	if known == "" {
		known = s.seen.revision(in.Session, in.Tool)
	}
	if known == "" {
		was, _ := before.Tool(name)
		known = was.Digest
	}
	if known == "" || known == tool.Digest {
		s.seen.note(in.Session, in.Tool, tool.Digest)
		return nil
	}
	return operation.Refuse(schemaChanged, "%s is not as it was shown; nothing was sent", in.Tool).With("revision", tool.Digest).Then(lookAgain(in))
}

func lookAgain(in CallTool) operation.Next {
	return operation.Next{
		Tool: "find_tools", Args: map[string]any{"remote_session_id": in.Session, "ids": []string{in.Tool}, "detail": "full"}, Why: "what it takes now",
	}
}

// question shows the whole call. What is frozen is what decides what it will do: the program, the tool as it describes
// itself, and the arguments.
func (c *upstreamCall) question() *Question {
	if len(c.reasons) == 0 {
		return nil
	}
	frozen, err := json.Marshal(struct {
		Server  string          `json:"server"`
		Process string          `json:"process"`
		Tool    string          `json:"tool"`
		Call    json.RawMessage `json:"call"`
	}{c.server.ID, c.server.Process(), c.tool.Digest, c.request.Params})
	if err != nil {
		panic("work: a record of texts cannot be written: " + err.Error())
	}
	shown := "call " + c.tool.Name + " of the server " + c.server.Name + "\n" + string(c.request.Params)
	return &Question{Kind: approval.KindCallTool, Subject: digest(append([]byte("mcpx call 1\n"), frozen...)), Display: shown, Reasons: c.reasons}
}

// callEvidence is what is kept of a call before it is sent.
type callEvidence struct {
	Server   string `json:"server"`
	Tool     string `json:"tool"`
	Revision string `json:"revision"`
}

func (c *upstreamCall) stage(context.Context) (any, error) {
	return callEvidence{Server: c.server.Name, Tool: c.tool.Name, Revision: c.tool.Digest}, nil
}

func (c *upstreamCall) drop()                  {}
func (c *upstreamCall) settle(context.Context) {}
func (c *upstreamCall) close()                 {}

func (c *upstreamCall) run(ctx context.Context) (any, error) {
	result, err := c.s.cfg.Upstream.Call(ctx, c.request)
	if err != nil {
		return nil, c.failed(err)
	}
	var said struct {
		IsError bool `json:"isError"`
	}
	if json.Unmarshal(result, &said) != nil {
		return nil, c.unclear("the answer of %s is not what MCP asks for", c.server.Name)
	}
	out := outcome{upstream: c.s.passed(result), bad: said.IsError}
	if c.warning != "" {
		out.warnings = []string{c.warning}
	}
	return out, nil
}

// failed says what an error means for the operation: it is proved not done, or nobody knows.
func (c *upstreamCall) failed(err error) error {
	e, ok := errors.AsType[*gateway.RPCError](err)
	if !ok {
		return unreached(c.server.Name, err)
	}
	switch e.Code {
	case gateway.CodeNotSent, gateway.CodeUnavailable, gateway.CodeBusy:
		return unreached(c.server.Name, err)
	case era.CodeInvalidParams, era.CodeMethodNotFound: // by which a server refuses a call before it does anything
		return operation.Refuse(operation.ArgumentInvalid, "%s refused the call: %.500s", c.server.Name, c.s.cfg.Redact(e.Message))
	case gateway.CodeSentUnknown, gateway.CodeAnsweredLost, gateway.CodeTimeout: // it may have run
		return c.unclear("%.500s", c.s.cfg.Redact(e.Message))
	}
	return c.unclear("%s answered with error %d: %.500s", c.server.Name, e.Code, c.s.cfg.Redact(e.Message))
}

// unclear is the end of a call of which nobody knows whether it did something.
func (c *upstreamCall) unclear(format string, args ...any) error {
	r := operation.Refuse(operation.OutcomeUnknown, format, args...)
	next := operation.Unclear(c.op).Next
	return r.Retrying(fault.Never).Ending(operation.OutcomeUnclear).Then(next[0])
}

// unreached is the refusal when nothing was sent.
func unreached(server string, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	message := fault.From(err).Message
	if e, ok := errors.AsType[*gateway.RPCError](err); ok {
		message = e.Message
	}
	return operation.Refuse(serverUnavailable, "%s cannot be called: %.500s", server, message).Retrying(fault.AfterWait).With("server", server)
}

// recoverCall ends a call that an earlier daemon had sent: its answer went with that daemon.
func recoverCall(_ context.Context, _ *Service, t *turn) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil
	}
	return nil, nil, operation.Unclear(t.op)
}
