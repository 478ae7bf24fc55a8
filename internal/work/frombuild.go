package work

import (
	"context"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// baseCurrent is the BASE of a workspace that begins with what the project has.
const baseCurrent = "current"

// from finds the build that a workspace begins with, if it does with one.
func (c *creation) from(ctx context.Context) error {
	if c.in.Base == "" || c.in.Base == baseCurrent {
		return nil
	}
	b, err := c.s.built(ctx, c.t, c.in.Base, session.ActRead)
	c.t.op.Project, c.t.op.Session = c.at.Project.ID, c.at.Session.ID
	if err != nil {
		return err
	}
	if b.Generation.Project != c.at.Project.ID {
		return operation.Refuse(operation.ArgumentInvalid, "%s is a build of another project", c.in.Base)
	}
	c.build = &b.Generation
	return b.exactly(c.in.Base)
}

// stillThere refuses a build that was released, or found to be corrupt, while it was copied.
func (c *creation) stillThere(ctx context.Context, r store.Reader) error {
	if c.build == nil {
		return nil
	}
	now, err := r.GenerationByID(ctx, workspace.ByID{ID: c.build.Candidate})
	if err != nil {
		return err
	}
	return canUse(now)
}

// copied copies the project. At the outputs of the build that the workspace begins with, it has those instead. BUILD_CORRUPT.
func (c *creation) copied(ctx context.Context, p tree.Packet, o tree.CopyOptions) (tree.Copied, error) {
	if c.build == nil {
		return c.at.root.CopyTo(ctx, p.Copy(), p.Blobs(), o)
	}
	if err := c.s.verified(ctx, c.t, *c.build); err != nil {
		return tree.Copied{}, err
	}
	sealed, err := tree.Open(tree.Build{Dir: c.build.Dir}.Tree(), tree.Options{ByPath: true})
	if err != nil {
		return tree.Copied{}, err
	}
	defer sealed.Close()
	leave := o.Skip
	o.Skip = func(e tree.Seen) string {
		if isOutput(e.Path, c.build.Outputs) {
			return notRead // the build has it
		}
		return leave(e)
	}
	got, err := c.at.root.CopyTo(ctx, p.Copy(), p.Blobs(), o)
	if err != nil {
		return got, err
	}
	o.Skip = leave
	if o.Limit > 0 {
		o.Limit = max(o.Limit-got.Real, 1) // it is for both
	}
	laid, err := p.Lay(ctx, sealed, o)
	got.Manifest.Items = append(got.Manifest.Items, laid.Manifest.Items...)
	got.Manifest.Sort()
	got.Files, got.Bytes, got.Shared = got.Files+laid.Files, got.Bytes+laid.Bytes, got.Shared && laid.Shared
	got.Skipped, got.Linked = append(got.Skipped, laid.Skipped...), append(got.Linked, laid.Linked...)
	return got, err
}
