package api

import (
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/converge"
)

// What an agent may read about itself. Each of these operations answers for one agent: the one whose token asks, or the
// one that the owner names. They are the tools of mcp_hub.

// ChecksQuery asks how agents do. Without Agent: those that somebody manages, or that have the control plane.
type ChecksQuery struct {
	Agent string `json:"-" query:"agent"`
}

// Checks is the answer to ChecksQuery.
type Checks struct {
	OK     bool        `json:"ok"`
	Agents []SelfCheck `json:"agents"`
	Code   string      `json:"code,omitempty"` // no-agents: there is none to check
	Text   string      `json:"text"`
	Next   []string    `json:"next"` // commands
}

// SelfCheck says how one agent does.
type SelfCheck struct {
	OK       bool           `json:"ok"` // no blocker, and the control plane is as it should be
	Agent    string         `json:"agent"`
	Level    converge.Level `json:"level"`
	Client   CheckClient    `json:"client"`
	Files    []CheckFile    `json:"files"`
	Problems []CheckProblem `json:"problems"`
	Plans    int            `json:"plans_waiting"`
	Control  CheckControl   `json:"control_plane"`
}

// CheckClient is the program of the agent.
type CheckClient struct {
	Name      string `json:"name"`
	Version   string `json:"version"` // "" not known
	Certified bool   `json:"certified"`
}

// CheckFile is one file of the agent.
type CheckFile struct {
	Path  string    `json:"path"`
	Scope string    `json:"scope"`
	State string    `json:"state"`
	Seen  time.Time `json:"seen_at,omitzero"`
}

// CheckProblem is one thing that is wrong.
type CheckProblem struct {
	Code     string          `json:"code"`
	Severity converge.Weight `json:"severity"`
	Entry    string          `json:"entry"`
	Text     string          `json:"text"`
	Hint     string          `json:"hint"`
	Command  string          `json:"command,omitempty"`
}

// CheckControl says whether the agent reaches mcp_hub.
type CheckControl struct {
	Routed   bool      `json:"routed"`   // an entry of its files leads there
	Strategy string    `json:"strategy"` // how it sends its token; "" not installed
	Token    bool      `json:"token"`    // it has a live one
	Answers  string    `json:"answers"`  // authenticated, open, refused, unreachable; "" was not tried
	Used     time.Time `json:"last_used_at,omitzero"`
}

// HubQuery names the agent that is meant; an agent is always itself.
type HubQuery struct {
	Agent string `json:"-" path:"agent"`
}

// HubStatus is the state of mcpx as far as it concerns one agent.
type HubStatus struct {
	Daemon   HubDaemon   `json:"daemon"`
	Servers  []HubServer `json:"servers"` // that the agent has
	Blockers HubFindings `json:"blockers"`
	Warnings HubFindings `json:"warnings"`
	Notices  HubFindings `json:"notices"`
}

// HubDaemon is the running daemon.
type HubDaemon struct {
	Version string    `json:"version"`
	Since   time.Time `json:"since"`
}

// HubServer is one server that an agent has.
type HubServer struct {
	Name     string   `json:"name"`
	State    string   `json:"state"`
	Routable bool     `json:"routable"`
	Reasons  []string `json:"reasons"` // why it is not routable
}

// HubFindings are findings of one severity.
type HubFindings struct {
	Count int      `json:"count"`
	Codes []string `json:"codes"`
}

// HubPlansQuery selects plans of one agent.
type HubPlansQuery struct {
	Agent  string `json:"-" path:"agent"`
	State  string `json:"-" query:"state"` // "" those that wait
	Cursor string `json:"-" query:"cursor"`
	Limit  int    `json:"-" query:"limit"` // 0 means MaxHubPlans
}

// Bounds of the pages for agents: an answer takes up room in the context of a model.
const (
	MaxHubPlans   = 50
	MaxHubCatalog = 20
)

// HubPlans is a page of plans.
type HubPlans struct {
	Plans  []HubPlan `json:"plans"`
	Cursor string    `json:"cursor,omitempty"` // for the next page; "" this is the last one
}

// HubPlan is one plan in a list.
type HubPlan struct {
	ID       string             `json:"plan_id"`
	Kind     converge.PlanKind  `json:"kind"`
	Risk     converge.RiskClass `json:"risk"`
	State    converge.PlanState `json:"state"`
	Path     string             `json:"path"`
	Summary  string             `json:"summary"`
	Approved approval.State     `json:"approval_state,omitempty"`
}

// HubPlanRef names one plan of the agent.
type HubPlanRef struct {
	Agent string `json:"-" path:"agent"`
	Plan  string `json:"-" path:"plan"`
}

// HubPlanView is one plan whole, without secrets and without hashes of files.
type HubPlanView struct {
	HubPlan
	Server   string             `json:"server,omitempty"`
	Entry    string             `json:"entry,omitempty"`
	Reasons  []string           `json:"reasons"`
	Risks    []string           `json:"risk_reasons"`
	Problems []converge.Problem `json:"problems"`
	Effects  []string           `json:"effects"`
	Files    []HubPlanFile      `json:"files"`
	Next     string             `json:"next"` // what a person does; an agent can do nothing
}

// HubPlanFile is what a plan does to one file.
type HubPlanFile struct {
	Path  string   `json:"path"`
	Scope string   `json:"scope"`
	Diff  string   `json:"diff"` // secrets as [redacted:NAME]
	Notes []string `json:"notes"`
}

