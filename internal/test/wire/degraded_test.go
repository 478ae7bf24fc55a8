//go:build unix

package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/test/rig"
)

// coded is the code of the refusal of a call; "" it succeeded.
func coded(t *testing.T, answer []byte) string {
	t.Helper()
	var m struct {
		Result struct {
			Structured struct {
				OK    bool `json:"ok"`
				Error struct {
					Code  string `json:"code"`
					Retry string `json:"retry"`
				} `json:"error"`
			} `json:"structuredContent"`
		} `json:"result"`
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	if e := m.Result.Structured.Error; !m.Result.Structured.OK && (e.Code == "" || e.Retry == "") {
		t.Errorf("a refusal without code or retry: %s", answer)
	}
	return m.Result.Structured.Error.Code
}

// edit makes a file of the project, and says how that ended.
func edit(t *testing.T, b bridged, session, id, path string) string {
	t.Helper()
	return coded(t, b.call("9", tool("9", "edit_files", fmt.Sprintf(`{"remote_session_id":%q,"operation_id":%q,"edits":[{"path":%q,"op":"create","content":"x\n"}]}`, session, id, path))))
}

// onlyRead fails unless agents can look and change nothing.
func onlyRead(t *testing.T, b bridged, dir, session, id string) {
	t.Helper()
	for name, args := range map[string]string{
		"session": fmt.Sprintf(`{"action":"attach","remote_session_id":%q}`, session), "read_file": fmt.Sprintf(`{"remote_session_id":%q,"path":"job.sh"}`, session),
		"list_files": fmt.Sprintf(`{"remote_session_id":%q}`, session), "operation_status": `{"operation_id":"open-shop-1"}`,
	} {
		if code := coded(t, b.call("8", tool("8", name, args))); code != "" {
			t.Errorf("%s: %s", name, code)
		}
	}
	if code := edit(t, b, session, id, id+".txt"); code != "STORE_DEGRADED" {
		t.Errorf("a change: %q", code)
	}
	if _, err := os.Stat(filepath.Join(dir, id+".txt")); err == nil {
		t.Error("the change was made")
	}
}

// TestDW21DamagedPage: DW-21, I22. A daemon whose database has a damaged page serves what can be read, changes nothing, makes
// no new database, and doctor tells the damage and where the copies are.
func TestDW21DamagedPage(t *testing.T) {
	g := rig.Start(t)
	dir, session, b := inShop(t, g)
	for n := range 4 { // large answers, which are kept in the middle of the file
		text := strings.Repeat(fmt.Sprintf("line %d\n", n), 40_000)
		b.call("7", tool("7", "edit_files", fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"edit-large-%d","diff":"full","edits":[{"path":"large-%d","op":"create","content":%q}]}`, session, n, n, text)))
	}
	g.Must("daemon", "stop", "--children")
	g.Wait()
	path := filepath.Join(g.Home, "state", "mcpx.db")
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) < 1<<20 {
		t.Fatalf("the database has %d bytes, %v", len(raw), err)
	}
	const page = 4096
	at := len(raw) / page / 2 * page
	copy(raw[at:at+page], bytes.Repeat([]byte{0xff}, page))
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	onlyRead(t, b, dir, session, "edit-small-1")
	if r := g.Run("daemon", "status"); r.Code != 0 || !strings.Contains(r.Stdout, "read-only") || !strings.Contains(r.Stdout, "is damaged") {
		t.Errorf("its status, %d: %s", r.Code, r.Stdout)
	}
	r := g.Run("doctor")
	if r.Code == 0 || !strings.Contains(r.Stdout, "is damaged") || !strings.Contains(r.Stdout, "newest copy of the backups") {
		t.Errorf("doctor, %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	now, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(now, raw) {
		t.Errorf("the damaged file was written to, %v", err)
	}
	all, err := filepath.Glob(filepath.Join(g.Home, "state", "*.db*"))
	if extra := slices.DeleteFunc(all, func(name string) bool { return strings.HasPrefix(name, path) }); err != nil || len(extra) > 0 {
		t.Errorf("beside it there is %v, %v", extra, err)
	}
}

// TestDW74OtherHost: DW-74. A state directory that was copied from another machine is read and not changed, until a person
// says that it belongs here. That an edit which was begun there waits for that is TestDW74BegunElsewhere in crashtest; that a job
// of another boot is lost, and signalled by nobody, is TestJobLosesItsSupervisor in shim.
func TestDW74OtherHost(t *testing.T) {
	if raw, err := os.ReadFile("/etc/machine-id"); err != nil || len(bytes.TrimSpace(raw)) == 0 {
		t.Skip("skip: another host: this machine has no name of its own in /etc/machine-id")
	}
	g := rig.Start(t)
	dir, session, b := inShop(t, g)
	g.Must("daemon", "stop", "--children")
	g.Wait()
	host := filepath.Join(g.Home, "state", "host")
	if raw, err := os.ReadFile(host); err != nil || len(bytes.TrimSpace(raw)) == 0 {
		t.Fatalf("the host is not written down: %q, %v", raw, err)
	}
	if err := os.WriteFile(host, []byte(strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	onlyRead(t, b, dir, session, "edit-copy-1")
	if r := g.Run("doctor"); r.Code == 0 || !strings.Contains(r.Stdout, "doctor --rehome") {
		t.Errorf("doctor, %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	g.Run("doctor", "--rehome") // what else it finds on this machine is another matter
	g.Kill()
	g.Serve()
	if code := edit(t, b, session, "edit-copy-1", "edit-copy-1.txt"); code != "" {
		t.Errorf("after the rehome: %s", code)
	}
}
