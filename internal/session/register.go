package session

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/lazyregexp"
)

// maxProjectPath bounds a path in bytes, as the kernel does.
const maxProjectPath = 4096

var nameForm = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Ground is what a registration is judged against.
type Ground struct {
	Home    string    // of the user, without links; "" not known
	Runtime []string  // directories of mcpx itself, without links
	Others  []Project // every project, the unregistered ones too
	Overlap bool      // a person wants projects that lie in each other, or one directory twice
}

// RegisterRequest asks for a project.
type RegisterRequest struct {
	ID    string // of a new one
	Path  string // absolute
	Name  string // "" is made from the path
	By    Recognised
	Found Found
	Ground
	Now time.Time
}

// Registered says what a registration did.
type Registered string

// What a registration does.
const (
	ProjectAdded    Registered = "added"
	ProjectRestored Registered = "restored"      // the directory was registered before: its records are its own again
	ProjectThere    Registered = "already_added" // nothing has to be written
)

// Register makes a project of a directory. Invalid project-path-invalid, NotFound project-missing, Denied project-refused,
// Conflict project-exists, project-overlaps, project-unstable and project-elsewhere.
func Register(in RegisterRequest) (Project, Registered, error) {
	clean, err := ProjectPath(in.Path)
	if err != nil {
		return Project{}, "", err
	}
	p := Project{ID: in.ID, Path: clean, By: in.By, Physical: in.Found.Identity, State: ProjectOK, Added: in.Now}
	if err := in.suits(p, in.Found); err != nil {
		return Project{}, "", err
	}
	state := ProjectAdded
	for _, other := range in.Others {
		if other.Path != clean && other.Physical.Real != p.Physical.Real {
			continue
		}
		same, _ := other.Physical.Same(p.Physical)
		switch {
		case other.State == ProjectRemoved:
			if same {
				p.ID, p.Added, state = other.ID, other.Added, ProjectRestored
			}
		case other.Path != clean: // by another spelling: overlaps says so
		case !same && other.By == ByIdentity:
			return Project{}, "", fault.New(fault.Conflict, "project-elsewhere").Saying("the project %s was another directory at %s", other.Name, clean).
				Hinting("`mcpx project rebind %s` if it is the same project, `mcpx project remove %s` if not", other.Name, other.Name)
		case in.Name == "" || in.Name == other.Name:
			return other, ProjectThere, nil
		default:
			return Project{}, "", fault.New(fault.Conflict, "project-exists").Saying("%s is the project %s already", clean, other.Name).
				Hinting("to give it another name, remove it and add it again: its records stay")
		}
	}
	if err := in.overlaps(p); err != nil {
		return Project{}, "", err
	}
	if p.Name, err = in.name(in.Name, clean); err != nil {
		return Project{}, "", err
	}
	return p, state, nil
}

// RebindRequest says which directory a project is from now on.
type RebindRequest struct {
	Project Project
	Path    string     // absolute; "" is where it was
	By      Recognised // "" as before
	Found   Found      // at that path
	Ground
}

// Rebind gives a project another directory; false when it is that one already. The errors are those of Register.
func Rebind(in RebindRequest) (Project, bool, error) {
	p := in.Project
	if in.Path != "" {
		clean, err := ProjectPath(in.Path)
		if err != nil {
			return Project{}, false, err
		}
		p.Path = clean
	}
	if in.By != "" {
		p.By = in.By
	}
	p.Physical, p.State, p.Why = in.Found.Identity, ProjectOK, ""
	if err := in.suits(p, in.Found); err != nil {
		return Project{}, false, err
	}
	return p, p != in.Project, in.overlaps(p)
}

// Unregister takes a project off the list; its record and everything about it stay.
func Unregister(p Project, now time.Time) Project {
	p.State, p.Why, p.Removed = ProjectRemoved, "", now
	return p
}

