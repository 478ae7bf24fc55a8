package control

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/key"
	"mcpx/internal/store"
)

// SignIns is mcpx as OAuth client of servers behind a URL.
type SignIns interface {
	// SignIn signs in. It calls open with the address for the browser, unless the client signs in for itself. A server that
	// asks for no sign-in gives the zero SignIn.
	SignIn(ctx context.Context, server catalog.Server, in auth.LogIn, open func(address string, until time.Time) error) (auth.SignIn, error)
	// End forgets a sign-in; false when there was none.
	End(ctx context.Context, server catalog.Server) (bool, error)
	// State says how we stand with a server. It sends nothing.
	State(ctx context.Context, server catalog.Server) auth.SignIn
	// Retry forgets that a server asked for a sign-in.
	Retry(server catalog.Server)
}

// LogIn signs in at a server. The first line says where a person says yes, the last one how it ended.
func (c *Control) LogIn(ctx context.Context, in api.LogIn, emit func(api.LogInStep) error) error {
	if err := c.allow(ctx, "server.login"); err != nil {
		return err
	}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		_, err := c.find(ctx, r, in.Name) // what lives only while `mcpx up` runs has nothing that could be kept
		return err
	})
	if err != nil {
		return err
	}
	s, err := c.view(ctx, in.Name)
	if err != nil {
		return err
	}
	switch {
	case s.HTTP == nil:
		return fault.New(fault.Conflict, "sign-in-not-possible").Saying("%s is a program on this machine, which signs in by itself", s.Name).
			Hinting("see its documentation; `mcpx credential bind %s` gives it a token", s.Name).Retrying(fault.Never)
	case s.OwnToken():
		return fault.New(fault.Conflict, "sign-in-not-possible").Saying("the entry of %s brings a token itself, in the header Authorization", s.Name).
			Hinting("remove it first: `mcpx server edit %s --remove-header Authorization`", s.Name).Retrying(fault.AfterFix)
	}
	if u, err := url.Parse(s.HTTP.URL); err != nil || u.Scheme != "https" && !catalog.IsLoopback(u.Hostname()) {
		return fault.New(fault.Conflict, "sign-in-not-possible").Saying("the URL of %s is not https, so its token would travel in clear", s.Name).
			Hinting("change it: `mcpx server edit %s --url https://...`", s.Name).Retrying(fault.AfterFix)
	}
	before := s.SignIn
	now, err := c.cfg.SignIns.SignIn(ctx, s.Server, auth.LogIn{
		Client: in.Client, Secret: in.Secret, Key: in.Key, Machine: in.Machine, Scopes: in.Scopes, Port: in.Port, Within: in.Within,
	}, func(address string, until time.Time) error {
		return emit(api.LogInStep{State: api.LogInWaiting, Server: s.Name, URL: address, Until: until, Operation: api.OperationOf(ctx)})
	})
	if err != nil {
		c.signInFailed(ctx, s.Server, err)
		return err
	}
	out := api.LogInStep{State: api.LogInNotNeeded, Server: s.Name, Operation: api.OperationOf(ctx)}
	if now.State == auth.SignedIn {
		out.State, out.SignIn = api.LogInDone, &now
		if before != nil && before.Issuer != "" && before.Issuer != now.Issuer {
			out.Before = before.Issuer
		}
		// It is kept already: whoever leaves now is signed in all the same.
		ctx := context.WithoutCancel(ctx)
		if err := c.tellSignIn(ctx, event.ServerSignedIn, s.Server, now, "mcpx is signed in at "+s.Name); err != nil {
			return err
		}
	}
	c.forgive(s)
	return emit(out)
}

// signInFailed records why nobody was signed in: a server, or its authorization server, may have tried something.
func (c *Control) signInFailed(ctx context.Context, s catalog.Server, why error) {
	if slices.Contains([]fault.Kind{fault.Invalid, fault.Busy, fault.Canceled}, fault.KindOf(why)) {
		return // it is about who asked
	}
	text := fault.From(why).Message
	err := c.tellSignIn(context.WithoutCancel(ctx), event.ServerSignInFailed, s, auth.SignIn{Text: text}, "nobody was signed in at "+s.Name+": "+text)
	if err != nil {
		c.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "failure of a sign-in not recorded", slog.String(key.Server, s.Name), slog.Any(key.Cause, err))
	}
}

