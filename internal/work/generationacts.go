package work

import (
	"context"
	"slices"
	"time"

	"mcpx/internal/crash"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/workspace"
)

// GenerationStatus are the arguments of generation_status.
type GenerationStatus struct {
	Claims
	Session   string `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Build     string `json:"build_id,omitempty" jsonschema:"a build or a candidate"`
	Workspace string `json:"workspace,omitempty" jsonschema:"instead: a workspace"`
	Producer  string `json:"producer,omitempty" jsonschema:"instead: a producer"`
	WaitMS    int    `json:"wait_ms,omitempty" jsonschema:"0 to 25000, for the end"`
}

// VerifyGeneration are the arguments of verify_generation.
type VerifyGeneration struct {
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Build   string `json:"build_id" jsonschema:"the build"`
}

// RetainGeneration are the arguments of retain_generation.
type RetainGeneration struct {
	ID
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session"`
	Build   string `json:"build_id" jsonschema:"the build"`
}

// ReleaseGeneration are the arguments of release_generation.
type ReleaseGeneration struct{ RetainGeneration }

// briefGeneration is a generation in a list.
type briefGeneration struct {
	Candidate string                    `json:"candidate_id,omitempty"`
	Build     string                    `json:"build_id,omitempty"`
	State     workspace.GenerationState `json:"state"`
	Why       string                    `json:"why,omitempty"`
	Text      string                    `json:"text,omitempty"`
	Workspace string                    `json:"workspace,omitempty"` // its handle
	Producer  string                    `json:"producer,omitempty"`
	Outputs   []string                  `json:"outputs,omitempty"`
	Files     int                       `json:"files,omitempty"`
	Bytes     int64                     `json:"bytes,omitempty"`
	Retained  bool                      `json:"retained,omitempty"`
	Ready     string                    `json:"ready_at,omitempty"`
	Audit     string                    `json:"audit,omitempty"` // verdict or state of the last one
}

// generationShown is a generation with all that is known of it.
type generationShown struct {
	briefGeneration
	Job        string                `json:"job_id"`
	TreeHash   string                `json:"tree_hash,omitempty"`
	Path       string                `json:"path,omitempty"` // holds tree, manifest and statement.json
	Inputs     []string              `json:"inputs,omitempty"`
	Validators []workspace.Validator `json:"validators,omitempty"`
	Audits     []briefAudit          `json:"audits,omitempty"` // the newest first
}

// briefAudit is an audit. Of a build that is corrupt no verdict can be checked any more.
type briefAudit struct {
	ID           string               `json:"audit_id"`
	Build        string               `json:"build_id,omitempty"`
	State        workspace.AuditState `json:"state"`
	Verdict      workspace.Verdict    `json:"verdict,omitempty"`
	Why          string               `json:"why,omitempty"`
	Job          string               `json:"job_id,omitempty"`
	Code         *int                 `json:"exit_code,omitempty"`
	Argv         string               `json:"argv_sha256,omitempty"`
	Pre          string               `json:"pre_hash,omitempty"`
	Post         string               `json:"post_hash,omitempty"`
	EvidenceLost bool                 `json:"evidence_lost,omitempty"`
}

// maxAudits bounds the audits that an answer shows.
const maxAudits = 20

func briefAuditOf(a workspace.Audit, g workspace.Generation) briefAudit {
	return briefAudit{
		ID: a.ID, Build: a.Build, State: a.State, Verdict: a.Verdict, Why: a.Why, Job: a.Job, Code: a.Code, Argv: a.Argv, Pre: a.Pre, Post: a.Post,
		EvidenceLost: a.State == workspace.AuditDone && !g.Corrupted.IsZero(),
	}
}

// briefGenerationOf is a generation with the state of its last audit.
func briefGenerationOf(ctx context.Context, r store.Reader, g workspace.Generation) (briefGeneration, error) {
	b := briefGeneration{
		Candidate: g.Candidate, State: g.State, Why: g.Why, Text: g.Text, Workspace: workspace.Handle{ID: g.Workspace, Rev: g.Rev}.String(), Producer: g.Producer,
		Outputs: g.Outputs, Files: g.Files, Bytes: g.Bytes, Retained: g.Retained, Ready: timeShown(g.Ready),
	}
	if g.Ready.IsZero() { // an id that was never given to anybody is none
		return b, nil
	}
	b.Build = g.ID
	last, err := r.Audits(ctx, workspace.ListAudits{Build: g.ID, Limit: 1})
	if len(last) == 1 {
		if b.Audit = string(last[0].State); last[0].State == workspace.AuditDone {
			b.Audit = string(last[0].Verdict)
			if !g.Corrupted.IsZero() {
				b.Audit = "evidence_lost"
			}
		}
	}
	return b, err
}