// ProjectPath is a path as a project keeps it. Invalid project-path-invalid.
func ProjectPath(given string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fault.New(fault.Invalid, "project-path-invalid").Saying("%s cannot be the path of a project: %s", quoted(given), why).
			Hinting("give the absolute path of a directory")
	}
	switch {
	case !path.IsAbs(given):
		return bad("it is not absolute")
	case len(given) > maxProjectPath:
		return bad(fmt.Sprintf("it has %d bytes, at most %d are allowed", len(given), maxProjectPath))
	case !plainText(given):
		return bad("it has control characters or is no UTF-8")
	}
	return path.Clean(given), nil
}

// suits judges a directory alone: it is there, and it is not one in which nearly everything would be in reach.
func (g Ground) suits(p Project, found Found) error {
	if found.Gone != "" {
		return fault.New(fault.NotFound, "project-missing").Saying("%s: %s", p.Path, found.Gone).Hinting("a project is a directory that exists; correct the path")
	}
	refused := func(why string) error {
		return fault.New(fault.Denied, "project-refused").Saying("%s %s", p.Path, why).Hinting("register the directory of one piece of work")
	}
	where := p.Physical.Real
	switch {
	case where == "/":
		return refused("is the root of the file system: everything would be in reach")
	case g.Home != "" && inside(where, g.Home):
		return refused("is your home directory or holds it: your keys and settings would be in reach")
	case slices.ContainsFunc(g.Runtime, func(dir string) bool { return inside(dir, where) }):
		return refused("is a directory of mcpx itself")
	case p.By != ByIdentity && p.By != ByPath:
		return fault.New(fault.Invalid, "project-identity-invalid").Saying("identity is %s, want physical or path", quoted(string(p.By)))
	case p.Physical.Unstable != "" && p.By == ByIdentity:
		return fault.New(fault.Conflict, "project-unstable").Saying("%s is on %s, which may give a directory another number at any time", p.Path, p.Physical.Unstable).
			Hinting("add --identity path to recognise it by its path alone")
	}
	return nil
}

// overlaps refuses what lies in a project, holds one, or is one by another path, unless a person wants it.
func (g Ground) overlaps(p Project) error {
	if g.Overlap {
		return nil
	}
	for _, other := range g.Others {
		if other.ID == p.ID || other.State == ProjectRemoved {
			continue
		}
		same, _ := other.Physical.Same(p.Physical)
		how := ""
		switch {
		case same || other.Physical.Real == p.Physical.Real:
			how = "is"
		case inside(other.Physical.Real, p.Physical.Real):
			how = "lies in"
		case inside(p.Physical.Real, other.Physical.Real):
			how = "holds"
		}
		if how != "" {
			return fault.New(fault.Conflict, "project-overlaps").Saying("%s %s the project %s at %s", p.Path, how, other.Name, other.Path).
				Hinting("use that project, or add --overlap to have both")
		}
	}
	return nil
}

// inside says whether a path without links is a directory or lies in it.
func inside(dir, name string) bool {
	return dir != "" && (name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/"))
}

// name gives a project its name: the one that was asked for, or one that is made from the path.
func (g Ground) name(asked, from string) (string, error) {
	if asked != "" {
		if !nameForm().MatchString(asked) || strings.HasPrefix(asked, string(id.Project)+"_") {
			return "", fault.New(fault.Invalid, "project-name-invalid").Saying("%s is no name for a project", quoted(asked)).
				Hinting("use up to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit")
		}
		if g.taken(asked) {
			return "", ProjectExists(asked)
		}
		return asked, nil
	}
	base := strings.Map(func(r rune) rune {
		if r < 0x80 && nameForm().MatchString("a"+string(r)) {
			return r
		}
		return '-'
	}, path.Base(from))
	base = strings.Trim(base, "._-")
	if base == "" || strings.HasPrefix(base, string(id.Project)+"_") {
		base = "project"
	}
	base = cut(base, 56) // room for a number
	name := base
	for n := 2; g.taken(name); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name, nil
}

func (g Ground) taken(name string) bool {
	return slices.ContainsFunc(g.Others, func(p Project) bool { return p.State != ProjectRemoved && p.Name == name })
}
