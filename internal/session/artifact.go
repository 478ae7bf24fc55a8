package session

import (
	"slices"
	"time"
	"unicode"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

// Artifact is a file as it was when it was registered. Its bytes are kept in parts, each by a reference; what a reference
// leads to never changes.
type Artifact struct {
	ID         string       `json:"artifact_id"`
	Principal  string       `json:"principal"` // who registered it; its parts belong to that one
	Project    string       `json:"project_id"`
	Session    string       `json:"remote_session_id,omitempty"`
	Operation  string       `json:"operation_id"`
	Path       string       `json:"path"` // below the root of the project
	Name       string       `json:"name"`
	Kind       ArtifactKind `json:"kind"`
	Media      string       `json:"media,omitempty"` // as its caller says
	SHA256     string       `json:"sha256"`          // hex, of all bytes
	Bytes      int64        `json:"bytes"`
	Registered time.Time    `json:"registered_at"`
	Parts      []string     `json:"parts"`
}

// ArtifactKind says what an artifact is for.
type ArtifactKind string

// The kinds.
const (
	ArtifactTestReport ArtifactKind = "test_report"
	ArtifactCoverage   ArtifactKind = "coverage"
	ArtifactBuild      ArtifactKind = "build"
	ArtifactScreenshot ArtifactKind = "screenshot"
	ArtifactLog        ArtifactKind = "log"
	ArtifactOther      ArtifactKind = "other"
)

// Bounds of an artifact, runtime.md section 11, and of what is said about it, in bytes.
const (
	MaxArtifact      = 256 << 20
	maxArtifactName  = 120
	maxArtifactMedia = 100
)

// Check refuses an artifact that does not say what it is. ARGUMENT_INVALID, LIMIT_EXCEEDED.
func (a Artifact) Check() error {
	if !slices.Contains([]ArtifactKind{ArtifactTestReport, ArtifactCoverage, ArtifactBuild, ArtifactScreenshot, ArtifactLog, ArtifactOther}, a.Kind) {
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no kind; test_report, coverage, build, screenshot, log and other are", a.Kind)
	}
	for _, c := range a.Media {
		if c > unicode.MaxASCII || !unicode.IsPrint(c) {
			return operation.Refuse(operation.ArgumentInvalid, "%.32q is no media type", a.Media)
		}
	}
	if err := within("media", len(a.Media), maxArtifactMedia); err != nil {
		return err
	}
	if !plainText(a.Name) {
		return operation.Refuse(operation.ArgumentInvalid, "the name holds what is no plain text")
	}
	return within("name", len(a.Name), maxArtifactName)
}

// ArtifactUnknown is the error for an id that no artifact has.
func ArtifactUnknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "artifact-unknown").Saying("there is no artifact %s", id).Hinting("the tool artifact lists them")
}

// ArtifactFinal is the error for an artifact that somebody tries to write again.
func ArtifactFinal(id string) *fault.Error {
	return fault.New(fault.Conflict, "artifact-final").Saying("the artifact %s is registered and cannot change", id).Hinting("register another one")
}
