package auth

import "testing"

func TestBearer(t *testing.T) {
	for header, want := range map[string]string{
		"Bearer a": "a", "bearer a": "a", "BEARER  a": "a",
		"": "-", "a": "-", "Basic a": "-", "Bearer": "-", "Bearera b": "-",
	} {
		got, ok := Bearer(header)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%q gives %q, want %q", header, got, want)
		}
	}
}
