//go:build !unix

package shim

import (
	"fmt"
	"os"
)

// Subcommand is the hidden first argument that makes this binary a supervisor.
const Subcommand = "supervise"

// Main refuses: there are no supervisors on this platform.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "supervised servers are not supported on this platform")
	return 1
}
