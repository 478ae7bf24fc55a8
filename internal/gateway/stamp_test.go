package gateway

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"mcpx/internal/era"
)

// TestLongIDsOverCrash: a call whose id does not fit into its journal entry cannot be found again. It is not said to be
// unsent.
func TestLongIDsOverCrash(t *testing.T) {
	for _, kind := range kinds {
		for _, long := range []int{maxWitnessed - 2, maxWitnessed - 1, 511, 512, 1000} {
			t.Run(fmt.Sprintf("%s/%d", kind.name, long), func(t *testing.T) {
				id := strconv.Quote(strings.Repeat("i", long))
				got := make(chan Outbound, 1)
				mc := newMachine(t, kind.edit, toolCalls(got))
				x := initialize(t, mc.s, "2025-11-25", "{}")
				reply(t, send(t, x, `{"jsonrpc":"2.0","id":"first","method":"prompts/list"}`))
				send(t, x, callBody(id))
				m := <-got
				mc.k.newest().result(m, scan(t, m.Body), `{"content":[]}`)
				for _, e := range mc.k.newest().entries {
					e.state, e.done = CallAnswered, true
				}
				mc.crash()
				if answer, _ := reply(t, rejoinRaw(t, mc.again(x), id, 0)); !strings.Contains(answer, "-31902") && !strings.Contains(answer, "-31903") {
					t.Errorf("a call that ran was told %.300s", answer)
				}
			})
		}
	}
}

// TestStamps: an event id says how old its stream is. Of what is older than the memory of a supervisor nobody says that it
// was never sent.
func TestStamps(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	mc.crash()
	y := mc.again(x)
	minute := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix()/60, 36) }
	for i, c := range []struct{ stamp, want string }{
		{minute(0), "-31901"},
		{minute(-3 * time.Minute), "-31901"},
		{minute(-8 * time.Minute), "-31902"},
		{minute(-time.Hour), "-31902"},
		{minute(time.Hour), "-31902"},
		{"0", "-31902"},
	} {
		id := strconv.Itoa(100 + i)
		_, r, bad := y.Resume(t.Context(), EventID(era.StreamName([]byte(id)), 7, 0)+"."+c.stamp, false)
		if bad != nil {
			t.Fatal(bad)
		}
		if answer, _ := reply(t, r); !strings.Contains(answer, c.want) {
			t.Errorf("stamp %s got %s, want %s", c.stamp, answer, c.want)
		}
	}
	_, r, bad := y.Resume(t.Context(), EventID(era.StreamName([]byte("200")), 7, 1)+"."+minute(0), false)
	if bad != nil {
		t.Fatal(bad)
	}
	if answer, _ := reply(t, r); !strings.Contains(answer, "-31902") {
		t.Errorf("a client that has seen a message got %s", answer)
	}
	for _, stamp := range []string{"", "-1", "zzzzzzzzzzzzzzzzzz", "1.1", "ä", " 1", strconv.FormatInt(1<<62, 36)} {
		if _, _, bad := y.Resume(t.Context(), EventID("rNw", 7, 0)+"."+stamp, false); bad == nil || bad.Status != 400 {
			t.Errorf("stamp %q: %v", stamp, bad)
		}
	}
}

// TestStampOfAStream: a stream keeps the stamp it began with, and what tells the end of an old call is as old as that.
func TestStampOfAStream(t *testing.T) {
	mc := newMachine(t, nil, toolCalls(make(chan Outbound, 1)))
	x := initialize(t, mc.s, "2025-11-25", "{}")
	if got := x.Standalone().Stamp(); got != "" {
		t.Errorf("the standalone stream has the stamp %q", got)
	}
	st := x.Request([]byte(callBody("7")), scan(t, []byte(callBody("7"))))
	x.Promote(st, []byte("7"))
	r := st.Follow()
	first := r.Stamp()
	began, ok := stampOf([]string{strings.TrimPrefix(first, ".")})
	if age := time.Since(began); !ok || age < 0 || age > 2*time.Minute {
		t.Errorf("stamp %q is %s old", first, age)
	}
	st.began = longAgo
	x.Promote(st, []byte("7"))
	if got := r.Stamp(); got != ".0" {
		t.Errorf("promoted again it has the stamp %q", got)
	}
	mc.crash()
	if got := rejoinRaw(t, mc.again(x), "9", 0).Stamp(); got != first && got <= first {
		t.Errorf("a call that was not sent has the stamp %q; a daemon killed now would make it an unknown one", got)
	}
}
