package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// channelRemote is the channel of what comes from other machines.
const channelRemote = "remote"

// replayedCode is the refusal of an authorization code that comes again.
const replayedCode = "remote-code-replayed"

// fromRemote says in events that something came from another machine.
func fromRemote(ctx context.Context) context.Context {
	return api.CalledBy(ctx, api.Caller{Channel: channelRemote})
}

// remoteGone is the answer while remote access is off.
func remoteGone() error {
	return &auth.Denial{Code: auth.TemporarilyUnavailable, Text: "remote access is off"}
}

// refuseRemote tells of somebody who was refused, by what that may have been an attempt at, else by code, and gives the
// refusal back.
func (c *Control) refuseRemote(ctx context.Context, code string, refs event.Refs, err error) error {
	if d, ok := errors.AsType[*auth.Denial](err); ok && d.Attempt != "" {
		code = "remote-" + string(d.Attempt)
	}
	c.denied(fromRemote(ctx), event.RemoteRefused, refs, err.Error(), fault.New(fault.Denied, code).Saying("%s", err))
	return err
}

// Refused tells of a request that was refused at the listener, and gives the refusal back.
func (c *Control) Refused(ctx context.Context, d *auth.Denial) error {
	return c.refuseRemote(ctx, "remote-request-invalid", nil, d)
}

// RegisterClient gives a client its id (RFC 7591). Nothing is kept but how many there were.
func (c *Control) RegisterClient(ctx context.Context, name string, redirects []string) (auth.Client, error) {
	client, err := c.remote.registrar.Register(name, redirects)
	if err != nil {
		return client, c.refuseRemote(ctx, "remote-registration-refused", nil, err)
	}
	text := client.Name + " registered itself"
	c.seldom(fromRemote(ctx), event.RemoteRegistered, nil, text, refusal{"remote-registered", text})
	return client, nil
}

// client is who has an id: one that was given here, or the URL of a document.
func (c *Control) client(ctx context.Context, id string) (auth.Client, error) {
	if auth.IsDocument(id) {
		return c.cfg.Documents(ctx, id)
	}
	return c.remote.registrar.Client(id)
}

// AskConsent opens the question that an authorization request puts to the person. cookie is for the browser.
func (c *Control) AskConsent(ctx context.Context, a auth.Ask) (q auth.Consent, cookie string, err error) {
	now := c.remote.get()
	if !now.On {
		return q, "", remoteGone()
	}
	client, err := c.client(ctx, a.Client)
	if err != nil {
		code := "remote-client-unknown"
		if auth.IsDocument(a.Client) {
			code = "remote-document-refused"
		}
		return q, "", c.refuseRemote(ctx, code, nil, err)
	}
	scopes, err := a.Check(client, now.Resource())
	if err != nil {
		return q, "", c.refuseRemote(ctx, "remote-request-invalid", nil, err)
	}
	return c.remote.consents.Ask(a, client, scopes, c.cfg.Now(), c.cfg.Random)
}

// FindConsent is the question of the browser with this cookie.
func (c *Control) FindConsent(_ context.Context, request, cookie string) (auth.Consent, error) {
	return c.remote.consents.Find(request, cookie, c.cfg.Now())
}

// AnswerConsent takes what was typed in the browser; code is the authorization code for the client.
func (c *Control) AnswerConsent(ctx context.Context, in auth.Typed) (q auth.Consent, code string, err error) {
	if !c.remote.get().On {
		return q, "", remoteGone()
	}
	q, code, err = c.remote.consents.Answer(in, c.cfg.IDs.New(id.Delegation), c.cfg.Now(), c.cfg.Random)
	d, denial := errors.AsType[*auth.Denial](err)
	switch {
	case denial && d.Open && in.Refuse: // the no of the person stands whether it can be told or not
		_ = c.tellDenied(fromRemote(ctx), q)
	case err != nil:
		err = c.refuseRemote(ctx, "remote-code-refused", nil, err)
	}
	return q, code, err
}

