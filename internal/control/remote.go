package control

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"mcpx/internal/api"
	"mcpx/internal/auth"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// RemoteListener is where clients of other machines come in.
type RemoteListener interface {
	// Open listens as r says, in place of what it listened at before. Close ends it and the requests in work.
	Open(r auth.Remote)
	Close()
	// State says whether it listens, and why not.
	State() (listening bool, problem string)
}

// remote is what control knows about access over OAuth without a look at the database.
type remote struct {
	consents  *auth.Consents
	registrar auth.Registrar

	change sync.Mutex   // held while remote access is turned on or off
	mu     sync.RWMutex // guards now
	now    auth.Remote
}

// loadRemote opens the listener that an earlier daemon had.
func (c *Control) loadRemote(ctx context.Context) error {
	return c.cfg.DB.View(ctx, func(r store.Reader) error {
		now, err := r.Remote(ctx)
		if err == nil {
			c.remote.set(now)
		}
		return err
	})
}

// OpenRemote begins to listen, if remote access is on.
func (c *Control) OpenRemote() {
	c.remote.change.Lock() // nobody turns it off in between
	defer c.remote.change.Unlock()
	// Over a store that is only read nobody's access could be ended.
	if now := c.remote.get(); now.On && c.cfg.DB.Stopped() == nil {
		c.cfg.Remote.Open(now)
	}
}

func (r *remote) get() auth.Remote {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.now
}

func (r *remote) set(now auth.Remote) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = now
}

// Remote says whether clients on other machines reach this one.
func (c *Control) Remote(ctx context.Context, _ api.None) (api.Remote, error) {
	if err := c.allow(ctx, "remote.show"); err != nil {
		return api.Remote{}, err
	}
	return c.remoteView(ctx)
}

func (c *Control) remoteView(ctx context.Context) (api.Remote, error) {
	now := c.remote.get()
	out := api.Remote{
		On: now.On, URL: now.URL, Address: now.Address, Certificate: now.Certificate, Key: now.Key, Issuer: now.Issuer, Subject: now.Subject,
		Requests: len(c.remote.consents.Waiting(c.cfg.Now())), Next: []string{},
	}
	out.Listening, out.Problem = c.cfg.Remote.State()
	if now.On {
		out.Connector = now.Resource()
	} else {
		out.Next = append(out.Next, "mcpx remote on --url "+cmp.Or(now.URL, "https://HOST"))
	}
	if out.Requests > 0 {
		out.Next = append(out.Next, "mcpx remote requests")
	}
	all, err := c.delegations(ctx)
	for _, d := range all {
		if d.At(c.cfg.Now()) == auth.Live {
			out.Clients++
		}
	}
	return out, err
}

func (c *Control) delegations(ctx context.Context) (all []auth.Delegation, err error) {
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err = auth.AllDelegations(ctx, r)
		return err
	})
	return all, err
}

// TurnRemoteOn lets clients on other machines ask for access.
func (c *Control) TurnRemoteOn(ctx context.Context, in api.RemoteOn) (api.Remote, error) {
	if err := c.allow(ctx, "remote.on"); err != nil {
		return api.Remote{}, err
	}
	if _, err := c.cfg.Person(api.CallerOf(ctx).Pid); err != nil {
		return api.Remote{}, err
	}
	c.remote.change.Lock()
	defer c.remote.change.Unlock()
	next := c.remote.get()
	was := next
	next.On = true
	next.URL = cmp.Or(in.URL, next.URL)
	next.Address = cmp.Or(in.Address, next.Address, auth.DefaultRemoteAddress)
	if in.Certificate != "" || in.Key != "" {
		next.Certificate, next.Key = in.Certificate, in.Key
	}
	next.Issuer, next.Subject = cmp.Or(in.Issuer, next.Issuer), cmp.Or(in.Subject, next.Subject)
	if next.Issuer == api.NoIssuer {
		next.Issuer, next.Subject = "", ""
	}
	if err := next.Check(); err != nil {
		return api.Remote{}, err
	}
	another := next.URL != was.URL || next.Issuer != was.Issuer || next.Subject != was.Subject // tokens are for an address, and of somebody
	if another || !was.On {
		next.Since = store.CutTime(c.cfg.Now())
	}
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if another {
			if _, err := c.endAll(ctx, tx, "the address for clients, or who gives them tokens, is another one"); err != nil {
				return err
			}
		}
		if err := tx.PutRemote(ctx, auth.PutRemote{Remote: next}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.RemoteOn, nil, "clients on other machines can ask for access at "+next.Resource(), next)
	})
	if err != nil {
		return api.Remote{}, err
	}
	c.remote.set(next)
	if another {
		c.remote.consents.Clear()
	}
	c.cfg.Remote.Open(next)
	out, err := c.remoteView(context.WithoutCancel(ctx))
	out.Operation = api.OperationOf(ctx)
	return out, err
}

