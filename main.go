// Command mcpx serves every MCP server of this machine at one local address. The program itself is package cli; here
// only the hidden mode is dispatched, before flags, logging or anything else that costs time and memory.
//
// Invariant: nothing runs before the dispatch.
package main

import (
	"os"

	"mcpx/internal/cli"
	"mcpx/internal/shim"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == shim.Subcommand {
		os.Exit(shim.Main(os.Args[2:]))
	}
	os.Exit(cli.Main(os.Args[1:]))
}
