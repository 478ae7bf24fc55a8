package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is what a run found. Times are microseconds, memory is bytes, ratios are to the floor of the same rounds.
type report struct {
	Quick  bool        `json:"quick,omitempty"`
	Rows   []row       `json:"rows"`
	Memory []memoryRow `json:"memory,omitempty"`
	Flat   []flatPoint `json:"flat,omitempty"`

	Restart   *restartRow    `json:"restart,omitempty"`
	Pairs     []pair         `json:"pairs,omitempty"`
	Reconcile []reconcileRow `json:"reconcile,omitempty"`
	Bars      []bar          `json:"bars"`
}

// row is one target in one scenario: medians over the rounds.
type row struct {
	Scenario string  `json:"scenario"`
	Target   string  `json:"target"`
	Calls    int     `json:"calls,omitempty"`
	P50      float64 `json:"p50_us,omitempty"`
	P99      float64 `json:"p99_us,omitempty"`
	PerSec   float64 `json:"calls_per_s,omitempty"`
	CPU      float64 `json:"cpu_us_per_call,omitempty"`
	P50Ratio float64 `json:"p50_ratio,omitempty"`
	P99Ratio float64 `json:"p99_ratio,omitempty"`
	Rate     float64 `json:"throughput_ratio,omitempty"`
	Error    string  `json:"error,omitempty"` // the target cannot do this
}

// memoryRow is a daemon with servers that run and do nothing.
type memoryRow struct {
	Servers     int   `json:"servers"`
	Empty       int64 `json:"daemon_before_bytes"` // before the first server was added
	Daemon      int64 `json:"daemon_bytes"`
	Supervisors int   `json:"supervisors"`
	Supervisor  int64 `json:"supervisor_pss_bytes"`       // mean
	Own         int64 `json:"supervisor_anonymous_bytes"` // mean

	// After a SIGKILL of the daemon: while none runs, each with more to keep than it may; and from the start of the next
	// one until all are adopted.
	FullSupervisor int64   `json:"full_supervisor_pss_bytes"`
	FullOwn        int64   `json:"full_supervisor_anonymous_bytes"`
	Adopted        float64 `json:"adopted_ms"`
}

// restartRow are the calls of several clients while the daemon is replaced, in microseconds.
type restartRow struct {
	Clients   int     `json:"clients"`
	Restarts  int     `json:"restarts"`
	Calls     int     `json:"calls"`        // beside restarts
	During    int     `json:"calls_during"` // that a restart touched
	Failed    int     `json:"failed"`
	P99       float64 `json:"p99_us"`
	P99During float64 `json:"p99_during_us"`
	Slowest   float64 `json:"slowest_us"`
	Took      float64 `json:"restart_us"` // of the command, median
}

// flatPoint is the memory of the daemon after so many calls.
type flatPoint struct {
	Calls    int   `json:"calls"`
	Resident int64 `json:"daemon_bytes"`
}

// bar is a promise with what was measured.
type bar struct {
	Text string  `json:"text"`
	Got  float64 `json:"got"`
	Bar  float64 `json:"bar"`
	Ok   bool    `json:"ok"`
}

