//go:build linux || darwin

package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttributes bounds the list of attributes and the value of each, in bytes: Linux allows 64 KiB for either.
const maxAttributes = 64 << 10

// KeepFacts gives a file owner, group, attributes and mode of another one. Access lists are attributes on Linux. The mode
// comes last, since an access list changes it and a change of owner drops bits of it.
func KeepFacts(f, like *os.File) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(like.Fd()), &stat); err != nil {
		return err
	}
	if err := keepOwner(f, &stat); err != nil {
		return err
	}
	if err := copyAttributes(int(like.Fd()), int(f.Fd())); err != nil {
		return err
	}
	return unix.Fchmod(int(f.Fd()), uint32(stat.Mode)&0o7777) //nolint:unconvert // it has 16 bits on macOS
}

func copyAttributes(from, to int) error {
	names, err := attributes(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		value, err := attribute(from, name)
		if err != nil {
			return fmt.Errorf("attribute %s: %w", name, err)
		}
		if err := unix.Fsetxattr(to, name, value, 0); err != nil {
			// Labels of security modules are set by the system, to the same value for a file beside the other one.
			if has, getErr := attribute(to, name); getErr == nil && bytes.Equal(has, value) {
				continue
			}
			return fmt.Errorf("attribute %s: %w", name, err)
		}
	}
	given, err := attributes(to)
	if err != nil {
		return err
	}
	for _, name := range given { // an access list that the directory hands down, and that the other file has not
		if name == accessList && !slices.Contains(names, name) {
			if err := unix.Fremovexattr(to, name); err != nil {
				return fmt.Errorf("attribute %s: %w", name, err)
			}
		}
	}
	return nil
}

// accessList is the name under which Linux shows an access list.
const accessList = "system.posix_acl_access"

func attributes(fd int) ([]string, error) {
	list := make([]byte, maxAttributes)
	n, err := unix.Flistxattr(fd, list)
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		if name != "" && name != "com.apple.provenance" { // the system gives each file its own
			names = append(names, name)
		}
	}
	return names, nil
}

func attribute(fd int, name string) ([]byte, error) {
	value := make([]byte, maxAttributes)
	n, err := unix.Fgetxattr(fd, name, value)
	if err != nil {
		return nil, err
	}
	return value[:n], nil
}
