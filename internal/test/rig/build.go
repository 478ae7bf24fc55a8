package rig

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"mcpx/internal/test/fakemcp"
)

// fixtureVerb makes a test binary run a fixture instead of its tests.
const fixtureVerb = "run-fakemcp"

// Main is the TestMain of packages that drive the program: `func TestMain(m *testing.M) { os.Exit(rig.Main(m)) }`.
func Main(m *testing.M) int {
	if len(os.Args) > 1 && os.Args[1] == fixtureVerb {
		return fakemcp.Main(os.Args[2:], os.Stdin, os.Stdout, os.Stderr)
	}
	code := m.Run()
	if dir := builds.dir; dir != "" {
		_ = os.RemoveAll(dir) // a leftover in the temporary directory is no failure
	}
	return code
}

// Fixture is the command line of a stdio fixture: this test binary, started again.
func Fixture(t testing.TB, o fakemcp.Options) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{self, fixtureVerb}, o.Flags()...)
}

// builds are the binaries of this test binary, by build tags.
var builds struct {
	mu  sync.Mutex // guards the fields below, and is held while one builds
	dir string
	of  map[string]error
}

// Binary builds mcpx once for each test binary and returns its path. MCPX_TEST_RACE=1 builds it with the race detector.
func Binary(t testing.TB) string { return Tagged(t, "") }

// Tagged is Binary with build tags.
func Tagged(t testing.TB, tags string) string {
	t.Helper()
	builds.mu.Lock()
	defer builds.mu.Unlock()
	if builds.dir == "" {
		dir, err := os.MkdirTemp("", "mcpx-bin") //nolint:usetesting // it outlives the test that builds
		if err != nil {
			t.Fatal(err)
		}
		builds.dir, builds.of = dir, map[string]error{}
	}
	path := filepath.Join(builds.dir, "mcpx"+tags) // a name of its own keeps the plain one plain: tests read it in ps
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	err, done := builds.of[tags]
	if !done {
		err = build(t, path, tags)
		builds.of[tags] = err
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func build(t testing.TB, path, tags string) error {
	args := []string{"build", "-tags", tags, "-o", path}
	if os.Getenv("MCPX_TEST_RACE") != "" {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, ".")...)
	cmd.Dir = Root(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// Root is the directory of the module.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("rig: no go.mod above the working directory")
		}
		dir = parent
	}
}

// CI says whether a missing tool is a failure.
func CI() bool { return os.Getenv("CI") == "true" }

// Missing skips the test by name, or fails it in CI: what CI does not have it must install.
func Missing(t testing.TB, what string) {
	t.Helper()
	if CI() {
		t.Fatalf("missing in CI: %s (.ci/install brings it)", what)
	}
	t.Skipf("skip: %s is not installed (run .ci/install)", what)
}

// Cached is a path below a set that .ci/install keeps, for example Cached(t, "peers", "node_modules"). The set's
// directory is named after the digest of its lock file, so a changed lock never meets an old set.
func Cached(t testing.TB, set, lock string, more ...string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(Root(t), ".ci", set, lock))
	if err != nil {
		t.Fatal(err)
	}
	cache := os.Getenv("MCPX_CI_CACHE")
	if cache == "" {
		base := os.Getenv("XDG_CACHE_HOME")
		if base == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				t.Fatal(err)
			}
			base = filepath.Join(home, ".cache")
		}
		cache = filepath.Join(base, "mcpx-ci")
	}
	sum := sha256.Sum256(raw)
	path := filepath.Join(append([]string{cache, set + "-" + hex.EncodeToString(sum[:])[:12]}, more...)...)
	if _, err := os.Stat(path); err != nil {
		Missing(t, path)
	}
	return path
}
