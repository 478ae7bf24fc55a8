package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"mcpx/internal/approval"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
)

// RemoveFiles are the arguments of remove_files.
type RemoveFiles struct {
	ID
	InCopy
	Action   string         `json:"action" jsonschema:"prepare, submit, restore or status"`
	Targets  []RemoveTarget `json:"targets,omitempty" jsonschema:"prepare: 1 to 1000 files, links and directories"`
	Manifest string         `json:"manifest_id,omitempty" jsonschema:"all but prepare: what that answered"`
	Paths    []string       `json:"paths,omitempty" jsonschema:"restore: these and what is below; all without it"`
}

// RemoveTarget is something to remove.
type RemoveTarget struct {
	AskedPath
	Expect string `json:"expect_sha256,omitempty" jsonschema:"files: the hash that was read"`
}

// Bounds of a removal, runtime.md section 11.
const (
	maxTargets  = 1000
	maxRemoved  = 10000
	maxRemBytes = 2 << 30
	maxPreview  = 20
)

func (in RemoveFiles) check() error {
	switch {
	case !slices.Contains([]string{"prepare", "submit", "restore", "status"}, in.Action):
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no action; prepare, submit, restore and status are", in.Action)
	case in.Action == "prepare" && (len(in.Targets) == 0 || len(in.Targets) > maxTargets):
		return operation.Refuse(operation.LimitExceeded, "a removal has 1 to %d targets", maxTargets).With("limit", maxTargets).With("value", len(in.Targets))
	case in.Action != "prepare" && in.Manifest == "":
		return operation.Refuse(operation.ArgumentInvalid, "%s needs manifest_id, which prepare answers", in.Action)
	}
	return nil
}

// removeLooks says whether a call of remove_files changes nothing.
func removeLooks(t *turn) bool { return t.text("action") == "status" }

// beginRemove begins what a call of remove_files changes.
func beginRemove(ctx context.Context, s *Service, t *turn) (effect, error) {
	var in RemoveFiles
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	if err := in.check(); err != nil {
		return nil, err
	}
	switch in.Action {
	case "prepare":
		return s.prepareRemoval(ctx, t, in)
	case "restore":
		return s.beginRestore(ctx, t, in)
	}
	return s.beginRemoval(ctx, t, in)
}

// recoverRemove carries an effect of remove_files to its end that an earlier daemon has begun.
func recoverRemove(ctx context.Context, s *Service, t *turn) (any, ending, error) {
	var was removeEvidence
	if t.op.Evidence != nil {
		if err := json.Unmarshal(t.op.Evidence, &was); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case was.Prepared != nil:
		return s.recoverPreparation(ctx, t, *was.Prepared)
	case was.Restored != nil:
		return s.recoverRestore(ctx, t, *was.Restored)
	}
	return s.recoverRemoval(ctx, t, was.Removed)
}

// removeEvidence is what recovery needs: that of one action.
type removeEvidence struct {
	Prepared *prepared        `json:"prepared,omitempty"`
	Removed  *removalEvidence `json:"removed,omitempty"`
	Restored *restoreEvidence `json:"restored,omitempty"`
}

// manifest is a removal, frozen: what a person says yes to. Its id is a reference, so that all of it can be read.
type manifest struct {
	Project string `json:"project_id"`
	// Workspace is the one in whose working copy it is; "" the project itself. Nobody is asked there: BASE and the store keep
	// the bytes, and the project has them until an integration.
	Workspace string          `json:"workspace_id,omitempty"`
	Root      string          `json:"root"`
	Targets   []removedTarget `json:"targets"`

	id, sum string
	made    time.Time
}

// removedTarget is a target with all that is in it.
type removedTarget struct {
	Path tree.RawPath  `json:"path"`
	Tree tree.Manifest `json:"tree"`
}

// prepared is the answer of prepare.
type prepared struct {
	Manifest string             `json:"manifest_id"`
	SHA256   string             `json:"manifest_sha256"`
	Files    int                `json:"files"`
	Dirs     int                `json:"dirs"`
	Links    int                `json:"links"`
	Other    int                `json:"other,omitempty"`
	Bytes    int64              `json:"bytes"`
	Preview  []string           `json:"preview"`
	Ref      string             `json:"result_ref"` // of the whole manifest
	Waiting  *operation.Waiting `json:"waiting,omitempty"`
}

// preparation freezes a manifest and asks a person about it.
type preparation struct {
	s      *Service
	t      *turn
	in     InCopy
	at     *target
	raw    []byte
	answer prepared
}

func (s *Service) prepareRemoval(ctx context.Context, t *turn, in RemoveFiles) (effect, error) {
	for i := range in.Targets {
		if err := in.Targets[i].decode(); err != nil {
			return nil, err
		}
	}
	x, err := s.at(ctx, t, in.Targets[0].Path, session.ActChange)
	if err != nil {
		return nil, err
	}
	p := &preparation{s: s, t: t, in: in.InCopy, at: x}
	if err := p.freeze(ctx, in.Targets); err != nil {
		x.close()
		return nil, problem(err)
	}
	return p, nil
}

