package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/secret"
	"mcpx/internal/session"
	"mcpx/internal/store"
)

// Secrets is where values are kept and found. No error holds a value.
type Secrets interface {
	// Check says why a reference would give no value now, or nil. It asks nobody, unless the reference runs a program.
	Check(ctx context.Context, ref string) error
	// Quiet says whether a reference can be resolved without running a program.
	Quiet(ctx context.Context, ref string) (bool, error)
	// Keep stores a value under the name of a credential; false when it was there already.
	Keep(ctx context.Context, name string, value secret.Handle) (bool, error)
	// Holds says whether a value is the stored one.
	Holds(ctx context.Context, name string, value secret.Handle) (bool, error)
	// Forget removes a stored value.
	Forget(ctx context.Context, name string) error
	// KeyPlace says where the key of the store is.
	KeyPlace() (secret.KeyPlace, error)
	// RingUsable says why the keyring cannot be used now, or nil.
	RingUsable(ctx context.Context) error
}

// storeRef is the reference of a stored value.
func storeRef(name string) string { return secret.Ref{Kind: secret.Store, Name: name}.String() }

// Credentials lists the credentials with the readiness that was last found.
func (c *Control) Credentials(ctx context.Context, _ api.CredentialQuery) (api.CredentialPage, error) {
	if err := c.allow(ctx, "credential.list"); err != nil {
		return api.CredentialPage{}, err
	}
	all, err := c.credentials(ctx)
	return api.CredentialPage{Credentials: all, Store: c.storeOf()}, err
}

func (c *Control) storeOf() api.CredentialStore {
	place, err := c.cfg.Secrets.KeyPlace()
	if err != nil {
		return api.CredentialStore{Text: fault.From(err).Message}
	}
	return api.CredentialStore{Key: string(place)}
}

// Credential shows one credential.
func (c *Control) Credential(ctx context.Context, in api.CredentialRef) (api.Credential, error) {
	if err := c.allow(ctx, "credential.show"); err != nil {
		return api.Credential{}, err
	}
	return c.credential(ctx, in.Name)
}

func (c *Control) credential(ctx context.Context, name string) (api.Credential, error) {
	all, err := c.credentials(ctx)
	if err != nil {
		return api.Credential{}, err
	}
	names := make([]string, 0, len(all))
	for _, one := range all {
		if one.Name == name {
			return one, nil
		}
		names = append(names, one.Name)
	}
	return api.Credential{}, noCredential(name, names)
}

func noCredential(name string, names []string) error {
	f := catalog.CredentialUnknown(name)
	if near := catalog.Nearest(name, names); near != "" {
		return f.Hinting("did you mean %s? `mcpx credential list` shows all names", near)
	}
	return f
}

// credentials are all records with the servers that take them.
func (c *Control) credentials(ctx context.Context) ([]api.Credential, error) {
	out := []api.Credential{}
	running := map[string]bool{}
	for _, st := range c.cfg.Gateway.Status() {
		running[st.Name] = len(st.Lanes) > 0 || failing(st) // somebody has asked for it
	}
	err := c.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err := catalog.AllCredentials(ctx, r)
		if err != nil {
			return err
		}
		servers, err := catalog.All(ctx, r)
		if err != nil {
			return err
		}
		files, err := r.FileRecords(ctx, converge.ListFileRecords{})
		if err != nil {
			return err
		}
		mounted := map[string]bool{}
		for _, f := range files {
			for _, e := range f.Entries {
				if e.Routed != nil && e.Enabled {
					mounted[e.Routed.Server] = true
				}
			}
		}
		projects, err := session.AllProjects(ctx, r, true)
		if err != nil {
			return err
		}
		for _, one := range all {
			view := api.Credential{Credential: one, Servers: []string{}, Projects: []string{}}
			for _, p := range projects {
				if slices.Contains(one.Commands.Projects, p.ID) {
					view.Projects = append(view.Projects, p.Name)
				}
			}
			for _, s := range servers {
				if s.Uses(one) {
					view.Servers = append(view.Servers, s.Name)
					used := slices.ContainsFunc(append([]string{s.Name}, s.Aliases...), func(name string) bool { return mounted[name] })
					view.Active = view.Active || running[s.Name] || used
				}
			}
			slices.Sort(view.Servers)
			slices.Sort(view.Projects)
			out = append(out, view)
		}
		return nil
	})
	return out, err
}

