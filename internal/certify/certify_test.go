package certify

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"mcpx/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pretend puts a program of this name into a PATH of its own.
func pretend(t *testing.T, name, script string) (path string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

// TestFailedStep: what does not work is a failed step, what comes after it was not run, and the scratch home stays for
// whoever looks.
func TestFailedStep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	o := Options{
		Agent: "codex", Mcpx: "/bin/true", Version: "1", Path: pretend(t, "codex", `[ "$1" = --version ] && echo codex 9 && exit; echo "no room in $HOME" >&2; exit 7`),
		Home: "/home/ada", Demo: http.NotFoundHandler(), Progress: new(bytes.Buffer), Now: time.Now,
	}
	c, left, err := Certify(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if c.Outcome != Failed || c.Level != LevelNone || c.Version != "codex 9" || len(c.Digest) != 64 {
		t.Errorf("%+v", c)
	}
	if first := c.Steps[0]; first.Outcome != Failed || !strings.Contains(first.Note, "ended with 7: no room in ~") {
		t.Errorf("the first step: %+v", first)
	}
	for _, s := range c.Steps[1:] {
		if s.Outcome != NotRun {
			t.Errorf("%s: %s, want not-run", s.Name, s.Outcome)
		}
	}
	if text, err := os.ReadFile(filepath.Join(left, "transcript.txt")); err != nil || !strings.Contains(string(text), "$ codex mcp add one") {
		t.Errorf("the transcript: %v\n%s", err, text)
	}
}

func TestCannotBegin(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for agent, code := range map[string]string{"vim": "certify-agent-unknown", "codex": "certify-no-program"} {
		o := Options{Agent: agent, Mcpx: "/bin/true", Path: "/usr/bin:/bin", Demo: http.NotFoundHandler(), Progress: new(bytes.Buffer), Now: time.Now}
		_, left, err := Certify(t.Context(), o)
		if got := fault.From(err); got == nil || got.Code != code || got.Hint == "" || left != "" {
			t.Errorf("%s: %v, want %s with a hint; left %q", agent, err, code, left)
		}
	}
	left, err := filepath.Glob(filepath.Join(os.Getenv("TMPDIR"), "*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %q, %v", left, err)
	}
}

// TestRunLeavesNothing: an agent that leaves a process behind which holds its output does not hold us up.
func TestRunLeavesNothing(t *testing.T) {
	began := time.Now()
	out, err := run(t.Context(), t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, []string{"sh", "-c", "sleep 600 & echo answer; echo complaint >&2; exit 3"})
	if err != nil {
		t.Fatal(err)
	}
	if out.stdout != "answer\n" || !strings.Contains(out.text, "complaint") || out.code != 3 {
		t.Errorf("%+v", out)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %s", took)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := run(ctx, t.TempDir(), []string{"PATH=" + os.Getenv("PATH")}, []string{"sleep", "600"}); fault.From(err).Code != "certify-timeout" {
		t.Errorf("interrupted: %v", err)
	}
}

// TestBetween: what is to happen between two calls happens once, however often the agent asks.
func TestBetween(t *testing.T) {
	var done []int
	m := &Model{Plan: make([]Call, 3), Between: func(n int) { done = append(done, n) }}
	for i := range m.Plan {
		m.Plan[i] = Call{Tool: regexp.MustCompile("echo"), Args: json.RawMessage("{}")}
	}
	tools := []offered{{full: "echo", name: "echo"}}
	for _, results := range [][]string{nil, {"a"}, nil, {"a"}, {"a", "b"}, {"a", "b"}, {"a", "b", "c"}} {
		m.decide(tools, results)
	}
	if diff := cmp.Diff([]int{1, 2}, done); diff != "" {
		t.Errorf("happened (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, m.Results()); diff != "" {
		t.Errorf("results (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]string{"echo"}, m.Offers()); diff != "" {
		t.Errorf("offers (-want +got)\n%s", diff)
	}
}

// TestTap reads who calls in both eras, and hands everything on.
func TestTap(t *testing.T) {
	var arrived []string
	tapped := &tap{to: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		arrived = append(arrived, b.String())
	})}
	s := httptest.NewServer(tapped)
	defer s.Close()
	bodies := []string{
		`{"method":"initialize","params":{"clientInfo":{"name":"ada","version":"1"}}}`, `{"method":"tools/call","params":{}}`, `no json`,
		`{"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"bob","version":"2"}}}}`,
	}
	for i, want := range []struct {
		client string
		calls  int
	}{{"ada 1", 0}, {"", 1}, {"", 0}, {"bob 2", 1}} {
		post(t, s.URL, bodies[i])
		if client, calls := tapped.taken(); client != want.client || calls != want.calls {
			t.Errorf("%s: %q, %d calls; want %q, %d", bodies[i], client, calls, want.client, want.calls)
		}
	}
	if diff := cmp.Diff(bodies, arrived); diff != "" {
		t.Errorf("handed on (-want +got)\n%s", diff)
	}
}

func TestMarkdown(t *testing.T) {
	c := Certificate{
		Agent: "codex", Program: "codex", Version: "1", Outcome: Failed, Level: LevelParsed,
		Steps: []Step{{Name: "written", What: "it writes", Outcome: Failed, Note: "a | b\nc"}}, Config: Hashes{Path: "~/x", Before: "h1", Exact: &Exact{Before: "h2"}},
	}
	got := c.Markdown()
	for _, want := range []string{"# codex: failed", `| written | failed | it writes | a \| b c |`, "| before apply | `h1` |", "| again: before apply | `h2` |"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestRestored(t *testing.T) {
	for want, h := range map[string]Hashes{
		"not reached": {Before: "a"}, "bytes": {Before: "a", Restored: "a"}, "entries": {Before: "a", Restored: "b"},
		"entries, bytes": {Before: "a", Restored: "b", Exact: &Exact{Before: "b", Restored: "b"}},
	} {
		if got := (Certificate{Config: h}).Restored(); got != want {
			t.Errorf("%+v: %q, want %q", h, got, want)
		}
	}
}

// TestCommitted: the certificates of the repository are those of all agents, passed, and name no place of the machine
// that they were made on.
func TestCommitted(t *testing.T) {
	dir := filepath.Join("..", "..", "docs", "certifications")
	for _, agent := range Agents() {
		raw, err := os.ReadFile(filepath.Join(dir, agent+".json"))
		if err != nil {
			t.Error(err)
			continue
		}
		var c Certificate
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Errorf("%s: %v", agent, err)
			continue
		}
		if diff := cmp.Diff(string(raw), string(c.JSON())); diff != "" {
			t.Errorf("%s was edited (-file +again)\n%s", agent, diff)
		}
		if c.Agent != agent || c.Outcome != Passed || c.Level != LevelCalled || c.Client == "" || c.Config.Applied == c.Config.Before {
			t.Errorf("%s: %s, level %s, %+v", agent, c.Outcome, c.Level, c.Config)
		}
		if h := c.Config; h.Restored != h.Before && (h.Used == h.Applied || h.Exact == nil || h.Exact.Restored != h.Exact.Before) {
			t.Errorf("%s: the rollback was not exact: %+v", agent, h)
		}
		text, err := os.ReadFile(filepath.Join(dir, agent+".md"))
		if err != nil || string(text) != c.Markdown() {
			t.Errorf("%s.md is not that of the certificate: %v", agent, err)
		}
		if place := regexp.MustCompile(`/(home|root|Users|tmp|work)/`).Find(raw); place != nil {
			t.Errorf("%s names the place %s", agent, place)
		}
	}
}
