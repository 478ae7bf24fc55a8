package control

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/id"
	"mcpx/internal/lazyregexp"
	"mcpx/internal/store"
)

// TokenFiles keeps the values of tokens: one for each agent, readable for our own user only. A value is staged before
// its record is committed and settled after it, so that neither a kill in between nor a full disk costs an agent its
// token.
type TokenFiles interface {
	Stage(agent string, v auth.Value) error
	// Settle makes what is staged the value of the agent.
	Settle(agent string) error
	// Drop removes what is staged and what is settled. Nothing there is no error.
	Drop(agent string) error
	// Value is the settled one. NotFound token-file-missing.
	Value(agent string) (auth.Value, error)
	// Staged are the agents with a staged value; Unstage removes one.
	Staged() (map[string]auth.Value, error)
	Unstage(agent string) error
	Path(agent string) string
}

// tokens is what control knows about tokens without a look at the database.
type tokens struct {
	change sync.Mutex // held over one issue, rotation or revocation: values and records go together. Below files of Control
	book   atomic.Pointer[auth.Book]

	mu      sync.Mutex // guards the fields below
	used    map[string]time.Time
	flushed time.Time
	refused map[string]*refusals // by code
}

// refusals are those of one code that were not told yet.
type refusals struct {
	told  time.Time
	since int
	tell  func(count int) // of the last one
}

// Bounds of what is written about the use of tokens.
const (
	// usedEvery is how far last_used may lie behind in the database: writing it for each request would make a read a write.
	usedEvery = 10 * time.Minute
	// refusedEvery bounds the events of one kind of refusal: a client with an old token tries again and again.
	refusedEvery = time.Minute
)

