// Package demo decides what the built-in demonstration server of `mcpx up` offers: a few harmless tools that between
// them use everything a client has to handle (text, structured output, an image, progress, a question to the user), one
// resource and one prompt. It refuses to know the gateway: it is an ordinary stdio MCP server that speaks both eras.
//
// Invariant: nothing here reads a file, the network or the environment; equal arguments give equal results.
package demo

import (
	"context"
	"io"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Name is the name under which the server introduces itself.
const Name = "mcpx-demo"

const instructions = "A demonstration server. Try `add` first, then `slow` to see progress, `ask` to be asked a question " +
	"and `image` to get a picture. Nothing it does has an effect outside of its own process."

// Run serves one client on in and out until in ends or ctx does. Version is what the server reports as its own.
func Run(ctx context.Context, version string, in io.Reader, out io.Writer) error {
	return New(version).Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: keepOpen{out}})
}

// New builds the server without a transport.
func New(version string) *mcp.Server {
	s := mcp.NewServer(
		&mcp.Implementation{Name: Name, Title: "mcpx demo server", Version: version},
		&mcp.ServerOptions{Instructions: instructions, Logger: slog.New(slog.DiscardHandler)},
	)
	addTools(s)
	addResource(s)
	addPrompt(s)
	return s
}

// keepOpen hides Close: the output belongs to the caller of Run.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
