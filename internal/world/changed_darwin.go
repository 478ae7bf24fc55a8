package world

import (
	"os"
	"strconv"
	"syscall"
)

func changed(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return strconv.FormatInt(st.Ctimespec.Nano(), 10)
}
