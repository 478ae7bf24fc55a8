package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/test/rig"
)

// imposterVerb makes the test binary run a command on a terminal of its own, type back the code that it shows, and write to
// a file what it said.
const imposterVerb = "run-imposter"

func imposter(to string, argv []string) int {
	cmd := exec.Command(argv[0], argv[1:]...)
	said, err := rig.OnTerminal(cmd, rig.Agrees())
	if err != nil {
		return 1
	}
	said += fmt.Sprintf("exit code %d\n", cmd.ProcessState.ExitCode())
	if err := errors.Join(os.WriteFile(to+".tmp", []byte(said), 0o600), os.Rename(to+".tmp", to)); err != nil {
		return 1
	}
	return 0
}

// TestRT112OnlyPeopleDecide: a job, what a job left behind in a session of its own, and the child of a server cannot decide,
// whatever terminal they make themselves; the log names who tried.
func TestRT112OnlyPeopleDecide(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("skip: only Linux has a subreaper, by which what a job left behind is known to be its own")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	g := rig.New(t)
	dir, scripts := filepath.Join(t.TempDir(), "shop"), t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(scripts, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\nexport MCPX_HOME="+g.Home+" HOME="+g.Home+"/user NO_COLOR=1 TERM=dumb\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policy := "[commands]\nlift = [\"program.untrusted\"]\n" // they are, as what an agent has written
	allow := func(path string) {
		policy += fmt.Sprintf("[[commands.rule]]\nid = %q\ndecision = \"allow\"\nprogram = %q\noperands = \"any\"\n", filepath.Base(path), path)
	}
	approve := func(to string) string {
		return fmt.Sprintf("%s %s %s %s approval approve $(cat %s/id)\n", self, imposterVerb, filepath.Join(scripts, to), g.Binary, scripts)
	}
	plain := script("plain", g.Binary+" approval approve $(cat "+scripts+"/id) >"+scripts+"/plain.said 2>&1; echo exit code $? >>"+scripts+"/plain.said\n")
	job := script("job", approve("job.said"))
	inner := script("inner", approve("left.said"))
	left := script("left", "setsid "+inner+" </dev/null >/dev/null 2>&1 &\n")
	server := script("server", approve("server.said")+"exec "+self+" run-fakemcp\n")
	for _, path := range []string{plain, job, left} {
		allow(path)
	}
	if err := errors.Join(os.Mkdir(dir, 0o700), os.MkdirAll(filepath.Join(g.Home, "config"), 0o700),
		os.WriteFile(filepath.Join(g.Home, "config", "policy.toml"), []byte(policy), 0o600)); err != nil {
		t.Fatal(err)
	}
	g.Extra = []string{"MCPX_RUNTIME_COMMANDS=true", "MCPX_SANDBOX_MECHANISM=none"}
	g.Serve()
	g.Must("project", "add", dir)
	b := bridged{g.Connect(""), t}
	b.Initialize(`{}`)
	n := 0
	run := func(argv ...string) []byte {
		n++
		raw, err := json.Marshal(argv)
		if err != nil {
			t.Fatal(err)
		}
		return b.call(fmt.Sprint(n), tool(fmt.Sprint(n), "start_command", fmt.Sprintf(`{"operation_id":"run-%07d","argv":%s,"cwd":%q}`, n, raw, dir)))
	}
	asked := regexp.MustCompile(`apr_[0-9A-Z]+`).Find(run("touch", "made"))
	if asked == nil {
		t.Fatal("nobody is asked")
	}
	if err := os.WriteFile(filepath.Join(scripts, "id"), asked, 0o600); err != nil {
		t.Fatal(err)
	}
	said := func(file string) string {
		var raw []byte
		rig.Until(t, time.Minute, "what "+file+" was told", func() bool {
			raw, err = os.ReadFile(filepath.Join(scripts, file+".said"))
			return err == nil && strings.Contains(string(raw), "exit code")
		})
		return string(raw)
	}
	started := func(answer []byte) string {
		var s struct {
			Job string `json:"job_id"`
		}
		worked(t, answer, &s)
		return s.Job
	}
	for _, one := range []struct {
		file string
		ref  event.Ref
		who  func() string
		code string
	}{
		{"plain", event.RefJob, func() string { return started(run(plain)) }, "exit code 3"},
		{"job", event.RefJob, func() string { return started(run(job)) }, "exit code 7"},
		{"left", event.RefJob, func() string { return started(run(left)) }, "exit code 7"},
		{"server", event.RefServer, func() string {
			g.Add("imposter", []string{server})
			rig.Open(t, g.URL("imposter"), "2025-06-18", `{}`)
			return "imposter"
		}, "exit code 7"},
	} {
		who := one.who()
		if text := said(one.file); !strings.Contains(text, one.code) {
			t.Errorf("%s was told %s", one.file, text)
		}
		var refused []event.Event
		err := g.API().Events(t.Context(), api.EventsQuery{Kind: string(event.ApprovalRefused)}, func(e event.Event) error {
			if e.Refs[one.ref] == who {
				refused = append(refused, e)
			}
			return nil
		})
		if err != nil || len(refused) != 1 || refused[0].Refs[event.RefApproval] != string(asked) || !strings.Contains(refused[0].Summary, who) {
			t.Errorf("%s %s: %+v (%v)", one.file, who, refused, err)
		}
	}
	if a, err := g.API().Approval(t.Context(), api.ApprovalRef{Approval: string(asked)}); err != nil || a.State != "pending" {
		t.Errorf("the question is %s (%v)", a.State, err)
	}
}
