package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
	"mcpx/internal/session"
	"mcpx/internal/store"
	"mcpx/internal/text"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

// target is the directory that a call acts on, opened.
type target struct {
	session.Admission
	root    *tree.Root
	rulesOf string       // root of the project
	rules   policy.Rules // as they were when the call came
	// workspace is the one whose working copy this is; nil: it is the project itself.
	workspace *workspace.Workspace
	release   func() // gives the lease of the workspace back; nil: there is none
	sealed    bool   // it is the bytes of a build: commands do not change them
	builds    builds // that commands in it see

	once   sync.Once // guards denied
	denied map[tree.ID]string
}

// at finds and opens the target of a call.
func (s *Service) at(ctx context.Context, t *turn, path string, act session.Act) (*target, error) {
	if ref := t.text("handle"); ref != "" {
		return s.atWorkspace(ctx, t, ref, act)
	}
	var p session.Admission
	err := s.cfg.DB.View(ctx, func(r store.Reader) (err error) {
		p, err = s.locate(ctx, r, t, path, act)
		return err
	})
	if err != nil {
		return nil, err
	}
	t.op.Project, t.op.Session = p.Project.ID, p.Session.ID
	return s.open(p)
}

func (s *Service) open(p session.Admission) (*target, error) {
	root, err := tree.Open(p.Project.Path, tree.Options{Areas: s.cfg.Own, ByPath: p.Project.By == session.ByPath})
	if err != nil {
		return nil, problem(err)
	}
	return &target{Admission: p, root: root, rulesOf: root.Path(), rules: s.cfg.Rules(root.Path())}, nil
}

// atWorkspace opens the working copy that a handle names. Whoever changes something there keeps it from being integrated,
// suspended or removed meanwhile.
func (s *Service) atWorkspace(ctx context.Context, t *turn, ref string, act session.Act) (*target, error) {
	p, err := s.packet(ctx, t, ref, act)
	if err != nil {
		return nil, err
	}
	if act == session.ActRead {
		if err := p.In(workspace.Open, workspace.Suspended, workspace.Integrating, workspace.Attention, workspace.Integrated); err != nil {
			return nil, err
		}
		return s.copy(p)
	}
	if err := p.In(workspace.Open); err != nil {
		return nil, err
	}
	release, err := s.leases.take(p.ID, false)
	if err != nil {
		return nil, err
	}
	x, err := s.copy(p)
	if err != nil {
		release()
		return nil, err
	}
	x.release = release
	return x, nil
}

func (x *target) close() {
	_ = x.root.Close() // it was only read from
	if x.release != nil {
		x.release()
	}
}

// id is that of the workspace; "" in the project itself.
func (x *target) id() string {
	if x.workspace == nil {
		return ""
	}
	return x.workspace.ID
}

