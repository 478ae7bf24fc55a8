package shim

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// dropCode unmaps the pages of our own code and constants that the start touched and nobody needs now. The file is
// mapped, so a page that is needed after all comes back by a minor fault. A fresh supervisor has 12 MB of them, the
// work of its life needs 2: TestMemory fails without this line when few supervisors share the pages.
func dropCode() {
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var from, to uintptr
	ours := false
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		switch {
		case len(f) >= 6 && strings.Contains(f[0], "-"):
			ours = strings.HasPrefix(f[1], "r-") && f[5] == exe // never a writable one
			from, to = addresses(f[0])
		case len(f) == 3 && f[0] == "Anonymous:" && ours && f[1] == "0" && from < to:
			// Without anonymous pages nothing in it differs from the file: relocated constants would.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) // a hint
		}
	}
}

func addresses(s string) (from, to uintptr) {
	a, b, _ := strings.Cut(s, "-")
	lo, err1 := strconv.ParseUint(a, 16, 64)
	hi, err2 := strconv.ParseUint(b, 16, 64)
	if err1 != nil || err2 != nil {
		return 0, 0
	}
	return uintptr(lo), uintptr(hi)
}
