package wire

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"mcpx/internal/test/rig"
)

// TestAgentsOnOneTree: DW-2 and DW-25 with the real binary. Of two agents under a parent and a child project who claim the same files at
// the same moment exactly one gets them, and the other is told by whom they are held; so is one who comes by a symbolic link or, as
// root, by a bind mount. What only begins alike is free. A file with a second name outside of the scope is not integrated.
func TestAgentsOnOneTree(t *testing.T) {
	g := rig.New(t)
	g.Extra = []string{"MCPX_RUNTIME_WORK=true"}
	g.Serve()
	a := openAgent(t, g)
	for _, dir := range []string{"paper/figures", "src"} {
		if err := os.MkdirAll(filepath.Join(a.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		touch(t, filepath.Join(a.dir, dir, "file"))
	}
	// ways are other names of the files: a project, and the path of the figures in it.
	ways := map[string][2]string{"the child": {filepath.Join(a.dir, "paper"), "figures"}}
	link := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(a.dir, link); err != nil {
		t.Fatal(err)
	}
	ways["a symbolic link"] = [2]string{link, "paper/figures"}
	bound := filepath.Join(t.TempDir(), "bound")
	if err := os.Mkdir(bound, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(a.dir, bound, "", unix.MS_BIND, ""); err != nil {
		t.Logf("skip: a bind mount: %v", err)
	} else {
		t.Cleanup(func() {
			if err := unix.Unmount(bound, 0); err != nil {
				t.Error(err)
			}
		})
		ways["a bind mount"] = [2]string{bound, "paper/figures"}
	}
	n := 0
	create := func(project, mutable string) string {
		n++
		return fmt.Sprintf(`{"project":%q,"purpose":"work %d","mutable":[%q],"operation_id":"create-%03d"}`, project, n, mutable, n)
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			g.Must("project", "add", "--overlap", way[0])
			for range 5 {
				calls := []string{create(a.dir, "paper"), create(way[0], way[1])}
				answers := make([]answered, 2)
				var both sync.WaitGroup
				for i, args := range calls {
					both.Go(func() {
						one := agent{t: t, g: g}
						answers[i] = one.call("create_agent_workspace", args)
					})
				}
				both.Wait()
				got, not := answers[0], answers[1]
				if not.OK {
					got, not = not, got
				}
				if !got.OK || not.OK || not.Error.Code != "SCOPE_OVERLAP" {
					t.Fatalf("%s\nand %s", answers[0].raw, answers[1].raw)
				}
				holder, _, _ := strings.Cut(got.Handle, "@")
				named := func(not answered) {
					t.Helper()
					if told, err := json.Marshal(not.Error.Details); err != nil || not.OK || not.Error.Code != "SCOPE_OVERLAP" || !strings.Contains(string(told), holder) {
						t.Errorf("the holder %s is not named: %s", holder, not.raw)
					}
				}
				named(not)
				for _, clash := range [][2]string{{a.dir, "paper/figures/x/y/z"}, {a.dir, "."}, {way[0], way[1] + "/x"}, {way[0], "."}} {
					named(a.call("create_agent_workspace", create(clash[0], clash[1])))
				}
				beside := a.call("create_agent_workspace", create(a.dir, "paperwork"))
				for _, one := range []answered{beside, got} {
					n++
					if gone := a.call("remove_agent_workspace", fmt.Sprintf(`{"handle":%q,"operation_id":"remove-%03d"}`, one.Handle, n)); !one.OK || !gone.OK {
						t.Fatalf("%s, %s", one.raw, gone.raw)
					}
				}
			}
		})
	}
	t.Run("a hard link", func(t *testing.T) {
		if err := os.Link(filepath.Join(a.dir, "src", "file"), filepath.Join(a.dir, "paper", "second")); err != nil {
			t.Fatal(err)
		}
		var made struct {
			Path string `json:"path"`
		}
		args := create(a.dir, "src")
		a.read("create_agent_workspace", args, &made)
		handle := a.call("create_agent_workspace", args).Handle
		if err := os.WriteFile(filepath.Join(made.Path, "src", "file"), []byte("mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused := a.call("integrate_agent_workspace", fmt.Sprintf(`{"handle":%q,"operation_id":"integrate-1"}`, handle))
		if refused.OK || refused.Error.Code != "PATH_ALIAS" {
			t.Errorf("%s", refused.raw)
		}
		for _, name := range []string{"src/file", "paper/second"} {
			if raw, err := os.ReadFile(filepath.Join(a.dir, name)); err != nil || len(raw) != 0 {
				t.Errorf("%s holds %q: %v", name, raw, err)
			}
		}
	})
}
