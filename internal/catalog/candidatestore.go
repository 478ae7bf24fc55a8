package catalog

import (
	"context"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// Link is a person's word that an entry of an agent's file is a server of the catalog. It holds for these bytes of the
// entry: a changed entry is compared anew.
type Link struct {
	Digest      string  `json:"digest"` // of the entry
	Observation string  `json:"observation_id"`
	Server      string  `json:"server"` // id
	Verdict     Verdict `json:"verdict"`
}

// CandidateReader reads the candidates and the links. It is part of the transaction port that package store joins.
type CandidateReader interface {
	// Candidates is one page in order of id. A page that is shorter than the limit is the last one.
	Candidates(ctx context.Context, p ListCandidates) ([]Candidate, error)
	// CandidateByID finds one by its id, or by a beginning of it that only one has. NotFound candidate-unknown, Invalid
	// candidate-ambiguous.
	CandidateByID(ctx context.Context, p CandidateByID) (Candidate, error)
	// Links are all links, by digest.
	Links(ctx context.Context) ([]Link, error)
}

// CandidateStore reads and changes them.
type CandidateStore interface {
	CandidateReader
	// PutCandidate writes a candidate whole, new or in place of the one with the same id.
	PutCandidate(ctx context.Context, p PutCandidate) error
	// PutLink writes a link in place of that for the same digest. It ends with its server. NotFound server-unknown.
	PutLink(ctx context.Context, p PutLink) error
}

// MaxCandidatePage bounds one page of Candidates: each has up to maxSightings places.
const MaxCandidatePage = 200

// ListCandidates asks for the candidates after After that fit every condition that is set.
type ListCandidates struct {
	After string
	State CandidateState // "" every one
	Limit int            // 0 and everything above MaxCandidatePage is MaxCandidatePage
}

// PageLimit is the number of candidates that the page may hold.
func (p ListCandidates) PageLimit() int {
	if p.Limit < 1 || p.Limit > MaxCandidatePage {
		return MaxCandidatePage
	}
	return p.Limit
}

// CandidateByID names one candidate.
type CandidateByID struct{ ID string }

// PutCandidate carries the candidate to write.
type PutCandidate struct{ Candidate Candidate }

// PutLink carries the link to write.
type PutLink struct{ Link Link }

// AllCandidates reads every candidate, page by page, in order of id.
func AllCandidates(ctx context.Context, r CandidateReader) ([]Candidate, error) {
	return page.All(MaxCandidatePage, func(last *Candidate) ([]Candidate, error) {
		var list ListCandidates
		if last != nil {
			list.After = last.ID
		}
		return r.Candidates(ctx, list)
	})
}

// CandidateUnknown is the error of an id that no candidate has.
func CandidateUnknown(id string) *fault.Error {
	return fault.New(fault.NotFound, "candidate-unknown").Saying("no candidate has the id %q", id).
		Hinting("run `mcpx catalog candidates` to see the ids")
}

// CandidateAmbiguous is the error of a beginning that several ids have.
func CandidateAmbiguous(id string) *fault.Error {
	return fault.New(fault.Invalid, "candidate-ambiguous").Saying("several candidates have an id that begins with %q", id).
		Hinting("write more of it; `mcpx catalog candidates` shows the ids")
}

// PinsNone is the error of a server whose tools nobody has agreed to.
func PinsNone(server string) *fault.Error {
	return fault.New(fault.NotFound, "pins-none").Saying("no tools of %s are pinned", server).
		Hinting("run `mcpx catalog review %s --tools` to see and pin them", server)
}
