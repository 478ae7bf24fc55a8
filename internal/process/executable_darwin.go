package process

import "syscall"

// takeInode fills in what only the inode tells.
func (e *Executable) takeInode(st *syscall.Stat_t) {
	e.Device, e.Inode, e.Mode, e.Ctime = uint64(st.Dev), st.Ino, uint32(st.Mode), st.Ctimespec.Nano()
}
