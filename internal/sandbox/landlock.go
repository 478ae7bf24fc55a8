package sandbox

import (
	"slices"

	"mcpx/internal/policy"
)

// The versions of the interface that brought something a level needs.
const (
	abiRefer    = 2
	abiTruncate = 3
	abiDevices  = 5
	abiScopes   = 6
)

// landlocked is the argument list for Landlock: one stub puts the rules on itself and becomes the command.
func (s *Sandbox) landlocked(r Request) ([]string, error) {
	for _, hidden := range r.Hidden {
		if inAny(hidden, r.Writable) {
			return nil, refused("landlock cannot hide "+hidden+" in a directory that may be changed", "use bwrap, or move it elsewhere")
		}
	}
	c := confinement{
		Landlock: true, Strict: r.Level == policy.SandboxStrict, Writable: r.Writable, Readable: r.Readable, Hidden: r.Hidden,
		Filter: true, Metadata: !slices.Contains(s.cfg.Accept, GapMetadata), Dir: r.Dir,
	}
	if r.Network {
		c.Sockets = socketsInet
	}
	argv, err := stubArgs(s.cfg.Exe, c)
	if err != nil {
		return nil, err
	}
	return append(append(argv, r.File), r.Argv[1:]...), nil
}
