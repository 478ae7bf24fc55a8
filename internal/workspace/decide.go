package workspace

// Kind of an entry.
type Kind string

// The kinds. Other is what is never opened: pipes, sockets, devices.
const (
	Absent    Kind = "absent"
	File      Kind = "file"
	Link      Kind = "link"
	Directory Kind = "dir"
	Other     Kind = "other"
)

// Entry is what lies under a path.
type Entry struct {
	Kind   Kind
	Exec   bool   // of a file: its owner may execute it
	Digest string // of a file its bytes, of a link its text
}

// Action says what becomes of a path of the project.
type Action string

// The actions.
const (
	Keep  Action = "keep"  // nothing was proposed, or what is there has it already
	Take  Action = "take"  // what is proposed goes there, as a whole
	Mix   Action = "mix"   // of a file: the bytes and the permission to execute come from different sides
	Merge Action = "merge" // of a file: both sides changed the bytes
	Clash Action = "clash" // nobody but the user can say
)

// Conflict says why nobody but the user can say.
type Conflict string

// The conflicts, durable-work.md section 4.
const (
	ConflictText         Conflict = "TEXT"
	ConflictBinary       Conflict = "BINARY"
	ConflictEOL          Conflict = "EOL_ONLY"
	ConflictAddAdd       Conflict = "ADD_ADD"
	ConflictDeleteModify Conflict = "DELETE_MODIFY" // deleted in the workspace, changed in the project
	ConflictModifyDelete Conflict = "MODIFY_DELETE" // the other way round
	ConflictType         Conflict = "TYPE"
	ConflictRenameModify Conflict = "RENAME_MODIFY" // DELETE_MODIFY of what seems to have another name in the workspace
	ConflictRenameRename Conflict = "RENAME_RENAME" // deleted by both, of what seems to have another new name on each side
	ConflictParentGone   Conflict = "PARENT_GONE"
)

// Decision is what becomes of one path.
type Decision struct {
	Action   Action
	Conflict Conflict // of Clash
	Same     bool     // of Keep: both sides made the same change
	Proposed bool     // of Mix: the bytes are those that are proposed, otherwise those of the project
	Exec     bool     // of Mix and Merge
}

// Decide compares one path in BASE, CURRENT and PROPOSED (durable-work.md section 11).
func Decide(base, current, proposed Entry) Decision {
	switch {
	case proposed == base:
		return Decision{Action: Keep}
	case current == base:
		return Decision{Action: Take}
	case current == proposed:
		return Decision{Action: Keep, Same: true}
	case proposed.Kind == Absent:
		return clash(ConflictDeleteModify)
	case current.Kind == Absent:
		return clash(ConflictModifyDelete)
	case current.Kind != proposed.Kind:
		return clash(ConflictType)
	case current.Kind == File && base.Kind == Absent:
		return added(current, proposed)
	case current.Kind == File && base.Kind == File:
		return files(base, current, proposed)
	case base.Kind == Absent:
		return clash(ConflictAddAdd)
	case current.Kind == Link && base.Kind == Link:
		return clash(ConflictBinary) // the text of a link is never merged
	}
	return clash(ConflictType) // both sides made something else of it
}

func clash(c Conflict) Decision { return Decision{Action: Clash, Conflict: c} }

// added decides about a file that both sides have added: with the same bytes, only the permission may differ.
func added(current, proposed Entry) Decision {
	if current.Digest != proposed.Digest {
		return clash(ConflictAddAdd)
	}
	return mixed(current, false, true)
}

// files decides about a file that all three have.
func files(base, current, proposed Entry) Decision {
	exec := current.Exec
	if current.Exec == base.Exec {
		exec = proposed.Exec
	}
	switch {
	case proposed.Digest == base.Digest, proposed.Digest == current.Digest:
		return mixed(current, false, exec)
	case current.Digest == base.Digest:
		return mixed(current, true, exec)
	}
	return Decision{Action: Merge, Exec: exec}
}

func mixed(current Entry, proposed, exec bool) Decision {
	if !proposed && exec == current.Exec {
		return Decision{Action: Keep, Same: true}
	}
	return Decision{Action: Mix, Proposed: proposed, Exec: exec}
}

// Under decides about a path that is proposed below a directory which the project does not have any more. base and current
// are of the directory.
func Under(base, current Entry) (Conflict, bool) {
	switch {
	case current.Kind == Directory, current.Kind == Absent && base.Kind != Directory:
		return "", false
	case current.Kind == Absent:
		return ConflictParentGone, true
	}
	return ConflictType, true
}
