//go:build linux || darwin

package work

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/tree"
	"mcpx/internal/workspace"
)

type listed struct{ Aliases, Skipped []workspace.Left }

// TestDW26LinkedScope: DW-26. A directory that a link leads to is claimed by the link, too; a link in the scope is told of, and nobody
// writes through it.
func TestDW26LinkedScope(t *testing.T) {
	s := newShop(t)
	s.save(t, "a/data/part/f", "theirs\n")
	if err := os.MkdirAll(filepath.Join(s.root, "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../a/data", filepath.Join(s.root, "b/link")); err != nil {
		t.Fatal(err)
	}
	_, first := s.workspaceOf(t, "create-01", `"mutable":["a/data"]`)
	a := s.do(t, "create_agent_workspace", `"purpose":"two","mutable":["b/link/part"],"operation_id":"create-02"`)
	refused(t, a, workspace.ScopeOverlap, fault.AfterWait)
	if a.Refusal != nil && !strings.Contains(fmt.Sprint(a.Refusal.Details), first.ID) {
		t.Errorf("the holder is not named: %v", a.Refusal.Details)
	}
	a = s.do(t, "create_agent_workspace", `"purpose":"three","mutable":["b"],"operation_id":"create-03"`)
	if got := read[listed](t, a).Aliases; !slices.Contains(got, workspace.Left{Path: "b/link", Why: "symlink_out_of_scope"}) {
		t.Errorf("aliases: %v", got)
	}
	a = s.do(t, "edit_files", `"handle":%q,"operation_id":"edit-0001","edits":[{"op":"create","path":"b/link/f","content":"mine\n"}]`, a.Handle)
	refused(t, a, operation.Code(tree.PathAlias), fault.AfterFix)
}

// TestDW28HardLinks: DW-28. A file that has a name outside of the scope is told of, and refused when it would be replaced; with hardlinks
// break the other name keeps the old bytes, and the answer says so. When all names are in the scope, nobody else is affected.
func TestDW28HardLinks(t *testing.T) {
	s := newShop(t)
	s.save(t, "in/one.txt", "old\n")
	if err := os.Link(filepath.Join(s.root, "in/one.txt"), filepath.Join(s.root, "out.txt")); err != nil {
		t.Fatal(err)
	}
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["in"]`)
	a := s.do(t, "workspace_status", `"handle":%q`, handle)
	if got := read[workspaceShown](t, a).Linked; !slices.Contains(got, "in/one.txt") {
		t.Errorf("hard links: %v", got)
	}
	w.write(t, "in/one.txt", "new\n")
	a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	refused(t, a, operation.Code(tree.PathAlias), fault.AfterFix)
	if s.file(t, "in/one.txt") != "old\n" {
		t.Error("a refused integration changed the file")
	}
	read[retired](t, s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, handle))

	for n, c := range []struct{ id, create, out string }{
		{"2", `"mutable":["in"],"hardlinks":"break"`, "old\n"},
		{"3", `"mutable":["in","out.txt"]`, "older\n"},
	} {
		if n == 1 { // the names are one file again
			if err := errors.Join(os.Remove(filepath.Join(s.root, "in/one.txt")), os.Remove(filepath.Join(s.root, "out.txt"))); err != nil {
				t.Fatal(err)
			}
			s.save(t, "in/one.txt", "older\n")
			if err := os.Link(filepath.Join(s.root, "in/one.txt"), filepath.Join(s.root, "out.txt")); err != nil {
				t.Fatal(err)
			}
		}
		a := s.do(t, "create_agent_workspace", `"purpose":"two","operation_id":"create-0%s",%s`, c.id, c.create)
		if got := read[listed](t, a).Aliases; !slices.Contains(got, workspace.Left{Path: "in/one.txt", Why: "hardlink"}) {
			t.Errorf("aliases: %v", got)
		}
		read[openedWorkspace](t, a).write(t, "in/one.txt", "newest\n")
		a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-%s"`, a.Handle, c.id)
		if !a.OK {
			t.Fatalf("%s: %v", c.create, a.Refusal)
		}
		got := read[integrated](t, a)
		if !slices.Equal(got.Split, []string{"in/one.txt"}) || s.file(t, "in/one.txt") != "newest\n" || s.file(t, "out.txt") != c.out {
			t.Errorf("%s: split %v, the other name has %q", c.create, got.Split, s.file(t, "out.txt"))
		}
	}
}

// TestBoundScope: a bind mount of a project leads to the same files, and a mount below a project is in no scope.
func TestBoundScope(t *testing.T) {
	s := newShop(t)
	again, below := t.TempDir(), filepath.Join(s.root, "docs/mounted")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(from, to string) {
		if err := bind(from, to); err != nil {
			t.Skipf("skip: bind mounts: %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(to, 0); err != nil {
				t.Error(err)
			}
		})
	}
	mount(s.root, again)
	s.project(t, "again", again)
	_, w := s.workspaceOf(t, "create-01", `"mutable":["src"]`)
	a := s.call(t, "create_agent_workspace", `{"project":"again","purpose":"two","mutable":["src/main.go"],"operation_id":"create-02"}`)
	refused(t, a, workspace.ScopeOverlap, fault.AfterWait)
	if a.Refusal != nil && !strings.Contains(fmt.Sprint(a.Refusal.Details), w.ID) {
		t.Errorf("the holder is not named: %v", a.Refusal.Details)
	}
	mount(t.TempDir(), below)
	for n, path := range []string{"docs", "docs/mounted", "docs/mounted/new"} {
		a := s.do(t, "create_agent_workspace", `"purpose":"three","mutable":[%q],"operation_id":"mount-00%d"`, path, n)
		refused(t, a, operation.Code(tree.Unsupported), fault.AfterFix)
		if a.Refusal != nil && a.Refusal.Details["mount"] == nil {
			t.Errorf("%s: the mount is not named: %v", path, a.Refusal.Details)
		}
	}
}

