package api

import "mcpx/internal/workspace"

// Generation is a candidate, and the build that becomes of it.
type Generation struct {
	workspace.Generation
	ProjectName string `json:"project"`
	Last        string `json:"audit,omitempty"` // verdict or state of its last audit
}

// GenerationsQuery selects candidates and builds of everybody.
type GenerationsQuery struct {
	Project   string `json:"-" query:"project"`   // name, id or path; "" of every one
	Workspace string `json:"-" query:"workspace"` // id or a beginning of it; "" of every one
	Producer  string `json:"-" query:"producer"`
	All       bool   `json:"-" query:"all"`    // those that are rejected or released, too
	Before    int    `json:"-" query:"before"` // GenerationPage.Before of the page before
	Limit     int    `json:"-" query:"limit"`  // 0 means MaxRows
}

// GenerationPage is a list of candidates and builds, the newest first, without their validators.
type GenerationPage struct {
	Generations []Generation `json:"generations"`
	Before      int          `json:"before,omitempty"` // where the next page goes on; absent at the last one
	Next        []string     `json:"next"`             // commands
}

// GenerationRef names one candidate or build.
type GenerationRef struct {
	Build string `json:"-" path:"build"` // id of the build or of its candidate, or a beginning of it
}

// GenerationView is one candidate or build, with the verdicts about it.
type GenerationView struct {
	Generation
	Audits []GenerationAudit `json:"audits"` // the newest first
	Next   []string          `json:"next"`   // commands
}

// GenerationAudit is one run of a consumer on a build.
type GenerationAudit struct {
	workspace.Audit
	EvidenceLost bool `json:"evidence_lost,omitempty"` // the build is not what the verdict is about any more
}

// End is the verdict of an audit or, without one that counts, its state.
func (a GenerationAudit) End() string {
	switch {
	case a.EvidenceLost:
		return "evidence_lost"
	case a.State == workspace.AuditDone:
		return string(a.Verdict)
	}
	return string(a.State)
}

// GenerationCheck is how far the reading of a build has come, and the last one what came of it.
type GenerationCheck struct {
	Build      string                    `json:"build_id"`
	State      workspace.GenerationState `json:"state"`
	TreeHash   string                    `json:"tree_hash"` // of its manifest
	Files      int                       `json:"files"`
	Bytes      int64                     `json:"bytes"`
	Read       int64                     `json:"read_bytes"` // so far
	Done       bool                      `json:"done"`       // it is the last one
	Same       bool                      `json:"same"`       // at the end: every byte is that of the manifest
	Difference *workspace.Difference     `json:"difference,omitempty"`
	TookMS     int64                     `json:"took_ms,omitempty"`
	Text       string                    `json:"text"`
	Next       []string                  `json:"next"` // commands
}

// GenerationChanged is what became of a build.
type GenerationChanged struct {
	State      string     `json:"state"` // of the build, or retained; already_... when there was nothing to do
	Already    bool       `json:"already,omitempty"`
	Generation Generation `json:"generation"`
	Warnings   []string   `json:"warnings,omitempty"`
	Text       string     `json:"text"`
	Next       []string   `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}

// ProduceGeneration starts a command in a workspace whose outputs become a build.
type ProduceGeneration struct {
	Workspace  string   `json:"workspace"` // id, a beginning of it, or a handle: then it has to be at that revision
	Argv       []string `json:"argv"`
	Outputs    []string `json:"outputs"`              // paths in the scope of the workspace
	Validators []string `json:"validators,omitempty"` // commands of the shell that have to succeed on the sealed outputs
	Inputs     []string `json:"inputs,omitempty"`     // whole ids of builds that the command finds in MCPX_INPUTS
	Timeout    int      `json:"timeout_s,omitempty"`  // seconds; 0 an hour
}

// ConsumeGeneration starts a command that gives a verdict about a build.
type ConsumeGeneration struct {
	Build     string   `json:"-" path:"build"` // whole id: a verdict is about bytes, and none are guessed
	Argv      []string `json:"argv"`
	Copy      bool     `json:"copy,omitempty"`      // the command gets a copy that it may change
	Workspace string   `json:"workspace,omitempty"` // it runs there instead of in the build
	Timeout   int      `json:"timeout_s,omitempty"` // seconds; 0 an hour
}

// What the start of a producer or a consumer has come to: GenerationStarted.State.
const (
	GenerationStarts = "started"
	GenerationWaits  = "waiting" // a person has to be asked
)

// GenerationStarted is a producer or a consumer that was started, or waits for a person.
type GenerationStarted struct {
	State     string   `json:"state"`
	Candidate string   `json:"candidate_id,omitempty"` // of a producer
	Build     string   `json:"build_id,omitempty"`     // of a consumer
	Audit     string   `json:"audit_id,omitempty"`     // of a consumer
	Job       string   `json:"job_id,omitempty"`
	Approval  string   `json:"approval,omitempty"` // that it waits for
	Warnings  []string `json:"warnings,omitempty"`
	Text      string   `json:"text"`
	Next      []string `json:"next"` // commands

	Operation string `json:"operation,omitempty"`
}
