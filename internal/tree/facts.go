package tree

import (
	"fmt"
	"io/fs"
	"time"
)

// Kind of an entry.
type Kind string

// The kinds. Other is everything that is never opened: pipes, sockets, devices.
const (
	Absent    Kind = "absent"
	File      Kind = "file"
	Directory Kind = "dir"
	Link      Kind = "link"
	Other     Kind = "other"
)

// ID is what a file is on a running system, whatever its name.
type ID struct {
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// String is "8:1234", as package atomicfile writes it.
func (id ID) String() string { return fmt.Sprintf("%d:%d", id.Dev, id.Ino) }

// Facts are what the system knows about an entry beside its bytes.
type Facts struct {
	Kind     Kind
	ID       ID
	Mode     fs.FileMode // permissions, and fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky
	Size     int64       // bytes
	Modified time.Time
	Links    uint64 // names of this file
	changed  time.Time
	born     time.Time // zero: the system does not tell
	mount    uint64    // 0: the system does not tell
	group    uint32
}

// same says whether two looks saw one file in one state.
func (f Facts) same(g Facts) bool {
	return f.ID == g.ID && f.Kind == g.Kind && f.Size == g.Size && f.Modified.Equal(g.Modified) && f.changed.Equal(g.changed)
}

// special says that a file runs with rights of its owner or group.
func (f Facts) special() bool { return f.Kind == File && f.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 }

const unixModeMask = 0o777

// modeOf reads the mode word of the system.
func modeOf(word uint32) (Kind, fs.FileMode) {
	const (
		format                     = 0o170000
		regular, directory, link   = 0o100000, 0o040000, 0o120000
		setuid, setgid, stickyFlag = 0o4000, 0o2000, 0o1000
	)
	mode := fs.FileMode(word & unixModeMask)
	for bit, flag := range map[uint32]fs.FileMode{setuid: fs.ModeSetuid, setgid: fs.ModeSetgid, stickyFlag: fs.ModeSticky} {
		if word&bit != 0 {
			mode |= flag
		}
	}
	switch word & format {
	case regular:
		return File, mode
	case directory:
		return Directory, mode
	case link:
		return Link, mode
	}
	return Other, mode
}

// Seen is an entry that a caller judges by more than its name.
type Seen struct {
	Facts
	Path  string // canonical, below the root
	Folds bool   // the names in its directory know no case
}

// named says which name an error of the system is about.
func named(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
