package event

// The kinds. What an audit is asked about must not depend on the words of whoever drafts, so the list is closed: Check
// refuses others. docs/events.md is generated from Kinds.
const (
	ConfigObserved Kind = "config.observed"
	ConfigDrift    Kind = "config.drift"
	ConfigResolved Kind = "config.resolved"

	CatalogCreated     Kind = "catalog.created"
	CatalogChanged     Kind = "catalog.changed"
	CatalogRemoved     Kind = "catalog.removed"
	CatalogReviewed    Kind = "catalog.reviewed"
	CatalogImported    Kind = "catalog.imported"
	CatalogQuarantined Kind = "catalog.quarantined"

	CandidateStaged   Kind = "candidate.staged"
	CandidatePromoted Kind = "candidate.promoted"
	CandidateRejected Kind = "candidate.rejected"
	CandidateMerged   Kind = "candidate.merged"

	PlanMade           Kind = "plan.made"
	PlanSuperseded     Kind = "plan.superseded"
	PlanErrored        Kind = "plan.errored"
	PlanAutoAuthorized Kind = "plan.auto_authorized"
	PlanAutoRefused    Kind = "plan.auto_refused"

	ApprovalRequested Kind = "approval.requested"
	ApprovalDecided   Kind = "approval.decided"
	ApprovalConsumed  Kind = "approval.consumed"
	ApprovalExpired   Kind = "approval.expired"
	ApprovalRevoked   Kind = "approval.revoked"
	ApprovalRefused   Kind = "approval.refused"

	ApplyStarted   Kind = "apply.started"
	ApplyDone      Kind = "apply.done"
	ApplyUndone    Kind = "apply.undone"
	ApplyStale     Kind = "apply.stale"
	ApplyRefused   Kind = "apply.refused"
	ApplyRecovered Kind = "apply.recovered"

	RollbackStarted   Kind = "rollback.started"
	RollbackDone      Kind = "rollback.done"
	RollbackUndone    Kind = "rollback.undone"
	RollbackStale     Kind = "rollback.stale"
	RollbackRefused   Kind = "rollback.refused"
	RollbackRecovered Kind = "rollback.recovered"

	CredentialAdded   Kind = "credential.added"
	CredentialBound   Kind = "credential.bound"
	CredentialChecked Kind = "credential.checked"
	CredentialRotated Kind = "credential.rotated"
	CredentialRemoved Kind = "credential.removed"
	CredentialGranted Kind = "credential.granted"
	SecretUsed        Kind = "secret.used"

	AuthTokenIssued  Kind = "auth.token_issued"
	AuthTokenRotated Kind = "auth.token_rotated"
	AuthTokenRevoked Kind = "auth.token_revoked"
	AuthTokenDenied  Kind = "auth.token_denied"
	AuthOriginDenied Kind = "auth.origin_denied"
	AuthUserDenied   Kind = "auth.user_denied"

	ServerSignedIn     Kind = "server.signed_in"
	ServerSignedOut    Kind = "server.signed_out"
	ServerSignInFailed Kind = "server.sign_in_failed"
	ServerSignInEnded  Kind = "server.sign_in_ended"

	RemoteOn            Kind = "remote.on"
	RemoteOff           Kind = "remote.off"
	RemoteRegistered    Kind = "remote.registered"
	RemoteApproved      Kind = "remote.approved"
	RemoteDenied        Kind = "remote.denied"
	RemoteAccessGiven   Kind = "remote.access_given"
	RemoteAccessRevoked Kind = "remote.access_revoked"
	RemoteRefused       Kind = "remote.refused"

	AgentManaged         Kind = "agent.managed"
	AgentMounted         Kind = "agent.mounted"
	AgentCertified       Kind = "agent.certified"
	AgentCertificateVoid Kind = "agent.certificate_void"

	ServiceInstalled Kind = "service.installed"
	ServiceRemoved   Kind = "service.removed"

	CutoverImported Kind = "cutover.imported"
	CutoverApplied  Kind = "cutover.applied"

	OperationClaimed    Kind = "operation.claimed"
	OperationDispatched Kind = "operation.dispatched"
	OperationProgress   Kind = "operation.progress"
	OperationEnded      Kind = "operation.ended"

	PolicyDecided Kind = "policy.decided"

	FileChanged  Kind = "file.changed"
	FileRemoved  Kind = "file.removed"
	FileRestored Kind = "file.restored"

	JobQueued  Kind = "job.queued"
	JobStarted Kind = "job.started"
	JobInput   Kind = "job.input"
	JobStopped Kind = "job.stopped"
	JobEnded   Kind = "job.ended"

	WorkspaceOpened      Kind = "workspace.opened"
	WorkspaceIntegrated  Kind = "workspace.integrated"
	WorkspaceUndone      Kind = "workspace.undone"
	WorkspaceSuspended   Kind = "workspace.suspended"
	WorkspaceResumed     Kind = "workspace.resumed"
	WorkspaceScoped      Kind = "workspace.scoped"
	WorkspaceDisputed    Kind = "workspace.disputed"
	WorkspaceQuarantined Kind = "workspace.quarantined"
	WorkspaceMissing     Kind = "workspace.missing"
	WorkspaceRetired     Kind = "workspace.retired"

	GenerationReady    Kind = "generation.ready"
	GenerationRejected Kind = "generation.rejected"
	GenerationCorrupt  Kind = "generation.corrupt"
	GenerationRetained Kind = "generation.retained"
	GenerationReleased Kind = "generation.released"
	GenerationAudited  Kind = "generation.audited"

	SkillStarted Kind = "skill.started"

	RetentionRemoved Kind = "retention.removed"
	RetentionHeld    Kind = "retention.held"

	ProjectAdded   Kind = "project.added"
	ProjectRemoved Kind = "project.removed"
	ProjectMoved   Kind = "project.moved"
	ProjectFound   Kind = "project.found"
	ProjectRebound Kind = "project.rebound"
	ProjectGranted Kind = "project.granted"
	ProjectRevoked Kind = "project.revoked"

	TrustGranted Kind = "trust.granted"
	TrustRevoked Kind = "trust.revoked"
	TrustRefused Kind = "trust.refused"

	SessionOpened   Kind = "session.opened"
	SessionAttached Kind = "session.attached"
	SessionHandoff  Kind = "session.handoff"
	SessionRedeemed Kind = "session.redeemed"
	SessionGranted  Kind = "session.granted"
	SessionRevoked  Kind = "session.revoked"
	SessionClosed   Kind = "session.closed"

	ActivityIntent     Kind = "activity.intent"
	ActivityHypothesis Kind = "activity.hypothesis"
	ActivityEvidence   Kind = "activity.evidence"
	ActivityConclusion Kind = "activity.conclusion"
	ActivityNext       Kind = "activity.next"
	ActivityStatus     Kind = "activity.status"

	// What became of a work plan; plans for configuration files have the other kinds of this area.
	PlanCreated   Kind = "plan.created"
	PlanUpdated   Kind = "plan.updated"
	PlanReplanned Kind = "plan.replanned"
	PlanDelivered Kind = "plan.delivered"
	PlanCancelled Kind = "plan.cancelled"
)

