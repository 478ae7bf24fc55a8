package gateway

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mcpx/internal/catalog"
)

// TestChangedWhileDown: sessions and children of a server that changed while no daemon ran are over.
func TestChangedWhileDown(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.kill()
	mc.edit = func(e *catalog.Server) { e.Stdio.Args = []string{"other"} }
	mc.start()
	if _, bad := mc.s.Session(x.ID, owner1); bad == nil || bad.Status != 404 {
		t.Errorf("the session got %v", bad)
	}
	if len(mc.k.ended) != 1 || !strings.Contains(mc.k.ended[0], "changed") {
		t.Errorf("ended: %q", mc.k.ended)
	}
	eventually(t, "the session is forgotten", func() bool { return mc.store.count() == 0 })
}

// TestAdoptionDecides: calls that come while a child is being adopted wait, and no second process is started beside it;
// when it cannot be adopted the place is free for an ordinary start, and status says what was left.
func TestAdoptionDecides(t *testing.T) {
	t.Run("adopted late", func(t *testing.T) {
		got := make(chan Outbound, 2)
		mc := newMachine(t, nil, toolCalls(got))
		x := initialize(t, mc.s, "2025-11-25", "{}")
		send(t, x, callBody("7"))
		m := <-got
		mc.kill()
		mc.k.adopting = make(chan struct{})
		mc.start()
		y := mc.again(x)
		again := send(t, y, callBody("7")) // a client that knows nothing of resuming
		other := send(t, y, `{"jsonrpc":"2.0","id":8,"method":"prompts/list"}`)
		close(mc.k.adopting)
		if answer, _ := reply(t, other); !strings.Contains(answer, "result") {
			t.Errorf("the waiting call got %s", answer)
		}
		if answer, _ := reply(t, again); !strings.Contains(answer, "still in flight") {
			t.Errorf("the repeated call got %s", answer)
		}
		mc.k.newest().result(m, scan(t, m.Body), `{"n":1}`)
		if answer, _ := reply(t, resume(t, y, "7", 7)); !strings.Contains(answer, `"n":1`) {
			t.Errorf("the first call got %s", answer)
		}
		if len(mc.k.all()) != 1 {
			t.Errorf("%d processes", len(mc.k.all()))
		}
	})
	t.Run("undecided", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
			x := initialize(t, mc.s, "2025-11-25", "{}")
			mc.kill()
			mc.k.adopting = make(chan struct{})
			mc.start()
			began := time.Now()
			answer, _ := reply(t, send(t, mc.again(x), `{"jsonrpc":"2.0","id":8,"method":"prompts/list"}`))
			if member(t, answer, "error", "code") != float64(CodeUnavailable) || time.Since(began) > maxAdoptWait+time.Second {
				t.Errorf("after %s the call got %s", time.Since(began), answer)
			}
			if len(mc.k.all()) != 1 {
				t.Errorf("%d processes", len(mc.k.all()))
			}
			time.Sleep(30 * time.Second) // all tries
			if state := mc.s.status().State; state != Wedged {
				t.Errorf("its server is %s", state)
			}
			if answer, _ := reply(t, send(t, mc.again(x), `{"jsonrpc":"2.0","id":9,"method":"prompts/list"}`)); !strings.Contains(answer, "result") {
				t.Errorf("the call after that got %s", answer)
			}
			if st := mc.s.status(); st.State != Ready || len(st.Lanes) != 2 || len(mc.k.all()) != 2 || len(mc.k.ended) != 0 {
				t.Errorf("status is %+v, ended %q", st, mc.k.ended)
			}
			mc.end()
		})
	})
	t.Run("answers late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
			x := initialize(t, mc.s, "2025-11-25", "{}")
			mc.kill()
			mc.k.adopting = make(chan struct{})
			mc.start()
			time.Sleep(2*adoptWithin + adoptPause) // the second try has failed, too
			close(mc.k.adopting)
			time.Sleep(adoptPause)
			if answer, _ := reply(t, send(t, mc.again(x), `{"jsonrpc":"2.0","id":8,"method":"prompts/list"}`)); !strings.Contains(answer, "result") {
				t.Errorf("the call got %s", answer)
			}
			if st := mc.s.status(); st.State != Ready || len(st.Lanes) != 1 || len(mc.k.all()) != 1 {
				t.Errorf("status is %+v, %d processes", st, len(mc.k.all()))
			}
			mc.end()
		})
	})
	t.Run("held by another daemon", func(t *testing.T) {
		mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
		x := initialize(t, mc.s, "2025-11-25", "{}")
		mc.kill()
		c := mc.k.newest()
		hold := func(l *keptLink) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.link = l
		}
		hold(&keptLink{})
		mc.start()
		eventually(t, "it is reported", func() bool { return mc.s.status().State == Wedged })
		hold(nil)
		if answer, _ := reply(t, resume(t, mc.again(x), "7", 7)); member(t, answer, "error", "code") != float64(CodeSentUnknown) {
			t.Errorf("the outcome is %s", answer)
		}
	})
	t.Run("unfinished", func(t *testing.T) {
		mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
		x := initialize(t, mc.s, "2025-11-25", "{}")
		mc.kill()
		mc.k.newest().blob = nil
		mc.start()
		if answer, _ := reply(t, send(t, mc.again(x), `{"jsonrpc":"2.0","id":9,"method":"prompts/list"}`)); !strings.Contains(answer, "result") {
			t.Errorf("the next call got %s", answer)
		}
		if len(mc.k.ended) != 1 || len(mc.k.all()) != 2 {
			t.Errorf("ended %q, %d processes", mc.k.ended, len(mc.k.all()))
		}
	})
}

