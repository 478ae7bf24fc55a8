//go:build unix

package crashtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/operation"
	"mcpx/internal/test/rig"
)

// allowShell lets shells run without a person.
const allowShell = "[commands]\nlift = [\"interp\"]\n[[commands.rule]]\nid = \"crashtest\"\ndecision = \"allow\"\nprogram = \"sh\"\n"

// outliving is a command with a number, so many lines of output, and a time: until go is there, or so many seconds.
const outliving = `
echo begun-$1 >> begun-$1
echo $$ > pid-$1
seq 1 $2
echo error-$1 >&2
if [ $3 = go ]; then until [ -e go ]; do sleep 0.05; done; else sleep $3; fi
echo over-$1 >> over-$1
exit $1
`

// TestDW6JobsOutliveTheDaemon: DW-6 and RT-90 with SIGKILL, RT-97 with SIGTERM. Twenty commands with times, output and exit
// codes of their own run, wait, and end while there is no daemon. The next one knows how each ended and what it wrote, none
// ran twice, and none is told to be what it is not.
func TestDW6JobsOutliveTheDaemon(t *testing.T) {
	for name, how := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outlive(t, how)
		})
	}
}

func outlive(t *testing.T, how syscall.Signal) {
	const n = 20
	w := cut(t, "", commands, allowShell)
	w.register()
	w.write("job.sh", outliving)
	begun := func(i int) bool { return w.runs(fmt.Sprintf("begun-%d", i)) > 0 }
	over := func(i int) bool { return w.runs(fmt.Sprintf("over-%d", i)) > 0 }
	count := func(holds func(int) bool) (all int) {
		for i := range n {
			if holds(i) {
				all++
			}
		}
		return all
	}
	var ids []string
	for i := range n {
		// Most end by themselves, while the daemon is there, while it is not, or later; some wait for the test.
		wait := fmt.Sprintf("0.%d", 1+i%8*2)
		if i%8 > 5 {
			wait = "go"
		}
		var j job
		last := w.do("start_command", fmt.Sprintf("outlive-%02d", i), map[string]any{"argv": []string{"sh", "job.sh", fmt.Sprint(i), fmt.Sprint(1000 * i), wait}}, nil)
		if !last.OK {
			t.Fatalf("start %d: %+v", i, last)
		}
		if err := json.Unmarshal(last.Data, &j); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	defer w.write("go", "") // however the test ends, they do
	rig.Until(t, stepWithin, "some commands run", func() bool { return count(begun)-count(over) >= 4 })
	was := count(over)
	if err := syscall.Kill(w.g.PID(), how); err != nil {
		t.Fatal(err)
	}
	w.g.Wait()
	rig.Until(t, stepWithin, "a command has ended without a daemon", func() bool { return count(over) > was })
	w.g.Serve()

	for i, id := range ids { // while some run: what is told of each is what is there
		if !begun(i) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(w.dir, fmt.Sprintf("pid-%d", i)))
		pid, bad := strconv.Atoi(strings.TrimSpace(string(raw)))
		if err != nil || bad != nil {
			continue // it has only just begun
		}
		var j job
		w.status(map[string]any{"job_id": id}, &j)
		if final := j.State != "running" && j.State != "starting"; final && !over(i) {
			t.Errorf("job %d (%d, alive %t) is told to be %s, and has not ended", i, pid, rig.Alive(pid), j.State)
		}
	}
	w.write("go", "")
	for i, id := range ids {
		j := w.state(id)
		if j.State != "exited" || j.Code == nil || *j.Code != i {
			t.Errorf("job %d: %+v", i, j)
		}
		var want strings.Builder
		for k := 1; k <= 1000*i; k++ {
			fmt.Fprintln(&want, k)
		}
		if out := w.output(id, "stdout"); out != want.String() {
			t.Errorf("job %d wrote %d bytes, want %d", i, len(out), want.Len())
		}
		if errs := w.output(id, "stderr"); errs != fmt.Sprintf("error-%d\n", i) {
			t.Errorf("job %d complains %q", i, errs)
		}
		if b, o := w.runs(fmt.Sprintf("begun-%d", i)), w.runs(fmt.Sprintf("over-%d", i)); b != 1 || o != 1 {
			t.Errorf("job %d began %d times and ended %d times", i, b, o)
		}
	}
}

