package peers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/auth"
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

// mostLogIns bounds how often the person of a scenario signs in: a server may ask for more each time.
const mostLogIns = 3

// runClient is what the suite starts for each scenario: as a person would, it adds the scenario's server to the daemon,
// signs in there if that is asked for, and then lets a client of the Go SDK, which knows the scenario, connect to the daemon
// instead of the server.
func runClient(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("%s needs a program, an address, a client and a URL", clientVerb)
	}
	program, addr, client, url := args[0], args[1], args[2], args[3]
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	name := strings.ReplaceAll(scenario, "/", "-")
	if _, err := runHere(program, "server", "add", name, "--url", url); err != nil {
		return err
	}
	call := func() error {
		_, err := runHere(client, "http://"+addr+"/servers/"+name+"/mcp")
		return err
	}
	if !strings.HasPrefix(scenario, "auth/") {
		return call()
	}
	as, err := registered(name)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		if err := logIn(program, append([]string{"server", "login", name, "--no-browser", "--json"}, as...)); err != nil {
			return err
		}
		called := call()
		if called == nil || n == mostLogIns {
			return called
		}
		shown, err := runHere(program, "server", "show", name, "--json")
		if err != nil {
			return err
		}
		var server struct {
			SignIn auth.SignIn `json:"sign_in"`
		}
		if err := json.Unmarshal(shown, &server); err != nil {
			return err
		}
		if server.SignIn.State == auth.SignedIn && len(server.SignIn.Lacks) == 0 {
			return called // signing in again changes nothing
		}
	}
}

// registered is how the person of a scenario says which client mcpx is at the authorization server: the one that the scenario
// names, or that of a document, which counts where the server takes documents.
func registered(name string) ([]string, error) {
	var known struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
	}
	if context := os.Getenv("MCP_CONFORMANCE_CONTEXT"); context != "" {
		if err := json.Unmarshal([]byte(context), &known); err != nil {
			return nil, err
		}
	}
	if known.Secret == "" {
		return []string{"--client-id", "https://conformance-test.local/client-metadata.json"}, nil
	}
	file := filepath.Join(os.Getenv("HOME"), name+".secret")
	return []string{"--client-id", known.ID, "--client-secret-from", "file:" + file}, os.WriteFile(file, []byte(known.Secret), 0o600)
}

// logIn signs in with a browser that says yes at once.
func logIn(program string, args []string) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	said, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for lines := bufio.NewScanner(said); lines.Scan(); {
		var step api.LogInStep
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			complaints.Write(lines.Bytes())
			continue
		}
		if step.State == api.LogInWaiting {
			answer, err := http.Get(step.URL)
			if err != nil {
				fmt.Fprintln(&complaints, err)
				continue
			}
			_ = answer.Body.Close() // that the browser came back is what counts
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, &complaints)
	}
	return nil
}

// runHere runs a program to its end with what this process has, and gives its standard output.
func runHere(program string, args ...string) ([]byte, error) {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, program, args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, out, &complaints)
	}
	return out, nil
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
// through the daemon. What passes when it connects to them itself has to pass.
func TestConformanceClient(t *testing.T) {
	for revision, count := range map[string]int{legacy: 18, modern: 32} {
		t.Run(revision, func(t *testing.T) {
			required := scored(t, revision)
			if len(required) != count {
				t.Fatalf("%d scored scenarios, not %d: %v", len(required), count, required)
			}
			counts := func(key string) bool {
				return slices.ContainsFunc(required, func(scenario string) bool { return strings.HasPrefix(key, scenario+"/") })
			}
			want, code, report := clientSuite(t, revision, nil, fixture(t, "everything-client"))
			if code != 0 {
				t.Fatalf("the client itself fails:\n%s", report)
			}
			g := rig.Start(t)
			got, code, report := clientSuite(t, revision, g.Environ(), throughGateway(t, g)...)
			if code != 0 {
				t.Errorf("exit code %d", code)
			}
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