// TestExecutableChanged: a replaced program ends what it has begun and is then started anew; one that keeps state stays,
// and so does one whose file is gone.
func TestExecutableChanged(t *testing.T) {
	for name, c := range map[string]struct {
		file  FileState
		edit  func(*catalog.Server)
		stays bool
	}{
		"changed":            {FileChanged, nil, false},
		"changed, stateful":  {FileChanged, func(e *catalog.Server) { e.Stateful = true }, true},
		"missing":            {FileMissing, nil, true},
		"changed, on shared": {FileChanged, global, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := make(chan Outbound, 1)
			mc := newMachine(t, c.edit, toolCalls(got))
			x := initialize(t, mc.s, "2025-11-25", "{}")
			send(t, x, callBody("7"))
			m := <-got
			mc.kill()
			old := mc.k.newest()
			old.file = c.file
			mc.start()
			y := mc.again(x)
			r := resume(t, y, "7", 7)
			waits := send(t, y, `{"jsonrpc":"2.0","id":8,"method":"prompts/list"}`)
			old.result(m, scan(t, m.Body), `{"n":1}`)
			if answer, _ := reply(t, r); !strings.Contains(answer, `"n":1`) {
				t.Errorf("the running call got %s", answer)
			}
			if answer, _ := reply(t, waits); !strings.Contains(answer, "result") {
				t.Errorf("the call that waited got %s", answer)
			}
			if n := len(mc.k.all()); n == 1 != c.stays {
				t.Errorf("%d processes were started", n)
			}
		})
	}
}

// TestProgramReplaced: the same while the daemon runs, looked at from time to time.
func TestProgramReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		file  FileState
		edit  func(*catalog.Server)
		stays bool
	}{
		"changed":           {FileChanged, nil, false},
		"changed, stateful": {FileChanged, func(e *catalog.Server) { e.Stateful = true }, true},
		"missing":           {FileMissing, nil, true},
		"same":              {FileSame, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := make(chan Outbound, 1)
				mc := newMachine(t, c.edit, toolCalls(got))
				x := initialize(t, mc.s, "2025-11-25", "{}")
				r := send(t, x, callBody("7"))
				m := <-got
				old := mc.k.newest()
				old.mu.Lock()
				old.file = c.file
				old.mu.Unlock()
				time.Sleep(lookAtPrograms + 2*time.Second)
				waits := send(t, x, `{"jsonrpc":"2.0","id":8,"method":"prompts/list"}`)
				time.Sleep(5 * time.Second)
				old.result(m, scan(t, m.Body), `{"n":1}`)
				if answer, _ := reply(t, r); !strings.Contains(answer, `"n":1`) {
					t.Errorf("the running call got %s", answer)
				}
				if answer, _ := reply(t, waits); !strings.Contains(answer, "result") {
					t.Errorf("the call that waited got %s", answer)
				}
				if n := len(mc.k.all()); n == 1 != c.stays {
					t.Errorf("%d processes were started", n)
				}
				mc.end()
			})
		})
	}
}

