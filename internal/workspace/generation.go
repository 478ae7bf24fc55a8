package workspace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"mcpx/internal/operation"
)

// GenerationState says where a generation stands.
type GenerationState string

// The states, durable-work.md section 6.
const (
	GenCandidate  GenerationState = "candidate"  // its producer runs
	GenSealing    GenerationState = "sealing"    // its outputs are copied to files that are ours alone
	GenValidating GenerationState = "validating" // the copy has its manifest and its id; validators run
	GenReady      GenerationState = "ready"
	GenSuperseded GenerationState = "superseded" // as ready; the same producer has made a newer one
	GenCorrupt    GenerationState = "corrupt"    // its bytes are not those of its manifest any more
	GenRejected   GenerationState = "rejected"   // final: there never was a build
	GenReleased   GenerationState = "released"   // final: its bytes are gone, its manifest and verdicts are kept
)

var (
	// GenerationsUnderWay are the states of a generation that becomes ready or is rejected.
	GenerationsUnderWay = []GenerationState{GenCandidate, GenSealing, GenValidating}
	// GenerationsThere are the states of a build that can be used.
	GenerationsThere = []GenerationState{GenReady, GenSuperseded}
)

// Why a candidate is rejected.
const (
	RejectedExit       = "exit"                   // its producer failed, or was not started
	RejectedWriting    = "PRODUCER_STILL_WRITING" // something that the producer started lives on
	RejectedMoving     = "moving"                 // its outputs change while they are sealed
	RejectedOutput     = "output"                 // an output is not there, or cannot be a part of a build
	RejectedValidation = "VALIDATION_FAILED"      // a validator failed, or was not started
	RejectedChanged    = "changed"                // the sealed bytes were others after the validators
	RejectedSpace      = "NO_SPACE"               // the disk was full; what was sealed is removed
	RejectedOrphan     = "orphan_candidate"       // a daemon died, and what it left does not verify
)

// Generation is a candidate, and the build that becomes of it.
type Generation struct {
	Candidate  string          `json:"candidate_id"`
	ID         string          `json:"build_id,omitempty"` // "" before it is sealed
	State      GenerationState `json:"state"`
	Why        string          `json:"why,omitempty"`  // of rejected
	Text       string          `json:"text,omitempty"` // what else is known of it
	Principal  string          `json:"principal"`
	Project    string          `json:"project_id"`
	Session    string          `json:"remote_session_id,omitempty"`
	Workspace  string          `json:"workspace_id"`
	Rev        int             `json:"rev"` // of the workspace, when the producer was started
	By         operation.Name  `json:"operation"`
	Producer   string          `json:"producer"` // the same for the same command with the same outputs
	Job        string          `json:"job_id"`
	Argv       string          `json:"argv_sha256"` // of the command as it was asked for
	Env        string          `json:"env_sha256"`  // of the names of the variables that it was given
	Outputs    []string        `json:"outputs"`
	Inputs     []string        `json:"inputs,omitempty"` // builds
	Validators []Validator     `json:"validators,omitempty"`
	Validated  bool            `json:"validated,omitempty"` // every validator has passed, and the bytes are the same
	TreeHash   string          `json:"tree_hash,omitempty"`
	Files      int             `json:"files"`
	Bytes      int64           `json:"bytes"`
	Dir        string          `json:"dir,omitempty"` // where the build is, or will be
	Retained   bool            `json:"retained,omitempty"`
	Created    time.Time       `json:"created_at"`
	Sealed     time.Time       `json:"sealed_at,omitzero"`
	Ready      time.Time       `json:"ready_at,omitzero"`
	Corrupted  time.Time       `json:"corrupted_at,omitzero"` // when its bytes were found to be others
	Seq        uint64          `json:"-"`                     // order of making, given by the store at the first put
}

// Validator is a command that says whether a sealed candidate is good.
type Validator struct {
	Argv    []string `json:"argv"`
	Timeout int      `json:"timeout_s"`
	Job     string   `json:"job_id,omitempty"`
	Asked   bool     `json:"asked,omitempty"`     // a person has said yes to it
	Code    *int     `json:"exit_code,omitempty"` // nil: it has not ended, or otherwise
	Passed  bool     `json:"passed"`
}

// Final tells that nothing happens to the generation any more.
func (s GenerationState) Final() bool { return s == GenRejected || s == GenReleased }

// UnderWay tells that it becomes ready or is rejected.
func (s GenerationState) UnderWay() bool { return slices.Contains(GenerationsUnderWay, s) }

// Name is the id of the build or, until there is one, of the candidate.
func (g Generation) Name() string { return cmp.Or(g.ID, g.Candidate) }

// Reject is the generation after its end without a build.
func (g Generation) Reject(why, text string) Generation {
	g.State, g.Why, g.Text = GenRejected, why, text
	return g
}

// SealedAs is the generation with the id that the bytes of its manifest give it. unique is a new id without them.
func (g Generation) SealedAs(unique, treeHash string) Generation {
	g.State, g.TreeHash = GenValidating, treeHash
	g.ID = unique + "_" + treeHash[:buildHash]
	return g
}

