package api

import (
	"encoding/json"
	"time"

	"mcpx/internal/auth"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/gateway"
)

// None is the request of an operation that takes nothing.
type None struct{}

// Daemon describes the running daemon.
type Daemon struct {
	Pid      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Version  string    `json:"version"`
	Level    int       `json:"api_level"`
	Epoch    uint64    `json:"epoch"`
	Listener string    `json:"listener"` // host:port of the loopback listener
	// ListenFlag says that Listener was given with --listen: a restart keeps it.
	ListenFlag bool   `json:"listen_flag,omitempty"`
	Base       string `json:"base_url"` // http://host:port, without a trailing slash
	Socket     string `json:"socket"`   // path of the unix socket
	Home       string `json:"home"`     // directory of the state
	Detached   bool   `json:"detached"` // started in the background: its log is in LogFile
	LogFile    string `json:"log_file,omitempty"`
	// ReadOnly says why nothing that is stored is changed; "" it is.
	ReadOnly string `json:"read_only,omitempty"`
	// Up says that this is `mcpx up`: it runs in a terminal, offers more than the catalog, and ends its servers.
	Up bool `json:"up,omitempty"`
}

// StopDaemon asks the daemon to end.
type StopDaemon struct {
	// Children ends the servers too. Without it supervised servers are left to their supervisors.
	Children bool `json:"children"`
}

// Stopping is the answer to StopDaemon. The connection that carried it stays open until the process has ended, so
// that a caller can wait for the end without asking again and again.
type Stopping struct {
	Pid int `json:"pid"`
}

// RestartDaemon asks the daemon to let another process take its place.
type RestartDaemon struct {
	// Binary is the absolute path of another mcpx; "" is the file that the daemon was started from.
	Binary string `json:"binary,omitempty"`
	// Listen is a new address for the loopback listener; "" keeps the address when a flag gave it, else the setting counts.
	Listen string `json:"listen,omitempty"`
	// Environ is the whole environment of the new process, as NAME=value; empty keeps that of the daemon. It may hold
	// secrets and is never logged or stored.
	Environ []string `json:"environ,omitempty"`
}

// Restarted is the answer to RestartDaemon: the new daemon serves.
type Restarted struct {
	Daemon     Daemon `json:"daemon"`
	OldPid     int    `json:"old_pid"`
	OldVersion string `json:"old_version"`
}

// Reloaded says which settings differ from those that the daemon had, and what became of config/catalog.
type Reloaded struct {
	Applied      []string `json:"applied,omitempty"`       // in force now
	NeedsRestart []string `json:"needs_restart,omitempty"` // in force after the next restart
	// Servers of config/catalog that came, changed or went; Problems are what cannot be taken of its files.
	Servers  []string              `json:"servers,omitempty"`
	Problems []catalog.FileProblem `json:"problems,omitempty"`
}

// Status is the short overview of everything.
type Status struct {
	Daemon   Daemon           `json:"daemon"`
	Health   Health           `json:"health"`
	Servers  ServerCounts     `json:"servers"`
	Counters gateway.Counters `json:"counters"`
	Resident int64            `json:"resident_bytes,omitempty"` // memory of the daemon; 0 where the system does not tell

	Goroutines int `json:"goroutines"` // of the daemon: a number that only grows is a leak
}

// ServerCounts counts catalog entries by what they are doing.
type ServerCounts struct {
	Total    int `json:"total"`
	Disabled int `json:"disabled"`
	Running  int `json:"running"`
	Idle     int `json:"idle"`
	Failing  int `json:"failing"`
}

// Health is the registry of findings, from live state.
type Health struct {
	State    HealthState `json:"state"`
	Findings []Finding   `json:"findings"`
	// Audited is when this daemon last looked at the files of all agents; zero: not yet.
	Audited time.Time `json:"audited_at,omitzero"`
}

// HealthQuery asks for the health. With Look the credentials are looked at now, else it is told what the last check found.
type HealthQuery struct {
	Look bool `json:"-" query:"look"`
}

// HealthState is one word about everything.
type HealthState string

// The health states. Unknown is never shown as ok.
const (
	HealthOK       HealthState = "ok"
	HealthDegraded HealthState = "degraded"
)

// Finding is one thing that is wrong, with the next step.
type Finding struct {
	Code     string          `json:"code"`
	Severity converge.Weight `json:"severity"`       // blocker, warning or notice; only a blocker makes the state degraded
	Subject  string          `json:"subject"`        // name of the server, "daemon", or AGENT:ENTRY
	Path     string          `json:"path,omitempty"` // of the file that it is about
	Since    time.Time       `json:"since,omitzero"` // zero: not known
	Text     string          `json:"text"`
	Hint     string          `json:"hint,omitempty"`
	Command  string          `json:"command,omitempty"` // that comes next
}

