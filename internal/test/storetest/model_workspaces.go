package storetest

import (
	"context"
	"slices"
	"strings"

	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// shelf is the part of the model for workspaces.
type shelf struct {
	workspaces   map[string]workspace.Workspace
	integrations []workspace.Integration // in their order
	shelved      uint64
}

func newShelf() shelf { return shelf{workspaces: map[string]workspace.Workspace{}} }

func (s *state) WorkspaceByID(_ context.Context, p workspace.ByID) (workspace.Workspace, error) {
	var found []workspace.Workspace
	for _, w := range s.workspaces {
		if w.ID == p.ID {
			return numbered(w)
		}
		if p.ID != "" && strings.HasPrefix(w.ID, p.ID) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 0:
		return workspace.Workspace{}, workspace.Unknown(p.ID)
	case 1:
		return numbered(found[0])
	}
	return workspace.Workspace{}, workspace.Ambiguous(p.ID)
}

func numbered(w workspace.Workspace) (workspace.Workspace, error) {
	seq := w.Seq
	w, err := twin(w)
	w.Seq = seq
	return w, err
}

func (s *state) Workspaces(_ context.Context, p workspace.ListWorkspaces) ([]workspace.Workspace, error) {
	var all []workspace.Workspace
	for _, w := range s.workspaces {
		if p.Fits(w) && (p.Before == 0 || w.Seq < p.Before) {
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b workspace.Workspace) int { return int(b.Seq) - int(a.Seq) })
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) PutWorkspace(_ context.Context, p workspace.PutWorkspace) error {
	before, there := s.workspaces[p.Workspace.ID]
	switch {
	case before.State == workspace.Retired && p.Workspace.State != workspace.Retired:
		return workspace.Final(p.Workspace.ID)
	case before.Rev > p.Workspace.Rev:
		return workspace.Stale(p.Workspace.ID)
	}
	w, err := twin(p.Workspace)
	if err != nil {
		return err
	}
	w.Created, w.Changed, w.Base.At = store.CutTime(w.Created), store.CutTime(w.Changed), store.CutTime(w.Base.At)
	if w.Seq = before.Seq; !there {
		s.shelved++
		w.Seq = s.shelved
	}
	s.workspaces[w.ID] = w
	return nil
}

func (s *state) Integrations(_ context.Context, p workspace.ListIntegrations) ([]workspace.Integration, error) {
	var all []workspace.Integration
	for _, i := range slices.Backward(s.integrations) {
		if (p.Project == "" || i.Project == p.Project) && (p.Before == 0 || i.Seq < p.Before) && i.Seq > p.After {
			all = append(all, i)
		}
	}
	return all[:min(len(all), p.PageLimit())], nil
}

func (s *state) PutIntegration(_ context.Context, p workspace.PutIntegration) error {
	i, err := twin(p.Integration)
	if err != nil {
		return err
	}
	i.At, i.Seq = store.CutTime(i.At), uint64(len(s.integrations)+1)
	s.integrations = append(slices.Clip(s.integrations), i)
	return nil
}
