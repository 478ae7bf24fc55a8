package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mcpx/internal/fault"
)

// at is a directory as it is found.
func at(real string, inode uint64) Found {
	return Found{Identity: Identity{Real: real, Volume: "f1", Inode: inode, Born: int64(inode)}}
}

func known(all ...Project) Ground {
	return Ground{Home: "/home/dev", Runtime: []string{"/home/dev/.local/state/mcpx"}, Others: all}
}

func TestRegister(t *testing.T) {
	there := shop()
	there.Physical = at("/srv/shop", 7).Identity
	gone := there
	gone.State, gone.Removed, gone.Added, gone.Name = ProjectRemoved, noon, noon.Add(-time.Hour), "old"
	unstable := at("/mnt/share/x", 9)
	unstable.Identity.Unstable = "nfs"
	for what, c := range map[string]struct {
		path, name string
		by         Recognised
		found      Found
		ground     Ground
		state      Registered
		code       string
		check      func(Project) bool
	}{
		"a directory":          {path: "/srv/a dir", found: at("/srv/a dir", 1), ground: known(), state: ProjectAdded, check: func(p Project) bool { return p.Name == "a-dir" && p.ID == "proj_new" }},
		"a slash at the end":   {path: "/srv/a/./b/", found: at("/srv/a/b", 1), ground: known(), state: ProjectAdded, check: func(p Project) bool { return p.Path == "/srv/a/b" && p.Name == "b" }},
		"a name":               {path: "/srv/a", name: "A.1", found: at("/srv/a", 1), ground: known(), state: ProjectAdded, check: func(p Project) bool { return p.Name == "A.1" }},
		"an odd directory":     {path: "/srv/ü", found: at("/srv/ü", 1), ground: known(), state: ProjectAdded, check: func(p Project) bool { return p.Name == "project" }},
		"a name that is taken": {path: "/opt/shop", found: at("/opt/shop", 1), ground: known(there), state: ProjectAdded, check: func(p Project) bool { return p.Name == "shop-2" }},
		"asked for one":        {path: "/opt/x", name: "shop", found: at("/opt/x", 1), ground: known(there), code: "project-exists"},
		"there already":        {path: "/srv/shop", found: at("/srv/shop", 7), ground: known(there), state: ProjectThere, check: func(p Project) bool { return p.ID == there.ID }},
		"there with its name":  {path: "/srv/shop", name: "shop", found: at("/srv/shop", 7), ground: known(there), state: ProjectThere},
		"there with another":   {path: "/srv/shop", name: "store", found: at("/srv/shop", 7), ground: known(there), code: "project-exists"},
		"another one is there": {path: "/srv/shop", found: at("/srv/shop", 8), ground: known(there), code: "project-elsewhere"},
		"it was there": {path: "/srv/shop", name: "shop", found: at("/srv/shop", 7), ground: known(gone), state: ProjectRestored, check: func(p Project) bool {
			return p.ID == gone.ID && p.Added.Equal(gone.Added) && p.Removed.IsZero() && p.Name == "shop"
		}},
		"another one was there":   {path: "/srv/shop", found: at("/srv/shop", 8), ground: known(gone), state: ProjectAdded, check: func(p Project) bool { return p.ID == "proj_new" }},
		"through a link":          {path: "/link", found: at("/srv/shop", 7), ground: known(there), code: "project-overlaps"},
		"a bind mount":            {path: "/mnt/shop", found: at("/mnt/shop", 7), ground: known(there), code: "project-overlaps"},
		"inside":                  {path: "/srv/shop/src", found: at("/srv/shop/src", 1), ground: known(there), code: "project-overlaps"},
		"around":                  {path: "/srv", found: at("/srv", 1), ground: known(there), code: "project-overlaps"},
		"beside":                  {path: "/srv/shop2", found: at("/srv/shop2", 1), ground: known(there), state: ProjectAdded},
		"inside one that is off":  {path: "/srv/shop/src", found: at("/srv/shop/src", 1), ground: known(gone), state: ProjectAdded},
		"nothing":                 {path: "/srv/no", found: Found{Gone: "nothing is there"}, ground: known(), code: "project-missing"},
		"the root":                {path: "/", found: at("/", 2), ground: known(), code: "project-refused"},
		"the root through a link": {path: "/srv/all", found: at("/", 2), ground: known(), code: "project-refused"},
		"home":                    {path: "/home/dev", found: at("/home/dev", 3), ground: known(), code: "project-refused"},
		"around home":             {path: "/home", found: at("/home", 4), ground: known(), code: "project-refused"},
		"in home":                 {path: "/home/dev/w", found: at("/home/dev/w", 5), ground: known(), state: ProjectAdded},
		"mcpx itself":             {path: "/home/dev/.local/state/mcpx/jobs", found: at("/home/dev/.local/state/mcpx/jobs", 6), ground: known(), code: "project-refused"},
		"around mcpx":             {path: "/home/dev/.local", found: at("/home/dev/.local", 6), ground: known(), state: ProjectAdded},
		"a relative path":         {path: "srv", found: at("/srv", 1), ground: known(), code: "project-path-invalid"},
		"no path":                 {path: "", found: at("/srv", 1), ground: known(), code: "project-path-invalid"},
		"a path with NUL":         {path: "/a\x00b", found: at("/srv", 1), ground: known(), code: "project-path-invalid"},
		"a long path":             {path: "/" + strings.Repeat("x", 4096), found: at("/srv", 1), ground: known(), code: "project-path-invalid"},
		"a bad name":              {path: "/srv/a", name: "-a", found: at("/srv/a", 1), ground: known(), code: "project-name-invalid"},
		"a name like an id":       {path: "/srv/a", name: "proj_a", found: at("/srv/a", 1), ground: known(), code: "project-name-invalid"},
		"no stable inodes":        {path: "/mnt/share/x", found: unstable, ground: known(), code: "project-unstable"},
		"no stable ones by path":  {path: "/mnt/share/x", by: ByPath, found: unstable, ground: known(), state: ProjectAdded, check: func(p Project) bool { return p.Usable() == nil }},
		"by something else":       {path: "/srv/a", by: "name", found: at("/srv/a", 1), ground: known(), code: "project-identity-invalid"},
	} {
		if c.by == "" {
			c.by = ByIdentity
		}
		p, state, err := Register(RegisterRequest{ID: "proj_new", Path: c.path, Name: c.name, By: c.by, Found: c.found, Ground: c.ground, Now: noon})
		code := ""
		if err != nil {
			code = fault.From(err).Code
		}
		if code != c.code || state != c.state || c.check != nil && !c.check(p) {
			t.Errorf("%s: %q %v %+v", what, state, err, p)
		}
	}
	// Both are possible when a person wants it.
	for path, found := range map[string]Found{"/srv/shop/src": at("/srv/shop/src", 1), "/link": at("/srv/shop", 7), "/srv": at("/srv", 1)} {
		ground := known(there)
		ground.Overlap = true
		if _, state, err := Register(RegisterRequest{ID: "proj_new", Path: path, By: ByIdentity, Found: found, Ground: ground}); err != nil || state != ProjectAdded {
			t.Errorf("%s with --overlap: %s, %v", path, state, err)
		}
	}
}

