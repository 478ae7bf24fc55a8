//go:build unix

package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mcpx/internal/fault"
	"mcpx/internal/gateway"
	"mcpx/internal/id"
	"mcpx/internal/process"
)

// Config holds what a Backend needs. All fields but Ladder and OrphanTTL are required.
type Config struct {
	StateDir string           // bundles lie in bundles/ below it
	RunDir   string           // sockets lie in shim/ below it
	Exe      string           // this binary, started again as a supervisor
	Version  string           // of this binary
	Epoch    uint64           // counter of daemon starts, at least 1; a higher one fences a lower one off
	Environ  []string         // our own environment; children get the allowed part of it
	Now      func() time.Time // clock
	IDs      *id.Source       // names of bundles
	Log      *slog.Logger

	Ladder    process.Ladder // steps of an orderly end; a step that is zero is the default
	Steal     bool           // Adopt takes children from a daemon of an earlier epoch that holds them
	OrphanTTL time.Duration  // a child without a daemon is ended after this; 0 is 10 min, negative never
}

// defaultOrphanTTL is how long a child lives on without any daemon (supervisor.md section 8).
const defaultOrphanTTL = 10 * time.Minute

// Backend opens stdio servers for the gateway: through a supervisor, or as children of this process.
type Backend struct {
	cfg   Config
	self  process.Identity
	speak protocols
	files programs
	scope scope
	join  sync.WaitGroup // clean-up that goes on after a link was closed

	orphanTTL atomic.Int64 // Config.OrphanTTL, or what was set since
}

var _ gateway.Backend = (*Backend)(nil)

// New makes a Backend. Nothing is read or started.
func New(c Config) (*Backend, error) {
	switch {
	case !filepath.IsAbs(c.StateDir):
		return nil, fmt.Errorf("shim: Config.StateDir is %q, want an absolute path", c.StateDir)
	case !filepath.IsAbs(c.RunDir):
		return nil, fmt.Errorf("shim: Config.RunDir is %q, want an absolute path", c.RunDir)
	case !filepath.IsAbs(c.Exe):
		return nil, fmt.Errorf("shim: Config.Exe is %q, want an absolute path", c.Exe)
	case c.Epoch == 0:
		return nil, errors.New("shim: Config.Epoch is 0, want at least 1")
	case c.Now == nil, c.IDs == nil, c.Log == nil:
		return nil, errors.New("shim: Config.Now, IDs and Log are required")
	}
	if c.OrphanTTL == 0 {
		c.OrphanTTL = defaultOrphanTTL
	}
	c.Ladder = c.Ladder.OrDefault()
	self, err := process.Identify(os.Getpid())
	if err != nil {
		return nil, fmt.Errorf("shim: who am I: %w", err)
	}
	b := &Backend{cfg: c, self: self, speak: spoken}
	b.orphanTTL.Store(int64(c.OrphanTTL))
	return b, nil
}

// SetOrphanTTL changes Config.OrphanTTL for children that are started from now on.
func (b *Backend) SetOrphanTTL(d time.Duration) { b.orphanTTL.Store(int64(d)) }

// Wait returns when nothing of this Backend runs any more. All links must have been closed or detached.
func (b *Backend) Wait() { b.join.Wait() }

// Open starts the server of o. See gateway.Backend.
func (b *Backend) Open(ctx context.Context, o gateway.Open, sink gateway.Sink) (gateway.Link, error) {
	if o.Server.Stdio == nil {
		return nil, fault.New(fault.Internal, "internal").Saying("server %s has no command", o.Server.Name)
	}
	command := o.Server.Stdio.Command
	env := process.Environ(b.cfg.Environ, o.Env)
	file, err := process.Resolve(command, o.Cwd, env)
	if err != nil {
		return nil, err
	}
	c := process.Command{File: file, Argv: append([]string{command}, o.Server.Stdio.Args...), Dir: o.Cwd, Env: env}
	if o.Server.Direct {
		return b.openDirect(o, c, sink)
	}
	return b.openSupervised(ctx, o, c, sink)
}

// newBundle makes an empty bundle.
func (b *Backend) newBundle() (bundle, error) {
	bundles := b.bundles()
	if err := makePrivate(bundles); err != nil {
		return "", unwritable(err)
	}
	dir := filepath.Join(bundles, b.cfg.IDs.New(id.Shim))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", unwritable(err)
	}
	return bundle(dir), nil
}

func (b *Backend) bundles() string { return filepath.Join(b.cfg.StateDir, "bundles") }

// isUnwritable reports whether err says that the disk takes nothing, or not from us.
func isUnwritable(err error) bool {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EFBIG, syscall.EACCES, syscall.EPERM, syscall.EIO} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

func unwritable(err error) error {
	return fault.New(fault.Unavailable, "state-unwritable").
		Saying("no server can be started: the state directory cannot be written").Because(err).
		Hinting("check its owner, mode and free space").
		Retrying(fault.AfterFix)
}

// exitOf translates what a supervisor reported.
func exitOf(i exitInfo) gateway.Exit {
	return gateway.Exit{
		Reason: gateway.ExitReason(i.Reason), Code: i.Code, Signal: i.Signal, Name: i.Name, Text: i.Text, Tail: i.Tail,
	}
}

// spawnFault is the error of a child that never ran.
func spawnFault(i exitInfo) error {
	return fault.New(fault.Invalid, i.Fault).Saying("%s", i.Text).Hinting("%s", i.Hint).Retrying(fault.AfterFix)
}
