package process

import (
	"os"
	"path/filepath"
	"strconv"
)

func parentOf(pid int) (int, error) {
	s, err := readStat(pid)
	return s.ppid, err
}

// TerminalOf is the name of the device of a process's controlling terminal, "" when it has none. ErrGone, ErrUnknown.
func TerminalOf(pid int) (string, error) {
	s, err := readStat(pid)
	if err != nil {
		return "", err
	}
	return terminalName(s.tty), nil
}

// terminalName spells a device number of proc(5): the minor number stands in the bits 31 to 20 and 7 to 0, the major in
// 15 to 8.
func terminalName(number int) string {
	major, minor := number>>8&0xff, number>>12&0xfff00|number&0xff
	switch {
	case number == 0:
		return ""
	case major >= 136 && major <= 143: // UNIX98 pseudo terminals
		return "/dev/pts/" + strconv.Itoa((major-136)<<8|minor)
	case major == 4 && minor < 64:
		return "/dev/tty" + strconv.Itoa(minor)
	case major == 4:
		return "/dev/ttyS" + strconv.Itoa(minor-64)
	}
	if link, err := os.Readlink(filepath.Join("/sys/dev/char", strconv.Itoa(major)+":"+strconv.Itoa(minor))); err == nil {
		return "/dev/" + filepath.Base(link)
	}
	return "tty " + strconv.Itoa(major) + ":" + strconv.Itoa(minor)
}
