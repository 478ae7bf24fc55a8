package shim

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"
)

// anonymous is how much memory without a file a process has, in bytes.
func anonymous(t *testing.T, pid int) (size int64) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if n, _ := fmt.Sscanf(lines.Text(), "Anonymous: %d kB", &size); n == 1 {
			return size << 10
		}
	}
	t.Fatal("no word about anonymous memory")
	return 0
}

// checkMemory holds what a full ring and a flood may cost beside the memory of the idle supervisor, which in this binary
// also has the tables of all that the tests link: 16 MB at once, and when things are quiet the ring, its own megabyte
// once more for what the runtime keeps, and half of one for the rest.
func checkMemory(t *testing.T, pid int, idle int64) {
	t.Helper()
	if raced {
		return // the race detector multiplies memory
	}
	const (
		busy = 16_000_000
		full = 2_500_000
	)
	now := anonymous(t, pid)
	if now > busy {
		t.Errorf("%.1f MB after the flood", float64(now)/1e6)
	}
	quiet := now
	for limit := time.Now().Add(10 * time.Second); quiet > idle+full && time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
		quiet = anonymous(t, pid)
	}
	if quiet > idle+full {
		t.Errorf("%.1f MB in the end, %.1f MB when idle", float64(quiet)/1e6, float64(idle)/1e6)
	}
	t.Logf("%.1f MB idle, %.1f MB after the flood, %.1f MB later", float64(idle)/1e6, float64(now)/1e6, float64(quiet)/1e6)
}
