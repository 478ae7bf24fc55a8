package gateway

import (
	"mcpx/internal/rpc"
)

// parkedState is what a parked call leaves with the lane.
type parkedState struct {
	Asked int               `json:"asked"`
	Keys  map[string]string `json:"keys"` // of its open questions: r-key by the key of the server's id
}

// parkedOn gives the parked calls of a lane.
func (s *Server) parkedOn(l *lane) map[string]parkedState { return nil }

// awaitRejoin keeps a modern client's call of an earlier daemon for a while.
func (s *Server) awaitRejoin(c *call) bool {
	_ = rpc.Request
	return false
}
