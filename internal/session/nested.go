package session

import (
	"path"
	"path/filepath"
	"strings"
)

// Related says whether files of one project are files of another one: it lies in it or around it, or is the same directory
// under another name.
func Related(p, q Project) bool {
	return p.same(q) || below(p.real(), q.real()) || below(q.real(), p.real())
}

// Shares says whether a path below a project is a part of another one, or has a part of it.
func Shares(p Project, at string, q Project) bool {
	if p.same(q) {
		return true
	}
	full := path.Join(p.real(), at)
	return below(full, q.real()) || below(q.real(), full)
}

// real is the path of the project without links.
func (p Project) real() string {
	if p.Physical.Real != "" {
		return filepath.ToSlash(p.Physical.Real)
	}
	return filepath.ToSlash(p.Path)
}

func (p Project) same(q Project) bool {
	if p.Physical.Inode == 0 || q.Physical.Inode == 0 {
		return p.real() == q.real()
	}
	same, _ := p.Physical.Same(q.Physical)
	return same
}

// below says whether a path is a directory or in it.
func below(at, dir string) bool {
	return at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")
}
