package converge

// Codes of this file stand in plans: reasons, classes of risk, refusals. Each is explained in Codes.

// Why a plan is made.
const (
	reasonBypass       = "bypass"
	reasonStalePort    = "stale-port"
	reasonMissing      = "missing"
	reasonExtra        = "extra"
	reasonUnwanted     = "unwanted"
	reasonDuplicate    = "duplicate"
	reasonHubMissing   = "control-plane-missing"
	reasonHubStrategy  = "control-plane-strategy"
	reasonNotCataloged = "not-in-catalog"
	reasonAskedFor     = "asked-for"
	reasonMoveSecret   = "raw-secret"
)

// Why a routed entry gets one form and not the other.
const (
	formWorkspace = "workspace-bound"
	formAgent     = "sharing-agent"
	formToken     = "token-required"
	formPassed    = "variables-passed"
)

// What has to be done first.
const (
	needReview    = "candidate-pending"
	needBinding   = "binding-unresolved"
	needRoutable  = "server-not-routable"
	needSameValue = "credential-exists"
	needWorkspace = "sharing-not-workspace"
)

// What makes a plan errored before its bytes are known. Those of the bytes are told by package clientfile.
const (
	problemLayers     = "layer-conflict"
	problemHeaderLeak = "header-leak-by-merge"
	problemName       = "name-taken"
	problemDeprecated = "server-deprecated"
	problemNoListener = "no-listener"
	problemNoFile     = "no-file"
	problemUnroute    = "unroute-credential"
	problemProgram    = "program-unknown"
	problemStrategy   = "strategy-unsupported"
)

// What raises the risk of a plan.
const (
	riskVariables = "variables-involved"
	riskHeaders   = "headers-involved"
	riskCwd       = "cwd-involved"
	riskExtra     = "unknown-fields"
	riskShared    = "file-shared"
	riskSecret    = "secret-involved"
	riskRemoves   = "entry-removed"
	riskNew       = "new-in-catalog"
	riskEndpoint  = "endpoint-changed"
	riskField     = "ineffective-field"
	riskServer    = "server-risk"
	riskEveryone  = "binding-for-everyone"
)
