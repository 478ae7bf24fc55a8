package daemon

import (
	"cmp"
	"context"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/clientfile"
	"mcpx/internal/converge"
)

// Moves lists the variables of this process that move files of agents, as NAME=PATH, so that a daemon that was started
// elsewhere looks in the same places.
func Moves(getenv func(string) string, home, project string) []string {
	var moved []string
	look := clientfile.System{Home: home, Project: project, Lookup: func(name string) (string, bool) {
		v := getenv(name)
		if pair := name + "=" + v; filepath.IsAbs(v) && !slices.Contains(moved, pair) {
			moved = append(moved, pair) // another value than a path may be a secret, and moves no file
		}
		return v, v != ""
	}}
	look.Locate()
	return moved
}

// observe reads the files of agents for control.
func (d *Daemon) observe(_ context.Context, look converge.Look) (converge.Observation, error) {
	system, err := clientfile.SystemOf(look, d.cfg.Getenv)
	if err != nil {
		return converge.Observation{}, err
	}
	var only clientfile.Agent
	if look.Agent != "" {
		if only, err = clientfile.ParseAgent(look.Agent); err != nil {
			return converge.Observation{}, err
		}
	}
	key, err := installKey(d.cfg.Paths)
	if err != nil {
		return converge.Observation{}, err
	}
	return observation(system, only, d.hub(look), key), nil
}

// observation is what the files of one system say. Only is one agent, "" all; the key is for digests of entries.
func observation(system clientfile.System, only clientfile.Agent, hub clientfile.Hub, key []byte) converge.Observation {
	type place struct {
		agent clientfile.Agent
		path  string
	}
	observed := system.Observe(hub)
	seen := map[place]clientfile.Observed{}
	for _, o := range observed {
		seen[place{o.Agent, o.File.Path}] = o
	}
	layers := layering(system, observed, hub)
	told := map[place]bool{} // two rules may lead to one file: the first one tells of it
	out := converge.Observation{Files: []converge.File{}, Entries: []converge.Entry{}}
	for _, l := range system.Locate() {
		at := place{l.Agent, l.File.Path}
		if only != "" && l.Agent != only || told[at] {
			continue
		}
		told[at] = true
		f := converge.File{
			Agent: string(l.Agent), Path: l.File.Path, Scope: string(l.File.Scope), Rule: l.Rule, Format: string(l.File.Format),
			Shared: l.File.Shared, State: converge.FileAbsent, Problems: []converge.Problem{}, Evidence: string(l.Agent.Evidence()),
		}
		o, exists := seen[at]
		if !exists {
			out.Files = append(out.Files, f)
			continue
		}
		f.State, f.Entries, f.Problems = stateOf(o), len(o.Entries), problems(o.Problems)
		f.Real, f.Size, f.SHA256, f.Identity, f.Mode = o.Stat.Real, o.Stat.Size, o.Stat.SHA256, o.Stat.Identity, uint32(o.Stat.Mode)
		out.Files = append(out.Files, f)
		writable := worldWritable(f.Path)
		for _, e := range o.Entries {
			c := entry(o, e)
			c.ID, c.Digest = clientfile.ObservationID(o.Agent, cmp.Or(f.Real, f.Path), e.At), e.Digest(key)
			layers.apply(&c, e, system.Project)
			c.Facts.FileWritable, c.Facts.FileBroken = writable, f.State == converge.FileBroken
			out.Entries = append(out.Entries, c)
		}
	}
	return out
}

// layers are the entries that count in the project.
type layers map[named]layer

// named are the entries of one agent that have one name.
type named struct{ agent, name string }

type layer struct {
	clientfile.Entry
	merged bool // made of several entries, and none of them
}

func layering(system clientfile.System, observed []clientfile.Observed, hub clientfile.Hub) layers {
	single := map[named][]clientfile.Entry{}
	for _, o := range observed {
		for _, e := range o.Entries {
			at := named{string(o.Agent), e.Name}
			single[at] = append(single[at], e)
		}
	}
	all := layers{}
	for _, e := range system.Effective(observed, hub) {
		at := named{string(e.Agent()), e.Name}
		all[at] = layer{Entry: e, merged: !slices.ContainsFunc(single[at], e.Is)}
	}
	return all
}