// loadTokens reads the records, and finishes what a daemon that was killed left half done: a staged value whose record
// was committed is the agent's, any other is nobody's.
func (c *Control) loadTokens(ctx context.Context) error {
	all, err := c.readBook(ctx)
	if err != nil {
		return err
	}
	staged, err := c.cfg.TokenFiles.Staged()
	if err != nil {
		return err
	}
	for agent, v := range staged {
		live, ok := auth.Current(all, agent, c.cfg.Now())
		if ok && live.Digest == v.Digest() {
			err = c.cfg.TokenFiles.Settle(agent)
		} else {
			err = c.cfg.TokenFiles.Unstage(agent)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readBook makes the book from what is stored.
func (c *Control) readBook(ctx context.Context) ([]auth.Token, error) {
	var all []auth.Token
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		var err error
		all, err = auth.AllTokens(ctx, r, "")
		return err
	})
	if err == nil {
		c.tokens.book.Store(auth.NewBook(all))
	}
	return all, err
}

// Authenticate judges the token that a request presents. It does not look at the database; what it refuses is told in
// the log.
func (c *Control) Authenticate(ctx context.Context, text string, need auth.Scope) (auth.Token, error) {
	t, err := c.tokens.book.Load().Check(text, c.cfg.Now())
	if err == nil && !auth.Allows(t.Scopes, need) {
		err = auth.NoScope(t, need)
	}
	if err != nil {
		if text != "" { // who has none may be any program that looks around: no alarm
			c.refuse(ctx, t, fault.From(err))
		}
		return auth.Token{}, err
	}
	c.tokens.mu.Lock()
	c.tokens.used[t.ID] = c.cfg.Now()
	due := c.cfg.Now().Sub(c.tokens.flushed) >= usedEvery
	c.tokens.mu.Unlock()
	if due && need == auth.HubRead { // never on the way of a call to a server
		_ = c.FlushTokens(ctx) // last_used is late then, and nothing else
	}
	return t, nil
}

// Bearer says who calls a server with a token, and which servers that token is for.
func (c *Control) Bearer(text string) (gateway.Caller, bool) {
	t, err := c.tokens.book.Load().Check(text, c.cfg.Now())
	if err != nil {
		if strings.HasPrefix(text, auth.Prefix) {
			c.refuse(context.Background(), t, fault.From(err))
		}
		return gateway.Caller{}, false
	}
	c.tokens.mu.Lock()
	c.tokens.used[t.ID] = c.cfg.Now()
	c.tokens.mu.Unlock()
	caller := gateway.Caller{Principal: api.Owner.Name, Agent: t.Agent, Limited: true, Only: auth.Named(t.Scopes)}
	if auth.Allows(t.Scopes, auth.ServersUse) {
		caller.Limited, caller.Only = false, nil
	}
	return caller, true
}

// NoToken refuses a token where a person is asked for: no token of an agent decides, trusts or changes rules.
func (c *Control) NoToken(ctx context.Context, text string) error {
	t, _ := c.tokens.book.Load().Check(text, c.cfg.Now()) // the zero Token of one that is not ours
	why := fault.New(fault.Denied, "token-misplaced").Saying("the local API is for the person who runs mcpx, and a token is of a program").
		Hinting("leave the Authorization header out; agents use /mcp and mcp_hub")
	c.refuse(ctx, t, why)
	return why
}

// refuse tells of a token that was not accepted, at most once in refusedEvery for each code.
func (c *Control) refuse(ctx context.Context, t auth.Token, why *fault.Error) {
	c.denied(ctx, event.AuthTokenDenied, event.Refs{event.RefAgent: t.Agent, event.RefToken: t.ID}, "a token was refused: "+why.Message, why)
}

// maxOrigin bounds what is kept of the origin of a web page, in bytes: a page writes there what it likes.
const maxOrigin = 200

// OriginDenied tells of a web page that was refused, at most once in refusedEvery.
func (c *Control) OriginDenied(ctx context.Context, origin string) {
	why := fault.New(fault.Denied, "origin-denied").Saying("a web page of %q is not let in", origin[:min(len(origin), maxOrigin)]).
		Hinting("name its host in listener.allowed_hosts if it is yours")
	c.denied(ctx, event.AuthOriginDenied, event.Refs{}, why.Message, why)
}

// UserDenied tells of another user of the machine who was refused, at most once in refusedEvery.
func (c *Control) UserDenied(ctx context.Context) {
	why := fault.New(fault.Denied, "peer-refused").Saying("another user of this machine is not let in")
	c.denied(ctx, event.AuthUserDenied, event.Refs{}, why.Message, why)
}

// denied tells of a refusal, at most once in refusedEvery for each code.
func (c *Control) denied(ctx context.Context, kind event.Kind, refs event.Refs, text string, why *fault.Error) {
	c.seldom(ctx, kind, refs, text, refusalOf(why))
}

// seldom tells of what anybody can make happen as often as he likes, at most once in refusedEvery for each code.
func (c *Control) seldom(ctx context.Context, kind event.Kind, refs event.Refs, text string, what refusal) {
	ctx = context.WithoutCancel(ctx) // whoever was refused may be gone
	now := c.cfg.Now()
	c.tokens.mu.Lock()
	r := c.tokens.refused[what.Code]
	if r == nil {
		r = &refusals{}
		c.tokens.refused[what.Code] = r
	}
	r.since++
	r.tell = func(count int) {
		err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
			return c.tell(ctx, tx, kind, refs, text, struct {
				refusal
				Count int `json:"count"` // since the last event of this code
			}{what, count})
		})
		if err != nil { // the refusal stands all the same, and is told with the next ones
			c.tokens.mu.Lock()
			r.since += count
			c.tokens.mu.Unlock()
		}
	}
	tell, count := r.tell, r.since
	due := now.Sub(r.told) >= refusedEvery
	if due {
		r.told, r.since = now, 0
	}
	c.tokens.mu.Unlock()
	if due {
		tell(count)
	}
}

// FlushRefusals tells of the refusals that were not told yet: who looks, and who looks when this daemon is gone, finds them.
func (c *Control) FlushRefusals() {
	now := c.cfg.Now()
	c.tokens.mu.Lock()
	var tell []func()
	for _, r := range c.tokens.refused {
		if r.since > 0 {
			last, count := r.tell, r.since
			tell = append(tell, func() { last(count) })
			r.told, r.since = now, 0
		}
	}
	c.tokens.mu.Unlock()
	for _, one := range tell {
		one()
	}
}