// buildHash is how many digits of its tree hash the id of a build ends with: one that was invented or mistyped is found out.
const buildHash = 12

// IsBuildID says whether a text may be the id of a build.
func IsBuildID(text string) bool {
	parts := strings.Split(text, "_")
	if len(parts) != 3 || parts[0] != "b" || len(parts[2]) != buildHash {
		return false
	}
	_, err := hex.DecodeString(parts[2])
	return err == nil
}

// ProducerOf names what makes builds: a command in a project with its outputs. A newer build that a principal makes with the
// same one supersedes the older ones of this principal.
func ProducerOf(project string, c operation.JobCommand, outputs []string) string {
	raw, err := json.Marshal(struct {
		Project, Shell string
		Argv, Outputs  []string
	}{project, c.Shell, c.Argv, slices.Sorted(slices.Values(outputs))})
	if err != nil {
		panic("workspace: a record of texts cannot be written: " + err.Error())
	}
	sum := sha256.Sum256(raw)
	return "prod_" + hex.EncodeToString(sum[:12])
}

// AuditState says where an audit stands. The last three are final.
type AuditState string

// The states, durable-work.md section 6.
const (
	AuditBound    AuditState = "bound"         // to one build
	AuditVerified AuditState = "pre_verified"  // the build was its manifest before the consumer began
	AuditRunning  AuditState = "running"       // the consumer runs
	AuditDone     AuditState = "post_verified" // and it was that at the end: the verdict counts
	AuditInvalid  AuditState = "invalid"       // the build was something else before or afterwards
	AuditLost     AuditState = "lost"          // nobody saw the end of the consumer, or it never began
)

// Verdict of an audit.
type Verdict string

// The verdicts.
const (
	Pass Verdict = "pass"
	Fail Verdict = "fail"
)

// Why an audit is invalid.
const (
	InvalidCorrupt = "build_corrupt"     // before the consumer
	InvalidChanged = "candidate_changed" // while it ran
)

// View is how a consumer sees a build.
type View string

// The views.
const (
	ReadonlyView View = "readonly_view" // the build itself
	PrivateCopy  View = "private_copy"  // a copy that it may change
)

// Audit is one run of a consumer on one build.
type Audit struct {
	ID        string         `json:"audit_id"`
	Build     string         `json:"build_id"`
	TreeHash  string         `json:"tree_hash"`
	State     AuditState     `json:"state"`
	Verdict   Verdict        `json:"verdict,omitempty"`
	Why       string         `json:"why,omitempty"`
	Principal string         `json:"principal"`
	Project   string         `json:"project_id"`
	By        operation.Name `json:"operation"`
	Job       string         `json:"job_id"`
	Argv      string         `json:"argv_sha256"`
	View      View           `json:"view"`
	Code      *int           `json:"exit_code"`           // nil: it ended otherwise, or not yet
	Pre       string         `json:"pre_hash,omitempty"`  // tree hash of what was there before
	Post      string         `json:"post_hash,omitempty"` // and afterwards
	Created   time.Time      `json:"created_at"`
	Ended     time.Time      `json:"ended_at,omitzero"`
	Seq       uint64         `json:"-"`
}

// AuditsUnderWay are the states of an audit that has no end yet: its build is not released.
var AuditsUnderWay = []AuditState{AuditBound, AuditVerified, AuditRunning}

// Final tells that the audit never changes again.
func (s AuditState) Final() bool { return !slices.Contains(AuditsUnderWay, s) }

// Conclude is the audit at the end of its consumer, with the hash of what the build is then. A verdict is given only on bytes
// that were the same all the time.
func (a Audit) Conclude(j operation.Job, post string, now time.Time) Audit {
	a.Post, a.Ended, a.Code = post, now, j.Code
	switch {
	case j.State == operation.JobLost, j.State == operation.JobFailed, !j.State.Final():
		a.State, a.Why = AuditLost, j.Reason
	case a.Pre != a.TreeHash, post != a.TreeHash:
		a.State, a.Why = AuditInvalid, InvalidChanged
	default:
		a.State, a.Verdict = AuditDone, Fail
		if j.State == operation.JobExited && j.Code != nil && *j.Code == 0 {
			a.Verdict = Pass
		}
	}
	return a
}

// Difference is how what is there differs from a manifest.
type Difference struct {
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Gone    []string `json:"gone,omitempty"`
}

// Same says that nothing differs.
func (d Difference) Same() bool { return len(d.Added)+len(d.Changed)+len(d.Gone) == 0 }

// Compare says how entries differ from the manifest.
func (m Manifest) Compare(now []Sealed) Difference {
	was := make(map[string]Sealed, len(m))
	for _, e := range m {
		was[e.Path] = e
	}
	var d Difference
	for _, e := range now {
		before, ok := was[e.Path]
		delete(was, e.Path)
		switch {
		case !ok:
			d.Added = append(d.Added, e.Path)
		case before != e:
			d.Changed = append(d.Changed, e.Path)
		}
	}
	for path := range was {
		d.Gone = append(d.Gone, path)
	}
	for _, list := range [][]string{d.Added, d.Changed, d.Gone} {
		slices.Sort(list)
	}
	return d
}