// Kinds says what each kind tells.
var Kinds = map[Kind]string{
	ConfigObserved: "A file of an agent is new or differs from the last look at it.",
	ConfigDrift:    "An entry does not agree with the catalog, or with what its agent shall have.",
	ConfigResolved: "What did not agree does so now.",

	CatalogCreated:     "A server came into the catalog.",
	CatalogChanged:     "The entry of a server was changed; review, lifecycle and risk are named when they changed.",
	CatalogRemoved:     "A server left the catalog.",
	CatalogReviewed:    "A person judged a server or its tools.",
	CatalogImported:    "A file with servers was imported.",
	CatalogQuarantined: "A tool of a server no longer is what was accepted, and is held back.",

	CandidateStaged:   "A server was found that the catalog does not have.",
	CandidatePromoted: "A person made a candidate a server of the catalog.",
	CandidateRejected: "A person does not want a candidate.",
	CandidateMerged:   "A person said that a candidate is a server which the catalog has.",

	PlanMade:           "A plan was made.",
	PlanSuperseded:     "What a plan was made from has changed, so the plan counts no more.",
	PlanErrored:        "A plan would break something, so it is not offered.",
	PlanAutoAuthorized: "A line of the policy allowed a plan without a person; the body quotes it.",
	PlanAutoRefused:    "A plan was not applied by itself; the body has the codes.",

	ApprovalRequested: "A person was asked.",
	ApprovalDecided:   "A person said yes or no.",
	ApprovalConsumed:  "A yes was used.",
	ApprovalExpired:   "Nobody answered in time, or a yes was not used in time.",
	ApprovalRevoked:   "What was asked about has changed, so the question counts no more.",
	ApprovalRefused:   "A decision was not accepted; the body has the code.",

	ApplyStarted:   "The files of a plan are about to be written.",
	ApplyDone:      "All files of a plan are written.",
	ApplyUndone:    "An apply failed; nothing of it is in the files.",
	ApplyStale:     "A file was not what the plan expects; nothing was written.",
	ApplyRefused:   "An apply was refused before it began; the body has the code.",
	ApplyRecovered: "An apply that was cut off was decided at the start of the daemon.",

	RollbackStarted:   "The files of a receipt are about to be put back.",
	RollbackDone:      "What a receipt did is taken back.",
	RollbackUndone:    "A rollback failed; nothing of it is in the files.",
	RollbackStale:     "A file was not what the rollback expects; nothing was written.",
	RollbackRefused:   "A rollback was refused before it began; the body has the code.",
	RollbackRecovered: "A rollback that was cut off was decided at the start of the daemon.",

	CredentialAdded:   "A credential got its reference or its value. Events hold names, never values.",
	CredentialBound:   "A variable or header of a server takes its value from a credential.",
	CredentialChecked: "The readiness of a credential changed.",
	CredentialRotated: "A credential got another value.",
	CredentialRemoved: "A credential was removed.",
	CredentialGranted: "Which commands of agents may be given a credential was said anew.",
	SecretUsed:        "A command is about to be started with the values of secrets; the body has their names.",

	AuthTokenIssued:  "An agent got a token.",
	AuthTokenRotated: "An agent got a token in place of another.",
	AuthTokenRevoked: "A token counts no more.",
	AuthTokenDenied:  "Somebody without a valid token was refused.",
	AuthOriginDenied: "A web page of another origin was refused.",
	AuthUserDenied:   "Another user of the machine was refused.",

	ServerSignedIn:     "mcpx is signed in at a server behind a URL; the event never holds a token.",
	ServerSignedOut:    "The sign-in at a server was forgotten, because somebody wanted that or the server was removed.",
	ServerSignInFailed: "Nobody was signed in at a server: what it or its authorization server said was refused, or nobody said yes.",
	ServerSignInEnded:  "The sign-in at a server counts no more: its tokens cannot be renewed, or the server does not take them.",

	RemoteOn:            "Clients on other machines can ask for access.",
	RemoteOff:           "No client on another machine has access any more.",
	RemoteRegistered:    "Clients on other machines registered, so many since the event before; nothing is kept of that, and nobody is let in by it.",
	RemoteApproved:      "A person said yes to a client; the event never holds the code.",
	RemoteDenied:        "A person said no to a client.",
	RemoteAccessGiven:   "A client got access over OAuth.",
	RemoteAccessRevoked: "The access of a client ended before its time.",
	RemoteRefused:       "Somebody on another machine was refused.",

	AgentManaged:         "A person said how far mcpx goes with an agent.",
	AgentMounted:         "A person said which servers an agent shall have.",
	AgentCertified:       "A real client passed its scenarios on this machine.",
	AgentCertificateVoid: "A certificate counts no more: client, adapter or time has changed.",

	ServiceInstalled: "The daemon became a service of the user.",
	ServiceRemoved:   "The daemon is no longer a service of the user.",

	CutoverImported: "The servers of another hub were imported.",
	CutoverApplied:  "A person decided that another hub is retired.",

	OperationClaimed:    "The id of an operation was taken: from here on it belongs to this call.",
	OperationDispatched: "The effect of an operation begins.",
	OperationProgress:   "The effect of an operation on many files has come so far: one event for every 500 of them.",
	OperationEnded:      "An operation ended: succeeded, failed, or nobody knows how.",

	JobQueued:  "A command waits for its turn.",
	JobStarted: "A command was started.",

	PolicyDecided: "The rules were asked whether an effect may begin: it may, a person has to say so, or it was refused; the body has the reasons.",

	FileChanged:  "A file was written or renamed for an agent; the body has the difference.",
	FileRemoved:  "A file or directory was removed for an agent, and lies where it can be restored from.",
	FileRestored: "What was removed was put back.",
	JobInput:     "Something was written to the standard input of a command; the event says how much, never what.",
	JobStopped:   "Somebody wants a command to end.",
	JobEnded:     "A command ended, could not be started, or is lost; the body says how.",

	WorkspaceOpened:      "A workspace was made, and its copy is complete.",
	WorkspaceIntegrated:  "The changes of a workspace were applied to its project.",
	WorkspaceUndone:      "An integration was taken back: the project has what it had before.",
	WorkspaceSuspended:   "A workspace was put aside; its scope is free.",
	WorkspaceResumed:     "A workspace goes on.",
	WorkspaceScoped:      "What a workspace may change was changed.",
	WorkspaceDisputed:    "An integration met changes of somebody else; resolve_operation decides.",
	WorkspaceQuarantined: "A directory that nobody vouches for was put aside, as it was.",
	WorkspaceRetired:     "A workspace was removed; what was only in it is kept.",
	WorkspaceMissing:     "The directory of a workspace is gone; resume_workspace restores it from its last snapshot.",

	GenerationReady:    "Outputs of a producer are a build: sealed, hashed and validated.",
	GenerationRejected: "Outputs of a producer are no build; the body says why.",
	GenerationCorrupt:  "The bytes of a build are not those of its manifest; the body names the difference.",
	GenerationRetained: "A build is kept until it is released.",
	GenerationReleased: "The bytes of a build are gone; its manifest and its verdicts are kept.",
	GenerationAudited:  "A consumer of a build has ended; the body has the verdict.",

	SkillStarted: "A skill is run, after the yes of a person; the body says which revision.",

	RetentionRemoved: "Old data were removed; the body says which. Envelopes of events and outcomes of operations stay.",
	RetentionHeld:    "The clock has jumped, so nothing is removed for some time; the body says by how much, and how long.",

	ProjectAdded:   "A directory was registered as a project.",
	ProjectRemoved: "A project was unregistered; its records stay.",
	ProjectMoved:   "Another directory, or none, is at the path of a project; nothing in it is changed until a person rebinds it.",
	ProjectFound:   "The directory of a project is at its path again.",
	ProjectRebound: "A person said which directory a project is now.",
	ProjectGranted: "Somebody got a role on a project.",
	ProjectRevoked: "Somebody has no role on a project any more.",

	TrustGranted: "A person agreed to what the repository of a project can start, as it was shown.",
	TrustRevoked: "A person trusts the repository of a project no more.",
	TrustRefused: "A decision about the trust of a project was not accepted; the body has the code.",

	SessionOpened:   "A remote session was opened.",
	SessionAttached: "A client attached to a remote session.",
	SessionHandoff:  "A hand-over of a remote session was made; the event never holds its token.",
	SessionRedeemed: "Somebody came into a remote session by a hand-over.",
	SessionGranted:  "Somebody got a role in a remote session.",
	SessionRevoked:  "Somebody has no role in a remote session any more.",
	SessionClosed:   "A remote session was closed.",

	ActivityIntent:     "A model says what it is about to do. It is a claim; a new one begins a turn.",
	ActivityHypothesis: "A model says what it assumes. It is a claim.",
	ActivityEvidence:   "A model says what speaks for it. It is a claim.",
	ActivityConclusion: "A model says what follows. It is a claim.",
	ActivityNext:       "A model says what comes next. It is a claim.",
	ActivityStatus:     "A model says how far it is. It is a claim.",

	PlanCreated:   "A session made a work plan.",
	PlanUpdated:   "A task of a work plan has another state or more evidence.",
	PlanReplanned: "The tasks of a work plan were changed.",
	PlanDelivered: "A work plan passed its checks and is delivered.",
	PlanCancelled: "A work plan was cancelled.",
}

// allRefs are the refs that Check accepts.
var allRefs = []Ref{
	RefAgent, RefApproval, RefAudit, RefBuild, RefCandidate, RefCredential, RefJob, RefOperation, RefPath, RefPlan, RefProject, RefReceipt, RefServer,
	RefSession, RefTask, RefToken, RefWorkspace,
}
