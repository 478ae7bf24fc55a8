package crashtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/fault"
	"mcpx/internal/test/rig"
	"mcpx/internal/workspace"
)

const (
	// insideDay makes a test binary run TestDayInTheLife where it may mount.
	insideDay = "MCPX_TEST_DAY"
	// dayDisk is the disk that holds the projects and everything of mcpx: larger than what a day needs, small enough to be filled.
	dayDisk = "size=128m,mode=0700"
	// dayKills is how often the daemon is killed while the agents work.
	dayKills = 10
)

// TestDayInTheLife: three agents work in workspaces of two projects, one of them without git and full of PDFs and images, while
// a person edits the same files and the daemon is killed ten times; then the host is rebooted, and the disk is full for a while.
// In the end every intended change is in place exactly once, nothing else was changed, and what is not in place is preserved and
// listed. The disk and the id of the boot are made in a namespace of its own, which only root may do.
func TestDayInTheLife(t *testing.T) {
	if os.Getenv(insideDay) != "" {
		dayInTheLife(t)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may mount")
	}
	unshare := []string{"--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if err := exec.Command("unshare", append(unshare, "true")...).Run(); err != nil {
		t.Skip("no namespaces here: ", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", append(unshare, self, "-test.run=^TestDayInTheLife$", "-test.v", "-test.parallel=3")...)
	cmd.Env = append(os.Environ(), insideDay+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
}

// day is what the agents of TestDayInTheLife share.
type day struct {
	g    *rig.Gateway
	disk string
	over atomic.Bool // there are no more kills
}

func dayInTheLife(t *testing.T) {
	random := seeded(t)
	rig.Binary(t) // it is built elsewhere
	d := &day{disk: smallDisk(t)}
	d.g = rig.New(t)
	d.g.Extra = commands
	d.g.Serve()
	shop, paper := d.project(t, "shop"), d.project(t, "paper")
	for name, content := range map[string]string{
		"shop/.git/HEAD": "ref: refs/heads/main\n", "shop/README.md": "the shop\n", "shop/src/log.txt": "1\n2\n3\n4\n5\n6\n",
		"paper/paper.pdf": "%PDF-1.7\n" + noise(random, 50<<10), "paper/figures/cover.png": "\x89PNG\r\n\x1a\n" + noise(random, 20<<10), "paper/text/intro.md": "intro\n",
	} {
		d.write(t, name, content)
	}
	want := map[string]map[string]string{shop: contents(t, shop), paper: contents(t, paper)}
	d.g.Must("project", "add", shop)
	d.g.Must("project", "add", paper)

	seeds := [2]uint64{random.Uint64(), random.Uint64()}
	pauses := make([]time.Duration, dayKills)
	for i := range pauses {
		pauses[i] = time.Duration(random.IntN(400)) * time.Millisecond
	}
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		defer d.over.Store(true)
		for _, pause := range pauses {
			time.Sleep(pause) // another moment of the work each time
			d.g.Kill()
			d.g.Serve()
		}
	}()
	logs, figures, chapters := map[string]string{}, map[string]string{}, map[string]string{}
	t.Run("agents", func(t *testing.T) {
		t.Run("log", func(t *testing.T) {
			t.Parallel()
			d.logger(d.agent(t, shop, "log"), logs)
		})
		t.Run("figures", func(t *testing.T) {
			t.Parallel()
			d.painter(d.agent(t, paper, "figures"), rand.New(rand.NewPCG(seeds[0], seeds[1])), figures)
		})
		t.Run("text", func(t *testing.T) {
			t.Parallel()
			d.writer(d.agent(t, paper, "text"), chapters)
		})
	})
	<-killed
	if t.Failed() {
		return
	}
	maps.Copy(want[shop], logs)
	maps.Copy(want[paper], figures)
	maps.Copy(want[paper], chapters)
	d.same(t, "after the kills", want)

	left := d.unfinished(t, paper, want)
	d.reboot(t)
	d.afterReboot(left)
	d.same(t, "after the reboot", want)

	d.fullDisk(t, shop, want)
	d.same(t, "after the full disk", want)
	d.preserved(t, left)
	want[paper]["drafts/draft.pdf"] = left.draft
	d.same(t, "in the end", want)
}

// smallDisk is a disk of its own, on which everything that follows is put.
func smallDisk(t *testing.T) string {
	t.Helper()
	disk, err := os.MkdirTemp("", "d") //nolint:usetesting // the path of a unix socket is short, that of t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, dayDisk); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(syscall.Unmount(disk, 0), os.Remove(disk)); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("TMPDIR", disk)
	return disk
}

func (d *day) project(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(d.disk, name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// write puts a file in place as an editor does: it is there as it was, or as it shall be.
func (d *day) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(d.disk, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path+".new", []byte(content), 0o600), os.Rename(path+".new", path)); err != nil {
		t.Fatal(err)
	}
}

// noise is bytes of which no two are a text.
func noise(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return "\x00" + string(b)
}

// contents are the files below a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for name, one := range rig.Tree(t, dir) {
		if mode, content, _ := strings.Cut(one, " "); mode[0] == '-' {
			files[name] = content
		}
	}
	return files
}

