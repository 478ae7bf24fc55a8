package session

import (
	"strings"
	"time"

	"mcpx/internal/operation"
)

// ProjectState says whether the path of a project still leads to the directory that was registered.
type ProjectState string

// The states.
const (
	ProjectOK      ProjectState = "ok"
	ProjectMoved   ProjectState = "moved"   // another directory, or none, is there: reads and replays work, changes do not
	ProjectRemoved ProjectState = "removed" // unregistered; the record is kept for what refers to it
)

// Recognised says by what a project is recognised.
type Recognised string

// The ways.
const (
	ByIdentity Recognised = "physical" // file system, inode and time of birth
	ByPath     Recognised = "path"     // its path alone, for file systems whose inodes are not stable: an operator decides it
)

// Project is a registered directory.
type Project struct {
	ID       string       `json:"project_id"` // proj_
	Name     string       `json:"name"`
	Path     string       `json:"path"` // as given, absolute; links in it are kept
	By       Recognised   `json:"identity"`
	Physical Identity     `json:"physical"`
	State    ProjectState `json:"state"`
	Why      string       `json:"why,omitempty"` // moved: what is different
	Added    time.Time    `json:"added_at"`
	Removed  time.Time    `json:"removed_at,omitzero"`
}

// Identity is what a directory is, apart from how its path is spelled (durable-work.md section 8). What the system does
// not tell is zero.
type Identity struct {
	Real   string `json:"real"`             // its path without links
	Volume string `json:"volume,omitempty"` // of the file system, the same after a restart of the machine
	Inode  uint64 `json:"inode"`
	Born   int64  `json:"born_ns,omitempty"` // nanoseconds since 1970
	// Unstable is the kind of a file system whose inodes may name another file later, such as nfs; "" they do not.
	Unstable string `json:"unstable,omitempty"`
}

// Same says whether two identities, perhaps of different starts of the machine, are of one directory. Why names what is
// different.
func (i Identity) Same(now Identity) (same bool, why string) {
	switch {
	case i.Volume != "" && now.Volume != "" && i.Volume != now.Volume:
		return false, "it is on another file system"
	case i.Inode != now.Inode:
		return false, "another directory is there"
	case i.Born != 0 && now.Born != 0 && i.Born != now.Born:
		return false, "another directory, made at another time, is there"
	}
	return true, ""
}

// Found is what is at a path now. Whoever cannot tell gives an error instead.
type Found struct {
	Identity Identity
	Gone     string // why there is no directory that could be a project; "" there is one
}

// Look compares a project with what is at its path now; false when nothing has changed. It is not for what could not be
// read: no verdict comes from an error.
func Look(p Project, now Found) (Project, bool) {
	if p.State == ProjectRemoved {
		return p, false
	}
	was := p
	p.State, p.Why = ProjectOK, ""
	if now.Gone != "" {
		p.State, p.Why = ProjectMoved, now.Gone
	} else if p.By == ByIdentity {
		if same, why := p.Physical.Same(now.Identity); !same {
			p.State, p.Why = ProjectMoved, why
		}
	}
	return p, p.State != was.State || p.Why != was.Why
}

// Usable says whether something may be changed in the project. PROJECT_UNKNOWN: unregistered; PROJECT_MOVED;
// FS_UNSUPPORTED: its inodes are not stable, and nobody said that the path shall count.
func (p Project) Usable() error {
	switch p.State {
	case ProjectRemoved:
		return UnknownProject(p.Name)
	case ProjectMoved:
		return operation.Refuse(operation.ProjectMoved, "the project %s is not at %s any more: %s; a person runs `mcpx project rebind %s`", p.Name, p.Path, p.Why, p.Name).
			With("project", p.Name).With("path", p.Path).With("why", p.Why)
	case ProjectOK:
		if p.By == ByIdentity && p.Physical.Unstable != "" {
			return operation.Refuse(FSUnsupported, "the project %s is on %s, whose inodes may change; a person can run `mcpx project rebind %s --identity path`", p.Name, p.Physical.Unstable, p.Name).
				With("project", p.Name).With("file_system", p.Physical.Unstable)
		}
		return nil
	}
	panic("session: unknown state of project " + p.ID)
}

// UnknownProject is the refusal of a project that is not registered, or one that the principal has no role on.
func UnknownProject(name string) *operation.Refusal {
	return operation.Refuse(operation.ProjectUnknown, "there is no project %s", quoted(name)).With("project", cut(name, maxShown))
}

// FindProject finds a registered project by its name, its id, or its path as given or without links. False: none.
func FindProject(all []Project, name string) (Project, bool) {
	return findProject(all, name, func(p Project) Project { return p })
}

func findProject[T any](all []T, name string, of func(T) Project) (T, bool) {
	clean := strings.TrimRight(name, "/")
	for _, v := range all {
		p := of(v)
		if p.State != ProjectRemoved && (p.Name == name || p.ID == name || clean != "" && (p.Path == clean || p.Physical.Real == clean)) {
			return v, true
		}
	}
	var none T
	return none, false
}