// SetCredential gives a credential a reference or a value.
func (c *Control) SetCredential(ctx context.Context, in api.SetCredential) (api.Credential, error) {
	if err := c.allow(ctx, "credential.set"); err != nil {
		return api.Credential{}, err
	}
	if err := settable(in); err != nil {
		return api.Credential{}, err
	}
	c.keeping.Lock()
	defer c.keeping.Unlock()
	next, rotated, err := c.keepValue(ctx, in)
	if err != nil {
		return api.Credential{}, err
	}
	if _, err := c.look(ctx, next, false); err != nil {
		return api.Credential{}, err
	}
	view, err := c.credential(ctx, in.Name)
	view.Rotated, view.Operation = rotated, api.OperationOf(ctx)
	if rotated && len(view.Servers) > 0 {
		view.Hint = "what runs keeps the value that it started with: `mcpx server restart " + view.Servers[0] + "`"
	}
	return view, err
}

// settable says what is wrong with a request, without repeating the value.
func settable(in api.SetCredential) error {
	if err := catalog.ValidCredentialName(in.Name); err != nil {
		return err
	}
	switch in.Mode {
	case "", api.SetAny, api.SetNew, api.SetExisting:
	default:
		return fault.New(fault.Invalid, "request-invalid").Saying("mode is %q, want any, new or existing", string(in.Mode))
	}
	if (in.Ref == "") == (in.Value == "") {
		return fault.New(fault.Invalid, "credential-empty").Saying("a credential has a reference or a value: one of the two").
			Hinting("give a value on stdin, or a reference such as env:NAME")
	}
	if in.Ref == "" {
		return nil
	}
	ref, err := secret.ParseRef(in.Ref)
	if err == nil && ref.Kind == secret.Named {
		err = fault.New(fault.Invalid, "reference-invalid").Saying("a credential cannot refer to another one").
			Hinting("give it the reference of the other one").Retrying(fault.AfterFix)
	}
	return err
}

// keepValue writes the value, then the record and its event. A value whose record could not be written is no harm: nobody
// takes it, and it is written again when the command is repeated. The caller holds c.keeping.
func (c *Control) keepValue(ctx context.Context, in api.SetCredential) (next catalog.Credential, rotated bool, err error) {
	var names []string
	var old *catalog.Credential
	err = c.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err := catalog.AllCredentials(ctx, r)
		for _, one := range all {
			names = append(names, one.Name)
			if one.Name == in.Name {
				old = &one
			}
		}
		return err
	})
	switch {
	case err != nil:
		return next, false, err
	case old != nil && in.Mode == api.SetNew:
		return next, false, fault.New(fault.Conflict, "credential-taken").Saying("there is a credential %s already: %s", in.Name, old.Ref).
			Hinting("give it another value with `mcpx credential rotate %s`, or choose another name", in.Name).Retrying(fault.AfterFix)
	case old == nil && in.Mode == api.SetExisting:
		return next, false, noCredential(in.Name, names)
	}
	now := c.cfg.Now()
	next = catalog.Credential{Name: in.Name, Ref: in.Ref, Readiness: catalog.ReadinessUnchecked, Created: now}
	changed := false
	if in.Ref == "" {
		next.Ref = storeRef(in.Name)
		if changed, err = c.cfg.Secrets.Keep(ctx, in.Name, secret.Hold(string(in.Value))); err != nil {
			return next, false, err
		}
	}
	if old != nil {
		next.Account, next.Created, next.Commands = old.Account, old.Created, old.Commands
		rotated = changed || next.Ref != old.Ref
		if !rotated {
			next = *old
		}
	}
	set(&next.Account, in.Account)
	set(&next.Expires, in.Expires)
	next.Updated = now
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if err := tx.PutCredential(ctx, catalog.PutCredential{Credential: next}); err != nil {
			return err
		}
		kind, what := event.CredentialAdded, "was added"
		switch {
		case rotated:
			kind, what = event.CredentialRotated, "has another value"
		case old != nil:
			return nil
		}
		return c.tell(ctx, tx, kind, event.Refs{event.RefCredential: next.Name}, "the credential "+next.Name+" "+what, map[string]string{"ref": refKind(next.Ref)})
	})
	if err == nil && old != nil && old.Ref == storeRef(in.Name) && next.Ref != old.Ref {
		err = c.cfg.Secrets.Forget(ctx, in.Name) // the reference has taken the place of a stored value
	}
	return next, rotated, err
}