// freeze walks all targets.
func (p *preparation) freeze(ctx context.Context, targets []RemoveTarget) error {
	if err := p.at.root.Changeable(); err != nil {
		return err
	}
	m := manifest{Project: p.at.Project.ID, Workspace: p.at.id(), Root: p.at.root.Path()}
	room := &frozenRoom{}
	var paths []string
	for i, one := range targets {
		place, frozen, err := p.s.frozenTarget(ctx, p.at, one.Path, room)
		if err == nil && place.Kind == tree.File {
			switch {
			case one.Expect == "":
				err = operation.Refuse("REVISION_REQUIRED", "give expect_sha256 of %s, as read_file tells it", place.Path).
					Then(operation.Next{Tool: "read_file", Args: readAgain(p.in, one.Path), Why: "tells the hash"})
			case frozen.Digest() != one.Expect:
				err = operation.Refuse("STALE_REVISION", "%s has changed since it was read", place.Path).With("current_sha256", frozen.Digest()).
					Then(operation.Next{Tool: "read_file", Args: readAgain(p.in, one.Path), Why: "what the file is now"})
			}
		}
		if err != nil {
			if r, ok := errors.AsType[*operation.Refusal](problem(err)); ok {
				return r.With("target", i)
			}
			return err
		}
		paths = append(paths, place.Path)
		m.Targets = append(m.Targets, removedTarget{Path: tree.RawPath(place.Path), Tree: frozen})
	}
	if twice := tree.Overlap(paths); twice != "" {
		return operation.Refuse("DUPLICATE_PATH", "%s lies in another target, or is named twice", twice)
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	p.raw = raw
	m.sum = digest(raw)
	m.id = keptRef(m.sum)
	p.answer = m.summary()
	return nil
}

// frozenRoom bounds what one removal may hold.
type frozenRoom struct {
	entries int
	bytes   int64
}

// frozenTarget resolves a target and makes its manifest. Whoever may not write an entry may not remove it.
func (s *Service) frozenTarget(ctx context.Context, x *target, path string, room *frozenRoom) (*tree.Place, tree.Manifest, error) {
	place, err := x.root.Resolve(path, tree.Look)
	if err != nil {
		return nil, tree.Manifest{}, err
	}
	defer place.Close()
	if err := place.Alias(); err != nil {
		return nil, tree.Manifest{}, err
	}
	m, err := place.Freeze(ctx, func(e tree.Seen) error {
		if room.entries++; room.entries > maxRemoved {
			return operation.Refuse(operation.LimitExceeded, "a removal has at most %d entries", maxRemoved).With("limit", maxRemoved)
		}
		if e.Kind == tree.File {
			if room.bytes += e.Size; room.bytes > maxRemBytes {
				return operation.Refuse(operation.LimitExceeded, "a removal has at most %d bytes", int64(maxRemBytes)).With("limit", int64(maxRemBytes))
			}
		}
		return s.judge(ctx, x, e, policy.AccessWrite)
	})
	return place, m, err
}

// summary is what is told of a manifest.
func (m manifest) summary() prepared {
	p := prepared{Manifest: m.id, SHA256: m.sum, Ref: m.id, Preview: []string{}}
	for _, t := range m.Targets {
		for _, i := range t.Tree.Items {
			switch i.Kind {
			case tree.File:
				p.Files++
				p.Bytes += i.Size
			case tree.Directory:
				p.Dirs++
			case tree.Link:
				p.Links++
			case tree.Other, tree.Absent:
				p.Other++
			}
			if len(p.Preview) < maxPreview {
				p.Preview = append(p.Preview, text.EncodePath(t.at(i.Path)))
			}
		}
	}
	return p
}

// at is the path in the project of an item.
func (t removedTarget) at(item tree.RawPath) string {
	if item == "." {
		return string(t.Path)
	}
	return string(t.Path) + "/" + string(item)
}

func (p *preparation) stage(context.Context) (any, error) {
	return removeEvidence{Prepared: &p.answer}, nil // nothing is staged: the manifest is kept in one commit with the question
}

func (p *preparation) drop() {}

func (p *preparation) run(ctx context.Context) (any, error) {
	var asked approval.Approval
	err := p.s.cfg.DB.Change(ctx, func(tx store.Tx) (err error) {
		if _, err = p.s.keep(ctx, tx, p.t, "application/json", p.raw); err != nil {
			return err
		}
		if p.at.workspace != nil {
			return nil
		}
		if asked, err = lastAsked(ctx, tx, p.t.Principal, p.answer.SHA256); err != nil {
			return err
		}
		if now, _ := approval.Expire(asked, p.s.cfg.Now()); asked.ID == "" || now.State.Final() {
			asked, err = p.s.ask(ctx, tx, p.t, p.question())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return p.s.preparedAnswer(p.t, p.answer, p.at.id(), asked)
}

// question is about the whole manifest, of which the beginning is shown.
func (p *preparation) question() Question {
	a := p.answer
	var shown strings.Builder
	fmt.Fprintf(&shown, "remove %d files, %d directories, %d links", a.Files, a.Dirs, a.Links)
	if a.Other > 0 {
		fmt.Fprintf(&shown, ", %d others", a.Other)
	}
	fmt.Fprintf(&shown, ": %d bytes, below %s\n", a.Bytes, p.at.root.Path())
	for _, path := range a.Preview {
		fmt.Fprintf(&shown, "  %s\n", path)
	}
	if more := a.Files + a.Dirs + a.Links + a.Other - len(a.Preview); more > 0 {
		fmt.Fprintf(&shown, "  and %d more\n", more)
	}
	fmt.Fprintf(&shown, "all of it is in the result %s\n", a.Ref)
	return Question{Kind: approval.KindRemove, Subject: a.SHA256, Display: shown.String()}
}

func (p *preparation) settle(context.Context) {}
func (p *preparation) close()                 { p.at.close() }

// lastAsked is the latest question of a principal about a manifest.
func lastAsked(ctx context.Context, r store.Reader, principal, sum string) (last approval.Approval, err error) {
	all, err := approval.All(ctx, r, approval.ListApprovals{About: sum})
	for _, a := range all {
		if a.Kind == approval.KindRemove && a.Principal == principal {
			last = a
		}
	}
	return last, err
}

// preparedAnswer says for whom a removal waits, and what to call then. In a workspace it waits for nobody. The id that it proposes is
// another one for each preparation: what was restored since can be removed again.
func (s *Service) preparedAnswer(t *turn, a prepared, workspace string, asked approval.Approval) (any, error) {
	args := map[string]any{"action": "submit", "manifest_id": a.Manifest, operation.IDField: "remove-" + keptRef(digest([]byte(t.op.ID+"\n"+a.Manifest)))}
	if t.op.Session != "" {
		args["remote_session_id"] = t.op.Session
	}
	if workspace != "" {
		return outcome{data: a, next: []operation.Next{{Tool: t.Tool, Args: args, Why: "removes it"}}}, nil
	}
	if now, _ := approval.Expire(asked, s.cfg.Now()); now.State.Final() {
		return nil, ended(now)
	}
	a.Waiting = &operation.Waiting{For: operation.HoldApproval, Approval: asked.ID, Expires: asked.Expires.UTC().Format(time.RFC3339), Channels: channels}
	return outcome{data: a, next: []operation.Next{{Tool: t.Tool, Args: args, Why: "removes it, once a person has said yes"}}}, nil
}

func (s *Service) recoverPreparation(ctx context.Context, t *turn, a prepared) (any, ending, error) {
	if t.op.State == operation.Claimed {
		return nil, nil, nil
	}
	m, err := s.readManifest(ctx, t, a.Manifest)
	if codeIn(err) == operation.NotFound {
		return nil, nil, errNotRun // the manifest and the question are one commit
	}
	if err != nil {
		return nil, nil, undecided(err)
	}
	var asked approval.Approval
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		asked, err = lastAsked(ctx, r, t.Principal, a.SHA256)
		return err
	})
	switch {
	case err != nil:
		return nil, nil, err
	case asked.ID == "" && m.Workspace == "": // it was prepared before, and its question is there no more
		return nil, nil, errNotRun
	}
	data, err := s.preparedAnswer(t, a, m.Workspace, asked)
	return data, nil, err
}

// readManifest finds a manifest of the caller.
func (s *Service) readManifest(ctx context.Context, t *turn, ref string) (m manifest, err error) {
	var kept operation.Kept
	err = s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		kept, err = r.KeptResult(ctx, operation.KeptByRef{Principal: t.Principal, Ref: ref})
		return err
	})
	if err == nil {
		err = json.Unmarshal(kept.Bytes, &m)
	}
	if fault.KindOf(err) == fault.NotFound || err == nil && (m.Project == "" || len(m.Targets) == 0) {
		return m, operation.Refuse(operation.NotFound, "there is no manifest %.64q: prepare makes one", ref)
	}
	m.id, m.sum, m.made = ref, kept.SHA256, kept.Made
	return m, err
}

// whereFrozen opens the project or the workspace of a manifest. A call about a workspace need not repeat its handle.
func (s *Service) whereFrozen(ctx context.Context, t *turn, m manifest, act session.Act) (x *target, err error) {
	if m.Workspace != "" && t.text("handle") == "" {
		x, err = s.atWorkspace(ctx, t, m.Workspace, act)
	} else {
		x, err = s.at(ctx, t, m.Root, act)
	}
	if err != nil {
		return nil, err
	}
	if x.Project.ID != m.Project || x.id() != m.Workspace || x.root.Path() != m.Root {
		x.close()
		return nil, operation.Refuse(operation.ArgumentInvalid, "the manifest %s is of another project or workspace than the call", m.id).With("project", m.Project)
	}
	return x, nil
}

// bins says where the trash may be.
func (s *Service) bins() tree.BinOptions { return tree.BinOptions{Data: s.cfg.Data, UID: os.Getuid()} }
