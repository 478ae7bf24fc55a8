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
	if look.Projects == nil {
		return observation(system, only, d.hub(look), key), nil
	}
	o := newObserving(system, only, d.hub(look), key)
	projects, seen := system.ObserveProjects(o.hub, func(listed []string) []string {
		var chosen []string
		chosen, o.out.Left = choose(look.Projects, listed)
		return chosen
	})
	for i, p := range append([]string{""}, projects...) {
		o.system.Project = p
		o.project(seen[i])
	}
	o.out.Projects = projects
	return o.out, nil
}

// observation is what the files of one system say. Only is one agent, "" all; the key is for digests of entries.
func observation(system clientfile.System, only clientfile.Agent, hub clientfile.Hub, key []byte) converge.Observation {
	o := newObserving(system, only, hub, key)
	o.project(system.Observe(hub))
	return o.out
}

// maxProjects bounds the projects whose files are looked at: people work on some dozens, and an agent's list of those in
// which it was ever started may be much longer.
const maxProjects = 64

// choose picks the projects that are looked at: those that were asked for, then those that agents list, directories that
// are there first. They are sorted, so that a file that counts in several belongs to the same one whoever asks.
func choose(asked, listed []string) (chosen []string, left int) {
	is := func(path string) bool {
		info, err := os.Stat(path)
		return err == nil && info.IsDir()
	}
	var gone []string
	for i, p := range slices.Concat(asked, listed) {
		switch {
		case slices.Contains(chosen, p) || slices.Contains(gone, p):
		case i >= len(asked) && !is(p):
			gone = append(gone, p)
		case len(chosen) == maxProjects:
			left++
		default:
			chosen = append(chosen, p)
		}
	}
	chosen = append(chosen, gone[:min(len(gone), maxProjects-len(chosen))]...) // they may come back
	slices.Sort(chosen)
	return chosen, left
}

// spot is one file of one agent.
type spot struct {
	agent clientfile.Agent
	path  string
}

// observing makes an observation of what is seen in one project after the other.
type observing struct {
	system clientfile.System
	only   clientfile.Agent
	hub    clientfile.Hub
	key    []byte

	told map[spot]bool      // several rules and projects may lead to one file: the first one tells of it
	raw  []clientfile.Entry // of out.Entries
	out  converge.Observation
}

func newObserving(system clientfile.System, only clientfile.Agent, hub clientfile.Hub, key []byte) *observing {
	return &observing{
		system: system, only: only, hub: hub, key: key, told: map[spot]bool{},
		out: converge.Observation{Files: []converge.File{}, Entries: []converge.Entry{}},
	}
}

// project tells of the files of the system's project that were not told yet, and of what they change for the entries that
// were.
func (o *observing) project(observed []clientfile.Observed) {
	seen := map[spot]clientfile.Observed{}
	for _, one := range observed {
		seen[spot{one.Agent, one.File.Path}] = one
	}
	layers := layering(o.system, observed, o.hub)
	for i := range o.out.Entries {
		layers.elsewhere(&o.out.Entries[i], o.raw[i], o.system.Project)
	}
	for _, l := range o.system.Locate() {
		at := spot{l.Agent, l.File.Path}
		if o.only != "" && l.Agent != o.only || o.told[at] {
			continue
		}
		o.told[at] = true
		f := converge.File{
			Agent: string(l.Agent), Path: l.File.Path, Scope: string(l.File.Scope), Rule: l.Rule, Format: string(l.File.Format),
			Shared: l.File.Shared, State: converge.FileAbsent, Problems: []converge.Problem{}, Evidence: string(l.Agent.Evidence()),
			Project: l.File.Project,
		}
		if one, exists := seen[at]; exists {
			o.file(&f, one, layers)
		}
		o.out.Files = append(o.out.Files, f)
	}
}

// file tells of a file that is there.
func (o *observing) file(f *converge.File, one clientfile.Observed, layers layers) {
	f.State, f.Entries, f.Problems = stateOf(one), len(one.Entries), problems(one.Problems)
	f.Real, f.Size, f.SHA256, f.Identity, f.Mode = one.Stat.Real, one.Stat.Size, one.Stat.SHA256, one.Stat.Identity, uint32(one.Stat.Mode)
	writable := worldWritable(f.Path)
	for _, e := range one.Entries {
		c := entry(one, e)
		c.ID, c.Digest = clientfile.ObservationID(one.Agent, cmp.Or(f.Real, f.Path), e.At), e.Digest(o.key)
		layers.apply(&c, e, o.system.Project)
		c.Facts.FileWritable, c.Facts.FileBroken = writable, f.State == converge.FileBroken
		o.out.Entries, o.raw = append(o.out.Entries, c), append(o.raw, e)
	}
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

// elsewhere notes on an entry that was seen already what a project makes of it: everything, when it counts in that project
// alone, else what makes it another one there.
func (l layers) elsewhere(c *converge.Entry, e clientfile.Entry, project string) {
	switch counting, ok := l[named{c.Agent, c.Name}]; {
	case e.Project() == project:
		l.apply(c, e, project)
	case ok && e.Project() == "":
		c.Facts.Layered = c.Facts.Layered || counting.merged
		c.Facts.Shadowed = c.Facts.Shadowed || c.Enabled && !counting.Is(e) && !counting.merged
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
	case e.Routed != nil && e.Routed.Form == string(clientfile.FormBridge): // mcpx itself, whatever it is called
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
