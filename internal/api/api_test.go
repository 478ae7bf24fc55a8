package api

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mcpx/internal/catalog"
	"mcpx/internal/fault"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestFindPaths(t *testing.T) {
	root := t.TempDir()
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	link := filepath.Join(root, "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  func(string) string
		want Paths
	}{
		{"one directory", env("MCPX_HOME", "/m", "HOME", "/h", "XDG_STATE_HOME", "/x"), Paths{Config: "/m/config", State: "/m/state", Run: "/m/run", Cache: "/m/cache"}},
		{"through a link", env("MCPX_HOME", link+"/new"), Paths{Config: root + "/new/config", State: root + "/new/state", Run: root + "/new/run", Cache: root + "/new/cache"}},
		{"defaults", env("HOME", "/h"), Paths{Config: "/h/.config/mcpx", State: "/h/.local/state/mcpx", Run: "/h/.local/state/mcpx/run", Cache: "/h/.cache/mcpx"}},
		{"runtime directory", env("HOME", "/h", "XDG_RUNTIME_DIR", "/r"), Paths{Config: "/h/.config/mcpx", State: "/h/.local/state/mcpx", Run: "/r/mcpx", Cache: "/h/.cache/mcpx"}},
		{"relative paths do not count", env("HOME", "/h", "XDG_STATE_HOME", "rel"), Paths{Config: "/h/.config/mcpx", State: "/h/.local/state/mcpx", Run: "/h/.local/state/mcpx/run", Cache: "/h/.cache/mcpx"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := FindPaths(c.env)
			if err != nil {
				t.Fatal(err)
			}
			if len(c.want.Run)+len("/daemon.sock") > maxSocketPath {
				c.want.Run = got.Run // a long temporary directory: TestLongSocketPath
			}
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(Paths{})); diff != "" {
				t.Error(diff)
			}
			if n := len(got.Socket()); n > maxSocketPath {
				t.Errorf("the path of the socket has %d bytes: %s", n, got.Socket())
			}
		})
	}
	if _, err := FindPaths(env("MCPX_HOME", "here")); fault.From(err).Code != "home-invalid" {
		t.Errorf("a relative home: %v", err)
	}
	if _, err := FindPaths(env()); fault.From(err).Code != "home-missing" {
		t.Errorf("without any home: %v", err)
	}
}

func TestLongSocketPath(t *testing.T) {
	long := "/" + strings.Repeat("x", 120)
	a, err := FindPaths(env("MCPX_HOME", long, "XDG_RUNTIME_DIR", "/run/user/1"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := FindPaths(env("MCPX_HOME", long+"y", "XDG_RUNTIME_DIR", "/run/user/1"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(a.Socket(), "/run/user/1/mcpx/") || len(filepath.Base(a.Socket())) != 16+len(".sock") || a.Socket() == b.Socket() {
		t.Errorf("two long homes: %s and %s", a.Socket(), b.Socket())
	}
	if a.State != long+"/state" {
		t.Errorf("the state moved to %s", a.State)
	}
}

func TestMakePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := MakePrivate(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := MakePrivate(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := MakePrivate(link); fault.From(err).Code != "state-unsafe" {
		t.Errorf("a link: %v", err)
	}
}

func TestDefinition(t *testing.T) {
	for _, c := range []struct {
		s    catalog.Server
		want string
	}{
		{catalog.Server{Stdio: &catalog.Stdio{Command: "npx", Args: []string{"-y", "a b", "it's", ""}}}, `npx -y 'a b' 'it'\''s' ''`},
		{catalog.Server{Stdio: &catalog.Stdio{Command: "x", Args: []string{"--token", "hunter2hunter2"}}}, `x --token '[redacted]'`},
		{catalog.Server{HTTP: &catalog.HTTP{URL: "https://example.com/mcp"}}, "https://example.com/mcp"},
		{catalog.Server{}, ""},
	} {
		if got := (Server{Server: c.s}).Definition(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestNoDaemon(t *testing.T) {
	c := NewClient(filepath.Join(t.TempDir(), "none"))
	_, err := c.Servers(t.Context(), ServersQuery{})
	if f := fault.From(err); f.Code != "daemon-down" || f.Kind != fault.Unavailable || !strings.Contains(f.Hint, "mcpx daemon start") {
		t.Errorf("%#v", f)
	}
}

// TestPathsAreFilled: each operation has a field for each word of its path.
func TestPathsAreFilled(t *testing.T) {
	for _, op := range Ops {
		var want, has []string
		for word := range strings.SplitSeq(op.Path, "/") {
			if name, ok := strings.CutPrefix(word, "{"); ok {
				want = append(want, strings.TrimSuffix(name, "}"))
			}
		}
		in := reflect.TypeOf(op.In)
		for field := range in.Fields() {
			if name := field.Tag.Get("path"); name != "" {
				has = append(has, name)
			}
		}
		slices.Sort(want)
		slices.Sort(has)
		if !slices.Equal(want, has) {
			t.Errorf("%s: the path has %q, %v has %q", op.Name, want, in, has)
		}
	}
}

// TestEmptyNames: what names nothing is refused before it becomes the path of something else.
func TestEmptyNames(t *testing.T) {
	named := 0
	for _, op := range Ops {
		_, err := op.target(op.In)
		if strings.Contains(op.Path, "{") {
			named++
			if fault.From(err).Code != "name-invalid" {
				t.Errorf("%s without a name: %v", op.Name, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", op.Name, err)
		}
	}
	if named == 0 {
		t.Error("no operation has a name in its path")
	}
}
