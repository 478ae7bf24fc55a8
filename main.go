// Command mcpx serves every MCP server of this machine at one local address. The program itself is package cli; here
// only the hidden modes are dispatched, before flags, logging or anything else that costs time and memory.
//
// Invariant: nothing runs before the dispatch.
package main

import (
	"os"

	"mcpx/internal/cli"
	"mcpx/internal/sandbox"
	"mcpx/internal/shim"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case shim.Subcommand:
			os.Exit(shim.Main(os.Args[2:]))
		case sandbox.Subcommand:
			os.Exit(sandbox.Main(os.Args[2:], os.Stderr))
		}
	}
	os.Exit(cli.Main(os.Args[1:]))
}
