package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"

	"mcpx/internal/api"
	"mcpx/internal/clientfile"
	"mcpx/internal/converge"
	"mcpx/internal/fault"
	"mcpx/internal/httpedge"
	"mcpx/internal/process"
)

// newFiles makes what edits the files of agents.
func (d *Daemon) newFiles() (*clientfile.Files, error) {
	key, err := installKey(d.cfg.Paths)
	if err != nil {
		return nil, err
	}
	dir := backups(d.cfg.Paths)
	if err := api.MakePrivate(dir); err != nil {
		return nil, err
	}
	return clientfile.NewFiles(clientfile.FilesConfig{
		Backups: dir, Key: key, Getenv: d.cfg.Getenv, Hub: d.hub, Now: d.cfg.Now,
		Keep: func(ctx context.Context, credential, value string) error {
			return d.control.KeepMoved(ctx, credential, value)
		},
	})
}

// hub is what is known of the gateway, to recognise entries that lead to it.
func (d *Daemon) hub(look converge.Look) clientfile.Hub {
	_, port, err := net.SplitHostPort(d.about.Listener)
	if err != nil {
		port = "" // then no URL is ours
	}
	names := maps.Clone(look.Names)
	if names == nil {
		names = map[string]bool{}
	}
	names[converge.HubName] = false // routed, and no entry of the catalog
	return clientfile.Hub{Port: port, Servers: names, Program: d.cfg.Exe, Wrote: d.control.Wrote()}
}

// look is where the daemon itself looks for the files of agents.
func (d *Daemon) look() converge.Look {
	home := d.cfg.Getenv("HOME")
	return converge.Look{Home: home, Moved: Moves(d.cfg.Getenv, home, "")}
}

// programs are the names of the agents' programs, the usual one first.
var programs = map[clientfile.Agent][]string{
	clientfile.Claude: {"claude"}, clientfile.Codex: {"codex"}, clientfile.Gemini: {"gemini"}, clientfile.Cline: {"cline"},
	clientfile.OpenCode: {"opencode"}, clientfile.Kilo: {"kilo"}, clientfile.Qwen: {"qwen"}, clientfile.Copilot: {"copilot"},
	clientfile.Droid: {"droid"}, clientfile.Continue: {"cn"}, clientfile.Amp: {"amp"}, clientfile.Auggie: {"auggie"},
	clientfile.Cursor: {"cursor-agent", "cursor"}, clientfile.VSCode: {"code"}, clientfile.Crush: {"crush"},
}

// agents are the coding agents that are known, with their programs in the PATH of the daemon.
func (d *Daemon) agents() []api.Agent {
	env := []string{"PATH=" + d.cfg.Getenv("PATH")}
	var all []api.Agent
	for _, kind := range clientfile.Agents() {
		a := api.Agent{Agent: string(kind), Title: kind.Title()}
		for _, name := range programs[kind] {
			if path, err := process.Resolve(name, "/", env); err == nil {
				a.Client = path
				break
			}
		}
		all = append(all, a)
	}
	return all
}

func parseAgent(name string) (string, error) {
	kind, err := clientfile.ParseAgent(name)
	return string(kind), err
}

// checkBackup compares a backup with what its receipt says of it.
func (d *Daemon) checkBackup(receipt string, f converge.Written) error {
	no := func(format string, args ...any) error {
		return fault.New(fault.Conflict, "backup-differs").Saying(format, args...).Hinting("the file itself was not touched")
	}
	if filepath.Base(receipt) != receipt || filepath.Base(f.Backup) != f.Backup {
		return no("the receipt names no backup of ours")
	}
	data, err := os.ReadFile(filepath.Join(backups(d.cfg.Paths), receipt, f.Backup))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return no("the backup is gone")
	case err != nil:
		return no("the backup cannot be read")
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.Before.SHA256 {
		return no("the backup is not what was there before")
	}
	return nil
}

// identifyCaller adds to a connection of the socket who is at its other end.
func identifyCaller(ctx context.Context, conn net.Conn) context.Context {
	if unix, ok := conn.(*net.UnixConn); ok {
		if peer, err := process.PeerOf(unix); err == nil {
			ctx = api.CalledBy(ctx, api.Caller{Pid: peer.Pid})
		}
	}
	return httpedge.ConnContext(ctx, conn)
}
