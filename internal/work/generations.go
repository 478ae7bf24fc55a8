package work

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/key"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// builds are builds that a command sees, under a variable that says where.
type builds struct {
	variable string
	trees    []string
}

// The variables by which commands find builds.
const (
	buildVariable  = "MCPX_BUILD"  // of a validator and a consumer: the bytes that they are about
	inputsVariable = "MCPX_INPUTS" // of a producer: those that it is made from, in order, separated by colons
)

// entry is the variable for the environment of a command.
func (b builds) entry() []string {
	if len(b.trees) == 0 {
		return nil
	}
	return []string{b.variable + "=" + strings.Join(b.trees, ":")}
}

// pending are the candidates and audits of this daemon that have not ended.
type pending struct {
	mu   sync.Mutex // guards ends
	ends map[string]chan struct{}
}

// begin notes one; end says that it has ended, or is left to the next daemon.
func (p *pending) begin(id string) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan struct{})
	p.ends[id] = c
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.ends, id)
		close(c)
	}
}

// of is closed at the end of one; nil: it has ended.
func (p *pending) of(id string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ends[id]
}

// madeFor says what a job is a part of.
type madeFor struct {
	Candidate string `json:"candidate_id,omitempty"`
	Audit     string `json:"audit_id,omitempty"`
}

func madeForOf(j operation.Job) madeFor {
	if isAudit(j.Of) {
		return madeFor{Audit: j.Of}
	}
	return madeFor{Candidate: j.Of}
}

func isAudit(id string) bool { return strings.HasPrefix(id, "aud_") }

// waitFor is the call that waits for the end of a job, and of what it is a part of.
func waitFor(j operation.Job) operation.Next {
	if j.Of != "" && !isAudit(j.Of) {
		return operation.Next{Tool: "generation_status", Args: map[string]any{"build_id": j.Of, "wait_ms": 20000}, Why: "waits until it is ready or rejected"}
	}
	return operation.Next{Tool: "command_status", Args: map[string]any{"job_id": j.ID, "wait_ms": 10000}, Why: "waits for its end"}
}

// built is a generation that a call is about, with its project.
type built struct {
	workspace.Generation
	session.Admission
}

// dir is the directory of the build.
func (b built) dir() tree.Build { return tree.Build{Dir: b.Dir} }

// built finds the generation of a call by its whole id. One of somebody else does not exist, unless its owner shares the
// session that the call names, or the owner of the daemon asks. UNKNOWN_BUILD.
func (s *Service) built(ctx context.Context, t *turn, id string, act session.Act) (b built, err error) {
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		b, err = s.builtIn(ctx, r, t, id, act)
		return err
	})
	t.op.Project, t.op.Session = b.Generation.Project, b.Admission.Session.ID
	return b, err
}

func (s *Service) builtIn(ctx context.Context, r store.Reader, t *turn, id string, act session.Act) (built, error) {
	g, err := r.GenerationByID(ctx, workspace.ByID{ID: id})
	known := err == nil
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return built{}, err
	}
	b := built{Generation: g}
	owner := t.Principal
	if ref := t.text("remote_session_id"); ref != "" {
		if b.Admission, err = session.Admit(ctx, r, session.AdmitRequest{Session: ref, Principal: t.Principal, Act: act}); err != nil {
			return b, err
		}
		owner, known = b.Admission.Session.Principal, known && b.Admission.Project.ID == g.Project
	}
	if t.person {
		owner = "" // the builds of everybody are the owner's
	}
	if !known || owner != "" && g.Principal != owner && g.Principal != t.Principal {
		return built{}, unknownBuild(ctx, r, id, owner)
	}
	switch {
	case b.Admission.Project.ID != "":
	case t.person: // also of a project that is registered no more
		b.Admission.Project, err = r.ProjectByID(ctx, session.ByID{ID: g.Project})
	default:
		b.Admission, err = session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: g.Project, Principal: t.Principal, Act: act})
	}
	return b, err
}

// maxNear is how many builds a refusal names.
const maxNear = 5

