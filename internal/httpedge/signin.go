package httpedge

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/sync/singleflight"

	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/secret"
)

const (
	// renewBefore is how long before its end a token is renewed: a request takes a while to its server.
	renewBefore = 30 * time.Second
	// renewPause is how long nothing is tried after a renewal failed for a reason that passes: calls must not become a storm
	// at an authorization server that is down.
	renewPause = 5 * time.Second
	// renewWithin bounds one renewal, which nobody may break off: the answer may hold the only copy of the next refresh token.
	renewWithin = 30 * time.Second
)

// SignInStore keeps what belongs to sign-ins. No error holds a value.
type SignInStore interface {
	// Record gives a record that was kept, "" when there is none.
	Record(ctx context.Context, name string) (string, error)
	// KeepRecord keeps a record durably, in place of the one before. Hidden are the secrets in it.
	KeepRecord(ctx context.Context, name, record string, hidden ...string) error
	// Forget removes it.
	Forget(ctx context.Context, name string) error
	// Resolve gives the value behind a reference of a person.
	Resolve(ctx context.Context, ref string) (secret.Handle, error)
	// Hide keeps values out of what is shown and logged.
	Hide(values ...string)
}

// SignInsConfig is what SignIns need. Proxy may be nil.
type SignInsConfig struct {
	Store SignInStore
	Now   func() time.Time
	Log   *slog.Logger
	// Version of the program, for User-Agent.
	Version string
	// Proxy chooses a proxy for a request; nil takes the proxy variables of the environment.
	Proxy func(*http.Request) (*url.URL, error)
	// Ended is told that a sign-in has ended without anybody wanting that.
	Ended func(server catalog.Server, s auth.SignIn)
}

// SignIns is mcpx as OAuth client of servers behind a URL: it signs in, keeps the tokens, and renews them, one renewal at a
// time for each server. A token goes to the URL for which it was got and nowhere else.
type SignIns struct {
	cfg     SignInsConfig
	flights singleflight.Group // loads and renewals, by server

	mu     sync.Mutex // guards known and open; no I/O under it
	known  map[string]*standing
	logins map[string]bool // servers at which somebody signs in now
}

// standing is how we stand with one server.
type standing struct {
	loaded bool
	grant  *grant     // nil: nobody has signed in
	asks   *challenge // what the server asked for when it refused a request; nil: nothing
	again  time.Time  // no renewal before
	why    error      // of the renewal that failed for a reason that passes
}

// challenge is what a server says with a 401 or a 403.
type challenge struct {
	metadata string // URL of the document about the resource
	scopes   []string
	scarce   bool   // the token does not reach far enough (insufficient_scope)
	bearer   bool   // it says that a token is what it wants
	of       string // the definition of the server then: another one may want nothing
}

// grant is a sign-in as it is kept. Registration and tokens are two things: with the first alone nobody is signed in.
type grant struct {
	URL      string    `json:"url"` // of the server, and the only place where the token goes
	Resource string    `json:"resource"`
	Issuer   string    `json:"issuer"`
	Endpoint string    `json:"token_endpoint"` // of the issuer, as it said at the sign-in
	Revoke   string    `json:"revocation_endpoint,omitempty"`
	Client   clientAs  `json:"client"`
	Machine  bool      `json:"machine,omitempty"`
	Scopes   []string  `json:"scopes,omitempty"`
	Access   string    `json:"access_token"`
	Refresh  string    `json:"refresh_token,omitempty"`
	Got      time.Time `json:"got"` // the access token
	Expires  time.Time `json:"expires,omitzero"`
	Since    time.Time `json:"since"`
	Ended    string    `json:"ended,omitempty"` // why it counts no more; it stays until the next sign-in has succeeded
}

// clientAs is a client as one authorization server knows it.
type clientAs struct {
	ID       string          `json:"id"`
	Kind     auth.ClientKind `json:"kind"`
	Method   string          `json:"method"`               // at the token endpoint
	Secret   string          `json:"secret,omitempty"`     // that the server gave
	Ref      string          `json:"secret_ref,omitempty"` // of the secret or key that a person keeps
	Redirect string          `json:"redirect,omitempty"`
}

