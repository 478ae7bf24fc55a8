package workspace

import "slices"

// Scope is a part of a project that a workspace may change, as what it physically is: another spelling, a symbolic link, a
// bind mount and a project around or below this one lead to the same one.
type Scope struct {
	Path string `json:"path"` // below the project, as it is on the disk
	// Way are the directories on the way to it, from the top of the file system to the last one that exists, itself included.
	Way []Node `json:"way"`
	// Missing are the components that do not exist yet, or the one that is no directory.
	Missing []string `json:"missing,omitempty"`
}

// Node is a directory on the way to a scope.
type Node struct {
	ID   string `json:"id"`   // of its file system, with the number in it; the same after a restart of the machine
	Name string `json:"name"` // folded where names know no case, as those in Missing
}

// Covers says whether everything in other is in s.
func (s Scope) Covers(other Scope) bool {
	if len(s.Way) == 0 {
		return false
	}
	last := s.Way[len(s.Way)-1].ID
	at := slices.IndexFunc(other.Way, func(n Node) bool { return n.ID == last })
	if at < 0 {
		return false
	}
	// What did not exist when s was claimed may exist by now: its name says that it is the same.
	var rest []string
	for _, n := range other.Way[at+1:] {
		rest = append(rest, n.Name)
	}
	rest = append(rest, other.Missing...)
	return len(rest) >= len(s.Missing) && slices.Equal(rest[:len(s.Missing)], s.Missing)
}

// Overlaps says whether two scopes have something in common.
func Overlaps(a, b Scope) bool { return a.Covers(b) || b.Covers(a) }

// Inside says whether a path below the project is in one of the scopes, by their names.
func Inside(path string, scopes []Scope) bool {
	return slices.ContainsFunc(scopes, func(s Scope) bool { return Below(path, s.Path) })
}

// Below says whether a path is a directory or in it. "." is the whole.
func Below(path, dir string) bool {
	return dir == "." || path == dir || len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}
