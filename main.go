// Command mcpx runs every MCP server once and gives it one URL on this machine for all coding agents.
package main

import (
	"os"

	"mcpx/internal/cli"
	"mcpx/internal/shim"
)

// version is set by the release build: -ldflags "-X main.version=1.2.3".
var version = "0.1.0-dev"

func main() {
	// A supervisor must stay small: it is dispatched before flags, logging and everything else.
	if len(os.Args) > 1 && os.Args[1] == shim.Subcommand {
		os.Exit(shim.Main(os.Args[2:]))
	}
	os.Exit(cli.Main(os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, version))
}