// same fails unless each project has exactly the files that are wanted.
func (d *day) same(t *testing.T, when string, want map[string]map[string]string) {
	t.Helper()
	for dir, files := range want {
		now := contents(t, dir)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if now[name] != files[name] {
				t.Errorf("%s: %s of %s has %d bytes, want %d: %.100q", when, name, filepath.Base(dir), len(now[name]), len(files[name]), now[name])
			}
			delete(now, name)
		}
		for name := range now {
			t.Errorf("%s: nobody made %s in %s", when, name, filepath.Base(dir))
		}
	}
}

// agent is one with a session of its own on a project. Its name is the beginning of all of its operation ids.
func (d *day) agent(t *testing.T, dir, name string) *dayAgent {
	w := &worker{play: &play{t: t, g: d.g}, dir: dir}
	opened := w.do("session", name+"-open-1", map[string]any{"action": "open", "project": filepath.Base(dir)}, nil)
	var session struct {
		Session struct {
			ID string `json:"remote_session_id"`
		} `json:"session"`
	}
	if err := json.Unmarshal(opened.Data, &session); err != nil || session.Session.ID == "" {
		t.Fatalf("%s: %+v (%v)", name, opened, err)
	}
	w.session = session.Session.ID
	return &dayAgent{worker: w, name: name}
}

type dayAgent struct {
	*worker
	name         string
	calls        int
	handle, copy string // of its workspace
}

// id is the id of the next intention.
func (a *dayAgent) id(what string) string {
	a.calls++
	return fmt.Sprintf("%s-%s-%03d", a.name, what, a.calls)
}

// asks makes a call until what passes by itself has passed, as the refusal says: such as a copy of a project into which another agent
// integrates.
func (a *dayAgent) asks(tool, id string, args map[string]any) result {
	a.t.Helper()
	last := a.do(tool, id, args, nil)
	for deadline := time.Now().Add(stepWithin); last.Error != nil && (last.Error.Retry == fault.AfterWait || last.Error.Retry == fault.SameID) && time.Now().Before(deadline); time.Sleep(pollEvery) {
		last = a.do(tool, id, args, nil)
	}
	return last
}

// must makes a call that has to succeed, and follows the handle of the workspace.
func (a *dayAgent) must(tool string, args map[string]any) result {
	a.t.Helper()
	last := a.asks(tool, a.id(tool), args)
	if !last.OK {
		a.t.Fatalf("%s of %s: %+v, %+v", tool, a.name, last.Error, last)
	}
	if last.Handle != "" {
		a.handle = last.Handle
	}
	return last
}

// create makes a workspace that may change a directory.
func (a *dayAgent) create(scope, purpose string) {
	a.t.Helper()
	var made struct {
		Path string `json:"path"`
	}
	last := a.must("create_agent_workspace", map[string]any{"purpose": purpose, "mutable": []string{scope}})
	if err := json.Unmarshal(last.Data, &made); err != nil {
		a.t.Fatal(err)
	}
	a.copy = made.Path
}

// finish brings the work into the project, and removes the workspace.
func (a *dayAgent) finish() {
	a.t.Helper()
	a.must("integrate_agent_workspace", map[string]any{"handle": a.handle})
	a.must("remove_agent_workspace", map[string]any{"handle": a.handle, "if_dirty": "refuse"})
}

// rounds goes on until there are no more kills.
func (d *day) rounds(round func(n int)) {
	for n := 1; n <= 2 || !d.over.Load(); n++ {
		round(n)
	}
}