// TurnRemoteOff ends the access of every client, and closes the listener. Everybody may: nothing is opened by it.
func (c *Control) TurnRemoteOff(ctx context.Context, _ api.None) (api.RemoteOff, error) {
	if err := c.allow(ctx, "remote.off"); err != nil {
		return api.RemoteOff{}, err
	}
	c.remote.change.Lock()
	defer c.remote.change.Unlock()
	next := c.remote.get()
	out := api.RemoteOff{State: "off", Operation: api.OperationOf(ctx)}
	if !next.On {
		out.State = "already_off"
	}
	next.On = false
	// Closed first: what cannot be written down is closed all the same.
	c.remote.set(next)
	c.remote.consents.Clear()
	c.cfg.Remote.Close()
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) (err error) {
		if out.Revoked, err = c.endAll(ctx, tx, "remote access was turned off"); err != nil {
			return err
		}
		if out.State == "already_off" {
			return nil
		}
		if err := tx.PutRemote(ctx, auth.PutRemote{Remote: next}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.RemoteOff, nil, fmt.Sprintf("no client on another machine has access any more; %d had", out.Revoked), nil)
	})
	if err != nil {
		f := fault.From(err)
		return api.RemoteOff{}, fault.New(f.Kind, f.Code).Saying("remote access is closed until the daemon starts again; that it shall stay so could not be written: %s", f.Message).
			Hinting("repeat `mcpx remote off` when `mcpx doctor` finds the database well").Because(err)
	}
	return out, nil
}

// endAll ends every delegation, and says how many counted until now.
func (c *Control) endAll(ctx context.Context, tx store.Tx, why string) (ended int, err error) {
	all, err := auth.AllDelegations(ctx, tx)
	for _, d := range all {
		counted, err := c.endAccess(ctx, tx, d, why)
		if err != nil {
			return 0, err
		}
		if counted {
			ended++
		}
	}
	return ended, err
}

// endAccess ends a delegation; false when it had ended before.
func (c *Control) endAccess(ctx context.Context, tx store.Tx, d auth.Delegation, why string) (bool, error) {
	d, ends := d.Revoke(why, c.cfg.Now())
	if !ends {
		return false, nil
	}
	if err := tx.PutDelegation(ctx, auth.PutDelegation{Delegation: d}); err != nil {
		return false, err
	}
	return true, c.tell(ctx, tx, event.RemoteAccessRevoked, event.Refs{event.RefToken: d.ID}, d.Client+" has no access any more: "+why, nil)
}

// RemoteRequests lists clients that ask for access.
func (c *Control) RemoteRequests(ctx context.Context, _ api.None) (api.RemoteRequestPage, error) {
	if err := c.allow(ctx, "remote.requests"); err != nil {
		return api.RemoteRequestPage{}, err
	}
	page := api.RemoteRequestPage{Requests: []api.RemoteRequest{}, Next: []string{}}
	for _, q := range c.remote.consents.Waiting(c.cfg.Now()) {
		page.Requests = append(page.Requests, requestView(q))
	}
	if len(page.Requests) == 1 {
		page.Next = []string{"mcpx remote approve " + page.Requests[0].ID}
	}
	return page, nil
}

func requestView(q auth.Consent) api.RemoteRequest {
	return api.RemoteRequest{ID: q.ID, Client: q.Client.Name, Redirect: q.Redirect, Scopes: q.Scopes, Asked: q.Asked, Until: q.Until, Approved: q.Approved, As: q.Principal}
}

