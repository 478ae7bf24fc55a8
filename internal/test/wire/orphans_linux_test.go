package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mcpx/internal/process"
	"mcpx/internal/test/rig"
)

// TestDW59EndsWithItsSupervisor: a command whose supervisor was killed is lost with a null exit code, its output until then is
// kept, it runs no longer, and is not started again, in each sandbox that works here. What ignores its signal is told of, and
// a stop ends it.
func TestDW59EndsWithItsSupervisor(t *testing.T) {
	for _, mechanism := range []string{"none", "landlock", "bwrap"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			g := rig.New(t)
			commanding(t, g)
			g.Extra = append(g.Extra, "MCPX_SANDBOX_MECHANISM="+mechanism, "MCPX_SANDBOX_PROJECT_WRITES=true")
			g.Serve()
			dir, session, b := inShop(t, g)
			plant(t, filepath.Join(dir, "beats.sh"), "echo x >> starts\necho begun\n(trap '' TERM; while :; do /bin/sleep 0.1; done) &\nwhile :; do echo x >> beats; /bin/sleep 0.02; done\n")
			got := b.call("2", tool("2", "start_command", fmt.Sprintf(`{"remote_session_id":%q,"argv":["sh","beats.sh"],"operation_id":"start-01"}`, session)))
			if bytes.Contains(got, []byte("SANDBOX_UNAVAILABLE")) {
				t.Skipf("this machine has no %s: %s", mechanism, got)
			}
			var job toldJob
			worked(t, got, &job)
			beats := func() int64 {
				info, err := os.Stat(filepath.Join(dir, "beats"))
				if err != nil {
					return 0
				}
				return info.Size()
			}
			for limit := time.Now().Add(20 * time.Second); beats() == 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(limit) {
					t.Fatal("it does not begin")
				}
			}
			for limit := time.Now().Add(20 * time.Second); job.Stdout.Text == ""; time.Sleep(5 * time.Millisecond) {
				worked(t, b.call("3", tool("3", "command_status", fmt.Sprintf(`{"job_id":%q}`, job.Job))), &job)
				if time.Now().After(limit) {
					t.Fatal("it says nothing")
				}
			}
			records, err := filepath.Glob(filepath.Join(g.Home, "state", "jobs", job.Job+".*", "record"))
			if err != nil || len(records) != 1 {
				t.Fatalf("%v, %v", records, err)
			}
			var r struct{ Supervisor process.Identity }
			var s struct{ Child process.Identity }
			for name, into := range map[string]any{"record": &r, "started": &s} {
				raw, err := os.ReadFile(filepath.Join(filepath.Dir(records[0]), name))
				if err != nil || json.Unmarshal(raw, into) != nil {
					t.Fatalf("%s, %v", raw, err)
				}
			}
			if !s.Child.Alive() || !process.Kill(r.Supervisor) {
				t.Fatalf("%+v, %+v", s, r)
			}
			rig.Until(t, 20*time.Second, "the command has ended", func() bool { return !s.Child.Alive() })
			was := beats()
			time.Sleep(500 * time.Millisecond)
			if beats() != was {
				t.Error("the command goes on without its supervisor")
			}
			var told struct {
				Result struct {
					Structured struct {
						Data toldJob `json:"data"`
					} `json:"structuredContent"`
				} `json:"result"`
			}
			if got := b.call("4", tool("4", "command_status", fmt.Sprintf(`{"job_id":%q,"wait_ms":20000}`, job.Job))); json.Unmarshal(got, &told) != nil {
				t.Fatalf("%s", got)
			}
			job = told.Result.Structured.Data
			if job.State != "lost" || job.Code != nil || job.Stdout.Text != "begun\n" {
				t.Errorf("%+v", job)
			}
			if mechanism != "bwrap" { // whose namespace ends whole
				if !job.Descendants {
					t.Errorf("nothing is said of what goes on: %+v", job)
				}
				var stopped struct{ Survivors []int }
				worked(t, b.call("5", tool("5", "stop_command", fmt.Sprintf(`{"job_id":%q,"operation_id":"stop-0001"}`, job.Job))), &stopped)
				if len(stopped.Survivors) > 0 {
					t.Errorf("survivors of the stop: %v", stopped.Survivors)
				}
			} else if job.Descendants {
				t.Errorf("something goes on: %+v", job)
			}
			if starts, err := os.ReadFile(filepath.Join(dir, "starts")); err != nil || string(starts) != "x\n" {
				t.Errorf("it was started %q, %v", starts, err)
			}
		})
	}
}