// FlushTokens writes when tokens were last used.
func (c *Control) FlushTokens(ctx context.Context) error {
	now := c.cfg.Now()
	c.tokens.mu.Lock()
	used := c.tokens.used
	c.tokens.used, c.tokens.flushed = map[string]time.Time{}, now
	c.tokens.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	return c.cfg.DB.Change(context.WithoutCancel(ctx), func(tx store.Tx) error {
		for tokenID, at := range used {
			t, err := tx.TokenByID(ctx, auth.TokenByID{ID: tokenID})
			if err != nil {
				return err
			}
			t.Used = at
			if err := tx.PutToken(ctx, auth.PutToken{Token: t}); err != nil {
				return err
			}
		}
		return nil
	})
}

// usedAt is when a token was last used, written down or not.
func (c *Control) usedAt(t auth.Token) time.Time {
	c.tokens.mu.Lock()
	defer c.tokens.mu.Unlock()
	if at, ok := c.tokens.used[t.ID]; ok {
		return at
	}
	return t.Used
}

// Tokens lists tokens.
func (c *Control) Tokens(ctx context.Context, in api.TokensQuery) (api.TokenPage, error) {
	if err := c.allow(ctx, "token.list"); err != nil {
		return api.TokenPage{}, err
	}
	if err := c.FlushTokens(ctx); err != nil {
		return api.TokenPage{}, err
	}
	agent := in.Agent
	if kind, err := c.cfg.ParseAgent(agent); err == nil {
		agent = kind
	}
	page := api.TokenPage{Tokens: []api.Token{}, Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err := auth.AllTokens(ctx, r, agent)
		for _, t := range all {
			if in.All || t.Counts(c.cfg.Now()) {
				page.Tokens = append(page.Tokens, c.tokenView(t))
			}
		}
		return err
	})
	if len(page.Tokens) == 0 {
		page.Next = []string{"mcpx token issue --agent " + cmp.Or(agent, "AGENT")}
	}
	return page, err
}

func (c *Control) tokenView(t auth.Token) api.Token {
	return api.Token{
		ID: t.ID, Agent: t.Agent, State: t.At(c.cfg.Now()), Scopes: t.Scopes, Created: t.Created, Used: t.Used,
		Expires: t.Expires, Revoked: t.Revoked, Next: t.Next,
	}
}