// unknownBuild is the refusal of an id that no build of the principal has, "" of nobody. It names those that there are: an id is
// never guessed.
func unknownBuild(ctx context.Context, r store.Reader, id, principal string) error {
	all, err := r.Generations(ctx, workspace.ListGenerations{Principal: principal, States: workspace.GenerationsThere})
	if err != nil {
		return err
	}
	names := make([]string, 0, len(all))
	for _, g := range all {
		names = append(names, g.ID)
	}
	no := operation.Refuse(workspace.UnknownBuild, "there is no build %.80q", id).With("newest", names[:min(len(names), maxNear)])
	if !workspace.IsBuildID(id) {
		no.Message += "; ids of builds look like b_<26 letters and digits>_<12 hex digits>, and are used whole"
	}
	return nearest(no, id, names).Then(operation.Next{Tool: "reconcile_project_state", Args: map[string]any{}, Why: "which builds there are"})
}

// canUse refuses a build whose bytes are not there, or are not its own.
func canUse(g workspace.Generation) error {
	next := operation.Next{Tool: "generation_status", Args: map[string]any{"build_id": g.Candidate, "wait_ms": 20000}, Why: "what became of it"}
	switch g.State {
	case workspace.GenReady, workspace.GenSuperseded:
		return nil
	case workspace.GenCandidate, workspace.GenSealing, workspace.GenValidating:
		return operation.Refuse(workspace.NotReady, "%s is %s, and no build yet", g.Candidate, g.State).Retrying(fault.AfterWait).With("state", g.State).Then(next)
	case workspace.GenCorrupt:
		return corrupt(g, workspace.Difference{})
	case workspace.GenRejected, workspace.GenReleased:
		return operation.Refuse(workspace.UnknownBuild, "%s is %s: its bytes are not there", g.Name(), g.State).With("state", g.State).With("why", g.Why).Then(next)
	}
	panic("work: unknown state of a generation " + string(g.State))
}

// exactly refuses a candidate where a build is asked for by its exact id.
func (b built) exactly(id string) error {
	if err := canUse(b.Generation); err != nil {
		return err
	}
	if b.ID != id {
		return operation.Refuse(workspace.UnknownBuild, "%.80q is a candidate; its build is %s", id, b.ID).With("nearest", b.ID)
	}
	return nil
}

// corrupt is the refusal of a build whose bytes are not those of its manifest. BUILD_CORRUPT.
func corrupt(g workspace.Generation, d workspace.Difference) error {
	no := operation.Refuse(workspace.BuildCorrupt, "the bytes of %s are not those of its manifest; verdicts on it have lost their evidence", g.ID).Retrying(fault.Never)
	if !d.Same() {
		no = no.With("difference", shownDifference(d))
	}
	return no.Then(operation.Next{Tool: "generation_status", Args: map[string]any{"build_id": g.ID}, Why: "its audits, and how it was made"})
}

// shownDifference is a difference for people, a bounded part of it.
func shownDifference(d workspace.Difference) workspace.Difference {
	for _, list := range []*[]string{&d.Added, &d.Changed, &d.Gone} {
		paths, _ := firstOf(*list, maxChanges)
		*list = nil
		for _, path := range paths {
			*list = append(*list, text.EncodePath(path))
		}
	}
	return d
}

// verified reads the whole build, and refuses one that is not as its manifest says. BUILD_CORRUPT, and that is written down.
func (s *Service) verified(ctx context.Context, t *turn, g workspace.Generation) error {
	d, _, err := s.compared(ctx, tree.Build{Dir: g.Dir}, g, t.read)
	if err != nil {
		return problem(err)
	}
	if d.Same() && g.State != workspace.GenCorrupt {
		return nil
	}
	return errors.Join(corrupt(g, d), s.corrupted(ctx, t.actor(), g, d))
}

// compared reads the whole of a build or a draft, and says how it differs from the manifest by which it is named, and the tree
// hash of what is there. Another manifest, or none, is a difference itself. read, which may be nil, is told of bytes as they
// are read.
func (s *Service) compared(ctx context.Context, b tree.Build, g workspace.Generation, read func(bytes int)) (workspace.Difference, string, error) {
	raw, err := b.ReadManifest()
	code := tree.CodeOf(err)
	if err != nil && code != tree.NotFound && code != tree.FileDenied {
		return workspace.Difference{}, "", err
	}
	var m workspace.Manifest
	named := err == nil && digest(raw) == g.TreeHash
	if named {
		if m, err = workspace.ParseManifest(raw); err != nil {
			return workspace.Difference{}, "", err
		}
	}
	d, hash, err := b.Verify(ctx, m, read)
	switch {
	case err != nil:
		return d, hash, err
	case code == tree.NotFound:
		d.Gone = slices.Insert(d.Gone, 0, "../manifest") // as the tree sees it
	case !named:
		d.Changed = slices.Insert(d.Changed, 0, "../manifest")
	case d.Same() && hash != g.TreeHash:
		d.Changed = append(d.Changed, ".")
	}
	return d, hash, nil
}

