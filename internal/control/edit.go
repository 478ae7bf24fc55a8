package control

import (
	"context"
	"maps"
	"slices"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/store"
)

// EditServer changes fields of an entry. Nothing is written when the result is not valid or cannot be reached.
func (c *Control) EditServer(ctx context.Context, in api.EditServer) (api.Server, error) {
	if err := c.allow(ctx, "server.edit"); err != nil {
		return api.Server{}, err
	}
	var (
		old, changed catalog.Server
		effect       *api.EditEffect
	)
	edit := func(r catalog.Reader) error {
		var err error
		if old, err = c.find(ctx, r, in.Name); err != nil {
			return err
		}
		if err := c.inFile(old); err != nil {
			return err
		}
		if changed, err = edited(old, in); err != nil {
			return err
		}
		changed.Updated = c.cfg.Now()
		if err := valid(changed); err != nil {
			return err
		}
		if err := c.foreign(changed); err != nil {
			return err
		}
		if err := confirmed(changed, old.Sharing, in.Confirmed); err != nil {
			return err
		}
		return free(ctx, r, changed)
	}
	if err := c.cfg.DB.View(ctx, func(r store.Reader) error { return edit(r) }); err != nil {
		return api.Server{}, err
	}
	if moved := in.Command != nil || in.URL != nil || in.Cwd != nil; moved && !in.Unchecked {
		if err := c.cfg.Reach(ctx, changed); err != nil {
			return api.Server{}, err
		}
	}
	// The edit is made again on what is stored now: another edit may have come in between.
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		err := edit(tx)
		if err != nil {
			return err
		}
		effect, err = c.putEdited(ctx, tx, old, changed)
		return err
	})
	if err != nil {
		return api.Server{}, err
	}
	if old.Name != changed.Name {
		c.cfg.Logs.Forget(old.Name)
	}
	s, err := c.after(ctx, changed.Name)
	s.Effect = effect
	return s, err
}

// putEdited stores the entry that an edit by a person made of old, and tells of it.
func (c *Control) putEdited(ctx context.Context, tx store.Tx, old, changed catalog.Server) (*api.EditEffect, error) {
	if err := namesKnown(ctx, tx, changed); err != nil {
		return nil, err
	}
	effect := c.effect(old, changed)
	changed = typed(old, changed, changed.Updated)
	if err := tx.PutServer(ctx, catalog.PutServer{Server: changed}); err != nil {
		return nil, err
	}
	return effect, c.tell(ctx, tx, event.CatalogChanged, event.Refs{event.RefServer: changed.ID}, "the entry of "+changed.Name+" was changed", outline(old, changed))
}

// effect says what becomes of what runs now when old becomes changed.
func (c *Control) effect(old, changed catalog.Server) *api.EditEffect {
	if old.Process() == changed.Process() {
		return &api.EditEffect{Applied: api.AppliedLive}
	}
	e := &api.EditEffect{Applied: api.AppliedNextStart}
	for _, st := range c.cfg.Gateway.Status() {
		if st.Name == old.Name {
			e.Sessions, e.Calls = st.Sessions, st.InFlight
			for _, l := range st.Lanes {
				if l.State != gateway.Wedged { // nothing of ours runs there
					e.Processes++
				}
			}
		}
	}
	if e.Processes+e.Sessions+e.Calls > 0 {
		e.Applied = api.AppliedRestart
	}
	return e
}

