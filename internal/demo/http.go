package demo

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Handler serves clients over Streamable HTTP, each session by itself. Version is what the server reports as its own.
func Handler(version string) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return New(version) }, nil)
}