// TestDroppedNotifications: sessions hear that lists may have changed when notifications were lost.
func TestDroppedNotifications(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.kill()
	mc.k.newest().dropped = 3
	mc.start()
	r := mc.again(x).Standalone()
	for _, want := range []string{"tools/list_changed", "resources/list_changed"} {
		if e := next(t, r); !strings.Contains(string(e.Data), want) {
			t.Errorf("the client heard %s, want %s", e.Data, want)
		}
	}
}

// TestOneHangs: a supervisor that does not answer holds up nobody but its own clients.
func TestOneHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
		var sessions []*Session
		for range 5 * adoptAtOnce {
			sessions = append(sessions, initialize(t, mc.s, "2025-11-25", "{}"))
		}
		mc.kill()
		mc.k.hangs = mc.k.all()[3].id
		began := time.Now()
		mc.start()
		for i, x := range sessions {
			if i == 3 {
				continue
			}
			if answer, _ := reply(t, send(t, mc.again(x), `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)); !strings.Contains(answer, "result") {
				t.Errorf("session %d got %s", i, answer)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the others waited %s", took)
		}
		r := send(t, mc.again(sessions[3]), `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)
		if answer, _ := reply(t, r); member(t, answer, "error", "code") != float64(CodeUnavailable) || time.Since(began) > maxAdoptWait+time.Second {
			t.Errorf("after %s its client got %s", time.Since(began), answer)
		}
		time.Sleep(30 * time.Second) // all tries
		if st := mc.s.status(); len(st.Lanes) != len(sessions) || len(mc.k.all()) != len(sessions) {
			t.Errorf("%d lanes of %d processes", len(st.Lanes), len(mc.k.all()))
		}
		mc.end()
	})
}

// TestStopWhileAdopting: a daemon that is stopped before it has adopted leaves everything to the one after it.
func TestStopWhileAdopting(t *testing.T) {
	got := make(chan Outbound, 1)
	mc := newMachine(t, nil, toolCalls(got))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	send(t, x, callBody("7"))
	m := <-got
	mc.kill()
	mc.k.hangs = mc.k.newest().id
	mc.start()
	waits := send(t, mc.again(x), callBody("8"))
	mc.stop(false)
	if answer, _ := reply(t, waits); member(t, answer, "error", "code") != float64(CodeNotSent) || member(t, answer, "error", "data", "mcpx", "cause") != "daemon_restart" {
		t.Errorf("the call that waited got %s", answer)
	}
	mc.k.hangs = ""
	mc.start()
	r := resume(t, mc.again(x), "7", 7)
	mc.k.newest().result(m, scan(t, m.Body), `{"n":1}`)
	if answer, _ := reply(t, r); !strings.Contains(answer, `"n":1`) || len(mc.k.ended) != 0 {
		t.Errorf("the call got %s, ended %q", answer, mc.k.ended)
	}
}

// TestRestoreFails: what cannot be read is reported, and the gateway serves all the same.
func TestRestoreFails(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	mc.store.fails = errors.New("no disk")
	if err := mc.g.Restore(t.Context()); !errors.Is(err, mc.store.fails) {
		t.Errorf("Restore got %v", err)
	}
	x := initialize(t, mc.s, "2025-11-25", "{}")
	if answer, _ := reply(t, send(t, x, `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`)); !strings.Contains(answer, "result") {
		t.Errorf("the call got %s", answer)
	}
	mc.store.fails = nil
}
