package work

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"strings"

	"mcpx/internal/session"
	"mcpx/internal/tree"
)

// ground is what an agent should know about a project before it begins.
type ground struct {
	Git          *gitHead      `json:"git"` // null: it is no repository, or one that is kept elsewhere
	Instructions []instruction `json:"instructions"`
	More         int           `json:"more_instructions,omitempty"`
}

// gitHead is what the repository has checked out, read from its files: git itself runs programs that a repository names.
type gitHead struct {
	Head   string `json:"head"`             // object name, "" before the first commit
	Branch string `json:"branch,omitempty"` // "" with a detached head
}

// instruction is a file that tells agents what to do here; read_file has what it says.
type instruction struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

const (
	// maxInstructions is how many an answer names: it has at most 6 KB.
	maxInstructions = 12
	// maxInstruction bounds one, in bytes; what is larger is no text for a model.
	maxInstruction = 1 << 20
	// maxInstructionPath bounds a path that is named, in bytes.
	maxInstructionPath = 150
	// maxPackedRefs bounds the file in which git keeps references, in bytes: about 100,000 of them.
	maxPackedRefs = 8 << 20
)

// instructionFiles are files, and directories of files, that agents read before they begin.
var (
	instructionFiles = []string{"AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", ".github/copilot-instructions.md", ".cursorrules", ".windsurfrules", ".clinerules"}
	instructionDirs  = []string{".claude/rules", ".clinerules", ".cursor/rules", ".github/instructions", ".kilocode/rules"}
)

// groundOf looks at the project of a session. What cannot be read is left out.
func (s *Service) groundOf(ctx context.Context, a session.Admission) ground {
	var g ground
	x, err := s.open(a)
	if err != nil {
		return g
	}
	defer x.close()
	g.Git = s.gitHead(ctx, x)
	for _, name := range instructionFiles {
		g.instruct(ctx, s, x, name)
	}
	for _, dir := range instructionDirs {
		for _, name := range s.filesIn(ctx, x, dir) {
			g.instruct(ctx, s, x, name)
		}
	}
	return g
}

// instruct adds a file, when it is one that may be read.
func (g *ground) instruct(ctx context.Context, s *Service, x *target, name string) {
	p, err := s.resolve(ctx, x, name, tree.Read)
	if err != nil {
		return
	}
	defer p.Close()
	if p.Kind != tree.File {
		return
	}
	if len(g.Instructions) == maxInstructions || len(p.Path) > maxInstructionPath {
		g.More++
		return
	}
	if c, err := p.Hash(ctx, maxInstruction); err == nil {
		g.Instructions = append(g.Instructions, instruction{Path: p.Path, SHA256: c.SHA256, Bytes: c.Size})
	}
}

// filesIn lists the files of one directory.
func (s *Service) filesIn(ctx context.Context, x *target, dir string) (names []string) {
	p, err := s.resolve(ctx, x, dir, tree.List)
	if err != nil {
		return nil
	}
	defer p.Close()
	err = p.Walk(ctx, tree.WalkOptions{Depth: 1}, func(v tree.Visit) error {
		if v.Kind == tree.File {
			names = append(names, v.Path)
		}
		if len(names) == mostEntries {
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return nil
	}
	return names
}

// gitHead reads what is checked out; nil without a repository in the project.
func (s *Service) gitHead(ctx context.Context, x *target) *gitHead {
	head, ok := s.small(ctx, x, ".git/HEAD", 4<<10)
	if !ok {
		return nil
	}
	text := strings.TrimSpace(string(head))
	ref, symbolic := strings.CutPrefix(text, "ref: ")
	if !symbolic {
		return &gitHead{Head: text}
	}
	g := &gitHead{Branch: strings.TrimPrefix(ref, "refs/heads/")}
	if !strings.HasPrefix(ref, "refs/") || path.Clean(ref) != ref {
		return g
	}
	if loose, ok := s.small(ctx, x, ".git/"+ref, 4<<10); ok {
		g.Head = strings.TrimSpace(string(loose))
		return g
	}
	packed, _ := s.small(ctx, x, ".git/packed-refs", maxPackedRefs)
	for line := range bytes.Lines(packed) {
		if object, name, ok := strings.Cut(strings.TrimSpace(string(line)), " "); ok && name == ref {
			g.Head = object
		}
	}
	return g
}

// small reads a small file that may be read.
func (s *Service) small(ctx context.Context, x *target, name string, limit int64) ([]byte, bool) {
	p, err := s.resolve(ctx, x, name, tree.Read)
	if err != nil {
		return nil, false
	}
	defer p.Close()
	c, err := p.Read(ctx, limit)
	return c.Data, err == nil
}
