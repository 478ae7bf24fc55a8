package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// shielded are the signals that a person sends to a whole group to end a command.
var shielded = []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT}

// become applies c to this process and executes argv. Rules hold for one thread: the one that executes. So does the signal
// that tells of the death of the parent (prctl(2), PR_SET_PDEATHSIG).
func become(c confinement, argv []string) error {
	runtime.LockOSThread()
	parent, death := unix.Getppid(), unix.SIGTERM
	if c.Shield {
		death = unix.SIGKILL // the other one is ignored
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(death), 0, 0, 0); err != nil {
		return fmt.Errorf("parent-death signal: %w", err)
	}
	// A descriptor that was left open by mistake would be a way out.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	environ := os.Environ()
	if c.Shield {
		signal.Ignore(shielded...)
	} else {
		environ = own(environ)
		// What has a handler is back at its default in the next program, what is ignored stays so. Only for these two the
		// runtime leaves it at that; SIGTERM has its handler, which ends us: it may tell of the death of the parent.
		signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGHUP)
	}
	if c.Dir != "" {
		if err := unix.Chdir(c.Dir); err != nil {
			return fmt.Errorf("the directory %s: %w", c.Dir, err)
		}
	}
	if c.Landlock {
		if err := dropCapabilities(); err != nil {
			return err
		}
	}
	if c.Landlock || c.Filter {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("no_new_privs: %w", err)
		}
	}
	if c.Landlock {
		if err := landlock(c); err != nil {
			return fmt.Errorf("landlock: %w", err)
		}
	}
	if c.Filter {
		if err := filterCalls(c); err != nil {
			return fmt.Errorf("seccomp: %w", err)
		}
	}
	if unix.Getppid() != parent {
		return errors.New("whoever wanted the command is gone") // before we asked to be told
	}
	return &notStarted{argv[0], syscall.Exec(argv[0], argv, environ)}
}

// dropCapabilities takes from root what makes it more than the owner of its files: it could make a device in its own
// directory and write the disk.
func dropCapabilities() error {
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL {
			break // the last one is behind us
		}
		if err == unix.EPERM {
			break // an ordinary user has none
		}
		if err != nil {
			return fmt.Errorf("capabilities: %w", err)
		}
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // an old kernel has none
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	return nil
}
