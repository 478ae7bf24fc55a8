package shim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// openFiles counts the descriptors of a process.
func openFiles(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestS17Cycles: daemons that come and go leave nothing behind, neither in the supervisor nor in themselves.
func TestS17Cycles(t *testing.T) {
	cycles := 1000
	if raced {
		cycles = 100
	}
	w := newWard(t, nil)
	b := daemonOf(t, w.root, 2)
	w.epoch = 2
	pid := w.record.Supervisor.Pid
	cycle := func(n int) {
		p, fr, frames := greet(t, b, w.record, nil)
		var next journalInfo
		for _, f := range frames {
			if f.kind == kindJournal {
				if err := json.Unmarshal(f.body, &next); err != nil {
					t.Fatal(err)
				}
			}
		}
		body := fmt.Sprintf(`{"id":%d,"method":"mirror"}`, n)
		h := header{length: uint32(len(body)), kind: kindMsg, generation: 2, seq: next.Next - number(2, 0)}
		if _, err := p.conn.Write(append(h.append(nil), body...)); err != nil {
			t.Fatal(err)
		}
		read := func(k kind) {
			for {
				f, err := fr.next()
				if err != nil {
					t.Fatal(err)
				}
				if f.kind == k {
					return
				}
			}
		}
		read(kindMsg)
		if err := p.sendRaw(kindDone, binary.BigEndian.AppendUint64(nil, next.Next)); err != nil {
			t.Fatal(err)
		}
		if err := p.sendRaw(kindDetach, nil); err != nil {
			t.Fatal(err)
		}
		read(kindDetached)
		_ = p.conn.Close()
	}
	for n := range 20 {
		cycle(n)
	}
	files, mine, goroutines, memory := openFiles(t, pid), openFiles(t, os.Getpid()), runtime.NumGoroutine(), anonymous(t, pid)
	for n := range cycles {
		cycle(n)
	}
	for limit := time.Now().Add(10 * time.Second); time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
		if openFiles(t, pid) <= files && openFiles(t, os.Getpid()) <= mine && runtime.NumGoroutine() <= goroutines {
			break
		}
	}
	if now := openFiles(t, pid); now > files {
		t.Errorf("the supervisor has %d descriptors, before %d", now, files)
	}
	if now := openFiles(t, os.Getpid()); now > mine {
		t.Errorf("the daemon has %d descriptors, before %d", now, mine)
	}
	if now := runtime.NumGoroutine(); now > goroutines {
		t.Errorf("%d goroutines, before %d", now, goroutines)
	}
	if st := w.status(t); st.Journal.Entries != 0 || st.Journal.Finished != cycles+20 {
		t.Errorf("journal %+v", st.Journal)
	}
	const grown = 1_500_000 // a thousand requests that are done with, and what the runtime keeps
	now := anonymous(t, pid)
	for limit := time.Now().Add(10 * time.Second); now > memory+grown && time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		now = anonymous(t, pid)
	}
	t.Logf("%.1f MB, before %.1f MB", float64(now)/1e6, float64(memory)/1e6)
	if now > memory+grown && !raced {
		t.Error("the supervisor grows with its daemons")
	}
}

// TestS17Lanes: many supervisors side by side, each with a full ring, cost what one does, and daemons that come and go leave
// nothing behind in any of them. MCPX_TEST_FULL=1 has 200.
func TestS17Lanes(t *testing.T) {
	lanes := 8
	if os.Getenv("MCPX_TEST_FULL") != "" && !raced {
		lanes = 200
	}
	const (
		lines  = 2 * keptBytes / 100 // twice what is kept
		cycles = 5
	)
	all := make([]*ward, lanes)
	files, idle := make([]int, lanes), make([]int64, lanes)
	for i := range all {
		w := newWard(t, nil)
		a := w.attach(t, nil)
		a.ask(1, "flood-after", filepath.Join(w.root, "go")+fmt.Sprint(" ", lines))
		a.until("WRITTEN", func(f frame) bool { return f.kind == kindWritten })
		a.die()
		w.wait(t, "the end of the daemon", alone)
		all[i], files[i], idle[i] = w, openFiles(t, w.record.Supervisor.Pid), anonymous(t, w.record.Supervisor.Pid)
	}
	for _, w := range all {
		touch(t, filepath.Join(w.root, "go"))
	}
	for _, w := range all {
		st := w.wait(t, "the end of the flood", func(st status) bool { return st.Journal.Running == 0 })
		if st.Journal.Ring > keptBytes || st.Journal.Ring < keptBytes/2 {
			t.Errorf("the ring has %d bytes", st.Journal.Ring)
		}
	}
	for i, w := range all {
		checkMemory(t, w.record.Supervisor.Pid, idle[i])
	}
	for i, w := range all {
		for n := range cycles {
			a := w.attach(t, nil)
			if got := len(a.kept()); (n == 0) != (got > 1) { // the answer stays until somebody is done with it
				t.Errorf("attachment %d brought %d messages", n, got)
			}
			a.die()
			w.wait(t, "the end of the daemon", alone)
		}
		now := openFiles(t, w.record.Supervisor.Pid)
		for limit := time.Now().Add(10 * time.Second); now > files[i] && time.Now().Before(limit); time.Sleep(10 * time.Millisecond) {
			now = openFiles(t, w.record.Supervisor.Pid)
		}
		if now > files[i] {
			t.Errorf("a supervisor has %d descriptors, before %d", now, files[i])
		}
	}
}
