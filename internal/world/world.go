// Package world answers what judging a command has to know of this machine: where paths lead, which programs names start,
// what patterns match, and what the configuration of a git repository says. It looks, changes nothing and starts nothing, and
// it refuses to know what the answers decide.
//
// Invariant: what could not be looked at is told as what is the strictest: a file that is not there, a program that can be
// changed, a pattern that matches more.
package world

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"mcpx/internal/policy"
)

// Config is what one judgement looks from. Paths are absolute and canonical.
type Config struct {
	Place    policy.Place
	Dir      string   // where the command starts
	Path     string   // PATH of the child
	Exe      string   // this program
	Hidden   []string // what the sandbox hides
	Writable []string // what the job may change; nil: everything that the user may change
}

// World is the machine at one moment. It implements policy.World.
type World struct {
	cfg     Config
	secrets map[fileID][]string // canonical names by identity; nil before it is needed
	indexed bool                // those of the target are in secrets
}

var _ policy.World = (*World)(nil)

// New makes a World for one judgement.
func New(c Config) *World { return &World{cfg: c} }

// Place is where the command would run.
func (w *World) Place() policy.Place { return w.cfg.Place }

// HomeOf is the home directory of a user, "" when there is none.
func (w *World) HomeOf(name string) string {
	u, err := user.Lookup(name)
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// within says whether a path is a directory or lies in it.
func within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

func inAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return dir != "" && within(path, dir) })
}

// Program finds what a name starts.
func (w *World) Program(name string) policy.Program {
	if strings.Contains(name, "/") {
		return w.program(name)
	}
	if name == "" || name == "." || name == ".." {
		return policy.Program{}
	}
	for _, dir := range filepath.SplitList(w.cfg.Path) {
		if dir == "" {
			dir = "." // an empty part is the current directory
		}
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(w.cfg.Dir, dir)
		}
		if p := w.program(filepath.Join(dir, name)); p.Path != "" {
			return p
		}
	}
	return policy.Program{}
}

func (w *World) program(path string) policy.Program {
	real := w.follow(path)
	info, err := os.Stat(real)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return policy.Program{}
	}
	p := policy.Program{Path: path, Identity: identityOf(info), Shell: shells[filepath.Base(real)]}
	for _, part := range []string{real, filepath.Dir(real), w.follow(filepath.Dir(path))} {
		p.Writable = p.Writable || w.writable(part)
	}
	if own, err := os.Stat(w.cfg.Exe); err == nil {
		p.Self = os.SameFile(own, info)
	}
	return p
}

// shells are the dialects by the name of the file that runs, links followed: what sh is depends on the machine.
var shells = map[string]policy.Dialect{
	"bash": policy.Bash, "dash": policy.POSIX, "ash": policy.POSIX, "busybox": policy.POSIX, "sh": policy.POSIX,
	"ksh": policy.Ksh, "ksh93": policy.Ksh, "mksh": policy.Ksh, "zsh": policy.Zsh,
}

// writable tells that the job may change a file or directory.
func (w *World) writable(path string) bool {
	if inAny(path, []string{w.cfg.Place.Target, w.cfg.Place.Temp}) {
		return true
	}
	if w.cfg.Writable != nil {
		return inAny(path, w.cfg.Writable)
	}
	return mayWrite(path)
}

const (
	// maxLooked bounds the entries that a search for secrets looks at. A tree with more is taken for one that has some.
	maxLooked = 100_000
	// maxMatches bounds what a pattern gives; policy judges no more words.
	maxMatches = 1 << 14
)

// SecretsBelow tells whether a file of the list of secrets lies below a directory, and a command could read it.
func (w *World) SecretsBelow(dir string) bool {
	found, left := false, maxLooked
	w.walk(w.follow(dir), &left, func(path string, _ os.DirEntry) bool {
		found = policy.SecretName(filepath.Base(path)) || inAny(path, policy.SecretPlaces(w.homes()...))
		return found
	})
	return found || left <= 0
}

// walk visits what lies below a directory, itself first, but what the sandbox hides. Links are not followed. It ends when
// visit says so, or when left is used up.
func (w *World) walk(path string, left *int, visit func(path string, e os.DirEntry) bool) (ended bool) {
	if inAny(path, w.cfg.Hidden) {
		return false
	}
	if visit(path, nil) {
		return true
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return false // it cannot be read by a command either, or is a file
	}
	for _, e := range entries {
		if *left--; *left <= 0 {
			return true
		}
		child := filepath.Join(path, e.Name())
		if inAny(child, w.cfg.Hidden) {
			continue
		}
		if e.IsDir() {
			if w.walk(child, left, visit) {
				return true
			}
		} else if visit(child, e) {
			return true
		}
	}
	return false
}

func (w *World) homes() []string {
	return append([]string{w.cfg.Place.Home}, w.cfg.Place.Homes...)
}
