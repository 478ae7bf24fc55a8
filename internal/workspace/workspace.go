package workspace

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcpx/internal/operation"
)

// State says where a workspace stands.
type State string

// The states, durable-work.md section 6.
const (
	Creating    State = "creating"    // its scope is claimed, and it is copied
	Open        State = "open"        // unfinished work
	Suspended   State = "suspended"   // the same, without a claim
	Integrating State = "integrating" // its changes are being applied, or taken back
	Attention   State = "attention"   // an application whose outcome somebody has to decide
	Integrated  State = "integrated"  // its changes are in the project
	Quarantined State = "quarantined" // a directory that nobody vouches for
	Missing     State = "missing"     // its directory is gone
	Retiring    State = "retiring"    // it is being removed
	Retired     State = "retired"     // final: its directory is in the trash
)

// States are all of them.
var States = []State{Creating, Open, Suspended, Integrating, Attention, Integrated, Quarantined, Missing, Retiring, Retired}

// Holds are the states in which the scope is claimed.
var Holds = []State{Creating, Open, Integrating, Attention, Retiring}

// Unfinished are the states of a workspace that is not forgotten.
var Unfinished = []State{Creating, Open, Suspended, Integrating, Attention, Quarantined, Missing, Retiring}

// Overlap says whether others may claim what the workspace claims.
type Overlap string

// The ways. Scopes that overlap are held at once only when every one of them says allow.
const (
	RefuseOverlap Overlap = "refuse"
	AllowOverlap  Overlap = "allow"
)

// Workspace is an isolated work packet of a project.
type Workspace struct {
	ID        string         `json:"workspace_id"` // ws_
	Rev       int            `json:"rev"`          // rises with each recorded change of the workspace
	Principal string         `json:"principal"`
	Project   string         `json:"project_id"`
	Session   string         `json:"remote_session_id,omitempty"` // in which it was made
	By        operation.Name `json:"operation"`                   // that made it
	Purpose   string         `json:"purpose"`
	State     State          `json:"state"`
	Why       string         `json:"why,omitempty"` // of suspended, quarantined, attention, missing and retired
	Was       State          `json:"was,omitempty"` // before it was begun to be resumed, undone or removed, with the reason of then
	WasWhy    string         `json:"was_why,omitempty"`
	Mutable   []Scope        `json:"mutable"`
	Excludes  []string       `json:"excludes,omitempty"` // globs of what was not copied
	Overlap   Overlap        `json:"on_overlap"`
	Break     bool           `json:"hardlinks_break,omitempty"` // other names of a file with several may keep the old bytes
	Dir       string         `json:"dir"`                       // holds the working copy and its BASE
	Base      Copied         `json:"base"`
	Snapshot  string         `json:"snapshot,omitempty"`          // the last one that was made of it
	Kept      *Copied        `json:"snapshot_base,omitempty"`     // BASE of the snapshot; nil: Base
	Earlier   []Preserved    `json:"earlier_snapshots,omitempty"` // snapshots that were made before the last one
	History   []Step         `json:"history,omitempty"`           // the last revisions, the oldest first
	Created   time.Time      `json:"created_at"`
	Changed   time.Time      `json:"changed_at"`
	Cleared   time.Time      `json:"cleared_at,omitzero"` // when its directory began to be cleared from the trash
	Seq       uint64         `json:"-"`                   // order of making, given by the store at the first put
}

// Copied is what the copy of a project holds.
type Copied struct {
	Rev     int       `json:"rev"`    // since which BASE is this one
	Digest  string    `json:"digest"` // of the manifest of BASE
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"`
	Method  string    `json:"copy_method"` // reflink, clonefile or copy
	At      time.Time `json:"at"`
	After   uint64    `json:"after,omitempty"` // number of the last integration before it
	Build   string    `json:"build,omitempty"` // whose outputs are a part of it, instead of what the project has there
	Skipped []Left    `json:"skipped,omitempty"`
	Aliases []Left    `json:"aliases,omitempty"`
}

// Left is a path that was not copied, or that more than one name leads to.
type Left struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Step is one revision.
type Step struct {
	Rev       int       `json:"rev"`
	Tool      string    `json:"tool"`
	Operation string    `json:"operation_id"`
	At        time.Time `json:"at"`
}

// MaxHistory bounds the revisions that a workspace remembers: what a stale handle is told about.
const MaxHistory = 20

// Next is the workspace after a recorded change.
func (w Workspace) Next(step Step) Workspace {
	w.Rev++
	step.Rev = w.Rev
	w.History = append(slices.Clone(w.History), step)
	w.History = w.History[max(0, len(w.History)-MaxHistory):]
	w.Changed = step.At
	return w
}

// NextBase is the number of the next BASE. It is higher than that of every BASE the workspace has had: those of one that goes on
// from a snapshot are higher than its own revisions.
func (w Workspace) NextBase() int { return max(w.Rev, w.Base.Rev) + 1 }

// Preserved is a snapshot that was made of a workspace, and the BASE that it is compared with.
type Preserved struct {
	Snapshot string `json:"snapshot"`
	Base     Copied `json:"base"`
}

// Keep notes a snapshot that was made, and the BASE that it is compared with. Those of before can be found, too.
func (w *Workspace) Keep(snapshot string, base Copied) {
	if w.Snapshot != "" && w.Snapshot != snapshot {
		w.Earlier = append(slices.DeleteFunc(slices.Clone(w.Earlier), func(p Preserved) bool { return p.Snapshot == w.Snapshot }), Preserved{w.Snapshot, w.SnapshotBase()})
	}
	w.Snapshot, w.Kept = snapshot, &base
}

