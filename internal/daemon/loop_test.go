package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/catalog"
	"mcpx/internal/converge"
	"mcpx/internal/event"
)

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestChangeIsSeen: what an agent writes is in the log soon. The figure is printed; the bound is for a machine that does
// much else.
func TestChangeIsSeen(t *testing.T) {
	const bound = 30 * time.Second
	c := config(t)
	d := run(t, c)
	path := filepath.Join(c.Getenv("HOME"), ".codex", "config.toml")
	ctx, stop := context.WithTimeout(t.Context(), bound)
	defer stop()
	seen := make(chan event.Event, 16)
	following := make(chan error, 1)
	go func() {
		following <- api.NewClient(c.Paths.Socket()).Events(ctx, api.EventsQuery{Kind: "config.observed", Follow: true}, func(e event.Event) error {
			seen <- e
			return nil
		})
	}()
	var took []time.Duration
	for i := range 4 {
		began := time.Now()
		writeFile(t, path, fmt.Sprintf("model = \"%d\"\n", i))
		select {
		case e := <-seen:
			took = append(took, time.Since(began))
			if e.Refs[event.RefPath] != path || e.Actor.Channel != "loop" {
				t.Errorf("%+v", e)
			}
		case err := <-following:
			t.Fatalf("change %d is not in the log within %s: %v", i, bound, err)
		}
	}
	t.Logf("from the write to the event: %v; the first includes the directory, which is new", took)
	stop()
	if err := <-following; err != nil {
		t.Logf("the follower was stopped: %v", err)
	}
	// Nothing happened since: another turn tells nothing.
	if err := d.control.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seen) > 0 {
		t.Errorf("a turn without a change told of %+v", <-seen)
	}
}

// TestProjectChangeIsSeen: what is written into a file of a project is in the log soon, whichever agent lists the project
// and whatever becomes of its directories. The figures are printed; the bound is for a machine that does much else.
func TestProjectChangeIsSeen(t *testing.T) {
	const bound = 30 * time.Second
	c := config(t)
	home := c.Getenv("HOME")
	app, site := filepath.Join(home, "src", "app"), filepath.Join(home, "src", "site")
	for _, dir := range []string{app, site} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(app, ".mcp.json"), `{"mcpServers": {}}`)
	writeFile(t, filepath.Join(home, ".claude.json"), fmt.Sprintf(`{"projects": {%q: {}}}`, app))
	run(t, c)
	ctx, stop := context.WithTimeout(t.Context(), bound)
	defer stop()
	seen := make(chan event.Event, 64)
	go func() {
		_ = api.NewClient(c.Paths.Socket()).Events(ctx, api.EventsQuery{Kind: "config.observed", Follow: true}, func(e event.Event) error {
			seen <- e
			return nil
		})
		close(seen)
	}()
	expect := func(path string) {
		t.Helper()
		for e := range seen {
			if e.Refs[event.RefPath] == path {
				return
			}
		}
		t.Fatalf("a change of %s is not in the log within %s", path, bound)
	}
	expect(filepath.Join(app, ".mcp.json"))
	n := 0
	change := func(what, path, text, told string) {
		t.Helper()
		n++
		began := time.Now()
		writeFile(t, path, strings.ReplaceAll(text, "N", fmt.Sprint(n)))
		expect(told)
		t.Logf("%-28s seen after %s", what, time.Since(began).Round(time.Millisecond))
	}
	const doc = `{"mcpServers": {"sN": {"command": "x"}}}`
	for what, rel := range map[string]string{"written": ".mcp.json", "in a new directory": ".cursor/mcp.json", "another agent's": ".gemini/settings.json"} {
		path := filepath.Join(app, rel)
		change(what, path, doc, path)
	}
	block := filepath.Join(app, ".continue", "mcpServers", "one.yaml")
	change("one of several blocks", block, "name: b\nversion: 1.0.0\nschema: v1\nmcpServers:\n  - name: s\n    command: x\n", block)
	path := filepath.Join(app, ".mcp.json")
	if err := os.Rename(app, app+".old"); err != nil {
		t.Fatal(err)
	}
	expect(path) // it is not there
	change("removed and made anew", path, doc, path)

	// Another project becomes known while the daemon runs, by the record of another agent and as a link.
	link := filepath.Join(home, "link")
	if err := os.Symlink(site, link); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(home, ".codex", "config.toml"), fmt.Sprintf("[projects.%q]\ntrust_level = \"trusted\"\n", link))
	expect(filepath.Join(home, ".codex", "config.toml"))
	change("behind a link", filepath.Join(site, ".codex", "config.toml"), "[mcp_servers.sN]\ncommand = \"x\"\n", filepath.Join(link, ".codex", "config.toml"))
	change("behind a link, again", filepath.Join(site, ".codex", "config.toml"), "[mcp_servers.sN]\ncommand = \"x\"\n", filepath.Join(link, ".codex", "config.toml"))
}