// HubEntryQuery asks how an agent would reach a server.
type HubEntryQuery struct {
	Agent  string `json:"-" path:"agent"`
	Server string `json:"-" path:"server"`
}

// HubEntry is how an agent reaches a server through mcpx.
type HubEntry struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"` // "" the form is a command
	Form    converge.FormKind `json:"form"`
	Entry   any               `json:"entry"` // what the agent's file would hold, as an object; null where that file is no JSON
	Format  string            `json:"format"`
	Text    string            `json:"text"` // the same as the file spells it
	Reasons []string          `json:"reasons"`
	Next    string            `json:"next"` // what a person does, so that the agent gets it
}

// HubRuntimeQuery selects lanes of one agent.
type HubRuntimeQuery struct {
	Agent  string `json:"-" path:"agent"`
	Server string `json:"-" query:"server"` // "" all that the agent has
}

// HubRuntime is what runs for one agent.
type HubRuntime struct {
	Servers []HubLane `json:"servers"`
}

// HubLane is one process or upstream session that serves the agent. A server for which nothing runs has one, too.
type HubLane struct {
	Server    string    `json:"server"`
	State     string    `json:"state"`
	Since     time.Time `json:"since,omitzero"`
	Sharing   string    `json:"sharing"`
	Shared    bool      `json:"shared"` // others use it, too
	Calls     int       `json:"calls"`  // in work
	LastError string    `json:"last_error"`
}

// HubCredentials are the credentials that the servers of an agent need. There are no values.
type HubCredentials struct {
	Credentials []HubCredential `json:"credentials"`
}

// HubCredential is one credential.
type HubCredential struct {
	Name      string   `json:"name"`
	Readiness string   `json:"readiness"` // ready, missing, locked, denied, unavailable, expired, unchecked
	Servers   []string `json:"servers"`
	Hint      string   `json:"hint"`
}

// HubCatalogQuery searches the catalog.
type HubCatalogQuery struct {
	Agent  string `json:"-" path:"agent"`
	Query  string `json:"-" query:"query"`
	Cursor string `json:"-" query:"cursor"`
	Limit  int    `json:"-" query:"limit"` // 0 means MaxHubCatalog
}

// HubCatalog is a page of the catalog, by name.
type HubCatalog struct {
	Servers []HubCatalogEntry `json:"servers"`
	Cursor  string            `json:"cursor,omitempty"`
}

// HubCatalogEntry is one server: no command, no variable.
type HubCatalogEntry struct {
	Name     string   `json:"name"`
	Title    string   `json:"title"`
	Tags     []string `json:"tags"`
	Risk     string   `json:"risk"`
	Routable bool     `json:"routable"`
	Mounted  bool     `json:"mounted"` // the agent has it
}

// AuthCapabilities are the ways in which agents can send the token of mcp_hub.
type AuthCapabilities struct {
	Agents []AgentAuth `json:"agents"`
}

// AgentAuth are the ways of one agent.
type AgentAuth struct {
	Agent      string   `json:"agent"`
	Title      string   `json:"title"`
	Strategies []string `json:"strategies"` // the first one is the default: helper, env, bridge
	Variable   string   `json:"variable"`   // that env takes the token from
	Installed  string   `json:"installed"`  // the strategy in use; "" none
	Certified  []string `json:"certified_versions"`
	Evidence   string   `json:"evidence,omitempty"` // doc: known from documentation only
}

// InstallControl makes the plan that gives an agent the control plane, or repairs it.
type InstallControl struct {
	Agent string   `json:"-" path:"agent"`
	Auth  string   `json:"auth,omitempty"` // helper, env or bridge; "" what it has, or the first of its strategies
	Home  string   `json:"home,omitempty"`
	Moved []string `json:"moved,omitempty"`
}

// ControlInstall is the answer to InstallControl.
type ControlInstall struct {
	State    string    `json:"state"` // planned, already_planned, already_installed
	Already  bool      `json:"already,omitempty"`
	Agent    string    `json:"agent"`
	Strategy string    `json:"strategy"`
	Variable string    `json:"variable,omitempty"` // to set, with the strategy env
	Plan     *PlanView `json:"plan,omitempty"`
	Text     string    `json:"text"`
	Next     []string  `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}

// MountServer says that an agent shall have a server, or shall not have it any more.
type MountServer struct {
	Agent  string `json:"-" path:"agent"`
	Server string `json:"server"`
	Name   string `json:"name,omitempty"`  // as the agent names it; "" as the catalog does
	Scope  string `json:"scope,omitempty"` // user or project; "" user
	Absent bool   `json:"absent,omitempty"`
	// Only says whether what is led through mcpx and was not mounted is one too many; nil leaves that as it is.
	Only    *bool    `json:"only,omitempty"`
	Home    string   `json:"home,omitempty"`
	Project string   `json:"project,omitempty"`
	Moved   []string `json:"moved,omitempty"`
}

// Mounted is the answer to MountServer.
type Mounted struct {
	State   string           `json:"state"` // mounted, already_mounted, unmounted, already_unmounted
	Already bool             `json:"already,omitempty"`
	Agent   string           `json:"agent"`
	Mounts  []converge.Mount `json:"mounts"`
	Only    bool             `json:"only_mounts,omitempty"`
	Plans   []PlanRow        `json:"plans"` // that make it so
	Next    []string         `json:"next"`  // commands

	Operation string `json:"operation,omitempty"`
}
