package tree

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/workspace"
)

// Scope says what a path below the root physically is, whether it exists or not. The errors are those of Resolve; Outside,
// with the reason runtime_area, for what holds a directory of the runtime or is in a repository's own.
func (r *Root) Scope(path string) (workspace.Scope, error) {
	p, err := r.resolvePhysical(path)
	if err != nil {
		return workspace.Scope{}, err
	}
	defer p.Close()
	if slices.Contains(components(p.Path), ".git") {
		return workspace.Scope{}, refuse(Outside, "%s is in a repository's own directory", path).With("reason", "git")
	}
	way, err := r.above()
	if err != nil {
		return workspace.Scope{}, err
	}
	names := components(p.Path)
	if p.Path == "." {
		names = nil
	}
	exist := names[:len(names)-len(p.Missing)]
	dir, err := r.enterAll(nil)
	if err != nil {
		return workspace.Scope{}, reading(err, path)
	}
	defer func() { _ = dir.Close() }() // it was only entered
	folds := r.volume.folds(dir)
	for _, name := range exist {
		facts, err := look(dir, name)
		if err != nil {
			return workspace.Scope{}, reading(err, path)
		}
		if facts.Kind != Directory { // whoever saves a file may put another one in its place: it is what its directory calls so
			return workspace.Scope{Path: p.Path, Way: way, Missing: []string{folded(name, folds)}}, nil
		}
		way = append(way, workspace.Node{ID: nodeID(r.volume.id, facts.ID.Ino), Name: folded(name, folds)})
		next, err := enter(dir, name)
		if err != nil {
			return workspace.Scope{}, reading(err, path)
		}
		_ = dir.Close() // it was only entered
		dir, folds = next, r.volume.folds(next)
	}
	s := workspace.Scope{Path: p.Path, Way: way}
	for _, name := range p.Missing {
		s.Missing = append(s.Missing, folded(name, folds))
	}
	return s, nil
}

// resolvePhysical says where a path leads, links in its last component included, and whatever it is.
func (r *Root) resolvePhysical(path string) (*Place, error) {
	p, err := r.Resolve(path, List)
	if code := CodeOf(err); code == NotADirectory || code == NotFound {
		return r.Resolve(path, Write)
	}
	return p, err
}

// above is what is on the way to the root, the root included.
func (r *Root) above() ([]workspace.Node, error) {
	names := components(filepath.ToSlash(r.path))
	way := make([]workspace.Node, 0, len(names)+1)
	for i := range len(names) + 1 {
		at := "/" + strings.Join(names[:i], "/")
		dir, err := openRoot(at)
		if err != nil {
			return nil, reading(err, at)
		}
		facts, err := factsOf(dir)
		if err == nil {
			var v volume
			if v, err = volumeOf(dir, at); err == nil {
				way = append(way, workspace.Node{ID: nodeID(v.id, facts.ID.Ino), Name: filepath.Base(at)})
			}
		}
		if _ = dir.Close(); err != nil { // it was only looked at
			return nil, reading(err, at)
		}
	}
	return way, nil
}

func nodeID(volume string, ino uint64) string { return fmt.Sprintf("%s:%d", volume, ino) }

func folded(name string, folds bool) string {
	if folds {
		return strings.ToLower(name)
	}
	return name
}

// Holds says whether a directory of the runtime lies at a path or below it.
func (r *Root) Holds(path string, dirs []string) bool {
	top := filepath.Join(r.path, path)
	return slices.ContainsFunc(dirs, func(dir string) bool {
		physical, err := filepath.EvalSymlinks(dir)
		return err == nil && (physical == top || strings.HasPrefix(physical, strings.TrimSuffix(top, "/")+"/"))
	})
}