// status reads what is told about a job, by a daemon that nobody kills.
func (w *worker) status(args map[string]any, into any) {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "command_status", "arguments": args}})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := w.post(body)
	if err == nil {
		err = json.Unmarshal(r.Data, into)
	}
	if err != nil {
		w.t.Fatalf("%v: %s, %v", args, r.code(), err)
	}
}

// output is a whole stream of a job.
func (w *worker) output(id, stream string) string {
	w.t.Helper()
	type part struct {
		Text string `json:"text"`
		Next int    `json:"next_offset"`
	}
	var all strings.Builder
	for at := 0; ; {
		var shown struct {
			Stdout, Stderr part
		}
		w.status(map[string]any{"job_id": id, "output": map[string]any{"stream": stream, "offset": at, "max": 20000}}, &shown)
		got := shown.Stdout
		if stream == "stderr" {
			got = shown.Stderr
		}
		all.WriteString(got.Text)
		if got.Next == at {
			return all.String()
		}
		at = got.Next
	}
}

// counting is a command with a number, which tells how many of its kind run.
const counting = `
mkdir slot-$1
ls -d slot-* | wc -l >> seen
echo $1 >> order
sleep 0.1
rmdir slot-$1
`

// TestDW64ManyStarts: DW-64 with the real binary. Many commands are started at once, 200 with MCPX_TEST_FULL, and the daemon is killed
// when half of them have begun. Each is recorded and started once, never more than the limit run at once, and nobody overtakes.
func TestDW64ManyStarts(t *testing.T) {
	n := 60
	if os.Getenv("MCPX_TEST_FULL") != "" {
		n = 200
	}
	w := cut(t, "", commands, allowShell)
	w.register()
	w.write("job.sh", counting)
	lines := func(name string) []string {
		raw, err := os.ReadFile(filepath.Join(w.dir, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(raw))
	}
	var callers sync.WaitGroup
	for i := range n {
		body, err := w.body("start_command", fmt.Sprintf("start-%03d", i), map[string]any{"argv": []string{"sh", "job.sh", fmt.Sprint(i)}})
		if err != nil {
			t.Fatal(err)
		}
		callers.Go(func() {
			var last result
			err := errors.New("no answer")
			for limit := time.Now().Add(2 * stepWithin); err != nil || last.Status == "in_progress"; time.Sleep(pollEvery) {
				if last, err = w.post(body); time.Now().After(limit) {
					break
				}
			}
			if err != nil || !last.OK {
				t.Errorf("start %d: %s, %v", i, last.code(), err)
			}
		})
	}
	rig.Until(t, stepWithin, "half of them have begun", func() bool { return len(lines("order")) >= n/2 })
	w.g.Kill()
	w.g.Serve()
	callers.Wait()
	rig.Until(t, 2*stepWithin, "all have begun", func() bool { return len(lines("order")) >= n })
	rig.Until(t, stepWithin, "all have ended", func() bool {
		page, err := w.g.API().Jobs(t.Context(), api.JobsQuery{})
		return err == nil && len(page.Jobs) == 0
	})
	var all []operation.Job
	for query := (api.JobsQuery{All: true}); ; {
		page, err := w.g.API().Jobs(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Jobs...)
		if query.Before = page.Before; query.Before == 0 {
			break
		}
	}
	if len(all) != n {
		t.Fatalf("%d jobs are recorded", len(all))
	}
	rank := map[string]int{} // in the queue
	for i, j := range all {
		if j.Queued {
			rank[j.Command.Argv[2]] = n - i // the newest is the first of the page
		}
		if j.State != operation.JobExited || j.Code == nil || *j.Code != 0 {
			t.Errorf("%s is %s %s", j.Command, j.State, j.Reason)
		}
	}
	order := lines("order")
	if each := slices.Compact(slices.Sorted(slices.Values(order))); len(order) != n || len(each) != n {
		t.Errorf("%d commands were started, %d times", len(each), len(order))
	}
	order = slices.DeleteFunc(order, func(one string) bool { return rank[one] == 0 })
	if len(order) < n/2 {
		t.Errorf("%d of %d waited", len(order), n)
	}
	for i, one := range order { // those that have their place at the same moment begin in any order
		late := slices.DeleteFunc(slices.Clone(order[i+1:]), func(other string) bool { return rank[other] > rank[one] })
		if len(late) >= operation.UsualJobs {
			t.Errorf("the command %s began before %v", one, late)
		}
	}
	for _, count := range lines("seen") {
		if many, err := strconv.Atoi(count); err != nil || many > operation.UsualJobs {
			t.Errorf("%s ran at once", count)
		}
	}
}

// leaving is a command that leaves a process of a session of its own behind, and does not end.
const leaving = `
echo x >> starts
setsid sh -c 'echo $$ > left; exec sleep 600' >/dev/null 2>&1 &
until [ -s left ]; do sleep 0.01; done
echo begun
exec sleep 600
`

// TestDW59Survivors: DW-59 with the real binary. A command whose supervisor is killed is lost, with the output up to then and
// without an exit code; nobody knows what it did outside, and it is not started again. What it left behind is told, keeps the
// workspace, over a restart of the daemon, too, and is ended by stop_command.
func TestDW59Survivors(t *testing.T) {
	w := cut(t, "", append(script{"MCPX_RUNTIME_WORK=true"}, commands...), allowShell)
	w.write("job.sh", leaving)
	w.register()
	handle, dir := w.workspace("create-1")
	args := map[string]any{"handle": handle, "argv": []string{"sh", "job.sh"}}
	var is struct {
		job
		Outside   string `json:"external_outcome"`
		Alive     bool   `json:"descendants_alive"`
		Survivors []int  `json:"survivors"`
	}
	if err := json.Unmarshal(w.do("start_command", "start-left-1", args, nil).Data, &is); err != nil || is.ID == "" {
		t.Fatalf("%+v, %v", is, err)
	}
	id := is.ID
	rig.Until(t, stepWithin, "it writes", func() bool { return w.output(id, "stdout") == "begun\n" })
	number := func(path string, into any) {
		t.Helper()
		raw, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var left int
	number(filepath.Join(dir, "left"), &left)
	t.Cleanup(func() { _ = syscall.Kill(left, syscall.SIGKILL) }) // when stop_command did not
	var record struct {
		Supervisor struct {
			Pid int `json:"pid"`
		} `json:"supervisor"`
	}
	number(filepath.Join(w.g.Home, "state", "jobs", id+".1", "record"), &record)
	if err := syscall.Kill(record.Supervisor.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.state(id)
	for _, when := range []string{"at once", "after a restart"} {
		rig.Until(t, stepWithin, "the command itself has ended", func() bool {
			is.Survivors, is.Code = nil, nil
			w.status(map[string]any{"job_id": id}, &is)
			return len(is.Survivors) == 1
		})
		if is.State != "lost" || is.Reason != "supervisor_killed" || is.Code != nil || is.Outside != "unknown" || is.Stdout.Text != "begun\n" || !is.Alive || is.Survivors[0] != left {
			t.Errorf("%s: %+v, left is %d", when, is, left)
		}
		if again := w.do("start_command", "start-left-1", args, nil); !again.OK || !again.Operation.Replayed {
			t.Errorf("%s: the same call has %+v", when, again)
		}
		if raw, err := os.ReadFile(filepath.Join(dir, "starts")); err != nil || string(raw) != "x\n" {
			t.Errorf("%s: it was started %q, %v", when, raw, err)
		}
		if gone := w.do("remove_agent_workspace", "retire-1", map[string]any{"handle": handle}, nil); gone.code() != "JOBS_RUNNING" {
			t.Errorf("%s: removed: %+v", when, gone)
		}
		w.g.Kill()
		w.g.Serve()
	}
	if ended := w.do("stop_command", "stop-left-1", map[string]any{"job_id": id}, nil); !ended.OK || rig.Alive(left) {
		t.Errorf("stopped: %+v, alive %t", ended, rig.Alive(left))
	}
	if gone := w.do("remove_agent_workspace", "retire-1", map[string]any{"handle": handle}, nil); !gone.OK {
		t.Errorf("in the end: %+v", gone)
	}
}

// TestDW24Unknown: DW-24 with the real binary. Of a command that was begun, and whose directory is gone with its supervisor while there is
// no daemon, nobody knows the outcome: its call is not carried out again, however often it is made, until somebody says what became
// of it.
func TestDW24Unknown(t *testing.T) {
	w := cut(t, "op.record.before#1", commands, allowShell)
	w.register()
	w.write("held.sh", "echo $$ > pid\necho starts >> starts\nexec sleep 600\n")
	args := map[string]any{"argv": []string{"sh", "held.sh"}}
	w.dies("start_command", "unknown-1", args)
	rig.Until(t, stepWithin, "the command runs", func() bool { return w.runs("starts") == 1 })
	raw, err := os.ReadFile(filepath.Join(w.dir, "pid"))
	pid, bad := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil || bad != nil {
		t.Fatal(err, bad)
	}
	for _, one := range []int{rig.Look(pid).Parent, pid} {
		if err := syscall.Kill(one, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) { // the command may have ended with it
			t.Fatal(err)
		}
		rig.Until(t, stepWithin, "it has ended", func() bool { return !rig.Alive(one) })
	}
	found, err := filepath.Glob(filepath.Join(w.g.Home, "state", "jobs", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("directories of jobs: %v, %v", found, err)
	}
	if err := os.RemoveAll(found[0]); err != nil {
		t.Fatal(err)
	}
	w.g.Serve()
	for range 3 {
		if again := w.do("start_command", "unknown-1", args, nil); again.code() != "OUTCOME_UNKNOWN" || again.Error.Retry != "never" {
			t.Errorf("%+v", again)
		}
	}
	session := w.session
	w.session = "" // operations are of no session
	if said := w.do("resolve_operation", "resolve-1", map[string]any{"target": "unknown-1", "verdict": "done", "evidence": "starts has a line"}, nil); !said.OK {
		t.Errorf("%+v", said.Error)
	}
	w.session = session
	if last := w.do("start_command", "unknown-1", args, nil); !last.OK || !last.Operation.Replayed || !strings.Contains(string(last.Data), "done") || w.runs("starts") != 1 {
		t.Errorf("after the verdict: %+v, it ran %d times", last, w.runs("starts"))
	}
}

// TestDW60Gate: DW-60. Whoever dies around the start of a command, it is started once at most, and what is told of it is so:
// before the start is recorded it did not run, afterwards it is lost when its supervisor dies, and failed when its stub does.
// What did not run is started once by the next try: the same call when the daemon died, a new one when the daemon has seen
// its supervisor fail. A supervisor that comes late is TestFence in shim.
func TestDW60Gate(t *testing.T) {
	for at, c := range map[string]struct {
		code string // of the call
		runs int
	}{
		"supervise/job.lock.taken#1":      {"SPAWN_FAILED", 0},
		"supervise/job.started.fsynced#1": {"OUTCOME_UNKNOWN", 0},
		"supervise/job.stub.released#1":   {"SPAWN_FAILED", 0},
		"daemon/job.mkdir.after#1":        {"", 1},
		"daemon/job.supervisor.spawned#1": {"", 1},
		"supervise/job.exit.written#1":    {"", 1},
	} {
		t.Run(strings.ReplaceAll(at, "/", "-"), func(t *testing.T) {
			t.Parallel()
			w := cut(t, at, commands, allowTee)
			w.register()
			if strings.HasPrefix(at, "daemon/") {
				w.dies("execute_command", "gate-0001", tee("gate-0001"))
				w.g.Serve()
			}
			first := w.do("execute_command", "gate-0001", tee("gate-0001"), nil)
			if n := w.runs("gate-0001"); first.code() != c.code || n != c.runs {
				t.Errorf("the call: %q, %+v; the command ran %d times, want %q and %d", first.code(), first, n, c.code, c.runs)
			}
			w.g.Kill()
			w.g.Serve()
			if again := w.do("execute_command", "gate-0001", tee("gate-0001"), nil); again.code() != first.code() || w.runs("gate-0001") != c.runs {
				t.Errorf("after a restart: %q, it ran %d times", again.code(), w.runs("gate-0001"))
			}
			if c.code == "SPAWN_FAILED" {
				args := tee("gate-0001")
				args["distinct_from"] = "gate-0001"
				if next := w.do("execute_command", "gate-0002", args, nil); first.Error.Retry != "new_id" || !next.OK || w.runs("gate-0001") != 1 {
					t.Errorf("tried anew: %+v, it ran %d times", next, w.runs("gate-0001"))
				}
			}
		})
	}
}
