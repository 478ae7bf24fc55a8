package wire

import (
	"archive/zip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/test/fakemcp"
	"mcpx/internal/test/rig"
)

// The release before this source. At a release, after its tag is made and internal/cli.release has gone on: the commit
// of the new tag (`git rev-parse 'v1.2.3^{commit}'`) and its version come here. A commit and no tag, because a clone need
// not have tags.
const (
	previousCommit  = "e2b46e1cc4e2a1743b419f93b05a2b0141a84c06"
	previousVersion = "0.1.0"
)

// previous builds the release before this one from the history.
func previous(t *testing.T) string {
	t.Helper()
	root := rig.Root(t)
	if err := exec.Command("git", "-C", root, "cat-file", "-e", previousCommit+"^{commit}").Run(); err != nil {
		// No peer that .ci/install could bring: a source archive and a shallow clone do not have it, in CI neither.
		t.Skipf("skip: the release %s cannot be built: no commit %.12s here (a source archive, a shallow clone, or no git)", previousVersion, previousCommit)
	}
	dir := t.TempDir()
	archive, source := filepath.Join(dir, "source.zip"), filepath.Join(dir, "source")
	if out, err := exec.Command("git", "-C", root, "archive", "--format=zip", "-o", archive, previousCommit).CombinedOutput(); err != nil {
		t.Fatalf("git archive: %v\n%s", err, out)
	}
	z, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if err := os.CopyFS(source, z); err != nil {
		t.Fatal(err)
	}
	return versioned(t, source, previousVersion)
}

// versions are the versions of the supervisors that `ps --json` shows, by server.
func versions(t *testing.T, g *rig.Gateway) map[string]string {
	t.Helper()
	var page api.ProcessPage
	if err := json.Unmarshal([]byte(g.Must("ps", "--json")), &page); err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for _, p := range page.Processes {
		of[p.Server] = p.Version
	}
	return of
}

// TestPreviousRelease: what the release before left is taken over by this source, after a SIGKILL and by an upgrade, and
// the way back is open: the daemon of the release adopts the supervisors of this source as long as both speak one
// version of the attach protocol and the schema is the same. With a newer schema it refuses, and the daemon of this source
// goes on with every call.
func TestPreviousRelease(t *testing.T) {
	old, present := previous(t), rig.Binary(t)

	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		g := rig.New(t)
		g.Binary = old
		g.Serve()
		k, quiet := keep(t, g, "kept", fakemcp.Options{}), keep(t, g, "quiet", fakemcp.Options{})
		g.Add("bridged", rig.Fixture(t, fakemcp.Options{}))
		b := g.Connect("bridged") // of the release, which lives on beside the new daemon
		b.Initialize(`{}`)
		bridged := relay(t, b, "1")
		end := k.begun(t, "7", "in-flight", work("7", "in-flight", `"wait_ms":2500`))
		g.Kill()
		g.Binary = present
		g.Serve()
		if o := <-end; o.Class != "answer" || o.Resumes == 0 || !strings.Contains(string(o.Body), "work in-flight ") {
			t.Errorf("the call in flight ended as %s after %d resumes: %s", o.Class, o.Resumes, o.Body)
		}
		if n := k.count(t, `"in-flight"`); n != 1 {
			t.Errorf("the server was asked %d times", n)
		}
		k.unchanged(t, "8")
		quiet.unchanged(t, "8")
		if got := relay(t, b, "2"); got != bridged {
			t.Errorf("pid %d answers mcpx connect, it was %d", got, bridged)
		}
		mixed(t, g, []string{"kept", "quiet", "bridged"}, keep(t, g, "fresh", fakemcp.Options{}))
	})

	t.Run("upgraded", func(t *testing.T) {
		t.Parallel()
		g := rig.New(t)
		g.Binary = old
		g.Serve()
		k := keep(t, g, "kept", fakemcp.Options{})
		end := k.begun(t, "7", "in-flight", work("7", "in-flight", `"wait_ms":2500`))
		g.Must("daemon", "upgrade", "--binary", present)
		g.Binary = present // the commands
		fresh := keep(t, g, "fresh", fakemcp.Options{})
		if o := <-end; o.Class != "answer" || !strings.Contains(string(o.Body), "work in-flight ") {
			t.Errorf("the call in flight ended as %s: %s", o.Class, o.Body)
		}
		k.unchanged(t, "8")
		mixed(t, g, []string{"kept"}, fresh)

		end = fresh.begun(t, "7", "back", work("7", "back", `"wait_ms":2500`))
		back := g.Run("daemon", "upgrade", "--binary", old)
		if refused := back.Code == 5 && strings.Contains(back.Stderr, "has schema"); !refused {
			if back.Code != 0 {
				t.Fatalf("the way back: exit code %d\n%s%s", back.Code, back.Stdout, back.Stderr)
			}
			g.Binary = old
		} else if !strings.Contains(back.Stderr, "goes on as before") {
			t.Errorf("the refusal says nothing of the daemon that runs: %s", back.Stderr)
		}
		if o := <-end; o.Class != "answer" || !strings.Contains(string(o.Body), "work back ") {
			t.Errorf("the call in flight at the way back ended as %s: %s", o.Class, o.Body)
		}
		k.unchanged(t, "9")
		fresh.unchanged(t, "9")
		mixed(t, g, []string{"kept"}, fresh)
	})
}

// mixed fails unless ps shows supervisors of the release for some servers, and another one for a server of this source.
func mixed(t *testing.T, g *rig.Gateway, released []string, fresh *kept) {
	t.Helper()
	of := versions(t, g)
	for _, name := range released {
		if of[name] != previousVersion {
			t.Errorf("the supervisor of %s has version %q, want %s", name, of[name], previousVersion)
		}
	}
	if got := of[fresh.name]; got == "" || got == previousVersion {
		t.Errorf("the supervisor of this source has version %q", got)
	}
	if out := g.Must("ps"); !slices.Contains(strings.Fields(out), previousVersion) {
		t.Errorf("ps does not show that versions differ:\n%s", out)
	}
}

// relay asks for the pid through `mcpx connect`.
func relay(t *testing.T, b *rig.Bridge, id string) int {
	t.Helper()
	o, err := b.Call(t.Context(), id, tool(id, "pid", `{}`))
	if err != nil || o.Class != "answer" {
		t.Fatalf("mcpx connect: %v %s %s", err, o.Class, o.Body)
	}
	return number(t, o.Body)
}
