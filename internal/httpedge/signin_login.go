package httpedge

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

// callbackPath is where the browser is sent back to.
const callbackPath = "/callback"

// SignIn signs in at a server. It calls open with the address at which a person says yes, and waits until the browser comes
// back, unless the client signs in for itself. A server that asks for no sign-in gives the zero SignIn.
func (s *SignIns) SignIn(ctx context.Context, server catalog.Server, in auth.LogIn, open func(address string, until time.Time) error) (auth.SignIn, error) {
	if err := in.Check(); err != nil {
		return auth.SignIn{}, err
	}
	if err := s.begin(server); err != nil {
		return auth.SignIn{}, err
	}
	defer s.leave(server)
	within := in.Within
	if within == 0 {
		within = auth.SignInWithin
	}
	until := s.cfg.Now().Add(within)
	ctx, stop := context.WithTimeoutCause(ctx, within, errTooLate)
	defer stop()

	st, err := s.standingOf(ctx, server)
	if err != nil {
		return auth.SignIn{}, err
	}
	client := s.client(server)
	found, err := s.discover(ctx, client, server, st.asks)
	if err != nil && ctx.Err() != nil {
		err = givenUp(ctx)
	}
	if err != nil || found == nil {
		return auth.SignIn{}, err
	}
	g := grant{
		URL: server.HTTP.URL, Resource: found.resource, Issuer: found.as.Issuer, Endpoint: found.as.TokenEndpoint, Revoke: found.as.RevocationEndpoint,
		Machine: in.Machine, Since: s.cfg.Now(),
	}
	var old *grant // at the same issuer: what belongs to another one is of no use here, and none of its business
	if st.grant.of(server) && st.grant.Issuer == g.Issuer {
		old = st.grant
	}
	g.Scopes = wished(in, found, old, st.asks)
	if in.Machine {
		g.Client = given(in, found)
		err = s.obtain(ctx, server, &g)
	} else {
		err = s.consent(ctx, client, &g, in, found, old, func(address string) error { return open(address, until) })
	}
	if err != nil {
		if refused, ok := errors.AsType[*tokenError](err); ok {
			err = fault.New(fault.Denied, "sign-in-refused").Saying("%s", refused.Error()).Hinting("nobody was signed in; try again with `mcpx server login %s`", server.Name)
		} else if ctx.Err() != nil {
			err = givenUp(ctx)
		}
		return auth.SignIn{}, err
	}
	if err := s.keep(ctx, server, g); err != nil {
		return auth.SignIn{}, err
	}
	s.change(server, func(st *standing) { *st = standing{loaded: true, grant: &g} })
	return s.State(ctx, server), nil
}

var errTooLate = errors.New("nobody signed in in time")

// begin takes the place of the one who signs in at a server: two tabs of a browser, each with a question about the same
// server, help nobody.
func (s *SignIns) begin(server catalog.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logins[server.ID] {
		return fault.New(fault.Busy, "sign-in-running").Saying("somebody signs in at %s already", server.Name).
			Hinting("finish it in the browser, or end that `mcpx server login %s`", server.Name).Retrying(fault.AfterWait)
	}
	s.logins[server.ID] = true
	return nil
}

func (s *SignIns) leave(server catalog.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.logins, server.ID)
}

// wished are the scopes that are asked for: those of the person, or those that the server names; and what was granted
// before, which a token with more must not lack.
func wished(in auth.LogIn, found *discovered, old *grant, asks *challenge) []string {
	scopes := found.scopes
	if len(in.Scopes) > 0 {
		scopes = in.Scopes
	}
	if old != nil && len(in.Scopes) == 0 && asks != nil && asks.scarce {
		scopes = auth.Scopes(old.Scopes, scopes)
	}
	if !in.Machine && slices.Contains(found.as.ScopesSupported, "offline_access") {
		scopes = auth.Scopes(scopes, []string{"offline_access"}) // else there is nothing to renew the token with
	}
	return scopes
}

// given is the client that a person names.
func given(in auth.LogIn, found *discovered) clientAs {
	r := clientAs{ID: in.Client, Kind: auth.ClientGiven, Ref: in.Secret, Method: auth.TokenMethod(found.as.TokenEndpointAuthMethodsSupported, in.Secret != "")}
	if in.Key != "" {
		r.Ref, r.Method = in.Key, auth.MethodKey
	}
	return r
}

