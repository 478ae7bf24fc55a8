package workspace

import (
	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

const afterWait = fault.AfterWait

// The codes of workspaces, durable-work.md section 4.
const (
	StaleHandle     operation.Code = "STALE_HANDLE"
	WrongState      operation.Code = "WORKSPACE_STATE"
	Busy            operation.Code = "WORKSPACE_BUSY"
	ScopeOverlap    operation.Code = "SCOPE_OVERLAP"
	JobsRunning     operation.Code = "JOBS_RUNNING"
	Conflicts       operation.Code = "CONFLICTS"
	OutOfScope      operation.Code = "OUT_OF_SCOPE_CHANGES"
	MovedDuringCopy operation.Code = "TREE_MOVED_DURING_COPY"
	ConfirmRequired operation.Code = "CONFIRM_REQUIRED"
	RepositoryBusy  operation.Code = "REPO_BUSY"
	OutsideProject  operation.Code = "SCOPE_OUTSIDE_PROJECT"
	CanonicalMoved  operation.Code = "CANONICAL_MOVED"
	UnknownBuild    operation.Code = "UNKNOWN_BUILD"
	NotReady        operation.Code = "NOT_READY"
	BuildCorrupt    operation.Code = "BUILD_CORRUPT"
	BuildInUse      operation.Code = "BUILD_IN_USE"
	AuditRequired   operation.Code = "AUDIT_REQUIRED"
)