// ServersQuery selects servers.
type ServersQuery struct{}

// ServerRef names one server, by name or alias.
type ServerRef struct {
	Name string `json:"-" path:"server"`
}

// Server is one catalog entry with its live state.
type Server struct {
	catalog.Server
	Route    string               `json:"route"` // URL for clients; it works only while Routable
	Routable bool                 `json:"routable"`
	Reasons  []string             `json:"reasons,omitempty"` // why it is not routable
	Advice   []string             `json:"advice,omitempty"`  // what a person may want to change
	Overlay  bool                 `json:"overlay,omitempty"` // offered by `mcpx up` for its run only, not in the catalog
	Status   gateway.ServerStatus `json:"status"`
	SignIn   *auth.SignIn         `json:"sign_in,omitempty"` // how mcpx stands with a server that asks for a sign-in
	// Operation is the id under which it was added or edited; only in the answer to that.
	Operation string `json:"operation,omitempty"`
	// Effect is what an edit did to what was running; only in the answer to that.
	Effect *EditEffect `json:"effect,omitempty"`
}

// EditEffect says how an edit came into force. The numbers are what it ended, as counted just before.
type EditEffect struct {
	Applied   Applied `json:"applied"`
	Processes int     `json:"processes"` // of a remote server: connections
	Sessions  int     `json:"sessions"`
	Calls     int     `json:"calls"` // in flight
}

// Applied is one word about how an edit came into force.
type Applied string

// The ways in which an edit comes into force.
const (
	AppliedLive      Applied = "live"       // at once; nothing was interrupted
	AppliedNextStart Applied = "next_start" // nothing was running
	AppliedRestart   Applied = "restart"    // what was running was ended
)

// ServerPage is a list of servers, sorted by name.
type ServerPage struct {
	Servers []Server `json:"servers"`
}

// AddServer puts an entry into the catalog. A person adds it, so it counts as reviewed. ID, review, life cycle,
// source and times of the entry are set by the daemon.
type AddServer struct {
	Server    catalog.Server `json:"server"`
	Confirmed bool           `json:"confirmed,omitempty"` // a person said yes to sharing global
	Unchecked bool           `json:"unchecked,omitempty"` // do not look whether command or URL can be reached
}

// EditServer changes fields of an entry. A nil field is kept.
type EditServer struct {
	Name      string                      `json:"-" path:"server"`
	Rename    *string                     `json:"rename,omitempty"`
	Alias     []string                    `json:"alias,omitempty"`   // more names that reach it
	Unalias   []string                    `json:"unalias,omitempty"` // names that reach it no more
	Title     *string                     `json:"title,omitempty"`
	Notes     *string                     `json:"notes,omitempty"`
	Command   []string                    `json:"command,omitempty"` // the whole argv
	Cwd       *string                     `json:"cwd,omitempty"`
	CwdPolicy *catalog.CwdPolicy          `json:"cwd_policy,omitempty"`
	Env       map[string]*catalog.Binding `json:"env,omitempty"`      // null removes the variable, also one of env_pass
	EnvPass   []string                    `json:"env_pass,omitempty"` // more variables that `mcpx connect --pass` may hand on
	URL       *string                     `json:"url,omitempty"`
	Headers   map[string]*catalog.Binding `json:"headers,omitempty"` // null removes the header
	Transport *catalog.Transport          `json:"transport,omitempty"`
	Protocol  *catalog.Protocol           `json:"protocol,omitempty"`
	Sharing   *catalog.Sharing            `json:"sharing,omitempty"`
	Direct    *bool                       `json:"direct,omitempty"`
	OnChange  *catalog.OnChange           `json:"on_change,omitempty"`
	Idle      *time.Duration              `json:"idle,omitempty"` // nanoseconds; negative: never
	Call      *time.Duration              `json:"call,omitempty"` // nanoseconds
	Confirmed bool                        `json:"confirmed,omitempty"`
	Unchecked bool                        `json:"unchecked,omitempty"`
}

// Done is the outcome of a change of state. State is what is true now; with Already the change was not needed.
type Done struct {
	Server  string `json:"server"`
	State   string `json:"state"` // added, removed, enabled, disabled, restarted; already_enabled and so on
	Already bool   `json:"already,omitempty"`
	// Operation is the id that the caller gave.
	Operation string `json:"operation,omitempty"`
}

// Tool is what a person needs to know of one tool; Raw is the server's own object.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Raw         json.RawMessage `json:"raw"`
}

// ToolPage is the whole tool list of one server.
type ToolPage struct {
	Server string `json:"server"`
	Tools  []Tool `json:"tools"`
}

// CallTool calls one tool of one server.
type CallTool struct {
	Name      string          `json:"-" path:"server"`
	Tool      string          `json:"-" path:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"` // a JSON object; absent means {}
}

