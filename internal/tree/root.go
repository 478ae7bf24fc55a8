package tree

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Bounds of paths, durable-work.md section 3.
const (
	maxPath = 4096 // bytes of a path, as of the kernel
	maxName = 255  // bytes of a component
	maxHops = 40   // symbolic links of one path, as of the kernel
)

// areaName is the directory of the runtime at the root of a project whose mount has no other place for it.
const areaName = ".mcpx"

// Options of a root.
type Options struct {
	// Areas are absolute paths of directories of the runtime (state directory, areas): nothing in them is reached from a
	// root above them, and no walk goes there. Those that do not exist are left out.
	Areas []string
	// Unwalked are names at the top of the root that walks leave out, and that are reached by path.
	Unwalked []string
	// ByPath says that the operator lets files be changed on a file system whose file numbers are not stable.
	ByPath bool
}

// Identity is what a root is, so that another process, after a restart, knows whether the path still leads there. It is
// kept by the caller.
type Identity struct {
	Volume string    `json:"volume"` // of the file system; it survives a restart where the file system has an id of its own
	Ino    uint64    `json:"ino"`
	Born   time.Time `json:"born"` // zero: the system does not tell
}

// Is says whether two identities are of one directory. A birth time counts when both have one.
func (i Identity) Is(j Identity) bool {
	return i.Volume == j.Volume && i.Ino == j.Ino && (i.Born.IsZero() || j.Born.IsZero() || i.Born.Equal(j.Born))
}

// volume is the file system of a root.
type volume struct {
	id         string
	unstable   string                  // kind of a file system whose file numbers are not stable; "" they are
	artificial string                  // kind of a file system that is a part of the system; ""
	stamps     bool                    // every store changes the time at which an inode was changed, also the first one through a map
	folds      func(dir *os.File) bool // whether the names in a directory know no case
}

// Root is a directory that files are reached below: a project or a workspace. It is safe for use by several goroutines.
type Root struct {
	dir      *os.File
	path     string   // without links
	given    []string // components of the path as it was given and as it is without links
	physical []string
	facts    Facts
	volume   volume
	areas    map[ID]bool
	unwalked map[string]bool
	byPath   bool
	wrap     func(files) files // of a test: what goes wrong on the disk
}

// Open opens a directory as a root. NotFound, NotADirectory, Unsupported.
func Open(path string, o Options) (*Root, error) {
	if !filepath.IsAbs(path) {
		return nil, refuse(ArgumentInvalid, "%s is no absolute path", path)
	}
	physical, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, reading(err, path)
	}
	dir, err := openRoot(physical)
	if isNotDir(err) {
		return nil, refuse(NotADirectory, "%s is no directory", path).because(err)
	}
	if err != nil {
		return nil, reading(err, path)
	}
	r, err := newRoot(dir, physical, o)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	r.given = components(filepath.ToSlash(filepath.Clean(path)))
	return r, nil
}

func newRoot(dir *os.File, physical string, o Options) (*Root, error) {
	facts, err := factsOf(dir)
	if err != nil {
		return nil, reading(err, physical)
	}
	v, err := volumeOf(dir, physical)
	if err != nil {
		return nil, reading(err, physical)
	}
	if v.artificial != "" {
		return nil, refuse(Unsupported, "%s is a part of the system, no project", physical).With("file_system", v.artificial)
	}
	r := &Root{
		dir: dir, path: physical, physical: components(filepath.ToSlash(physical)), facts: facts, volume: v,
		areas: map[ID]bool{}, unwalked: map[string]bool{}, byPath: o.ByPath,
	}
	for _, name := range o.Unwalked {
		r.unwalked[name] = true
	}
	for _, area := range o.Areas {
		if err := r.exclude(area); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// exclude adds an area. A root in an area, a workspace, is not below itself.
func (r *Root) exclude(area string) error {
	physical, err := filepath.EvalSymlinks(area)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return reading(err, area)
	}
	dir, err := openRoot(physical)
	if err != nil {
		return reading(err, area)
	}
	defer dir.Close()
	facts, err := factsOf(dir)
	if err != nil {
		return reading(err, area)
	}
	if facts.ID != r.facts.ID {
		r.areas[facts.ID] = true
	}
	return nil
}

// Close ends the use of the root. Places of it stay usable.
func (r *Root) Close() error { return r.dir.Close() }

// Path is the absolute path of the root without links.
func (r *Root) Path() string { return r.path }

// Identity is what the root is.
func (r *Root) Identity() Identity {
	return Identity{Volume: r.volume.id, Ino: r.facts.ID.Ino, Born: r.facts.born}
}

// Changeable says whether files below the root may be changed: Unsupported on a file system whose file numbers are not
// stable, unless the operator allows it.
func (r *Root) Changeable() error {
	if r.volume.unstable == "" || r.byPath {
		return nil
	}
	return refuse(Unsupported, "files on %s are not changed: they have no stable identity", r.volume.unstable).With("file_system", r.volume.unstable)
}

// components splits a path. Empty ones and "." are left out; ".." stays.
func components(path string) []string {
	var all []string
	for c := range strings.SplitSeq(path, "/") {
		if c != "" && c != "." {
			all = append(all, c)
		}
	}
	return all
}

// below gives the components of a path that begin below the root: of a relative path all of them, of an absolute one
// those behind the root as it was given or as it is. False: the absolute path leads elsewhere.
func (r *Root) below(path string) ([]string, bool) {
	all := components(path)
	if !strings.HasPrefix(path, "/") {
		return all, true
	}
	for _, root := range [][]string{r.physical, r.given} {
		if len(all) >= len(root) && slices.Equal(all[:len(root)], root) {
			return all[len(root):], true
		}
	}
	return nil, false
}
