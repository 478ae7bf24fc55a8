package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
)

// having are the processes, but ours, that were started with this variable in their environment, not before since: the environments
// of older ones are not read.
func having(variable string, since uint64) (ids []Identity) {
	for _, s := range processes() {
		if s.pid == os.Getpid() || s.start < since {
			continue
		}
		id, err := s.identity()
		if err != nil {
			continue // it is gone
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.pid))
		if err != nil || !slices.ContainsFunc(bytes.Split(environ, []byte{0}), func(v []byte) bool { return string(v) == variable }) {
			continue // not ours to read, or not ours
		}
		ids = append(ids, id)
	}
	return ids
}