// ToolResult is the answer of a tool. Raw is the server's result object, unchanged.
type ToolResult struct {
	IsError bool            `json:"is_error"`
	Raw     json.RawMessage `json:"result"`
}

// ImportServers adds several entries. What is there already is not touched.
type ImportServers struct {
	Servers []catalog.Server `json:"servers"`
	DryRun  bool             `json:"dry_run,omitempty"`
	// Pending makes new entries wait for a review. Without it the person who runs the import has reviewed them.
	Pending      bool   `json:"pending,omitempty"`
	AllOrNothing bool   `json:"all_or_nothing,omitempty"` // one entry that cannot be imported stops the others
	Unread       int    `json:"unread,omitempty"`         // entries of the file that could not be read
	Ref          string `json:"ref,omitempty"`            // path of the file, for the provenance
	From         string `json:"from,omitempty"`           // the other hub whose servers they are, as cutover.NAME calls it
}

// ImportReport says what became of each entry.
type ImportReport struct {
	DryRun    bool           `json:"dry_run,omitempty"`
	Refused   bool           `json:"refused,omitempty"` // all or nothing was asked for, and nothing was written
	Entries   []ImportEntry  `json:"entries"`
	LeftOut   int            `json:"left_out,omitempty"`  // entries that are not shown
	Counts    map[string]int `json:"counts,omitempty"`    // of all entries, by outcome and by code
	Operation string         `json:"operation,omitempty"` // the id that the caller gave
}

// ImportEntry is the outcome for one entry.
type ImportEntry struct {
	Name    string        `json:"name"`
	Outcome ImportOutcome `json:"outcome"`
	Server  string        `json:"server,omitempty"` // name in the catalog
	Codes   []string      `json:"codes,omitempty"`  // docs/catalog.md
	Text    string        `json:"text,omitempty"`
	Notes   []string      `json:"notes,omitempty"` // what was changed on the way, and what the person has to do
}

// ImportOutcome is what an import did with one entry.
type ImportOutcome string

// The outcomes of an import.
const (
	ImportCreated     ImportOutcome = "created"
	ImportWouldCreate ImportOutcome = "would-create" // created, if it were no dry run
	ImportLinked      ImportOutcome = "linked"       // the same server is there under another name; its origin was noted
	ImportWouldLink   ImportOutcome = "would-link"   // linked, if it were no dry run
	ImportUnchanged   ImportOutcome = "unchanged"    // the same server is there, and nothing was written
	ImportConflict    ImportOutcome = "conflict"     // another definition has this name
	ImportError       ImportOutcome = "error"        // not valid
)

// ProcessQuery selects processes.
type ProcessQuery struct{}

// Process is one row of `mcpx ps`: one lane of one server, that is one child process or one upstream session. A
// server without a lane has one row with its state and without a pid.
type Process struct {
	Server     string    `json:"server"`
	Kind       string    `json:"kind"`
	State      string    `json:"state"`
	Pid        int       `json:"pid,omitempty"`
	Supervisor int       `json:"supervisor_pid,omitempty"`
	Version    string    `json:"supervisor_version,omitempty"` // of the mcpx that the supervisor runs; after an upgrade it may be older
	Adopted    bool      `json:"adopted,omitempty"`            // the process was started by an earlier daemon
	URL        string    `json:"url,omitempty"`
	Sharing    string    `json:"sharing"`
	Era        string    `json:"era,omitempty"`
	Protocol   string    `json:"protocol,omitempty"` // negotiated revision
	Sessions   int       `json:"sessions"`
	InFlight   int       `json:"in_flight"`
	Restarts   int       `json:"restarts"` // of the server, all lanes together
	Resident   int64     `json:"resident_bytes,omitempty"`
	Started    time.Time `json:"started,omitzero"`
	LastError  string    `json:"last_error,omitempty"`
	ErrorAt    time.Time `json:"error_at,omitzero"`
	NextTry    time.Time `json:"next_try,omitzero"`
	// SignIn is how mcpx stands with a server that asks for a sign-in.
	SignIn *auth.SignIn `json:"sign_in,omitempty"`
}

// ProcessPage is the table of `mcpx ps`.
type ProcessPage struct {
	Processes []Process `json:"processes"`
	Advice    []string  `json:"advice,omitempty"`
}

// LogsQuery selects lines of a server's log.
type LogsQuery struct {
	Name   string `json:"-" path:"server"`
	Lines  int    `json:"-" query:"lines"`  // how many of the newest lines; 0 means DefaultLogLines
	Follow bool   `json:"-" query:"follow"` // stay and send new lines
}

// DefaultLogLines is how many lines `mcpx server logs` shows without being told.
const DefaultLogLines = 100

// LogLine is one line that a server wrote to stderr (or to stdout without being a message).
type LogLine struct {
	Time time.Time `json:"time"`
	Text string    `json:"text"`
}
