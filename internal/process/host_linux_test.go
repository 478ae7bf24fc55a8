package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// TestHost: RT-143, the figures of the system's own tools.
func TestHost(t *testing.T) {
	memory, err := HostMemory()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("getconf", "_PHYS_PAGES").Output(); err == nil {
		pages, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		if want := pages * int64(os.Getpagesize()); err != nil || memory != want {
			t.Errorf("%d bytes of memory; the system says %d, %v", memory, want, err)
		}
	}
	want, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	if release, err := HostRelease(); err != nil || release != strings.TrimSpace(string(want)) {
		t.Errorf("the kernel is %q, %v; want %q", release, err, want)
	}
	if _, err := parseMeminfo([]byte("MemFree: 1 kB\n")); err == nil {
		t.Error("memory out of nowhere")
	}
}