// AsIn is the workspace as if a snapshot of it were the last one; false: it is none of it.
func (w Workspace) AsIn(snapshot string) (Workspace, bool) {
	if w.Snapshot == snapshot {
		return w, true
	}
	n := slices.IndexFunc(w.Earlier, func(p Preserved) bool { return p.Snapshot == snapshot })
	if n < 0 {
		return w, false
	}
	w.Snapshot, w.Kept = snapshot, &w.Earlier[n].Base
	return w, true
}

// SnapshotBase is the BASE that the last snapshot is compared with.
func (w Workspace) SnapshotBase() Copied {
	if w.Kept != nil {
		return *w.Kept
	}
	return w.Base
}

// Handle is how callers name the workspace as they know it.
func (w Workspace) Handle() Handle { return Handle{w.ID, w.Rev} }

// Handle is a workspace at a revision.
type Handle struct {
	ID  string
	Rev int
}

// String is ws_...@3.
func (h Handle) String() string { return h.ID + "@" + strconv.Itoa(h.Rev) }

// ParseHandle reads what String wrote. Without a revision it is 0.
func ParseHandle(text string) (Handle, error) {
	name, number, found := strings.Cut(text, "@")
	rev, err := strconv.Atoi(number)
	if !strings.HasPrefix(name, "ws_") || found && (err != nil || rev < 1) {
		return Handle{}, operation.Refuse(operation.ArgumentInvalid, "%.80q is no handle; one looks like ws_...@3", text)
	}
	return Handle{name, rev}, nil
}

// Exactly refuses a handle of another revision. STALE_HANDLE tells the current one and what changed since.
func (w Workspace) Exactly(h Handle) error {
	if h.Rev == w.Rev {
		return nil
	}
	since := []Step{}
	for _, s := range w.History {
		if s.Rev > h.Rev {
			since = append(since, s)
		}
	}
	r := operation.Refuse(StaleHandle, "the workspace has changed since %s", h).With("handle", w.Handle().String()).With("since", since)
	if h.Rev == 0 {
		r.Message = "this needs the handle with its revision"
	}
	return r.Then(operation.Next{Tool: "workspace_status", Args: map[string]any{"handle": w.Handle().String()}, Why: "what it is now"})
}

// In refuses an act that the state does not allow. WORKSPACE_STATE; WORKSPACE_BUSY while something is done to it as a whole.
func (w Workspace) In(states ...State) error {
	if slices.Contains(states, w.State) {
		return nil
	}
	r := operation.Refuse(WrongState, "the workspace is %s", w.State).With("state", w.State).With("handle", w.Handle().String())
	switch w.State {
	case Creating, Integrating, Retiring:
		return operation.Refuse(Busy, "the workspace is %s", w.State).Retrying(afterWait).With("state", w.State).With("handle", w.Handle().String()).
			Then(operation.Next{Tool: "workspace_status", Args: map[string]any{"handle": w.ID}, Why: "what it has come to"})
	case Suspended, Quarantined, Missing:
		return r.Then(operation.Next{Tool: "resume_workspace", Args: map[string]any{"ws": w.ID, operation.IDField: "resume-" + w.ID}, Why: "opens it again"})
	case Attention:
		return r.Then(operation.Next{Tool: "workspace_status", Args: map[string]any{"handle": w.ID}, Why: "what is in dispute"})
	case Retired, Integrated:
		return r.Then(operation.Next{Tool: "reconcile_project_state", Args: map[string]any{}, Why: "which workspaces there are"})
	case Open:
	}
	return r
}

// Holder finds who holds something of a scope that is to be claimed in a project. Workspaces that all allow overlap are not
// in each other's way. A directory that was made anew since it was claimed is another one, under a name that is held.
func Holder(all []Workspace, project string, claimed []Scope, o Overlap) (holder Workspace, theirs, ours Scope, held bool) {
	for _, w := range all {
		if w.Overlap == AllowOverlap && o == AllowOverlap {
			continue
		}
		for _, a := range w.Mutable {
			for _, b := range claimed {
				named := w.Project == project && (Below(a.Path, b.Path) || Below(b.Path, a.Path))
				if named || Overlaps(a, b) {
					return w, a, b, true
				}
			}
		}
	}
	return Workspace{}, Scope{}, Scope{}, false
}

// Held is the refusal of a claim. SCOPE_OVERLAP.
func Held(holder Workspace, theirs, ours Scope) *operation.Refusal {
	return operation.Refuse(ScopeOverlap, "%s is claimed by the workspace %s (%s)", ours.Path, holder.ID, holder.Purpose).
		Retrying(afterWait).With("holder", map[string]any{
		"workspace_id": holder.ID, "purpose": holder.Purpose, "state": holder.State, "project_id": holder.Project, "path": theirs.Path, "operation_id": holder.By.ID,
	}).With("path", ours.Path).
		Then(operation.Next{Tool: "workspace_status", Args: map[string]any{"handle": holder.ID}, Why: "what the holder is doing"})
}

// String is how the workspace is named in logs.
func (w Workspace) String() string { return fmt.Sprintf("%s (%s)", w.Handle(), w.State) }