// forgive lets the next call of a server try at once. What runs goes on: tokens are looked up for each request.
func (c *Control) forgive(s api.Server) {
	c.cfg.SignIns.Retry(s.Server)
	if s.Routable && (failing(s.Status) || s.Status.State == gateway.Idle) {
		_ = c.cfg.Gateway.Restart(s.Name) // it fails only for a server that was removed meanwhile
	}
}

// LogOut forgets the sign-in at a server.
func (c *Control) LogOut(ctx context.Context, in api.ServerRef) (api.Done, error) {
	if err := c.allow(ctx, "server.logout"); err != nil {
		return api.Done{}, err
	}
	s, err := c.view(ctx, in.Name)
	if err != nil {
		return api.Done{}, err
	}
	out := api.Done{Server: s.Name, State: "signed_out", Operation: api.OperationOf(ctx)}
	had := false
	if s.HTTP != nil {
		if had, err = c.endSignIn(ctx, s.Server); err != nil {
			return api.Done{}, err
		}
	}
	if !had {
		out.State, out.Already = "already_signed_out", true
		return out, nil
	}
	if s.Routable {
		_ = c.cfg.Gateway.Restart(s.Name) // it fails only for a server that was removed meanwhile
	}
	return out, nil
}

// endSignIn forgets a sign-in, and tells so; false when there was none.
func (c *Control) endSignIn(ctx context.Context, s catalog.Server) (bool, error) {
	was := c.cfg.SignIns.State(ctx, s)
	had, err := c.cfg.SignIns.End(ctx, s)
	if err != nil || !had {
		return false, err
	}
	return true, c.tellSignIn(context.WithoutCancel(ctx), event.ServerSignedOut, s, was, "mcpx is not signed in at "+s.Name+" any more")
}

// SignInEnded records that a sign-in has ended without anybody wanting that.
func (c *Control) SignInEnded(s catalog.Server, was auth.SignIn) {
	ctx := context.Background()
	if err := c.tellSignIn(ctx, event.ServerSignInEnded, s, was, "the sign-in at "+s.Name+" has ended: "+was.Text); err != nil {
		c.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "end of a sign-in not recorded", slog.String(key.Server, s.Name), slog.Any(key.Cause, err))
	}
}

func (c *Control) tellSignIn(ctx context.Context, kind event.Kind, s catalog.Server, now auth.SignIn, text string) error {
	return c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return c.tell(ctx, tx, kind, event.Refs{event.RefServer: s.ID}, text, struct {
			Server   string   `json:"server"`
			Issuer   string   `json:"issuer,omitempty"`
			Resource string   `json:"resource,omitempty"`
			Client   string   `json:"client_id,omitempty"`
			Scopes   []string `json:"scopes,omitempty"`
			Text     string   `json:"text,omitempty"`
		}{s.Name, now.Issuer, now.Resource, now.Client, now.Scopes, now.Text})
	})
}

// signInView is how we stand with a server, nil when it has not asked.
func (c *Control) signInView(ctx context.Context, s catalog.Server) *auth.SignIn {
	if now := c.cfg.SignIns.State(ctx, s); now.State != "" {
		return &now
	}
	return nil
}

// signInFinding is what is wrong with the sign-in at a server.
func signInFinding(s api.Server) (api.Finding, bool) {
	if s.SignIn == nil || !s.Routable || s.SignIn.State == auth.SignedIn && len(s.SignIn.Lacks) == 0 {
		return api.Finding{}, false
	}
	f := api.Finding{Code: "sign-in-needed", Severity: "warning", Subject: s.Name, Text: s.SignIn.Text, Command: "mcpx server login " + s.Name}
	switch {
	case s.SignIn.State == auth.SignInEnded:
		f.Code = "sign-in-ended"
	case len(s.SignIn.Lacks) > 0:
		f.Text = "the sign-in does not reach far enough, it lacks " + strings.Join(s.SignIn.Lacks, ", ")
	}
	f.Hint = "sign in with `" + f.Command + "`"
	return f, true
}
