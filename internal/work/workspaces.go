package work

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// packet is a workspace that a call is about, with its project.
type packet struct {
	workspace.Workspace
	session.Admission
	given workspace.Handle
	dir   tree.Packet
}

// packet finds the workspace of a call, by a handle or an id. One of somebody else does not exist, unless its owner shares
// the session that the call names.
func (s *Service) packet(ctx context.Context, t *turn, ref string, act session.Act) (packet, error) {
	var p packet
	h, err := workspace.ParseHandle(ref)
	if err != nil {
		return p, err
	}
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		p, err = s.packetIn(ctx, r, t, h, act)
		return err
	})
	t.op.Project, t.op.Session = p.Workspace.Project, p.Admission.Session.ID
	if err == nil {
		s.acknowledge(ctx, t, p.By) // whoever has a handle has heard of what made it
	}
	return p, err
}

func (s *Service) packetIn(ctx context.Context, r store.Reader, t *turn, h workspace.Handle, act session.Act) (packet, error) {
	none := operation.Refuse(operation.NotFound, "there is no workspace %.80s", h.ID).
		Then(operation.Next{Tool: "reconcile_project_state", Args: map[string]any{}, Why: "which workspaces there are"})
	w, err := r.WorkspaceByID(ctx, workspace.ByID{ID: h.ID})
	if kind := fault.KindOf(err); kind == fault.NotFound || kind == fault.Conflict || err == nil && w.ID != h.ID {
		return packet{}, none
	}
	if err != nil {
		return packet{}, err
	}
	p := packet{Workspace: w, given: h, dir: tree.Packet{Dir: w.Dir}}
	if ref := t.text("remote_session_id"); ref != "" {
		p.Admission, err = session.Admit(ctx, r, session.AdmitRequest{Session: ref, Principal: t.Principal, Act: act})
		if err == nil && (p.Admission.Project.ID != w.Project || w.Principal != t.Principal && w.Principal != p.Admission.Session.Principal) {
			err = none
		}
		return p, err
	}
	if w.Principal != t.Principal && !t.person {
		return packet{}, none
	}
	if w.Project == "" { // a directory of which nobody knows where it belongs
		return p, nil
	}
	p.Admission, err = session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: w.Project, Principal: t.Principal, Act: act})
	return p, err
}

// copy opens the working copy as the target of tools. The rules are those of the project: what is in the copy cannot loosen
// them.
func (s *Service) copy(p packet) (*target, error) {
	if ok, err := p.dir.Exists(); err != nil {
		return nil, problem(err)
	} else if !ok {
		return nil, operation.Refuse(workspace.WrongState, "the directory of the workspace is missing").With("state", "missing").With("handle", p.Handle().String()).
			Then(operation.Next{Tool: "resume_workspace", Args: map[string]any{"ws": p.ID, operation.IDField: "restore-" + p.ID}, Why: "restores it from its last snapshot"})
	}
	root, err := tree.Open(p.dir.Copy(), tree.Options{Areas: s.cfg.Own, ByPath: p.Admission.Project.By == session.ByPath})
	if err != nil {
		return nil, problem(err)
	}
	return &target{Admission: p.Admission, root: root, rulesOf: p.project(), rules: s.cfg.Rules(p.project()), workspace: &p.Workspace}, nil
}

// project is the root of the project, without links.
func (p packet) project() string {
	if real, err := filepath.EvalSymlinks(p.Admission.Project.Path); err == nil {
		return real
	}
	return p.Admission.Project.Path
}

// base reads the manifest of BASE.
func (p packet) base() (tree.Manifest, error) { return baseIn(p.dir, p.Base) }

