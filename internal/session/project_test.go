package session

import (
	"testing"

	"mcpx/internal/operation"
)

func TestSame(t *testing.T) {
	is := Identity{Real: "/a", Volume: "f1", Inode: 2, Born: 3}
	for what, c := range map[string]struct {
		change func(*Identity)
		same   bool
	}{
		"nothing":              {func(*Identity) {}, true},
		"another spelling":     {func(i *Identity) { i.Real = "/b" }, true},
		"another file system":  {func(i *Identity) { i.Volume = "f2" }, false},
		"an unknown one":       {func(i *Identity) { i.Volume = "" }, true},
		"another inode":        {func(i *Identity) { i.Inode = 9 }, false},
		"the inode used again": {func(i *Identity) { i.Born = 9 }, false},
		"an unknown birth":     {func(i *Identity) { i.Born = 0 }, true},
	} {
		now := is
		c.change(&now)
		if same, why := is.Same(now); same != c.same || same != (why == "") {
			t.Errorf("%s: %v %q, want %v", what, same, why, c.same)
		}
	}
}

func TestLook(t *testing.T) {
	p := shop()
	here := Found{Identity: p.Physical}
	other := here
	other.Identity.Inode = 9
	byPath, removed := p, p
	byPath.By, removed.State = ByPath, ProjectRemoved
	for what, c := range map[string]struct {
		p       Project
		now     Found
		state   ProjectState
		changed bool
	}{
		"as it was":                {p, here, ProjectOK, false},
		"another directory":        {p, other, ProjectMoved, true},
		"another one, by path":     {byPath, other, ProjectOK, false},
		"nothing":                  {p, Found{Gone: "nothing is there"}, ProjectMoved, true},
		"nothing, by path":         {byPath, Found{Gone: "nothing is there"}, ProjectMoved, true},
		"unregistered and nothing": {removed, Found{Gone: "nothing is there"}, ProjectRemoved, false},
	} {
		got, changed := Look(c.p, c.now)
		if got.State != c.state || changed != c.changed || (got.State == ProjectMoved) != (got.Why != "") {
			t.Errorf("%s: %s %q, %v", what, got.State, got.Why, changed)
		}
	}
	moved, _ := Look(p, Found{Gone: "nothing is there"})
	if again, changed := Look(moved, Found{Gone: "nothing is there"}); changed {
		t.Errorf("the same news twice: %+v", again)
	}
	if back, changed := Look(moved, here); back.State != ProjectOK || back.Why != "" || !changed {
		t.Errorf("back again: %+v", back)
	}
	wantCode(t, "moved", moved.Usable(), operation.ProjectMoved)
}

func TestFindProject(t *testing.T) {
	a, b := shop(), shop()
	a.Path = "/link/shop"
	b.ID, b.Name, b.State = "proj_2", "gone", ProjectRemoved
	for name, want := range map[string]bool{
		"shop": true, "proj_1": true, "/link/shop": true, "/srv/shop": true, "/srv/shop/": true,
		"": false, "/": false, "gone": false, "proj_2": false, "SHOP": false, "/srv": false, "proj_": false,
	} {
		if _, ok := FindProject([]Project{b, a}, name); ok != want {
			t.Errorf("%q: %v, want %v", name, ok, want)
		}
	}
}
