package work

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"path"
	"slices"
	"time"
	"unicode/utf8"

	"mcpx/internal/fault"
	"mcpx/internal/id"
	"mcpx/internal/operation"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/tree"
)

// Artifact are the arguments of artifact.
type Artifact struct {
	ID
	In
	Action   string `json:"action" jsonschema:"register, list or read"`
	Path     string `json:"path,omitempty" jsonschema:"register: the file, at most 256 MB; list without a session: the project"`
	Name     string `json:"name,omitempty" jsonschema:"register: at most 120 bytes"`
	Kind     string `json:"kind,omitempty" jsonschema:"register: test_report, coverage, build, screenshot, log or other"`
	Media    string `json:"media,omitempty" jsonschema:"register: its media type"`
	Artifact string `json:"artifact_id,omitempty" jsonschema:"read: what register or list answered"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"read: first byte, 0-based"`
	Limit    int    `json:"limit,omitempty" jsonschema:"read: bytes, 1 to 20000; 16000 without it"`
	Cursor   string `json:"cursor,omitempty" jsonschema:"list: next_cursor of the page before"`
}

// artifactPart is how many bytes of an artifact are kept under one reference: one transaction while it is registered, and
// what is read for a window.
const artifactPart = 1 << 20

func (in Artifact) check() error {
	switch {
	case in.Action == "register" && in.Path == "":
		return operation.Refuse(operation.ArgumentInvalid, "register needs path")
	case in.Action == "read" && in.Artifact == "":
		return operation.Refuse(operation.ArgumentInvalid, "read needs artifact_id, which register and list answer")
	case in.Action != "register" && in.Action != "read" && in.Action != "list":
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no action; register, list and read are", in.Action)
	}
	return nil
}

func artifactReads(t *turn) bool { return t.text("action") != "register" }

// artifactShown is what is told of an artifact.
type artifactShown struct {
	ID         string               `json:"artifact_id"`
	Name       string               `json:"name"`
	Kind       session.ArtifactKind `json:"kind"`
	Media      string               `json:"media,omitempty"`
	Path       string               `json:"path"`
	SHA256     string               `json:"sha256"`
	Bytes      int64                `json:"bytes"`
	Registered string               `json:"registered_at"`
}

func showArtifact(a session.Artifact) artifactShown {
	return artifactShown{a.ID, a.Name, a.Kind, a.Media, a.Path, a.SHA256, a.Bytes, a.Registered.UTC().Format(time.RFC3339)}
}

// copied is a file whose bytes are kept, for the artifact that it becomes.
type copied struct {
	artifact session.Artifact
	err      error
}

// artifactLook copies the file, part by part. Parts to which no artifact refers in the end are results like others.
func artifactLook(ctx context.Context, s *Service, t *turn) {
	t.copied.artifact, t.copied.err = s.copyArtifact(ctx, t)
}

func (s *Service) copyArtifact(ctx context.Context, t *turn) (session.Artifact, error) {
	var in Artifact
	if err := t.scan(&in); err != nil {
		return session.Artifact{}, err
	}
	if err := in.check(); err != nil {
		return session.Artifact{}, err
	}
	a := session.Artifact{Principal: t.Principal, Name: in.Name, Kind: session.ArtifactKind(cmp.Or(in.Kind, string(session.ArtifactOther))), Media: in.Media}
	if err := a.Check(); err != nil {
		return a, err
	}
	x, err := s.at(ctx, t, in.Path, session.ActChange)
	if err != nil {
		return a, err
	}
	defer x.close()
	p, err := s.resolve(ctx, x, in.Path, tree.Read)
	if err != nil {
		return a, err
	}
	defer p.Close()
	var parts *partWriter
	c, err := p.Stream(ctx, session.MaxArtifact, func() io.Writer {
		parts = &partWriter{keep: func(part []byte) (string, error) { return s.keepPart(ctx, t, part) }}
		return parts
	})
	if err != nil {
		return a, problem(err)
	}
	if err := parts.flush(); err != nil {
		return a, err
	}
	a.Path, a.SHA256, a.Bytes, a.Parts = p.Path, c.SHA256, c.Size, parts.refs
	a.Name = cmp.Or(a.Name, path.Base(p.Path))
	return a, nil
}

func (s *Service) keepPart(ctx context.Context, t *turn, part []byte) (ref string, err error) {
	err = s.cfg.DB.Change(ctx, func(tx store.Tx) error {
		kept, err := s.keep(ctx, tx, t, "application/octet-stream", part)
		ref = kept.Ref
		return err
	})
	return ref, err
}

// partWriter keeps what is written to it in parts.
type partWriter struct {
	keep func(part []byte) (ref string, err error)
	held []byte
	refs []string
}

