package control

import (
	"context"
	"fmt"
	"slices"

	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
	"mcpx/internal/store"
)

// StageCandidates makes candidates of the findings that no server of the catalog matches, in the transaction of the look
// that found them. Looked says whether a file of an agent was looked at: candidates seen only elsewhere stay as they
// are. It gives the candidates that changed.
func (c *Control) StageCandidates(ctx context.Context, tx store.Tx, findings []converge.Finding, looked func(agent, file string) bool) ([]catalog.Candidate, error) {
	existing, err := catalog.AllCandidates(ctx, tx)
	if err != nil {
		return nil, err
	}
	servers, err := catalog.All(ctx, tx)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for _, s := range servers {
		ids[s.ID] = true
	}
	var found []catalog.Found
	for _, f := range findings {
		if one, ok := foundBy(f); ok {
			found = append(found, one)
		}
	}
	changed := catalog.Stage(existing, found, catalog.Staging{
		Looked: func(s catalog.Seen) bool { return looked(s.Agent, s.File) },
		Exists: func(server string) bool { return ids[server] },
		Now:    c.cfg.Now(),
	})
	for _, candidate := range changed {
		if err := tx.PutCandidate(ctx, catalog.PutCandidate{Candidate: candidate}); err != nil {
			return nil, err
		}
		was := slices.IndexFunc(existing, func(old catalog.Candidate) bool { return old.ID == candidate.ID })
		if candidate.State != catalog.CandidateNew || was >= 0 && existing[was].State == catalog.CandidateNew {
			continue // known already, or only its places changed
		}
		err := c.tell(ctx, tx, event.CandidateStaged, event.Refs{event.RefCandidate: candidate.ID},
			fmt.Sprintf("%s is not in the catalog (%s)", candidate.Name, candidate.Package.Name), candidate)
		if err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// foundBy is what a finding says about a server that is not in the catalog. An entry that is off, routed, unreadable or
// dangerous is none, and neither is one that may be a server of the catalog.
func foundBy(f converge.Finding) (catalog.Found, bool) {
	switch f.Class {
	case converge.Unknown, converge.Ineffective, converge.NameConflict:
	case converge.Compliant, converge.Dormant, converge.Bypass, converge.Ambiguous, converge.Broken, converge.Unsupported, converge.Unsafe:
		return catalog.Found{}, false
	}
	if f.Package == nil || f.Routed != nil || f.Match.Confidence != catalog.MatchNone && f.Match.Confidence != catalog.MatchWeak {
		return catalog.Found{}, false
	}
	return catalog.Found{
		Package: *f.Package,
		Shape: catalog.Shape{
			Transport: f.Transport, Command: f.Command, Args: f.Args, URL: f.URL, Cwd: f.Cwd,
			Variables: slices.Sorted(slices.Values(f.Variables)), Headers: slices.Sorted(slices.Values(f.Headers)), Hidden: f.Facts.Hidden,
		},
		Seen:    catalog.Seen{Agent: f.Agent, File: f.File, Scope: f.Scope, Name: f.Name, Observation: f.ID, Digest: f.Digest},
		Reasons: f.Match.Reasons,
	}, true
}

// linked leads from the digest of an entry to the id of the server that a person has said it is.
func linked(ctx context.Context, r catalog.CandidateReader) (map[string]string, error) {
	links, err := r.Links(ctx)
	out := make(map[string]string, len(links))
	for _, l := range links {
		out[l.Digest] = l.Server
	}
	return out, err
}
