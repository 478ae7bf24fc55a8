package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestChildEchoes(t *testing.T) {
	id, body := request([]byte("hello"))
	var out bytes.Buffer
	in := string(body) + "\n" + readyBody + "\n" + `{"jsonrpc":"2.0","id":"x","method":"server/discover"}` + "\n"
	if err := runChild(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":` + string(id) + `,"result":{"content":[{"type":"text","text":"hello"}]}}` + "\n" +
		`{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"method not found"}}` + "\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	answer, _, _ := strings.Cut(out.String(), "\n")
	if err := isResult([]byte(answer), id); err != nil {
		t.Error(err)
	}
	if key := idOf([]byte(answer)); key != string(id) {
		t.Errorf("the floor would match %q, want %s", key, id)
	}
	if err := isResult([]byte(answer), []byte("0")); err == nil {
		t.Error("an answer to another call was accepted")
	}
}

func TestPipeMatchesAnswers(t *testing.T) {
	in, toChild := io.Pipe()
	fromChild, out := io.Pipe()
	go func() {
		_ = runChild(in, out)
		_ = out.Close()
	}()
	p := newPipe(toChild, fromChild)
	for range 3 {
		if err := p.call([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	_ = toChild.Close()
}

func TestLastData(t *testing.T) {
	for stream, want := range map[string]string{
		"id: 1\nretry: 1000\ndata: \n\nid: 2\ndata: {\"a\":1}\n\n": `{"a":1}`,
		"data:x\n\n": "x",
		"":           "",
	} {
		if got := string(lastData([]byte(stream))); got != want {
			t.Errorf("lastData(%q) = %q, want %q", stream, got, want)
		}
	}
}

// A ratio is the median of the ratios inside the rounds, not the ratio of the medians: a slow round counts once.
func TestSummarize(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	got := []sample{{calls: 1, p50: ms(2), perSec: 50}, {calls: 1, p50: ms(30), perSec: 5}, {calls: 1, p50: ms(4), perSec: 40}}
	floor := []sample{{p50: ms(1), perSec: 100}, {p50: ms(20), perSec: 5}, {p50: ms(1), perSec: 80}}
	r := summarize("s", "t", got, floor)
	if r.P50 != 4000 || r.P50Ratio != 2 || r.Rate != 0.5 || r.Calls != 3 {
		t.Errorf("row %+v, want p50 4000, ratio 2, rate 0.5", r)
	}
}

func TestJudge(t *testing.T) {
	latency, load := scenarios["latency"][0].name, scenarios["load"][0].name
	r := &report{
		Rows: []row{
			{Scenario: latency, Target: nameShared, P50Ratio: 1.31},
			{Scenario: load, Target: nameShared, Rate: 0.8, PerSec: 800},
			{Scenario: load, Target: "supergateway", PerSec: 100},
			{Scenario: load, Target: "mcp-proxy", PerSec: 900, Error: "broken"},
		},
		Memory: []memoryRow{{Servers: 20, Daemon: 41 << 20, Supervisors: 20, Supervisor: 5 << 20}},
		Flat:   []flatPoint{{Calls: 1, Resident: 100}, {Calls: 2, Resident: 111}},
		Pairs: []pair{
			{Scenario: scenarioLedger, What: opPlan, Callers: 1, Ratio: 0.39},
			{Scenario: scenarioLedger, What: opEdit, Callers: 1, Ratio: 0.01},
			{Scenario: scenarioSearch, Ratio: 0.5},
			{Scenario: scenarioSearch, Ratio: 0.49},
			{Scenario: scenarioCommand, Ratio: 0.01},
			{Scenario: scenarioSubscriber, Ratio: 0.9},
			{Scenario: scenarioSubscriber, Ratio: 0.92},
		},
	}
	r.judge()
	var got []bool
	for _, b := range r.Bars {
		got = append(got, b.Ok)
	}
	if diff := cmp.Diff([]bool{false, true, true, true, false, false, true, false, false, true, false}, got); diff != "" {
		t.Errorf("bars %+v\n-want +got\n%s", r.Bars, diff)
	}
	if r.passed() {
		t.Error("a report with a missed bar has passed")
	}
	var out bytes.Buffer
	r.print(&out)
	if !strings.Contains(out.String(), "MISSED p50") {
		t.Errorf("the report does not name the missed bar:\n%s", &out)
	}
}

// TestDesk: what the ledger is measured by does what it says.
func TestDesk(t *testing.T) {
	dir := t.TempDir()
	d, err := newDesk(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	})
	for _, do := range []func(context.Context) error{d.open, d.plan, d.edit} {
		if err := do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := filepath.Glob(filepath.Join(d.dir, "*.txt")); err != nil || len(files) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestPlant: the tree that is searched has as many files, and as many with a hit, as the benchmark counts on.
func TestPlant(t *testing.T) {
	dir := t.TempDir()
	const n = 300
	if err := plant(dir, n); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.txt"))
	if err != nil || len(files) != n {
		t.Fatalf("%d files, %v, want %d", len(files), err, n)
	}
	hits := 0
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		hits += bytes.Count(raw, []byte("needle_in"))
	}
	if hits != needles {
		t.Errorf("%d hits, want %d", hits, needles)
	}
}