// edited is the entry with the changes of in.
func edited(s catalog.Server, in api.EditServer) (catalog.Server, error) {
	set(&s.Name, in.Rename)
	if err := aliased(&s, in); err != nil {
		return s, err
	}
	set(&s.Title, in.Title)
	set(&s.Notes, in.Notes)
	set(&s.Protocol, in.Protocol)
	set(&s.Sharing, in.Sharing)
	set(&s.Direct, in.Direct)
	set(&s.OnChange, in.OnChange)
	set(&s.Limits.Idle, in.Idle)
	set(&s.Limits.Call, in.Call)
	switch forStdio, forHTTP := in.Command != nil || in.Cwd != nil || in.CwdPolicy != nil || len(in.Env)+len(in.EnvPass) > 0, in.URL != nil || in.Transport != nil || len(in.Headers) > 0; {
	case forStdio && forHTTP:
		return s, fault.New(fault.Invalid, "edit-mixed").Saying("a server has a command or a URL, not both").
			Hinting("give --url, --header and --transport, or a command, --env and --cwd")
	case forStdio && s.Stdio == nil && in.Command == nil:
		return s, fault.New(fault.Invalid, "edit-wrong-kind").Saying("%s is a URL: it has no environment and no directory", s.Name).
			Hinting("use --header, or give a command after -- to turn it into a program")
	case forHTTP && s.HTTP == nil && in.URL == nil:
		return s, fault.New(fault.Invalid, "edit-wrong-kind").Saying("%s is a program: it has no headers and no transport", s.Name).
			Hinting("use --env, or give --url to turn it into a URL")
	case forStdio:
		if err := bound(s.Name, "variable", in.Env, variablesOf(s.Stdio)); err != nil {
			return s, err
		}
		s.Stdio, s.HTTP = editedStdio(s.Stdio, in), nil
	case forHTTP:
		if err := bound(s.Name, "header", in.Headers, headersOf(s.HTTP)); err != nil {
			return s, err
		}
		s.HTTP, s.Stdio = editedHTTP(s.HTTP, in), nil
	}
	return s, nil
}

// aliased changes the other names of a copy.
func aliased(s *catalog.Server, in api.EditServer) error {
	names := slices.Clone(s.Aliases)
	for _, name := range in.Unalias {
		i := slices.Index(names, name)
		if i < 0 {
			f := fault.New(fault.NotFound, "alias-unknown").Saying("%s has no alias %s", s.Name, name)
			if near := catalog.Nearest(name, names); near != "" {
				return f.Hinting("did you mean %s?", near)
			}
			return f.Hinting("`mcpx server show %s` shows what it has", s.Name)
		}
		names = slices.Delete(names, i, i+1)
	}
	for _, name := range in.Alias {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	s.Aliases = names
	return nil
}

// bound fails when a change takes away what the entry does not have: the name is misspelled.
func bound(server, what string, changes map[string]*catalog.Binding, names []string) error {
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		if changes[name] != nil || slices.Contains(names, name) {
			continue
		}
		f := fault.New(fault.NotFound, "binding-unknown").Saying("%s has no %s %s", server, what, name)
		if near := catalog.Nearest(name, names); near != "" {
			return f.Hinting("did you mean %s?", near)
		}
		return f.Hinting("`mcpx server show %s` shows what it has", server)
	}
	return nil
}

func variablesOf(b *catalog.Stdio) []string {
	if b == nil {
		return nil
	}
	return append(slices.Sorted(maps.Keys(b.Env)), b.EnvPass...)
}

func headersOf(b *catalog.HTTP) []string {
	if b == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(b.Headers))
}

// editedStdio changes a copy: the old entry is still in use.
func editedStdio(old *catalog.Stdio, in api.EditServer) *catalog.Stdio {
	next := catalog.Stdio{}
	if old != nil {
		next = *old
	}
	if len(in.Command) > 0 {
		next.Command, next.Args = in.Command[0], in.Command[1:]
	}
	switch {
	case in.CwdPolicy != nil:
		next.CwdPolicy = *in.CwdPolicy
		if next.CwdPolicy != catalog.CwdFixed && in.Cwd == nil {
			next.Cwd = ""
		}
	case in.Cwd != nil:
		next.CwdPolicy = "" // the directory says it
	}
	set(&next.Cwd, in.Cwd)
	next.Env = rebound(next.Env, in.Env)
	next.EnvPass = slices.DeleteFunc(slices.Clone(next.EnvPass), func(name string) bool {
		b, changed := in.Env[name]
		return changed && b == nil
	})
	for _, name := range in.EnvPass {
		if !slices.Contains(next.EnvPass, name) {
			next.EnvPass = append(next.EnvPass, name)
		}
	}
	return &next
}

func editedHTTP(old *catalog.HTTP, in api.EditServer) *catalog.HTTP {
	next := catalog.HTTP{}
	if old != nil {
		next = *old
	}
	set(&next.URL, in.URL)
	set(&next.Transport, in.Transport)
	next.Headers = rebound(next.Headers, in.Headers)
	return &next
}

func rebound(old map[string]catalog.Binding, changes map[string]*catalog.Binding) map[string]catalog.Binding {
	next := maps.Clone(old)
	if next == nil && len(changes) > 0 {
		next = map[string]catalog.Binding{}
	}
	for name, b := range changes {
		if b == nil {
			delete(next, name)
		} else {
			next[name] = *b
		}
	}
	return next
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}