// NewSignIns makes SignIns without touching anything.
func NewSignIns(c SignInsConfig) (*SignIns, error) {
	if c.Store == nil || c.Now == nil || c.Log == nil || c.Version == "" || c.Ended == nil {
		return nil, errors.New("httpedge: SignInsConfig.Store, Now, Log, Version and Ended are required")
	}
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment
	}
	return &SignIns{cfg: c, known: map[string]*standing{}, logins: map[string]bool{}}, nil
}

// recordOf is the name under which the sign-in at a server is kept. No credential has such a name.
func recordOf(server catalog.Server) string { return "sign-in/" + server.ID }

// standingOf gives a copy of how we stand with a server, which is looked up once.
func (s *SignIns) standingOf(ctx context.Context, server catalog.Server) (standing, error) {
	s.mu.Lock()
	st, ok := s.known[server.ID]
	if ok && st.loaded {
		defer s.mu.Unlock()
		return st.now(server), nil
	}
	s.mu.Unlock()
	_, err, _ := s.flights.Do("load "+server.ID, func() (any, error) {
		g, err := s.load(ctx, server)
		if err == nil {
			s.change(server, func(st *standing) {
				if !st.loaded {
					st.loaded, st.grant = true, g
				}
			})
		}
		return nil, err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.known[server.ID]; st != nil {
		return st.now(server), err
	}
	return standing{}, err
}

// now is how we stand with the server as it is defined now.
func (st standing) now(server catalog.Server) standing {
	if st.asks != nil && st.asks.of != server.Process() {
		st.asks = nil
	}
	return st
}

func (s *SignIns) change(server catalog.Server, how func(*standing)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.known[server.ID]
	if st == nil {
		st = &standing{}
		s.known[server.ID] = st
	}
	how(st)
}

func (s *SignIns) load(ctx context.Context, server catalog.Server) (*grant, error) {
	text, err := s.cfg.Store.Record(ctx, recordOf(server))
	if err != nil || text == "" {
		return nil, err
	}
	var g grant
	if err := json.Unmarshal([]byte(text), &g); err != nil {
		return nil, fault.New(fault.Unavailable, "sign-in-unreadable").Saying("the sign-in at %s is of another version of mcpx", server.Name).
			Hinting("sign in again with `mcpx server login %s`", server.Name) // an error of the decoder may quote what it read
	}
	s.cfg.Store.Hide(g.secrets()...)
	return &g, nil
}

func (g *grant) secrets() []string { return []string{g.Access, g.Refresh, g.Client.Secret} }

// keep stores a sign-in before anybody uses it.
func (s *SignIns) keep(ctx context.Context, server catalog.Server, g grant) error {
	text, err := json.Marshal(g)
	if err != nil {
		return fault.New(fault.Internal, "internal").Saying("a sign-in cannot be written as JSON")
	}
	return s.cfg.Store.KeepRecord(ctx, recordOf(server), string(text), g.secrets()...)
}

// of says whether a sign-in is one at the URL that the entry has now.
func (g *grant) of(server catalog.Server) bool { return g != nil && g.URL == server.HTTP.URL }

// due says whether the token is to be renewed before it is used.
func (g *grant) due(now time.Time) bool {
	if g.Expires.IsZero() {
		return false
	}
	return !now.Before(g.Expires.Add(-min(renewBefore, g.Expires.Sub(g.Got)/4)))
}

// renews says whether another token can be got without a person.
func (g *grant) renews() bool { return g.Machine || g.Refresh != "" }

// State says how we stand with a server. It sends nothing.
func (s *SignIns) State(ctx context.Context, server catalog.Server) auth.SignIn {
	if server.HTTP == nil || server.OwnToken() {
		return auth.SignIn{}
	}
	st, err := s.standingOf(ctx, server)
	if err != nil {
		return auth.SignIn{State: auth.SignInNeeded, Text: "what is known of it cannot be read: " + fault.From(err).Message}
	}
	return st.view(server, s.cfg.Now())
}

func (st standing) view(server catalog.Server, now time.Time) auth.SignIn {
	g := st.grant
	if !g.of(server) {
		switch {
		case g != nil:
			return auth.SignIn{State: auth.SignInNeeded, Text: "the URL of the server is another one than at the sign-in"}
		case st.asks != nil:
			return auth.SignIn{State: auth.SignInNeeded, Text: "nobody has signed in"}
		}
		return auth.SignIn{}
	}
	v := auth.SignIn{
		State: auth.SignedIn, Issuer: g.Issuer, Resource: g.Resource, Client: g.Client.ID, Kind: g.Client.Kind, Machine: g.Machine,
		Scopes: g.Scopes, Since: g.Since, Until: g.Expires, Renews: g.renews(), Text: g.Ended,
	}
	switch {
	case g.Ended != "":
		v.State, v.Renews = auth.SignInEnded, false
	case !v.Renews && !g.Expires.IsZero() && !now.Before(g.Expires):
		v.State, v.Text = auth.SignInEnded, "its time is over, and the server gave nothing to renew it with"
	case st.why != nil:
		v.Text = "it could not be renewed, which is tried again: " + fault.From(st.why).Message
	}
	if st.asks != nil && st.asks.scarce {
		v.Lacks = slices.DeleteFunc(slices.Clone(st.asks.scopes), func(scope string) bool { return slices.Contains(g.Scopes, scope) })
	}
	return v
}

// Token gives what a request to the server carries, "" for nothing. A server that asks for a sign-in and has none is not
// dialled: the error says what a person has to do.
func (s *SignIns) Token(ctx context.Context, server catalog.Server) (string, error) {
	st, err := s.standingOf(ctx, server)
	if err != nil {
		return "", nil //nolint:nilerr // most servers need no sign-in; one that does refuses, and Refused says what is wrong
	}
	now := s.cfg.Now()
	switch v := st.view(server, now); v.State {
	case auth.SignInNeeded, auth.SignInEnded:
		return "", auth.NeedsSignIn(server.Name, v.Text)
	case auth.SignedIn:
	case "":
		return "", nil
	}
	if !st.grant.due(now) || !st.grant.renews() {
		return st.grant.Access, nil
	}
	next, err := s.renew(ctx, server, st.grant.Access)
	if err != nil && now.Before(st.grant.Expires) && fault.KindOf(err) == fault.Unavailable {
		return st.grant.Access, nil // it still counts; the next call tries again
	}
	return next, err
}

// Refused takes what a server said with a 401 or 403 to a request with the token ("": none). True: there is another token
// now, and the request may be sent once more, since the server has not acted on it.
func (s *SignIns) Refused(ctx context.Context, server catalog.Server, token string, status int, header http.Header) (bool, error) {
	asks := readChallenge(header)
	asks.of = server.Process()
	if status == http.StatusForbidden && !asks.scarce {
		return false, nil // it is about what was asked, not about who asks
	}
	st, err := s.standingOf(ctx, server)
	if err != nil {
		return false, err
	}
	if g := st.grant; token != "" && g.of(server) && status == http.StatusUnauthorized {
		switch {
		case g.Access != token && g.Ended == "":
			return true, nil // it was renewed meanwhile
		case g.renews() && g.Ended == "":
			if _, err := s.renew(ctx, server, token); err != nil {
				return false, err
			}
			return true, nil
		case g.Ended == "":
			s.end(context.WithoutCancel(ctx), server, *g, "the server does not take its token any more")
		}
		return false, nil
	}
	if len(server.HTTP.Headers) > 0 && !asks.bearer {
		return false, nil // the credential of the entry is not the right one: a sign-in would not help
	}
	s.change(server, func(st *standing) { st.asks = &asks })
	return false, nil
}

// Rejected says that a server refused a token that was just got: another one would be no better.
func (s *SignIns) Rejected(ctx context.Context, server catalog.Server, token string) {
	st, err := s.standingOf(ctx, server)
	if err == nil && st.grant.of(server) && st.grant.Access == token && st.grant.Ended == "" {
		s.end(context.WithoutCancel(ctx), server, *st.grant, "the server does not take its token, which was just renewed")
	}
}

// Retry forgets that a server asked for a sign-in: the next request finds out again.
func (s *SignIns) Retry(server catalog.Server) {
	s.change(server, func(st *standing) { st.asks, st.again, st.why = nil, time.Time{}, nil })
}

// end notes that a sign-in counts no more. The record stays, for its registration, until the next sign-in has succeeded.
func (s *SignIns) end(ctx context.Context, server catalog.Server, g grant, why string) {
	g.Ended = why
	now := true
	s.change(server, func(st *standing) {
		if now = st.grant.of(server) && st.grant.Access == g.Access && st.grant.Ended == ""; now {
			st.grant = &g
		}
	})
	if !now {
		return
	}
	if err := s.keep(ctx, server, g); err != nil {
		s.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "end of a sign-in not kept", slog.String(key.Server, server.Name), slog.Any(key.Cause, err))
	}
	s.cfg.Ended(server, s.State(ctx, server))
}

// renew gets another token in place of the one that was used, once for everybody who asks at the same time.
func (s *SignIns) renew(ctx context.Context, server catalog.Server, used string) (string, error) {
	got := s.flights.DoChan("renew "+server.ID, func() (any, error) {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), renewWithin)
		defer stop()
		return s.renewNow(ctx, server, used)
	})
	select {
	case r := <-got:
		token, _ := r.Val.(string)
		return token, r.Err
	case <-ctx.Done():
		return "", fault.New(fault.Canceled, "canceled").Saying("the caller left while the sign-in was renewed").Because(context.Cause(ctx))
	}
}

