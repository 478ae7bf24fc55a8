package control

import (
	"context"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/secret"
	"mcpx/internal/store"
)

// KeepMoved stores a value that leaves the file of an agent as the credential of that name. The same value again is no
// error; another one is: whether the old one is still needed nobody can tell.
func (c *Control) KeepMoved(ctx context.Context, name, value string) error {
	c.keeping.Lock()
	defer c.keeping.Unlock()
	in := api.SetCredential{Name: name, Value: api.SecretText(value)}
	if err := settable(in); err != nil {
		return err
	}
	known := false
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		one, err := r.CredentialByName(ctx, catalog.CredentialByName{Name: name})
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		known = err == nil
		if known && one.Ref != storeRef(name) {
			return otherValue(name)
		}
		return err
	})
	if err != nil {
		return err
	}
	if known {
		same, err := c.cfg.Secrets.Holds(ctx, name, secret.Hold(value))
		if err == nil && !same {
			err = otherValue(name)
		}
		return err
	}
	next, _, err := c.keepValue(ctx, in)
	if err == nil {
		_, err = c.look(ctx, next, false)
	}
	return err
}

func otherValue(name string) error {
	return fault.New(fault.Conflict, "credential-taken").Saying("the credential %s has another value than the file", name).
		Hinting("give it that value with `mcpx credential rotate %s`, or bind the variable to it as it is", name).Retrying(fault.AfterFix)
}

// moves says whether a plan takes values out of files.
func moves(p converge.Plan) bool {
	for _, change := range p.Changes {
		for _, step := range change.Steps {
			if slices.ContainsFunc(step.Moves, func(m converge.Move) bool { return m.Credential != "" }) {
				return true
			}
		}
	}
	return false
}

// bindMoved lets the server of a plan take the values that left its entry from the credentials that they have become. What
// somebody has bound in between stays.
func (c *Control) bindMoved(ctx context.Context, tx store.Tx, p converge.Plan) error {
	s, err := tx.ServerByName(ctx, catalog.ServerByName{Name: p.Server})
	if fault.KindOf(err) == fault.NotFound {
		return nil // the values are kept: whoever adds the server again can bind them
	}
	if err != nil {
		return err
	}
	old := s
	var bound []string
	edit := api.EditServer{Env: map[string]*catalog.Binding{}, Headers: map[string]*catalog.Binding{}}
	for _, change := range p.Changes {
		for _, step := range change.Steps {
			for _, m := range step.Moves {
				if m.Credential == "" || len(m.Field) < 2 {
					continue
				}
				name, into, has := m.Field[len(m.Field)-1], edit.Env, map[string]catalog.Binding(nil)
				if s.HTTP != nil {
					into, has = edit.Headers, s.HTTP.Headers
				} else if s.Stdio != nil {
					has = s.Stdio.Env
				}
				if b, ok := has[name]; ok && !b.Unresolved || slices.Contains(bound, m.Credential) {
					continue
				}
				into[name] = &catalog.Binding{Ref: catalog.CredentialRef(m.Credential)}
				bound = append(bound, m.Credential)
			}
		}
	}
	if len(bound) == 0 {
		return nil
	}
	if s, err = edited(s, edit); err != nil {
		return err
	}
	s.Updated = c.cfg.Now()
	s = typed(old, s, s.Updated)
	if err := tx.PutServer(ctx, catalog.PutServer{Server: s}); err != nil {
		return err
	}
	for _, name := range bound {
		refs := event.Refs{event.RefCredential: name, event.RefServer: s.ID, event.RefPlan: p.ID}
		if err := c.tell(ctx, tx, event.CredentialBound, refs, s.Name+" takes a value from the credential "+name, nil); err != nil {
			return err
		}
	}
	return c.tell(ctx, tx, event.CatalogChanged, event.Refs{event.RefServer: s.ID, event.RefPlan: p.ID}, "the entry of "+s.Name+" was changed", outline(old, s))
}

// end writes the end of an apply. One that has moved values changes the catalog, too.
func (c *Control) end(ctx context.Context, p *converge.Plan, receipt *converge.Receipt, end ending) error {
	write := func(ctx context.Context, tx store.Tx) error {
		if end.applied && moves(*p) {
			if err := c.bindMoved(ctx, tx, *p); err != nil {
				return err
			}
		}
		return c.close(ctx, tx, p, receipt, end)
	}
	if moves(*p) {
		return c.mutate(ctx, write)
	}
	return c.cfg.DB.Change(ctx, func(tx store.Tx) error { return write(ctx, tx) })
}