// baseIn reads the manifest of a BASE in a packet. WORKSPACE_STATE: what is there is not that BASE.
func baseIn(dir tree.Packet, base workspace.Copied) (tree.Manifest, error) {
	r, err := dir.Read(base.Rev)
	if err != nil && !errors.Is(err, tree.ErrDamaged) {
		return tree.Manifest{}, problem(err)
	}
	if err != nil || r.Manifest.Digest() != base.Digest {
		return tree.Manifest{}, operation.Refuse(workspace.WrongState, "the record of BASE in %s is not the one that was written; copy what is needed from there to a new workspace", dir.Dir).
			With("path", dir.Dir)
	}
	return r.Manifest, nil
}

// leases keep a workspace from being changed as a whole while something in it is changed. They are this daemon's: nobody
// else changes what is its own.
type leases struct {
	mu   sync.Mutex     // guards the others
	held map[string]int // -1: as a whole; otherwise how many change something in it
	open map[string]int // operations that were begun in it, and about which it is not decided yet
}

// take leases a workspace, as a whole or not. WORKSPACE_BUSY.
func (l *leases) take(id string, whole bool) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.held[id]; n < 0 || whole && n > 0 || l.open[id] > 0 {
		return nil, operation.Refuse(workspace.Busy, "another call is changing the workspace %s", id).Retrying(fault.AfterWait).
			Then(operation.Next{Tool: "workspace_status", Args: map[string]any{"handle": id}, Why: "what it has come to"})
	}
	step := 1
	if whole {
		step = -1
	}
	l.held[id] += step
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.held[id] -= step; l.held[id] == 0 {
			delete(l.held, id)
		}
	}), nil
}

// keepOut keeps everybody out of a workspace until it is decided about an operation that was begun in it. Who has a lease already
// keeps that.
func (l *leases) keepOut(id string) (letIn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[id]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.open[id]--; l.open[id] == 0 {
			delete(l.open, id)
		}
	}
}

// idle says whether nobody has a lease of a workspace.
func (l *leases) idle(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held[id] == 0
}

// whole leases a workspace for a change of it as a whole: no job may live in it, and its handle has to be the present one.
func (s *Service) whole(ctx context.Context, p packet, states ...workspace.State) (release func(), err error) {
	if err := s.still(ctx, p); err != nil {
		return nil, err
	}
	if err := p.Exactly(p.given); err != nil {
		return nil, err
	}
	if err := p.In(states...); err != nil {
		return nil, err
	}
	release, err = s.leases.take(p.ID, true)
	if err != nil {
		return nil, err
	}
	if err := s.still(ctx, p); err != nil { // one that was started right before
		release()
		return nil, err
	}
	return release, nil
}

// still refuses while a job of the workspace lives, or something that one has left behind. JOBS_RUNNING.
func (s *Service) still(ctx context.Context, p packet) error {
	running := s.jobs.in(p.ID)
	left, err := s.lingering(ctx, p.Workspace, running)
	if err != nil {
		return err
	}
	all := slices.Concat(running, left)
	if len(all) == 0 {
		return nil
	}
	r := operation.Refuse(workspace.JobsRunning, "commands run in the workspace").Retrying(fault.AfterWait).With("jobs", all)
	if len(running) == 0 {
		r.Message = "what commands have started in the workspace runs on"
		r = r.With("descendants_alive", left)
	}
	return r.Then(operation.Next{Tool: "command_status", Args: map[string]any{"job_id": all[0], "wait_ms": 20000}, Why: "waits for its end"}).
		Then(operation.Next{Tool: "stop_command", Args: map[string]any{"job_id": all[0], operation.IDField: "stop-" + all[0]}, Why: "ends it"})
}

// lingering are the jobs of a workspace that have ended, while something that they started lives on.
func (s *Service) lingering(ctx context.Context, w workspace.Workspace, running []string) (ids []string, err error) {
	if s.cfg.Runner == nil {
		return nil, nil
	}
	var all []operation.Job
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		all, err = operation.AllJobs(ctx, r, operation.ListJobs{Project: w.Project})
		return err
	})
	for _, j := range all {
		if j.Workspace != w.ID || !j.State.Final() || slices.Contains(running, j.ID) {
			continue
		}
		e, err := s.cfg.Runner.Look(ctx, j.JobRef)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		if e.GoesOn() {
			ids = append(ids, j.ID)
		}
	}
	return ids, err
}

