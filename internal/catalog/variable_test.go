package catalog

import "testing"

func TestVariableFor(t *testing.T) {
	for name, want := range map[string]string{"X-Org": "X_ORG", "Authorization": "AUTHORIZATION", "GITHUB_TOKEN": "GITHUB_TOKEN"} {
		if got := VariableFor(name); got != want {
			t.Errorf("VariableFor(%q) = %q, want %q", name, got, want)
		}
	}
}
