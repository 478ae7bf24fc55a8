package auth

import (
	"io"
	"time"

	"mcpx/internal/fault"
)

// How long the tokens of a delegation count.
const (
	AccessLife  = time.Hour
	RefreshLife = 30 * 24 * time.Hour // from the last use
)

// Delegation is the yes of a person to one client. It ends when it is revoked, or when its refresh token was not used for
// RefreshLife.
type Delegation struct {
	ID        string    `json:"delegation_id"` // dg_
	Principal string    `json:"principal"`
	Client    string    `json:"client"` // what the client calls itself
	ClientID  string    `json:"client_id"`
	Redirect  string    `json:"redirect_uri"`
	Issuer    string    `json:"issuer,omitempty"` // of its tokens, where that is not this machine
	Resource  string    `json:"resource"`
	Scopes    []Scope   `json:"scopes"`
	Made      time.Time `json:"made"`
	Refreshed time.Time `json:"refreshed,omitzero"`
	Expires   time.Time `json:"expires"`
	Revoked   time.Time `json:"revoked,omitzero"`
	Why       string    `json:"why,omitempty"` // it was revoked
}

// At is what a delegation is worth now: live, expired or revoked.
func (d Delegation) At(now time.Time) State {
	switch {
	case !d.Revoked.IsZero():
		return Revoked
	case !now.Before(d.Expires):
		return Expired
	}
	return Live
}

// Revoke ends a delegation at once; false when it had ended before.
func (d Delegation) Revoke(why string, now time.Time) (Delegation, bool) {
	if d.At(now) != Live {
		return d, false
	}
	d.Revoked, d.Why = now, why
	return d, true
}

// DelegationToken is the record of one token of a delegation.
type DelegationToken struct {
	Digest     string    `json:"digest"` // of the value
	Delegation string    `json:"delegation_id"`
	Refresh    bool      `json:"refresh,omitempty"` // else it is an access token
	Made       time.Time `json:"made"`
	Expires    time.Time `json:"expires"`
	Spent      time.Time `json:"spent,omitzero"` // when a refresh token was exchanged for another one
}

// Pair are the two tokens that a client is given, and their records.
type Pair struct {
	Access, Refresh Value
	Records         []DelegationToken
}

// pair makes the next two tokens of a delegation.
func (d *Delegation) pair(random io.Reader, now time.Time) (Pair, error) {
	access, err := Make(OfAccess, random)
	if err != nil {
		return Pair{}, err
	}
	refresh, err := Make(OfRefresh, random)
	if err != nil {
		return Pair{}, err
	}
	d.Expires = now.Add(RefreshLife)
	return Pair{access, refresh, []DelegationToken{
		{Digest: access.Digest(), Delegation: d.ID, Made: now, Expires: now.Add(AccessLife)},
		{Digest: refresh.Digest(), Delegation: d.ID, Refresh: true, Made: now, Expires: d.Expires},
	}}, nil
}

// Open makes the delegation of a code that was redeemed, with its first tokens.
func Open(i Issued, resource string, random io.Reader, now time.Time) (Delegation, Pair, error) {
	d := Delegation{
		ID: i.Delegation, Principal: i.Principal, Client: i.Client.Name, ClientID: i.Client.ID, Redirect: i.Redirect, Resource: resource, Scopes: i.Scopes, Made: now,
	}
	p, err := d.pair(random, now)
	return d, p, err
}

// Refresh exchanges a refresh token for new ones (OAuth 2.1 section 4.3). resource is what is served now, spent the record of
// the token from now on.
func Refresh(d Delegation, t DelegationToken, client, resource string, random io.Reader, now time.Time) (after Delegation, spent DelegationToken, p Pair, err error) {
	switch {
	case !t.Refresh || t.Delegation != d.ID:
		err = deny(InvalidGrant, "this is no refresh token")
	case client != "" && client != d.ClientID:
		err = deny(InvalidGrant, "the refresh token is of another client")
	case d.Resource != resource:
		err = deny(InvalidGrant, "the access is for %s: ask the person again", d.Resource)
	case d.At(now) != Live || !now.Before(t.Expires):
		err = deny(InvalidGrant, "the access is %s: ask the person again", d.At(now))
	case !t.Spent.IsZero():
		err = &Replayed{d.ID}
	}
	if err != nil {
		return d, t, Pair{}, err
	}
	t.Spent, d.Refreshed = now, now
	p, err = d.pair(random, now)
	return d, t, p, err
}

// Admits says whether an access token opens a resource now.
func Admits(d Delegation, t DelegationToken, resource string, now time.Time) *fault.Error {
	over := fault.New(fault.Unauthenticated, "access-over").Saying("the access token counts no more").Hinting("refresh it, or ask for access again")
	switch {
	case t.Refresh || t.Delegation != d.ID || d.At(now) != Live || !now.Before(t.Expires):
		return over
	case d.Resource != resource:
		return fault.New(fault.Unauthenticated, "access-elsewhere").Saying("the access token is for %s", d.Resource).Hinting("ask for access to %s", resource)
	}
	return nil
}
