package daemon

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"path/filepath"
	"slices"

	"mcpx/internal/approval"
	"mcpx/internal/auth"
	"mcpx/internal/clientfile"
	"mcpx/internal/httpedge"
	"mcpx/internal/id"
	"mcpx/internal/key"
	"mcpx/internal/policy"
	"mcpx/internal/process"
	"mcpx/internal/telemetry"
	"mcpx/internal/tools"
	"mcpx/internal/work"
)

// workKey makes digests of arguments and tokens of hand-overs, in the tools and in the commands alike.
func workKey(key []byte) []byte {
	return derivedKey(key, "operations and hand-overs")
}

// derivedKey is a key of its own for one purpose: what one seals must not pass as what another does.
func derivedKey(key []byte, purpose string) []byte {
	own := hmac.New(sha256.New, key)
	own.Write([]byte(purpose))
	return own.Sum(nil)
}

// maxVersion bounds what a program prints about its version, in bytes.
const maxVersion = 16 << 10

// try runs a program for what it says about itself, outside of every project, so that no project decides what is run.
func (d *Daemon) try(ctx context.Context, argv []string) ([]byte, error) {
	environ := process.Environ(d.cfg.Environ, []string{"GOTOOLCHAIN=local"}) // go loads no other toolchain to tell its version
	return runner{home: "/", environ: environ, tells: true}.Output(ctx, argv, maxVersion)
}

// newWorker makes what carries out the tools of /mcp.
func (d *Daemon) newWorker(seal []byte) (err error) {
	d.rules = &projectRules{user: func() policy.Policy { return d.policiesNow().Work }, log: d.log}
	runner, err := d.newRunner()
	if err != nil {
		return err
	}
	var off []work.Toolset
	if !d.settings.Commands {
		off = append(off, work.SetCommands)
	}
	if !d.settings.Workspaces {
		off = append(off, work.SetWork)
	}
	if !d.settings.Verified || !d.settings.Commands || !d.settings.Workspaces {
		off = append(off, work.SetVerified)
	}
	if !d.settings.Extensions {
		off = append(off, work.SetExtensions)
	}
	if !d.settings.Environment {
		off = append(off, work.SetEnvironment)
	}
	if !d.settings.Compat {
		off = append(off, work.SetCompat)
	}
	var elicit []approval.Kind
	for _, kind := range d.settings.Elicitation {
		elicit = append(elicit, approval.Kind(kind))
	}
	d.worker, err = work.New(work.Config{
		DB: d.db, Key: workKey(seal), IDs: id.NewSource(d.cfg.Now, rand.Reader), Now: d.cfg.Now, Log: telemetry.For(d.cfg.Log, "work"),
		State: d.cfg.Paths.State, Own: []string{d.cfg.Paths.State, d.cfg.Paths.Config, d.cfg.Paths.Run}, Home: d.cfg.Getenv("HOME"), Data: dataHome(d.cfg.Getenv), Redact: d.redact.Values, RedactText: d.redact.Text, Rules: d.rules.of,
		YAML: clientfile.ReadYAML, Skills: d.skillDirs(),
		Disabled: off, Elicit: elicit, Gate: d.newGate(), Runner: runner, Environ: d.cfg.Environ, Secrets: d.secrets,
		Try: d.try, Upstream: d.gateway, Allowed: func(server, tool string) bool { return d.policiesNow().Tools.Allow(server, tool) },
	})
	return err
}

// skillDirs are where the user's own skills are.
func (d *Daemon) skillDirs() []string {
	dirs := []string{filepath.Join(d.cfg.Paths.Config, "skills")}
	if home := d.cfg.Getenv("HOME"); home != "" {
		for _, agent := range []string{".claude", ".agents", ".codex"} {
			dirs = append(dirs, filepath.Join(home, agent, "skills"))
		}
	}
	return dirs
}

// dataHome is where programs keep the data of the user, by the base directory specification.
func dataHome(getenv func(string) string) string {
	if dir := getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(getenv("HOME"), ".local", "share")
}

// recoverOperations carries to its end what an earlier daemon has begun. What cannot be decided now waits, and keeps
// nobody else from starting.
func (d *Daemon) recoverOperations(ctx context.Context) {
	if err := d.worker.Recover(ctx); err != nil {
		d.log.LogAttrs(ctx, slog.LevelError, "not every operation of an earlier daemon is decided", slog.Any(key.Cause, err))
	}
}

// runtime is what serves /mcp.
func (d *Daemon) runtime() (tools.Handler, error) {
	return tools.NewRuntime(tools.RuntimeConfig{
		Worker: d.worker, Who: d.front.Principal, Remote: fromRemote, Refused: d.control.RemoteCallRefused, Version: d.cfg.Version, Log: telemetry.For(d.cfg.Log, "tools"),
	})
}

// fromRemote says on whose behalf a client of another machine was let in.
func fromRemote(ctx context.Context) (tools.Caller, bool) {
	a, ok := httpedge.Admitted(ctx)
	return tools.Caller{Principal: a.Principal, Channel: "remote", Away: true, ReadOnly: !slices.Contains(a.Scopes, auth.RuntimeUse)}, ok
}
