//go:build unix

package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// packets is an agent whose commands run without a person, in a project with a few files.
func packets(t *testing.T) *agent {
	t.Helper()
	g := rig.New(t)
	if err := os.MkdirAll(filepath.Join(g.Home, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	const policy = "[commands]\nlift = [\"program.untrusted\"]\n[[commands.rule]]\nid = \"waits\"\ndecision = \"allow\"\nprogram = %q\n"
	program := filepath.Join(g.Home, "waits")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nwhile [ ! -e end ]; do n=$((n + 1)); echo $n >> begun; sleep 0.01; done\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.Home, "config", "policy.toml"), fmt.Appendf(nil, policy, program), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Extra = []string{"MCPX_RUNTIME_WORK=true", "MCPX_RUNTIME_COMMANDS=true", "MCPX_SANDBOX_MECHANISM=none"}
	g.Serve()
	a := openAgent(t, g)
	for _, name := range []string{"docs/a.txt", "docs/b.txt", "docs/c.txt", "src/x"} {
		plant(t, filepath.Join(a.dir, name), name+"\n")
	}
	return a
}

func plant(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// appears waits for a file.
func appears(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", path)
		}
	}
}

// workspace makes one, and says where its copy is.
func (a *agent) workspace(operation, mutable string) (handle, dir string) {
	a.t.Helper()
	made := a.call("create_agent_workspace", fmt.Sprintf(`{"remote_session_id":%q,"purpose":"the work of %s","mutable":[%q],"operation_id":%q}`, a.session, operation, mutable, operation))
	var w struct {
		Path string `json:"path"`
	}
	if !made.OK || json.Unmarshal(made.Data, &w) != nil {
		a.t.Fatalf("%s", made.raw)
	}
	return made.Handle, w.Path
}

// on makes a call about a workspace.
func (a *agent) on(tool, operation, handle, more string) answered {
	a.t.Helper()
	return a.call(tool, fmt.Sprintf(`{"handle":%q,"operation_id":%q%s}`, handle, operation, more))
}

// refused fails unless an answer is a refusal of this code.
func (a *agent) refused(got answered, code string) {
	a.t.Helper()
	if got.OK || got.Error.Code != code {
		a.t.Errorf("want %s: %s", code, got.raw)
	}
}

// TestPacketsMoved: DW-1 and DW-31 with the real binary. A call is replayed to the byte after its project was renamed and bound anew, and
// after another directory has its place; then nothing in it is changed until a person says which directory it is.
func TestPacketsMoved(t *testing.T) {
	a := packets(t)
	args := fmt.Sprintf(`{"project":%q,"purpose":"work","mutable":["docs"],"operation_id":"create-01"}`, a.dir)
	first := a.call("create_agent_workspace", args)
	if !first.OK {
		t.Fatalf("%s", first.raw)
	}
	replayed := func(when string) {
		t.Helper()
		again := a.call("create_agent_workspace", args)
		if !again.OK || !again.Operation.Replayed || string(again.Data) != string(first.Data) || again.Handle != first.Handle {
			t.Errorf("%s: %s, it was %s", when, again.raw, first.raw)
		}
		if dirs, err := os.ReadDir(filepath.Join(a.g.Home, "state", "workspaces")); err != nil || len(dirs) != 1 {
			t.Errorf("%s: there are %v, %v", when, dirs, err)
		}
	}
	restart := func(meanwhile func() error) {
		t.Helper()
		a.g.Must("daemon", "stop")
		a.g.Wait()
		if err := meanwhile(); err != nil {
			t.Fatal(err)
		}
		a.g.Serve()
	}
	away := a.dir + "-away"
	restart(func() error { return os.Rename(a.dir, away) })
	a.g.Must("project", "rebind", "shop", away)
	replayed("after the rename")
	restart(func() error {
		if err := os.RemoveAll(away); err != nil {
			return err
		}
		return os.Mkdir(away, 0o700)
	})
	replayed("after another directory has its place")
	var list struct {
		Workspaces []struct {
			Handle string `json:"handle"`
		} `json:"unfinished_workspaces"`
	}
	a.look(fmt.Sprintf(`{"remote_session_id":%q}`, a.session), &list)
	if len(list.Workspaces) != 1 || list.Workspaces[0].Handle != first.Handle {
		t.Errorf("unfinished are %+v", list)
	}
	edit := fmt.Sprintf(`{"remote_session_id":%q,"edits":[{"op":"create","path":"new.txt","content":"x"}],"operation_id":"edit-0001"}`, a.session)
	a.refused(a.call("edit_files", edit), "PROJECT_MOVED")
	a.refused(a.on("integrate_agent_workspace", "integrate-1", first.Handle, ""), "PROJECT_MOVED")
	if now := rig.Tree(t, away); len(now) != 0 {
		t.Errorf("it holds %v", now)
	}
	a.g.Must("project", "rebind", "shop")
	if got := a.call("edit_files", edit); !got.OK {
		t.Errorf("%s", got.raw)
	}
}