// refKind is what an event says of a reference: its kind, since paths and commands of a person are nobody's business.
func refKind(ref string) string {
	kind, _, _ := strings.Cut(ref, ":")
	return kind
}

// CheckCredentials looks whether credentials would give a value, and drops it.
func (c *Control) CheckCredentials(ctx context.Context, in api.CheckCredentials) (api.CredentialPage, error) {
	if err := c.allow(ctx, "credential.check"); err != nil {
		return api.CredentialPage{}, err
	}
	all, err := c.credentials(ctx)
	if err != nil {
		return api.CredentialPage{}, err
	}
	if in.Name != "" {
		one, err := c.credential(ctx, in.Name)
		if err != nil {
			return api.CredentialPage{}, err
		}
		all = []api.Credential{one}
	}
	c.keeping.Lock()
	defer c.keeping.Unlock()
	why := map[string]*fault.Error{}
	for _, one := range all {
		if why[one.Name], err = c.look(ctx, one.Credential, in.Name != ""); err != nil {
			return api.CredentialPage{}, err
		}
	}
	if all, err = c.credentials(ctx); err != nil {
		return api.CredentialPage{}, err
	}
	page := api.CredentialPage{Credentials: []api.Credential{}, Store: c.storeOf()}
	for _, one := range all {
		f, looked := why[one.Name]
		if !looked {
			continue
		}
		if f != nil {
			one.Text, one.Hint = f.Message, f.Hint
		}
		one.Operation = api.OperationOf(ctx)
		page.Credentials = append(page.Credentials, one)
	}
	return page, nil
}

// look checks one credential and writes what it found. Without asked nothing is run. The caller holds c.keeping.
func (c *Control) look(ctx context.Context, one catalog.Credential, asked bool) (*fault.Error, error) {
	ref := catalog.CredentialRef(one.Name)
	if !asked {
		if quiet, err := c.cfg.Secrets.Quiet(ctx, ref); err == nil && !quiet {
			return fault.New(fault.Invalid, "credential-unchecked").Saying("it runs a program, which may ask somebody").
				Hinting("`mcpx credential check %s` runs it", one.Name), nil
		}
	}
	why := c.cfg.Secrets.Check(ctx, ref)
	if cause := context.Cause(ctx); cause != nil {
		return nil, fault.New(fault.Canceled, "canceled").Saying("canceled before all credentials were looked at").Because(cause)
	}
	found := secret.ReadinessOf(why)
	err := c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		now, err := tx.CredentialByName(ctx, catalog.CredentialByName{Name: one.Name})
		if fault.KindOf(err) == fault.NotFound || err == nil && now.Ref != one.Ref {
			return nil // it is another one by now
		}
		if err != nil {
			return err
		}
		was := now.Readiness
		now.Readiness, now.CheckedAt = found, c.cfg.Now()
		if err := tx.PutCredential(ctx, catalog.PutCredential{Credential: now}); err != nil || was == found {
			return err
		}
		return c.tell(ctx, tx, event.CredentialChecked, event.Refs{event.RefCredential: now.Name}, fmt.Sprintf("the credential %s is %s", now.Name, found),
			map[string]catalog.Readiness{"was": was, "is": found})
	})
	return fault.From(why), err
}

