package work

import (
	"context"
	"path"
	"slices"

	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// auditPass is what require_audit asks for.
const auditPass = string(workspace.Pass)

// required holds an integration against the build that its call asks for. AUDIT_REQUIRED: what the workspace has at the outputs
// of the build is something else, or would not come in as it is, or would be merged into what nobody has audited, or there is no verdict that was asked for.
func (g *integration) required(ctx context.Context) error {
	switch {
	case g.in.Audit != "" && g.in.Audit != auditPass:
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no require_audit; pass is", g.in.Audit)
	case g.in.Audit != "" && g.in.Build == "":
		return operation.Refuse(operation.ArgumentInvalid, "require_audit is about the build in require_build")
	case g.in.Build == "":
		return nil
	}
	b, err := g.s.built(ctx, g.t, g.in.Build, session.ActRead)
	if err != nil {
		return err
	}
	if b.Generation.Project != g.p.Workspace.Project {
		return operation.Refuse(operation.ArgumentInvalid, "%s is a build of another project", g.in.Build)
	}
	if err := b.exactly(g.in.Build); err != nil {
		return err
	}
	m, err := g.s.manifestOf(b.Generation)
	if err != nil {
		return err
	}
	now, err := g.atOutputs(ctx, b.Outputs)
	if err != nil {
		return err
	}
	if d := m.Compare(sealedOf(now)); !d.Same() {
		return auditRequired(b.Generation, "the workspace is not what the build is: "+differs(d)).With("difference", shownDifference(d))
	}
	if path := g.unplanned(now, b.Outputs); path != "" {
		return auditRequired(b.Generation, text.EncodePath(path)+" would not come into the project as the workspace has it: it is out of the scope, or changes at this moment").
			With("path", text.EncodePath(path))
	}
	for _, one := range g.paths {
		if one.mixes() && isOutput(one.path, b.Outputs) {
			return auditRequired(b.Generation, text.EncodePath(one.path)+" would be merged with what the project changed, and that is in no build").With("path", text.EncodePath(one.path))
		}
	}
	g.build = &b.Generation
	return g.s.cfg.DB.View(ctx, func(r store.Reader) error { return g.audited(ctx, r) })
}

// mixes says whether a path becomes what neither the workspace nor the project has alone, or a merge has come to what the project has:
// then the change of the workspace is in it, and its bytes are others.
func (one pathPlan) mixes() bool {
	switch d := one.decision; d.Action {
	case workspace.Merge, workspace.Mix:
		return true
	case workspace.Keep:
		return d.Same && entryOf(one.current) != entryOf(one.proposed)
	case workspace.Take, workspace.Clash:
	}
	return false
}

// isOutput says whether a path is one of the outputs of a build, or in one.
func isOutput(path string, outputs []string) bool {
	return slices.ContainsFunc(outputs, func(o string) bool { return workspace.Below(path, o) })
}

// atOutputs reads what the workspace has at the outputs of a build, all of it: here nothing is believed because of a size or a time.
func (g *integration) atOutputs(ctx context.Context, outputs []string) ([]tree.Item, error) {
	m, err := g.copy.root.Survey(ctx, tree.SurveyOptions{Git: true, Skip: func(v tree.Visit) bool {
		return v.Path == conflictsDir || !isOutput(v.Path, outputs) && !slices.ContainsFunc(outputs, func(o string) bool { return workspace.Below(o, v.Path) })
	}})
	all := slices.DeleteFunc(m.Items, func(i tree.Item) bool { return !isOutput(string(i.Path), outputs) })
	return all, problem(err)
}

// sealedOf is what a manifest has of entries.
func sealedOf(items []tree.Item) []workspace.Sealed {
	full := map[string]bool{} // directories in which something is
	for _, i := range items {
		full[path.Dir(string(i.Path))] = true
	}
	var all []workspace.Sealed
	for _, i := range items {
		if i.Kind == tree.Directory && full[string(i.Path)] {
			continue
		}
		e := workspace.Sealed{Path: string(i.Path), Entry: entryOf(i)}
		switch i.Kind {
		case tree.File:
			e.Size = i.Size
		case tree.Link:
			e.Digest = i.Link // a manifest has the text
		case tree.Directory, tree.Other, tree.Absent:
		}
		all = append(all, e)
	}
	return all
}

// unplanned is the first path at the outputs of which something else is planned than was read there now; "" none. The plan was
// made of another look at the workspace, and what it leaves out is as BASE has it.
func (g *integration) unplanned(now []tree.Item, outputs []string) string {
	planned := map[string]workspace.Entry{}
	for _, i := range g.base.Items {
		planned[string(i.Path)] = entryOf(i)
	}
	for _, one := range g.paths {
		planned[one.path] = entryOf(one.proposed)
	}
	for _, i := range now {
		if planned[string(i.Path)] != entryOf(i) {
			return string(i.Path)
		}
		delete(planned, string(i.Path))
	}
	var left []string
	for path, e := range planned {
		if e.Kind != workspace.Absent && isOutput(path, outputs) {
			left = append(left, path)
		}
	}
	if len(left) == 0 {
		return ""
	}
	return slices.Min(left)
}

// audited refuses an integration whose build cannot be used any more, or has no verdict that was asked for.
func (g *integration) audited(ctx context.Context, r store.Reader) error {
	if g.build == nil {
		return nil
	}
	b, err := r.GenerationByID(ctx, workspace.ByID{ID: g.build.Candidate})
	if err != nil {
		return err
	}
	if err := canUse(b); err != nil || g.in.Audit == "" {
		return err
	}
	all, err := workspace.AllAudits(ctx, r, workspace.ListAudits{Build: b.ID, States: []workspace.AuditState{workspace.AuditDone}})
	if err != nil {
		return err
	}
	n := slices.IndexFunc(all, func(a workspace.Audit) bool { return a.Verdict == workspace.Pass })
	if n < 0 {
		return auditRequired(b, "no consumer has passed it")
	}
	g.verdict = all[n].ID
	return nil
}

// auditRequired is the refusal of an integration whose build, or whose verdict, is missing.
func auditRequired(g workspace.Generation, why string) *operation.Refusal {
	return operation.Refuse(workspace.AuditRequired, "%s is required, and %s; nothing was applied", g.ID, why).With("build_id", g.ID).
		Then(operation.Next{Tool: "generation_status", Args: map[string]any{"build_id": g.ID}, Why: "its audits, and how it was made"})
}

// manifestOf reads the manifest of a build. BUILD_CORRUPT.
func (s *Service) manifestOf(g workspace.Generation) (workspace.Manifest, error) {
	raw, err := tree.Build{Dir: g.Dir}.ReadManifest()
	if code := tree.CodeOf(err); code == tree.NotFound || err == nil && digest(raw) != g.TreeHash {
		return nil, corrupt(g, workspace.Difference{Changed: []string{"../manifest"}})
	}
	if err != nil {
		return nil, problem(err)
	}
	return workspace.ParseManifest(raw)
}
