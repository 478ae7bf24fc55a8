package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Process is a digest of what decides which process or connection an entry starts, who shares it, and whether it may be
// used at all. Two entries with the same digest can go on with each other's processes; limits, titles, notes and aliases
// are not part of it and apply to a running process. It is kept beside children that outlive the daemon.
func (s Server) Process() string {
	raw, err := json.Marshal(struct {
		Name      string
		Stdio     *Stdio
		HTTP      *HTTP
		Direct    bool
		Sharing   Sharing
		Protocol  Protocol
		IDStyle   string
		Lifecycle Lifecycle
		Review    Review
	}{s.Name, s.Stdio, s.HTTP, s.Direct, s.Sharing, s.Protocol, s.IDStyle, s.Lifecycle, s.Review})
	if err != nil {
		panic("catalog: an entry does not encode: " + err.Error()) // strings, booleans and maps of them always do
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
