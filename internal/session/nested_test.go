package session

import "testing"

func TestRelated(t *testing.T) {
	at := func(real string, inode uint64) Project {
		return Project{Path: "/given" + real, Physical: Identity{Real: real, Volume: "v", Inode: inode}}
	}
	whole, part, bound, beside := at("/srv/shop", 1), at("/srv/shop/paper", 2), at("/mnt/shop", 1), at("/srv/shop2", 4)
	for what, c := range map[string]struct {
		p, q    Project
		related bool
		shares  map[string]bool
	}{
		"a child":                  {part, whole, true, map[string]bool{".": true, "x": true}},
		"a parent":                 {whole, part, true, map[string]bool{".": true, "paper": true, "paper/x": true, "papers": false, "src": false}},
		"mounted elsewhere":        {bound, whole, true, map[string]bool{"x": true}},
		"a name that begins alike": {beside, whole, false, map[string]bool{".": false, "x": false}},
		"by path alone":            {Project{Path: "/srv/shop"}, whole, true, map[string]bool{"x": true}},
	} {
		if Related(c.p, c.q) != c.related || Related(c.q, c.p) != c.related {
			t.Errorf("%s: related is not %v", what, c.related)
		}
		for path, want := range c.shares {
			if Shares(c.p, path, c.q) != want {
				t.Errorf("%s: %s is shared: not %v", what, path, want)
			}
		}
	}
}
