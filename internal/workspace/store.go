package workspace

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// Reader reads the workspaces and their integrations. It is part of the transaction port that package store joins.
type Reader interface {
	// WorkspaceByID finds one. NotFound workspace-unknown, Conflict workspace-ambiguous.
	WorkspaceByID(ctx context.Context, p ByID) (Workspace, error)
	// Workspaces is one page, the newest first. A page that is shorter than the limit is the last one.
	Workspaces(ctx context.Context, p ListWorkspaces) ([]Workspace, error)
	// Integrations is one page, the newest first.
	Integrations(ctx context.Context, p ListIntegrations) ([]Integration, error)
}

// Store reads and changes them.
type Store interface {
	Reader
	// PutWorkspace writes a workspace whole. Conflict workspace-final when the stored one is retired and the new one is
	// not; Stale workspace-stale when the stored one has a higher revision.
	PutWorkspace(ctx context.Context, p PutWorkspace) error
	// PutIntegration writes an integration, which never changes.
	PutIntegration(ctx context.Context, p PutIntegration) error
}

// Integration is one application of a workspace to its project, or the undo of one.
type Integration struct {
	ID        string    `json:"integration_id"` // int_
	Workspace string    `json:"workspace_id"`
	Project   string    `json:"project_id"`
	Principal string    `json:"principal,omitempty"` // whose operation it was; "" that of the workspace's
	Operation string    `json:"operation_id"`
	Batch     string    `json:"batch_id"` // the displaced bytes are in the trash under this name
	Message   string    `json:"message,omitempty"`
	Undoes    string    `json:"undoes,omitempty"` // the integration that this one takes back
	Paths     []string  `json:"paths"`            // at most MaxPaths
	Changed   int       `json:"changed"`
	Snapshot  string    `json:"snapshot,omitempty"` // of what was changed outside of the scope
	At        time.Time `json:"at"`
	Seq       uint64    `json:"-"` // order, given by the store
}

// MaxPaths bounds the paths that an integration names.
const MaxPaths = 1000

// MaxPage bounds one page.
const MaxPage = 200

// ByID names one workspace; a beginning that only one has is enough.
type ByID struct{ ID string }

// PutWorkspace carries the workspace to write.
type PutWorkspace struct{ Workspace Workspace }

// PutIntegration carries the integration to write.
type PutIntegration struct{ Integration Integration }

// ListWorkspaces asks for the workspaces that fit every condition that is set.
type ListWorkspaces struct {
	Principal string // "" everybody's
	Project   string
	States    []State // none: every one
	Before    uint64  // Seq of the last one of the page before; 0 begins with the newest
	Limit     int     // 0 and everything above MaxPage is MaxPage
}

// PageLimit is the number of workspaces that the page may hold.
func (p ListWorkspaces) PageLimit() int { return limited(p.Limit) }

// Fits says whether a workspace is one of those that are asked for, apart from the page.
func (p ListWorkspaces) Fits(w Workspace) bool {
	return (p.Principal == "" || w.Principal == p.Principal) && (p.Project == "" || w.Project == p.Project) &&
		(len(p.States) == 0 || slices.Contains(p.States, w.State))
}

// ListIntegrations asks for the integrations of a project, or of all.
type ListIntegrations struct {
	Project string
	After   uint64 // only those with a higher Seq
	Before  uint64
	Limit   int
}

// PageLimit is the number of integrations that the page may hold.
func (p ListIntegrations) PageLimit() int { return limited(p.Limit) }

func limited(limit int) int {
	if limit < 1 || limit > MaxPage {
		return MaxPage
	}
	return limit
}

// All reads every workspace that fits, the newest first.
func All(ctx context.Context, r Reader, p ListWorkspaces) ([]Workspace, error) {
	return page.All(p.PageLimit(), func(last *Workspace) ([]Workspace, error) {
		if last != nil {
			p.Before = last.Seq
		}
		return r.Workspaces(ctx, p)
	})
}

// EachIntegration reads the integrations that are asked for, the newest first, page by page.
func EachIntegration(ctx context.Context, r Reader, p ListIntegrations) iter.Seq2[Integration, error] {
	return page.Each(p.PageLimit(), func(last *Integration) ([]Integration, error) {
		list := p
		if last != nil {
			list.Before = last.Seq
		}
		return r.Integrations(ctx, list)
	})
}

// LastStanding is the last integration of a workspace that was not taken back; false: there is none.
func LastStanding(ctx context.Context, r Reader, w Workspace) (Integration, bool, error) {
	undone := map[string]bool{}
	for i, err := range EachIntegration(ctx, r, ListIntegrations{Project: w.Project}) {
		switch {
		case err != nil:
			return Integration{}, false, err
		case i.Workspace != w.ID || undone[i.ID]:
		case i.Undoes != "":
			undone[i.Undoes] = true
		default:
			return i, true, nil
		}
	}
	return Integration{}, false, nil
}

// By is the principal whose operation it was.
func (i Integration) By(w Workspace) string { return cmp.Or(i.Principal, w.Principal) }

// Unknown is the error for an id that no workspace has.
func Unknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "workspace-unknown").Saying("there is no workspace %s", id).Hinting("`mcpx workspace list --all` shows them")
}

// Ambiguous is the error for a beginning of an id that several workspaces have.
func Ambiguous(id string) *fault.Error {
	return fault.New(fault.Conflict, "workspace-ambiguous").Saying("several workspaces begin with %s", id).Hinting("give more of the id; `mcpx workspace list --all` shows them")
}

// Final is the error for a workspace that is retired.
func Final(id string) *fault.Error {
	return fault.New(fault.Conflict, "workspace-final").Saying("the workspace %s is retired and stays so", id).Hinting("make another one")
}

// Stale is the error for a workspace that somebody has changed since it was read.
func Stale(id string) *fault.Error {
	return fault.New(fault.Stale, "workspace-stale").Saying("the workspace %s has changed meanwhile", id).Hinting("read it again")
}
