package api

import (
	"cmp"

	"mcpx/internal/text"
	"mcpx/internal/workspace"
)

// Workspace is an isolated work packet of a project.
type Workspace struct {
	workspace.Workspace
	workspace.Sight
	Name string `json:"project"` // of its project
	// Asks are the approvals that its operations wait for.
	Asks []string `json:"approvals,omitempty"`
}

// WorkspacesQuery selects workspaces of everybody.
type WorkspacesQuery struct {
	Project string `json:"-" query:"project"` // name, id or path; "" of every one
	All     bool   `json:"-" query:"all"`     // those that are done, too
	Before  int    `json:"-" query:"before"`  // WorkspacePage.Before of the page before
	Limit   int    `json:"-" query:"limit"`   // 0 means MaxRows
}

// WorkspacePage is a list of workspaces, the newest first.
type WorkspacePage struct {
	Workspaces []Workspace `json:"workspaces"`
	Before     int         `json:"before,omitempty"` // where the next page goes on; absent at the last one
	Next       []string    `json:"next"`             // commands
}

// WorkspaceRef names one workspace.
type WorkspaceRef struct {
	Workspace string `json:"-" path:"workspace"` // id, a beginning of it, or a handle: then it has to be at that revision
}

// WorkspaceView is one workspace with what was done in it.
type WorkspaceView struct {
	Workspace
	WorkspaceChanges
	Superseded []string            `json:"superseded_by,omitempty"` // integrations that touched its scope after its BASE
	Linked     []string            `json:"hard_linked,omitempty"`   // files in its scope that have other names, too
	Conflicts  []WorkspaceConflict `json:"conflicts,omitempty"`     // that an integration would meet now
	Next       []string            `json:"next"`                    // commands
}

// WorkspaceChanges is what differs between a workspace and its BASE.
type WorkspaceChanges struct {
	Changes []WorkspaceChange `json:"changes"`
	Outside []WorkspaceChange `json:"out_of_scope,omitempty"` // of the declared scope
	More    int               `json:"more,omitempty"`         // changes that are not listed
}

// WorkspacePath is a path in a project. One that is no plain text is percent-encoded.
type WorkspacePath struct {
	Path string `json:"path,omitempty"`
	Pct  string `json:"path_pct,omitempty"`
}

// String is the path as it is shown and typed.
func (p WorkspacePath) String() string { return p.Path + p.Pct }

// Encoded is the path as lists of paths have it.
func (p WorkspacePath) Encoded() string { return cmp.Or(p.Pct, text.EncodePath(p.Path)) }

// WorkspaceChange is one path that was changed.
type WorkspaceChange struct {
	WorkspacePath
	Change  string `json:"change"`            // added, modified, deleted, mode, type
	Current string `json:"project,omitempty"` // what the project did to the path since BASE; "" nothing
}

// WorkspaceConflict is a path that both sides changed. Its bundle is there once an integration was tried.
type WorkspaceConflict struct {
	WorkspacePath
	Kind    workspace.Conflict `json:"kind"`
	Current string             `json:"current_sha256"`       // of what the project has now
	Renamed string             `json:"renamed_to,omitempty"` // the name that it seems to have in the workspace, percent-encoded
	Theirs  string             `json:"renamed_in_project,omitempty"`
	Bundle  string             `json:"bundle,omitempty"`
	Sides   []workspace.Side   `json:"sides,omitempty"`
}

// WorkspacePlan is what an integration does to the project, or would do.
type WorkspacePlan struct {
	Applied   []WorkspaceChange   `json:"applied"`
	Merged    []string            `json:"merged"`    // of these, the ones with changes of both sides
	Unchanged int                 `json:"unchanged"` // paths that the project has as they are in the workspace
	Conflicts []WorkspaceConflict `json:"conflicts"` // with one, nothing is applied
	Unlisted  int                 `json:"more_conflicts,omitempty"`
	Outside   []string            `json:"out_of_scope,omitempty"` // paths that were changed outside of the scope
	More      int                 `json:"more,omitempty"`         // applied paths that are not listed
}

// WorkspaceDiffQuery asks for what was done in a workspace.
type WorkspaceDiffQuery struct {
	Workspace string `json:"-" path:"workspace"`
	Names     bool   `json:"-" query:"names"` // without the lines
}

// WorkspaceDiff is what was done in a workspace since its copy was made.
type WorkspaceDiff struct {
	Handle   string          `json:"handle"`
	State    workspace.State `json:"state"`
	Dirty    string          `json:"dirty"`              // yes, no, or unverified when nobody can tell now
	Unseen   string          `json:"unseen,omitempty"`   // of unverified: why, and where its work is
	Snapshot string          `json:"snapshot,omitempty"` // the last one that was made of it
	WorkspaceChanges
	Patch string `json:"patch,omitempty"` // a unified diff; # before what is no text
}

