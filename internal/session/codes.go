package session

import "mcpx/internal/operation"

// The codes of this surface beside those that every tool has (runtime.md section 4.1; durable-work.md section 4).
const (
	FSUnsupported    operation.Code = "FS_UNSUPPORTED"
	HandoffInvalid   operation.Code = "HANDOFF_INVALID"
	JobsRunning      operation.Code = "JOBS_RUNNING"
	PlanNotFound     operation.Code = "PLAN_NOT_FOUND"
	PlanConflict     operation.Code = "PLAN_CONFLICT"
	PlanInvalid      operation.Code = "PLAN_INVALID"
	PlanCycle        operation.Code = "PLAN_CYCLE"
	PlanFinal        operation.Code = "PLAN_FINAL"
	DependencyOpen   operation.Code = "DEPENDENCY_OPEN"
	EvidenceRequired operation.Code = "EVIDENCE_REQUIRED"
	EvidenceInvalid  operation.Code = "EVIDENCE_INVALID"
)
