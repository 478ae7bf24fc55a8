package converge

import (
	"time"

	"mcpx/internal/catalog"
)

// PlanKind says what a plan is for, governance.md section 5.3.
type PlanKind string

// The kinds.
const (
	PlanRoute        PlanKind = "route"         // direct entry to http or bridge form, same name
	PlanAdd          PlanKind = "add"           // a desired mount that is missing
	PlanRemove       PlanKind = "remove"        // an entry that is extra, or a mount that is no longer desired
	PlanMerge        PlanKind = "merge"         // several copies to one scope
	PlanControlPlane PlanKind = "control-plane" // adds or repairs mcp_hub
	PlanMoveSecret   PlanKind = "move-secret"   // raw value to the credential store
	PlanFixEndpoint  PlanKind = "fix-endpoint"  // stale port, http to https, credentials out of the URL
	PlanUnroute      PlanKind = "unroute"       // routed back to the direct form of the catalog
	PlanImport       PlanKind = "import"        // routes an entry whose candidate has to be promoted first
	PlanService      PlanKind = "service"       // systemd unit or launchd plist
	PlanRollback     PlanKind = "rollback"      // takes a receipt back
)

// PlanState says what became of a plan. There is no state for half.
type PlanState string

// The states.
const (
	PlanReady      PlanState = "ready"
	PlanErrored    PlanState = "errored"    // it would break something; Problems say what. Never offered
	PlanSuperseded PlanState = "superseded" // what it was made from has changed
	PlanApplying   PlanState = "applying"   // a receipt is open
	PlanApplied    PlanState = "applied"
	PlanFailed     PlanState = "failed" // undone
	PlanRolledBack PlanState = "rolled-back"
)

// RiskClass orders plans by how much of a look they need.
type RiskClass string

// The classes, the lightest first.
const (
	RiskLow    RiskClass = "low"
	RiskNormal RiskClass = "normal"
	RiskHigh   RiskClass = "high"
)

// Risk is the class of a plan with the codes that say why.
type Risk struct {
	Class   RiskClass `json:"class"`
	Reasons []string  `json:"reasons"`
}

// Plan is a value: changes to files with their preconditions, made from one revision of the catalog. It holds no
// secret. Everything but State, Auto, Approval, Receipt and Made is bound by ID.
type Plan struct {
	ID       string        `json:"plan_id"` // plan_ and the first 26 base32 characters of the hash of the content
	Kind     PlanKind      `json:"kind"`
	Agent    string        `json:"agent,omitempty"`  // "" for a service
	Server   string        `json:"server,omitempty"` // name in the catalog
	Entry    string        `json:"entry,omitempty"`  // name of the entry in the file
	Summary  string        `json:"summary"`          // one line
	Reasons  []string      `json:"reasons"`
	Revision string        `json:"catalog_revision"`
	Policy   string        `json:"policy_digest"`
	Adapter  string        `json:"adapter_version"`
	Look     Look          `json:"look"` // where the files were looked for
	Changes  []Change      `json:"changes"`
	Match    catalog.Match `json:"match,omitzero"`
	Risk     Risk          `json:"risk"`
	Effects  []string      `json:"effects"` // lines for people: reload hint, approval that the agent will ask again, how to verify
	Needs    []string      `json:"needs"`   // what has to be done before, as commands
	Problems []Problem     `json:"problems"`
	Reverts  string        `json:"reverts,omitempty"` // id of the receipt that a rollback takes back
	// Conflicts are why a rollback with merging is not offered.
	Conflicts Conflicts `json:"conflicts,omitempty"`

	State    PlanState `json:"state"`
	Auto     []string  `json:"auto_refused"`       // codes for which it is not applied by itself; empty: it may be
	Approval string    `json:"approval,omitempty"` // id of the latest one
	Receipt  string    `json:"receipt,omitempty"`  // id of the latest one
	Made     time.Time `json:"made_at"`
}

// Change is what a plan does to one file.
type Change struct {
	Agent    string   `json:"agent,omitempty"`
	Path     string   `json:"path"` // as the agent names it
	Real     string   `json:"real_path"`
	Scope    string   `json:"scope"`
	Steps    []Step   `json:"steps"`
	Expected Expected `json:"expected"`
	// Bound are the parts of the file that the plan depends on, when not the whole file does (governance.md section 7.3).
	Bound  []Bound `json:"bound,omitempty"`
	Edits  []Edit  `json:"edits"`
	Result string  `json:"result_sha256"` // hex; "" the file is removed. With Bound: of the bytes when the plan was made
	Diff   string  `json:"diff"`          // unified, of the real bytes, secrets as [redacted:NAME]
	Notes  []Note  `json:"notes"`         // what the diff cannot show
	// Leaves are the entries that the change touches, as it leaves them: what a rollback of a file that was changed since
	// has to find there.
	Leaves []Bound `json:"leaves,omitempty"`
}

