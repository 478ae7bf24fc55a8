//go:build unix

package wire

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mcpx/internal/test/rig"
)

// as lets the client in with more words of the person than a yes, and returns its access token.
func (c *chat) as(words ...string) string {
	c.t.Helper()
	p := c.ask()
	answer, text := c.submit(p, c.approve(p, words...), nil)
	to, err := url.Parse(answer.Header.Get("Location"))
	if err != nil || answer.StatusCode != http.StatusSeeOther {
		c.t.Fatalf("%d %s", answer.StatusCode, text)
	}
	status, tokens := c.redeem(to.Query().Get("code"))
	if status != http.StatusOK {
		c.t.Fatalf("%d %+v", status, tokens)
	}
	return tokens.Access
}

// TestRemoteOffReadOnly: over a store that is only read nobody's access could be ended, so nobody is let in; that it is off
// cannot be written down, and `mcpx remote off` says so. What was given counts again with the store, until it is ended.
func TestRemoteOffReadOnly(t *testing.T) {
	if raw, err := os.ReadFile("/etc/machine-id"); err != nil || strings.TrimSpace(string(raw)) == "" {
		t.Skip("skip: another host: this machine has no name of its own in /etc/machine-id")
	}
	g := rig.Start(t)
	c := remote(t, g)
	access := c.as()
	list := func() int {
		status, _ := c.call(access, "session", `{"action":"list"}`)
		return status
	}
	listens := func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.base, "http://"))
		return err == nil && conn.Close() == nil
	}
	if status := list(); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	g.Must("daemon", "stop", "--children")
	g.Wait()
	if err := os.WriteFile(filepath.Join(g.Home, "state", "host"), []byte(strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Serve()
	if listens() {
		t.Error("the listener is open over a store that is only read")
	}
	if r := g.Run("remote", "off"); r.Code == 0 || !strings.Contains(r.Stderr, "closed until the daemon starts again") || !strings.Contains(r.Stderr, "repeat `mcpx remote off`") {
		t.Errorf("remote off, %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	g.Run("doctor", "--rehome") // what else it finds on this machine is another matter
	g.Kill()
	g.Serve()
	rig.Until(t, slack, "the public address is served again", listens)
	if status := list(); status != http.StatusOK {
		t.Errorf("with the store the access gives %d", status)
	}
	g.Must("remote", "off")
	g.Kill()
	g.Serve()
	if listens() {
		t.Error("the listener is open after it was turned off")
	}
}

// TestRT20RemoteSession: RT-20 over OAuth, with RT-21 and RT-22. An agent at the terminal opens a session and a plan, and starts
// a job; the same person goes on with clients of other machines, one of which forgot who it was. One that may only read
// changes nothing. Somebody else does not find the session, until a hand-over, which works once and gives its role.
func TestRT20RemoteSession(t *testing.T) {
	g := rig.New(t)
	commanding(t, g)
	g.Serve()
	dir, session, b := inShop(t, g)
	worked(t, b.call("4", tool("4", "plan", fmt.Sprintf(
		`{"action":"create","remote_session_id":%q,"operation_id":"plan-shop-1","summary":"greet","tasks":[{"key":"write","title":"write the greeting"}]}`, session))), &struct{}{})
	job := startHeld(t, b, dir, session, "test-shop-1")

	c := remote(t, g)
	first := c.as()
	c.id = c.register() // it lost its id
	second, reads := c.as(), c.as("--read-only")
	says := func(access, name, args string, want ...string) string {
		t.Helper()
		status, text := c.call(access, name, args)
		for _, one := range want {
			if status != http.StatusOK || !strings.Contains(text, one) {
				t.Errorf("%s %s: %d, without %s\n%s", name, args, status, one, text)
			}
		}
		return text
	}
	attach := fmt.Sprintf(`{"action":"attach","remote_session_id":%q}`, session)
	status := fmt.Sprintf(`{"job_id":%q}`, job)
	move := func(id, to string) string {
		return fmt.Sprintf(`{"action":"update","remote_session_id":%q,"operation_id":%q,"task":"write","state":%q}`, session, id, to)
	}
	for _, access := range []string{first, second, reads} {
		says(access, "session", `{"action":"list"}`, session)
		says(access, "session", attach, `"role":"owner"`, `"done":0,"total":1`)
		says(access, "command_status", status, `"state":"running"`, `"text":"begun\n"`)
	}
	for name, args := range map[string]string{
		"plan":       move("move-reader-1", "in_progress"),
		"edit_files": fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"edit-reader-1","edits":[{"path":"a","op":"create","content":"x"}]}`, session),
		"session":    fmt.Sprintf(`{"action":"handoff","remote_session_id":%q,"operation_id":"hand-reader-1"}`, session),
	} {
		says(reads, name, args, "ROLE_DENIED")
	}
	says(first, "plan", move("move-first-1", "in_progress"), `"state":"in_progress"`)
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rig.Until(t, slack, "the job has ended", func() bool {
		return strings.Contains(says(second, "command_status", fmt.Sprintf(`{"job_id":%q,"wait_ms":1000}`, job)), `"exit_code":7`)
	})
	says(second, "edit_files", fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"edit-second-1","edits":[{"path":"greeting","op":"create","content":"hello"}]}`, session), `"status":"succeeded"`)
	says(second, "plan", fmt.Sprintf(
		`{"action":"update","remote_session_id":%q,"operation_id":"move-second-1","task":"write","state":"completed","evidence":[{"kind":"edit","ref":"edit-second-1"}]}`, session), `"state":"completed"`)

	ann, bob := c.as("--as", "ann"), c.as("--as", "bob")
	random := "rs_" + strings.Repeat("0", len(session)-3)
	for _, stranger := range []string{ann, bob} {
		if list := says(stranger, "session", `{"action":"list"}`); strings.Contains(list, session) || strings.Contains(list, "shop") {
			t.Errorf("somebody else sees %s", list)
		}
		foreign, none := says(stranger, "session", attach, "SESSION_NOT_FOUND"), says(stranger, "session", strings.ReplaceAll(attach, session, random), "SESSION_NOT_FOUND")
		if strings.ReplaceAll(foreign, session, "") != strings.ReplaceAll(none, random, "") {
			t.Errorf("a session of somebody else answers\n%s\none that is not there\n%s", foreign, none)
		}
		says(stranger, "command_status", status, `"ok":false`)
		says(stranger, "session", `{"action":"open","project":"shop","operation_id":"open-other-1"}`, "PROJECT_UNKNOWN")
	}
	handed := says(first, "session", fmt.Sprintf(`{"action":"handoff","remote_session_id":%q,"role":"viewer","operation_id":"hand-first-1"}`, session))
	token := regexp.MustCompile(`mcpx_ho_\w+`).FindString(handed)
	redeem := func(id string) string {
		return fmt.Sprintf(`{"action":"attach","handoff_token":%q,"operation_id":%q}`, token, id)
	}
	says(ann, "session", redeem("join-ann-1"), session, `"role":"viewer"`)
	says(bob, "session", redeem("join-bob-1"), "HANDOFF_INVALID")
	says(ann, "session", attach, `"role":"viewer"`)
	says(ann, "command_status", status, `"exit_code":7`)
	says(ann, "plan", move("move-ann-1", "in_progress"), "ROLE_DENIED")

	g.Person("project", "grant", "shop", "--to", "bob", "--role", "editor")
	says(bob, "session", `{"action":"open","project":"shop","operation_id":"open-bob-1"}`, `"role":"editor"`)
	says(bob, "session", attach, "SESSION_NOT_FOUND") // the project is open to bob, the session of another is not
	events := g.Must("audit", "list", "--json")
	for _, refused := range []string{"SESSION_NOT_FOUND", "ROLE_DENIED", "HANDOFF_INVALID", "PROJECT_UNKNOWN"} {
		if !strings.Contains(events, refused) {
			t.Errorf("%s is not recorded", refused)
		}
	}
	if list := g.Must("remote", "list"); !strings.Contains(list, "ann") || !strings.Contains(list, "bob") {
		t.Errorf("who acts as whom is not shown:\n%s", list)
	}
}
