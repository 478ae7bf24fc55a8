package control

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/secret"
	"mcpx/internal/store"
)

// Servers lists the catalog and the overlay.
func (c *Control) Servers(ctx context.Context, _ api.ServersQuery) (api.ServerPage, error) {
	if err := c.allow(ctx, "server.list"); err != nil {
		return api.ServerPage{}, err
	}
	all, err := c.views(ctx)
	return api.ServerPage{Servers: all}, err
}

// Server shows one entry.
func (c *Control) Server(ctx context.Context, in api.ServerRef) (api.Server, error) {
	if err := c.allow(ctx, "server.show"); err != nil {
		return api.Server{}, err
	}
	return c.view(ctx, in.Name)
}

// AddServer writes a new entry. Nothing is written when the name is taken, the entry is not valid or its command or
// URL cannot be reached.
func (c *Control) AddServer(ctx context.Context, in api.AddServer) (api.Server, error) {
	if err := c.allow(ctx, "server.add"); err != nil {
		return api.Server{}, err
	}
	now := c.cfg.Now()
	s := in.Server
	s.ID = c.cfg.IDs.New(id.Server)
	s.Review, s.Lifecycle, s.Source = catalog.ReviewApproved, catalog.Enabled, "operator"
	s.Created, s.Updated, s.Provenance = now, now, nil
	if s.Sharing == "" {
		s.Sharing = catalog.ShareSession
	}
	s = typed(catalog.Server{}, s, now)
	if err := valid(s); err != nil {
		return api.Server{}, err
	}
	if err := c.foreign(s); err != nil {
		return api.Server{}, err
	}
	if err := confirmed(s, "", in.Confirmed); err != nil {
		return api.Server{}, err
	}
	// Look for the name first: a wrong command under a taken name is a question about the name.
	if err := c.cfg.DB.View(ctx, func(r store.Reader) error { return free(ctx, r, s) }); err != nil {
		return api.Server{}, err
	}
	if !in.Unchecked {
		if err := c.cfg.Reach(ctx, s); err != nil {
			return api.Server{}, err
		}
	}
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := free(ctx, tx, s); err != nil {
			return err
		}
		if err := namesKnown(ctx, tx, s); err != nil {
			return err
		}
		if err := tx.PutServer(ctx, catalog.PutServer{Server: s}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.CatalogCreated, event.Refs{event.RefServer: s.ID}, "the server "+s.Name+" came into the catalog", outline(catalog.Server{}, s))
	})
	if err != nil {
		return api.Server{}, err
	}
	return c.after(ctx, s.Name)
}

// valid says what is wrong with an entry, its references included: one that can never be resolved is refused now, and
// not at the first call.
func valid(s catalog.Server) error {
	if err := catalog.Validate(s); err != nil {
		return err
	}
	var what string
	var bindings map[string]catalog.Binding
	if s.HTTP != nil {
		what, bindings = "header", s.HTTP.Headers
	} else {
		what, bindings = "variable", s.Stdio.Env
	}
	for _, name := range slices.Sorted(maps.Keys(bindings)) {
		refs, err := bindings[name].Refs()
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if _, err := secret.ParseRef(ref); err != nil {
				f := fault.From(err)
				return f.Saying("%s %s: %s", what, name, f.Message)
			}
		}
	}
	return nil
}

// after shows an entry as the answer to the operation that wrote it.
func (c *Control) after(ctx context.Context, name string) (api.Server, error) {
	s, err := c.view(ctx, name)
	s.Operation = api.OperationOf(ctx)
	return s, err
}

// free fails when a name or alias of s belongs to another entry, and shows that entry.
func free(ctx context.Context, r catalog.Reader, s catalog.Server) error {
	for _, name := range append([]string{s.Name}, s.Aliases...) {
		old, err := r.ServerByName(ctx, catalog.ServerByName{Name: name})
		switch {
		case fault.KindOf(err) == fault.NotFound, err == nil && old.ID == s.ID:
			continue
		case err != nil:
			return err
		}
		taken := catalog.Taken(name, old.Name)
		return taken.Saying("%s: %s", taken.Message, api.Server{Server: old}.Definition()).
			Hinting("change it with `mcpx server edit %s`, remove it with `mcpx server remove %s`, or choose another name", old.Name, old.Name)
	}
	return nil
}

// confirmed refuses a change to global sharing that nobody said yes to.
func confirmed(s catalog.Server, before catalog.Sharing, yes bool) error {
	if s.Sharing != catalog.ShareGlobal || before == catalog.ShareGlobal || yes {
		return nil
	}
	return fault.New(fault.NeedsApproval, "sharing-needs-yes").
		Saying("sharing global gives every agent and every session the same process of %s", s.Name).
		Hinting("a person must agree: repeat the command with --yes. Good for servers without state, wrong for browsers and per-project files")
}

