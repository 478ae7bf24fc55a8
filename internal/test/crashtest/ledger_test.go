package crashtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"mcpx/internal/test/rig"
)

// entry is one call and what its client was told.
type entry struct {
	client, key string
	pad         int // bytes that the answer has to have behind its text
	class       string
	body        []byte
	resumes     int
}

// ledger is what all clients were told. The keys of its entries are unique.
type ledger struct {
	mu      sync.Mutex // guards the fields below
	entries []entry
	broken  []string // calls without a definite end
}

func (l *ledger) note(client, key string, pad int, o rig.Outcome, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.broken = append(l.broken, fmt.Sprintf("%s, key %s: %v", client, key, err))
		return
	}
	l.entries = append(l.entries, entry{client, key, pad, o.Class, o.Body, o.Resumes})
}

// records is what the fixtures of some servers read.
type records struct {
	times      map[string]int // calls of the tool work, by key
	handshakes int
	torn       []string // lines that are no JSON
}

func readRecords(t *testing.T, files ...string) records {
	t.Helper()
	r := records{times: map[string]int{}}
	for _, file := range files {
		f, err := os.Open(file)
		if os.IsNotExist(err) {
			continue // the server never started
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(f)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			r.take(line)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *records) take(line []byte) {
	var m struct {
		Method string
		Params struct {
			Arguments struct{ Key string }
		}
	}
	if json.Unmarshal(line, &m) != nil {
		r.torn = append(r.torn, fmt.Sprintf("%.200s", line))
		return
	}
	switch m.Method {
	case "initialize", "server/discover":
		r.handshakes++
	case "tools/call":
		r.times[m.Params.Arguments.Key]++
	}
}

// done are the classes that say how often the server was asked, at least and at most.
var done = map[string][2]int{
	"answer": {1, 1}, "error": {1, 1}, "answered_lost": {1, 1},
	"not_sent": {0, 0}, "unavailable": {0, 0}, "busy": {0, 0},
	"sent_unknown": {0, 1}, "timeout": {0, 1}, "broken": {0, 1},
}

// maxShown bounds how much of one kind of failure is printed.
const maxShown = 10

func complain(t *testing.T, what string, all []string) {
	t.Helper()
	if len(all) > 0 {
		t.Errorf("%d × %s:\n%s", len(all), what, strings.Join(all[:min(len(all), maxShown)], "\n"))
	}
}

// check compares what clients were told with what the servers read. It returns how many calls had which class.
func (l *ledger) check(t *testing.T, r records) map[string]int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var wrong, times []string
	classes := map[string]int{}
	for _, e := range l.entries {
		classes[e.class]++
		bounds, known := done[e.class]
		if !known {
			wrong = append(wrong, fmt.Sprintf("%s, key %s: class %q: %.300s", e.client, e.key, e.class, e.body))
			continue
		}
		if e.class == "answer" {
			if key, _, count, pad := worked(e.body); key != e.key || count != 1 || pad != e.pad {
				wrong = append(wrong, fmt.Sprintf("%s asked for %s and got %.300s", e.client, e.key, e.body))
			}
		}
		if n := r.times[e.key]; n < bounds[0] || n > bounds[1] {
			times = append(times, fmt.Sprintf("%s, key %s: told %s, the server was asked %d times: %.300s", e.client, e.key, e.class, n, e.body))
		}
	}
	complain(t, "calls without a definite end", l.broken)
	complain(t, "wrong answers", wrong)
	complain(t, "calls that ran more or less often than their class says", times)
	complain(t, "torn lines at a server", r.torn)
	return classes
}

// worked reads the text of an answer of the tool work. Keys hold no x, so the rest of the text is counted.
func worked(body []byte) (key string, pid, times, pad int) {
	var m struct {
		Result struct{ Content []struct{ Text string } }
	}
	if json.Unmarshal(body, &m) != nil || len(m.Result.Content) != 1 {
		return "", 0, 0, 0
	}
	text := m.Result.Content[0].Text
	if n, _ := fmt.Sscanf(text, "work %s %d %d", &key, &pid, &times); n != 3 {
		return "", 0, 0, 0
	}
	return key, pid, times, strings.Count(text, "x")
}

// summary is a map of counts in a fixed order.
func summary(counts map[string]int) string {
	var parts []string
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