// agentName is a name that is safe as that of a file and as part of a variable.
var agentName = lazyregexp.New(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// tokenAgent reads the name of an agent that gets a token.
func (c *Control) tokenAgent(name string, anyName bool) (string, error) {
	kind, err := c.cfg.ParseAgent(name)
	if err == nil {
		return kind, nil
	}
	if !anyName {
		f := fault.From(err)
		return "", fault.New(f.Kind, f.Code).Saying("%s", f.Message).
			Hinting("name one of them, or add --any-name for a program that mcpx does not know")
	}
	if !agentName().MatchString(name) {
		return "", fault.New(fault.Invalid, "agent-name-invalid").Saying("%q is no name for an agent", name).
			Hinting("use up to 32 small letters, digits, _ and -")
	}
	return name, nil
}

// IssueToken makes the token of an agent, or finds the one that it has.
func (c *Control) IssueToken(ctx context.Context, in api.IssueToken) (api.TokenChange, error) {
	if err := c.allow(ctx, "token.issue"); err != nil {
		return api.TokenChange{}, err
	}
	agent, err := c.tokenAgent(in.Agent, in.AnyName)
	if err != nil {
		return api.TokenChange{}, err
	}
	if in.Seconds < 0 || in.Seconds > maxTokenLife {
		return api.TokenChange{}, fault.New(fault.Invalid, "request-invalid").Saying("expires_in is %d seconds, want 1 to %d", in.Seconds, maxTokenLife)
	}
	scopes, err := auth.ParseScopes(in.Scopes)
	if err != nil {
		return api.TokenChange{}, err
	}
	out, err := c.issue(ctx, agent, scopes, len(in.Scopes) > 0, time.Duration(in.Seconds)*time.Second)
	out.Operation = api.OperationOf(ctx)
	return out, err
}

// maxTokenLife is ten years: longer is what no expiry at all is for.
const maxTokenLife = 10 * 365 * 24 * 60 * 60

// issue makes a token when the agent has none that is live and whose value is there.
func (c *Control) issue(ctx context.Context, agent string, scopes []auth.Scope, strict bool, life time.Duration) (api.TokenChange, error) {
	c.tokens.change.Lock()
	defer c.tokens.change.Unlock()
	all, err := c.readBook(ctx)
	if err != nil {
		return api.TokenChange{}, err
	}
	if live, ok := auth.Current(all, agent, c.cfg.Now()); ok {
		if strict && !slices.Equal(live.Scopes, scopes) {
			return api.TokenChange{}, fault.New(fault.Conflict, "token-exists").Saying("%s has the token %s, which allows %s", agent, live.ID, joined(live.Scopes)).
				Hinting("revoke it first: `mcpx token revoke %s`", live.ID)
		}
		v, err := c.cfg.TokenFiles.Value(agent)
		if err == nil && v.Digest() == live.Digest {
			return c.changed("already_issued", live, "%s has a token already", agent), nil
		}
		// Nobody can give its value any more: another one takes its place.
		return c.replaceLocked(ctx, live, "issued", "the value of its token was lost, so %s has another one")
	}
	v, err := auth.Make(auth.OfAgent, c.cfg.Random)
	if err != nil {
		return api.TokenChange{}, err
	}
	t := auth.Issue(auth.Order{ID: c.cfg.IDs.New(id.Token), Agent: agent, Scopes: scopes, For: life}, v, c.cfg.Now())
	err = c.exchangeLocked(ctx, agent, v, func(tx store.Tx) error {
		if err := tx.PutToken(ctx, auth.PutToken{Token: t}); err != nil {
			return err
		}
		return c.tellToken(ctx, tx, event.AuthTokenIssued, t, agent+" has a token")
	})
	if err != nil {
		return api.TokenChange{}, err
	}
	return c.changed("issued", t, "%s has a token", agent), nil
}

// exchangeLocked puts a new value beside its record: staged, committed, settled.
func (c *Control) exchangeLocked(ctx context.Context, agent string, v auth.Value, fn func(tx store.Tx) error) error {
	if err := c.cfg.TokenFiles.Stage(agent, v); err != nil {
		return err
	}
	if err := c.cfg.DB.Change(ctx, fn); err != nil {
		_ = c.cfg.TokenFiles.Unstage(agent) // the next start of the daemon removes it otherwise
		return err
	}
	// Committed: the caller may leave, the value must follow.
	ctx = context.WithoutCancel(ctx)
	if _, err := c.readBook(ctx); err != nil {
		return err
	}
	return c.cfg.TokenFiles.Settle(agent)
}

// RotateToken puts another token in the place of one, which counts for some minutes more.
func (c *Control) RotateToken(ctx context.Context, in api.TokenRef) (api.TokenChange, error) {
	if err := c.allow(ctx, "token.rotate"); err != nil {
		return api.TokenChange{}, err
	}
	c.tokens.change.Lock()
	defer c.tokens.change.Unlock()
	t, err := c.tokenNamed(ctx, in.Token)
	if err != nil {
		return api.TokenChange{}, err
	}
	out, err := c.replaceLocked(ctx, t, "rotated", "%s has another token; the old one counts for "+auth.RotationGrace.String()+" more")
	out.Operation = api.OperationOf(ctx)
	return out, err
}

func (c *Control) replaceLocked(ctx context.Context, old auth.Token, state, text string) (api.TokenChange, error) {
	v, err := auth.Make(auth.OfAgent, c.cfg.Random)
	if err != nil {
		return api.TokenChange{}, err
	}
	before, after, err := auth.Rotate(old, c.cfg.IDs.New(id.Token), v, c.cfg.Now())
	if err != nil {
		return api.TokenChange{}, err
	}
	err = c.exchangeLocked(ctx, old.Agent, v, func(tx store.Tx) error {
		for _, t := range []auth.Token{before, after} {
			if err := tx.PutToken(ctx, auth.PutToken{Token: t}); err != nil {
				return err
			}
		}
		return c.tellToken(ctx, tx, event.AuthTokenRotated, after, fmt.Sprintf("%s has %s in place of %s", after.Agent, after.ID, before.ID))
	})
	if err != nil {
		return api.TokenChange{}, err
	}
	return c.changed(state, after, text, old.Agent), nil
}

// RevokeToken ends a token at once.
func (c *Control) RevokeToken(ctx context.Context, in api.TokenRef) (api.TokenChange, error) {
	if err := c.allow(ctx, "token.revoke"); err != nil {
		return api.TokenChange{}, err
	}
	c.tokens.change.Lock()
	defer c.tokens.change.Unlock()
	t, err := c.tokenNamed(ctx, in.Token)
	if err != nil {
		return api.TokenChange{}, err
	}
	t, ends := auth.Revoke(t, c.cfg.Now())
	if !ends {
		out := c.changed("already_revoked", t, "%s counts no more already", t.ID)
		out.Already, out.File, out.Variable, out.Next, out.Operation = true, "", "", []string{}, api.OperationOf(ctx)
		return out, nil
	}
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if err := tx.PutToken(ctx, auth.PutToken{Token: t}); err != nil {
			return err
		}
		return c.tellToken(ctx, tx, event.AuthTokenRevoked, t, t.ID+" of "+t.Agent+" counts no more")
	})
	if err != nil {
		return api.TokenChange{}, err
	}
	ctx = context.WithoutCancel(ctx) // committed: it must open nothing from now on
	all, err := c.readBook(ctx)
	if err != nil {
		return api.TokenChange{}, err
	}
	if _, ok := auth.Current(all, t.Agent, c.cfg.Now()); !ok {
		if err := c.cfg.TokenFiles.Drop(t.Agent); err != nil {
			return api.TokenChange{}, err
		}
	}
	out := c.changed("revoked", t, "%s counts no more", t.ID)
	out.File, out.Variable, out.Operation = "", "", api.OperationOf(ctx)
	out.Next = []string{"mcpx token issue --agent " + t.Agent}
	return out, nil
}