// RedeemCode gives a client its tokens for an authorization code. A code that comes again ends what it gave.
func (c *Control) RedeemCode(ctx context.Context, in auth.Redemption, resources []string) (auth.Delegation, auth.Pair, error) {
	now := c.remote.get()
	if !now.On {
		return auth.Delegation{}, auth.Pair{}, remoteGone()
	}
	if err := auth.CheckResource(resources, now.Resource()); err != nil {
		return auth.Delegation{}, auth.Pair{}, c.refuseRemote(ctx, "remote-audience-wrong", nil, err)
	}
	issued, err := c.remote.consents.Redeem(in, c.cfg.Now())
	if again, ok := errors.AsType[*auth.Replayed](err); ok {
		return auth.Delegation{}, auth.Pair{}, c.stolen(ctx, again.Delegation, replayedCode, "its code was used twice")
	}
	if err != nil {
		return auth.Delegation{}, auth.Pair{}, c.refuseRemote(ctx, "remote-code-refused", nil, err)
	}
	d, pair, err := auth.Open(issued, now.Resource(), c.cfg.Random, c.cfg.Now())
	if err != nil {
		return auth.Delegation{}, auth.Pair{}, err
	}
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if still, err := tx.Remote(ctx); err != nil || !still.On || still.URL != now.URL { // it was turned off meanwhile
			return cmp.Or(err, remoteGone())
		}
		if err := c.keepPair(ctx, tx, d, pair); err != nil {
			return err
		}
		return c.tell(fromRemote(ctx), tx, event.RemoteAccessGiven, event.Refs{event.RefToken: d.ID}, d.Client+" has access", c.clientView(d))
	})
	if err == nil && c.remote.consents.Replayed(in.Code) { // by somebody who looked before this was written
		err = c.stolen(ctx, d.ID, replayedCode, "its code was used twice")
	}
	if err != nil {
		return auth.Delegation{}, auth.Pair{}, err
	}
	return d, pair, nil
}

// keepPair writes a delegation with its new tokens, and forgets those that are long over.
func (c *Control) keepPair(ctx context.Context, tx store.Tx, d auth.Delegation, pair auth.Pair) error {
	if err := tx.PutDelegation(ctx, auth.PutDelegation{Delegation: d}); err != nil {
		return err
	}
	for _, t := range pair.Records {
		if err := tx.PutDelegationToken(ctx, auth.PutDelegationToken{Token: t}); err != nil {
			return err
		}
	}
	return tx.DropDelegationTokens(ctx, auth.DropDelegationTokens{Before: c.cfg.Now().Add(-time.Hour)})
}

// stolen ends a delegation of which two hold the same thing.
func (c *Control) stolen(ctx context.Context, delegation, code, why string) error {
	err := c.cfg.DB.Change(context.WithoutCancel(ctx), func(tx store.Tx) error {
		d, err := tx.DelegationByID(ctx, auth.DelegationByID{ID: delegation})
		if fault.KindOf(err) == fault.NotFound {
			return nil // the code was refused when it came first
		}
		if err != nil {
			return err
		}
		_, err = c.endAccess(fromRemote(ctx), tx, d, why)
		return err
	})
	if err != nil {
		return err
	}
	return c.refuseRemote(ctx, code, event.Refs{event.RefToken: delegation}, &auth.Denial{Code: auth.InvalidGrant, Text: why})
}