// RemoveCredential removes a credential that nothing takes.
func (c *Control) RemoveCredential(ctx context.Context, in api.CredentialRef) (api.CredentialRemoved, error) {
	if err := c.allow(ctx, "credential.remove"); err != nil {
		return api.CredentialRemoved{}, err
	}
	// Bindings change under c.change alone: none can come between the look and the end.
	c.change.Lock()
	defer c.change.Unlock()
	c.keeping.Lock()
	defer c.keeping.Unlock()
	one, err := c.credential(ctx, in.Name)
	if err != nil {
		return api.CredentialRemoved{}, err
	}
	if len(one.Servers) > 0 {
		return api.CredentialRemoved{}, fault.New(fault.Conflict, "credential-bound").
			Saying("the credential %s is taken by %s", in.Name, strings.Join(one.Servers, ", ")).
			Hinting("bind them to another one with `mcpx credential bind %s VAR=NAME`, or take the variable away with `mcpx server edit %s --unset-env VAR`", one.Servers[0], one.Servers[0]).
			Retrying(fault.AfterFix)
	}
	// The value goes first: killed in between, a name without a value is left and no value without a name.
	if one.Ref == storeRef(in.Name) {
		if err := c.cfg.Secrets.Forget(ctx, in.Name); err != nil {
			return api.CredentialRemoved{}, err
		}
	}
	err = c.cfg.DB.Change(ctx, func(tx store.Tx) error {
		if err := tx.DeleteCredential(ctx, catalog.DeleteCredential{Name: in.Name}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.CredentialRemoved, event.Refs{event.RefCredential: in.Name}, "the credential "+in.Name+" was removed", nil)
	})
	return api.CredentialRemoved{Name: in.Name, Operation: api.OperationOf(ctx)}, err
}

// CredentialVitals are the facts about credentials that health is told from: why the keyring cannot be used, if anything
// needs it, and how ready each credential is that a server takes. With fresh it looks now, which may take as long as the
// keyring does; else it is what the last check found. No program is run, and nothing is written.
func (c *Control) CredentialVitals(ctx context.Context, fresh bool) (keyring string, facts []converge.CredentialFact, err error) {
	all, err := c.credentials(ctx)
	if err != nil {
		return "", nil, err
	}
	place, _ := c.cfg.Secrets.KeyPlace() // a key that cannot be read makes its credentials unavailable
	needed := place == secret.KeyInKeyring
	for _, one := range all {
		if refKind(one.Ref) == string(secret.Keyring) {
			needed = true
			if !fresh && (one.Readiness == catalog.ReadinessLocked || one.Readiness == catalog.ReadinessUnavailable) {
				keyring = fmt.Sprintf("the last check of %s found it %s", one.Name, one.Readiness)
			}
		}
		if len(one.Servers) == 0 {
			continue // nobody waits for it
		}
		ready := one.Readiness
		if ref := catalog.CredentialRef(one.Name); fresh {
			if quiet, err := c.cfg.Secrets.Quiet(ctx, ref); err == nil && quiet {
				ready = secret.ReadinessOf(c.cfg.Secrets.Check(ctx, ref))
			}
		}
		fact := converge.CredentialFact{Name: one.Name, Ready: string(ready), Servers: one.Servers, Active: one.Active, Since: one.CheckedAt}
		if ready != one.Readiness {
			fact.Since = c.cfg.Now()
		}
		facts = append(facts, fact)
	}
	if needed && fresh {
		if err := c.cfg.Secrets.RingUsable(ctx); err != nil {
			keyring = fault.From(err).Message
		}
	}
	return keyring, facts, nil
}
