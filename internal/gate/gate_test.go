package gate

import (
	"slices"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// ready are facts that open the gate.
func ready() Release {
	return Release{
		Now: now, Audited: Known(now.Add(-time.Minute)), Changed: Known(now.Add(-time.Hour)),
		Agents:  Known([]Agent{{"codex", "authenticated", true}}),
		Service: Known(Service{true, true, true, "1", "1"}),
		Restore: Known(Restore{Receipt: "rcp_1"}),
	}
}

func TestRelease(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Release)
		check  string // that is not passed; "" all are
		state  State
	}{
		{"ready", func(*Release) {}, "", ""},
		{"nothing was changed", func(r *Release) { r.Changed = Known(time.Time{}) }, "", ""},
		{"never audited", func(r *Release) { r.Audited = Known(time.Time{}) }, "audit-fresh", Failed},
		{"audited long ago", func(r *Release) { r.Audited = Known(now.Add(-61 * time.Minute)) }, "audit-fresh", Failed},
		{"changed since", func(r *Release) { r.Changed = Known(now) }, "audit-fresh", Failed},
		{"changes unknown", func(r *Release) { r.Changed = Missing[time.Time]("no receipts") }, "audit-fresh", Unknown},
		{"audit unknown", func(r *Release) { r.Audited = Missing[time.Time]("no daemon") }, "audit-fresh", Unknown},
		{"blocker", func(r *Release) { r.Blockers = Known([]string{"chain-broken log"}) }, "no-blocker", Failed},
		{"blockers unknown", func(r *Release) { r.Blockers = Missing[[]string]("x") }, "no-blocker", Unknown},
		{"open hub", func(r *Release) { r.Agents.Value[0].Hub = "open" }, "hub-authenticated", Failed},
		{"no hub", func(r *Release) { r.Agents.Value[0].Hub = "" }, "hub-authenticated", Failed},
		{"uncertified", func(r *Release) { r.Agents.Value[0].Certified = false }, "clients-certified", Failed},
		{"secret in the log", func(r *Release) { r.Secrets = Known([]string{"event 3"}) }, "log-without-secrets", Failed},
		{"shared too widely", func(r *Release) { r.Lanes = Known([]string{"github"}) }, "sharing-holds", Failed},
		{"lanes unknown", func(r *Release) { r.Lanes = Missing[[]string]("x") }, "sharing-holds", Unknown},
		{"broken chain", func(r *Release) { r.Chain = Known("event 2") }, "chain-valid", Failed},
		{"not installed", func(r *Release) { r.Service.Value.Installed = false }, "service-runs", Failed},
		{"not enabled", func(r *Release) { r.Service.Value.Enabled = false }, "service-runs", Failed},
		{"not running", func(r *Release) { r.Service.Value.Running = false }, "service-runs", Failed},
		{"another version", func(r *Release) { r.Service.Value.Version = "2" }, "service-runs", Failed},
		{"no manager", func(r *Release) { r.Service = Missing[Service]("no systemctl") }, "service-runs", Unknown},
		{"no backup", func(r *Release) { r.Restore = Known(Restore{}) }, "backup-restores", Failed},
		{"other bytes", func(r *Release) { r.Restore.Value.Wrong = "differs" }, "backup-restores", Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			facts := ready()
			c.change(&facts)
			v := OfRelease(facts)
			if v.Open != (c.check == "") {
				t.Errorf("open is %v: %+v", v.Open, v.Checks)
			}
			for _, check := range v.Checks {
				want := Passed
				if check.Name == c.check {
					want = c.state
				}
				if check.State != want || check.Evidence == "" || len(check.Inputs) == 0 || (check.Command == "") != (want == Passed) {
					t.Errorf("%+v, want %s", check, want)
				}
			}
		})
	}
}

func TestNoAgents(t *testing.T) {
	facts := ready()
	facts.Agents = Known([]Agent{})
	if v := OfRelease(facts); v.Open || v.Checks[2].State != Failed || v.Checks[3].State != Failed {
		t.Errorf("a release without an agent: %+v", v)
	}
}

func TestRetirement(t *testing.T) {
	clean := []Footprint{{"connections", Known([]string{})}, {"units", Known([]string{})}}
	for _, c := range []struct {
		name  string
		facts Retirement
		open  bool
		bad   []string
	}{
		{"done", Retirement{Release: ready(), From: "old", Recorded: Known(now), Left: clean}, true, nil},
		{"nobody decided", Retirement{Release: ready(), From: "old", Recorded: Known(time.Time{}), Left: clean}, false, []string{"cutover-recorded"}},
		{"decision unknown", Retirement{Release: ready(), From: "old", Recorded: Missing[time.Time]("x"), Left: clean}, false, []string{"cutover-recorded"}},
		{"a connection", Retirement{Release: ready(), From: "old", Recorded: Known(now), Left: []Footprint{{"connections", Known([]string{"port 1"})}}}, false, []string{"footprint-connections"}},
		{"not looked", Retirement{Release: ready(), From: "old", Recorded: Known(now), Left: []Footprint{{"processes", Missing[[]string]("not on this system")}}}, false, []string{"footprint-processes"}},
		{"no release", Retirement{Release: Release{Now: now, Agents: Known([]Agent{{"codex", "authenticated", true}})}, From: "old", Recorded: Known(now), Left: clean}, false, []string{"audit-fresh", "service-runs", "backup-restores"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := OfRetirement(c.facts)
			var bad []string
			for _, check := range v.Checks {
				if check.State != Passed {
					bad = append(bad, check.Name)
				}
			}
			if v.Open != c.open || !slices.Equal(bad, c.bad) {
				t.Errorf("open is %v, not passed: %v", v.Open, bad)
			}
		})
	}
}
