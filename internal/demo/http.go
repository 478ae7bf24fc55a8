package demo

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handler serves clients over Streamable HTTP, each session by itself. Version is what the server reports as its own.
// Also are names under which it offers `echo` once more: some agents cannot tell the tools of two servers apart when
// their names are the same.
func Handler(version string, also ...string) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := New(version)
		for _, name := range also {
			addEcho(s, name)
		}
		return s
	}, nil)
}
