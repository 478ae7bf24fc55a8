package peers

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// checks are the results of one run of the conformance suite: "scenario/check" to SUCCESS, WARNING, INFO, SKIPPED or
// FAILURE. A check that a scenario makes several times counts with its worst result.
type checks map[string]string

// worst orders the results.
var worst = []string{"SUCCESS", "INFO", "WARNING", "SKIPPED", "FAILURE"}

// suiteWithin bounds one run; it takes two to three seconds, and a hang must not eat the time of CI.
const suiteWithin = 150 * time.Second

// resultDir is how the suite names the directory of one scenario, which is two for those of a group.
var resultDir = regexp.MustCompile(`^(?:(?:authorization-)?server-)?(.+)-\d{4}-\d\d-\d\dT[0-9Z-]+$`)

// suite runs the server suite and returns its checks and its exit code: 0 means that every scored check passed.
func suite(t testing.TB, url string, args ...string) (checks, int, string) {
	t.Helper()
	out := t.TempDir()
	dir, env := home(t)
	argv := append([]string{node(t), modules(t, "@modelcontextprotocol", "conformance", "dist", "index.js"), "server", "--url", url, "-o", out}, args...)
	o := run(t, suiteWithin, dir, env, argv...)
	got := results(t, out)
	if len(got) == 0 {
		t.Fatalf("the suite made no check\n%s\n%s", o.stdout, o.stderr)
	}
	return got, o.code, o.stdout
}

// results reads what the suite wrote into a directory.
func results(t testing.TB, out string) checks {
	t.Helper()
	got := checks{}
	files, err := filepath.Glob(filepath.Join(out, "*", "checks.json")) // a scenario that did not run leaves a directory without it
	if err != nil {
		t.Fatal(err)
	}
	grouped, err := filepath.Glob(filepath.Join(out, "*", "*", "checks.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, grouped...) {
		name, err := filepath.Rel(out, filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		scenario := resultDir.FindStringSubmatch(filepath.ToSlash(name))
		if scenario == nil {
			t.Fatalf("the suite named a directory %s", name)
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []struct{ ID, Status string }
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, c := range list {
			key := scenario[1] + "/" + c.ID
			if old, seen := got[key]; !seen || slices.Index(worst, c.Status) > slices.Index(worst, old) {
				got[key] = c.Status
			}
		}
	}
	return got
}

// transportOwned are checks of how the client's own connection is served, JSON or a stream, which is the gateway's
// choice: it answers JSON within 250 ms, while the fixture always streams. They must not fail; what they are directly
// says nothing. The streams themselves, and resuming them, have tests of their own.
var transportOwned = []string{"server-sse-polling/", "server-sse-multiple-streams/server-sse-streams-functional"}

// differences are the checks of want that are missing or worse in got, as "scenario/check: WANT, got GOT".
func differences(want, got checks) map[string]string {
	diff := map[string]string{}
	for key, w := range want {
		if slices.ContainsFunc(transportOwned, func(own string) bool { return strings.HasPrefix(key, own) }) && got[key] != "FAILURE" {
			continue
		}
		g, made := got[key]
		if !made {
			g = "not made"
		}
		if !made || slices.Index(worst, g) > slices.Index(worst, w) {
			diff[key] = fmt.Sprintf("directly %s, through the gateway %s", w, g)
		}
	}
	for key, g := range got {
		if _, known := want[key]; !known && g == "FAILURE" {
			diff[key] = "a failing check that is not made directly"
		}
	}
	return diff
}

// settle compares the differences with the leg's reviewed list. Both directions fail: a new difference, and an entry
// that is no longer needed, so that the list only shrinks. A check that failed directly, too, in this run (the machine was
// busy) says nothing about its entry.
func settle(t *testing.T, leg string, want, got checks) {
	t.Helper()
	allowed, diff := baseline(t, leg), differences(want, got)
	for _, key := range slices.Sorted(maps.Keys(diff)) {
		if _, ok := allowed[key]; !ok {
			t.Errorf("%s: %s", key, diff[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(allowed)) {
		_, ok := diff[key]
		_, made := got[key]
		if !ok && want[key] != "FAILURE" && (made || want[key] != "") {
			t.Errorf("%s is fine now: remove it from .ci/baselines/%s.txt", key, leg)
		}
	}
}

// baseline reads .ci/baselines/LEG.txt: one "scenario/check  # reason" a line. No file: no exception.
func baseline(t *testing.T, leg string) map[string]string {
	t.Helper()
	name := filepath.Join(rig.Root(t), ".ci", "baselines", leg+".txt")
	f, err := os.Open(name)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	allowed := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		key, reason, _ := strings.Cut(lines.Text(), "#")
		key, reason = strings.TrimSpace(key), strings.TrimSpace(reason)
		if key == "" {
			continue
		}
		if reason == "" {
			t.Errorf("%s: %s has no reason", name, key)
		}
		allowed[key] = reason
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return allowed
}

func TestDifferences(t *testing.T) {
	want := checks{"a/x": "SUCCESS", "a/y": "WARNING", "b/z": "FAILURE", "c/w": "SUCCESS"}
	got := checks{"a/x": "INFO", "a/y": "SUCCESS", "b/z": "FAILURE", "d/new": "FAILURE", "d/fine": "SUCCESS"}
	diff := slices.Sorted(maps.Keys(differences(want, got)))
	if w := []string{"a/x", "c/w", "d/new"}; !slices.Equal(diff, w) {
		t.Errorf("got %v, want %v", diff, w)
	}
}
