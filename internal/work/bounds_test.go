//go:build unix

package work

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
	"mcpx/internal/policy"
)

// mirrored is what package tools puts beside an answer, at most.
const mirrored = 1536

// texts are those that an answer is made of, some much longer in JSON than they are.
var texts = []string{"", "a", "<&>", "\x01\x02", "ü𝄞", "\xff", strings.Repeat("path/", 40)}

// anyDetail is a detail of a refusal with at most so many parts, now and then with a long text.
func anyDetail(r *rand.Rand, parts int) any {
	switch n := r.IntN(6); {
	case n == 0 && parts > 1:
		list := make([]any, r.IntN(parts))
		for i := range list {
			list[i] = anyDetail(r, parts/len(list))
		}
		return list
	case n == 1 && parts > 1:
		object, most := map[string]any{}, r.IntN(parts)
		for i := range most {
			object[fmt.Sprintf("%s%d", pick(r, texts), i)] = anyDetail(r, parts/most)
		}
		return object
	case n == 2:
		return r.Int64()
	case n == 3 && r.IntN(10) == 0:
		return strings.Repeat(pick(r, texts), r.IntN(1000))
	}
	return pick(r, texts)
}

// Whatever is in a refusal: its answer fits, keeps its code and what is short, and when something was cut the next call gives
// all of it.
func TestRefusalsFit(t *testing.T) {
	var no *operation.Refusal
	d := newDesk(t, tool{Tool: Tool{Name: "refuse"}, read: func(context.Context, *Service, *turn) (any, error) { return nil, no }})
	r := rand.New(rand.NewPCG(85, 1))
	cuts := 0
	for n := range 300 {
		no = operation.Refuse("X", "%s", strings.Repeat(pick(r, texts), r.IntN(pick(r, []int{2, 2, 2, 3000})))).Retrying(fault.Never).With("short", n)
		for i := range r.IntN(8) {
			no = no.With(fmt.Sprint("detail", i), anyDetail(r, pick(r, []int{1, 10, 1000})))
		}
		for range r.IntN(5) {
			no = no.Then(operation.Next{Tool: "read_result", Args: map[string]any{"ref": strings.Repeat("r", r.IntN(1000))}, Why: "more"})
		}
		a := d.as(t, "owner", "refuse", `{"activity":{"other":%q}}`, strings.Repeat("x", 100))
		raw, err := json.Marshal(a)
		if err != nil || len(raw) > inlineLimit-mirrored {
			t.Fatalf("seed 85, answer %d has %d bytes, %v", n, len(raw), err)
		}
		if a.Refusal.Code != "X" || a.Refusal.Retry != fault.Never || len(a.Next) > maxNext {
			t.Fatalf("answer %d: %+v", n, a)
		}
		if a.Spilled == nil {
			if !reflect.DeepEqual(a.Refusal, no) {
				t.Errorf("answer %d was cut, and says nothing of it", n)
			}
			continue
		}
		cuts++
		if fmt.Sprint(a.Refusal.Details["short"]) != fmt.Sprint(n) {
			t.Errorf("answer %d lost what is short: %v", n, a.Refusal.Details["short"])
		}
		if !slices.ContainsFunc(a.Next, func(n operation.Next) bool { return n.Tool == "read_result" && n.Args["ref"] == a.Spilled.Ref }) {
			t.Errorf("answer %d proposes %+v", n, a.Next)
		}
		whole, err := json.Marshal(no)
		if got := d.whole(t, a.Spilled.Ref); err != nil || got != string(whole) {
			t.Fatalf("answer %d: what is kept has %d bytes, want %d, %v", n, len(got), len(whole), err)
		}
	}
	if cuts < 50 || cuts > 250 {
		t.Errorf("%d of 300 refusals were cut: they are not of both sorts", cuts)
	}
}

// longGate judges every command to have thousands of parts, of which the last is forbidden.
type longGate struct{ openGate }

func (longGate) Judge(_ context.Context, c Command) (Ruling, error) {
	one, err := ruled(c, c.Shell)
	for i := range 5000 {
		one.Units = append(one.Units, policy.Unit{Text: strings.Repeat("<", 200), Decision: policy.Confirm, Rule: "default", Reason: "no rule allows it", Line: uint(i + 1)})
	}
	one.Verdict = policy.Join(one.Verdict)
	return one, err
}

// A command of thousands of parts is refused, asked about and told in an answer and an event that have their size.
func TestLongCommandIsTold(t *testing.T) {
	b := newBench(t)
	was := b.with
	b.with = func(c *Config) { was(c); c.Gate = longGate{} }
	b.Stop()
	b.start(t, b.db)
	for n, shell := range []string{"forbidden", "asked"} {
		a := b.call(t, "start_command", `{"operation_id":"op-long-%d","remote_session_id":%q,"shell":%q}`, n, b.session, shell)
		if raw, err := json.Marshal(a); err != nil || len(raw) > inlineLimit-mirrored {
			t.Errorf("%s: the answer has %d bytes, %v", shell, len(raw), err)
		}
		all := b.events(t, string(event.PolicyDecided))
		var told struct {
			Units []policy.Unit
			More  int `json:"more_units"`
		}
		if len(all) != n+1 || json.Unmarshal(all[n].Body, &told) != nil || len(told.Units)+told.More != 5001 || told.Units[0].Text != shell {
			t.Errorf("%s: it is told as %d units and %d more, by %d events", shell, len(told.Units), told.More, len(all))
		} else if len(all[n].Body) > event.MaxBody/4 {
			t.Errorf("%s: the body has %d bytes", shell, len(all[n].Body))
		}
	}
	refused(t, b.call(t, "start_command", `{"operation_id":"op-long-0","remote_session_id":%q,"shell":"forbidden"}`, b.session), policyDenied, fault.Never)
}
