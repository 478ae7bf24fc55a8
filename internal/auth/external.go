package auth

import (
	"slices"
	"time"

	"mcpx/internal/fault"
)

// External is what an authorization server that is not ours says in an access token (RFC 9068): verified, and for this
// resource.
type External struct {
	Issuer  string
	Subject string // who signed in there
	Client  string // who asked for the token
	Scopes  []string
	Issued  time.Time
}

// Allowed are the scopes of an external token that mean something here, if it counts. A token that may be from before
// the time at which remote access was turned on counts no more: turning it off has ended everything.
func (r Remote) Allowed(e External) ([]Scope, *fault.Error) {
	refuse := func(code, format string, args ...any) ([]Scope, *fault.Error) {
		return nil, fault.New(fault.Unauthenticated, code).Saying(format, args...).Hinting("sign in at %s again", r.Issuer)
	}
	scopes := slices.DeleteFunc(RemoteScopes(), func(s Scope) bool { return !slices.Contains(e.Scopes, string(s)) })
	switch {
	case e.Issuer != r.Issuer:
		return refuse("access-elsewhere", "the access token is of another issuer")
	case e.Subject != r.Subject:
		return refuse("access-of-another", "the access token is of another person")
	case e.Client == "":
		return refuse("access-of-nobody", "the access token does not say which client it is for (client_id or azp)")
	case e.Issued.Before(r.Since): // tokens have whole seconds: one of the second in which it was turned on may be from before
		return refuse("access-over", "the access token is from before remote access was turned on")
	case len(scopes) == 0:
		return refuse("access-for-nothing", "the access token has none of the scopes %s", JoinScopes(RemoteScopes()))
	}
	return scopes, nil
}

// Known finds the delegation of the client of an external token among those since remote access was turned on.
func (r Remote) Known(all []Delegation, e External) (Delegation, bool) {
	for _, d := range all {
		if d.Issuer == e.Issuer && d.ClientID == e.Client && !d.Made.Before(r.Since) {
			return d, true
		}
	}
	return Delegation{}, false
}

// Extend is a delegation after an external token of its client came with scopes; false: it says so already. It lasts as one
// whose refresh token was used.
func (d Delegation) Extend(scopes []Scope, now time.Time) (Delegation, bool) {
	if slices.Equal(d.Scopes, scopes) && now.Sub(d.Refreshed) < AccessLife {
		return d, false
	}
	d.Scopes, d.Refreshed, d.Expires = scopes, now, now.Add(RefreshLife)
	return d, true
}
