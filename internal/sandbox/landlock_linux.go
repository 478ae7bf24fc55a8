package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The rights of Landlock by the version of its interface that knows them.
const (
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	firstWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	// deviceRights are handled and given nowhere: a device is the whole disk.
	deviceRights = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	// fileRights are those that a rule about a file may name.
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// harmlessDevices can be written by everybody.
var harmlessDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "/dev/urandom", "/dev/ptmx", "/dev/pts"}

// landlockABI is the version that the kernel has.
func landlockABI() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0, errno
	}
	return int(abi), nil
}

// ruleset collects rules.
type ruleset struct {
	fd      int
	handled uint64
}

// landlock restricts the calling thread.
func landlock(c confinement) error {
	abi, err := landlockABI()
	if err != nil {
		return err
	}
	write := uint64(firstWrite)
	attr := unix.LandlockRulesetAttr{}
	if abi >= abiRefer {
		write |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		write |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= abiDevices {
		write |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if abi >= abiScopes {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	attr.Handled_access_fs = readRights | write | deviceRights
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	rules := ruleset{int(fd), attr.Handled_access_fs}
	if err := rules.fill(c, readRights|write); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

func (r ruleset) fill(c confinement, all uint64) error {
	var errs []error
	if c.Strict {
		for _, dir := range systemDirs {
			errs = append(errs, r.read(dir, c.Hidden))
		}
		errs = append(errs, r.allow("/proc", readRights), r.allow("/dev", readRights))
	} else {
		// Rules only give: what is hidden is what no rule gives. Names are given everywhere, because a rule about a directory
		// holds for everything below it.
		errs = append(errs, r.read("/", c.Hidden), r.allow("/", unix.LANDLOCK_ACCESS_FS_READ_DIR))
	}
	for _, path := range c.Readable { // also in a directory that is hidden; what of it is hidden stays so
		errs = append(errs, r.read(path, slices.DeleteFunc(slices.Clone(c.Hidden), func(h string) bool { return !within(h, path) || h == path })))
	}
	for _, path := range c.Writable {
		errs = append(errs, r.allow(path, all))
	}
	for _, path := range harmlessDevices {
		errs = append(errs, r.allow(path, unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_WRITE_FILE|unix.LANDLOCK_ACCESS_FS_TRUNCATE|unix.LANDLOCK_ACCESS_FS_IOCTL_DEV))
	}
	return errors.Join(errs...)
}

// read lets a path be read, but what is hidden: of a directory that holds such a thing, everything else.
func (r ruleset) read(path string, hidden []string) error {
	if inAny(path, hidden) {
		return nil
	}
	if !slices.ContainsFunc(hidden, func(h string) bool { return within(h, path) }) {
		return r.allow(path, readRights)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil //nolint:nilerr // it cannot be read by us either
	}
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue // a rule would be about what it leads to, which has rules of its own
		}
		if err := r.read(filepath.Join(path, e.Name()), hidden); err != nil {
			return err
		}
	}
	return nil
}

// allow adds a rule. What is gone, or closed to us, needs none.
func (r ruleset) allow(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // without a rule nothing is given
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights & r.handled, Parent_fd: int32(fd)}
	if beneath.Allowed_access == 0 {
		return nil
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	if errno != 0 {
		return &fs.PathError{Op: "landlock_add_rule", Path: path, Err: errno}
	}
	return nil
}