// foreign refuses an entry that leads back to this daemon: a call to it would call itself without end.
func (c *Control) foreign(s catalog.Server) error {
	loop := fault.New(fault.Invalid, "server-is-mcpx").Saying("%s leads to mcpx itself", s.Name).
		Hinting("add the command or the URL that is behind it")
	if s.Stdio != nil {
		if _, ok := catalog.Identify(s); !ok {
			return loop // mcpx connect
		}
		return nil
	}
	u, err := url.Parse(s.HTTP.URL)
	if err != nil || !catalog.IsLoopback(u.Hostname()) {
		return nil
	}
	if _, port, err := net.SplitHostPort(c.cfg.Daemon.Listener); err == nil && u.Port() == port {
		return loop
	}
	return nil
}

// RemoveServer deletes an entry; its processes end.
func (c *Control) RemoveServer(ctx context.Context, in api.ServerRef) (api.Done, error) {
	if err := c.allow(ctx, "server.remove"); err != nil {
		return api.Done{}, err
	}
	var gone catalog.Server
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		s, err := c.find(ctx, tx, in.Name)
		if err != nil {
			return err
		}
		if err := c.inFile(s); err != nil {
			return err
		}
		gone = s
		if err := tx.DeleteServer(ctx, catalog.DeleteServer{ID: s.ID}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.CatalogRemoved, event.Refs{event.RefServer: s.ID}, "the server "+s.Name+" left the catalog", outline(s, s))
	})
	if err != nil {
		return api.Done{}, err
	}
	c.cfg.Logs.Forget(gone.Name)
	if gone.HTTP != nil {
		if _, err := c.endSignIn(context.WithoutCancel(ctx), gone); err != nil { // what stays is encrypted, and nothing leads there
			c.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "sign-in of a removed server not forgotten", slog.String(key.Server, gone.Name), slog.Any(key.Cause, err))
		}
	}
	return api.Done{Server: gone.Name, State: "removed", Operation: api.OperationOf(ctx)}, nil
}

// EnableServer routes an entry again.
func (c *Control) EnableServer(ctx context.Context, in api.ServerRef) (api.Done, error) {
	return c.turn(ctx, "server.enable", in.Name, catalog.Enabled)
}

// DisableServer stops routing an entry; its processes end.
func (c *Control) DisableServer(ctx context.Context, in api.ServerRef) (api.Done, error) {
	return c.turn(ctx, "server.disable", in.Name, catalog.Disabled)
}

func (c *Control) turn(ctx context.Context, op, name string, to catalog.Lifecycle) (api.Done, error) {
	if err := c.allow(ctx, op); err != nil {
		return api.Done{}, err
	}
	done := api.Done{State: string(to), Operation: api.OperationOf(ctx)}
	err := c.mutate(ctx, func(ctx context.Context, tx store.Tx) error {
		s, err := c.find(ctx, tx, name)
		if err != nil {
			return err
		}
		done.Server = s.Name
		if s.Lifecycle == to {
			done.State, done.Already = "already_"+string(to), true
			return nil
		}
		old := s
		s.Lifecycle, s.Updated = to, c.cfg.Now()
		if err := tx.PutServer(ctx, catalog.PutServer{Server: s}); err != nil {
			return err
		}
		return c.tell(ctx, tx, event.CatalogChanged, event.Refs{event.RefServer: s.ID}, s.Name+" is "+string(to), outline(old, s))
	})
	return done, err
}

// RestartServer ends the processes of an entry and forgets its failures.
func (c *Control) RestartServer(ctx context.Context, in api.ServerRef) (api.Done, error) {
	if err := c.allow(ctx, "server.restart"); err != nil {
		return api.Done{}, err
	}
	s, err := c.view(ctx, in.Name)
	if err != nil {
		return api.Done{}, err
	}
	if !s.Routable {
		return api.Done{}, notRouted(s)
	}
	c.cfg.SignIns.Retry(s.Server)
	if err := c.cfg.Gateway.Restart(s.Name); err != nil {
		return api.Done{}, err
	}
	return api.Done{Server: s.Name, State: "restarted", Operation: api.OperationOf(ctx)}, nil
}

func notRouted(s api.Server) error {
	f := fault.New(fault.Conflict, "server-not-routed").Saying("the server %s is not in use: %s", s.Name, strings.Join(words(s.Reasons), ", "))
	if s.Lifecycle == catalog.Disabled {
		return f.Hinting("enable it with `mcpx server enable %s`", s.Name)
	}
	if s.Review == catalog.ReviewPending {
		return f.Hinting("look at it with `mcpx server show %s`, then agree with `mcpx catalog review %s --approve`", s.Name, s.Name)
	}
	if names := s.Unresolved(); len(names) > 0 {
		return f.Hinting("say where it comes from: `mcpx catalog review %s --bind %s=env:%s`", s.Name, names[0], catalog.VariableFor(names[0]))
	}
	return f.Hinting("see `mcpx server show %s`", s.Name)
}

// reasons are the words for people of the reasons why an entry is not routed.
var reasons = map[string]string{
	catalog.SwitchedOff: "it is disabled", catalog.NotReviewed: "nobody has agreed to it yet",
	catalog.ReviewSaidNo: "it was rejected", catalog.ToolsChanged: "it is in quarantine",
	catalog.BackendIncomplete: "it has neither a command nor a URL", catalog.BackendUnsafe: "its URL is not safe",
	catalog.SharedWithNobody: "it is not shared: agents keep entries of their own", catalog.NameUnusable: "its name cannot be used",
	catalog.BindingUnresolved: "nobody has said where the value comes from of ",
}