// logger adds a line to the end of a file in each round, while a person adds one to its beginning: both are merged.
func (d *day) logger(a *dayAgent, want map[string]string) {
	log := contents(a.t, a.dir)["src/log.txt"]
	d.rounds(func(n int) {
		a.create("src", fmt.Sprintf("line %d of the log", n))
		d.write(a.t, "shop/src/log.txt", fmt.Sprintf("person %d\n", n)+log)
		a.is = map[string]string{"log": log}
		a.must("edit_files", map[string]any{"handle": a.handle, "edits": []edit{{"path": "src/log.txt", "expect_sha256": a.sum("log"), "append": fmt.Sprintf("agent %d\n", n)}}})
		log = fmt.Sprintf("person %d\n%sagent %d\n", n, log, n)
		a.finish()
	})
	want["src/log.txt"] = log
	a.looked()
}

// painter writes images and PDFs: some by the tool, some into the copy as a program does.
func (d *day) painter(a *dayAgent, r *rand.Rand, want map[string]string) {
	d.rounds(func(n int) {
		a.create("figures", fmt.Sprintf("figures of day %d", n))
		name := fmt.Sprintf("figures/fig%d.png", n%4)
		want[name] = "\x89PNG\r\n\x1a\n" + noise(r, 60<<10)
		if err := os.WriteFile(filepath.Join(a.copy, name), []byte(want[name]), 0o600); err != nil {
			a.t.Fatal(err)
		}
		one := fmt.Sprintf("figures/fig%d.pdf", n)
		want[one] = "%PDF-1.7\n" + noise(r, 2<<10)
		a.must("edit_files", map[string]any{"handle": a.handle, "edits": []edit{{"op": "create", "path": one, "content_base64": base64.StdEncoding.EncodeToString([]byte(want[one]))}}})
		a.finish()
	})
	a.looked()
}

// writer goes on in one workspace after it was integrated.
func (d *day) writer(a *dayAgent, want map[string]string) {
	a.create("text", "the text")
	d.rounds(func(n int) {
		name := fmt.Sprintf("text/chapter%d.md", n)
		want[name] = fmt.Sprintf("chapter %d\n", n)
		a.must("edit_files", map[string]any{"handle": a.handle, "edits": []edit{{"op": "create", "path": name, "content": want[name]}}})
		a.must("integrate_agent_workspace", map[string]any{"handle": a.handle, "keep_open": true})
	})
	a.must("remove_agent_workspace", map[string]any{"handle": a.handle, "if_dirty": "refuse"})
	a.looked()
}

// unfinished is work that is not in the project: one workspace that is open, in which a command runs, and one that was removed.
type unfinished struct {
	*dayAgent
	draft, kept, snapshot string
	job                   string
}

func (d *day) unfinished(t *testing.T, dir string, want map[string]map[string]string) *unfinished {
	t.Helper()
	a := d.agent(t, dir, "drafts")
	u := &unfinished{dayAgent: a, draft: "%PDF-1.7\ndraft\x00", kept: "removed, and kept\n"}
	a.create("old", "an idea that nobody wants")
	a.must("edit_files", map[string]any{"handle": a.handle, "edits": []edit{{"op": "create", "path": "old/idea.md", "content": u.kept}}})
	var gone struct {
		Preserved string `json:"preserved"`
	}
	if err := json.Unmarshal(a.must("remove_agent_workspace", map[string]any{"handle": a.handle}).Data, &gone); err != nil || gone.Preserved == "" {
		t.Fatalf("removed: %+v, %v", gone, err)
	}
	u.snapshot = gone.Preserved
	a.create("drafts", "a draft that is not done")
	a.must("edit_files", map[string]any{"handle": a.handle, "edits": []edit{{"op": "create", "path": "drafts/draft.pdf", "content_base64": base64.StdEncoding.EncodeToString([]byte(u.draft))}}})
	var started job
	if err := json.Unmarshal(a.must("start_command", map[string]any{"handle": a.handle, "argv": []string{"sleep", "600"}}).Data, &started); err != nil {
		t.Fatal(err)
	}
	u.job = started.ID
	d.same(t, "unfinished work", want)
	return u
}

// reboot ends every process and gives the host another boot.
func (d *day) reboot(t *testing.T) {
	t.Helper()
	d.g.Kill()
	rig.Until(t, stepWithin, "every process has ended", func() bool {
		left := rig.Naming(d.g.Home)
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
		}
		return len(left) == 0
	})
	const bootID = "/proc/sys/kernel/random/boot_id"
	path := filepath.Join(d.disk, "boot_id")
	if err := os.WriteFile(path, []byte("6b0d6f7e-0000-4000-8000-000000000002\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(path, bootID, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(bootID, 0); err != nil {
			t.Error(err)
		}
	})
	d.g.Serve()
}

