package work

import (
	"context"

	"mcpx/internal/event"
	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// decideDispute takes a workspace on to where somebody who has looked says that it stands, with the verdict about the integration
// that was contested. No file is touched: what could be taken back of it, recovery has taken back.
func (s *Service) decideDispute(ctx context.Context, tx store.Tx, by event.Actor, o operation.Operation, v operation.Verdict) error {
	if o.Tool != integrateTool {
		return nil
	}
	was, err := evidenceOf[integrateEvidence](o)
	if err != nil {
		return err
	}
	w, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: was.Workspace})
	if err != nil || w.State != workspace.Attention && w.State != workspace.Retired {
		return err
	}
	t := &turn{Call: Call{Tool: o.Tool, Principal: by.Principal, Client: by.Client, Channel: by.Channel}, op: o}
	if v == operation.Done {
		return s.integratedNow(ctx, tx, t, nil, was)
	}
	if w.State == workspace.Retired { // and stays so
		return nil
	}
	stands := workspace.Reopened
	if was.From == workspace.Integrated { // and its integration was not taken back
		stands = workspace.Applied
	}
	w, err = s.revise(ctx, tx, t, w.ID, nil, func(w *workspace.Workspace) (err error) {
		*w, err = w.To(stands, "")
		return err
	})
	if err != nil {
		return err
	}
	return s.tellWorkspace(ctx, tx, t, w, event.WorkspaceResumed, "a workspace goes on after a dispute: "+firstLine(w.Purpose), was.Paths)
}
