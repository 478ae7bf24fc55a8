package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// hasOpenat2 is false on kernels before 5.6, and where a filter of system calls does not know it.
var hasOpenat2 = sync.OnceValue(func() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC})
	if err != nil {
		return false
	}
	_ = unix.Close(fd) // it was only opened to see whether it can be
	return true
})

// openNoFollow opens one component: no link, no magic link, no step up or to another mount.
func openNoFollow(dir int, name string, flags int, perm uint32) (int, error) {
	if !hasOpenat2() {
		return unix.Openat(dir, name, flags|unix.O_LARGEFILE, perm)
	}
	return unix.Openat2(dir, name, &unix.OpenHow{
		Flags: uint64(flags | unix.O_LARGEFILE), Mode: uint64(perm),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// enter opens a directory in another one for the names below it, which needs no right to list it.
func enter(dir *os.File, name string) (*os.File, error) {
	return openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// openRoot opens a directory by a path without links.
func openRoot(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, named("open", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

const statxMask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID

// look looks at a name in a directory, and follows no link.
func look(dir *os.File, name string) (Facts, error) {
	defer runtime.KeepAlive(dir)
	return statx(int(dir.Fd()), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
}

// factsOf looks at an open file.
func factsOf(f *os.File) (Facts, error) {
	defer runtime.KeepAlive(f)
	return factsOfFD(int(f.Fd()))
}

func factsOfFD(fd int) (Facts, error) { return statx(fd, "", unix.AT_EMPTY_PATH) }

func statx(fd int, name string, flags int) (Facts, error) {
	var x unix.Statx_t
	err := again(func() error { return unix.Statx(fd, name, flags, statxMask, &x) })
	if err != nil {
		return Facts{}, named("stat", name, err)
	}
	f := Facts{
		ID: ID{Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Ino: x.Ino}, Size: int64(x.Size), Links: uint64(x.Nlink), group: x.Gid,
		Modified: stamp(x.Mtime), changed: stamp(x.Ctime),
	}
	f.Kind, f.Mode = modeOf(uint32(x.Mode))
	if x.Mask&unix.STATX_BTIME != 0 {
		f.born = stamp(x.Btime)
	}
	if x.Mask&unix.STATX_MNT_ID != 0 {
		f.mount = x.Mnt_id
	}
	return f, nil
}

func stamp(t unix.StatxTimestamp) time.Time { return time.Unix(t.Sec, int64(t.Nsec)) }

// Kinds of file systems, by the magic number that statfs tells.
var (
	// unstable: the number of a file may change, or belong to another file later.
	unstable = map[int64]string{
		unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.FUSE_SUPER_MAGIC: "fuse", unix.NFS_SUPER_MAGIC: "nfs", unix.V9FS_MAGIC: "9p",
		unix.SMB_SUPER_MAGIC: "smb", unix.SMB2_SUPER_MAGIC: "smb", unix.CIFS_SUPER_MAGIC: "smb", unix.CEPH_SUPER_MAGIC: "ceph",
	}
	// artificial: what looks like a file there is a part of the system.
	artificial = map[int64]string{
		unix.PROC_SUPER_MAGIC: "proc", unix.SYSFS_MAGIC: "sysfs", unix.DEVPTS_SUPER_MAGIC: "devpts", unix.CGROUP_SUPER_MAGIC: "cgroup",
		unix.CGROUP2_SUPER_MAGIC: "cgroup", unix.DEBUGFS_MAGIC: "debugfs", unix.TRACEFS_MAGIC: "tracefs", unix.SECURITYFS_MAGIC: "securityfs",
	}
	// stamping: the first store through a map changes the time of the inode, also when the page was read through it before. On
	// tmpfs, for one, such a store goes unseen.
	stamping = []int64{unix.EXT4_SUPER_MAGIC /* ext2 and ext3, too */, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC}
	// folding always: the names of these know no case.
	folding = []int64{unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC, 0x5346544e /* ntfs */, 0x7366746e /* ntfs3 */, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, 0x4244 /* hfs */, 0x482b /* hfs+ */}
	// foldingByFlag: each directory has a flag.
	foldingByFlag = []int64{unix.EXT4_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, 0xca451a4e /* bcachefs */}
)

// volumeOf says what a directory is on, and how to find out whether the names in a directory there know no case.
func volumeOf(dir *os.File, _ string) (volume, error) {
	defer runtime.KeepAlive(dir)
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &s); err != nil {
		return volume{}, named("statfs", dir.Name(), err)
	}
	magic := int64(s.Type) //nolint:unconvert // it has 32 bits on some systems
	v := volume{
		id: fmt.Sprintf("%08x%08x", uint32(s.Fsid.Val[0]), uint32(s.Fsid.Val[1])), unstable: unstable[magic], artificial: artificial[magic],
		stamps: slices.Contains(stamping, magic),
	}
	switch {
	case slices.Contains(folding, magic):
		v.folds = func(*os.File) bool { return true }
	case slices.Contains(foldingByFlag, magic):
		v.folds = foldsByFlag
	default:
		v.folds = func(*os.File) bool { return false }
	}
	return v, nil
}

// entriesIn reads the names in a directory that is open for that, with the kinds that the directory has noted: then a walk
// need not look at each. LimitExceeded.
func entriesIn(f *os.File) ([]entry, error) {
	defer runtime.KeepAlive(f)
	var all []entry
	buf := make([]byte, 64<<10)
	for {
		var n int
		err := again(func() (err error) {
			n, err = unix.Getdents(int(f.Fd()), buf)
			return err
		})
		if err != nil {
			return nil, named("readdir", f.Name(), err)
		}
		if n == 0 {
			return all, nil
		}
		// struct linux_dirent64: inode, offset, length of the record, kind, name with a NUL behind.
		const length, kind, name = 16, 18, 19
		for rest := buf[:n]; len(rest) > name; {
			record := rest[:binary.NativeEndian.Uint16(rest[length:])]
			rest = rest[len(record):]
			e := entry{unix.ByteSliceToString(record[name:]), kinds[record[kind]]}
			if e.kind == "" {
				e.kind = Other
			}
			if e.name != "." && e.name != ".." {
				all = append(all, e)
			}
		}
		if len(all) > maxNames {
			return nil, tooManyNames()
		}
	}
}

// kinds are those that a directory notes.
var kinds = map[byte]Kind{unix.DT_UNKNOWN: Absent, unix.DT_REG: File, unix.DT_DIR: Directory, unix.DT_LNK: Link}

// caseFold is FS_CASEFOLD_FL of linux/fs.h.
const caseFold = 0x40000000

// foldsByFlag reads the flag of a directory. One that cannot be read is not known to fold.
func foldsByFlag(dir *os.File) bool {
	f, err := openListing(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&caseFold != 0
}

// Writable says why no file can be made in a directory; nil: one can. It makes one that has no name and is gone at once, so
// nobody sees anything. A file system that has no such files is asked instead.
func Writable(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return unix.Close(fd)
	}
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	return err
}