// consent lets a person say yes in a browser, and gets the token for that.
func (s *SignIns) consent(ctx context.Context, client *http.Client, g *grant, in auth.LogIn, found *discovered, old *grant, open func(address string) error) error {
	back, err := s.listen(in, old)
	if err != nil {
		return err
	}
	defer back.close()
	switch {
	case auth.IsDocumentID(in.Client) && found.as.ClientIDMetadataDocumentSupported:
		g.Client = clientAs{ID: in.Client, Kind: auth.ClientDocument, Method: auth.MethodNone, Redirect: back.redirect}
		if in.Key != "" || in.Secret != "" {
			g.Client = given(in, found)
			g.Client.Kind = auth.ClientDocument
		}
	case in.Client != "" && !auth.IsDocumentID(in.Client):
		g.Client = given(in, found)
	case old != nil && old.Client.Kind == auth.ClientRegistered && old.Client.Redirect == back.redirect && old.Ended == "":
		g.Client = old.Client
	default:
		if g.Client, err = s.register(ctx, client, found.as, back.redirect); err != nil {
			return err
		}
	}
	verifier, state := oauth2.GenerateVerifier(), rand.Text()
	asked := oauth2.Config{
		ClientID: g.Client.ID, RedirectURL: back.redirect, Scopes: g.Scopes, Endpoint: oauth2.Endpoint{AuthURL: found.as.AuthorizationEndpoint},
	}
	address := asked.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", g.Resource))
	back.serve(state)
	if err := open(address); err != nil {
		return err
	}
	answer, err := back.wait(ctx)
	if err != nil {
		return err
	}
	if err := auth.CheckIssuer(answer.Get("iss"), g.Issuer, found.as.AuthorizationResponseIssParameterSupported); err != nil {
		return err
	}
	if no := answer.Get("error"); no != "" {
		return &tokenError{Code: plainText(no, upMaxQuote), Text: plainText(answer.Get("error_description"), upMaxQuote)}
	}
	return s.exchange(ctx, client, g, url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")}, "redirect_uri": {back.redirect}, "code_verifier": {verifier},
	})
}

// comeback is the address of this machine to which the browser of a person is sent back.
type comeback struct {
	listener net.Listener
	server   *http.Server
	host     string
	redirect string
	answered atomic.Bool
	got      chan url.Values // has room for the one answer
}

// listen takes the port that the person named, else the one of the registration that is there, so that it can be used again,
// else any.
func (s *SignIns) listen(in auth.LogIn, old *grant) (*comeback, error) {
	port := in.Port
	if port == 0 && in.Client == "" && old != nil {
		if u, err := url.Parse(old.Client.Redirect); err == nil {
			port, _ = strconv.Atoi(u.Port()) // 0 without one
		}
	}
	l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil && in.Port == 0 {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fault.New(fault.Busy, "sign-in-port").Saying("nothing can be listened to at 127.0.0.1:%d", port).
			Hinting("is it in use? choose another one with --port").Retrying(fault.AfterFix).Because(err)
	}
	host := l.Addr().String()
	return &comeback{listener: l, host: host, redirect: "http://" + host + callbackPath, got: make(chan url.Values, 1)}, nil
}

// serve takes the answer of the browser. One with another state is of somebody else: it changes nothing.
func (b *comeback) serve(state string) {
	b.server = &http.Server{
		ReadHeaderTimeout: signInAnswer, MaxHeaderBytes: upMaxHeader,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			say := func(status int, text string) {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				w.Header().Set("Cache-Control", "no-store")
				w.Header().Set("Referrer-Policy", "no-referrer")
				w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
				w.WriteHeader(status)
				_, _ = w.Write([]byte(text + "\n")) // the browser may be gone
			}
			query := r.URL.Query()
			switch {
			case r.Host != b.host, r.URL.Path != callbackPath, r.Method != http.MethodGet:
				say(http.StatusNotFound, "There is nothing here.")
			case subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(state)) != 1:
				say(http.StatusBadRequest, "This is not the answer to the sign-in that is under way. Nothing was done.")
			case query.Get("code") == "" && query.Get("error") == "":
				say(http.StatusBadRequest, "The answer holds neither a code nor an error. Nothing was done.")
			default:
				if b.answered.Swap(true) {
					say(http.StatusConflict, "The sign-in has its answer already.")
					return
				}
				b.got <- query
				say(http.StatusOK, "Thank you. You can close this page; the terminal says how it ended.")
			}
		}),
	}
	go func() { _ = b.server.Serve(b.listener) }() // close ends it, and that is all it says
}

// wait gives the answer of the browser.
func (b *comeback) wait(ctx context.Context) (url.Values, error) {
	select {
	case got := <-b.got:
		return got, nil
	case <-ctx.Done():
		return nil, givenUp(ctx)
	}
}

// givenUp is why a sign-in ended whose context is done, whatever it waited for then.
func givenUp(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errTooLate) {
		return fault.New(fault.Unavailable, "sign-in-late").Saying("nobody signed in in time").
			Hinting("try again; --timeout gives more time").Retrying(fault.AfterFix)
	}
	return fault.New(fault.Canceled, "canceled").Saying("the sign-in was given up").Because(context.Cause(ctx))
}

// close ends the listener; a page that is being written is finished.
func (b *comeback) close() {
	if b.server == nil {
		_ = b.listener.Close() // only heard nothing
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	if b.server.Shutdown(ctx) != nil {
		_ = b.server.Close()
	}
}