func micro(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// summarize takes medians over the rounds; a ratio is taken inside each round first.
func summarize(scenario, name string, got, floor []sample) row {
	r := row{Scenario: scenario, Target: name}
	over := func(f func(int) float64) float64 {
		var values []float64
		for i := range got {
			values = append(values, f(i))
		}
		return median(values)
	}
	for _, s := range got {
		r.Calls += s.calls
	}
	r.P50 = over(func(i int) float64 { return micro(got[i].p50) })
	r.P99 = over(func(i int) float64 { return micro(got[i].p99) })
	r.PerSec = over(func(i int) float64 { return got[i].perSec })
	r.CPU = over(func(i int) float64 { return micro(got[i].cpu) })
	if len(floor) == len(got) {
		r.P50Ratio = over(func(i int) float64 { return float64(got[i].p50) / float64(floor[i].p50) })
		r.P99Ratio = over(func(i int) float64 { return float64(got[i].p99) / float64(floor[i].p99) })
		r.Rate = over(func(i int) float64 { return got[i].perSec / floor[i].perSec })
	}
	return r
}

// The bars of the issue.
const (
	maxLatencyRatio  = 1.3      // p50 at 400 B, 1 client, to the floor
	minRate          = 0.8      // throughput at 32 clients, to the floor
	minPeerRate      = 8.0      // the same, to the better npm gateway
	maxSupervisorPSS = 6 << 20  // with the daemon and at least 3 supervisors
	maxDaemon        = 40 << 20 // with 20 idle servers
	maxAdopt         = 2.0      // seconds, 100 servers
	minLedger        = 0.4      // operations that are changes of the database against bare commits
	maxSearch        = 2.0      // time of search_files to that of ripgrep
	maxGrowth        = 1.10     // of the daemon's memory between a fifth of the calls and all of them
)

// judge compares what was measured with the bars. What was not measured has no bar.
func (r *report) judge() {
	find := func(scenario, target string) *row {
		for i := range r.Rows {
			if r.Rows[i].Scenario == scenario && r.Rows[i].Target == target && r.Rows[i].Error == "" {
				return &r.Rows[i]
			}
		}
		return nil
	}
	atMost := func(text string, got, most float64) {
		r.Bars = append(r.Bars, bar{Text: text, Got: got, Bar: most, Ok: got <= most})
	}
	atLeast := func(text string, got, least float64) {
		r.Bars = append(r.Bars, bar{Text: text, Got: got, Bar: least, Ok: got >= least})
	}
	if m := find(scenarios["latency"][0].name, nameShared); m != nil {
		atMost("p50 at 400 B against the floor, at most", m.P50Ratio, maxLatencyRatio)
	}
	load := scenarios["load"][0].name
	if m := find(load, nameShared); m != nil {
		atLeast("throughput of 32 clients against the floor, at least", m.Rate, minRate)
		best := 0.0
		for _, peer := range []string{"supergateway", "mcp-proxy"} {
			if p := find(load, peer); p != nil {
				best = max(best, p.PerSec)
			}
		}
		if best > 0 {
			atLeast("throughput of 32 clients against the better npm gateway, at least", m.PerSec/best, minPeerRate)
		}
	}
	for _, m := range r.Memory {
		if m.Supervisors >= 3 && m.Supervisor > 0 {
			atMost(fmt.Sprintf("PSS of a supervisor beside %d others, MB, at most", m.Supervisors-1), mb(m.Supervisor), mb(maxSupervisorPSS))
		}
		if m.Servers == 20 && m.Daemon > 0 {
			atMost("resident memory of the daemon with 20 idle servers, MB, at most", mb(m.Daemon), mb(maxDaemon))
		}
	}
	for _, m := range r.Memory {
		if m.Servers == 100 && m.Adopted > 0 {
			atMost("seconds until 100 servers are adopted after a SIGKILL, at most", m.Adopted/1000, maxAdopt)
		}
	}
	if x := r.Restart; x != nil {
		atMost("calls that failed because of a restart, at most", float64(x.Failed), 0)
	}
	for _, p := range r.Pairs {
		switch {
		case p.What == opPlan:
			atLeast(fmt.Sprintf("%s against %s, %d callers, at least", p.What, p.Against, p.Callers), p.Ratio, minLedger)
		case p.Scenario == scenarioSubscriber:
			atMost(p.What+", times of a call that "+p.Against+", at most", 1/p.Ratio, maxSlowed)
		case p.Scenario == scenarioSearch:
			atMost(p.What+", times of "+p.Against+", at most", 1/p.Ratio, maxSearch)
		case p.Scenario == scenarioVerify:
			atLeast(p.What+" against "+p.Against+", at least", p.Ratio, minVerify)
		case p.Scenario == scenarioWorkspace:
			atMost(p.What+", times of "+p.Against+", at most", 1/p.Ratio, maxWorkspace[p.Against])
		}
	}
	for _, x := range r.Reconcile {
		if x.Operations == reconcileAt {
			atMost(fmt.Sprintf("reconcile at %d operations, p50 in ms, at most", x.Operations), x.P50, maxReconcile)
			atMost(fmt.Sprintf("reconcile at %d operations, p99 in ms, at most", x.Operations), x.P99, maxReconcileP99)
		}
	}
	if n := len(r.Flat); n > 1 && r.Flat[0].Resident > 0 {
		atMost(fmt.Sprintf("memory after %d calls against %d, at most", r.Flat[n-1].Calls, r.Flat[0].Calls),
			float64(r.Flat[n-1].Resident)/float64(r.Flat[0].Resident), maxGrowth)
	}
}

func (r *report) passed() bool {
	return !slices.ContainsFunc(r.Bars, func(b bar) bool { return !b.Ok })
}

func mb(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// print writes the report for people.
func (r *report) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	last := ""
	for _, x := range r.Rows {
		if x.Scenario != last {
			last = x.Scenario
			_, _ = fmt.Fprintf(w, "\n%s\t p50 us\t p99 us\t calls/s\t CPU us/call\t p50 ratio\t p99 ratio\t rate ratio\t\n", last)
		}
		if x.Error != "" {
			first, _, _ := strings.Cut(x.Error, "\n")
			_, _ = fmt.Fprintf(w, "%s\t -\t -\t -\t -\t -\t -\t -\t %.90s\n", x.Target, first)
			continue
		}
		_, _ = fmt.Fprintf(w, "%s\t %.0f\t %.0f\t %.0f\t %.0f\t %.2f\t %.2f\t %.2f\t\n",
			x.Target, x.P50, x.P99, x.PerSec, x.CPU, x.P50Ratio, x.P99Ratio, x.Rate)
	}
	if len(r.Memory) > 0 {
		_, _ = fmt.Fprint(w, "\nidle servers, all running\t daemon MB\t without any\t supervisor PSS MB\t anonymous\t unattached and full PSS MB\t anonymous\t adopted after ms\t\n")
		for _, m := range r.Memory {
			_, _ = fmt.Fprintf(w, "%d\t %.1f\t %.1f\t %.1f\t %.1f\t %.1f\t %.1f\t %.0f\t\n", m.Servers, mb(m.Daemon), mb(m.Empty),
				mb(m.Supervisor), mb(m.Own), mb(m.FullSupervisor), mb(m.FullOwn), m.Adopted)
		}
	}
	if len(r.Flat) > 0 {
		_, _ = fmt.Fprint(w, "\ncalls\t daemon MB\t\n")
		for _, p := range r.Flat {
			_, _ = fmt.Fprintf(w, "%d\t %.1f\t\n", p.Calls, mb(p.Resident))
		}
	}
	if x := r.Restart; x != nil {
		_, _ = fmt.Fprintf(w, "\n%d restarts under %d clients\t calls\t p99 us\t during\t p99 us\t slowest us\t failed\t command us\t\n", x.Restarts, x.Clients)
		_, _ = fmt.Fprintf(w, "\t %d\t %.0f\t %d\t %.0f\t %.0f\t %d\t %.0f\t\n", x.Calls, x.P99, x.During, x.P99During, x.Slowest, x.Failed, x.Took)
	}
	if len(r.Pairs) > 0 {
		_, _ = fmt.Fprint(w, "\nagainst each other\t \t callers\t per s\t against per s\t ratio\t ms\t against ms\t added ms\t\n")
		for _, p := range r.Pairs {
			one, other := p.took()
			_, _ = fmt.Fprintf(w, "%s\t %s\t %d\t %.1f\t %.1f\t %.2f\t %.2f\t %.2f\t %.2f\t\n", p.What, p.Against, p.Callers, p.Rate, p.Base, p.Ratio, one, other, one-other)
		}
	}
	if len(r.Reconcile) > 0 {
		_, _ = fmt.Fprint(w, "\nreconcile at\t operations\t p50 ms\t p99 ms\t times the first p50\t\n")
		for _, x := range r.Reconcile {
			_, _ = fmt.Fprintf(w, "\t %d\t %.2f\t %.2f\t %.2f\t\n", x.Operations, x.P50, x.P99, x.Growth)
		}
	}
	_ = w.Flush() // the report is all there is; a broken pipe means that nobody reads it
	_, _ = fmt.Fprintln(out)
	for _, b := range r.Bars {
		verdict := "ok    "
		if !b.Ok {
			verdict = "MISSED"
		}
		_, _ = fmt.Fprintf(out, "%s %s %.2f: %.2f\n", verdict, b.Text, b.Bar, b.Got)
	}
}
