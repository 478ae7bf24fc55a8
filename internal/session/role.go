package session

import (
	"slices"
	"time"

	"mcpx/internal/operation"
)

// Role is what a principal is in a session or on a project; "" is nothing at all.
type Role string

// The roles, runtime.md section 2. A project knows no approver, and nobody but the principal of a session is its owner.
const (
	Owner    Role = "owner"
	Editor   Role = "editor"
	Approver Role = "approver"
	Viewer   Role = "viewer"
)

// Act is a sort of thing that a role may permit.
type Act string

// The acts, one for each column of the table of roles.
const (
	ActRead   Act = "read"   // read tools, observe, read_result
	ActChange Act = "change" // files, commands, plan, extensions
	ActDecide Act = "decide" // approvals, and those on a human channel only
	ActShare  Act = "share"  // handoff, grant, close
)

// May says whether the role permits the act.
func (r Role) May(a Act) bool {
	switch r {
	case Owner:
		return true
	case Editor:
		return a == ActRead || a == ActChange
	case Approver:
		return a == ActRead || a == ActDecide
	case Viewer:
		return a == ActRead
	}
	return false // no role, or one that a newer mcpx has written
}

// Needs is the least role that permits an act, for the details of a refusal.
func Needs(a Act) Role {
	switch a {
	case ActRead:
		return Viewer
	case ActChange:
		return Editor
	case ActDecide:
		return Approver
	case ActShare:
		return Owner
	}
	panic("session: unknown act " + string(a))
}

// Operator is the principal of whoever owns the daemon: owner of every project, without a grant.
const Operator = "owner"

// Given are the roles that a hand-over or a grant of a session can give: never owner.
var given = []Role{Editor, Approver, Viewer}

// onProject are the roles that a grant of a project can give.
var onProject = []Role{Owner, Editor, Viewer}

// Grant is the role that a principal has on something that is not its own.
type Grant struct {
	About     string    `json:"about"` // id of a session or a project
	Principal string    `json:"principal"`
	Role      Role      `json:"role"`
	By        string    `json:"by"`                // principal that gave it
	Handoff   string    `json:"handoff,omitempty"` // id of the hand-over that it came from; "" a person gave it
	At        time.Time `json:"granted_at"`
}

// CheckPrincipal refuses what cannot name a principal. ARGUMENT_INVALID.
func CheckPrincipal(name string) error {
	if !principalForm().MatchString(name) {
		return operation.Refuse(operation.ArgumentInvalid, "%s is no name of a principal", quoted(name)).With("argument", "principal")
	}
	return nil
}

// GrantRequest asks for a grant.
type GrantRequest struct {
	About     string
	Principal string
	Role      Role
	By        string
	Now       time.Time
}

// GrantSession makes a grant of a session. ARGUMENT_INVALID: the role cannot be given, or the principal owns everything
// already.
func GrantSession(in GrantRequest) (Grant, error) { return grant(in, given) }

// GrantProject makes a grant of a project. ARGUMENT_INVALID as for a session.
func GrantProject(in GrantRequest) (Grant, error) { return grant(in, onProject) }

func grant(in GrantRequest, roles []Role) (Grant, error) {
	if err := CheckPrincipal(in.Principal); err != nil {
		return Grant{}, err
	}
	switch {
	case !slices.Contains(roles, in.Role):
		return Grant{}, operation.Refuse(operation.ArgumentInvalid, "the role %s cannot be given here", quoted(string(in.Role))).With("argument", "role").With("roles", roles)
	case in.Principal == Operator:
		return Grant{}, operation.Refuse(operation.ArgumentInvalid, "the owner of the daemon needs no grant").With("argument", "principal")
	}
	return Grant{About: in.About, Principal: in.Principal, Role: in.Role, By: in.By, At: in.Now}, nil
}

// RoleOn is what a principal is on a project; "" makes it a guest there.
func RoleOn(project, principal string, grants []Grant) Role {
	if principal == Operator {
		return Owner
	}
	for _, g := range grants {
		if g.About == project && g.Principal == principal && slices.Contains(onProject, g.Role) {
			return g.Role
		}
	}
	return ""
}

// RoleIn is what a principal is in a session; "" makes the session one that does not exist. In its own session it is what
// it is on the project: opening one widens nothing.
func RoleIn(s Session, principal string, grants []Grant) Role {
	if s.Principal == principal {
		return RoleOn(s.Project, principal, grants)
	}
	for _, g := range grants {
		if g.About == s.ID && g.Principal == principal && slices.Contains(given, g.Role) {
			return g.Role
		}
	}
	return ""
}