// afterReboot: nobody pretends that the command still runs, or starts it again; its workspace is as it was.
func (d *day) afterReboot(u *unfinished) {
	u.t.Helper()
	if j := u.state(u.job); j.State != "lost" || j.Reason != "host_reboot" {
		u.t.Errorf("the command of before the reboot: %+v", j)
	}
	var list struct {
		Workspaces []struct {
			Handle  string `json:"handle"`
			Purpose string `json:"purpose"`
		} `json:"unfinished_workspaces"`
		Lost []struct {
			Job string `json:"job_id"`
		} `json:"jobs_lost"`
	}
	u.reads("reconcile_project_state", map[string]any{}, &list)
	if len(list.Workspaces) != 1 || list.Workspaces[0].Handle != u.handle || len(list.Lost) != 1 || list.Lost[0].Job != u.job {
		u.t.Errorf("the agent is told of %+v", list)
	}
	if got := contents(u.t, u.copy)["drafts/draft.pdf"]; got != u.draft {
		u.t.Errorf("the draft: %q", got)
	}
}

// fullDisk integrates while the disk is full: nothing is changed, and once there is room the work goes in.
func (d *day) fullDisk(t *testing.T, dir string, want map[string]map[string]string) {
	t.Helper()
	a := d.agent(t, dir, "full")
	a.create("src", "what comes on a full disk")
	want[dir]["src/large.bin"] = strings.Repeat("large ", 100<<10)
	if err := os.WriteFile(filepath.Join(a.copy, "src/large.bin"), []byte(want[dir]["src/large.bin"]), 0o600); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	room := rig.FillDisk(t, d.disk)
	args := map[string]any{"handle": a.handle}
	id := a.id("integrate")
	body, err := a.body("integrate_agent_workspace", id, args)
	if err != nil {
		t.Fatal(err)
	}
	refused, err := a.post(body)
	if err != nil || refused.OK || refused.Error == nil || !slices.Contains([]string{"NO_SPACE", "AUDIT_UNAVAILABLE", "STORE_DEGRADED"}, refused.code()) {
		t.Errorf("on a full disk: %+v, %v", refused, err)
	}
	if now := contents(t, dir); !maps.Equal(now, before) {
		t.Error("an integration without room has changed the project")
	}
	room()
	if refused.Error != nil && refused.Error.Retry == fault.NewID {
		id = a.id("integrate")
	}
	if last := a.asks("integrate_agent_workspace", id, args); !last.OK {
		t.Errorf("once there is room: %+v", last.Error)
	} else {
		a.handle = last.Handle
	}
	a.must("remove_agent_workspace", map[string]any{"handle": a.handle, "if_dirty": "refuse"})
	a.looked()
}

// preserved: a person is told of everything that is not in a project, and each of it is there.
func (d *day) preserved(t *testing.T, u *unfinished) {
	t.Helper()
	u.t = t
	page, err := d.g.API().Workspaces(api.As(context.Background(), api.Owner), api.WorkspacesQuery{All: true})
	if err != nil || page.Before != 0 {
		t.Fatalf("the list of workspaces: %v, more behind %d", err, page.Before)
	}
	states := map[workspace.State]int{}
	var told []string
	for _, w := range page.Workspaces {
		states[w.State]++
		if w.State == workspace.Quarantined {
			told = append(told, w.Dir)
		}
		if w.State == workspace.Open && (w.Handle().String() != u.handle || w.Dirty != workspace.Dirty) {
			t.Errorf("open is %s, dirty %s", w, w.Dirty)
		}
	}
	if states[workspace.Open] != 1 || states[workspace.Open]+states[workspace.Quarantined]+states[workspace.Retired] != len(page.Workspaces) {
		t.Errorf("workspaces: %v", states)
	}
	found, err := filepath.Glob(filepath.Join(d.g.Home, "state", "quarantine", "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(told)
	if !slices.Equal(found, told) {
		t.Errorf("set aside are %q, a person is told of %q", found, told)
	}
	t.Logf("workspaces in the end: %v", states)

	u.must("integrate_agent_workspace", map[string]any{"handle": u.handle})
	var back struct {
		Path string `json:"path"`
	}
	if err := json.Unmarshal(u.must("resume_workspace", map[string]any{"ws": u.snapshot}).Data, &back); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, back.Path)["old/idea.md"]; got != u.kept {
		t.Errorf("what was removed comes back as %q", got)
	}
	u.looked()
}
