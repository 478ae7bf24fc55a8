//go:build unix

package shim

import (
	"bytes"
	"os"
	"syscall"
)

// said gives the last whole lines that a child wrote on stderr, at most as much as its supervisor has in memory. They
// are read from the files: that needs no word of the supervisor, and the files are there when it is an old one.
func (b bundle) said() []byte {
	log := openLog(b.stderr())
	if log == nil {
		return nil
	}
	defer log.Close()
	lines, all := lastBytes(log, tailRing)
	if old := openLog(b.stderr() + ".1"); old != nil {
		defer old.Close()
		if all && !sameFile(log, old) { // one that became the other just now would be read twice
			more, rest := lastBytes(old, tailRing-len(lines))
			lines, all = append(more, lines...), rest
		}
	}
	if !all {
		_, lines, _ = bytes.Cut(lines, []byte{'\n'}) // what is before it is the end of a line
	}
	return lines[:bytes.LastIndexByte(lines, '\n')+1]
}

// openLog opens a file of a bundle without following a link or waiting for the writer of a pipe; nil when it cannot.
func openLog(path string) *os.File {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close() // nothing was read
		return nil
	}
	return f
}

// lastBytes reads the end of a file. all says that this is the whole of it.
func lastBytes(f *os.File, n int) (b []byte, all bool) {
	info, err := f.Stat()
	if err != nil {
		return nil, false
	}
	from := max(0, info.Size()-int64(n))
	b = make([]byte, info.Size()-from)
	read, _ := f.ReadAt(b, from) // what cannot be read is missing from a log, no more
	return b[:read], from == 0
}

func sameFile(a, b *os.File) bool {
	one, err1 := a.Stat()
	other, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(one, other)
}
