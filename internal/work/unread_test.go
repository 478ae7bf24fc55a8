//go:build linux

package work

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mcpx/internal/operation"
	"mcpx/internal/workspace"
)

// nobody is a user whom permissions stop.
const nobody = 65534

// asNobody runs a test again as a user whom permissions stop, when the tests run as root. False: it runs as one.
func asNobody(t *testing.T) bool {
	t.Helper()
	if os.Geteuid() != 0 {
		return false
	}
	dir, err := os.MkdirTemp("", "nobody") //nolint:usetesting // the directories around t.TempDir are for root alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	exe := filepath.Join(dir, "test")
	to, err := os.OpenFile(exe, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	again := exec.CommandContext(t.Context(), exe, "-test.run=^"+t.Name()+"$", "-test.v")
	again.Dir, again.Env = dir, []string{"TMPDIR=" + dir, "HOME=" + dir, "MCPX_HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as another user: %v\n%s", err, out)
	}
	return true
}

// TestDW49Unreadable: DW-49. Of a workspace that cannot be read nothing is known: it is unverified, and neither moved, removed nor
// called missing or an orphan; once it can be read it is as it was. A repository in one that is damaged stands in no way.
func TestDW49Unreadable(t *testing.T) {
	if asNobody(t) {
		return
	}
	s := newShop(t)
	shutHandle, shut := s.workspaceOf(t, "create-01", `"mutable":["docs"]`)
	shut.write(t, "docs/mine.md", "mine\n")
	brokenHandle, broken := s.workspaceOf(t, "create-02", `"mutable":["src"]`)
	broken.write(t, ".git/HEAD", "\x00 no head\n")
	broken.write(t, "src/mine.go", "package mine\n")
	loose := filepath.Join(s.state, "workspaces", "loose")
	plant(t, map[string]string{filepath.Join(loose, "a"): "a"})
	dir := filepath.Dir(shut.Path)
	for _, one := range []string{dir, loose} {
		if err := os.Chmod(one, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(one, 0o700) }) // so that it can be removed
	}
	s.next(t)
	for range 2 {
		list := read[reconciled](t, s.do(t, "reconcile_project_state", `"verify":true`))
		if len(list.Workspaces) != 2 || len(list.Quarantine) != 0 {
			t.Fatalf("%+v", list)
		}
		for _, one := range list.Workspaces {
			want := map[string]string{shutHandle: workspace.Unverified, brokenHandle: workspace.Dirty}[one.Handle]
			if one.State != workspace.Open || one.Dirty != want {
				t.Errorf("%+v, want %s", one, want)
			}
		}
		if err := s.Service.agree(t.Context()); err != nil {
			t.Error(err)
		}
	}
	status := read[workspaceShown](t, s.do(t, "workspace_status", `"handle":%q`, shut.ID))
	if status.Dirty != workspace.Unverified || status.State != workspace.Open {
		t.Errorf("%+v", status)
	}
	if a := s.do(t, "remove_agent_workspace", `"handle":%q,"operation_id":"remove-01"`, shutHandle); a.OK || a.Refusal.Code != operation.Code("FILE_DENIED") {
		t.Errorf("removed: %+v, %v", a, a.Refusal)
	}
	for _, one := range []string{dir, loose} {
		if err := os.Chmod(one, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.next(t)
	list := read[reconciled](t, s.do(t, "reconcile_project_state", `"verify":true`))
	if len(list.Workspaces) != 2 || list.Workspaces[0].Dirty != workspace.Dirty || list.Workspaces[1].Dirty != workspace.Dirty {
		t.Errorf("%+v", list.Workspaces)
	}
	if a := s.do(t, "integrate_agent_workspace", `"handle":%q,"operation_id":"integrate-1"`, shutHandle); !a.OK || s.file(t, "docs/mine.md") != "mine\n" {
		t.Errorf("%v", a.Refusal)
	}
}