func (s *SignIns) renewNow(ctx context.Context, server catalog.Server, used string) (string, error) {
	st, err := s.standingOf(ctx, server)
	if kept, loadErr := s.load(ctx, server); loadErr == nil && kept.of(server) && st.grant.of(server) && kept.Access != st.grant.Access {
		// The daemon before this one renewed it while it let go.
		s.change(server, func(st *standing) { st.grant = kept })
		st.grant = kept
	}
	switch {
	case err != nil:
		return "", err
	case !st.grant.of(server) || st.grant.Ended != "":
		return "", auth.NeedsSignIn(server.Name, st.view(server, s.cfg.Now()).Text)
	case st.grant.Access != used:
		return st.grant.Access, nil // somebody was faster
	case s.cfg.Now().Before(st.again):
		return "", st.why
	}
	g := *st.grant
	err = s.obtain(ctx, server, &g)
	if refused, ok := errors.AsType[*tokenError](err); ok && refused.final(g.Client) {
		s.end(ctx, server, g, "the authorization server does not renew it ("+refused.Code+")")
		return "", auth.NeedsSignIn(server.Name, "the sign-in has ended: the authorization server does not renew it")
	}
	if err == nil {
		// Kept before it is used: the server may have made the refresh token before it worthless.
		err = s.keep(ctx, server, g)
	}
	if err != nil {
		err = fault.New(fault.Unavailable, "sign-in-not-renewed").Saying("the sign-in at %s could not be renewed: %s", server.Name, fault.From(err).Message).
			Hinting("it is tried again; `mcpx server show %s` says more", server.Name).Retrying(fault.AfterWait)
		s.change(server, func(st *standing) { st.again, st.why = s.cfg.Now().Add(renewPause), err })
		return "", err
	}
	s.change(server, func(st *standing) { st.grant, st.again, st.why = &g, time.Time{}, nil })
	return g.Access, nil
}

// readChallenge reads WWW-Authenticate. One that cannot be read says nothing.
func readChallenge(header http.Header) (out challenge) {
	all, err := oauthex.ParseWWWAuthenticate(header.Values("Www-Authenticate"))
	if err != nil {
		return out
	}
	for _, c := range all {
		if c.Scheme != "bearer" {
			continue
		}
		if out.metadata == "" {
			out.metadata = c.Params["resource_metadata"]
		}
		if out.scopes == nil {
			out.scopes = auth.Scopes(strings.Fields(c.Params["scope"]))
		}
		out.bearer = true
		out.scarce = out.scarce || c.Params["error"] == "insufficient_scope"
	}
	return out
}
