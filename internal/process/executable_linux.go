package process

import "syscall"

// takeInode fills in what only the inode tells.
func (e *Executable) takeInode(st *syscall.Stat_t) {
	e.Device, e.Inode, e.Mode, e.Ctime = st.Dev, st.Ino, st.Mode, st.Ctim.Nano()
}
