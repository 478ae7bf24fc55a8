package policy

// World answers what judging has to know of the machine. It looks and changes nothing. The same question gets the same
// answer during one judgement: Judge asks each one once.
type World interface {
	// Place is where the command would run.
	Place() Place
	// Program finds what a name starts: a bare name on the PATH that the child will get, an absolute path as it is.
	Program(name string) Program
	// File says what an absolute path leads to. The path is not cleaned: links are followed before "..", as the kernel
	// does. What does not exist is resolved as far as it exists.
	File(path string) File
	// Glob is what an absolute shell pattern matches now, in the order of the shell. complete is false when there are
	// more matches than are listed, or when a directory could not be read.
	Glob(pattern string) (matches []string, complete bool)
	// SecretsBelow tells whether a file of the built-in list of secrets lies in a directory or below it, and a command
	// could read it: false when the sandbox hides them.
	SecretsBelow(dir string) bool
	// Repository describes the git repository that git finds from a directory, a bare one included.
	Repository(dir string) Repository
	// HomeOf is the home directory of a user of this machine, "" when there is no such user.
	HomeOf(user string) string
}

// Place holds the fixed facts of a judgement. All paths are absolute and canonical.
type Place struct {
	Target string   // root of the project or workspace the command acts on
	Temp   string   // the job's private temporary directory; "" without one
	Home   string   // of the user whose daemon this is
	Homes  []string // other home directories
	Roots  []string // registered projects and open workspaces
	Own    []string // files and directories of the product: state, configuration, areas
	Daemon Daemon
	// Environment are the names of the variables the child gets from the allow-list.
	Environment []string
	// Sandbox is what will be applied to the child.
	Sandbox Sandbox
}

// Daemon is how the control plane can be reached.
type Daemon struct {
	Addresses []string // host:port of its listeners
	Sockets   []string // absolute paths
	PID       int
}

// Sandbox levels of durable-work.md section 14, weakest first.
const (
	SandboxNone      = "none"
	SandboxWorkspace = "workspace"
	SandboxStrict    = "strict"
)

// Sandbox is what will be applied, not what was asked for.
type Sandbox struct {
	Level   string // SandboxNone when empty
	Gaps    bool   // something the level promises is missing
	Network bool   // the network can be reached
}

// contains tells that nothing outside can be changed or reached.
func (s Sandbox) contains() bool {
	return sandboxRank(s.Level) >= sandboxRank(SandboxWorkspace) && !s.Gaps && !s.Network
}

func sandboxRank(level string) int {
	switch level {
	case SandboxStrict:
		return 2
	case SandboxWorkspace:
		return 1
	}
	return 0
}

// Program is the file that a name starts.
type Program struct {
	Path     string  // as it was found, absolute; "" when there is none
	Identity string  // changes when another file or other bytes would be started: device, inode, size, times
	Writable bool    // lies in the target, or in a directory or file the job may write, links resolved
	Self     bool    // is this product
	Shell    Dialect // which shell it is, "" when it is none or not known
}

// File is what a path leads to.
type File struct {
	Path   string   // canonical; of what does not exist, the canonical part and the rest
	Exists bool     // false also when it could not be looked at
	Dir    bool     // a directory
	Device bool     // a character or block device
	Folds  bool     // its directory ignores case
	Names  []string // other canonical names of the same file that are known: hard links to files of the lists
}

// Repository is a git repository.
type Repository struct {
	Found bool
	// Keys are the names of the settings in the repository's own configuration, of its work trees and included files
	// too. A hook that a reading command would run counts as core.hooksPath.
	Keys []string
}

// remembering asks a World each question once, so that one judgement sees one world and repeated paths cost nothing.
type remembering struct {
	World
	programs map[string]Program
	files    map[string]File
	globs    map[string]globbed
	secrets  map[string]bool
	repos    map[string]Repository
}

type globbed struct {
	matches  []string
	complete bool
}

func remember(w World) *remembering {
	return &remembering{
		World: w, programs: map[string]Program{}, files: map[string]File{}, globs: map[string]globbed{},
		secrets: map[string]bool{}, repos: map[string]Repository{},
	}
}

func once[V any](known map[string]V, key string, ask func(string) V) V {
	v, ok := known[key]
	if !ok {
		v = ask(key)
		known[key] = v
	}
	return v
}

func (r *remembering) Program(name string) Program { return once(r.programs, name, r.World.Program) }

func (r *remembering) File(path string) File { return once(r.files, path, r.World.File) }

func (r *remembering) SecretsBelow(dir string) bool {
	return once(r.secrets, dir, r.World.SecretsBelow)
}

func (r *remembering) Repository(dir string) Repository {
	return once(r.repos, dir, r.World.Repository)
}

func (r *remembering) Glob(pattern string) ([]string, bool) {
	g := once(r.globs, pattern, func(p string) globbed {
		matches, complete := r.World.Glob(p)
		return globbed{matches, complete}
	})
	return g.matches, g.complete
}
