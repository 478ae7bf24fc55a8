package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"mcpx/internal/operation"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// Load is what somebody leaves behind who works with mcpx for long.
type Load struct {
	Principal, Project string
	State              string // the state directory; the directories of the workspaces are made by nobody
	At                 time.Time

	// Operations and Workspaces are how many there are. Of the operations 20 have no end that somebody knows; of the
	// workspaces each tenth is retired, and for each tenth there is an integration.
	Operations, Workspaces int
}

// Fill writes it.
func (l Load) Fill(ctx context.Context, db store.DB) error {
	const (
		step    = 1000
		unknown = 20
	)
	for from := 0; from < l.Operations; from += step {
		err := db.Change(ctx, func(tx store.Tx) error {
			for n := from; n < min(from+step, l.Operations); n++ {
				o := operation.Operation{
					Name: operation.Name{Namespace: l.Principal, ID: fmt.Sprintf("load-%06d", n)}, Tool: "edit_files", Print: fmt.Sprintf("print-%06d", n), Project: l.Project,
					Args:  json.RawMessage(fmt.Sprintf(`{"operation_id":"load-%06d","edits":[{"op":"create","path":"docs/%06d.md","content":"some lines of a text"}]}`, n, n)),
					State: operation.Succeeded, Class: operation.FS, Attempts: 1, Claimed: l.At, Begun: l.At, Ended: l.At, Result: json.RawMessage(`{"ok":true,"status":"succeeded"}`),
				}
				if n%max(l.Operations/unknown, 1) == 0 {
					o.State, o.Code, o.Result = operation.Unknown, string(operation.OutcomeUnknown), nil
				}
				if err := tx.PutOperation(ctx, operation.PutOperation{Operation: o}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return db.Change(ctx, func(tx store.Tx) error {
		for n := range l.Workspaces {
			if err := tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: l.workspace(n)}); err != nil {
				return err
			}
			if n%10 != 0 {
				continue
			}
			i := workspace.Integration{ID: fmt.Sprintf("int_load%06d", n), Workspace: l.ID(n), Project: l.Project, Paths: []string{fmt.Sprintf("docs/%d/a.md", n+1)}, Changed: 1, At: l.At}
			if err := tx.PutIntegration(ctx, workspace.PutIntegration{Integration: i}); err != nil {
				return err
			}
		}
		return nil
	})
}

// ID is that of a workspace.
func (l Load) ID(n int) string { return fmt.Sprintf("ws_load%06d", n) }

// Dir is its directory.
func (l Load) Dir(n int) string { return filepath.Join(l.State, "workspaces", l.ID(n)) }

func (l Load) workspace(n int) workspace.Workspace {
	path := fmt.Sprintf("docs/%d", n)
	w := workspace.Workspace{
		ID: l.ID(n), Rev: 1, Principal: l.Principal, Project: l.Project, By: operation.Name{Namespace: l.Principal, ID: fmt.Sprintf("create-%06d", n)},
		Purpose: "a piece of work that somebody has described in a sentence of usual length", State: workspace.Open, Overlap: workspace.RefuseOverlap,
		Mutable: []workspace.Scope{{Path: path, Way: []workspace.Node{{ID: "1:1"}}, Missing: []string{path}}}, Dir: l.Dir(n),
		Base: workspace.Copied{Rev: 1, Digest: "tree:load", Files: 1, At: l.At}, Created: l.At, Changed: l.At,
	}
	if n%10 == 0 {
		w.State = workspace.Retired
	}
	return w
}
