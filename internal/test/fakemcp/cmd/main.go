// Command cmd runs one fixture by hand: go run ./internal/test/fakemcp/cmd -era dual -record /tmp/record. It decides
// nothing; package fakemcp does. Invariant: its flags are exactly those of fakemcp.ParseFlags.
package main

import (
	"os"

	"mcpx/internal/test/fakemcp"
)

func main() { os.Exit(fakemcp.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
