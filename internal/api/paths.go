package api

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"

	"mcpx/internal/fault"
)

// Paths says where one home of mcpx keeps its files. Two processes with the same environment get the same Paths.
type Paths struct {
	Config string // mcpx.toml
	State  string // lock, database, bundles, logs
	Run    string // sockets only
	Cache  string // may be deleted at any time
	socket string
}

// maxSocketPath bounds the path of a unix socket, in bytes. sun_path holds 104 on macOS and 108 on Linux, and shims put
// longer names beside ours.
const maxSocketPath = 100

// FindPaths decides the directories from the environment: MCPX_HOME puts everything below one directory, else the XDG
// variables with their usual defaults count, on macOS too. Nothing is created.
func FindPaths(getenv func(string) string) (Paths, error) {
	var p Paths
	if home := getenv("MCPX_HOME"); home != "" {
		if !filepath.IsAbs(home) { // it would name another home in every directory
			return Paths{}, fault.New(fault.Invalid, "home-invalid").Saying("MCPX_HOME is %q, which is no absolute path", home).
				Hinting("set it to a whole path, such as $HOME/.mcpx")
		}
		abs := resolved(home)
		p = Paths{Config: filepath.Join(abs, "config"), State: filepath.Join(abs, "state"), Run: filepath.Join(abs, "run"), Cache: filepath.Join(abs, "cache")}
	} else {
		home := getenv("HOME")
		xdg := func(variable, fallback string) string {
			if dir := getenv(variable); filepath.IsAbs(dir) { // the XDG specification says to ignore relative paths
				return filepath.Join(resolved(dir), "mcpx")
			}
			if home == "" {
				return ""
			}
			return filepath.Join(resolved(filepath.Join(home, fallback)), "mcpx")
		}
		p = Paths{Config: xdg("XDG_CONFIG_HOME", ".config"), State: xdg("XDG_STATE_HOME", ".local/state"), Cache: xdg("XDG_CACHE_HOME", ".cache")}
		if p.Config == "" || p.State == "" || p.Cache == "" {
			return Paths{}, fault.New(fault.Invalid, "home-missing").Saying("neither MCPX_HOME nor HOME is set").
				Hinting("set MCPX_HOME to a directory for the state of mcpx")
		}
		p.Run = filepath.Join(p.State, "run")
		if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
			p.Run = filepath.Join(resolved(dir), "mcpx")
		}
	}
	p.socket = filepath.Join(p.Run, "daemon.sock")
	if len(p.socket) > maxSocketPath {
		sum := sha256.Sum256([]byte(p.State))
		p.Run = filepath.Join(privateRuntime(getenv), hex.EncodeToString(sum[:8]))
		p.socket = p.Run + ".sock"
	}
	return p, nil
}

// Socket is the path of the daemon's unix socket.
func (p Paths) Socket() string { return p.socket }

// Settings is the path of the settings file.
func (p Paths) Settings() string { return filepath.Join(p.Config, "mcpx.toml") }

// Policy is the path of the file that says what may be applied without a person.
func (p Paths) Policy() string { return filepath.Join(p.Config, "policy.toml") }

// Catalog is the directory of the servers that a person keeps by hand.
func (p Paths) Catalog() string { return filepath.Join(p.Config, "catalog") }

// Lock is the file whose lock is held for the life of a daemon.
func (p Paths) Lock() string { return filepath.Join(p.State, "lock") }

// Owner is the file that names the holder of Lock.
func (p Paths) Owner() string { return filepath.Join(p.State, "owner.json") }

// StartLock is held by the one command that starts a daemon.
func (p Paths) StartLock() string { return filepath.Join(p.State, "start.lock") }

// Database is the path of the database.
func (p Paths) Database() string { return filepath.Join(p.State, "mcpx.db") }

// Bundles is the directory of the supervisors' bundles.
func (p Paths) Bundles() string { return filepath.Join(p.State, "bundles") }

// Logs is the directory of the daemon's log; Servers below it holds one log for each server.
func (p Paths) Logs() string { return filepath.Join(p.State, "log") }

// resolved follows links in the part of a path that exists: links on the way to a root are resolved once.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolved(parent), filepath.Base(path))
}

// MakePrivate makes a directory 0700 with its parents and refuses one that another user owns or can write to.
func MakePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.New(fault.Unavailable, "state-unwritable").Saying("cannot make the directory %s", dir).
			Hinting("check its owner and mode, or set MCPX_HOME to another directory").Because(err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fault.New(fault.Unavailable, "state-unwritable").Saying("cannot look at %s", dir).Because(err)
	}
	if !info.IsDir() {
		return fault.New(fault.Denied, "state-unsafe").Saying("%s is not a directory", dir).
			Hinting("remove it, or set MCPX_HOME to another directory")
	}
	if !ownedByUs(info) {
		return fault.New(fault.Denied, "state-unsafe").Saying("%s belongs to another user", dir).
			Hinting("set MCPX_HOME to a directory of your own")
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fault.New(fault.Denied, "state-unsafe").Saying("%s can be opened by other users", dir).
				Hinting("run `chmod 700 %s`", dir).Because(err)
		}
	}
	return nil
}