func (w *partWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		room := min(artifactPart-len(w.held), len(b))
		w.held, b = append(w.held, b[:room]...), b[room:]
		if len(w.held) == artifactPart {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *partWriter) flush() error {
	if len(w.held) == 0 {
		return nil
	}
	ref, err := w.keep(w.held)
	w.refs, w.held = append(w.refs, ref), nil
	return err
}

func artifactChange(ctx context.Context, s *Service, tx store.Tx, t *turn) (any, error) {
	a, err := t.copied.artifact, t.copied.err
	if err != nil {
		return nil, err
	}
	at, err := s.locate(ctx, tx, t, t.text("path"), session.ActChange)
	if err != nil {
		return nil, err
	}
	t.op.Session, t.op.Project = at.Session.ID, at.Project.ID
	a.ID, a.Session, a.Project, a.Operation, a.Registered = s.cfg.IDs.New(id.Artifact), at.Session.ID, at.Project.ID, t.op.ID, s.cfg.Now()
	return showArtifact(a), tx.PutArtifact(ctx, session.PutArtifact{Artifact: a})
}

func artifactRead(ctx context.Context, s *Service, t *turn) (any, error) {
	var in Artifact
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	if in.Action == "list" {
		return s.listArtifacts(ctx, t, in)
	}
	return s.readArtifact(ctx, t, in)
}

// artifactList is one page, the newest first.
type artifactList struct {
	Artifacts []artifactShown `json:"artifacts"`
	Next      string          `json:"next_cursor,omitempty"`
}

func (s *Service) listArtifacts(ctx context.Context, t *turn, in Artifact) (any, error) {
	out := artifactList{Artifacts: []artifactShown{}}
	err := s.cfg.DB.View(ctx, func(r store.Reader) error {
		at, err := s.locate(ctx, r, t, in.Path, session.ActRead)
		if err != nil {
			return err
		}
		list := session.ListArtifacts{Session: at.Session.ID, Project: at.Project.ID, Before: in.Cursor}
		page, err := r.Artifacts(ctx, list)
		for _, a := range page {
			out.Artifacts = append(out.Artifacts, showArtifact(a))
		}
		if len(page) == list.PageLimit() {
			out.Next = page[len(page)-1].ID
		}
		return err
	})
	return out, err
}

// artifactWindow is a part of an artifact.
type artifactWindow struct {
	Artifact artifactShown `json:"artifact"`
	resultWindow
	// Changed says whether its file is another one now, or gone; nil: it cannot be looked at.
	Changed *bool `json:"source_changed,omitempty"`
}

func (s *Service) readArtifact(ctx context.Context, t *turn, in Artifact) (any, error) {
	var (
		a     session.Artifact
		at    session.Admission
		piece []byte
		from  = max(in.Offset, 0)
		limit = within(in.Limit, windowUsual, windowMost)
	)
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		if a, at, err = s.admitArtifact(ctx, r, t, in.Artifact); err != nil {
			return err
		}
		from = min(from, a.Bytes)
		piece, err = partsFrom(ctx, r, a, from, limit+utf8.UTFMax)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := artifactWindow{Artifact: showArtifact(a), resultWindow: resultWindow{Bytes: int(a.Bytes), SHA256: a.SHA256}.window(piece, int(from), limit)}
	out.Text = s.cfg.Redact(out.Text)
	out.Changed = s.sourceChanged(ctx, at, a)
	return out, nil
}

// admitArtifact finds an artifact that a caller may look at: of a session that it is in, or one of its own.
func (s *Service) admitArtifact(ctx context.Context, r store.Reader, t *turn, ref string) (session.Artifact, session.Admission, error) {
	a, err := r.ArtifactByID(ctx, session.ByID{ID: ref})
	unknown := operation.Refuse(operation.NotFound, "there is no artifact %.64q", ref)
	if fault.KindOf(err) == fault.NotFound {
		return a, session.Admission{}, unknown
	}
	if err != nil {
		return a, session.Admission{}, err
	}
	at, err := admitTo(ctx, r, a.Session, a.Project, t.Principal, session.ActRead)
	if err != nil {
		return a, at, unknown
	}
	return a, at, nil
}

// admitTo admits a principal to what belongs to a session, or without one to a project.
func admitTo(ctx context.Context, r store.Reader, inSession, inProject, principal string, act session.Act) (session.Admission, error) {
	if inSession != "" {
		return session.Admit(ctx, r, session.AdmitRequest{Session: inSession, Principal: principal, Act: act})
	}
	return session.AdmitProject(ctx, r, session.AdmitProjectRequest{Project: inProject, Principal: principal, Act: act})
}

// partsFrom gives up to so many bytes of an artifact from an offset on.
func partsFrom(ctx context.Context, r store.Reader, a session.Artifact, from int64, most int) ([]byte, error) {
	var out bytes.Buffer
	skip := int(from % artifactPart)
	for i := int(from / artifactPart); i < len(a.Parts) && out.Len() < most; i++ {
		kept, err := r.KeptResult(ctx, operation.KeptByRef{Principal: a.Principal, Ref: a.Parts[i]})
		if err != nil {
			return nil, err
		}
		out.Write(kept.Bytes[min(skip, len(kept.Bytes)):])
		skip = 0
	}
	return out.Bytes()[:min(out.Len(), most)], nil
}

// sourceChanged says whether the file that was registered is another one now; nil: nobody can tell.
func (s *Service) sourceChanged(ctx context.Context, at session.Admission, a session.Artifact) *bool {
	x, err := s.open(at)
	if err != nil {
		return nil
	}
	defer x.close()
	yes := true
	p, err := s.resolve(ctx, x, a.Path, tree.Read)
	if codeIn(err) == operation.NotFound {
		return &yes
	}
	if err != nil {
		return nil
	}
	defer p.Close()
	c, err := p.Hash(ctx, session.MaxArtifact)
	if err == nil {
		yes = c.SHA256 != a.SHA256
		return &yes
	}
	if slices.Contains([]tree.Code{tree.NotFound, tree.LimitExceeded, tree.NotAFile, tree.SpecialFile}, tree.CodeOf(err)) {
		return &yes
	}
	return nil
}

// artifactHolds says why an artifact is no evidence for a plan of a session.
func (s *Service) artifactHolds(ctx context.Context, r store.Reader, t *turn, at session.Admission, ref string) (string, error) {
	a, _, err := s.admitArtifact(ctx, r, t, ref)
	switch {
	case codeIn(err) == operation.NotFound, err == nil && a.Project != at.Project.ID:
		return "there is no such artifact in this project", nil
	case err != nil:
		return "", err
	}
	return "", nil
}
