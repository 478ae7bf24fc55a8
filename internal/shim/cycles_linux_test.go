package shim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
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
