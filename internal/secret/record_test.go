package secret

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecord: a record is kept encrypted, its secrets are known to the redactor, and it has nothing to do with credentials.
func TestRecord(t *testing.T) {
	r, redact, home := resolver(t, nil)
	dir := filepath.Join(home, "secrets")
	ctx := t.Context()
	if text, err := r.Record(ctx, "sign-in/a"); err != nil || text != "" {
		t.Fatalf("before: %q, %v", text, err)
	}
	if err := r.KeepRecord(ctx, "sign-in/a", `{"access_token":"abcdefgh"}`, "abcdefgh", ""); err != nil {
		t.Fatal(err)
	}
	if text, err := r.Record(ctx, "sign-in/a"); err != nil || text != `{"access_token":"abcdefgh"}` {
		t.Errorf("kept: %q, %v", text, err)
	}
	if got := redact.Text("it is abcdefgh"); strings.Contains(got, "abcdefgh") {
		t.Errorf("shown: %s", got)
	}
	data, err := os.ReadFile(filepath.Join(dir, vaultFile))
	if err != nil || strings.Contains(string(data), "abcdefgh") {
		t.Errorf("the file holds it in clear, or %v", err)
	}
	if err := r.KeepRecord(ctx, "sign-in/a", strings.Repeat("x", maxValue+1)); err == nil {
		t.Error("a record of any size is kept")
	}
	if err := r.Forget(ctx, "sign-in/a"); err != nil {
		t.Error(err)
	}
	if text, err := r.Record(ctx, "sign-in/a"); err != nil || text != "" {
		t.Errorf("after: %q, %v", text, err)
	}
}

// TestPassing: values that come and go are hidden while they count, and do not pile up.
func TestPassing(t *testing.T) {
	var r Redactor
	r.Add("kept", "kept-value")
	value := func(n int) string { return fmt.Sprintf("passing-value-%04d", n) }
	for n := range 4 * maxPassing {
		r.AddPassing("token", value(n))
		if n == maxPassing {
			r.AddPassing("token", value(n)) // again
		}
	}
	if got := r.Text(value(4*maxPassing-1) + " " + value(3*maxPassing) + " kept-value"); strings.Contains(got, "value") {
		t.Errorf("shown: %s", got)
	}
	if got := r.Text(value(0)); got != value(0) {
		t.Errorf("the first one is still known: %s", got)
	}
	if most := 40 * (maxPassing + 1); len(r.markers) > most {
		t.Errorf("%d forms are known, want at most %d", len(r.markers), most)
	}
}