// RefreshAccess exchanges a refresh token for new tokens. One that comes again ends the access that it belongs to.
func (c *Control) RefreshAccess(ctx context.Context, token, client string, resources []string) (auth.Delegation, auth.Pair, error) {
	now := c.remote.get()
	if !now.On {
		return auth.Delegation{}, auth.Pair{}, remoteGone()
	}
	if err := auth.CheckResource(resources, now.Resource()); err != nil {
		return auth.Delegation{}, auth.Pair{}, c.refuseRemote(ctx, "remote-audience-wrong", nil, err)
	}
	var (
		d    auth.Delegation
		pair auth.Pair
	)
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		record, of, err := tokenRecord(ctx, tx, auth.OfRefresh, token)
		if err != nil {
			return err
		}
		var spent auth.DelegationToken
		if d, spent, pair, err = auth.Refresh(of, record, client, now.Resource(), c.cfg.Random, c.cfg.Now()); err != nil {
			return err
		}
		if err := tx.PutDelegationToken(ctx, auth.PutDelegationToken{Token: spent}); err != nil {
			return err
		}
		return c.keepPair(ctx, tx, d, pair)
	})
	if again, ok := errors.AsType[*auth.Replayed](err); ok {
		return auth.Delegation{}, auth.Pair{}, c.stolen(ctx, again.Delegation, "remote-refresh-replayed", "its refresh token was used twice")
	}
	if _, denial := errors.AsType[*auth.Denial](err); denial {
		err = c.refuseRemote(ctx, "remote-refresh-refused", nil, err)
	}
	return d, pair, err
}

// tokenRecord finds the record of a token, and what it belongs to.
func tokenRecord(ctx context.Context, r store.Reader, f auth.Form, text string) (auth.DelegationToken, auth.Delegation, error) {
	unknown := &auth.Denial{Code: auth.InvalidGrant, Text: "the token is not known"}
	v, err := auth.Parse(f, text)
	if err != nil {
		return auth.DelegationToken{}, auth.Delegation{}, unknown
	}
	t, err := r.DelegationToken(ctx, auth.DelegationTokenByDigest{Digest: v.Digest()})
	if err != nil {
		return auth.DelegationToken{}, auth.Delegation{}, err
	}
	if t == nil {
		return auth.DelegationToken{}, auth.Delegation{}, unknown
	}
	d, err := r.DelegationByID(ctx, auth.DelegationByID{ID: t.Delegation})
	return *t, d, err
}

// EndAccess ends what a token belongs to (RFC 7009). A token that is not known has ended.
func (c *Control) EndAccess(ctx context.Context, token string) error {
	return c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		for _, form := range []auth.Form{auth.OfRefresh, auth.OfAccess} {
			_, d, err := tokenRecord(ctx, tx, form, token)
			if _, unknown := errors.AsType[*auth.Denial](err); unknown {
				continue
			}
			if err != nil {
				return err
			}
			_, err = c.endAccess(fromRemote(ctx), tx, d, "the client ended it")
			return err
		}
		return nil
	})
}

// AdmitRemote says on whose behalf the bearer of an access token calls.
func (c *Control) AdmitRemote(ctx context.Context, token string) (auth.Delegation, error) {
	now := c.remote.get()
	if !now.On {
		return auth.Delegation{}, remoteGone()
	}
	admit := c.admitOwn
	if now.Issuer != "" {
		admit = c.admitExternal
	}
	d, err := admit(ctx, now, token)
	if fault.KindOf(err) == fault.Unauthenticated {
		c.denied(fromRemote(ctx), event.RemoteRefused, event.Refs{event.RefToken: d.ID}, "an access token was refused: "+fault.From(err).Message, fault.From(err))
	}
	return d, err
}

// AccessTaken says whether access was taken away while a call was made. It tells nobody: a call is no attempt. Without an answer
// of the database the call, which was let in, has its answer.
func (c *Control) AccessTaken(ctx context.Context, d auth.Delegation, since time.Time) bool {
	if now := c.remote.get(); !now.On || !now.Since.Equal(since) {
		return true
	}
	err := c.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		d, err = r.DelegationByID(ctx, auth.DelegationByID{ID: d.ID})
		return err
	})
	return fault.KindOf(err) == fault.NotFound || err == nil && !d.Revoked.IsZero()
}

