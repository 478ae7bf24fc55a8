// Package catalog decides what a server entry is: its fields, its name rules, what is valid, what may be routed. It
// refuses to know where entries are stored, what a process is, or how a value behind a reference is found.
//
// Invariant: an entry that Validate accepts can be routed by name and started without any further interpretation.
package catalog

import (
	"time"
)

// Sharing says who shares one process or one upstream session of a server (governance.md section 2.3).
type Sharing string

// The sharing modes, strictest first.
const (
	ShareSession   Sharing = "session"   // one for each frontend session; the default
	ShareAgent     Sharing = "agent"     // one for each agent
	ShareWorkspace Sharing = "workspace" // one for each canonical workspace root
	ShareAccount   Sharing = "account"   // one for each credential set
	ShareGlobal    Sharing = "global"    // one for everyone, after a person's yes
	ShareNone      Sharing = "none"      // not routed: each agent keeps an entry of its own
)

// Protocol pins the protocol era of a backend; auto probes it.
type Protocol string

// The protocol overrides.
const (
	ProtocolAuto   Protocol = "auto"
	ProtocolLegacy Protocol = "legacy" // 2024-11-05 to 2025-11-25
	ProtocolModern Protocol = "modern" // 2026-07-28
)

// Transport of an HTTP backend; auto probes it.
type Transport string

// The transports of HTTP backends.
const (
	TransportAuto       Transport = "auto"
	TransportStreamable Transport = "streamable-http"
	TransportSSE        Transport = "sse" // HTTP+SSE of 2024-11-05
)

// Review is the decision of a person about an entry.
type Review string

// The review states.
const (
	ReviewPending     Review = "pending"
	ReviewApproved    Review = "approved"
	ReviewRejected    Review = "rejected"
	ReviewQuarantined Review = "quarantined"
)

// Lifecycle says whether an entry is in use.
type Lifecycle string

// The lifecycle states.
const (
	Enabled    Lifecycle = "enabled"
	Disabled   Lifecycle = "disabled"
	Deprecated Lifecycle = "deprecated"
)

// OnChange says what happens to a running server when the file of its program changes.
type OnChange string

// The policies; "" is OnChangeReplace.
const (
	OnChangeReplace OnChange = "replace" // no new calls, what runs may end, then the new program is started
	OnChangeKeep    OnChange = "keep"    // the old one runs until it ends for another reason
)

// CwdPolicy says in which directory a program starts.
type CwdPolicy string

// The policies; "" follows from the other fields, see Server.Directory.
const (
	CwdNone      CwdPolicy = "none"      // a private empty directory
	CwdHome      CwdPolicy = "home"      // the user's home
	CwdFixed     CwdPolicy = "fixed"     // Cwd
	CwdWorkspace CwdPolicy = "workspace" // the root of the caller's workspace, the home for a caller without one
)

// Binding gives a variable or a header its value. At most one field is set; none is the empty literal.
type Binding struct {
	Literal  string `json:"literal,omitempty"`  // a value that is no secret
	Ref      string `json:"ref,omitempty"`      // a credential reference, for example env:TOKEN or file:/path#KEY
	Template string `json:"template,omitempty"` // text with {REF} in it, for example "Bearer {env:TOKEN}"
	// Unresolved says that only the name is known: somebody has to say where the value comes from.
	Unresolved bool `json:"unresolved,omitempty"`
}

// Stdio is a backend that speaks MCP on stdin and stdout.
type Stdio struct {
	Command   string             `json:"command"`
	Args      []string           `json:"args,omitempty"`
	CwdPolicy CwdPolicy          `json:"cwd_policy,omitempty"`
	Cwd       string             `json:"cwd,omitempty"` // absolute; "" is what CwdPolicy says
	Env       map[string]Binding `json:"env,omitempty"`
	EnvPass   []string           `json:"env_pass,omitempty"` // names taken from the environment of mcpx connect
}

