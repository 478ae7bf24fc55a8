package daemon

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"mcpx/internal/api"
	"mcpx/internal/atomicfile"
	"mcpx/internal/fault"
	"mcpx/internal/process"
	"mcpx/internal/sandbox"
)

// Ability is what this machine can do or cannot, as it was tried just now.
type Ability struct {
	Name   string `json:"name"`
	Works  bool   `json:"works"`
	Detail string `json:"detail"`
	Fix    string `json:"fix,omitempty"`
}

// ProveConfig says for which home abilities are tried.
type ProveConfig struct {
	Paths   api.Paths
	Getenv  func(string) string
	Environ []string
	Exe     string
}

// Prove tries what commands and edits of agents need. What it makes for that is gone afterwards.
func Prove(ctx context.Context, c ProveConfig) []Ability {
	if CheckHome(c.Getenv) != nil { // that is a finding of its own, too
		return []Ability{}
	}
	settings, err := LoadSettings(c.Paths.Settings(), c.Getenv)
	if err != nil { // that is a finding of its own
		settings, _ = LoadSettings("", func(string) string { return "" })
	}
	var all []Ability
	for _, m := range []sandbox.Mechanism{sandbox.Bubblewrap, sandbox.Landlock} {
		all = append(all, proveMechanism(ctx, c, settings, m))
	}
	all = append(all, proveSandbox(ctx, c, settings))
	all = append(all, proveFiles(c.Paths.State)...)
	return append(all, proveJobs(c.Environ))
}

func proveMechanism(ctx context.Context, c ProveConfig, s Settings, m sandbox.Mechanism) Ability {
	a := Ability{Name: "sandbox." + string(m)}
	s.Sandbox = string(m)
	box, err := newSandbox(ctx, s, c.Exe, c.Getenv("HOME"), c.Environ)
	if err != nil {
		a.Detail = err.Error()
		return a
	}
	for _, t := range box.Report().Trials {
		a.Works, a.Detail, a.Fix = t.Works, t.Why, t.Fix
		switch {
		case t.Works && len(t.Gaps) > 0:
			a.Detail = "gaps: " + strings.Join(t.Gaps, ", ")
		case t.Works:
			a.Detail = "a command that tried to get out was held: files, keys, sockets, network, other processes"
		}
	}
	return a
}

// proveSandbox tells what the settings come to.
func proveSandbox(ctx context.Context, c ProveConfig, s Settings) Ability {
	a := Ability{Name: "sandbox"}
	box, err := newSandbox(ctx, s, c.Exe, c.Getenv("HOME"), c.Environ)
	if err == nil {
		var applied sandbox.Applied
		if applied, err = box.Applies(box.Default(), s.SandboxNetwork); err == nil {
			a.Works = applied.Mechanism != sandbox.None
			a.Detail = "sandbox.mechanism " + s.Sandbox + ": level " + applied.Applied + " by " + string(applied.Mechanism)
			if !a.Works {
				a.Detail, a.Fix = "sandbox.mechanism none: commands reach everything that you reach", "set sandbox.mechanism to auto"
			}
			return a
		}
	}
	f := fault.From(err)
	a.Detail, a.Fix = f.Message, f.Hint
	return a
}

// proveFiles tries the file system of the state directory, or, while there is none, that of temporary files.
func proveFiles(state string) []Ability {
	base := state
	if _, err := os.Stat(base); err != nil {
		base = os.TempDir()
	}
	exchange, reflink := Ability{Name: "exchange", Detail: base}, Ability{Name: "reflink", Detail: base}
	dir, err := os.MkdirTemp(base, ".prove-")
	if err != nil {
		exchange.Detail, reflink.Detail = err.Error(), err.Error()
		return []Ability{exchange, reflink}
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what stays is empty files
	if err := tryExchange(dir); err != nil {
		exchange.Detail = base + ": " + err.Error()
		exchange.Fix = "edits work, but an editor that saves at the same moment can lose to them: put the state and the project on a file system that exchanges names"
	}
	exchange.Works = err == nil && exchange.Fix == ""
	if err := tryClone(dir); err != nil {
		reflink.Detail = base + ": " + err.Error() + "; copies take room and time"
	} else {
		reflink.Works = true
	}
	return []Ability{exchange, reflink}
}

func tryExchange(dir string) error {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.WriteFile(a, []byte("a"), 0o600), os.WriteFile(b, []byte("b"), 0o600)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := atomicfile.ExchangeAt(d, "a", d, "b"); err != nil {
		return err
	}
	if data, err := os.ReadFile(a); err != nil || string(data) != "b" {
		return errors.New("the names were not exchanged")
	}
	return nil
}

func tryClone(dir string) error {
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, []byte("shared"), 0o600); err != nil {
		return err
	}
	if err := atomicfile.Clone(from, to); err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			return e.Err
		}
		return err
	}
	if data, err := os.ReadFile(to); err != nil || string(data) != "shared" {
		return errors.New("the copy has other bytes")
	}
	return nil
}

// proveJobs tells whether jobs outlive the daemon.
func proveJobs(environ []string) Ability {
	a := Ability{Name: "jobs", Works: true, Detail: "they outlive the daemon: each has a supervisor in a session of its own"}
	if runtime.GOOS != "linux" {
		return a
	}
	scope, err := process.ScopeCommand(environ)
	switch {
	case err != nil:
		a.Works, a.Detail = false, "this is a unit of systemd, and no scope can be made beside it: "+err.Error()
		a.Fix = "use KillMode=process, as `mcpx daemon install-user-service` writes it"
	case scope != nil:
		a.Detail = "they outlive the daemon: each has a scope of systemd of its own"
	}
	return a
}
