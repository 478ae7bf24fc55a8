package clientfile

import (
	"context"
	"os"
	"path/filepath"
	"slices"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
)

// reading is what the drafts of one look share: each file is read and parsed when it is first asked for, and never again,
// so that all drafts are of the same bytes. It is for one goroutine, and ends with the look: nothing is kept for the next.
type reading struct {
	files     *Files
	system    System
	hub       Hub
	look      converge.Look
	thorough  bool  // results are read whole, not only where they differ
	invalid   error // the look itself
	surveyed  map[string]surveyed
	sheets    map[filed]*sheet
	locations map[Agent][]Location
	layered   map[filed]layers // of an agent in a project
	trusted   []string         // projects that Codex keeps a record of
	asked     bool             // for them
}

// filed is something of one agent that has a path: a file, or a project.
type filed struct {
	agent Agent
	path  string
}

// surveyed is a file that may be written.
type surveyed struct {
	real     string
	content  atomicfile.Content
	homeless bool // its directory does not exist either
	err      error
}

// Read begins a look at the files of agents; see converge.Target.
func (f *Files) Read(look converge.Look) converge.Drafter { return f.reading(look) }

func (f *Files) reading(look converge.Look) *reading {
	r := &reading{
		files: f, look: look, surveyed: map[string]surveyed{}, sheets: map[filed]*sheet{}, locations: map[Agent][]Location{}, layered: map[filed]layers{},
	}
	if r.system, r.invalid = SystemOf(look, f.cfg.Getenv); r.invalid == nil {
		r.hub = f.cfg.Hub(look)
		r.system.documents = map[filed]node{}
	}
	return r
}

// Draft says what the steps would do to a file as it was read. Nothing is written.
func (r *reading) Draft(ctx context.Context, d converge.Drafting) (converge.Change, error) {
	if err := ctx.Err(); err != nil {
		return converge.Change{}, err
	}
	s := r.survey(d.Path)
	if s.err != nil {
		return converge.Change{}, s.err
	}
	if s.homeless && !makesDirectory(d.Steps) {
		return converge.Change{}, fault.New(fault.Conflict, "config-absent").
			Saying("%s does not exist: the agent was not started for this user or project yet", filepath.Dir(d.Path)).
			Hinting("start the agent once").Retrying(fault.AfterFix)
	}
	dr, err := r.draft(d, s.content.Data, !s.content.Absent)
	if err != nil {
		return converge.Change{}, err
	}
	dr.change.Real, dr.change.Expected = s.real, expected(s.content)
	return dr.change, nil
}

func (r *reading) survey(path string) surveyed {
	s, known := r.surveyed[path]
	if !known {
		if s.real, s.content, s.err = r.files.survey(r.look, path); s.err == nil {
			_, err := os.Stat(filepath.Dir(s.real))
			s.homeless = err != nil
		}
		r.surveyed[path] = s
	}
	return s
}

// sheet is a file as one agent reads it.
type sheet struct {
	agent    Agent // "" it is no agent's
	dialect  dialect
	location Location
	data     []byte // nil when there is no file
	exists   bool

	opened  bool // doc, listed and err are known
	doc     document
	listed  listing
	byName  map[string][]int // the entries of listed
	err     error            // why nothing can be changed in it
	judged  bool             // refusal is known
	refusal *Problem
}

// sheet finds out what a file is to its agent.
func (r *reading) sheet(d converge.Drafting, data []byte, exists bool) (*sheet, error) {
	at := filed{Agent(d.Agent), d.Path}
	if s := r.sheets[at]; s != nil {
		return s, nil
	}
	s := &sheet{exists: exists}
	if exists {
		s.data = data
	}
	if d.Agent != "" {
		var err error
		if s.agent, err = ParseAgent(d.Agent); err != nil {
			return nil, err
		}
		s.dialect = dialectOf(s.agent)
		if s.location, err = r.locate(s.agent, d.Path); err != nil {
			return nil, err
		}
	}
	r.sheets[at] = s
	return s, nil
}

func (r *reading) locate(a Agent, path string) (Location, error) {
	all, known := r.locations[a]
	if !known {
		all = r.system.locate(a)
		r.locations[a] = all
	}
	i := slices.IndexFunc(all, func(l Location) bool { return l.File.Path == path && l.inline == nil && l.list == nil })
	if i < 0 {
		return Location{}, fault.New(fault.NotFound, "config-unknown").Saying("%s does not look for servers in %s", a.Title(), path).
			Hinting("run `mcpx config discover` to see where it looks")
	}
	return all[i], nil
}

// layersOf are the files of an agent in a project, "" outside of all.
func (r *reading) layersOf(a Agent, project string) (System, layers) {
	s := r.system
	s.Project = project
	at := filed{a, project}
	all, known := r.layered[at]
	if !known {
		all = s.layers(r.hub, a, nil)
		r.layered[at] = all
	}
	return s, all
}

// maxProjects bounds the projects that are looked into: people trust some dozens.
const maxProjects = 50

// projects are those that the agent itself keeps a record of. Only Codex has one and merges files.
func (r *reading) projects(a Agent) []string {
	if a != Codex {
		return nil
	}
	if !r.asked {
		s := r.system
		s.Project = s.Home // the record of trust is read for a project only
		all := slices.DeleteFunc(slices.Clone(s.trust().folders[Codex]), func(p string) bool { return p == r.system.Project })
		r.trusted, r.asked = all[:min(len(all), maxProjects)], true
	}
	return r.trusted
}