// TestLoopEnds: with governance.watch = false nothing runs, and the end of a daemon is the end of its loop.
func TestLoopEnds(t *testing.T) {
	if d := run(t, config(t, "MCPX_GOVERNANCE_WATCH", "false")); d.loop != nil {
		t.Error("the loop runs")
	}
	d := run(t, config(t))
	if err := d.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.loop.done:
	default:
		t.Error("the loop runs on")
	}
}

// TestAuditSpeed prints what `mcpx audit run` costs the daemon for n servers in n/5 files, and fails when it grows much
// faster than they do. MCPX_TEST_FULL=1 takes 1,000 servers and 200 files, too.
func TestAuditSpeed(t *testing.T) {
	sizes := []int{10, 100}
	if os.Getenv("MCPX_TEST_FULL") != "" {
		sizes = append(sizes, 1000)
	}
	best := map[int]time.Duration{}
	for _, n := range sizes {
		first, planned, again := auditTimes(t, n)
		best[n] = slices.Min(again)
		t.Logf("%4d servers, %3d files: first look %v; making %d plans %v; nothing changed %v", n, n/5, first, n, planned, best[n])
	}
	for i, n := range sizes[1:] {
		// Ten times as many cost about ten times as much, and a hundred times if something looks at all for each. A machine
		// that does much else is in between, so the bound is, too.
		if few := sizes[i]; best[n] > 60*max(best[few], 10*time.Millisecond) {
			t.Errorf("%d servers cost %v, %d cost %v", n, best[n], few, best[few])
		}
	}
}

// auditTimes are those of a run that sees everything for the first time, of one that makes a plan for each entry, and of
// some that find nothing new.
func auditTimes(t *testing.T, n int) (first, planned time.Duration, again []time.Duration) {
	t.Helper()
	c := config(t, "MCPX_GOVERNANCE_WATCH", "false")
	run(t, c)
	client, ctx := api.NewClient(c.Paths.Socket()), t.Context()
	var in api.ImportServers
	for i := range n {
		in.Servers = append(in.Servers, catalog.Server{Name: fmt.Sprintf("s%d", i), Stdio: &catalog.Stdio{Command: "npx", Args: []string{fmt.Sprintf("package-%d@1", i)}}})
	}
	if _, err := client.ImportServers(ctx, in); err != nil {
		t.Fatal(err)
	}
	// The agent with one file for some servers reads those of all directories up to the root of the repository.
	project := filepath.Join(c.Getenv("HOME"), "above", "project")
	writeFile(t, filepath.Join(filepath.Dir(project), ".git", "HEAD"), "ref: refs/heads/main\n")
	for i := range n / 5 {
		dir := project
		if i >= 100 {
			dir = filepath.Dir(project)
		}
		var b strings.Builder
		b.WriteString("name: block\nversion: 1.0.0\nschema: v1\nmcpServers:\n")
		for j := i * 5; j < i*5+5; j++ {
			fmt.Fprintf(&b, "  - name: s%d\n    command: npx\n    args: [package-%d@1]\n", j, j)
		}
		writeFile(t, filepath.Join(dir, ".continue", "mcpServers", fmt.Sprintf("%d.yaml", i)), b.String())
	}
	look := func() (time.Duration, api.Audit) {
		began := time.Now()
		out, err := client.RunAudit(ctx, api.RunAudit{Project: project})
		if err != nil || len(out.Files) != n/5 || len(out.Entries) != n {
			t.Fatalf("%d files, %d entries, %v", len(out.Files), len(out.Entries), err)
		}
		return time.Since(began), out
	}
	first, _ = look()
	if _, err := client.SetAgent(ctx, api.SetAgent{Agent: "continue", Level: converge.LevelManaged}); err != nil {
		t.Fatal(err)
	}
	planned, out := look()
	if out.Made != n {
		t.Fatalf("%d plans, want %d", out.Made, n)
	}
	for range 3 {
		took, out := look()
		if again = append(again, took); out.Made+out.Events != 0 {
			t.Errorf("another run made %d plans and %d events", out.Made, out.Events)
		}
	}
	return first, planned, again
}