// Note tells something about a change: a code of docs/findings.md and a text.
type Note struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// Expected is the state of a file before the change.
type Expected struct {
	Absent   bool   `json:"absent,omitempty"`
	SHA256   string `json:"sha256,omitempty"`   // hex
	Identity string `json:"identity,omitempty"` // device and inode, as the system spells them
	Mode     uint32 `json:"mode,omitempty"`     // permission bits
}

// Bound is one part of a file that a plan depends on: an entry, or the container that one is inserted into.
type Bound struct {
	At     []string `json:"at"`
	Digest string   `json:"digest"` // HMAC-SHA-256 of its content, hex: names in order of the alphabet, values, no spaces and comments; "" it is absent
}

// Edit is one span of bytes that is replaced. Bytes outside all spans stay.
type Edit struct {
	Start  int    `json:"start"` // in the old bytes
	End    int    `json:"end"`
	Kind   string `json:"kind"`   // replace, insert or remove
	SHA256 string `json:"sha256"` // of the new bytes, hex; HMAC-SHA-256 when they hold a value that is not shown
}

// StepOp is what a step does.
type StepOp string

// The operations.
const (
	StepSet    StepOp = "set"    // the entry at At gets the form Want; one that is absent is inserted
	StepRemove StepOp = "remove" // the entry at At goes
	StepRef    StepOp = "ref"    // values of the entry at At become references, see Moves
	StepFile   StepOp = "file"   // the whole file gets Content
	StepRevert StepOp = "revert" // what a receipt did to the file is taken back
)

// Step is the intention behind the bytes: what happens to one entry.
type Step struct {
	Op      StepOp   `json:"op"`
	At      []string `json:"at,omitempty"` // container and name; empty for a new entry: the file's own container takes Name
	Name    string   `json:"name,omitempty"`
	Project string   `json:"project,omitempty"`
	Want    *Form    `json:"want,omitempty"`
	Moves   []Move   `json:"moves,omitempty"` // of a StepRef, and of a StepSet whose entry loses raw values
	Content string   `json:"content,omitempty"`
	Receipt string   `json:"receipt,omitempty"`
	Merge   bool     `json:"merge,omitempty"` // of a StepRevert: what others did to the same entries since stays
}

// FormKind is how an entry reaches its server.
type FormKind string

// The forms, governance.md sections 2.6 and 3.4.
const (
	FormHTTP   FormKind = "http"   // URL of the gateway
	FormBridge FormKind = "bridge" // mcpx connect
	FormDirect FormKind = "direct" // the server itself, as the catalog has it
)

// Form is an entry to write, independent of any agent's spelling.
type Form struct {
	Kind    FormKind          `json:"kind"`
	Server  string            `json:"server"`
	URL     string            `json:"url,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`     // literals, and references in the agent's own syntax
	Headers map[string]string `json:"headers,omitempty"` // likewise
	Helper  string            `json:"helper,omitempty"`  // command line that prints headers
	Bearer  string            `json:"bearer,omitempty"`  // variable that holds a bearer token
	SSE     bool              `json:"sse,omitempty"`     // direct form of a server that speaks HTTP+SSE
	// Keep are variables of the entry that stay as they are in the file, since its program still gets them from there.
	// All others go with the old form.
	Keep []string `json:"keep_env,omitempty"`
}

// Move takes one raw value out of a file: it becomes the credential, and the place in the file goes or gets a
// reference in the agent's own syntax. In a StepSet the values are taken from the entry as it was before, and the server
// of the plan gets the credential under the same name of variable or header. Without a Credential nothing is kept: the
// place gets Put.
type Move struct {
	Field      []string `json:"field"`         // below the entry: ["env", "TOKEN"], ["headers", "Authorization"], ["args", "3"]; ["url"] whatever the agent calls it
	Credential string   `json:"credential"`    // name in the credential store
	Put        string   `json:"put,omitempty"` // what stands there afterwards; "" the field goes
}
