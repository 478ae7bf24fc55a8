package converge

import "mcpx/internal/catalog"

// Look says what is to be observed.
type Look struct {
	Agent   string `json:"agent,omitempty"`   // "" all
	Home    string `json:"home,omitempty"`    // absolute; "" that of the service
	Project string `json:"project,omitempty"` // absolute; "" none
	// Projects are looked at beside what counts everywhere, and so are those that agents list themselves. Not nil: Project is
	// one of them, and what is told of an entry that counts everywhere holds in all of them.
	Projects []string `json:"-"`
	// Moved are variables that move files, as NAME=PATH; they win over those of the service.
	Moved []string `json:"moved,omitempty"`
	// Names are those of the catalog; true: the name is an alias.
	Names map[string]bool `json:"-"`
}

// Observation is what was found in the files of agents.
type Observation struct {
	Files    []File
	Entries  []Entry
	Projects []string // that were looked at
	Left     int      // known projects that were not, since there are too many
}

// FileState says what could be read.
type FileState string

// The states of a file. A broken one is refused by its agent, whatever else it holds.
const (
	FileReadable   FileState = "readable"
	FileBroken     FileState = "broken"
	FileUnreadable FileState = "unreadable"
	FileAbsent     FileState = "absent"
)

// File is one place where an agent looks for servers.
type File struct {
	Agent    string    `json:"agent"`
	Path     string    `json:"path"`
	Scope    string    `json:"scope"`
	Rule     string    `json:"rule"` // why the agent looks there: default, or the variable that moved it
	Format   string    `json:"format"`
	Shared   bool      `json:"shared"` // in a git work tree
	State    FileState `json:"state"`
	Entries  int       `json:"entries"`
	Problems []Problem `json:"problems"`

	Project  string `json:"project,omitempty"`   // directory for which the file counts; "" everywhere
	Evidence string `json:"evidence,omitempty"`  // doc: the dialect is known from documentation only
	Real     string `json:"real_path,omitempty"` // where links lead; "" absent
	Size     int64  `json:"size,omitempty"`      // bytes
	SHA256   string `json:"sha256,omitempty"`    // hex, of the whole file
	Identity string `json:"identity,omitempty"`  // device and inode
	Mode     uint32 `json:"mode,omitempty"`      // permission bits
}

// Problem is a finding of whoever read the file. It quotes no value.
type Problem struct {
	Code   string `json:"code"`
	Field  string `json:"field,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"` // in bytes
	Text   string `json:"text,omitempty"`
}

// Routed is the way of an entry through mcpx.
type Routed struct {
	State  RoutedState `json:"state"`
	Server string      `json:"server"` // as the entry spells it
	Form   string      `json:"form"`   // http or bridge
}

// RoutedState says how an entry goes through mcpx. The states are codes, too.
type RoutedState string

// The states, governance.md section 2.6.
const (
	RoutedHere      RoutedState = "routed"
	RoutedAlias     RoutedState = "routed-alias"
	RoutedSpelling  RoutedState = "routed-spelling"
	RoutedStalePort RoutedState = "routed-stale-port"
	RoutedUnknown   RoutedState = "routed-unknown"
	RoutedForeign   RoutedState = "routed-foreign"
	RoutedDisabled  RoutedState = "routed-disabled"
)

// Entry is one server in a file, as its agent understands it. Values of variables and headers are no part of it.
type Entry struct {
	Agent     string           `json:"agent"`
	Name      string           `json:"name"`
	File      string           `json:"file"`
	Scope     string           `json:"scope"`
	Project   string           `json:"project,omitempty"` // "" every one
	At        []string         `json:"at"`                // place in the file
	Enabled   bool             `json:"enabled"`
	Transport string           `json:"transport,omitempty"` // "" in a broken entry
	Command   string           `json:"command,omitempty"`
	Args      []string         `json:"args"`          // secrets redacted
	URL       string           `json:"url,omitempty"` // secrets redacted
	Cwd       string           `json:"cwd,omitempty"`
	Variables []string         `json:"variables"` // names
	Headers   []string         `json:"headers"`   // names
	Auth      string           `json:"auth"`
	Tools     *Tools           `json:"tools,omitempty"` // what it says about single tools; nil nothing
	Package   *catalog.Package `json:"package"`         // null for a bridge of mcpx and for a broken entry
	Routed    *Routed          `json:"routed"`          // null: it does not go through mcpx
	Parse     string           `json:"parse"`           // complete, extra or broken
	Extra     []string         `json:"extra,omitempty"` // names of unknown fields, kept as they are
	Problems  []Problem        `json:"problems"`

	ID     string `json:"observation_id,omitempty"` // obs_ and a hash of agent, real path and place: stable while the entry stays there
	Digest string `json:"digest,omitempty"`         // HMAC-SHA-256 of what the entry says, hex; spaces, comments and the order of names do not matter

	Facts Facts `json:"-"`
}

// Facts are what the observer saw and only the classification needs.
type Facts struct {
	Shadowed        bool // an entry of the same name in a stronger file counts in its place, in a project that was looked at
	Layered         bool // the agent makes one entry of this one and others of the same name
	FileBroken      bool // the agent refuses the whole file
	Hidden          bool // something in arguments or URL was redacted
	URLCredentials  bool // user, password or a secret parameter stand in the URL
	FileWritable    bool // everybody may write the file
	ProgramWritable bool // everybody may write the program or script
}