// tokenNamed finds a token by its id, or the live one of an agent.
func (c *Control) tokenNamed(ctx context.Context, name string) (auth.Token, error) {
	var t auth.Token
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		agent := name
		if kind, err := c.cfg.ParseAgent(name); err == nil {
			agent = kind
		}
		if !strings.HasPrefix(name, string(id.Token)+"_") && agentName().MatchString(agent) {
			all, err := auth.AllTokens(ctx, r, agent)
			if err != nil {
				return err
			}
			live, ok := auth.Current(all, agent, c.cfg.Now())
			if !ok {
				return fault.New(fault.NotFound, "token-none").Saying("%s has no token that counts", agent).
					Hinting("`mcpx token issue --agent %s` makes one", agent)
			}
			t = live
			return nil
		}
		var err error
		t, err = r.TokenByID(ctx, auth.TokenByID{ID: name})
		return err
	})
	return t, err
}

func (c *Control) tellToken(ctx context.Context, tx store.Tx, kind event.Kind, t auth.Token, text string) error {
	return c.tell(ctx, tx, kind, event.Refs{event.RefAgent: t.Agent, event.RefToken: t.ID}, text, struct {
		Scopes []auth.Scope `json:"scopes"`
	}{t.Scopes})
}

// changed is the answer about a token.
func (c *Control) changed(state string, t auth.Token, format string, args ...any) api.TokenChange {
	return api.TokenChange{
		State: state, Already: strings.HasPrefix(state, "already_"), Token: c.tokenView(t), File: c.cfg.TokenFiles.Path(t.Agent),
		Variable: auth.Variable(t.Agent), Text: fmt.Sprintf(format, args...),
		Next: []string{"mcpx token print --agent " + t.Agent + " --as headers", "mcpx token env --agent " + t.Agent},
	}
}

func joined(scopes []auth.Scope) string {
	var all []string
	for _, s := range scopes {
		all = append(all, string(s))
	}
	return strings.Join(all, ", ")
}
