package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mcpx/internal/api"
	"mcpx/internal/event"
	"mcpx/internal/fault"
	"mcpx/internal/store"
)

// TestReadOnlyStart: DW-74, the part of the start. A daemon on the state of another machine starts, however old the last event is
// and whatever its files say meanwhile, takes nothing of them, decides nothing, and says so in its health.
func TestReadOnlyStart(t *testing.T) {
	if thisHost() == "" {
		t.Skip("skip: another host: this machine has no name of its own in " + machineID)
	}
	c := config(t)
	c.Now = func() time.Time { return time.Now().Add(-2 * time.Hour) }
	d := run(t, c)
	err := d.db.Change(t.Context(), func(tx store.Tx) error {
		_, err := tx.AppendEvent(t.Context(), event.Draft{At: c.Now(), Kind: event.OperationEnded, Actor: event.Actor{Principal: "owner"}, Summary: "x", Body: []byte(`{}`)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Stop(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	loose := filepath.Join(c.Paths.State, "workspaces", "loose", "a.txt")
	for path, content := range map[string]string{
		hostFile(c.Paths): strings.Repeat("0", 64) + "\n", loose: "a",
		filepath.Join(c.Paths.Catalog(), "more.toml"): "[servers.more]\ncommand = \"true\"\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c.Now = time.Now
	d = run(t, c)
	if d.db.Stopped() == nil {
		t.Fatal("it changes what is stored")
	}
	if _, err := os.Stat(loose); err != nil {
		t.Errorf("a directory that no row knows was put aside: %v", err)
	}
	health, err := d.control.Health(api.As(t.Context(), api.Owner), api.HealthQuery{})
	if err != nil || health.State != api.HealthDegraded || len(health.Findings) == 0 || health.Findings[0].Code != "store-degraded" || !strings.Contains(health.Findings[0].Hint, "--rehome") {
		t.Errorf("its health: %+v, %v", health, err)
	}
	if _, err := d.control.Server(api.As(t.Context(), api.Owner), api.ServerRef{Name: "more"}); fault.KindOf(err) != fault.NotFound {
		t.Errorf("the server of a file: %v", err)
	}
}
