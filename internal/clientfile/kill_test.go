//go:build crash && unix

package clientfile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
	"mcpx/internal/test/faultdisk"
)

// Variables that make this test binary a process that applies or recovers in a directory.
const (
	envKillDir  = "MCPX_KILL_TEST_DIR"
	envKillWhat = "MCPX_KILL_TEST_WHAT"
)

// plot is what such a process has to do. It ends with exitDone or exitFailed when nobody kills it.
type plot struct {
	Changes []converge.Change
}

const exitDone, exitFailed = 5, 6

// TestAsProcess is the other process of TestRealKills.
func TestAsProcess(t *testing.T) {
	dir := os.Getenv(envKillDir)
	if dir == "" {
		t.Skip("skip: it is for TestRealKills")
	}
	if err := act(dir, os.Getenv(envKillWhat)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	os.Exit(exitDone)
}

func act(dir, what string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "plot"))
	if err != nil {
		return err
	}
	var p plot
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	h := &house{dir: dir, home: filepath.Join(dir, "home")}
	files, err := NewFiles(FilesConfig{
		Backups: filepath.Join(dir, "state", "backups"), Key: []byte(strings.Repeat("k", minKey)), Getenv: func(string) string { return "" },
		Hub: houseHub, Now: houseNow, Keep: func(context.Context, string, string) error { return nil }, Disk: failing{},
	})
	if err != nil {
		return err
	}
	look := converge.Look{Home: h.home, Names: map[string]bool{"gw": false}}
	if what == "recover" {
		_, _, _, err = files.Recover(context.Background(), look, testReceipt, p.Changes)
		return err
	}
	_, err = files.Apply(context.Background(), look, testReceipt, p.Changes, nil)
	return err
}

// failing cannot exchange a file with a mark beside it, so that an apply has something to undo.
type failing struct{ atomicfile.OS }

func (d failing) Exchange(a, b string) error {
	if _, err := os.Lstat(b + ".fails"); err == nil && !bytes.Contains([]byte(a), []byte("-kept")) {
		return syscall.EIO
	}
	return d.OS.Exchange(a, b)
}

// process runs an act with a script of package crash. True: it was killed.
func process(t *testing.T, dir, what string, script ...string) bool {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestAsProcess$")
	cmd.Env = append(script, envKillDir+"="+dir, envKillWhat+"="+what)
	out, err := cmd.CombinedOutput()
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return true
	case cmd.ProcessState.ExitCode() != exitDone && cmd.ProcessState.ExitCode() != exitFailed:
		t.Fatalf("%s ended with %v: %s", what, err, out)
	}
	return false
}

// points are those that an act passes, each with the number of its passes.
func points(t *testing.T, record string) map[string]int {
	t.Helper()
	raw, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n") {
		fields := strings.Fields(line)
		all[fields[len(fields)-1]]++
	}
	return all
}

// copyTree copies a directory with its times: a lock of ours is known by them.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v %s", err, out)
	}
}

// TestRealKills ends real processes at every crash point of an apply, of its undo and of the recovery.
func TestRealKills(t *testing.T) {
	prepare := func(t *testing.T, undo bool) (*house, []converge.Change) {
		t.Helper()
		h := houseIn(t, faultdisk.Dir(t))
		h.write(claudeFile, claudeOld)
		h.write(geminiFile, geminiOld)
		changes := []converge.Change{h.draft(Claude, claudeFile, route), h.draft(Gemini, geminiFile, route)}
		raw, err := json.Marshal(plot{changes})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(h.dir, "plot"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if undo {
			h.write(geminiFile+".fails", "")
		}
		return h, changes
	}
	var seen []string
	for _, undo := range []bool{false, true} {
		h, _ := prepare(t, undo)
		record := filepath.Join(h.dir, "record")
		process(t, h.dir, "apply", "MCPX_CRASH_RECORD="+record)
		forward := points(t, record)
		for name, passes := range forward {
			seen = append(seen, name)
			for pass := 1; pass <= passes; pass++ {
				h, changes := prepare(t, undo)
				at := fmt.Sprintf("MCPX_CRASH_AT=cli/%s#%d", name, pass)
				if !process(t, h.dir, "apply", at) {
					t.Errorf("undo %v: nobody was killed at %s", undo, at)
				}
				if undo {
					if err := os.Remove(h.path(geminiFile + ".fails")); err != nil {
						t.Fatal(err)
					}
				}
				saved := filepath.Join(faultdisk.Dir(t), "saved")
				copyTree(t, h.dir, saved)
				again := filepath.Join(h.dir, "again")
				process(t, h.dir, "recover", "MCPX_CRASH_RECORD="+again)
				h.settled()
				if _, err := os.Stat(again); err != nil {
					continue // there was nothing to do
				}
				for name, passes := range points(t, again) {
					seen = append(seen, name)
					for _, pass := range slices.Compact([]int{1, passes}) {
						if err := os.RemoveAll(h.dir); err != nil {
							t.Fatal(err)
						}
						copyTree(t, saved, h.dir)
						if !process(t, h.dir, "recover", fmt.Sprintf("MCPX_CRASH_AT=cli/%s#%d", name, pass)) {
							t.Errorf("nobody was killed at %s", name)
						}
						_, first, problems, err := h.files.Recover(t.Context(), h.look, testReceipt, changes)
						if err != nil || len(problems) > 0 || first != routed(h.read(claudeFile)) {
							t.Errorf("Recover: %v, %v, %v", first, problems, err)
						}
						h.settled()
						if t.Failed() {
							t.Fatalf("undo %v, killed at %s, recovery killed at %s#%d", undo, at, name, pass)
						}
					}
				}
			}
		}
	}
	slices.Sort(seen)
	t.Logf("killed at %v", slices.Compact(seen))
}
