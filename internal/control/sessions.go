package control

import (
	"context"
	"fmt"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// RemoteSessions lists remote sessions of everybody.
func (c *Control) RemoteSessions(ctx context.Context, in api.RemoteSessionsQuery) (api.RemoteSessionPage, error) {
	if err := c.allow(ctx, "session.list"); err != nil {
		return api.RemoteSessionPage{}, err
	}
	list := session.SessionsRequest{Query: in.Query, Limit: in.Limit}
	switch list.Narrow(in.State, in.Cursor) {
	case "state":
		return api.RemoteSessionPage{}, fault.New(fault.Invalid, "request-invalid").Saying("state is %q, want open, closed or all", in.State)
	case "cursor":
		return api.RemoteSessionPage{}, fault.New(fault.Invalid, "request-invalid").Saying("cursor %q is none of a page before", in.Cursor)
	}
	page := api.RemoteSessionPage{Sessions: []api.RemoteSession{}, Next: []string{}}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		found, err := session.Sessions(ctx, r, list)
		if err != nil {
			return err
		}
		for _, a := range found.Sessions {
			page.Sessions = append(page.Sessions, api.RemoteSession{Session: a.Session, Name: a.Project.Name})
		}
		page.Cursor = found.Cursor()
		return nil
	})
	return page, err
}

// RemoteSession gives one remote session.
func (c *Control) RemoteSession(ctx context.Context, in api.RemoteSessionRef) (api.RemoteSession, error) {
	if err := c.allow(ctx, "session.show"); err != nil {
		return api.RemoteSession{}, err
	}
	var out api.RemoteSession
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		s, err := r.RemoteSessionByID(ctx, session.ByID{ID: in.Session})
		if err != nil {
			return err
		}
		out, err = sessionView(ctx, r, s)
		return err
	})
	return out, err
}

func sessionView(ctx context.Context, r store.Reader, s session.Session) (api.RemoteSession, error) {
	p, err := r.ProjectByID(ctx, session.ByID{ID: s.Project})
	if err != nil {
		return api.RemoteSession{}, err
	}
	out := api.RemoteSession{Session: s, Name: p.Name}
	if out.Grants, err = session.AllGrants(ctx, r, session.ListGrants{About: s.ID}); err != nil {
		return out, err
	}
	out.Plans, err = session.AllWorkPlans(ctx, r, session.ListWorkPlans{Session: s.ID})
	return out, err
}

func sessionRefs(s session.Session) event.Refs {
	return event.Refs{event.RefSession: s.ID, event.RefProject: s.Project}
}

// GrantSession gives a principal a role in a remote session, or takes it away.
func (c *Control) GrantSession(ctx context.Context, in api.GrantSession) (api.Granted, error) {
	if err := c.allow(ctx, "session.grant"); err != nil {
		return api.Granted{}, err
	}
	return c.grant(ctx, granting{
		make: session.GrantSession, granted: event.SessionGranted, revoked: event.SessionRevoked, principal: in.Principal, role: in.Role, revoke: in.Revoke,
		about: func(tx store.Tx) (string, event.Refs, string, error) {
			s, err := tx.RemoteSessionByID(ctx, session.ByID{ID: in.Session})
			if err == nil && !in.Revoke { // a role is taken away in a closed one, too
				err = refusedHere(session.Check(session.CheckRequest{Session: s, Role: session.Owner, Act: session.ActShare}))
			}
			return s.ID, sessionRefs(s), "in the session " + s.ID, err
		},
	})
}

// HandOver makes a token that lets somebody into a remote session once. Whoever asks must sit at a terminal, as for a
// grant.
func (c *Control) HandOver(ctx context.Context, in api.HandOver) (api.HandedOver, error) {
	if err := c.allow(ctx, "session.handoff"); err != nil {
		return api.HandedOver{}, err
	}
	if _, err := c.cfg.Person(api.CallerOf(ctx).Pid); err != nil {
		return api.HandedOver{}, err
	}
	var h session.Handoff
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		s, err := tx.RemoteSessionByID(ctx, session.ByID{ID: in.Session})
		if err != nil {
			return err
		}
		if err := session.Check(session.CheckRequest{Session: s, Role: session.Owner, Act: session.ActShare}); err != nil {
			return refusedHere(err)
		}
		h, err = session.MakeHandoff(session.HandoffRequest{
			ID: c.cfg.IDs.New(id.Handoff), Session: s.ID, Role: in.Role, TTL: time.Duration(in.Seconds) * time.Second,
			By: actorOf(ctx).Principal, Operation: api.OperationOf(ctx), Now: c.cfg.Now(),
		})
		if err != nil {
			return refusedHere(err)
		}
		if err := tx.PutHandoff(ctx, session.PutHandoff{Handoff: h}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.SessionHandoff, sessionRefs(s), fmt.Sprintf("a hand-over of %s as %s was made", s.ID, h.Role), h)
	})
	if err != nil {
		return api.HandedOver{}, err
	}
	return api.HandedOver{
		ID: h.ID, Session: h.Session, Token: h.Token(c.cfg.HandoffKey, c.cfg.Now()), Role: h.Role, Expires: h.Expires, Operation: api.OperationOf(ctx),
	}, nil
}

// CloseSession closes a remote session.
func (c *Control) CloseSession(ctx context.Context, in api.RemoteSessionRef) (api.RemoteSessionChange, error) {
	if err := c.allow(ctx, "session.close"); err != nil {
		return api.RemoteSessionChange{}, err
	}
	out := api.RemoteSessionChange{State: "closed", Operation: api.OperationOf(ctx)}
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		s, err := tx.RemoteSessionByID(ctx, session.ByID{ID: in.Session})
		if err != nil {
			return err
		}
		closed, changed, err := session.CloseSession(session.CloseRequest{Session: s, Now: c.cfg.Now()})
		if err != nil {
			return refusedHere(err)
		}
		out.Text = closed.ID + " is closed; what is stored of it stays readable"
		if changed {
			if err := tx.PutRemoteSession(ctx, session.PutSession{Session: closed}); err != nil {
				return err
			}
			if err := c.cfg.Holds.Withdraw(ctx, tx, actorOf(ctx), closed.ID); err != nil {
				return err
			}
			err = c.tell(ctx, tx, event.SessionClosed, sessionRefs(closed), out.Text, nil)
		} else {
			out.State, out.Already = "already_closed", true
		}
		if err != nil {
			return err
		}
		out.Session, err = sessionView(ctx, tx, closed)
		return err
	})
	if err != nil {
		return api.RemoteSessionChange{}, err
	}
	return out, nil
}
