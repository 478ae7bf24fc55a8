package process

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// MemoryOf reads the resident memory of a process of our user. PSS walks its page tables, which takes about a
// millisecond for each 100 MB: for status output, not for polling.
func MemoryOf(pid int) (Memory, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return Memory{}, err
	}
	return parseRollup(b)
}

func parseRollup(b []byte) (m Memory, err error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		name, rest, _ := strings.Cut(lines.Text(), ":")
		var at *int64
		switch name {
		case "Rss":
			at = &m.RSS
		case "Pss":
			at = &m.PSS
		default:
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 10, 64)
		if err != nil {
			return Memory{}, fmt.Errorf("smaps_rollup: %w", err)
		}
		*at = kib << 10
	}
	return m, lines.Err()
}
