package clientfile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/test/faultdisk"
)

// house is a home with files of agents, and what writes them.
type house struct {
	t     *testing.T
	dir   string
	home  string
	files *Files
	disk  *faultdisk.Disk
	kept  map[string]string
	look  converge.Look
}

const (
	testReceipt = "rcp_01JTEST0000000000000000000"
	testURL     = "http://127.0.0.1:4100/servers/gw/mcp"
)

// quickDisk leaves out the waits for the disk.
type quickDisk struct{ atomicfile.OS }

func (quickDisk) SyncDir(string) error { return nil }

func newHouse(t *testing.T) *house {
	t.Helper()
	return houseIn(t, t.TempDir())
}

func houseIn(t *testing.T, dir string) *house {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, dir: dir, home: filepath.Join(dir, "home"), kept: map[string]string{}, disk: &faultdisk.Disk{Under: quickDisk{}}}
	for _, d := range []string{h.home, filepath.Join(dir, "state")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.look = converge.Look{Home: h.home, Names: map[string]bool{"gw": false}}
	h.restart()
	return h
}

func houseHub(l converge.Look) Hub { return Hub{Port: "4100", Servers: l.Names} }

func houseNow() time.Time { return time.Now() }

// restart is another process: it knows only what is on the disk.
func (h *house) restart() {
	h.t.Helper()
	files, err := NewFiles(FilesConfig{
		Backups: filepath.Join(h.dir, "state", "backups"), Key: []byte(strings.Repeat("k", minKey)), Getenv: func(string) string { return "" },
		Hub: houseHub, Now: houseNow, Disk: h.disk,
		Keep: func(_ context.Context, credential, value string) error {
			h.kept[credential] = value
			return nil
		},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.files = files
}

func (h *house) path(name string) string { return filepath.Join(h.home, filepath.FromSlash(name)) }

func (h *house) write(name, content string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.path(name)), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(h.path(name), []byte(content), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// rename writes a file as most clients do.
func (h *house) rename(name, content string) {
	h.t.Helper()
	h.write(name+".tmp", content)
	if err := os.Rename(h.path(name+".tmp"), h.path(name)); err != nil {
		h.t.Fatal(err)
	}
}

// read is the content of a file, "" none.
func (h *house) read(name string) string {
	h.t.Helper()
	raw, err := os.ReadFile(h.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	return string(raw)
}

// names is everything in the home, apart from directories.
func (h *house) names() []string {
	h.t.Helper()
	var all []string
	err := filepath.WalkDir(h.home, func(path string, e os.DirEntry, err error) error {
		if err == nil && (!e.IsDir() || strings.HasSuffix(path, ".lock")) {
			rel, _ := filepath.Rel(h.home, path)
			all = append(all, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// Files of two agents, the first bound by entry, the second whole.
const (
	claudeFile = ".claude.json"
	geminiFile = ".gemini/settings.json"
	claudeOld  = "{\n  \"numStartups\": 1,\n  \"mcpServers\": {\n    \"gw\": {\n      \"command\": \"direct\"\n    }\n  },\n  \"tail\": \"\u00e4\"\n}"
	geminiOld  = "{\n\t// mine\n\t\"mcpServers\": {\"gw\": {\"command\": \"direct\"}}\n}\n"
)

// route is the step that leads the entry gw through mcpx.
var route = converge.Step{
	Op: converge.StepSet, At: []string{"mcpServers", "gw"}, Name: "gw",
	Want: &converge.Form{Kind: converge.FormHTTP, Server: "gw", URL: testURL},
}

// draft makes the change of a file as it is now.
func (h *house) draft(agent Agent, name string, steps ...converge.Step) converge.Change {
	h.t.Helper()
	c, err := h.files.Read(h.look).Draft(h.t.Context(), converge.Drafting{Agent: string(agent), Path: h.path(name), Steps: steps})
	if err != nil {
		h.t.Fatal(err)
	}
	if c.Scope == "" {
		c.Scope = string(ScopeUser)
	}
	return c
}

func (h *house) apply(changes ...converge.Change) ([]converge.Written, error) {
	return h.files.Apply(h.t.Context(), h.look, testReceipt, changes, nil)
}

// two is a home with both files and the changes to them.
func two(t *testing.T) (*house, []converge.Change) {
	t.Helper()
	h := houseIn(t, faultdisk.Dir(t))
	h.write(claudeFile, claudeOld)
	h.write(geminiFile, geminiOld)
	changes := []converge.Change{h.draft(Claude, claudeFile, route), h.draft(Gemini, geminiFile, route)}
	h.disk.Steps = nil
	return h, changes
}

// routed says whether the entry of a file leads through mcpx.
func routed(content string) bool { return strings.Contains(content, testURL) }

func TestApply(t *testing.T) {
	h, changes := two(t)
	if err := os.Chmod(h.path(geminiFile), 0o640); err != nil {
		t.Fatal(err)
	}
	written, err := h.apply(changes...)
	if err != nil {
		t.Fatal(err)
	}
	olds := []string{claudeOld, geminiOld}
	for i, name := range []string{claudeFile, geminiFile} {
		w, now := written[i], h.read(name)
		if !routed(now) || strings.Contains(now, "direct") {
			t.Errorf("%s is %q", name, now)
		}
		if w.Path != h.path(name) || w.Real != w.Path || w.Before.SHA256 != atomicfile.Sum([]byte(olds[i])) || w.After.SHA256 != atomicfile.Sum([]byte(now)) ||
			w.Before.Identity == w.After.Identity || w.Before.Mode != w.After.Mode || w.Verified != "parsed" || w.Exchange != "exchange" {
			t.Errorf("%s was written as %+v", name, w)
		}
		backup := filepath.Join(h.dir, "state", "backups", testReceipt, w.Backup)
		raw, err := os.ReadFile(backup)
		if err != nil || string(raw) != olds[i] {
			t.Errorf("the backup of %s is %q, %v", name, raw, err)
		}
		for path, want := range map[string]os.FileMode{backup: 0o600, filepath.Dir(backup): 0o700} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
			}
		}
	}
	if info, err := os.Stat(h.path(geminiFile)); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if diff := cmp.Diff([]string{claudeFile, geminiFile}, h.names()); diff != "" {
		t.Error(diff)
	}
	if _, err := h.apply(changes...); fault.KindOf(err) != fault.Stale {
		t.Errorf("the same plan again: %v", err)
	}
}

// TestRevert takes a receipt back and gets the bytes that were there.
func TestRevert(t *testing.T) {
	for name, old := range map[string]string{
		"mark and CRLF": "\ufeff{\r\n  \"mcpServers\": {\r\n    \"gw\": {\"command\": \"direct\"}\r\n  },\n\t\"x\": \"\u2028\"}", "no file": "", "plain": claudeOld,
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			if old != "" {
				h.write(claudeFile, old)
			}
			written, err := h.apply(h.draft(Claude, claudeFile, route))
			if err != nil {
				t.Fatal(err)
			}
			if !routed(h.read(claudeFile)) {
				t.Fatalf("not routed: %q", h.read(claudeFile))
			}
			back, err := h.files.Read(h.look).Draft(t.Context(), converge.Drafting{
				Agent: string(Claude), Path: h.path(claudeFile), Reverts: &written[0],
				Steps: []converge.Step{{Op: converge.StepRevert, Receipt: testReceipt}},
			})
			if err != nil {
				t.Fatal(err)
			}
			again, err := h.files.Apply(t.Context(), h.look, "rcp_2", []converge.Change{back}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.read(claudeFile); got != old {
				t.Errorf("after the rollback %q, want %q", got, old)
			}
			if again[0].After.Absent != (old == "") {
				t.Errorf("%+v", again[0].After)
			}
			if old == "" && len(h.names()) > 0 {
				t.Errorf("left over: %v", h.names())
			}
		})
	}
}

// TestApplyStale changes a file between plan and apply.
func TestApplyStale(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(h *house)
		want   fault.Kind // "" it is applied all the same
	}{
		{"the whole file, by a rename", func(h *house) { h.rename(geminiFile, geminiOld+"\n") }, fault.Stale},
		{"the whole file, in place", func(h *house) { h.write(geminiFile, geminiOld+"\n") }, fault.Stale},
		{"the same bytes in another file", func(h *house) { h.rename(geminiFile, geminiOld) }, ""},
		{"it vanishes", func(h *house) { _ = os.Remove(h.path(geminiFile)) }, fault.Stale},
		{"it becomes a link elsewhere", func(h *house) {
			h.write("other", geminiOld)
			_ = os.Remove(h.path(geminiFile))
			if err := os.Symlink(h.path("other"), h.path(geminiFile)); err != nil {
				t.Fatal(err)
			}
		}, fault.Stale},
		{"another entry of a file that its client rewrites", func(h *house) {
			h.rename(claudeFile, strings.Replace(claudeOld, `"numStartups": 1`, `"numStartups": 2, "more": [1,2]`, 1))
		}, ""},
		{"the entry of a file that its client rewrites", func(h *house) {
			h.rename(claudeFile, strings.Replace(claudeOld, `"command": "direct"`, `"command": "direct", "args": ["x"]`, 1))
		}, fault.Stale},
		{"a file that its client rewrites vanishes", func(h *house) { _ = os.Remove(h.path(claudeFile)) }, fault.Stale},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, changes := two(t)
			test.change(h)
			before := []string{h.read(claudeFile), h.read(geminiFile)}
			_, err := h.apply(changes...)
			if got := fault.KindOf(err); got != test.want {
				t.Fatalf("%v, want %q", err, test.want)
			}
			after := []string{h.read(claudeFile), h.read(geminiFile)}
			if test.want != "" {
				if diff := cmp.Diff(before, after); diff != "" {
					t.Error(diff)
				}
				return
			}
			if !routed(after[0]) || !routed(after[1]) {
				t.Errorf("not written: %q", after)
			}
			if strings.Contains(before[0], `"more"`) && !strings.Contains(after[0], `"numStartups": 2, "more": [1,2]`) {
				t.Errorf("what the client wrote is gone: %q", after[0])
			}
		})
	}
}

// TestRefusals are files that are not written, each with the code that says why.
func TestRefusals(t *testing.T) {
	root := os.Geteuid() == 0
	for _, test := range []struct {
		code string
		make func(h *house) bool // false: cannot be made here
	}{
		{"file-read-only", func(h *house) bool { return os.Chmod(h.path(geminiFile), 0o400) == nil }},
		{"file-hard-linked", func(h *house) bool { return os.Link(h.path(geminiFile), h.path("second")) == nil }},
		{"file-foreign-owner", func(h *house) bool { return root && os.Chown(h.path(geminiFile), 4242, -1) == nil }},
		{"file-irregular", func(h *house) bool {
			return os.Remove(h.path(geminiFile)) == nil && os.Mkdir(h.path(geminiFile), 0o700) == nil
		}},
		{"link-outside-home", func(h *house) bool {
			outside := filepath.Join(h.dir, "outside")
			return os.Rename(h.path(geminiFile), outside) == nil && os.Symlink(outside, h.path(geminiFile)) == nil
		}},
		{"link-outside-home", func(h *house) bool {
			outside := filepath.Join(h.dir, "outside")
			return os.Rename(filepath.Dir(h.path(geminiFile)), outside) == nil && os.Symlink(outside, filepath.Dir(h.path(geminiFile))) == nil
		}},
		{"link-loop", func(h *house) bool {
			return os.Remove(h.path(geminiFile)) == nil && os.Symlink(h.path("loop"), h.path(geminiFile)) == nil && os.Symlink(h.path(geminiFile), h.path("loop")) == nil
		}},
		{"directory-read-only", func(h *house) bool { return !root && os.Chmod(filepath.Dir(h.path(geminiFile)), 0o500) == nil }},
	} {
		t.Run(test.code, func(t *testing.T) {
			h, changes := two(t)
			before := h.read(geminiFile)
			if !test.make(h) {
				t.Skipf("skip: refusals: %s cannot be made here", test.code)
			}
			t.Cleanup(func() { _ = os.Chmod(filepath.Dir(h.path(geminiFile)), 0o700) }) // for the removal of the directory
			_, err := h.apply(changes...)
			if e := fault.From(err); e == nil || e.Code != test.code || e.Hint == "" {
				t.Fatalf("%+v, want %s", err, test.code)
			}
			if got := h.read(claudeFile); got != claudeOld {
				t.Errorf("the other file was written: %q", got)
			}
			if strings.HasPrefix(test.code, "file-irregular") || test.code == "link-loop" {
				return
			}
			if got := h.read(geminiFile); got != before {
				t.Errorf("it was written: %q", got)
			}
		})
	}
}

// TestReadOnlyDisk: it is told before anything is tried.
func TestReadOnlyDisk(t *testing.T) {
	h := newHouse(t)
	h.write(geminiFile, geminiOld)
	change := h.draft(Gemini, geminiFile, route)
	dir := filepath.Dir(h.path(geminiFile))
	h.readOnly(dir)
	_, err := h.apply(change)
	if e := fault.From(err); e == nil || e.Code != "directory-read-only" {
		t.Errorf("%v", err)
	}
	if h.read(geminiFile) != geminiOld {
		t.Error("it was written")
	}
}

func TestLinkStays(t *testing.T) {
	h := newHouse(t)
	h.write("dotfiles/gemini.json", geminiOld)
	if err := os.MkdirAll(filepath.Dir(h.path(geminiFile)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../dotfiles/gemini.json", h.path(geminiFile)); err != nil {
		t.Fatal(err)
	}
	written, err := h.apply(h.draft(Gemini, geminiFile, route))
	if err != nil {
		t.Fatal(err)
	}
	if w := written[0]; w.Path != h.path(geminiFile) || w.Real != h.path("dotfiles/gemini.json") {
		t.Errorf("written %s, really %s", w.Path, w.Real)
	}
	if target, err := os.Readlink(h.path(geminiFile)); err != nil || target != "../dotfiles/gemini.json" {
		t.Errorf("the link is %q, %v", target, err)
	}
	if !routed(h.read("dotfiles/gemini.json")) {
		t.Error("the file at its end was not written")
	}
}

// settled checks what every end has to be: all old or all new, nothing beside, and nothing of others lost.
func (h *house) settled(others ...string) {
	h.t.Helper()
	claude, gemini := h.read(claudeFile), h.read(geminiFile)
	for name, now := range map[string]string{claudeFile: claude, geminiFile: gemini} {
		if now != claudeOld && now != geminiOld && !routed(now) && !slices.Contains(others, now) {
			h.t.Errorf("%s is %q", name, now)
		}
	}
	if len(others) == 0 && routed(claude) != routed(gemini) {
		h.t.Errorf("half: %q and %q", claude, gemini)
	}
	all := map[string]bool{}
	for _, name := range h.names() {
		all[h.read(name)] = true
		if name != claudeFile && name != geminiFile && !strings.Contains(name, "-kept") {
			h.t.Errorf("left over: %s", name)
		}
	}
	for _, other := range others {
		if !all[other] {
			h.t.Errorf("lost: %q", other)
		}
	}
}

// count is how many steps of the disk an apply has.
func count(t *testing.T) int {
	t.Helper()
	h, changes := two(t)
	if _, err := h.apply(changes...); err != nil {
		t.Fatal(err)
	}
	return len(h.disk.Steps)
}

// TestApplyErrors lets every step of the disk fail, and every step do what it says it could not.
func TestApplyErrors(t *testing.T) {
	steps := count(t)
	for _, errno := range []error{syscall.EIO, syscall.ENOSPC} {
		for _, done := range []bool{false, true} {
			for i := range steps {
				h, changes := two(t)
				fail := func(s faultdisk.Step) error {
					if s.N == i {
						return errno
					}
					return nil
				}
				if done {
					h.disk.After = fail
				} else {
					h.disk.Before = fail
				}
				written, err := h.apply(changes...)
				h.disk.Before, h.disk.After = nil, nil
				if err == nil && (len(written) != 2 || !routed(h.read(claudeFile))) {
					t.Errorf("step %d: no error, written %+v", i, written)
				}
				if err != nil && !errors.Is(err, errno) {
					t.Errorf("step %d: the cause is not told: %v", i, err)
				}
				if fault.KindOf(err) == fault.UnknownOutcome {
					h.restart()
					if _, _, _, err := h.files.Recover(t.Context(), h.look, testReceipt, changes); err != nil {
						t.Errorf("step %d: Recover: %v", i, err)
					}
				} else if err != nil && routed(h.read(claudeFile)) {
					t.Errorf("step %d: %v, and the change is there", i, err)
				}
				if err == nil { // what could not be removed is told
					for _, w := range written {
						for _, n := range w.Notes {
							if n.Code == "file-left" {
								_ = os.Remove(filepath.Join(filepath.Dir(w.Path), strings.Fields(n.Text)[0]))
							}
						}
					}
				}
				h.settled()
				if t.Failed() {
					t.Fatalf("%v at step %d of %d, done %v: %v\n%v", errno, i, steps, done, err, h.disk.Steps)
				}
			}
		}
	}
}

// TestApplyKilled ends the process before every step of an apply, and again during recovery, with and without somebody
// else who writes one of the files.
func TestApplyKilled(t *testing.T) {
	steps := count(t)
	other := map[string]string{claudeFile: "{\"mcpServers\": {\"gw\": {\"command\": \"other\"}}}", geminiFile: "{\"other\": true}"}
	applied, undone := 0, 0
	for _, who := range []string{"", claudeFile, geminiFile} {
		for i := range steps {
			if who != "" && i%3 != 0 {
				continue
			}
			for again := i % 6; again < 42; again += 6 {
				h, changes := two(t)
				var others []string
				h.disk.Before = func(s faultdisk.Step) error {
					if who != "" && s.N == i {
						h.rename(who, other[who])
						others = []string{other[who]}
					}
					if s.N == i+again%3 {
						if s.Op == "stage" && again%2 == 0 {
							return faultdisk.ErrTorn
						}
						panic(faultdisk.Killed{})
					}
					return nil
				}
				faultdisk.Kill(func() { _, _ = h.apply(changes...) })
				from, dead := len(h.disk.Steps), false
				h.disk.Before = func(s faultdisk.Step) error {
					if s.N == from+again {
						panic(faultdisk.Killed{})
					}
					return nil
				}
				h.restart()
				var ok bool
				var err error
				var problems []converge.Problem
				decide := func() {
					h.t.Helper()
					_, ok, problems, err = h.files.Recover(t.Context(), h.look, testReceipt, changes)
					if err != nil {
						t.Errorf("Recover: %v", err)
					}
				}
				dead = faultdisk.Kill(decide)
				h.disk.Before = nil
				if dead {
					h.restart()
					decide()
				}
				first := ok
				decide()
				if ok != first {
					t.Errorf("Recover says %v, then %v", first, ok)
				}
				if ok {
					applied++
				} else {
					undone++
				}
				if len(others) == 0 && (ok != routed(h.read(claudeFile)) || ok != routed(h.read(geminiFile)) || len(problems) > 0) {
					t.Errorf("Recover says %v, %v; the files are %q and %q", ok, problems, h.read(claudeFile), h.read(geminiFile))
				}
				h.settled(others...)
				if t.Failed() {
					t.Fatalf("%q writes, killed at step %d of %d, again %d steps into the recovery: %v", who, i+again%3, steps, again, h.disk.Steps)
				}
			}
		}
	}
	if applied == 0 || undone == 0 {
		t.Errorf("%d applied, %d undone: the kills missed one side", applied, undone)
	}
}

// TestUndoKilled fails in the second file and ends the process while the first one is put back.
func TestUndoKilled(t *testing.T) {
	steps := count(t)
	for kill := range 30 {
		h, changes := two(t)
		failed := false
		h.disk.Before = func(s faultdisk.Step) error {
			if s.Op == "exchange" && strings.Contains(s.To, "gemini") && !failed {
				failed = true
				steps = s.N
				return syscall.EIO
			}
			if failed && s.N == steps+1+kill {
				panic(faultdisk.Killed{})
			}
			return nil
		}
		faultdisk.Kill(func() { _, _ = h.apply(changes...) })
		h.disk.Before = nil
		h.restart()
		_, ok, problems, err := h.files.Recover(t.Context(), h.look, testReceipt, changes)
		if err != nil || ok || len(problems) > 0 {
			t.Errorf("killed %d steps into the undo: %v, %v, %v", kill, ok, problems, err)
		}
		h.settled()
		if t.Failed() {
			t.Fatal(h.disk.Steps)
		}
	}
}

// TestIntentsLost: an apply without its intents has touched nothing, or its recovery says that it cannot know.
func TestIntentsLost(t *testing.T) {
	for name, touched := range map[string]bool{"stage": false, "exchange": true} {
		t.Run(name, func(t *testing.T) {
			h, changes := two(t)
			h.disk.After = func(s faultdisk.Step) error {
				if s.Op == name && (touched || strings.HasSuffix(s.Path, intentName)) {
					panic(faultdisk.Killed{})
				}
				return nil
			}
			if !faultdisk.Kill(func() { _, _ = h.apply(changes...) }) {
				t.Fatal("it was not killed")
			}
			h.disk.After = nil
			intents, err := filepath.Glob(filepath.Join(h.dir, "state", "backups", testReceipt, "*"+intentName))
			if err != nil || len(intents) == 0 {
				t.Fatal(intents, err)
			}
			for _, path := range intents {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			h.restart()
			_, applied, _, err := h.files.Recover(t.Context(), h.look, testReceipt, changes)
			if want := map[bool]string{true: "backup-damaged"}[touched]; applied || codeOf(err) != want {
				t.Errorf("applied %v, %v", applied, err)
			}
		})
	}
}

const (
	// edits is how often the client of TestConcurrentEdits writes its file, at least.
	edits = 100
	// attempts is how often a plan for it is applied meanwhile, at least, unless the machine is slow.
	attempts = 20
	// pause is between two edits of the client: without it hardly a plan ever finds the file at rest.
	pause = time.Millisecond
)

var marks = regexp.MustCompile(`m[0-9]+\.`)

// TestConcurrentEdits has a client write its file hundreds of times while plans for it are applied. It reads the file,
// adds a mark and writes it back, by a rename, in place, or bit by bit in a file that stays open; or it writes what it has
// in its memory. No mark may be lost: each is in the file, or in one that the receipt tells of. That is promised also when
// the client read bytes of an apply that was given back right after, and so never saw its own last edit, as long as it writes
// within guardFor.
func TestConcurrentEdits(t *testing.T) {
	inPlace := func(h *house, content string) error {
		return os.WriteFile(h.path(claudeFile), []byte(content), 0o600)
	}
	renamed := func(h *house, content string) error {
		temp := h.path("client.tmp")
		if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
			return err
		}
		return os.Rename(temp, h.path(claudeFile))
	}
	bitByBit := func(h *house, content string) error {
		f, err := os.OpenFile(h.path(claudeFile), os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			return err
		}
		for _, part := range strings.SplitAfter(content, " ") {
			if _, err := f.WriteString(part); err != nil {
				return err
			}
		}
		return f.Close()
	}
	for _, test := range []struct {
		name  string
		write func(*house, string) error
		reads bool
	}{
		{"from memory, rename", renamed, false},
		{"from memory, in place", inPlace, false},
		{"from memory, bit by bit", bitByBit, false},
		{"rename", renamed, true},
		{"in place", inPlace, true},
		{"bit by bit", bitByBit, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := houseIn(t, faultdisk.Dir(t))
			h.files.cfg.Disk = nil // a script is for one goroutine
			const form = `{"marks": "%s", "mcpServers": {"gw": {"command": "direct"}}, "tail": 1}`
			before := fmt.Sprintf(form, "m0.")
			h.write(claudeFile, before)
			var client sync.WaitGroup
			over, last := make(chan struct{}), 0
			var tried atomic.Int64
			client.Go(func() {
				defer close(over)
				memory := before
				for n := 1; n <= edits || tried.Load() < attempts && n < 20*edits; n++ {
					time.Sleep(pause)
					last = n
					if test.reads {
						raw, err := os.ReadFile(h.path(claudeFile))
						if err != nil {
							t.Error(err)
							return
						}
						memory = string(raw)
					}
					has := marks.FindAllString(memory, -1)
					if !test.reads {
						has = nil
					}
					memory = fmt.Sprintf(form, strings.Join(append(has, fmt.Sprintf("m%d.", n)), " "))
					if err := test.write(h, memory); err != nil {
						t.Error(err)
						return
					}
				}
			})
			told := map[string]bool{}
			tries, done := 0, 0
			for running := true; running; {
				select {
				case <-over:
					running = false // once more, when nobody writes
				default:
				}
				c, err := h.files.Read(h.look).Draft(t.Context(), converge.Drafting{Agent: string(Claude), Path: h.path(claudeFile), Steps: []converge.Step{route}})
				if err != nil {
					continue // it was read while it was half written, or has our change
				}
				tries++
				tried.Add(1)
				written, err := h.files.Apply(t.Context(), h.look, fmt.Sprintf("rcp_%d", tries), []converge.Change{c}, nil)
				if err == nil {
					done++
				}
				for _, w := range written {
					for _, n := range w.Notes {
						if n.Code == "third-party-kept" {
							told[n.Text[strings.LastIndex(n.Text, " ")+1:]] = true
						}
					}
				}
			}
			client.Wait()
			t.Logf("%d edits, %d applies, %d of them done, %d files kept", last, tries, done, len(told))
			if tries == 0 {
				t.Error("no plan was applied")
			}
			all := h.read(claudeFile)
			for _, name := range h.names() {
				if name != claudeFile && !told[h.path(name)] {
					t.Errorf("left over and not told: %s", name)
				}
				all += h.read(name)
			}
			for n := range last + 1 {
				if (test.reads || n == last) && !strings.Contains(all, fmt.Sprintf("m%d.", n)) {
					t.Errorf("edit %d is lost", n)
				}
			}
		})
	}
}

func TestClientLock(t *testing.T) {
	lockOf := func(h *house) string { return h.path(claudeFile + ".lock") }
	t.Run("held", func(t *testing.T) {
		h, changes := two(t)
		if err := os.Mkdir(lockOf(h), 0o755); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		_, err := h.files.Apply(ctx, h.look, testReceipt, changes, nil)
		if e := fault.From(err); e == nil || e.Code != "config-locked" || e.Kind != fault.Busy {
			t.Errorf("%v", err)
		}
		if h.read(claudeFile) != claudeOld || h.read(geminiFile) != geminiOld {
			t.Error("something was written")
		}
		if _, err := os.Lstat(lockOf(h)); err != nil {
			t.Error("the lock of the client is gone")
		}
	})
	t.Run("given back meanwhile", func(t *testing.T) {
		h, changes := two(t)
		if err := os.Mkdir(lockOf(h), 0o755); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(50*time.Millisecond, func() { _ = os.Remove(lockOf(h)) })
		if _, err := h.apply(changes...); err != nil {
			t.Error(err)
		}
		h.settled()
	})
	t.Run("stale", func(t *testing.T) {
		h, changes := two(t)
		if err := os.Mkdir(lockOf(h), 0o755); err != nil {
			t.Fatal(err)
		}
		long := time.Now().Add(-2 * staleAfter)
		if err := os.Chtimes(lockOf(h), long, long); err != nil {
			t.Fatal(err)
		}
		written, err := h.apply(changes...)
		if err != nil || !slices.ContainsFunc(written[0].Notes, func(n converge.Note) bool { return n.Code == "client-lock-stale" }) {
			t.Errorf("%+v, %v", written, err)
		}
		if err := os.Remove(lockOf(h)); err != nil {
			t.Error("the lock was removed")
		}
	})
	t.Run("refreshed, and known again", func(t *testing.T) {
		h, changes := two(t)
		held, err := lockClient(t.Context(), lockOf(h), testReceipt)
		if err != nil {
			t.Fatal(err)
		}
		first, err := os.Stat(lockOf(h))
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			now, err := os.Stat(lockOf(h))
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("it is not refreshed: %v", err)
			}
			if now.ModTime().After(first.ModTime()) {
				break
			}
		}
		close(held.stop) // as when the process was killed
		held.over.Wait()
		h.files.dropOwnLocks(h.look, "rcp_another", changes)
		if _, err := os.Stat(lockOf(h)); err != nil {
			t.Error("the lock of another receipt was removed")
		}
		if _, _, _, err := h.files.Recover(t.Context(), h.look, testReceipt, changes); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(lockOf(h)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the lock of the killed receipt is there: %v", err)
		}
	})
}

// TestMoved: a value is kept before the file loses it, and not at all when nothing is written.
func TestMoved(t *testing.T) {
	move := converge.Step{
		Op: converge.StepRef, At: []string{"mcpServers", "gw"}, Name: "gw",
		Moves: []converge.Move{{Field: []string{"env", "TOKEN"}, Credential: "gw-token", Put: "$TOKEN"}},
	}
	const old = `{"mcpServers": {"gw": {"command": "direct", "env": {"TOKEN": "planted-value-7"}}}}`
	for _, stale := range []bool{true, false} {
		h := newHouse(t)
		h.write(geminiFile, old)
		change := h.draft(Gemini, geminiFile, move)
		if stale {
			h.write(geminiFile, old+"\n")
		}
		h.disk.Before = func(s faultdisk.Step) error {
			if s.Op == "exchange" && h.kept["gw-token"] == "" {
				t.Error("the file loses the value before it is kept")
			}
			return nil
		}
		written, err := h.apply(change)
		if stale {
			if fault.KindOf(err) != fault.Stale || len(h.kept) > 0 {
				t.Errorf("%v, kept %d values", err, len(h.kept))
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]string{"gw-token": "planted-value-7"}, h.kept); diff != "" {
			t.Error(diff)
		}
		if now := h.read(geminiFile); strings.Contains(now, "planted") || !strings.Contains(now, "$TOKEN") {
			t.Errorf("the file is %q", now)
		}
		raw, err := json.Marshal(written)
		intent, readErr := os.ReadFile(filepath.Join(h.dir, "state", "backups", testReceipt, "0"+intentName))
		if err != nil || readErr != nil || strings.Contains(string(raw)+string(intent), "planted") {
			t.Errorf("the value is in what was written: %s %s, %v, %v", raw, intent, err, readErr)
		}
	}
}

func TestNewFiles(t *testing.T) {
	h := newHouse(t)
	unit := ".config/systemd/user/mcpx.service"
	content := "[Service]\nType=notify\n"
	written, err := h.apply(h.draft("", unit, converge.Step{Op: converge.StepFile, Content: content}))
	if err != nil {
		t.Fatal(err)
	}
	if h.read(unit) != content || !written[0].Before.Absent || written[0].Backup != "" || written[0].Verified != "read" {
		t.Errorf("%q, %+v", h.read(unit), written[0])
	}
	j := &job{change: converge.Change{Steps: []converge.Step{route}}, before: atomicfile.Content{Absent: true}}
	j.swap.Target = h.path(geminiFile)
	if err := h.files.makeDirectory(j); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of an agent that is not here: %v", err)
	}
}
