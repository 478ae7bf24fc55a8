package daemon

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"

	"mcpx/internal/id"
	"mcpx/internal/telemetry"
	"mcpx/internal/tools"
	"mcpx/internal/work"
)

// runtime is what serves /mcp.
func (d *Daemon) runtime(key []byte) (tools.Handler, error) {
	own := hmac.New(sha256.New, key) // as for the sessions of mcp_hub
	own.Write([]byte("arguments of operations"))
	worker, err := work.New(work.Config{
		DB: d.db, Key: own.Sum(nil), IDs: id.NewSource(d.cfg.Now, rand.Reader), Now: d.cfg.Now, Log: telemetry.For(d.cfg.Log, "work"),
		State: d.cfg.Paths.State, Own: []string{d.cfg.Paths.State, d.cfg.Paths.Config, d.cfg.Paths.Run}, Home: d.cfg.Getenv("HOME"), Redact: d.redact.Values,
		Disabled: []work.Toolset{work.SetCommands, work.SetVerified, work.SetExtensions},
	})
	if err != nil {
		return nil, err
	}
	return tools.NewRuntime(tools.RuntimeConfig{
		Worker: worker, Who: d.front.Principal, Version: d.cfg.Version, Log: telemetry.For(d.cfg.Log, "tools"),
	})
}