func TestRebind(t *testing.T) {
	moved := shop()
	moved.State, moved.Why = ProjectMoved, "nothing is there"
	other := shop()
	other.ID, other.Name, other.Path, other.Physical = "proj_2", "lab", "/srv/lab", at("/srv/lab", 20).Identity
	want := moved
	want.Path, want.Physical, want.State, want.Why = "/srv/new", at("/srv/new", 30).Identity, ProjectOK, ""
	p, changed, err := Rebind(RebindRequest{Project: moved, Path: "/srv/new/", Found: at("/srv/new", 30), Ground: known(moved, other)})
	if d := cmp.Diff(want, p); d != "" || !changed || err != nil {
		t.Errorf("%v, %v\n%s", changed, err, d)
	}
	if _, changed, err := Rebind(RebindRequest{Project: p, Found: at("/srv/new", 30), Ground: known(p)}); changed || err != nil {
		t.Errorf("once more: %v, %v", changed, err)
	}
	for what, c := range map[string]struct {
		in   RebindRequest
		code string
	}{
		"nothing there":    {RebindRequest{Project: moved, Found: Found{Gone: "nothing is there"}}, "project-missing"},
		"home":             {RebindRequest{Project: moved, Path: "/home/dev", Found: at("/home/dev", 1)}, "project-refused"},
		"another project":  {RebindRequest{Project: moved, Path: "/srv/lab", Found: at("/srv/lab", 20)}, "project-overlaps"},
		"a relative path":  {RebindRequest{Project: moved, Path: "new", Found: at("/srv/new", 30)}, "project-path-invalid"},
		"unknown identity": {RebindRequest{Project: moved, By: "x", Found: at("/srv/new", 30)}, "project-identity-invalid"},
	} {
		c.in.Ground = known(moved, other)
		_, _, err := Rebind(c.in)
		if err == nil || fault.From(err).Code != c.code {
			t.Errorf("%s: %v, want %s", what, err, c.code)
		}
	}
}

// TestRegistry adds and removes at random: names and, without --overlap, directories are registered once, and a directory
// that comes back has the id that it had.
func TestRegistry(t *testing.T) {
	dirs := map[string]Found{}
	var paths []string
	for i, path := range []string{"/s", "/s/a", "/s/a/b", "/s/b", "/t/a", "/t/ab"} {
		dirs[path] = at(path, uint64(i+10))
		paths = append(paths, path)
	}
	rapid.Check(t, func(t *rapid.T) {
		var all []Project
		first := map[string]string{} // path to its first id
		for n := range rapid.IntRange(1, 25).Draw(t, "steps") {
			if i := rapid.IntRange(-2, len(all)-1).Draw(t, "remove"); i >= 0 {
				all[i] = Unregister(all[i], noon)
				continue
			}
			path := rapid.SampledFrom(paths).Draw(t, "path")
			p, state, err := Register(RegisterRequest{
				ID: fmt.Sprintf("proj_%02d", n), Path: path, Name: rapid.SampledFrom([]string{"", "", "a", "b"}).Draw(t, "name"), By: ByIdentity, Found: dirs[path], Ground: known(all...), Now: noon,
			})
			if err != nil || state == ProjectThere {
				continue
			}
			if id := first[path]; id != "" && (id != p.ID || state != ProjectRestored) {
				t.Fatalf("%s was %s and is %s, %s", path, id, p.ID, state)
			}
			first[path] = p.ID
			if state == ProjectRestored {
				for i := range all {
					if all[i].ID == p.ID {
						all[i] = p
					}
				}
			} else {
				all = append(all, p)
			}
			for i, p := range all {
				for _, q := range all[:i] {
					if p.State == ProjectRemoved || q.State == ProjectRemoved {
						continue
					}
					if p.Name == q.Name || inside(p.Physical.Real, q.Physical.Real) || inside(q.Physical.Real, p.Physical.Real) {
						t.Fatalf("both are registered: %s at %s, %s at %s", p.Name, p.Path, q.Name, q.Path)
					}
				}
			}
		}
	})
}
