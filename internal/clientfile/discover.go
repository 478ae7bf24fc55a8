package clientfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"mcpx/internal/catalog"
)

// System is where the files are looked for.
type System struct {
	Home    string                           // absolute
	Project string                           // absolute directory whose project files count; "" none
	Lookup  func(name string) (string, bool) // variables that move files, and that references name
	Root    string                           // before the paths of system files; "" in the product
	OS      string                           // as runtime.GOOS; "" is ours

	documents map[filed]node // records that were read already, while several projects are observed; nil nothing is kept
}

func (s System) os() string {
	if s.OS == "" {
		return runtime.GOOS
	}
	return s.OS
}

// variable is a variable of the environment that is set and not empty.
func (s System) variable(name string) string {
	if s.Lookup == nil {
		return ""
	}
	v, _ := s.Lookup(name)
	return v
}

// Locate lists the places where the agents look, the weaker ones first for each agent.
func (s System) Locate() []Location { return s.locate("") }

// locate lists those of one agent, "" all.
func (s System) locate(only Agent) []Location {
	var all []Location
	shared := map[string]bool{} // by directory: many files may lie in one
	for _, row := range agents {
		if only != "" && row.agent != only {
			continue
		}
		seen := map[string]bool{} // the user's file is not the project's too when the home is the project
		for _, l := range row.files(s) {
			if seen[l.File.Path] {
				continue
			}
			seen[l.File.Path] = true
			l.File.Format = dialectOf(l.Agent).format
			dir := filepath.Dir(l.File.Path)
			if _, known := shared[dir]; !known {
				shared[dir] = gitRoot(dir) != ""
			}
			l.File.Shared = shared[dir]
			if l.File.Scope == ScopeProject || l.File.Scope == ScopeLocal && l.inline == nil {
				l.File.Project = s.Project
			}
			all = append(all, l)
		}
	}
	return all
}

// Observe reads every place once. A place without a file is left out; what cannot be read is an observation with a
// problem.
func (s System) Observe(hub Hub) []Observed {
	all := s.read(hub, nil)
	applyOff(all)
	return all
}

// read is Observe without what one file says about the entries of another. Shared holds what was read already of files that
// do not depend on the project.
func (s System) read(hub Hub, shared map[filed]Observed) []Observed {
	var all []Observed
	for _, one := range s.layers(hub, "", shared).all {
		if one.there {
			all = append(all, one.observed)
		}
	}
	return all
}

// layers are the places of some agents and what stands there, before one file switches off what another one says.
type layers struct {
	trust trust
	all   []layer
}

// layer is one place.
type layer struct {
	Location
	there    bool
	observed Observed
}

// layers reads the files of one agent, "" all; see read.
func (s System) layers(hub Hub, only Agent, shared map[filed]Observed) layers {
	ls := layers{trust: s.trust()}
	for _, l := range s.locate(only) {
		l.gate = ls.trust.gate(l)
		one := layer{Location: l}
		if shared != nil && l.File.Project == "" {
			one.observed, one.there = shared[filed{l.Agent, l.File.Path}]
			one.observed.Entries = slices.Clone(one.observed.Entries) // to be switched off in one project and not in another
			ls.all = append(ls.all, one)
			continue
		}
		data, p := l.inline, (*Problem)(nil)
		if data == nil {
			data, p = load(l.File.Path)
		}
		switch {
		case p == nil:
			one.there, one.observed = true, Read(l, data, hub)
			if l.inline == nil {
				one.observed.Stat = statOf(l.File.Path, data)
			}
			ls.trust.settle(l, &one.observed)
		case p.Code != "config-absent":
			one.there = true
			one.observed = Observed{
				Schema: Schema, Agent: l.Agent, Evidence: dialectOf(l.Agent).evidence, File: l.File,
				Entries: []Entry{}, Problems: []Problem{*p},
			}
		}
		ls.all = append(ls.all, one)
	}
	return ls
}

// with are the entries that are wanted, when the file at a path holds what own reads of it; nil: there is no such file.
func (ls layers) with(path string, own func(Location) Observed, wanted func(name string) bool) []Observed {
	var all []Observed
	for _, l := range ls.all {
		o := l.observed
		switch {
		case l.File.Path != path && l.there:
			o.Entries = nil
			for i := range l.observed.Entries {
				if e := &l.observed.Entries[i]; wanted(e.Name) {
					o.Entries = append(o.Entries, *e)
				}
			}
		case l.File.Path == path && own != nil:
			o = own(l.Location)
			ls.trust.settle(l.Location, &o)
		default:
			continue
		}
		all = append(all, o)
	}
	return all
}

// settle adds to a file that was read what is not in it.
func (t trust) settle(l Location, o *Observed) {
	for i := range o.Entries {
		o.Entries[i].dir = filepath.Dir(l.File.Path)
	}
	t.approve(o)
}

// applyOff switches entries off that another file of the same agent names.
func applyOff(all []Observed) {
	rules := map[Agent][]rule{}
	for _, o := range all {
		rules[o.Agent] = append(rules[o.Agent], o.off...)
	}
	for _, o := range all {
		for i := range o.Entries {
			if e := &o.Entries[i]; switchedOff(rules[o.Agent], e.Name, e.project) {
				e.switchOff()
			}
		}
	}
}

// maxReads bounds the tries on a file that changes while it is read.
const maxReads = 5

// load reads a file whole, in one state: size and time are the same before and after.
func load(path string) ([]byte, *Problem) {
	unreadable := func(err error) *Problem {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
			return &Problem{Code: "config-absent"}
		}
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err // the path is in the observation already
		}
		return &Problem{Code: "config-unreadable", Text: err.Error()}
	}
	for range maxReads {
		before, err := os.Stat(path)
		if err != nil {
			return nil, unreadable(err)
		}
		if !before.Mode().IsRegular() {
			return nil, &Problem{Code: "config-unreadable", Text: "it is no regular file"}
		}
		if before.Size() > catalog.MaxDocument {
			return nil, &Problem{Code: "config-unreadable", Text: "it is too large"}
		}
		f, err := os.Open(path)
		if err != nil {
			return nil, unreadable(err)
		}
		data, err := io.ReadAll(io.LimitReader(f, catalog.MaxDocument+1))
		after, statErr := f.Stat()
		if err := errors.Join(err, statErr, f.Close()); err != nil {
			return nil, unreadable(err)
		}
		if os.SameFile(before, after) && before.Size() == after.Size() && before.ModTime().Equal(after.ModTime()) && int64(len(data)) == after.Size() {
			return data, nil
		}
	}
	return nil, &Problem{Code: "config-busy", Text: "it changes all the time"}
}
