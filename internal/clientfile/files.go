package clientfile

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/converge"
)

// FilesConfig is what Files needs from outside.
type FilesConfig struct {
	Backups string                       // absolute directory; backups of a receipt lie below its id
	Key     []byte                       // of this installation, for digests of what may hold a short secret
	Getenv  func(string) string          // variables that move files
	Hub     func(look converge.Look) Hub // what is known of the gateway
	Now     func() time.Time             // for the waits of locks
	// Keep stores a raw value that leaves a file as a credential. It is called before the file is written, and again with
	// the same value when an apply is repeated.
	Keep func(ctx context.Context, credential, value string) error
	Disk atomicfile.Disk // nil: that of this machine
}

// minKey is the shortest key that digests are made with: as long as the digest.
const minKey = 32

// Files edits the files of agents: it is the Target of converge. It holds no state between two calls.
type Files struct{ cfg FilesConfig }

// NewFiles checks the configuration.
func NewFiles(cfg FilesConfig) (*Files, error) {
	switch {
	case !filepath.IsAbs(cfg.Backups):
		return nil, errors.New("clientfile: the directory of backups is no absolute path")
	case len(cfg.Key) < minKey:
		return nil, errors.New("clientfile: the key is too short")
	case cfg.Getenv == nil, cfg.Hub == nil, cfg.Now == nil, cfg.Keep == nil:
		return nil, errors.New("clientfile: something of the configuration is missing")
	}
	return &Files{cfg: cfg}, nil
}

// drafted is a change with its bytes. Result and moves may hold secrets: they are written to the file and the
// credential store and nowhere else.
type drafted struct {
	result []byte
	spans  []span
	remove bool // the file goes
	change converge.Change
	was    []converge.Bound  // the entries that the change touches, as they were
	moves  map[string]string // credential -> value that left the file
}