// corrupted writes down that a build is not what it was.
func (s *Service) corrupted(ctx context.Context, actor event.Actor, g workspace.Generation, d workspace.Difference) error {
	return s.cfg.DB.Change(context.WithoutCancel(ctx), func(tx store.Tx) error {
		now, err := tx.GenerationByID(ctx, workspace.ByID{ID: g.Candidate})
		if err != nil || now.State == workspace.GenCorrupt || now.State.Final() {
			return err
		}
		now.State, now.Corrupted = workspace.GenCorrupt, s.cfg.Now()
		if err := tx.PutGeneration(ctx, workspace.PutGeneration{Generation: now}); err != nil {
			return err
		}
		return s.tellBuild(ctx, tx, actor, now, event.GenerationCorrupt, "a build is corrupt: "+now.ID, shownDifference(d))
	})
}

// tellBuild writes an event about a generation.
func (s *Service) tellBuild(ctx context.Context, tx store.Tx, actor event.Actor, g workspace.Generation, kind event.Kind, summary string, body any) error {
	refs := event.Refs{event.RefBuild: g.Name(), event.RefProject: g.Project, event.RefWorkspace: g.Workspace, event.RefJob: g.Job}
	if g.Session != "" {
		refs[event.RefSession] = g.Session
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = tx.AppendEvent(ctx, event.Draft{At: s.cfg.Now(), Kind: kind, Actor: actor, Refs: refs, Summary: s.cfg.Redact(summary), Body: s.redacted(raw)})
	return err
}

// settled writes a change until it is written. errLeft: the daemon stops.
func (s *Service) settled(ctx context.Context, what string, change func(store.Tx) error) error {
	for {
		err := s.cfg.DB.Change(ctx, change)
		if kind := fault.KindOf(err); err == nil || kind != fault.Unavailable && kind != fault.Busy {
			return err
		}
		s.cfg.Log.LogAttrs(ctx, slog.LevelError, "what became of a build could not be written down yet", slog.String(key.Build, what), slog.Any(key.Cause, err))
		if !s.again() {
			return errLeft
		}
	}
}

// ended waits for the end of a job. One that no record has was never started: NotFound job-unknown.
func (s *Service) ended(ctx context.Context, id string) (j operation.Job, err error) {
	if l := s.jobs.find(id); l != nil {
		if err := s.until(l.done); err != nil {
			return j, err
		}
		return l.get(), nil
	}
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		j, err = r.JobByID(ctx, operation.JobByID{ID: id})
		return err
	})
	if err == nil && !j.State.Final() {
		err = errors.New("nobody watches the job " + id)
	}
	return j, err
}

// behindMost bounds how long what goes on behind a call waits before it is tried again.
const behindMost = time.Minute

// behind does something that goes on behind its call until it has ended, or the daemon stops. What goes wrong is done
// again, whatever it is, each time after a longer wait up to behindMost: do goes on from what is recorded, and ends itself what is to end.
func (s *Service) behind(ctx context.Context, id string, do func(context.Context) error) {
	end := s.pending.begin(id)
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	s.running.Go(func() {
		defer end()
		defer stop(nil)
		over := make(chan struct{})
		defer close(over)
		go func() { // what takes long ends with the daemon: the next one does it again
			select {
			case <-s.quit:
				stop(errLeft)
			case <-over:
			}
		}()
		for wait := storeAgain; ; wait = min(2*wait, behindMost) {
			err := do(ctx)
			if err == nil || errors.Is(err, errLeft) || errors.Is(context.Cause(ctx), errLeft) {
				return
			}
			s.cfg.Log.LogAttrs(ctx, slog.LevelError, "a build could not be decided yet, and is tried again", slog.String(key.Build, id), slog.Any(key.Cause, err))
			select {
			case <-time.After(wait):
			case <-s.quit:
				return
			}
		}
	})
}