// resolve says where a path leads, when the policy lets it be reached. What is denied is denied before anything of it is
// told.
func (s *Service) resolve(ctx context.Context, x *target, path string, a tree.Access) (*tree.Place, error) {
	p, err := x.root.Resolve(path, a)
	if err != nil {
		return nil, problem(err)
	}
	access := policy.AccessRead
	if a == tree.Write {
		access = policy.AccessWrite
	}
	if err := s.judge(ctx, x, p.Seen, access); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// judge asks the policy about an entry.
func (s *Service) judge(ctx context.Context, x *target, e tree.Seen, access policy.Access) error {
	v := s.verdict(ctx, x, e, access)
	if v.Decision != policy.Deny {
		return nil
	}
	r := operation.Refuse("FILE_DENIED", "%s", v.Reason).Retrying(fault.Never).With("rule", v.Rule).With("path", e.Path)
	if v.Setting != "" {
		return r.With("setting", v.Setting)
	}
	return r
}

// verdict is what the rules say of an access. Of a project whose own rules are not known nothing is written.
func (s *Service) verdict(ctx context.Context, x *target, e tree.Seen, access policy.Access) policy.FileVerdict {
	if why := x.rules.Broken(); why != "" && access == policy.AccessWrite {
		return policy.FileVerdict{Decision: policy.Deny, Rule: "policy.broken", Reason: "the policy file of the project does not load: " + why}
	}
	f := policy.File{Path: filepath.Join(x.root.Path(), e.Path), Exists: e.Kind != tree.Absent, Dir: e.Kind == tree.Directory, Folds: e.Folds}
	if e.Kind == tree.File && e.Links > 1 {
		if name := s.deniedName(ctx, x, e.ID); name != "" {
			f.Names = []string{name}
		}
	}
	return policy.JudgeFile(f, access, s.placeOf(x), x.rules.Files)
}

func (s *Service) placeOf(x *target) policy.Place {
	return policy.Place{Target: x.root.Path(), Home: s.cfg.Home, Own: s.own(x.root.Path())}
}

// ProjectPolicy is the name of the policy file of a project, in its root. It is ours: agents read it and write it never.
const ProjectPolicy = ".mcpx.toml"

func (s *Service) own(root string) []string {
	return append(slices.Clip(s.cfg.Own), filepath.Join(root, ProjectPolicy))
}

// deniedName is the name in the project of a file with several names under which it may not be read; "" when there is
// none. It takes a walk, of which only what is denied is looked at, once for each call.
func (s *Service) deniedName(ctx context.Context, x *target, id tree.ID) string {
	x.once.Do(func() {
		x.denied = map[tree.ID]string{}
		top, err := x.root.Resolve(".", tree.List)
		if err != nil {
			return
		}
		defer top.Close()
		place := s.placeOf(x)
		// A walk that fails has found what it came to; the name that is asked for is judged in any case.
		_ = top.Walk(ctx, tree.WalkOptions{Ignored: true}, func(v tree.Visit) error {
			name := filepath.Join(x.root.Path(), v.Path)
			if v.Kind != tree.File || policy.JudgeFile(policy.File{Path: name, Exists: true, Folds: v.Folds()}, policy.AccessRead, place, x.rules.Files).Decision != policy.Deny {
				return nil
			}
			if seen, err := v.Look(); err == nil && seen.Links > 1 {
				x.denied[seen.ID] = name
			}
			return nil
		})
	})
	return x.denied[id]
}

// retries are the advices for what is not cured by correcting the call.
var retries = map[tree.Code]fault.Retry{
	tree.ContestedCode: fault.Never, tree.FileBusy: fault.AfterWait, tree.FileDenied: fault.Never, tree.Internal: fault.SameID,
}

// problem makes the refusal of what the file system or the text refused.
func problem(err error) error {
	if err == nil {
		return nil
	}
	if r, ok := errors.AsType[*operation.Refusal](err); ok { // the policy's, however deep it was asked
		return r
	}
	if p, ok := errors.AsType[*tree.Problem](err); ok {
		r := operation.Refuse(operation.Code(p.Code), "%s", p.Message)
		r.Details = p.Details
		if p.Code == tree.ContestedCode {
			r = r.Ending(operation.OutcomeUnclear)
		}
		if retry, other := retries[p.Code]; other {
			return r.Retrying(retry)
		}
		return r
	}
	if p, ok := errors.AsType[*text.Problem](err); ok {
		r := operation.Refuse(operation.Code(p.Code), "%s", p.Message)
		r.Details = p.Details
		return r
	}
	return err
}

// In is what tools about files take beside their own arguments.
type In struct {
	Claims
	Session string `json:"remote_session_id,omitempty" jsonschema:"the session; else path is absolute"`
}

// InCopy is In for tools that act in a workspace, too.
type InCopy struct {
	In
	Handle string `json:"handle,omitempty" jsonschema:"a workspace, not the project"`
}

// Window is a part of a file.
type Window struct {
	AskedPath
	FromLine int    `json:"from_line,omitempty" jsonschema:"first line, 1-based; 1 without it"`
	Lines    int    `json:"lines,omitempty" jsonschema:"1 to 5000; 400 without it"`
	FromByte *int64 `json:"from_byte,omitempty" jsonschema:"instead of lines: first byte, 0-based"`
	Bytes    int    `json:"bytes,omitempty" jsonschema:"with from_byte: 1 to 20000; 16000 without it"`
	As       string `json:"as,omitempty" jsonschema:"text, base64 or image (PNG, JPEG, GIF, WebP to 1 MB)"`
	IfSHA256 string `json:"if_sha256,omitempty" jsonschema:"no text when the file has this hash"`
}

// ReadFile are the arguments of read_file.
type ReadFile struct {
	InCopy
	Window
	Items    []Window `json:"items,omitempty" jsonschema:"instead of one window: up to 20"`
	MaxBytes int      `json:"max_bytes,omitempty" jsonschema:"of all items, 1 to 20000; 16000 without it"`
}

const (
	maxItems   = 20
	usualLines = 400
	mostLines  = 5000
)

// fileWindow is what is told about a window.
type fileWindow struct {
	shownPath
	// SHA256 is null for a file that is too large to be hashed.
	SHA256    json.RawMessage `json:"sha256,omitempty"`
	Unchanged bool            `json:"unchanged,omitempty"`
	*text.Facts
	FromLine  int                `json:"from_line,omitempty"`
	ToLine    int                `json:"to_line,omitempty"`
	FromByte  *int64             `json:"from_byte,omitempty"`
	ToByte    *int64             `json:"to_byte,omitempty"`
	Text      *string            `json:"text,omitempty"`
	Base64    []byte             `json:"base64,omitempty"`
	Continues bool               `json:"line_continues,omitempty"`
	More      bool               `json:"more"`
	Next      map[string]any     `json:"next,omitempty"`
	Media     string             `json:"media,omitempty"` // of an image, which stands beside the answer
	Error     *operation.Refusal `json:"error,omitempty"`

	image []byte
}

func readFile(ctx context.Context, s *Service, t *turn) (any, error) {
	var in ReadFile
	if err := t.scan(&in); err != nil {
		return nil, err
	}
	items := in.Items
	single := len(items) == 0
	if single {
		if in.Path == "" && in.Pct == "" {
			return nil, operation.Refuse(operation.ArgumentInvalid, "give path or items")
		}
		items = []Window{in.Window}
	}
	if len(items) > maxItems {
		return nil, operation.Refuse(operation.LimitExceeded, "%d items are too many for one call", len(items)).With("limit", maxItems).With("value", len(items))
	}
	for i := range items {
		if err := items[i].decode(); err != nil {
			return nil, err
		}
	}
	x, err := s.at(ctx, t, items[0].Path, session.ActRead)
	if err != nil {
		return nil, err
	}
	defer x.close()
	budget := windowUsual
	if in.MaxBytes > 0 {
		budget = min(in.MaxBytes, windowMost)
	}
	var out []fileWindow
	var images []operation.Image
	for _, one := range items {
		w, err := s.readWindow(ctx, x, one, budget)
		if err != nil && single {
			return nil, err
		}
		if err != nil { // one item never fails the others
			w = fileWindow{shownPath: showPath(one.Path), Error: s.refusalOf(ctx, t, err)}
		}
		if w.Text != nil {
			budget -= len(*w.Text)
		}
		budget -= len(w.Base64)
		if w.image != nil {
			images = append(images, operation.Image{Media: w.Media, Data: w.image})
		}
		out = append(out, w)
	}
	if !single {
		return outcome{images: images, data: struct {
			Items []fileWindow `json:"items"`
		}{out}}, nil
	}
	answer := outcome{data: out[0], images: images}
	if next := out[0].Next; next != nil {
		args := readAgain(in.InCopy, items[0].Path)
		if in.As != "" {
			args["as"] = in.As
		}
		maps.Copy(args, next)
		answer.next = []operation.Next{{Tool: "read_file", Args: args, Why: "the rest"}}
	}
	return answer, nil
}

func (s *Service) readWindow(ctx context.Context, x *target, in Window, budget int) (fileWindow, error) {
	p, err := s.resolve(ctx, x, in.Path, tree.Read)
	if err != nil {
		return fileWindow{}, err
	}
	defer p.Close()
	var out fileWindow
	var scanner *text.Scanner
	_, err = p.View(ctx, func() io.Writer {
		scanner = &text.Scanner{}
		return scanner
	}, func(c tree.Content, r io.ReaderAt) (err error) {
		out = fileWindow{shownPath: showPath(p.Path), SHA256: hashOrNull(c.SHA256)}
		if in.IfSHA256 != "" && in.IfSHA256 == c.SHA256 {
			out.Unchanged = true
			return nil
		}
		return s.fillWindow(&out, scanner.Index(), r, in, budget)
	})
	return out, problem(err)
}

func hashOrNull(sum string) json.RawMessage {
	if sum == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(strconv.Quote(sum))
}

// fillWindow reads the window that a call asks for.
func (s *Service) fillWindow(out *fileWindow, f *text.Index, r io.ReaderAt, in Window, budget int) (err error) {
	var w *text.Window
	size := within(in.Bytes, windowUsual, windowMost)
	switch {
	case in.As == "base64":
		var from int64
		if in.FromByte != nil {
			from = *in.FromByte
		}
		w, err = text.RawWindow(r, f.Size, from, size, budget)
	case in.As == "image":
		out.Facts = &f.Facts
		out.Media, out.image, err = readImage(r, f.Size)
		return err
	case in.As != "" && in.As != "text":
		return operation.Refuse(operation.ArgumentInvalid, "%.32q is no form; text, base64 and image are", in.As)
	case in.FromByte != nil:
		w, err = f.ByteWindow(r, *in.FromByte, size, budget)
	default:
		w, err = f.LineWindow(r, max(in.FromLine, 1), within(in.Lines, usualLines, mostLines), budget)
	}
	if err != nil {
		return problem(err)
	}
	out.Facts = &f.Facts
	out.FromByte, out.ToByte, out.More, out.Continues = &w.FromByte, &w.ToByte, w.More, w.LineContinues
	if w.Next != nil {
		out.Next = w.Next.Args()
	}
	if in.As == "base64" {
		out.Base64 = w.Raw
		return nil
	}
	shown := s.cfg.Redact(w.Text)
	out.Text, out.FromLine, out.ToLine = &shown, w.FromLine, w.ToLine
	return nil
}

// maxImage bounds an image, in bytes. A model sees it whole or not at all, so the bound of texts does not hold for it.
const maxImage = 1 << 20

// imageForms are the forms of images that models read, by how they begin.
var imageForms = []struct{ media, begin, at8 string }{
	{"image/png", "\x89PNG\r\n\x1a\n", ""}, {"image/jpeg", "\xff\xd8\xff", ""}, {"image/gif", "GIF87a", ""}, {"image/gif", "GIF89a", ""}, {"image/webp", "RIFF", "WEBP"},
}

// readImage reads a file that is an image. ENCODING_UNSUPPORTED, LIMIT_EXCEEDED.
func readImage(r io.ReaderAt, size int64) (media string, data []byte, err error) {
	if size > maxImage {
		return "", nil, operation.Refuse(operation.LimitExceeded, "an image of more than 1 MB is not shown; read it as base64").With("limit", maxImage).With("value", size)
	}
	data = make([]byte, size)
	if _, err := r.ReadAt(data, 0); err != nil && !errors.Is(err, io.EOF) {
		return "", nil, err
	}
	for _, f := range imageForms {
		if bytes.HasPrefix(data, []byte(f.begin)) && (f.at8 == "" || len(data) > 8 && bytes.HasPrefix(data[8:], []byte(f.at8))) {
			return f.media, data, nil
		}
	}
	return "", nil, operation.Refuse(operation.Code(text.CodeEncoding), "it is no PNG, JPEG, GIF or WebP image; read it as base64")
}
