package peers

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/test/rig"
)

// clientVerb makes the test binary run as the client that the suite starts.
const clientVerb = "run-conformance-client"

// clientSuite runs the suite's client scenarios of a revision with a command as the client, and returns its checks and
// its exit code: 0 means that every scored scenario passed.
func clientSuite(t testing.TB, revision string, env []string, command ...string) (checks, int, string) {
	t.Helper()
	out := t.TempDir()
	dir, own := home(t)
	argv := []string{
		node(t), modules(t, "@modelcontextprotocol", "conformance", "dist", "index.js"), "client",
		"--command", strings.Join(command, " "), "--requirements", revision, "--timeout", "120000", "-o", out,
	}
	o := run(t, suiteWithin, dir, append(own, env...), argv...)
	got := results(t, out)
	if len(got) == 0 {
		t.Fatalf("the suite made no check\n%s\n%s", o.stdout, o.stderr)
	}
	return got, o.code, o.stdout + o.stderr
}

// throughGateway is the command of a client that reaches the suite's server through a daemon: this test binary, started
// again, with the client of the Go SDK behind it.
func throughGateway(t testing.TB, g *rig.Gateway) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, clientVerb, g.Binary, g.Addr, fixture(t, "everything-client")}
}

// runClient is what the suite starts for each scenario: as a person would, it adds the scenario's server to the daemon,
// and then lets a client of the Go SDK, which knows the scenario, connect to the daemon instead of the server.
func runClient(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("%s needs a program, an address, a client and a URL", clientVerb)
	}
	program, addr, client, url := args[0], args[1], args[2], args[3]
	name := strings.ReplaceAll(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "/", "-")
	if err := runHere(program, "server", "add", name, "--url", url); err != nil {
		return err
	}
	return runHere(client, "http://"+addr+"/servers/"+name+"/mcp")
}

// runHere runs a program to its end with what this process has.
func runHere(program string, args ...string) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, &said)
	}
	return nil
}

// scored are the scenarios that a revision requires of clients, by the suite's own frozen list.
func scored(t testing.TB, revision string) []string {
	t.Helper()
	raw, err := os.ReadFile(modules(t, "@modelcontextprotocol", "conformance", "requirements", revision+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(raw), "\nclient:\n")
	list, _, whole := strings.Cut(list, "\n\n")
	if !found || !whole {
		t.Fatalf("the suite's list for %s is not what it was", revision)
	}
	return strings.Split(strings.ReplaceAll(list, "  - ", ""), "\n")
}

// TestConformanceClient is leg F: the scored client scenarios of the suite, with a client that reaches the suite's servers
// through the daemon. What passes when it connects to them itself has to pass. Scenarios of servers that want a sign-in
// (auth/...) do not count yet: the daemon signs in nowhere.
func TestConformanceClient(t *testing.T) {
	for revision, count := range map[string]int{legacy: 18, modern: 32} {
		t.Run(revision, func(t *testing.T) {
			required := scored(t, revision)
			if len(required) != count {
				t.Fatalf("%d scored scenarios, not %d: %v", len(required), count, required)
			}
			counts := func(key string) bool {
				return !strings.HasPrefix(key, "auth/") && slices.ContainsFunc(required, func(scenario string) bool { return strings.HasPrefix(key, scenario+"/") })
			}
			want, code, report := clientSuite(t, revision, nil, fixture(t, "everything-client"))
			if code != 0 {
				t.Fatalf("the client itself fails:\n%s", report)
			}
			g := rig.Start(t)
			got, _, report := clientSuite(t, revision, g.Environ(), throughGateway(t, g)...)
			for _, all := range []checks{want, got} {
				maps.DeleteFunc(all, func(key, _ string) bool { return !counts(key) })
			}
			settle(t, "f-"+revision, want, got)
			if t.Failed() {
				t.Log(report)
			}
		})
	}
}
