package daemon

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"mcpx/internal/api"
	"mcpx/internal/fault"
)

// TestStateKey: the key is the same for the next daemon, private, and made anew when it is damaged.
func TestStateKey(t *testing.T) {
	paths := api.Paths{State: t.TempDir()}
	first, err := stateKey(paths)
	if err != nil {
		t.Fatal(err)
	}
	again, err := stateKey(paths)
	if err != nil || !bytes.Equal(first, again) || len(first) != stateKeyLen {
		t.Fatalf("the second daemon has the key %x (%v), want %x", again, err, first)
	}
	path := filepath.Join(paths.State, "secrets", "request-state.key")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatalf("mode %v (%v), want 0600", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if anew, err := stateKey(paths); err != nil || len(anew) != stateKeyLen || bytes.Equal(anew, first) {
		t.Fatalf("a damaged key gives %x (%v), want a new one", anew, err)
	}
}

func TestInstallKey(t *testing.T) {
	paths := api.Paths{State: t.TempDir()}
	first, err := installKey(paths)
	if err != nil || len(first) != stateKeyLen {
		t.Fatal(first, err)
	}
	if again, err := installKey(paths); err != nil || !bytes.Equal(first, again) {
		t.Errorf("the second key is another one: %v", err)
	}
	path := filepath.Join(paths.State, "secrets", "install.key")
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := installKey(paths); fault.From(err).Code != "state-unwritable" {
		t.Errorf("a damaged key: %v", err)
	}
}