// in are the jobs that live in a workspace.
func (q *jobs) in(id string) (ids []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.live {
		if j := l.get(); j.Workspace == id {
			ids = append(ids, j.ID)
		}
	}
	return ids
}

// revise writes the next revision of a workspace, after it was changed by change. It is for the commit that records the
// change; somebody may have raised the revision meanwhile by another change in it.
func (s *Service) revise(ctx context.Context, tx store.Tx, t *turn, id string, a *operation.Answer, change func(*workspace.Workspace) error) (workspace.Workspace, error) {
	w, err := tx.WorkspaceByID(ctx, workspace.ByID{ID: id})
	if err != nil {
		return w, err
	}
	w = w.Next(workspace.Step{Tool: t.Tool, Operation: t.op.ID, At: s.cfg.Now()})
	if change != nil {
		if err := change(&w); err != nil {
			return w, err
		}
	}
	if a != nil {
		a.Handle = w.Handle().String()
	}
	return w, tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w})
}

// changed raises the revision of the workspace in which an effect has changed files; nothing is done where it was the project.
func (s *Service) changed(ctx context.Context, tx store.Tx, t *turn, x *target, a *operation.Answer) error {
	if x.workspace == nil || t.op.State != operation.Succeeded {
		return nil
	}
	_, err := s.revise(ctx, tx, t, x.id(), a, nil)
	return err
}

// moveTo writes a workspace after an event that is no revision of it.
func (s *Service) moveTo(ctx context.Context, tx store.Tx, w workspace.Workspace, e workspace.Event, why string) error {
	w, err := w.To(e, why)
	if err != nil {
		return err
	}
	w.Changed = s.cfg.Now()
	return tx.PutWorkspace(ctx, workspace.PutWorkspace{Workspace: w})
}

// tellWorkspace writes an event about a workspace.
func (s *Service) tellWorkspace(ctx context.Context, tx store.Tx, t *turn, w workspace.Workspace, kind event.Kind, summary string, body any) error {
	return s.tell(ctx, tx, t, kind, workspaceRefs(w), summary, body)
}

// workspaceRefs are what an event about a workspace is about. A directory that was found may belong to no project.
func workspaceRefs(w workspace.Workspace) event.Refs {
	refs := event.Refs{event.RefWorkspace: w.ID}
	if w.Project != "" {
		refs[event.RefProject] = w.Project
	}
	return refs
}

// conflictsDir is where the bundles of conflicts are in a working copy. It is nobody's change.
const conflictsDir = ".conflicts"

// proposed is the manifest of the working copy. What nobody has touched since it was copied is not read again: who removes
// something must not rely on that.
func proposed(ctx context.Context, p packet, x *target) (tree.Manifest, error) {
	m, err := x.root.Survey(ctx, tree.SurveyOptions{Skip: func(v tree.Visit) bool { return v.Path == conflictsDir }, Noted: p.dir.Noted()})
	return m, problem(err)
}

// entryOf is an item as decisions are made about it. Of a directory nothing counts but that it is one.
func entryOf(i tree.Item) workspace.Entry {
	switch i.Kind {
	case tree.File:
		return workspace.Entry{Kind: workspace.File, Exec: i.Mode&0o100 != 0, Digest: i.Digest}
	case tree.Link:
		return workspace.Entry{Kind: workspace.Link, Digest: i.Digest}
	case tree.Directory:
		return workspace.Entry{Kind: workspace.Directory}
	case tree.Other:
		return workspace.Entry{Kind: workspace.Other}
	case tree.Absent:
	}
	return workspace.Entry{Kind: workspace.Absent}
}
