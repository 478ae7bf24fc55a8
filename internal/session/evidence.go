package session

import (
	"slices"
	"strings"

	"mcpx/internal/lazyregexp"
	"mcpx/internal/operation"
)

// EvidenceKind says what a piece of evidence refers to.
type EvidenceKind string

// The kinds of evidence.
const (
	EvidenceRead     EvidenceKind = "read"     // path@sha256 that was read in this session
	EvidenceSource   EvidenceKind = "source"   // path@sha256 as it is now in the target
	EvidenceEdit     EvidenceKind = "edit"     // an operation that succeeded
	EvidenceJob      EvidenceKind = "job"      // a job that exited with 0
	EvidenceBuild    EvidenceKind = "build"    // a build with a passing audit
	EvidenceArtifact EvidenceKind = "artifact" // a registered id
)

// Evidence is one reference to the record.
type Evidence struct {
	Kind EvidenceKind `json:"kind"`
	Ref  string       `json:"ref"`
}

// Verifies says whether the evidence is of something that was tried out, not only written or read.
func (e Evidence) Verifies() bool { return e.Kind == EvidenceJob || e.Kind == EvidenceBuild }

// File gives path and hash of a piece of evidence of kind read or source.
func (e Evidence) File() (path, sha256 string) {
	at := strings.LastIndexByte(e.Ref, '@')
	if at < 0 {
		return "", ""
	}
	return e.Ref[:at], e.Ref[at+1:]
}

// Judge looks into the record and says why a piece of evidence does not hold, "" when it does. An error means that nobody
// can tell now; it is no verdict.
type Judge func(Evidence) (why string, err error)

var sha256Form = lazyregexp.New(`^[0-9a-f]{64}$`)

// wellFormed says why a reference cannot be one, "" when it can.
func (e Evidence) wellFormed() string {
	switch e.Kind {
	case EvidenceRead, EvidenceSource:
		if path, sum := e.File(); path == "" || !sha256Form().MatchString(sum) || len(e.Ref) > maxRef || !plainText(path) {
			return "ref is path@sha256, the hash with 64 small hexadecimal digits"
		}
		return ""
	case EvidenceEdit, EvidenceJob, EvidenceBuild, EvidenceArtifact:
		if e.Ref == "" || len(e.Ref) > 128 || !plainText(e.Ref) {
			return "ref is no id"
		}
		return ""
	}
	return "kind is one of read, source, edit, job, build, artifact"
}

// prove adds evidence that holds; one piece that does not rejects all.
func (t *Task) prove(more []Evidence, judge Judge) error {
	for i, e := range more {
		why := e.wellFormed()
		if why == "" {
			var err error
			if why, err = judge(e); err != nil {
				return err
			}
		}
		if why != "" {
			return operation.Refuse(EvidenceInvalid, "evidence %d does not hold: %s", i, why).With("task", t.Key).With("index", i).With("why", why)
		}
		if !slices.Contains(t.Evidence, e) {
			t.Evidence = append(t.Evidence, e)
		}
	}
	return within("evidence", len(t.Evidence), MaxEvidence)
}