// ApproveRemote gives the code that lets the browser of a client go on. Only a person gets it.
func (c *Control) ApproveRemote(ctx context.Context, in api.ApproveRemote) (api.RemoteDecision, error) {
	if err := c.allow(ctx, "remote.approve"); err != nil {
		return api.RemoteDecision{}, err
	}
	if _, err := c.cfg.Person(api.CallerOf(ctx).Pid); err != nil {
		return api.RemoteDecision{}, err
	}
	var narrow []auth.Scope
	if in.ReadOnly {
		narrow = []auth.Scope{auth.RuntimeRead}
	}
	as := cmp.Or(in.As, api.Owner.Name)
	if as != api.Owner.Name {
		if err := session.CheckPrincipal(as); err != nil {
			return api.RemoteDecision{}, err
		}
	}
	q, code, err := c.remote.consents.Approve(auth.Approval{Consent: in.Request, Principal: as, Narrow: narrow}, c.cfg.Now(), c.cfg.Random)
	if err != nil {
		return api.RemoteDecision{}, err
	}
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		return c.tell(ctx, tx, event.RemoteApproved, nil, "yes to the request "+q.ID+" of "+q.Client.Name, requestView(q))
	})
	if err != nil {
		return api.RemoteDecision{}, err
	}
	return api.RemoteDecision{State: "approved", Request: requestView(q), Code: code, Operation: api.OperationOf(ctx)}, nil
}

// DenyRemote says no to a client.
func (c *Control) DenyRemote(ctx context.Context, in api.RemoteRequestRef) (api.RemoteDecision, error) {
	if err := c.allow(ctx, "remote.deny"); err != nil {
		return api.RemoteDecision{}, err
	}
	q, err := c.remote.consents.Deny(in.Request, c.cfg.Now())
	if err != nil {
		return api.RemoteDecision{}, err
	}
	return api.RemoteDecision{State: "denied", Request: requestView(q), Operation: api.OperationOf(ctx)}, c.tellDenied(ctx, q)
}

// tellDenied records the no of a person.
func (c *Control) tellDenied(ctx context.Context, q auth.Consent) error {
	return c.cfg.DB.Change(context.WithoutCancel(ctx), func(tx store.Tx) error {
		return c.tell(ctx, tx, event.RemoteDenied, nil, "no to the request "+q.ID+" of "+q.Client.Name, requestView(q))
	})
}

// RemoteClients lists clients that have access.
func (c *Control) RemoteClients(ctx context.Context, in api.RemoteClientsQuery) (api.RemoteClientPage, error) {
	if err := c.allow(ctx, "remote.list"); err != nil {
		return api.RemoteClientPage{}, err
	}
	page := api.RemoteClientPage{Clients: []api.RemoteClient{}, Next: []string{}}
	all, err := c.delegations(ctx)
	for _, d := range all {
		if view := c.clientView(d); in.All || view.State == auth.Live {
			page.Clients = append(page.Clients, view)
		}
	}
	return page, err
}

func (c *Control) clientView(d auth.Delegation) api.RemoteClient {
	return api.RemoteClient{
		ID: d.ID, State: d.At(c.cfg.Now()), Client: d.Client, As: d.Principal, Redirect: d.Redirect, Issuer: d.Issuer, Scopes: d.Scopes,
		Made: d.Made, Refreshed: d.Refreshed, Expires: d.Expires, Revoked: d.Revoked, Why: d.Why,
	}
}

// RevokeRemote ends the access of a client at once.
func (c *Control) RevokeRemote(ctx context.Context, in api.RemoteClientRef) (api.RemoteClientChange, error) {
	if err := c.allow(ctx, "remote.revoke"); err != nil {
		return api.RemoteClientChange{}, err
	}
	out := api.RemoteClientChange{Operation: api.OperationOf(ctx)}
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		d, err := tx.DelegationByID(ctx, auth.DelegationByID{ID: in.Access})
		if err != nil {
			return err
		}
		out.State, out.Client = "already_"+string(d.At(c.cfg.Now())), c.clientView(d)
		ended, err := c.endAccess(ctx, tx, d, "a person ended it")
		if err != nil || !ended {
			return err
		}
		out.State = "revoked"
		d, err = tx.DelegationByID(ctx, auth.DelegationByID{ID: d.ID})
		out.Client = c.clientView(d)
		return err
	})
	return out, err
}
