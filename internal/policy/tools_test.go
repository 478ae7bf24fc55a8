package policy

import "testing"

func TestTools(t *testing.T) {
	for _, bad := range []string{"", "github", "/x", "github/", "*/x", "*/*", "git*/x", "github/read_*"} {
		if _, err := ParseTools([]string{"a/b", bad}); err == nil {
			t.Errorf("%q is a rule", bad)
		}
	}
	rules, err := ParseTools([]string{"github/*", "notes/add", "odd/a/b"})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[[2]string]bool{
		{"github", "x"}: true, {"notes", "add"}: true, {"odd", "a/b"}: true,
		{"notes", "remove"}: false, {"git", "x"}: false, {"odd", "a"}: false, {"notes", "*"}: false,
	} {
		if rules.Allow(id[0], id[1]) != want {
			t.Errorf("%v is allowed: %v", id, !want)
		}
	}
	if (Tools{}).Allow("github", "x") {
		t.Error("nothing allows everything")
	}
}
