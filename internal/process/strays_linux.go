package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
)

// KillStrays ends every process that was started with this variable, NAME=value, in its environment, but ours. It finds
// what left the group and the session in which it was started. The value must be one that nobody else can have.
func KillStrays(variable string) (killed []int) {
	for _, s := range processes() {
		if s.pid == os.Getpid() {
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
		if Kill(id) {
			killed = append(killed, s.pid)
		}
	}
	return killed
}
