package work

import (
	"cmp"
	"context"
	"encoding/json"
	"path"
	"path/filepath"

	"mcpx/internal/event"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// ForPerson carries out a call of the person who owns the daemon, through the same ledger and by the same rules as one of an
// agent. The workspaces and the commands of everybody are theirs, also while agents have none of these tools.
func (s *Service) ForPerson(ctx context.Context, by event.Actor, tool string, args json.RawMessage) operation.Answer {
	return s.Do(ctx, Call{Tool: tool, Args: args, Principal: by.Principal, Client: by.Client, Channel: by.Channel, person: true})
}

// Verify reads a whole build for the person who owns the daemon, as verify_generation does. read is told of bytes as they are
// read, by several at once.
func (s *Service) Verify(ctx context.Context, by event.Actor, build string, read func(bytes int)) operation.Answer {
	args, err := json.Marshal(VerifyGeneration{Build: build})
	if err != nil {
		panic("work: a text cannot be written: " + err.Error())
	}
	return s.Do(ctx, Call{Tool: "verify_generation", Args: args, Principal: by.Principal, Client: by.Client, Channel: by.Channel, person: true, read: read})
}

// Look says how a workspace stands. What cannot be told before ctx ends is unverified.
func (s *Service) Look(ctx context.Context, w workspace.Workspace) workspace.Sight {
	return workspace.Sight{Dirty: s.dirty(ctx, w), Jobs: s.jobs.in(w.ID)}
}

// standing opens the working copy of a workspace, whoever has it, to look at it.
func (s *Service) standing(ctx context.Context, w workspace.Workspace) (p packet, x *target, err error) {
	p = packet{Workspace: w, dir: tree.Packet{Dir: w.Dir}}
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		p.Admission.Project, err = r.ProjectByID(ctx, session.ByID{ID: w.Project})
		return err
	})
	if err == nil {
		x, err = s.copy(p)
	}
	return p, x, err
}

func (s *Service) dirty(ctx context.Context, w workspace.Workspace) string {
	if w.Base.Rev == 0 || w.State == workspace.Retired || w.State == workspace.Quarantined {
		return workspace.Unverified
	}
	p, x, err := s.standing(ctx, w)
	if err != nil {
		return workspace.Unverified
	}
	defer x.close()
	switch _, all, err := s.diffOf(ctx, p, x); {
	case err != nil:
		return workspace.Unverified
	case len(all) > 0:
		return workspace.Dirty
	}
	return workspace.Clean
}

// bundleFiles are the names of the files of a bundle.
var bundleFiles = []string{"BASE", workspace.SideCurrent, "PROPOSED", "MERGED"}

// Bundles is what the last integration that was tried has left about conflicts on these paths, as they are shown, in their order.
func (s *Service) Bundles(ctx context.Context, w workspace.Workspace, conflicts []string) ([]workspace.Bundle, error) {
	if len(conflicts) == 0 {
		return nil, nil
	}
	p, x, err := s.standing(ctx, w)
	if err != nil {
		return nil, err
	}
	defer x.close()
	all := make([]workspace.Bundle, len(conflicts))
	for i, conflict := range conflicts {
		if all[i], err = s.bundle(ctx, p, x, conflict); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (s *Service) bundle(ctx context.Context, p packet, x *target, conflict string) (b workspace.Bundle, err error) {
	dir := path.Join(conflictsDir, pathShown(conflict))
	for _, name := range bundleFiles {
		at, err := x.root.Resolve(path.Join(dir, name), tree.Read)
		if err != nil {
			continue // what is no file has no side
		}
		got, err := at.Hash(ctx, maxBundle)
		_ = at.Close() // it was only read
		if err != nil {
			return b, problem(err)
		}
		b.Sides = append(b.Sides, workspace.Side{Name: name, Bytes: got.Size, SHA256: got.SHA256})
		if name == workspace.SideCurrent {
			b.Current = got.SHA256
		}
	}
	if told, err := s.bytes(ctx, x, path.Join(dir, currentDigest), maxDigest); err == nil {
		b.Current = cmp.Or(b.Current, string(told.Data))
	}
	if b.Current != "" {
		b.Dir = filepath.Join(p.dir.Copy(), dir)
	}
	return b, nil
}
