package workspace

import (
	"context"
	"slices"

	"mcpx/internal/fault"
	"mcpx/internal/page"
)

// GenerationReader reads the generations and their audits. It is part of the transaction port that package store joins.
type GenerationReader interface {
	// GenerationByID finds one by the whole id of its candidate or of its build. NotFound generation-unknown.
	GenerationByID(ctx context.Context, p ByID) (Generation, error)
	// Generations is one page, the newest first. A page that is shorter than the limit is the last one.
	Generations(ctx context.Context, p ListGenerations) ([]Generation, error)
	// AuditByID finds one by its whole id. NotFound audit-unknown.
	AuditByID(ctx context.Context, p ByID) (Audit, error)
	// Audits is one page, the newest first.
	Audits(ctx context.Context, p ListAudits) ([]Audit, error)
}

// GenerationStore reads and changes them.
type GenerationStore interface {
	GenerationReader
	// PutGeneration writes a generation whole. Conflict generation-final when the stored one is rejected or released and
	// the new one is not.
	PutGeneration(ctx context.Context, p PutGeneration) error
	// PutAudit writes an audit whole. Conflict audit-final when the stored one has ended: what is known later is said by
	// its build.
	PutAudit(ctx context.Context, p PutAudit) error
}

// PutGeneration carries the generation to write.
type PutGeneration struct{ Generation Generation }

// PutAudit carries the audit to write.
type PutAudit struct{ Audit Audit }

// ListGenerations asks for the generations that fit every condition that is set.
type ListGenerations struct {
	Principal string // "" everybody's
	Project   string
	Workspace string
	Producer  string
	States    []GenerationState // none: every one
	Before    uint64            // Seq of the last one of the page before; 0 begins with the newest
	Limit     int               // 0 and everything above MaxPage is MaxPage
}

// PageLimit is the number of generations that the page may hold.
func (p ListGenerations) PageLimit() int { return limited(p.Limit) }

// Fits says whether a generation is one of those that are asked for, apart from the page.
func (p ListGenerations) Fits(g Generation) bool {
	return (p.Principal == "" || g.Principal == p.Principal) && (p.Project == "" || g.Project == p.Project) &&
		(p.Workspace == "" || g.Workspace == p.Workspace) && (p.Producer == "" || g.Producer == p.Producer) &&
		(len(p.States) == 0 || slices.Contains(p.States, g.State))
}

// ListAudits asks for the audits of a build, or of all, in some states.
type ListAudits struct {
	Build  string
	States []AuditState // none: every one
	Before uint64
	Limit  int
}

// PageLimit is the number of audits that the page may hold.
func (p ListAudits) PageLimit() int { return limited(p.Limit) }

// Fits says whether an audit is one of those that are asked for, apart from the page.
func (p ListAudits) Fits(a Audit) bool {
	return (p.Build == "" || a.Build == p.Build) && (len(p.States) == 0 || slices.Contains(p.States, a.State))
}

// AllGenerations reads every generation that fits, the newest first.
func AllGenerations(ctx context.Context, r GenerationReader, p ListGenerations) ([]Generation, error) {
	return page.All(p.PageLimit(), func(last *Generation) ([]Generation, error) {
		if last != nil {
			p.Before = last.Seq
		}
		return r.Generations(ctx, p)
	})
}

// AllAudits reads every audit that fits, the newest first.
func AllAudits(ctx context.Context, r GenerationReader, p ListAudits) ([]Audit, error) {
	return page.All(p.PageLimit(), func(last *Audit) ([]Audit, error) {
		if last != nil {
			p.Before = last.Seq
		}
		return r.Audits(ctx, p)
	})
}

// UnknownGeneration is the error for an id that no candidate and no build has.
func UnknownGeneration(id string) *fault.Error {
	return fault.New(fault.NotFound, "generation-unknown").Saying("there is no build %s", id).Hinting("`mcpx generation list --all` shows them")
}

// FinalGeneration is the error for a generation that is rejected or released.
func FinalGeneration(id string) *fault.Error {
	return fault.New(fault.Conflict, "generation-final").Saying("the build of %s is gone and stays so", id).Hinting("start its producer again")
}

// UnknownAudit is the error for an id that no audit has.
func UnknownAudit(id string) *fault.Error {
	return fault.New(fault.NotFound, "audit-unknown").Saying("there is no audit %s", id).Hinting("generation_status shows the audits of a build")
}

// FinalAudit is the error for an audit that has ended.
func FinalAudit(id string) *fault.Error {
	return fault.New(fault.Conflict, "audit-final").Saying("the audit %s has ended, and what has ended does not change", id).Hinting("start another consumer")
}