// TokenInAddress refuses a token in an address: addresses are kept in logs and histories (RFC 6750 section 5.3).
func (c *Control) TokenInAddress(ctx context.Context) error {
	err := fault.New(fault.Unauthenticated, "access-in-address").Saying("an access token in an address does not count").Hinting("send it in the header Authorization")
	c.denied(fromRemote(ctx), event.RemoteRefused, nil, err.Message, err)
	return err
}

// beyond are the refusals of a call that reaches for what its caller was not given.
var beyond = []operation.Code{operation.SessionNotFound, operation.RoleDenied, operation.ProjectUnknown, session.HandoffInvalid}

// RemoteCallRefused tells of a client on another machine that reached for what it was not given.
func (c *Control) RemoteCallRefused(ctx context.Context, principal, tool string, r *operation.Refusal) {
	if slices.Contains(beyond, r.Code) {
		c.denied(fromRemote(ctx), event.RemoteRefused, nil, fmt.Sprintf("a call of %s by %s was refused: %s", tool, principal, r.Code), fault.New(fault.Denied, string(r.Code)))
	}
}

// admitOwn looks up a token that was given here.
func (c *Control) admitOwn(ctx context.Context, now auth.Remote, token string) (d auth.Delegation, err error) {
	var t auth.DelegationToken
	err = c.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		t, d, err = tokenRecord(ctx, r, auth.OfAccess, token)
		return err
	})
	if _, unknown := errors.AsType[*auth.Denial](err); unknown {
		err = fault.New(fault.Unauthenticated, "access-unknown").Saying("this access token was not given here")
	}
	if err == nil {
		if refused := auth.Admits(d, t, now.Resource(), c.cfg.Now()); refused != nil {
			err = refused
		}
	}
	return d, err
}

// admitExternal lets in who has a token of the authorization server in our place. Its clients have a delegation each, from
// their first call on: they are listed, and can be shut out.
func (c *Control) admitExternal(ctx context.Context, now auth.Remote, token string) (d auth.Delegation, err error) {
	says, err := c.cfg.Issued(ctx, now.Issuer, now.Resource(), token)
	if err != nil {
		return d, err
	}
	scopes, refused := now.Allowed(says)
	if refused != nil {
		return d, refused
	}
	all, err := c.delegations(ctx)
	if err != nil {
		return d, err
	}
	d, known := now.Known(all, says)
	if known {
		if _, again := d.Extend(scopes, c.cfg.Now()); !again {
			return d, shutOut(d)
		}
	}
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if still, err := tx.Remote(ctx); err != nil || !still.On || still.Issuer != now.Issuer || !still.Since.Equal(now.Since) {
			return cmp.Or(err, remoteGone())
		}
		all, err := auth.AllDelegations(ctx, tx)
		if err != nil {
			return err
		}
		at := c.cfg.Now()
		if d, known = now.Known(all, says); !known {
			d = auth.Delegation{
				ID: c.cfg.IDs.New(id.Delegation), Principal: api.Owner.Name, Client: says.Client, ClientID: says.Client, Issuer: says.Issuer, Resource: now.Resource(), Made: at,
			}
		} else if err := shutOut(d); err != nil {
			return err
		}
		d, _ = d.Extend(scopes, at)
		if err := tx.PutDelegation(ctx, auth.PutDelegation{Delegation: d}); err != nil || known {
			return err
		}
		return c.tell(fromRemote(ctx), tx, event.RemoteAccessGiven, event.Refs{event.RefToken: d.ID}, d.Client+" has access by "+d.Issuer, c.clientView(d))
	})
	return d, err
}

// shutOut refuses a client of another authorization server whose access was ended.
func shutOut(d auth.Delegation) error {
	if d.Revoked.IsZero() {
		return nil
	}
	return fault.New(fault.Unauthenticated, "access-over").Saying("the access of %s has ended: %s", d.Client, d.Why).Hinting("mcpx remote off, then on, lets its clients in again")
}
