// Package wire decides whether the gateway keeps its promises on the wire: bytes that must not change, servers that
// misbehave, servers that must not disturb each other. It refuses to know how the gateway does it: everything goes
// through the real binary, raw HTTP and real children.
//
// Invariant: each expectation is also checked against the fixture without a gateway where that is possible, so a test
// cannot ask for more than a direct connection gives.
package wire

import (
	"os"
	"testing"

	"mcpx/internal/test/rig"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == imposterVerb {
		os.Exit(imposter(os.Args[2], os.Args[3:]))
	}
	os.Exit(rig.Main(m))
}
