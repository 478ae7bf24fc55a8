// Package supervise decides when a process that ended may be started again: how long to wait, when to give up, when to
// try once more. It refuses to know what the process is and how it is started.
//
// Invariant: between two starts lies at least the delay that the first one's end called for, and a process in a crash
// loop is tried at most once a minute until a person clears it.
package supervise

import "time"

// State says what a History allows now.
type State string

// The states.
const (
	Ready     State = "ready"      // a start is allowed
	Waiting   State = "waiting"    // in back-off; a start is allowed after the wait
	CrashLoop State = "crash_loop" // given up; one trial a minute, or Clear
)

// Policy is the restart policy of supervisor.md section 9. The zero Policy is DefaultPolicy: each field that is zero
// is taken from there.
type Policy struct {
	First  time.Duration // delay after the first exit
	Most   time.Duration // the delay doubles up to this
	Jitter float64       // part of the delay that randomness may add or take away, 0 to 1
	Health time.Duration // after this long in health the delay starts again from First
	Exits  int           // so many exits within Window are a crash loop
	Window time.Duration
	Early  int           // so many exits in a row before the handshake are a crash loop
	Trial  time.Duration // in a crash loop one start is allowed after this
}

// DefaultPolicy holds the numbers of supervisor.md section 9.
var DefaultPolicy = Policy{
	First: 500 * time.Millisecond, Most: 30 * time.Second, Jitter: 0.2, Health: time.Minute,
	Exits: 5, Window: 5 * time.Minute, Early: 3, Trial: time.Minute,
}

func (p Policy) orDefault() Policy {
	d := DefaultPolicy
	if p.First > 0 {
		d.First = p.First
	}
	if p.Most > 0 {
		d.Most = p.Most
	}
	if p.Jitter > 0 {
		d.Jitter = p.Jitter
	}
	if p.Health > 0 {
		d.Health = p.Health
	}
	if p.Exits > 0 {
		d.Exits = p.Exits
	}
	if p.Window > 0 {
		d.Window = p.Window
	}
	if p.Early > 0 {
		d.Early = p.Early
	}
	if p.Trial > 0 {
		d.Trial = p.Trial
	}
	return d
}

// delay is the pause after so many failures in a row; random in [0, 1) spreads it over ±Jitter.
func (p Policy) delay(failures int, random float64) time.Duration {
	d := p.First
	for range failures - 1 {
		if d *= 2; d >= p.Most {
			d = p.Most
			break
		}
	}
	return time.Duration(float64(d) * (1 + p.Jitter*(2*random-1)))
}
