package work

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/operation"
)

type shownGround struct {
	Git          *gitHead
	Instructions []instruction
	More         int `json:"more_instructions"`
}

func (s *shop) ground(t *testing.T) (g shownGround, answer operation.Answer) {
	t.Helper()
	answer = s.call(t, "session", `{"action":"attach","remote_session_id":%q}`, s.session)
	return read[shownGround](t, answer), answer
}

func (s *shop) lay(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestGround(t *testing.T) {
	s := newShop(t)
	const one, two, three = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222", "3333333333333333333333333333333333333333"
	for name, c := range map[string]struct {
		files map[string]string
		want  *gitHead
	}{
		"no repository":     {nil, nil},
		"nothing committed": {map[string]string{".git/HEAD": "ref: refs/heads/main\n"}, &gitHead{Branch: "main"}},
		"loose":             {map[string]string{".git/refs/heads/main": one + "\n"}, &gitHead{Head: one, Branch: "main"}},
		"packed": {
			map[string]string{".git/HEAD": "ref: refs/heads/a/b\n", ".git/packed-refs": "# pack-refs\n" + one + " refs/heads/main\n" + two + " refs/heads/a/b\n^" + three + "\n"},
			&gitHead{Head: two, Branch: "a/b"},
		},
		"detached":        {map[string]string{".git/HEAD": three + "\n"}, &gitHead{Head: three}},
		"leading outside": {map[string]string{".git/HEAD": "ref: refs/../../.env\n"}, &gitHead{Branch: "refs/../../.env"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(s.root, ".git")); err != nil {
				t.Fatal(err)
			}
			if name == "loose" {
				s.lay(t, ".git/HEAD", "ref: refs/heads/main\n")
			}
			for file, content := range c.files {
				s.lay(t, file, content)
			}
			g, _ := s.ground(t)
			if (g.Git == nil) != (c.want == nil) || g.Git != nil && *g.Git != *c.want {
				t.Errorf("git is %+v, want %+v", g.Git, c.want)
			}
		})
	}
}

// TestRT18AttachIsSmall: an answer about a session names a few of many instruction files, and says how many there are more.
func TestRT18AttachIsSmall(t *testing.T) {
	s := newShop(t)
	s.lay(t, "AGENTS.md", "be kind\n")
	if err := os.Symlink("/etc/passwd", filepath.Join(s.root, "CLAUDE.md")); err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		s.lay(t, fmt.Sprintf(".cursor/rules/%s-%03d.mdc", strings.Repeat("rule", 30), n), "a rule\n")
	}
	g, answer := s.ground(t)
	if len(g.Instructions) != maxInstructions || g.More != 201-maxInstructions {
		t.Errorf("%d instructions and %d more", len(g.Instructions), g.More)
	}
	if first := g.Instructions[0]; first.Path != "AGENTS.md" || first.Bytes != 8 || first.SHA256 != digest([]byte("be kind\n")) {
		t.Errorf("the first is %+v", first)
	}
	if len(answer.Data) > 6<<10 {
		t.Errorf("the answer has %d bytes", len(answer.Data))
	}
}
