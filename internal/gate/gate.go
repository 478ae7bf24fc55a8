// Package gate decides whether something may be done that is hard to take back: to rely on mcpx alone (release), and to
// retire another hub (retirement). It gets facts as values and refuses to know how they were found out.
//
// Invariant: a gate is open only when every check passed. A fact that could not be found out is unknown, which is not ok.
package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is the outcome of one check.
type State string

// The outcomes.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Unknown State = "unknown" // it could not run
)

// Check is one line of a gate.
type Check struct {
	Name     string   `json:"check"`
	State    State    `json:"state"`
	Inputs   []string `json:"inputs"`   // what was looked at
	Evidence string   `json:"evidence"` // what was found
	Command  string   `json:"command,omitempty"`
}

// Verdict is the answer of a gate.
type Verdict struct {
	Gate   string    `json:"gate"`
	Open   bool      `json:"open"`
	At     time.Time `json:"at"`
	Checks []Check   `json:"checks"`
}

// Fact is a value, or why it could not be found out.
type Fact[T any] struct {
	Value T
	Why   string // "" it was found out
}

// Known is a fact that was found out.
func Known[T any](v T) Fact[T] { return Fact[T]{Value: v} }

// Missing is a fact that could not be found out.
func Missing[T any](why string) Fact[T] { return Fact[T]{Why: why} }

// Release are the facts of the release gate, governance.md section 11.
type Release struct {
	Now      time.Time
	Audited  Fact[time.Time] // when the files of all agents were last looked at; zero never
	Changed  Fact[time.Time] // when mcpx last changed a file; zero never
	Blockers Fact[[]string]  // code and subject of each
	Agents   Fact[[]Agent]   // that are managed
	Secrets  Fact[[]string]  // events with what looks like a secret
	Lanes    Fact[[]string]  // live lanes that are shared more widely than their server may be
	Chain    Fact[string]    // what is wrong with the log; "" nothing
	Service  Fact[Service]
	Restore  Fact[Restore]
}

// Agent is one managed agent.
type Agent struct {
	Name      string
	Hub       string // how mcp_hub answers it: authenticated is right
	Certified bool   // a valid certificate for the installed version
}

// Service is the daemon as a service of its user.
type Service struct {
	Installed bool
	Enabled   bool
	Running   bool
	Version   string // of the daemon that runs
	Wanted    string // of the program that asks
}

// Restore is what taking the newest backup back would give, without doing it.
type Restore struct {
	Receipt string // "" there is no backup
	Wrong   string // "" the bytes are those from before
}

// Retirement are the facts of the retirement gate.
type Retirement struct {
	Release  Release
	From     string
	Recorded Fact[time.Time] // when a person decided; zero not yet
	Left     []Footprint
}

// Footprint is one kind of trace of the other hub.
type Footprint struct {
	Kind  string // connections, units, programs, processes, files, entries
	Found Fact[[]string]
}

// fresh is how old an audit may be at a gate.
const fresh = time.Hour

// OfRelease decides the release gate.
func OfRelease(f Release) Verdict { return decide("release", f.Now, f.checks()) }

// OfRetirement decides the retirement gate.
func OfRetirement(f Retirement) Verdict {
	checks := append(f.Release.checks(), judged("cutover-recorded", []string{"events of kind cutover.applied"}, "mcpx cutover apply --from "+f.From+" --confirm-retire", f.Recorded,
		func(at time.Time) (bool, string) {
			if at.IsZero() {
				return false, "nobody has decided that " + f.From + " is retired"
			}
			return true, "decided at " + at.UTC().Format(time.RFC3339)
		}))
	return decide("retirement", f.Release.Now, append(checks, OfFootprint(f.From, f.Left)...))
}

// OfFootprint checks each kind of trace.
func OfFootprint(from string, left []Footprint) []Check {
	checks := make([]Check, 0, len(left))
	for _, l := range left {
		checks = append(checks, judged("footprint-"+l.Kind, []string{l.Kind + " that the rules of " + from + " name"}, "mcpx cutover status --from "+from+" --check-footprint", l.Found, none))
	}
	return checks
}

func decide(name string, now time.Time, checks []Check) Verdict {
	open := len(checks) > 0 && !slices.ContainsFunc(checks, func(c Check) bool { return c.State != Passed })
	return Verdict{Gate: name, Open: open, At: now, Checks: checks}
}