func words(codes []string) []string {
	out := make([]string, 0, len(codes))
	for _, code := range codes {
		code, name, _ := strings.Cut(code, ":")
		out = append(out, reasons[code]+name)
	}
	return out
}

// find reads one entry of the catalog; an unknown name is an error with the nearest one.
func (c *Control) find(ctx context.Context, r catalog.Reader, name string) (catalog.Server, error) {
	s, err := r.ServerByName(ctx, catalog.ServerByName{Name: name})
	if fault.KindOf(err) != fault.NotFound {
		return s, err
	}
	if c.offered(name) {
		return s, fault.New(fault.Conflict, "server-overlay").Saying("the server %s is offered by `mcpx up` and lives only while that runs", name).
			Hinting("add it to the catalog with `mcpx server add`, then it can be changed")
	}
	all, listErr := catalog.All(ctx, r)
	if listErr != nil {
		return s, listErr
	}
	return s, c.unknown(name, all)
}

// offered says whether a name or an alias is one of the overlay.
func (c *Control) offered(name string) bool {
	for own, s := range c.overlay {
		if own == name || slices.Contains(s.Aliases, name) {
			return true
		}
	}
	return false
}

func (c *Control) unknown(name string, all []catalog.Server) error {
	names := slices.Collect(maps.Keys(c.overlay))
	for _, s := range all {
		names = append(names, s.Name)
		names = append(names, s.Aliases...)
	}
	slices.Sort(names)
	f := catalog.Unknown(name)
	if near := catalog.Nearest(name, names); near != "" {
		return f.Hinting("did you mean %s? `mcpx server list` shows all names", near)
	}
	if len(names) == 0 {
		return f.Hinting("there are no servers yet: add one with `mcpx server add NAME -- COMMAND`")
	}
	return f
}

// views describes every entry with its live state, sorted by name.
func (c *Control) views(ctx context.Context) ([]api.Server, error) {
	all, err := c.entries(ctx)
	if err != nil {
		return nil, err
	}
	return c.described(ctx, all), nil
}

func (c *Control) described(ctx context.Context, all []catalog.Server) []api.Server {
	live := map[string]gateway.ServerStatus{}
	for _, st := range c.cfg.Gateway.Status() {
		live[st.Name] = st
	}
	views := make([]api.Server, 0, len(all))
	for _, s := range all {
		views = append(views, c.describe(ctx, s, live))
	}
	slices.SortFunc(views, func(a, b api.Server) int { return strings.Compare(a.Name, b.Name) })
	return views
}

func (c *Control) view(ctx context.Context, name string) (api.Server, error) {
	all, err := c.views(ctx)
	if err != nil {
		return api.Server{}, err
	}
	entries := make([]catalog.Server, 0, len(all))
	for _, s := range all {
		if s.Name == name || slices.Contains(s.Aliases, name) {
			return s, nil
		}
		entries = append(entries, s.Server)
	}
	return api.Server{}, c.unknown(name, entries)
}

func (c *Control) describe(ctx context.Context, s catalog.Server, live map[string]gateway.ServerStatus) api.Server {
	overlay, ok := c.overlay[s.Name]
	v := api.Server{
		Server: s, Overlay: ok && overlay.ID == s.ID,
		Route:  c.routeOf(s.Name),
		Status: live[s.Name],
		SignIn: c.signInView(ctx, s),
	}
	if v.Overlay {
		v.Server = masked(s)
	}
	v.Reasons = catalog.NotRoutable(s)
	v.Routable = len(v.Reasons) == 0
	if v.Status.Name == "" { // not known to the gateway yet
		v.Status = gateway.ServerStatus{Name: s.Name, Sharing: string(s.Sharing), Direct: s.Direct, State: gateway.Idle}
	}
	if !v.Overlay { // what is offered for one run cannot be changed
		v.Advice = advice(s, v.Status)
	}
	return v
}

// routeOf is the URL of a server for agents.
func (c *Control) routeOf(name string) string {
	return fmt.Sprintf("%s/servers/%s/mcp", c.cfg.Daemon.Base, url.PathEscape(name))
}

// masked hides the values of an observed entry: they may be secrets, and nobody declared them to be none.
func masked(s catalog.Server) catalog.Server {
	hide := func(in map[string]catalog.Binding) map[string]catalog.Binding {
		out := make(map[string]catalog.Binding, len(in))
		for name := range in {
			out[name] = catalog.Binding{Ref: "observed"}
		}
		return out
	}
	if s.Stdio != nil {
		stdio := *s.Stdio
		stdio.Env, stdio.Args = hide(stdio.Env), catalog.RedactArgs(stdio.Args)
		s.Stdio = &stdio
	}
	if s.HTTP != nil {
		http := *s.HTTP
		http.Headers, http.URL = hide(http.Headers), catalog.RedactURL(http.URL)
		s.HTTP = &http
	}
	return s
}
