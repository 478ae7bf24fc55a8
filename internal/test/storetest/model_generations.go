package storetest

import (
	"context"
	"maps"
	"slices"

	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// kiln is the part of the model for generations and audits.
type kiln struct {
	generations map[string]workspace.Generation // by candidate
	audits      map[string]workspace.Audit
	fired       uint64
}

func newKiln() kiln {
	return kiln{generations: map[string]workspace.Generation{}, audits: map[string]workspace.Audit{}}
}

func (k kiln) clone() kiln { return kiln{maps.Clone(k.generations), maps.Clone(k.audits), k.fired} }

func (s *state) GenerationByID(_ context.Context, p workspace.ByID) (workspace.Generation, error) {
	for _, g := range s.generations {
		if p.ID != "" && (g.Candidate == p.ID || g.ID == p.ID) {
			seq := g.Seq
			g, err := twin(g)
			g.Seq = seq
			return g, err
		}
	}
	return workspace.Generation{}, workspace.UnknownGeneration(p.ID)
}

func (s *state) Generations(_ context.Context, p workspace.ListGenerations) ([]workspace.Generation, error) {
	var all []workspace.Generation
	for _, g := range s.generations {
		if p.Fits(g) && (p.Before == 0 || g.Seq < p.Before) {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b workspace.Generation) int { return int(b.Seq) - int(a.Seq) })
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) PutGeneration(_ context.Context, p workspace.PutGeneration) error {
	before, there := s.generations[p.Generation.Candidate]
	if before.State.Final() && p.Generation.State != before.State {
		return workspace.FinalGeneration(p.Generation.Candidate)
	}
	g, err := twin(p.Generation)
	if err != nil {
		return err
	}
	g.Created, g.Sealed, g.Ready, g.Corrupted = store.CutTime(g.Created), store.CutTime(g.Sealed), store.CutTime(g.Ready), store.CutTime(g.Corrupted)
	if g.Seq = before.Seq; !there {
		s.fired++
		g.Seq = s.fired
	}
	s.generations[g.Candidate] = g
	return nil
}

func (s *state) AuditByID(_ context.Context, p workspace.ByID) (workspace.Audit, error) {
	a, ok := s.audits[p.ID]
	if !ok {
		return a, workspace.UnknownAudit(p.ID)
	}
	seq := a.Seq
	a, err := twin(a)
	a.Seq = seq
	return a, err
}

func (s *state) Audits(_ context.Context, p workspace.ListAudits) ([]workspace.Audit, error) {
	var all []workspace.Audit
	for _, a := range s.audits {
		if p.Fits(a) && (p.Before == 0 || a.Seq < p.Before) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b workspace.Audit) int { return int(b.Seq) - int(a.Seq) })
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) PutAudit(_ context.Context, p workspace.PutAudit) error {
	before, there := s.audits[p.Audit.ID]
	if there && before.State.Final() {
		return workspace.FinalAudit(p.Audit.ID)
	}
	a, err := twin(p.Audit)
	if err != nil {
		return err
	}
	a.Created, a.Ended = store.CutTime(a.Created), store.CutTime(a.Ended)
	if a.Seq = before.Seq; !there {
		s.fired++
		a.Seq = s.fired
	}
	s.audits[a.ID] = a
	return nil
}
