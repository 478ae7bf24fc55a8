package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/catalog"
	"mcpx/internal/clientfile"
	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/secret"
)

// Offered is what a daemon offers beside its catalog, for its life only: servers of the agents' configuration, with
// values that may be secrets. Nothing of it is written.
type Offered struct {
	Servers []catalog.Server
	Notes   []string // why something that was found is not offered
	hide    func(*secret.Redactor)
}

// Observe reads the servers that the agents of this user would use in the directory project. It writes nothing. Taken
// are names that the offers must not have.
func Observe(getenv func(string) string, project string, taken []string, ids *id.Source) Offered {
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return Offered{Notes: []string{"HOME is not set: the configuration of agents was not looked for"}}
	}
	system := clientfile.System{Home: home, Project: project, Lookup: func(name string) (string, bool) {
		v := getenv(name)
		return v, v != ""
	}}
	var hub clientfile.Hub // what goes through some mcpx already is not offered, whatever its port
	if exe, err := os.Executable(); err == nil {
		hub.Program = exe
	}
	observed := system.Observe(hub)
	var out Offered
	for _, o := range observed {
		for _, p := range o.Problems {
			if p.Code == "config-broken" || p.Code == "config-unreadable" {
				out.Notes = append(out.Notes, fmt.Sprintf("%s: %s%s", o.File.Path, p.Text, place(p)))
			}
		}
	}
	offers, skipped := system.Offers(system.Effective(observed, hub), taken)
	for _, s := range skipped {
		out.Notes = append(out.Notes, fmt.Sprintf("%s of %s is not offered: %s", s.Name, s.Agent.Title(), strings.TrimPrefix(fault.From(s.Err).Error(), s.Name+": ")))
	}
	for _, o := range offers {
		s := o.Run.Reveal()
		s.ID, s.Name = ids.New(id.Server), o.Name
		agents := make([]string, 0, len(o.Agents))
		for _, a := range o.Agents {
			if !slices.Contains(agents, a.Title()) {
				agents = append(agents, a.Title())
			}
		}
		for _, alias := range o.Aliases {
			out.Notes = append(out.Notes, fmt.Sprintf("%s is the same server as %s: it has both names", alias, o.Name))
		}
		s.Notes = strings.Join(agents, ", ")
		out.Servers = append(out.Servers, s)
	}
	out.hide = func(to *secret.Redactor) { clientfile.Redact(offers, to) }
	return out
}

func place(p clientfile.Problem) string {
	if p.Line == 0 {
		return ""
	}
	return fmt.Sprintf(" (line %d, column %d)", p.Line, p.Column)
}