// PlanIntegration asks what an integration would do.
type PlanIntegration struct {
	Workspace string   `json:"-" path:"workspace"`
	Resolved  []string `json:"-" query:"resolved"` // as of IntegrateWorkspace
	Current   []string `json:"-" query:"current"`
	Build     string   `json:"-" query:"build"`
	Audited   bool     `json:"-" query:"audited"`
}

// IntegrateWorkspace brings the changes of a workspace into its project, all or none.
type IntegrateWorkspace struct {
	Workspace string   `json:"-" path:"workspace"`
	Resolved  []string `json:"resolved,omitempty"`     // paths in conflict that the workspace has now as they shall be
	Current   []string `json:"current,omitempty"`      // paths in conflict that stay as the project has them
	KeepOpen  bool     `json:"keep_open,omitempty"`    // the work goes on in the workspace
	Outside   bool     `json:"keep_outside,omitempty"` // changes outside of the scope are kept in a snapshot
	Message   string   `json:"message,omitempty"`      // what the changes are, for the record
	Build     string   `json:"build,omitempty"`        // whole id of a build that the workspace has to equal at its outputs
	Audited   bool     `json:"audited,omitempty"`      // a consumer has to have passed that build
}

// UndoIntegration takes back what a workspace brought into its project last, all or none: nothing of what somebody has changed
// since.
type UndoIntegration struct {
	Workspace string `json:"-" path:"workspace"`
	Message   string `json:"message,omitempty"` // why, for the record
}

// What an integration has come to: IntegrationOutcome.State. The rest of its states are those of workspaces.
const (
	IntegrationConflict = "conflict" // nothing was applied
	IntegrationMoved    = "moved"    // the same, and the project has changed since conflicts were looked at
	IntegrationWaits    = "waiting"  // a person has to be asked
	IntegrationUndone   = "undone"
)

// IntegrationOutcome is what an integration, or a plan of one, has come to.
type IntegrationOutcome struct {
	State   string `json:"state"` // integrated, open (the work goes on), already_integrated, conflict, moved, waiting, planned, undone
	Already bool   `json:"already,omitempty"`
	Handle  string `json:"handle"`
	WorkspacePlan
	ID        string             `json:"integration_id,omitempty"`
	Undone    string             `json:"undone,omitempty"`    // the integration that was taken back
	Preserved string             `json:"preserved,omitempty"` // snapshot with the changes outside of the scope
	Build     string             `json:"build_id,omitempty"`  // that was required
	Audit     string             `json:"audit_id,omitempty"`  // that has passed it
	Commit    string             `json:"suggested_commit_message,omitempty"`
	Approval  string             `json:"approval,omitempty"` // that it waits for
	Warnings  []WorkspaceWarning `json:"warnings,omitempty"`
	Text      string             `json:"text"`
	Next      []string           `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}

// WorkspaceWarning is something about an applied path that somebody should know.
type WorkspaceWarning struct {
	Code string `json:"code"` // docs/runtime.md explains them
	Path string `json:"path"`
}

// CreateWorkspace makes a workspace.
type CreateWorkspace struct {
	Project  string   `json:"project"` // name, id or path
	Purpose  string   `json:"purpose"`
	Mutable  []string `json:"mutable"`            // paths, or globs of directories, that may be changed
	Excludes []string `json:"excludes,omitempty"` // globs of what is not copied
	Shared   bool     `json:"shared,omitempty"`   // others that say so, too, may claim the same
	Confirm  bool     `json:"confirm,omitempty"`  // yes to a copy of more than 2 GB
	Build    string   `json:"build,omitempty"`    // whole id of a build whose outputs it begins with, instead of what the project has there
}

// SuspendWorkspace puts a workspace aside.
type SuspendWorkspace struct {
	Workspace string `json:"-" path:"workspace"`
	Reason    string `json:"reason"`
}

// WorkspaceChanged is what became of a workspace.
type WorkspaceChanged struct {
	State     string    `json:"state"` // of the workspace; already_... when there was nothing to do
	Already   bool      `json:"already,omitempty"`
	Workspace Workspace `json:"workspace"`
	Moved     []string  `json:"moved,omitempty"`     // paths in its scope that the project has changed meanwhile
	Preserved string    `json:"preserved,omitempty"` // snapshot of what was only in it
	Text      string    `json:"text"`
	Next      []string  `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}
