//go:build linux || darwin

package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/workspace"
)

// side is what one of the three sides has under a path, as the test lays it.
type side struct {
	kind    string // file, link, dir; "" nothing
	content string
	exec    bool
}

// sides are the eight states of DW-37. The texts differ in their first and their last line, so that any two changes of one
// can be merged; with a NUL in them nothing can.
func sides(binary bool) []side {
	text := func(first, last string) string {
		t := first + "\n2\n3\n4\n5\n6\n" + last + "\n"
		if binary {
			t = "\x00" + t
		}
		return t
	}
	one := text("1", "7")
	return []side{
		{},
		{kind: "file", content: one},
		{kind: "file", content: text("one", "7")},
		{kind: "file", content: text("1", "seven")},
		{kind: "file", content: one, exec: true},
		{kind: "link", content: "a"},
		{kind: "link", content: "b"},
		{kind: "dir"},
	}
}

// lay puts a side under a path, in the place of what is there.
func (s side) lay(t *testing.T, path string) {
	t.Helper()
	err := os.RemoveAll(path)
	switch {
	case err != nil || s.kind == "":
	case s.kind == "link":
		err = os.Symlink(s.content, path)
	case s.kind == "dir":
		err = os.Mkdir(path, 0o755)
	default:
		mode := fs.FileMode(0o644)
		if s.exec {
			mode = 0o755
		}
		if err = os.WriteFile(path, []byte(s.content), 0o600); err == nil {
			err = os.Chmod(path, mode)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lies is what is under a path.
func lies(t *testing.T, path string) (s side) {
	t.Helper()
	info, err := os.Lstat(path)
	switch {
	case os.IsNotExist(err):
		return side{}
	case err != nil:
	case info.IsDir():
		return side{kind: "dir"}
	case info.Mode()&fs.ModeSymlink != 0:
		s.kind = "link"
		s.content, err = os.Readlink(path)
	default:
		raw, failed := os.ReadFile(path)
		s, err = side{"file", string(raw), info.Mode()&0o100 != 0}, failed
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// expected is what has to be in the project after an integration, or the conflict that there is.
func expected(b, c, p side) (end side, conflict workspace.Conflict) {
	switch {
	case p == b:
		return c, ""
	case c == b || c == p:
		return p, ""
	case p.kind == "":
		return c, workspace.ConflictDeleteModify
	case c.kind == "":
		return c, workspace.ConflictModifyDelete
	case c.kind != p.kind:
		return c, workspace.ConflictType
	case c.kind == "link" && b.kind == "":
		return c, workspace.ConflictAddAdd
	case c.kind == "link" && b.kind == "link":
		return c, workspace.ConflictBinary
	case c.kind != "file" || b.kind != "" && b.kind != "file":
		return c, workspace.ConflictType
	}
	end = c
	if c.exec == b.exec {
		end.exec = p.exec
	}
	switch {
	case c.content == p.content:
	case b.kind == "":
		return c, workspace.ConflictAddAdd
	case c.content == b.content:
		end.content = p.content
	case p.content == b.content:
	case strings.HasPrefix(b.content, "\x00"):
		return c, workspace.ConflictBinary
	default: // of three texts that differ only in two lines
		end.content = ""
		from := [3][]string{strings.SplitAfter(b.content, "\n"), strings.SplitAfter(c.content, "\n"), strings.SplitAfter(p.content, "\n")}
		for i, line := range from[0] {
			if from[1][i] != line {
				line = from[1][i]
			} else {
				line = from[2][i]
			}
			end.content += line
		}
	}
	return end, ""
}

// TestMatrix: DW-37. All 512 combinations of what BASE, the project and the workspace have under one path are integrated on
// real files, with texts and with bytes that are none. While there are conflicts nothing changes; when the project's side
// was accepted for these, every other path has what it shall have, and what was there before is kept.
func TestMatrix(t *testing.T) {
	for _, binary := range []bool{false, true} {
		all := sides(binary)
		for n, b := range all {
			t.Run(fmt.Sprintf("binary %v, BASE %d", binary, n), func(t *testing.T) {
				t.Parallel()
				s := newShop(t)
				if err := os.MkdirAll(filepath.Join(s.root, "m"), 0o755); err != nil {
					t.Fatal(err)
				}
				path := func(root string, c, p int) string { return filepath.Join(root, fmt.Sprintf("m/%d%d", c, p)) }
				each := func(do func(c, p int)) {
					for c := range all {
						for p := range all {
							do(c, p)
						}
					}
				}
				each(func(c, p int) { b.lay(t, path(s.root, c, p)) })
				handle, w := s.workspaceOf(t, "create-01", `"mutable":["m"]`)
				clashes := map[string]workspace.Conflict{}
				each(func(c, p int) {
					all[c].lay(t, path(s.root, c, p))
					all[p].lay(t, path(w.Path, c, p))
					if _, conflict := expected(b, all[c], all[p]); conflict != "" {
						clashes[fmt.Sprintf("m/%d%d", c, p)] = conflict
					}
				})
				seen, accept := map[string]string{}, map[string]string{}
				a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
				if len(clashes) > 0 {
					refused(t, a, workspace.Conflicts, fault.AfterFix)
					for _, c := range a.Refusal.Details["conflicts"].([]conflictShown) {
						if clashes[c.Path] != c.Kind {
							t.Errorf("BASE %v, CURRENT %v, PROPOSED %v: %s, want %q", b, all[c.Path[2]-'0'], all[c.Path[3]-'0'], c.Kind, clashes[c.Path])
						}
						delete(clashes, c.Path)
						seen[c.Path], accept[c.Path] = c.Current, "current"
					}
					if len(clashes) > 0 {
						t.Errorf("no conflicts: %v", clashes)
					}
					each(func(c, p int) {
						if got := lies(t, path(s.root, c, p)); got != all[c] {
							t.Errorf("CURRENT %v is %v beside conflicts", all[c], got)
						}
					})
					a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1","seen_current":%s,"accept":%s`, handle, jsonOf(t, seen), jsonOf(t, accept))
				}
				if !a.OK {
					t.Fatal(a.Refusal, a.Refusal.Details)
				}
				displaced := map[side]int{}
				each(func(c, p int) {
					want, _ := expected(b, all[c], all[p])
					if got := lies(t, path(s.root, c, p)); got != want {
						t.Errorf("BASE %v, CURRENT %v, PROPOSED %v: %v, want %v", b, all[c], all[p], got, want)
					}
					was := all[c]
					if was.exec = false; (was.kind == "file" || was.kind == "link") && (was.kind != want.kind || was.content != want.content) {
						displaced[was]++
					}
				})
				if kept := inTrash(t, s.state); !maps.Equal(kept, displaced) {
					t.Errorf("BASE %v: displaced is %v, kept %v", b, displaced, kept)
				}
			})
		}
	}
}

// inTrash counts the files and links whose bytes were displaced and are kept.
func inTrash(t *testing.T, state string) map[side]int {
	t.Helper()
	all := map[side]int{}
	err := filepath.WalkDir(filepath.Join(state, "trash"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			one := lies(t, path)
			one.exec = false
			all[one]++
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // nothing was displaced
		t.Fatal(err)
	}
	return all
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