// TestPacketsBusy: DW-3 and DW-5 with the real binary. While a command runs in a workspace it is neither integrated nor suspended nor
// removed, and each refusal names the job; a stale handle is told the present one; the same calls do it afterwards.
func TestPacketsBusy(t *testing.T) {
	a := packets(t)
	handle, dir := a.workspace("create-01", ".")
	plant(t, filepath.Join(dir, "docs/new.txt"), "new\n")
	before := rig.Tree(t, a.dir)
	started := a.on("start_command", "start-01", handle, fmt.Sprintf(`,"argv":[%q]`, filepath.Join(a.g.Home, "waits")))
	var job struct {
		ID string `json:"job_id"`
	}
	if !started.OK || json.Unmarshal(started.Data, &job) != nil {
		t.Fatalf("%s", started.raw)
	}
	for tool, id := range map[string]string{"integrate_agent_workspace": "integrate-1", "suspend_workspace": "suspend-1", "remove_agent_workspace": "remove-01"} {
		more := ""
		if tool == "suspend_workspace" {
			more = `,"reason":"later"`
		}
		got := a.on(tool, id, handle, more)
		a.refused(got, "JOBS_RUNNING")
		if !strings.Contains(string(got.raw), job.ID) {
			t.Errorf("%s does not name the job %s: %s", tool, job.ID, got.raw)
		}
	}
	if now := rig.Tree(t, a.dir); !maps.Equal(now, before) {
		t.Errorf("the project holds %v", now)
	}
	appears(t, filepath.Join(dir, "begun"))
	plant(t, filepath.Join(dir, "end"), "")
	a.read("command_status", fmt.Sprintf(`{"job_id":%q,"wait_ms":20000}`, job.ID), &struct{}{})
	for _, name := range []string{"end", "begun"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	edited := a.call("edit_files", fmt.Sprintf(`{"handle":%q,"edits":[{"op":"create","path":"docs/more.txt","content":"more\n"}],"operation_id":"edit-0001"}`, handle))
	if !edited.OK || edited.Handle == handle {
		t.Fatalf("%s", edited.raw)
	}
	stale := a.on("integrate_agent_workspace", "integrate-1", handle, "")
	a.refused(stale, "STALE_HANDLE")
	if !strings.Contains(string(stale.raw), edited.Handle) {
		t.Errorf("the present handle %s is not told: %s", edited.Handle, stale.raw)
	}
	if now := rig.Tree(t, a.dir); !maps.Equal(now, before) {
		t.Errorf("the project holds %v", now)
	}
	if done := a.on("integrate_agent_workspace", "integrate-1", edited.Handle, ""); !done.OK {
		t.Fatalf("%s", done.raw)
	}
	now := rig.Tree(t, a.dir)
	for _, name := range []string{"docs/new.txt", "docs/more.txt"} {
		if now[name] == "" {
			t.Errorf("%s did not come", name)
		}
	}
}

// TestPacketsOneOfMany: DW-4 with the real binary. Of a hundred calls that change a workspace as a whole through one handle, all at once,
// exactly one does, and the revision rises by one; the others are told so, and an id that was refused is free. In full it is 50 rounds.
func TestPacketsOneOfMany(t *testing.T) {
	rounds := 3
	if full() {
		rounds = 50
	}
	a := packets(t)
	handle, dir := a.workspace("create-01", "docs")
	for round := range rounds {
		plant(t, filepath.Join(dir, fmt.Sprintf("docs/new-%d", round)), "new\n")
		call := func(one *agent, i int, handle string) answered {
			if i%2 == 0 {
				return one.on("integrate_agent_workspace", fmt.Sprintf("change-%02d-%03d", round, i), handle, `,"keep_open":true`)
			}
			return one.on("suspend_workspace", fmt.Sprintf("change-%02d-%03d", round, i), handle, `,"reason":"later"`)
		}
		answers := make([]answered, 100)
		release := make(chan struct{})
		var all sync.WaitGroup
		for i := range answers {
			all.Go(func() {
				one := &agent{t: t, g: a.g}
				<-release
				answers[i] = call(one, i, handle)
			})
		}
		close(release)
		all.Wait()
		id, rev, _ := strings.Cut(handle, "@")
		n, err := strconv.Atoi(rev)
		if err != nil {
			t.Fatal(err)
		}
		next := fmt.Sprintf("%s@%d", id, n+1)
		done, free := 0, 0
		for i, got := range answers {
			switch {
			case got.OK:
				done++
				if got.Handle != next {
					t.Errorf("round %d: the handle is %s, want %s", round, got.Handle, next)
				}
			case got.Error.Code != "STALE_HANDLE" && got.Error.Code != "WORKSPACE_BUSY":
				t.Errorf("round %d: %s", round, got.raw)
			case i%2 == 0: // by which it is integrated when it is open again
				free = i
			}
		}
		if done != 1 {
			t.Fatalf("round %d: %d succeeded", round, done)
		}
		again := call(a, free, next)
		if !again.OK || again.Operation.Replayed {
			t.Fatalf("round %d: an id that was refused: %s", round, again.raw)
		}
		handle = again.Handle
		if raw, err := os.ReadFile(filepath.Join(a.dir, fmt.Sprintf("docs/new-%d", round))); err != nil || string(raw) != "new\n" {
			t.Errorf("round %d: %q, %v", round, raw, err)
		}
	}
}

// TestPacketsKept: DW-9, DW-10 and DW-11 with the real binary, over restarts. A workspace that is removed with work in it comes back from
// its snapshot as it was; one that was put aside is told what others integrated meanwhile, and has its own work; a directory that no row
// knows is put aside, listed, and goes on.
func TestPacketsKept(t *testing.T) {
	a := packets(t)
	restart := func(meanwhile func()) {
		a.g.Must("daemon", "stop")
		a.g.Wait()
		meanwhile()
		a.g.Serve()
	}
	handle, dir := a.workspace("create-01", "docs")
	plant(t, filepath.Join(dir, "docs/mine.txt"), "mine\n")
	for _, err := range []error{
		os.Remove(filepath.Join(dir, "docs/a.txt")), os.WriteFile(filepath.Join(dir, "docs/b.txt"), []byte("changed\n"), 0o600),
		os.Chmod(filepath.Join(dir, "docs/c.txt"), 0o700), os.Mkdir(filepath.Join(dir, "docs/empty"), 0o700), os.Symlink("b.txt", filepath.Join(dir, "docs/link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	mine := rig.Tree(t, dir)
	gone := a.on("remove_agent_workspace", "remove-01", handle, "")
	var kept struct {
		Preserved string `json:"preserved"`
	}
	if !gone.OK || json.Unmarshal(gone.Data, &kept) != nil || kept.Preserved == "" {
		t.Fatalf("%s", gone.raw)
	}
	restart(func() {})
	var back struct {
		Path string `json:"path"`
	}
	resume := func(operation, what string) answered {
		t.Helper()
		got := a.call("resume_workspace", fmt.Sprintf(`{"ws":%q,"remote_session_id":%q,"operation_id":%q}`, what, a.session, operation))
		if !got.OK || json.Unmarshal(got.Data, &back) != nil {
			t.Fatalf("%s", got.raw)
		}
		return got
	}
	resumed := resume("resume-01", kept.Preserved)
	if now := rig.Tree(t, back.Path); !maps.Equal(now, mine) {
		t.Errorf("it came back as %v, it was %v", now, mine)
	}

	away := a.on("suspend_workspace", "suspend-1", resumed.Handle, `,"reason":"tomorrow"`)
	if !away.OK {
		t.Fatalf("%s", away.raw)
	}
	other, copied := a.workspace("create-02", "docs")
	for _, name := range []string{"docs/a.txt", "docs/b.txt", "docs/new.txt"} {
		plant(t, filepath.Join(copied, name), "theirs\n")
	}
	if done := a.on("integrate_agent_workspace", "integrate-1", other, ""); !done.OK {
		t.Fatalf("%s", done.raw)
	}
	id, _, _ := strings.Cut(resumed.Handle, "@")
	again := resume("resume-02", id)
	var report struct {
		Moved []string `json:"moved"`
	}
	if err := json.Unmarshal(again.Data, &report); err != nil || !slices.Equal(report.Moved, []string{"docs/a.txt", "docs/b.txt", "docs/new.txt"}) {
		t.Errorf("moved meanwhile: %s", again.raw)
	}
	if now := rig.Tree(t, back.Path); !maps.Equal(now, mine) {
		t.Errorf("after it was put aside it is %v", now)
	}

	workspaces := filepath.Join(a.g.Home, "state", "workspaces")
	restart(func() {
		if err := os.CopyFS(filepath.Join(workspaces, "ws_found"), os.DirFS(filepath.Dir(back.Path))); err != nil {
			t.Fatal(err)
		}
	})
	var list struct {
		Quarantine []struct {
			Handle string `json:"handle"`
			Path   string `json:"path"`
		} `json:"quarantine"`
	}
	a.look(fmt.Sprintf(`{"remote_session_id":%q}`, a.session), &list)
	if len(list.Quarantine) != 1 {
		t.Fatalf("in quarantine are %+v", list)
	}
	if _, err := os.Stat(filepath.Join(workspaces, "ws_found")); !os.IsNotExist(err) {
		t.Errorf("it was not moved: %v", err)
	}
	found := rig.Tree(t, filepath.Join(list.Quarantine[0].Path, "tree"))
	if !slices.Equal(slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(mine))) {
		t.Errorf("it holds %v", found)
	}
	if suspended := a.on("suspend_workspace", "suspend-2", again.Handle, `,"reason":"the other one goes on"`); !suspended.OK {
		t.Fatalf("%s", suspended.raw)
	}
	orphan, _, _ := strings.Cut(list.Quarantine[0].Handle, "@")
	resume("resume-03", orphan)
	if now := rig.Tree(t, back.Path); !maps.Equal(now, found) {
		t.Errorf("it goes on with %v, it held %v", now, found)
	}
}

// TestPacketsOwn: DW-33 with the real binary. No workspace of a project that holds the state directory, or a repository, takes a part of
// them, and what is beside them is copied without them.
func TestPacketsOwn(t *testing.T) {
	a := packets(t)
	a.g.Must("daemon", "stop")
	a.g.Wait()
	a.g.Extra = append(a.g.Extra, "HOME="+t.TempDir()) // no project holds the home directory
	a.g.Serve()
	a.g.Must("project", "add", "--overlap", a.g.Home)
	plant(t, filepath.Join(a.g.Home, ".git", "config"), "")
	plant(t, filepath.Join(a.g.Home, "beside", "file"), "beside\n")
	n := 0
	create := func(mutable string) answered {
		n++
		return a.call("create_agent_workspace", fmt.Sprintf(`{"project":%q,"purpose":"work %d","mutable":[%q],"operation_id":"create-%03d"}`, a.g.Home, n, mutable, n))
	}
	for _, mutable := range []string{"state", "state/workspaces", ".", ".git", ".git/config"} {
		got := create(mutable)
		a.refused(got, "SCOPE_OUTSIDE_PROJECT")
		if got.Error.Details["reason"] == nil {
			t.Errorf("%s: no reason: %s", mutable, got.raw)
		}
	}
	made := create("beside")
	var w struct {
		Path string `json:"path"`
	}
	if !made.OK || json.Unmarshal(made.Data, &w) != nil {
		t.Fatalf("%s", made.raw)
	}
	for name := range rig.Tree(t, w.Path) {
		if strings.HasPrefix(name, "state") || strings.HasPrefix(name, ".git") {
			t.Errorf("the copy has %s", name)
		}
	}
}

// TestPacketsMaintained: DW-12 with the real binary. While a command writes in one workspace, and edits go on in another, old data are
// looked for and both are looked at again and again: nothing waits for ever, no write fails, and every byte is there.
func TestPacketsMaintained(t *testing.T) {
	a := packets(t)
	writes, written := a.workspace("create-01", "docs")
	edits, edited := a.workspace("create-02", "src")
	var job struct {
		ID string `json:"job_id"`
	}
	if started := a.on("start_command", "start-01", writes, fmt.Sprintf(`,"argv":[%q]`, filepath.Join(a.g.Home, "waits"))); !started.OK || json.Unmarshal(started.Data, &job) != nil {
		t.Fatalf("%s", started.raw)
	}
	over := make(chan struct{})
	looks := 0
	var keeper sync.WaitGroup
	keeper.Go(func() {
		keeper := &agent{t: t, g: a.g}
		for {
			select {
			case <-over:
				return
			default:
			}
			looks++
			if pruned := a.g.Run("audit", "prune"); pruned.Code != 0 {
				t.Errorf("audit prune: %s", pruned.Stderr)
			}
			if got := keeper.call("reconcile_project_state", fmt.Sprintf(`{"remote_session_id":%q,"verify":true}`, a.session)); !got.OK {
				t.Errorf("%s", got.raw)
			}
		}
	})
	rounds := 40
	if full() {
		rounds = 1000
	}
	for i := range rounds {
		got := a.call("edit_files", fmt.Sprintf(`{"handle":%q,"edits":[{"op":"create","path":"src/f%d","content":"%d\n"}],"operation_id":"edit-%05d"}`, edits, i, i, i))
		if !got.OK {
			t.Fatalf("%s", got.raw)
		}
		edits = got.Handle
	}
	appears(t, filepath.Join(written, "begun"))
	close(over)
	keeper.Wait()
	plant(t, filepath.Join(written, "end"), "")
	a.read("command_status", fmt.Sprintf(`{"job_id":%q,"wait_ms":20000}`, job.ID), &struct{}{})
	raw, err := os.ReadFile(filepath.Join(written, "begun"))
	lines := strings.Fields(string(raw))
	if err != nil || len(lines) == 0 {
		t.Fatalf("the command wrote %q: %v", raw, err)
	}
	for i, line := range lines {
		if line != fmt.Sprint(i+1) {
			t.Fatalf("the command wrote %q as its line %d", line, i+1)
		}
	}
	for i := range rounds {
		if raw, err := os.ReadFile(filepath.Join(edited, fmt.Sprintf("src/f%d", i))); err != nil || string(raw) != fmt.Sprintf("%d\n", i) {
			t.Fatalf("src/f%d holds %q: %v", i, raw, err)
		}
	}
	for _, handle := range []string{writes, edits} {
		var is struct {
			State string `json:"state"`
		}
		a.read("workspace_status", fmt.Sprintf(`{"handle":%q,"diff":"none"}`, handle), &is)
		if is.State != "open" {
			t.Errorf("%s is %s", handle, is.State)
		}
	}
	t.Logf("%d looks, %d lines, %d edits", looks, len(lines), rounds)
}