// apply says what the other files make of an entry: one hides it, changes it, or switches it off. An entry of another
// project is left as it is.
func (l layers) apply(c *converge.Entry, e clientfile.Entry, project string) {
	counting, ok := l[named{c.Agent, c.Name}]
	if !ok || e.Project() != "" && e.Project() != project {
		return
	}
	itself := counting.Is(e)
	c.Facts.Layered = counting.merged
	c.Facts.Shadowed = c.Enabled && !itself && !counting.merged // one that is off, or not allowed, is not hidden
	if (itself || counting.merged) && !counting.Enabled {
		c.Enabled = false
	}
	if c.Routed != nil && !c.Enabled {
		c.Routed.State = converge.RoutedDisabled
	}
}

func stateOf(o clientfile.Observed) converge.FileState {
	state := converge.FileReadable
	for _, p := range o.Problems {
		switch p.Code {
		case "config-broken":
			state = converge.FileBroken
		case "config-unreadable", "config-busy":
			return converge.FileUnreadable
		}
	}
	return state
}

func problems(all []clientfile.Problem) []converge.Problem {
	out := make([]converge.Problem, 0, len(all))
	for _, p := range all {
		out = append(out, converge.Problem(p))
	}
	return out
}

// entry takes over what an observation says. Identity and texts are made of the redacted command and URL.
func entry(o clientfile.Observed, e clientfile.Entry) converge.Entry {
	scope := e.Scope
	if scope == "" {
		scope = o.File.Scope
	}
	out := converge.Entry{
		Agent: string(o.Agent), Name: e.Name, File: o.File.Path, Scope: string(scope), Project: e.Project(), At: e.At, Enabled: e.Enabled,
		Transport: string(e.Transport), Command: string(e.Command), Args: slices.Clone(e.Args), URL: catalog.HideURL(string(e.URL)), Cwd: string(e.Cwd),
		Variables: e.Variables(), Headers: slices.Clone(e.HeaderNames), Auth: string(e.Auth), Parse: string(e.Parse), Extra: e.Extra, Problems: problems(e.Problems),
	}
	if e.Routed != nil {
		out.Routed = &converge.Routed{State: e.Routed.State, Server: e.Routed.Server, Form: string(e.Routed.Form)}
	}
	identify(&out)
	inURL := func(p clientfile.Problem) bool {
		parts := strings.Split(strings.ToLower(p.Field), ".")
		if n := len(parts); n > 1 && (strings.HasPrefix(parts[n-2], "env") || strings.HasSuffix(parts[n-2], "headers")) {
			return false // a variable such as DATABASE_URL is no address of the server
		}
		return p.Code == "raw-secret" && strings.HasSuffix(parts[len(parts)-1], "url")
	}
	out.Facts.URLCredentials = out.URL != "" && (slices.ContainsFunc(e.Problems, inURL) || hasUser(string(e.URL)))
	out.Facts.Hidden = out.URL != string(e.URL) || slices.ContainsFunc(e.Problems, func(p clientfile.Problem) bool { return p.Code == "raw-secret" && p.Field == "args" || inURL(p) })
	out.Facts.ProgramWritable = worldWritable(out.Command) || out.Package != nil && out.Package.Kind == catalog.PackagePath && worldWritable(out.Package.Name)
	return out
}

func identify(e *converge.Entry) {
	var p catalog.Package
	known := false
	switch {
	case e.URL != "":
		p, known = catalog.IdentifyURL(e.URL), true
	case e.Command != "":
		p, known = catalog.IdentifyCommand(e.Command, e.Args)
	}
	if known {
		e.Package = &p
	}
}

func hasUser(raw string) bool {
	u, err := url.Parse(raw)
	return err == nil && u.User != nil && !catalog.HasTemplate(u.User.String())
}

// worldWritable says whether everybody may write the file at an absolute path. One that cannot be looked at is not.
func worldWritable(path string) bool {
	if !filepath.IsAbs(path) {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && runtime.GOOS != "windows" && // where the mode says nothing about other users
		info.Mode().IsRegular() && info.Mode().Perm()&0o002 != 0
}