// judged makes a check from a fact: one that is not known is unknown whatever the rule says.
func judged[T any](name string, inputs []string, command string, f Fact[T], rule func(T) (bool, string)) Check {
	c := Check{Name: name, State: Unknown, Inputs: inputs, Evidence: f.Why, Command: command}
	if f.Why != "" {
		return c
	}
	ok, evidence := rule(f.Value)
	if c.Evidence, c.State = evidence, Failed; ok {
		c.State, c.Command = Passed, ""
	}
	return c
}

// maxShown bounds what one piece of evidence names.
const maxShown = 5

// none passes when nothing was found.
func none(found []string) (bool, string) {
	if len(found) == 0 {
		return true, "none"
	}
	shown := found[:min(len(found), maxShown)]
	return false, fmt.Sprintf("%d: %s", len(found), strings.Join(shown, ", "))
}

func (f Release) checks() []Check {
	return []Check{
		judged("audit-fresh", []string{"end of the last audit of everything", "end of the last change of a file"}, "mcpx audit run", f.moments(), f.looked),
		judged("no-blocker", []string{"findings of doctor"}, "mcpx doctor", f.Blockers, none),
		judged("hub-authenticated", []string{"answer of mcp_hub to each managed agent"}, "mcpx agents self-check", f.Agents, func(all []Agent) (bool, string) {
			return each(all, func(a Agent) string {
				if a.Hub == "authenticated" {
					return ""
				}
				return a.Name + ": " + or(a.Hub, "not installed")
			})
		}),
		judged("clients-certified", []string{"certificate of each managed agent"}, "mcpx certify AGENT", f.Agents, func(all []Agent) (bool, string) {
			return each(all, func(a Agent) string {
				if a.Certified {
					return ""
				}
				return a.Name + ": no valid certificate for the installed version"
			})
		}),
		judged("log-without-secrets", []string{"bodies and summaries of all events"}, "mcpx audit list", f.Secrets, none),
		judged("sharing-holds", []string{"live lanes", "sharing of their servers"}, "mcpx ps", f.Lanes, none),
		judged("chain-valid", []string{"hashes of all events", "hashes of all backups"}, "mcpx audit verify", f.Chain, func(wrong string) (bool, string) {
			return wrong == "", or(wrong, "whole")
		}),
		judged("service-runs", []string{"description of the service", "service manager", "version of the daemon"}, "mcpx daemon install-user-service --apply --enable", f.Service, Service.right),
		judged("backup-restores", []string{"bytes of the newest backup", "its receipt"}, "mcpx audit verify", f.Restore, Restore.right),
	}
}

func or(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// moments joins what is known of the two times.
func (f Release) moments() Fact[time.Time] {
	if f.Changed.Why != "" {
		return Missing[time.Time](f.Changed.Why)
	}
	return f.Audited
}

func (f Release) looked(at time.Time) (bool, string) {
	switch {
	case at.IsZero():
		return false, "this daemon has not looked at the files of all agents"
	case f.Now.Sub(at) > fresh:
		return false, "the files were looked at " + f.Now.Sub(at).Truncate(time.Second).String() + " ago"
	case at.Before(f.Changed.Value):
		return false, "a file was changed after the last look"
	}
	return true, "looked at " + at.UTC().Format(time.RFC3339)
}

// each passes when there is an agent and nothing is wrong with any of them.
func each(all []Agent, wrong func(Agent) string) (bool, string) {
	if len(all) == 0 {
		return false, "no agent is managed"
	}
	var bad, good []string
	for _, a := range all {
		if text := wrong(a); text != "" {
			bad = append(bad, text)
		} else {
			good = append(good, a.Name)
		}
	}
	if len(bad) > 0 {
		return false, strings.Join(bad, ", ")
	}
	return true, strings.Join(good, ", ")
}

func (s Service) right() (bool, string) {
	switch {
	case !s.Installed:
		return false, "it is not installed"
	case !s.Enabled:
		return false, "it is not enabled, so it does not start at login"
	case !s.Running:
		return false, "it does not run"
	case s.Version != s.Wanted:
		return false, "version " + s.Version + " runs, this is " + s.Wanted
	}
	return true, "runs " + s.Version
}

func (r Restore) right() (bool, string) {
	switch {
	case r.Receipt == "":
		return false, "there is no backup, so nothing was ever put back"
	case r.Wrong != "":
		return false, r.Receipt + ": " + r.Wrong
	}
	return true, r.Receipt + ": the bytes from before"
}
