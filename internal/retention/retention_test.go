package retention

import (
	"strings"
	"testing"
	"time"

	"mcpx/internal/event"
)

// TestEveryKindHasAPeriod: what nobody has thought of is kept for ever, and there is nothing of the kind.
func TestEveryKindHasAPeriod(t *testing.T) {
	for kind := range event.Kinds {
		if Usual.Body(kind) == Forever {
			t.Errorf("%s has no period", kind)
		}
	}
	if Usual.Body("unheard.of") != Forever {
		t.Error("a kind that nobody knows is removed")
	}
	for area, want := range map[string]time.Duration{
		"approval": 400, "policy": 400, "auth": 400, "trust": 400, "operation": 30, "job": 30, "activity": 180, "file": 180, "plan": 180, "session": 180,
	} {
		if got := Usual.Body(event.Kind(area + ".x")); got != want*Day {
			t.Errorf("%s is kept for %s, want %d days", area, got, want)
		}
	}
	if Usual.ShortestBody() != 30*Day {
		t.Errorf("the shortest is %s", Usual.ShortestBody())
	}
}

func TestNeeded(t *testing.T) {
	n := Needed{}
	n.Add(event.RefPlan, "plan_a")
	n.Add(event.RefJob, "")
	for what, want := range map[*event.Refs]bool{
		{event.RefPlan: "plan_a", event.RefPath: "/x"}: true, {event.RefJob: "plan_a"}: false, {event.RefJob: ""}: false, {}: false,
	} {
		if n.Any(*what) != want {
			t.Errorf("%v is needed: %t", *what, !want)
		}
	}
}

func TestHold(t *testing.T) {
	type step struct{ ran, wall time.Duration }
	for name, c := range map[string]struct {
		steps []step
		want  Hold
	}{
		"a clock that goes well":         {[]step{{time.Hour, time.Hour}, {time.Hour, time.Hour + time.Minute}}, Hold{}},
		"an hour is no jump":             {[]step{{time.Minute, time.Minute + Jump}}, Hold{}},
		"forwards":                       {[]step{{0, 10 * 365 * Day}}, Hold{By: 10 * 365 * Day, Left: Rest}},
		"backwards":                      {[]step{{time.Hour, -time.Hour}}, Hold{By: 2 * time.Hour, Left: Rest}},
		"it is waited for":               {[]step{{0, Day}, {time.Hour, time.Hour}}, Hold{By: Day, Left: Rest - time.Hour}},
		"and over":                       {[]step{{0, Day}, {Rest, Rest}}, Hold{}},
		"a smaller one begins nothing":   {[]step{{0, Day}, {time.Hour, 9 * time.Hour}}, Hold{By: Day, Left: Rest - time.Hour}},
		"a larger one does":              {[]step{{0, Day}, {time.Hour, 3 * Day}}, Hold{By: 3*Day - time.Hour, Left: Rest}},
		"after the end every one counts": {[]step{{0, Day}, {Rest, Rest}, {0, 2 * time.Hour}}, Hold{By: 2 * time.Hour, Left: Rest}},
	} {
		var h Hold
		for _, s := range c.steps {
			h = h.Passed(s.ran, s.wall)
		}
		if h != c.want || h.Held() != (c.want.Left > 0) {
			t.Errorf("%s: %+v, want %+v", name, h, c.want)
		}
	}
	now := time.Date(2036, 11, 30, 0, 0, 0, 0, time.UTC)
	if h := (Hold{}).Started(now, time.Time{}); h.Held() {
		t.Error("the first start of all waits")
	}
	if h := (Hold{}).Started(now, now.AddDate(-10, 0, 0)); h.Left != Rest || !strings.HasPrefix(h.By.String(), "87672h") {
		t.Errorf("ten years after the last event: %+v", h)
	}
	// A night without a daemon is held for, and is no jump that is told; a year, a step back, and a jump while a daemon runs are.
	for gap, off := range map[time.Duration]bool{14 * time.Hour: true, Absence: true, 400 * Day: false, -2 * time.Hour: false} {
		h := (Hold{}).Started(now, now.Add(-gap))
		if !h.Held() || h.Off != off || strings.Contains(h.Refusal().Message, "no daemon ran") != off {
			t.Errorf("%s without a daemon: %+v, %v", gap, h, h.Refusal())
		}
		if later := h.Passed(time.Hour, 500*Day); later.Off || !later.Held() {
			t.Errorf("a jump after %s: %+v", gap, later)
		}
		if later := h.Passed(Rest, Rest); later != (Hold{}) {
			t.Errorf("over after %s: %+v", gap, later)
		}
	}
	if h := (Hold{By: Day, Left: Rest}).Started(now, now.Add(-time.Hour*9)); h.Off {
		t.Errorf("a night after a jump: %+v", h)
	}
	// A machine that is off each night removes something all the same.
	var nights Hold
	held := 0
	for range 30 {
		nights = nights.Passed(0, 14*time.Hour)
		nights = nights.Passed(10*time.Hour, 10*time.Hour)
		if nights.Held() {
			held++
		}
	}
	if held == 30 {
		t.Error("a machine that is off each night never removes anything")
	}
}