func generationStatus(ctx context.Context, s *Service, t *turn) (any, error) {
	var in GenerationStatus
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	given := 0
	for _, one := range []string{in.Build, in.Workspace, in.Producer} {
		if one != "" {
			given++
		}
	}
	if given != 1 {
		return nil, operation.Refuse(operation.ArgumentInvalid, "give exactly one of build_id, workspace and producer")
	}
	if in.Build == "" {
		return s.generationsOf(ctx, t, in)
	}
	b, err := s.built(ctx, t, in.Build, session.ActRead)
	if err != nil {
		return nil, err
	}
	if end := s.pending.of(b.Candidate); end != nil && in.WaitMS > 0 {
		if err := t.wait(ctx, end); err != nil {
			return nil, err
		}
		if b, err = s.built(ctx, t, in.Build, session.ActRead); err != nil {
			return nil, err
		}
	}
	s.acknowledge(ctx, t, b.By)
	out := generationShown{Job: b.Job, Inputs: b.Inputs, Validators: s.shownValidators(b.Validators)}
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		if out.briefGeneration, err = briefGenerationOf(ctx, r, b.Generation); err != nil || b.Ready.IsZero() {
			return err
		}
		out.TreeHash, out.Path = b.TreeHash, b.Dir
		all, err := r.Audits(ctx, workspace.ListAudits{Build: b.ID, Limit: maxAudits})
		for _, a := range all {
			out.Audits = append(out.Audits, briefAuditOf(a, b.Generation))
		}
		return err
	})
	answer := outcome{data: out, bad: b.State == workspace.GenRejected || b.State == workspace.GenCorrupt}
	switch {
	case b.State.UnderWay():
		answer.next = []operation.Next{waitFor(operation.Job{JobRef: operation.JobRef{ID: b.Job}, Of: b.Candidate})}
	case b.State == workspace.GenSuperseded:
		answer.warnings = []string{newerBuild(ctx, s, b.Generation)}
	}
	return answer, err
}

// shownValidators are validators without what looks like a secret in them.
func (s *Service) shownValidators(all []workspace.Validator) []workspace.Validator {
	shown := slices.Clone(all)
	for i := range shown {
		shown[i].Argv = slices.Clone(shown[i].Argv)
		for k, word := range shown[i].Argv {
			shown[i].Argv[k] = s.cfg.RedactText(word)
		}
	}
	return shown
}

// generationsOf lists the generations of a workspace or of a producer, the newest first.
func (s *Service) generationsOf(ctx context.Context, t *turn, in GenerationStatus) (any, error) {
	ask := workspace.ListGenerations{Producer: in.Producer}
	if in.Session == "" { // with one its owner's are shown, too
		ask.Principal = t.Principal
	}
	if in.Workspace != "" {
		p, err := s.packet(ctx, t, in.Workspace, session.ActRead)
		if err != nil {
			return nil, err
		}
		ask.Workspace = p.ID
	}
	out := struct {
		Generations []briefGeneration `json:"generations"`
		More        bool              `json:"more,omitempty"`
	}{Generations: []briefGeneration{}}
	room := page{pageBytes}
	return &out, s.cfg.DB.View(ctx, func(r store.Reader) error {
		all, err := workspace.AllGenerations(ctx, r, ask)
		if err != nil {
			return err
		}
		for _, g := range all {
			if _, err := s.builtIn(ctx, r, t, g.Candidate, session.ActRead); codeIn(err) == workspace.UnknownBuild {
				continue // of somebody else
			} else if err != nil {
				return err
			}
			b, err := briefGenerationOf(ctx, r, g)
			if err != nil {
				return err
			}
			if len(out.Generations) == mostListed || !room.takes(b) {
				out.More = true
				break
			}
			out.Generations = append(out.Generations, b)
		}
		return nil
	})
}

// becameOf adds what a job was a part of to what is told about it.
func (s *Service) becameOf(ctx context.Context, j operation.Job, shown *jobShown) error {
	if j.Of == "" {
		return nil
	}
	return s.cfg.DB.View(ctx, func(r store.Reader) error {
		if isAudit(j.Of) {
			a, err := r.AuditByID(ctx, workspace.ByID{ID: j.Of})
			if err != nil {
				return unlessGone(err)
			}
			g, err := r.GenerationByID(ctx, workspace.ByID{ID: a.Build})
			b := briefAuditOf(a, g)
			shown.Audit = &b
			return err
		}
		g, err := r.GenerationByID(ctx, workspace.ByID{ID: j.Of})
		if err != nil {
			return unlessGone(err)
		}
		b, err := briefGenerationOf(ctx, r, g)
		shown.Generation = &b
		return err
	})
}

// unlessGone is nil for a row that is not there yet.
func unlessGone(err error) error {
	if fault.KindOf(err) == fault.NotFound {
		return nil
	}
	return err
}

// verifyGeneration reads the whole build now.
func verifyGeneration(ctx context.Context, s *Service, t *turn) (any, error) {
	var in VerifyGeneration
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	b, err := s.built(ctx, t, in.Build, session.ActRead)
	if err != nil {
		return nil, err
	}
	if b.State != workspace.GenCorrupt { // one that is corrupt is looked at once more, to say how
		if err := b.exactly(in.Build); err != nil {
			return nil, err
		}
	}
	begun := time.Now()
	if err := s.verified(ctx, t, b.Generation); err != nil {
		return nil, err
	}
	return struct {
		Build    string                    `json:"build_id"`
		State    workspace.GenerationState `json:"state"`
		TreeHash string                    `json:"tree_hash"`
		Files    int                       `json:"files"`
		Bytes    int64                     `json:"bytes"`
		TookMS   int64                     `json:"took_ms"`
	}{b.ID, b.State, b.TreeHash, b.Files, b.Bytes, time.Since(begun).Milliseconds()}, nil
}