// TestDW45Repository: DW-45. While the repository of the project is in the middle of something nothing is integrated; afterwards it is,
// and no byte below .git is another one. The area is no untracked file.
func TestDW45Repository(t *testing.T) {
	s := newShop(t)
	if err := os.RemoveAll(filepath.Join(s.root, ".git")); err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		out, err := gitIn(t, s.root, args...)
		if err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
		return out
	}
	git("init", "-q", "-b", "main")
	git("add", "README.md")
	git("commit", "-qm", "one")
	git("checkout", "-qb", "side")
	s.save(t, "README.md", "side\n")
	git("commit", "-qam", "side")
	git("checkout", "-q", "main")
	s.save(t, "README.md", "main\n")
	git("commit", "-qam", "main")
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["src"]`)
	w.write(t, "src/new.go", "package main\n")
	if out, err := gitIn(t, s.root, "rebase", "side"); err == nil {
		t.Fatalf("the rebase has no conflict: %s", out)
	}
	below := func() string { return fmt.Sprint(files(t, filepath.Join(s.root, ".git"))) }
	before := below()
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	refused(t, a, workspace.RepositoryBusy, fault.AfterWait)
	if _, err := os.Stat(filepath.Join(s.root, "src/new.go")); err == nil || below() != before {
		t.Error("something was changed in the middle of a rebase")
	}
	git("rebase", "--abort")
	before = below()
	a = s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	if got := read[integrated](t, a); got.Git == nil || got.Git.Branch != "main" || got.Git.Head != strings.TrimSpace(git("rev-parse", "HEAD")) || got.Commit == "" {
		t.Errorf("%+v", got.Git)
	}
	if s.file(t, "src/new.go") != "package main\n" || below() != before {
		t.Error("the integration is not there, or it touched the repository")
	}
	if status := git("status", "--porcelain", "--untracked-files=all"); strings.Contains(status, ".mcpx") || strings.Contains(status, "state") {
		t.Errorf("git sees the area: %s", status)
	}
}

// TestDW46Artefacts: DW-46. Files that programs make arrive to the byte, whatever they are and whatever their directory is called.
func TestDW46Artefacts(t *testing.T) {
	s := newShop(t)
	noise := make([]byte, 12<<20)
	for i := range noise {
		noise[i] = byte(i * i >> 7)
	}
	files := map[string]string{
		"paper.pdf": "%PDF-1.7\n\x00\xff\x01%%EOF", "figure.png": "\x89PNG\r\n\x1a\n\x00\x00", "archive.zip": "PK\x03\x04" + string(noise),
		"build/out.o": "\x7fELF\x00", "dist/app.min.js": "x=1", "target/lib.a": "!<arch>\n", "node_modules/a/b.node": "\x00",
	}
	s.save(t, ".gitignore", "build/\ndist/\ntarget/\nnode_modules/\n*.zip\n")
	for name := range files {
		s.save(t, "old/"+name, "old "+name)
	}
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	for name, content := range files {
		w.write(t, name, content)
		w.write(t, "old/"+name, content)
	}
	got := read[integrated](t, s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle))
	for name, content := range files {
		if s.file(t, name) != content || s.file(t, "old/"+name) != content {
			t.Errorf("%s is not what the workspace has", name)
		}
	}
	if len(got.Conflicts) > 0 {
		t.Errorf("%+v", got.Conflicts)
	}
}

// TestNoRight: DW-44, a directory of the project that may not be written to. Nothing is applied, nothing stays staged, and the same call
// does it when it may. The other obstacles are mounts: TestDW44Obstacles.
func TestNoRight(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("skip: a directory without the right to write: this is root")
	}
	s := newShop(t)
	handle, w := s.workspaceOf(t, "create-01", `"mutable":["."]`)
	for i := range 20 {
		w.write(t, fmt.Sprintf("docs/%02d.md", i), "new\n")
	}
	docs := filepath.Join(s.root, "docs")
	if err := os.Chmod(docs, 0o555); err != nil {
		t.Fatal(err)
	}
	a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, handle)
	if err := os.Chmod(docs, 0o755); err != nil {
		t.Fatal(err)
	}
	if a.OK {
		t.Error("it was integrated into a directory that may not be written to")
	}
	s.blocked(t, a)
}

// blocked fails unless an integration has left nothing, but its conflict with the disk.
func (s *shop) blocked(t *testing.T, a operation.Answer) {
	t.Helper()
	if a.Refusal == nil || a.Refusal.Code != operation.Code(tree.NoSpace) && a.Refusal.Code != operation.Code(tree.ReadOnly) && a.Refusal.Code != operation.Code(tree.FileDenied) {
		t.Errorf("%+v, %v", a, a.Refusal)
	}
	if left, err := os.ReadDir(filepath.Join(s.state, "txn")); err != nil && !errors.Is(err, os.ErrNotExist) || len(left) > 0 {
		t.Errorf("left in the staging area: %v, %v", left, err)
	}
	if all, err := filepath.Glob(filepath.Join(s.root, "docs/[0-9]*")); err != nil || len(all) > 0 {
		t.Errorf("applied: %v, %v", all, err)
	}
}

// gitIn runs git as nobody in particular.
func gitIn(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	bin, err := exec.LookPath("git")
	if err != nil {
		t.Skip("skip: repositories: git is not installed")
	}
	c := exec.Command(bin, append([]string{"-c", "user.name=t", "-c", "user.email=t@example.invalid", "-C", dir}, args...)...)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_OPTIONAL_LOCKS=0")
	out, err := c.CombinedOutput()
	return string(out), err
}
