//go:build unix

package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/test/rig"
)

// commanding lets the agents of a daemon that does not run yet run shells.
func commanding(t *testing.T, g *rig.Gateway) {
	t.Helper()
	g.Extra = append(g.Extra, "MCPX_RUNTIME_COMMANDS=true", "MCPX_SANDBOX_MECHANISM=none")
	config := filepath.Join(g.Home, "config")
	if err := os.MkdirAll(config, 0o700); err != nil {
		t.Fatal(err)
	}
	rules := "[commands]\nlift = [\"interp\"]\n[[commands.rule]]\nid = \"shells\"\ndecision = \"allow\"\nprogram = \"sh\"\n"
	if err := os.WriteFile(filepath.Join(config, "policy.toml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
}

// inShop opens a session on a project with job.sh, which counts its starts and waits for the file go.
func inShop(t *testing.T, g *rig.Gateway) (dir, session string, b bridged) {
	t.Helper()
	dir = shopOf(t, g)
	script := "echo x >> starts\necho begun\nuntil [ -e go ]; do /bin/sleep 0.05; done\nexit 7\n"
	if err := os.WriteFile(filepath.Join(dir, "job.sh"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	b = bridged{g.Connect(""), t}
	b.Initialize(`{}`)
	var opened openedShop
	worked(t, b.call("1", tool("1", "session", `{"action":"open","project":"shop","operation_id":"open-shop-1"}`)), &opened)
	return dir, opened.Session.ID, b
}

type toldJob struct {
	Job         string `json:"job_id"`
	State       string `json:"state"`
	Code        *int   `json:"exit_code"`
	Version     string `json:"supervisor_version"`
	Descendants bool   `json:"descendants_alive"`
	Stdout      struct {
		Text string `json:"text"`
	} `json:"stdout"`
}

// startHeld starts job.sh, and waits until it runs.
func startHeld(t *testing.T, b bridged, dir, session, id string) string {
	t.Helper()
	var started toldJob
	worked(t, b.call("2", tool("2", "start_command", fmt.Sprintf(`{"remote_session_id":%q,"operation_id":%q,"argv":["/bin/sh","job.sh"]}`, session, id))), &started)
	rig.Until(t, slack, "the command runs", func() bool {
		raw, err := os.ReadFile(filepath.Join(dir, "starts"))
		return err == nil && string(raw) == "x\n"
	})
	return started.Job
}

// told asks what became of a job.
func told(t *testing.T, b bridged, job string) (j toldJob) {
	t.Helper()
	answer := b.call("3", tool("3", "command_status", fmt.Sprintf(`{"job_id":%q,"wait_ms":1000}`, job)))
	var m struct {
		Result struct {
			Structured struct {
				Data json.RawMessage `json:"data"`
			} `json:"structuredContent"`
		} `json:"result"`
	}
	err := json.Unmarshal(answer, &m)
	if err == nil {
		err = json.Unmarshal(m.Result.Structured.Data, &j)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, answer)
	}
	return j
}

// endOf waits for the end of a job.
func endOf(t *testing.T, b bridged, job string) (j toldJob) {
	t.Helper()
	rig.Until(t, slack, "the job has ended", func() bool {
		j = told(t, b, job)
		return j.State != "running" && j.State != "starting"
	})
	return j
}

// TestDW19CanceledOnStdio: DW-19, in both eras. A client of `mcpx connect` that cancels its call of a command ends the wait for it and not
// the command: that is found by the operation, ends as it does, and was started once.
func TestDW19CanceledOnStdio(t *testing.T) {
	g := rig.New(t)
	commanding(t, g)
	g.Serve()
	dir, session, legacy := inShop(t, g)
	for era, c := range map[string]struct {
		b    bridged
		meta string
	}{
		"legacy": {legacy, ""},
		"modern": {bridged{g.Connect(""), t}, `"_meta":{` + rig.Envelope(`{}`) + `},`},
	} {
		t.Run(era, func(t *testing.T) {
			for _, name := range []string{"starts", "go"} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			id, operation := `"cancel-`+era+`"`, "canceled-"+era
			send := func(line string) {
				t.Helper()
				if err := c.b.Send(line); err != nil {
					t.Fatal(err)
				}
			}
			c.b.Waits(id) // an answer may be on its way
			send(strings.Replace(tool(id, "execute_command", fmt.Sprintf(`{"remote_session_id":%q,"operation_id":%q,"argv":["/bin/sh","job.sh",%q],"wait_ms":20000}`, session, operation, era)), `"params":{`, `"params":{`+c.meta, 1))
			begun := func() bool {
				raw, err := os.ReadFile(filepath.Join(dir, "starts"))
				return err == nil && string(raw) == "x\n"
			}
			rig.Until(t, persistWithin, "the command runs", begun)
			send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{` + c.meta + `"requestId":` + id + `}}`)
			http := &agent{t: t, g: g}
			status := func() (j toldJob) {
				t.Helper()
				var a answered
				rig.Until(t, persistWithin, "its start is written down", func() bool {
					a = http.call("command_status", fmt.Sprintf(`{"operation_id":%q,"wait_ms":100}`, operation))
					return a.Error.Code != "OPERATION_IN_PROGRESS"
				})
				if err := json.Unmarshal(a.Data, &j); err != nil {
					t.Fatalf("%v: %s", err, a.raw)
				}
				return j
			}
			if j := status(); j.State != "running" {
				t.Errorf("after it was canceled: %+v", j)
			}
			plant(t, filepath.Join(dir, "go"), "")
			var last toldJob
			rig.Until(t, persistWithin, "the command has ended", func() bool {
				last = status()
				return last.State != "running"
			})
			if last.State != "exited" || last.Code == nil || *last.Code != 7 || last.Stdout.Text != "begun\n" || !begun() {
				t.Errorf("it ended as %+v", last)
			}
		})
	}
}

// TestDW13Oversized: DW-13 with the real binary. Millions of bytes of output, fifty in full, are answered within what an answer may have,
// text and structured content together, and are read whole, byte for byte, from this daemon and from the next one.
func TestDW13Oversized(t *testing.T) {
	size := 1_000_000
	if full() {
		size = 50_000_000
	}
	g := rig.New(t)
	commanding(t, g)
	g.Serve()
	dir, session, _ := inShop(t, g)
	plant(t, filepath.Join(dir, "much.sh"), `awk 'BEGIN { x = 1; while (n < '$1') { x = (x * 16807) % 2147483647; l = sprintf("%010d", x); printf "%s", l; n += 10 } }'`+"\n")
	want := sha256.New() // of the same generator
	for n, x := 0, 1; n < size; n += 10 {
		x = x * 16807 % 2147483647
		_, _ = fmt.Fprintf(want, "%010d", x) // it takes everything
	}
	a := &agent{t: t, g: g, session: session}
	raw := a.post("execute_command", fmt.Sprintf(`{"remote_session_id":%q,"operation_id":"much-0001","argv":["/bin/sh","much.sh","%d"],"wait_ms":25000,"output_bytes":20000}`, session, size))
	if len(raw) > 24576 {
		t.Errorf("the answer has %d bytes", len(raw))
	}
	type part struct {
		Job    string `json:"job_id"`
		State  string `json:"state"`
		Stdout struct {
			Text    string `json:"text"`
			Next    int    `json:"next_offset"`
			Bytes   int    `json:"bytes"`
			Dropped int    `json:"dropped"`
		} `json:"stdout"`
	}
	read := func(more string) (p part) {
		t.Helper()
		answer := a.call("command_status", `{"operation_id":"much-0001"`+more+`}`)
		if err := json.Unmarshal(answer.Data, &p); err != nil {
			t.Fatalf("%s: %v", answer.raw, err)
		}
		return p
	}
	rig.Until(t, persistWithin, "the command has ended", func() bool { return read(`,"wait_ms":2000`).State == "exited" })
	if p := read(""); p.Stdout.Bytes != size || p.Stdout.Dropped != 0 || p.Stdout.Text == "" {
		t.Errorf("%d of %d bytes, %d dropped", p.Stdout.Bytes, size, p.Stdout.Dropped)
	}
	for _, when := range []string{"this daemon", "the next one"} {
		got := sha256.New()
		for at := 0; ; {
			p := read(fmt.Sprintf(`,"output":{"stream":"stdout","offset":%d,"max":20000}`, at))
			_, _ = got.Write([]byte(p.Stdout.Text)) // it takes everything
			if p.Stdout.Next == at {
				break
			}
			at = p.Stdout.Next
		}
		if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
			t.Errorf("read from %s it is other than what was written", when)
		}
		g.Kill()
		g.Serve()
	}
}

// TestDW72BinaryReplaced: DW-72. A command goes on while the binary that supervises it is removed and another version takes
// the place of the daemon, which reads what the earlier one wrote, and says which version is whose.
func TestDW72BinaryReplaced(t *testing.T) {
	g := rig.New(t)
	dir := t.TempDir()
	old := filepath.Join(dir, "mcpx")
	raw, err := os.ReadFile(g.Binary)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, raw, 0o755); err != nil {
		t.Fatal(err)
	}
	next := versioned(t, rig.Root(t), "9.9.9")
	g.Binary = old
	defer func() { g.Binary = rig.Binary(t) }()
	commanding(t, g)
	g.Serve()
	shop, session, b := inShop(t, g)
	job := startHeld(t, b, shop, session, "held-0001")
	was := told(t, b, job).Version
	if was == "" || was == "9.9.9" {
		t.Errorf("its supervisor has version %q", was)
	}
	if err := os.Remove(old); err != nil {
		t.Fatal(err)
	}
	g.Kill()
	g.Binary = next
	g.Serve()
	if j := told(t, b, job); j.State != "running" || j.Version != was {
		t.Errorf("under the next version: %+v", j)
	}
	if out := g.Must("daemon", "status", "--json"); !strings.Contains(out, `"version": "9.9.9"`) {
		t.Errorf("the daemon: %s", out)
	}
	if err := os.WriteFile(filepath.Join(shop, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if j := endOf(t, b, job); j.State != "exited" || j.Code == nil || *j.Code != 7 || j.Stdout.Text != "begun\n" || j.Version != was {
		t.Errorf("its end: %+v", j)
	}
	if raw, err := os.ReadFile(filepath.Join(shop, "starts")); err != nil || string(raw) != "x\n" {
		t.Errorf("it was started %q, %v", raw, err)
	}
}

// stateOf is what lies in the home of a daemon: bytes and times.
func stateOf(t *testing.T, g *rig.Gateway) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(g.Home, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "serve.log" { // what the first one says
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := fmt.Sprint(info.Mode(), info.ModTime(), info.Size())
		if info.Mode().IsRegular() {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += string(raw)
		}
		all[path] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDW73SecondDaemon: DW-73. A second daemon for one state directory names the first by pid and start, ends, and has
// written nothing.
func TestDW73SecondDaemon(t *testing.T) {
	g := rig.Start(t)
	about, err := g.API().DaemonStatus(t.Context(), api.None{})
	if err != nil {
		t.Fatal(err)
	}
	rig.Until(t, slack, "the start is over", func() bool { return strings.Contains(g.Log(), "daemon started") })
	before := stateOf(t, g)
	r := g.Run("serve", "--listen", fmt.Sprintf("127.0.0.1:%d", rig.Port(t)))
	if r.Code == 0 || !strings.Contains(r.Stderr, fmt.Sprintf("pid %d", g.PID())) || !strings.Contains(r.Stderr, about.Started.Local().Format("2006-01-02 15:04:05")) {
		t.Errorf("it ends with %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if after := stateOf(t, g); !maps.Equal(after, before) {
		for path, what := range after {
			if before[path] != what {
				t.Errorf("%s was written: %.200q", path, what)
			}
		}
	}
	if !g.Listens() {
		t.Error("the first one serves no more")
	}
}