// retainGeneration keeps a build until it is released.
func retainGeneration(ctx context.Context, s *Service, tx store.Tx, t *turn) (any, error) {
	var in RetainGeneration
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	b, err := s.builtIn(ctx, tx, t, in.Build, session.ActChange)
	if err != nil {
		return nil, err
	}
	t.op.Project, t.op.Session = b.Generation.Project, b.Admission.Session.ID
	if err := b.exactly(in.Build); err != nil {
		return nil, err
	}
	b.Retained = true
	if err := tx.PutGeneration(ctx, workspace.PutGeneration{Generation: b.Generation}); err != nil {
		return nil, err
	}
	return actedOn{b.ID, b.State, true}, s.tellBuild(ctx, tx, t.actor(), b.Generation, event.GenerationRetained, "a build is retained: "+b.ID, struct{}{})
}

// actedOn is the answer of retain_generation and release_generation.
type actedOn struct {
	Build    string                    `json:"build_id"`
	State    workspace.GenerationState `json:"state"`
	Retained bool                      `json:"retained"`
}

// release is a build whose bytes are being given up.
type release struct {
	s *Service
	t *turn
	g workspace.Generation
}

func beginRelease(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in ReleaseGeneration
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	b, err := s.built(ctx, t, in.Build, session.ActChange)
	if err != nil {
		return nil, err
	}
	if b.State != workspace.GenCorrupt {
		if err := b.exactly(in.Build); err != nil {
			return nil, err
		}
	}
	r := &release{s: s, t: t, g: b.Generation}
	return r, s.cfg.DB.View(ctx, func(rd store.Reader) error { return unused(ctx, rd, b.Generation) })
}

// unused refuses a build that somebody works with. BUILD_IN_USE.
func unused(ctx context.Context, r store.Reader, g workspace.Generation) error {
	audits, err := r.Audits(ctx, workspace.ListAudits{Build: g.ID, States: workspace.AuditsUnderWay, Limit: maxAudits})
	if err != nil {
		return err
	}
	if len(audits) > 0 {
		a := audits[0]
		return operation.Refuse(workspace.BuildInUse, "the audit %s works with the build", a.ID).Retrying(fault.AfterWait).With("audit_id", a.ID).With("job_id", a.Job).
			Then(operation.Next{Tool: "command_status", Args: map[string]any{"job_id": a.Job, "wait_ms": 20000}, Why: "waits for its end"})
	}
	open, err := workspace.AllGenerations(ctx, r, workspace.ListGenerations{Project: g.Project, States: workspace.GenerationsUnderWay})
	for _, o := range open {
		if slices.Contains(o.Inputs, g.ID) {
			return operation.Refuse(workspace.BuildInUse, "the candidate %s is made from the build", o.Candidate).Retrying(fault.AfterWait).With("candidate_id", o.Candidate).
				Then(waitFor(operation.Job{Of: o.Candidate}))
		}
	}
	return err
}

func (r *release) stage(context.Context) (any, error) { return r.g, nil }
func (r *release) drop()                              {}
func (r *release) settle(context.Context)             {}
func (r *release) close()                             {}

// keep makes the build released before its bytes go, so that nobody begins to work with them.
func (r *release) keep(ctx context.Context, tx store.Tx, t *turn, _ *operation.Answer) error {
	switch t.op.State {
	case operation.Dispatched:
		now, err := tx.GenerationByID(ctx, workspace.ByID{ID: r.g.Candidate})
		if err != nil {
			return err
		}
		if err := unused(ctx, tx, now); err != nil {
			return err
		}
		now.State, now.Retained = workspace.GenReleased, false
		r.g = now
		if err := tx.PutGeneration(ctx, workspace.PutGeneration{Generation: now}); err != nil {
			return err
		}
		return r.s.tellBuild(ctx, tx, t.actor(), now, event.GenerationReleased, "a build is released: "+now.ID, struct{}{})
	case operation.Claimed, operation.Succeeded, operation.Failed, operation.Unknown:
	}
	return nil
}

// run removes the bytes. What cannot be removed now is at the next start: the build is released all the same.
func (r *release) run(ctx context.Context) (any, error) {
	answer := outcome{data: actedOn{r.g.ID, workspace.GenReleased, false}}
	crash.Point("gen.release.before")
	if err := (built{Generation: r.g}).dir().Empty(ctx); err != nil {
		answer.warnings = []string{"its bytes could not be removed yet: " + problemText(err)}
	}
	crash.Point("gen.release.after")
	return answer, nil
}

// recoverRelease ends a release that an earlier daemon has begun.
func recoverRelease(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil
	}
	g, err := evidenceOf[workspace.Generation](t.op)
	if err != nil {
		return nil, nil, err
	}
	data, err := (&release{s: s, t: t, g: g}).run(ctx)
	return data, nil, err
}