// Directory is the policy that counts for a program.
func (s Server) Directory() CwdPolicy {
	switch {
	case s.Stdio == nil:
		return ""
	case s.Stdio.CwdPolicy != "":
		return s.Stdio.CwdPolicy
	case s.Stdio.Cwd != "":
		return CwdFixed
	case s.Sharing == ShareWorkspace:
		return CwdWorkspace
	}
	return CwdHome
}

// HTTP is a backend behind a URL.
type HTTP struct {
	URL       string             `json:"url"`
	Headers   map[string]Binding `json:"headers,omitempty"`
	Transport Transport          `json:"transport,omitempty"` // "" is auto
}

// Limits are the times of one server. Zero means the default that DefaultLimits gives.
type Limits struct {
	Start time.Duration `json:"start,omitempty"` // spawn, probe and handshake together
	Call  time.Duration `json:"call,omitempty"`  // silence allowed in one request; progress extends it
	Max   time.Duration `json:"max,omitempty"`   // one request, whatever progress says
	Idle  time.Duration `json:"idle,omitempty"`  // a lane without work is stopped after this; negative is never
}

// DefaultLimits are the bounds of protocol.md section 6.3 and supervisor.md section 8.
var DefaultLimits = Limits{Start: 60 * time.Second, Call: 120 * time.Second, Max: 30 * time.Minute, Idle: 5 * time.Minute}

// OrDefault fills each zero field from DefaultLimits.
func (l Limits) OrDefault() Limits {
	d := DefaultLimits
	if l.Start != 0 {
		d.Start = l.Start
	}
	if l.Call != 0 {
		d.Call = l.Call
	}
	if l.Max != 0 {
		d.Max = l.Max
	}
	if l.Idle != 0 {
		d.Idle = l.Idle
	}
	return d
}

// Server is one MCP server of the catalog. Exactly one of Stdio and HTTP is set.
type Server struct {
	ID        string    `json:"id"` // srv_ and a ULID, stable over renames
	Name      string    `json:"name"`
	Aliases   []string  `json:"aliases,omitempty"`
	Title     string    `json:"title,omitempty"`
	Notes     string    `json:"notes,omitempty"`
	Stdio     *Stdio    `json:"stdio,omitempty"`
	HTTP      *HTTP     `json:"http,omitempty"`
	Sharing   Sharing   `json:"sharing"`
	Direct    bool      `json:"direct,omitempty"` // true: a child of the daemon itself (--supervised=false)
	Protocol  Protocol  `json:"protocol,omitempty"`
	IDStyle   string    `json:"id_style,omitempty"` // "int" for backends that accept integer ids only
	Stateful  bool      `json:"stateful,omitempty"` // true: a lost process ends its sessions, no silent restore
	Retry     string    `json:"retry,omitempty"`    // "idempotent": any call may be sent again
	OnChange  OnChange  `json:"on_change,omitempty"`
	Limits    Limits    `json:"limits,omitzero"`
	Review    Review    `json:"review"`
	Lifecycle Lifecycle `json:"lifecycle"`
	Risk      Risk      `json:"risk,omitempty"` // "" is unknown
	Pins      PinMode   `json:"pins,omitempty"` // "" is what Risk says, see PinMode
	Tags      []string  `json:"tags,omitempty"`
	Profiles  []string  `json:"profiles,omitempty"` // sets of servers that an agent can be given at once
	Source    string    `json:"source"`             // who made the entry: operator, import, observed, file
	File      string    `json:"file,omitempty"`     // of config/catalog: it says everything but review and life cycle; "" commands do
	Created   time.Time `json:"created"`
	Updated   time.Time `json:"updated"`
	// Provenance says where the fields come from, the first one first. An entry of a release without it has none; see Origins.
	Provenance []Provenance `json:"provenance,omitempty"`
	// Project is the id of the project whose repository names the server: only its sessions call it. The catalog has none
	// of these.
	Project string `json:"-"`
}
