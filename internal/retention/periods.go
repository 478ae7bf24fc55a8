package retention

import (
	"math"
	"strings"
	"time"

	"mcpx/internal/event"
)

// Day is how long a day is where periods are told in days.
const Day = 24 * time.Hour

// Forever is the period of what is never removed.
const Forever time.Duration = math.MaxInt64

// MinDisplaced is the shortest period of Displaced: bytes that we took out of a project can be got back that long.
const MinDisplaced = 30 * Day

// Periods say how long data are kept, runtime.md section 10 and durable-work.md section 3. Envelopes of events and the
// outcomes of operations are kept always.
type Periods struct {
	Decisions time.Duration // bodies of events about what people decide, and about the machine
	Changes   time.Duration // bodies of events about what models said, planned and changed
	Effects   time.Duration // bodies of events about calls and commands
	Results   time.Duration // answers of calls, and what commands wrote
	Removals  time.Duration // what restores removed files, at least
	Displaced time.Duration // bytes that were in a project before an edit
}

// Usual are the periods without a setting.
var Usual = Periods{Decisions: 400 * Day, Changes: 180 * Day, Effects: 30 * Day, Results: 30 * Day, Removals: 90 * Day, Displaced: MinDisplaced}

// areas are the kinds of events by their first word. Each has its period: what nobody has thought of is kept for ever.
var areas = map[string]func(Periods) time.Duration{
	"config": decisions, "catalog": decisions, "candidate": decisions, "approval": decisions, "apply": decisions,
	"rollback": decisions, "credential": decisions, "secret": decisions, "auth": decisions, "agent": decisions,
	"service": decisions, "cutover": decisions, "policy": decisions, "trust": decisions, "project": decisions,
	"retention": decisions, "remote": decisions, "server": decisions,

	"plan": changes, "file": changes, "workspace": changes, "session": changes, "activity": changes,
	"generation": changes,

	"operation": effects, "job": effects, "skill": effects,
}

func decisions(p Periods) time.Duration { return p.Decisions }
func changes(p Periods) time.Duration   { return p.Changes }
func effects(p Periods) time.Duration   { return p.Effects }

// Body is how long the body of an event is kept.
func (p Periods) Body(kind event.Kind) time.Duration {
	area, _, _ := strings.Cut(string(kind), ".")
	if of := areas[area]; of != nil {
		return of(p)
	}
	return Forever
}

// ShortestBody is the shortest period of a body: younger ones need not be looked at.
func (p Periods) ShortestBody() time.Duration { return min(p.Decisions, p.Changes, p.Effects) }
