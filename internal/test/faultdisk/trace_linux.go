package faultdisk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MarkPrefix begins a path that no program looks for but to say in a trace how far it is: see Mark.
const MarkPrefix = "power-mark:"

// Mark says in the trace of this process how far it is.
func Mark(name string) { _ = unix.Access(MarkPrefix+name, unix.F_OK) }

// Call is something that a program did to the file system, after the fact.
type Call struct {
	Op string // create, mkdir, symlink, link, rename, exchange, remove, data, mode, sync, syncfs, mark
	// Path and To are names below the directory that is watched, "" itself. Path is the name of a mark, too.
	Path, To string
	Ino      uint64 // of the file that was made, written to, changed or synced
	Data     []byte // all of the file, or the text of a link
	Mode     fs.FileMode
}

// tracer follows the threads of one program. All of it happens on one thread, because ptrace is between threads.
type tracer struct {
	below   string
	calls   []Call
	pending map[int]func(result int64) // what a call means when it has succeeded, by thread
	known   map[int]bool               // threads that have stopped once
}

// Trace runs a program to its end, and records what it does to files below a directory.
func Trace(cmd *exec.Cmd, below string) ([]Call, error) {
	t := &tracer{below: below, pending: map[int]func(int64){}, known: map[int]bool{}}
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and the thread ends with this goroutine
		done <- t.run(cmd)
	}()
	err := <-done
	return t.calls, err
}

func (t *tracer) run(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	first := cmd.Process.Pid
	for started := false; ; {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL|unix.WNOTHREAD, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		if ws.Exited() || ws.Signaled() {
			if pid != first {
				continue
			}
			if ws.Signaled() || ws.ExitStatus() != 0 {
				return fmt.Errorf("the program ended with status %d, signal %v", ws.ExitStatus(), ws.Signal())
			}
			return nil
		}
		if !started {
			started = true
			if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_EXITKILL); err != nil {
				return fmt.Errorf("trace: %w", err)
			}
		}
		signal := 0
		switch stop := ws.StopSignal(); {
		case stop == unix.SIGTRAP|0x80:
			if err := t.stop(pid); err != nil {
				return err
			}
		case stop == unix.SIGTRAP: // a new program, or a new thread
		case stop == unix.SIGSTOP && !t.known[pid]: // a thread that begins
		default:
			signal = int(stop)
		}
		t.known[pid] = true
		if err := unix.PtraceSyscall(pid, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("go on: %w", err)
		}
	}
}

// stop looks at a thread that begins or ends a call.
func (t *tracer) stop(pid int) error {
	var info [88]byte // struct ptrace_syscall_info
	if _, _, e := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(pid), uintptr(len(info)), uintptr(unsafe.Pointer(&info)), 0, 0); e != 0 {
		if errors.Is(e, unix.ESRCH) {
			return nil
		}
		return fmt.Errorf("look at a call: %w", e)
	}
	word := func(n int) uint64 { return binary.NativeEndian.Uint64(info[24+8*n:]) }
	switch info[0] {
	case unix.PTRACE_SYSCALL_INFO_ENTRY:
		var args [6]uint64
		for i := range args {
			args[i] = word(1 + i)
		}
		t.pending[pid] = t.enter(pid, word(0), args)
	case unix.PTRACE_SYSCALL_INFO_EXIT:
		if then := t.pending[pid]; then != nil && info[32] == 0 { // is_error
			then(int64(word(0)))
		}
		delete(t.pending, pid)
	}
	return nil
}

// enter says what a call means.
func (t *tracer) enter(pid int, number uint64, a [6]uint64) func(int64) {
	add := func(c Call) func(int64) { return func(int64) { t.calls = append(t.calls, c) } }
	two := func(op string, fromDir, from, toDir, to uint64) func(int64) {
		x, okX := t.path(pid, fromDir, from)
		y, okY := t.path(pid, toDir, to)
		if !okX && !okY {
			return nil
		}
		return add(Call{Op: op, Path: x, To: y})
	}
	switch number {
	case unix.SYS_FACCESSAT, unix.SYS_FACCESSAT2:
		if name, ok := strings.CutPrefix(t.text(pid, a[1]), MarkPrefix); ok {
			t.calls = append(t.calls, Call{Op: "mark", Path: name})
		}
	case unix.SYS_OPENAT, unix.SYS_OPENAT2:
		flags := a[2]
		if number == unix.SYS_OPENAT2 {
			flags = binary.NativeEndian.Uint64(t.bytes(pid, a[2], 8))
		}
		name, ok := t.path(pid, a[0], a[1])
		if !ok || flags&(unix.O_CREAT|unix.O_TRUNC) == 0 || flags&unix.O_TMPFILE == unix.O_TMPFILE {
			return nil
		}
		_, err := os.Lstat(filepath.Join(t.below, name))
		return func(fd int64) {
			if err != nil {
				t.file(pid, uint64(fd), "create", name)
			} else if flags&unix.O_TRUNC != 0 {
				t.file(pid, uint64(fd), "data", name)
			}
		}
	case unix.SYS_MKDIRAT:
		if name, ok := t.path(pid, a[0], a[1]); ok {
			return func(int64) { t.made("mkdir", name) }
		}
	case unix.SYS_SYMLINKAT:
		if name, ok := t.path(pid, a[1], a[2]); ok {
			return func(int64) { t.made("symlink", name) }
		}
	case unix.SYS_LINKAT:
		return two("link", a[0], a[1], a[2], a[3])
	case unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2:
		op := "rename"
		if number == unix.SYS_RENAMEAT2 && a[4]&unix.RENAME_EXCHANGE != 0 {
			op = "exchange"
		}
		return two(op, a[0], a[1], a[2], a[3])
	case unix.SYS_UNLINKAT:
		if name, ok := t.path(pid, a[0], a[1]); ok {
			return add(Call{Op: "remove", Path: name})
		}
	case unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_FTRUNCATE, unix.SYS_SENDFILE, unix.SYS_IOCTL:
		if number != unix.SYS_IOCTL || a[1] == unix.FICLONE {
			return func(int64) { t.file(pid, a[0], "data", "") }
		}
	case unix.SYS_COPY_FILE_RANGE:
		return func(int64) { t.file(pid, a[2], "data", "") }
	case unix.SYS_FCHMOD:
		return func(int64) { t.file(pid, a[0], "mode", "") }
	case unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2:
		if name, ok := t.path(pid, a[0], a[1]); ok {
			return func(int64) { t.made("mode", name) }
		}
	case unix.SYS_FSYNC, unix.SYS_FDATASYNC:
		return func(int64) { t.file(pid, a[0], "sync", "") }
	case unix.SYS_SYNCFS, unix.SYS_SYNC:
		return add(Call{Op: "syncfs"})
	}
	return nil
}

// file records something about an open file.
func (t *tracer) file(pid int, fd uint64, op, name string) {
	open := fmt.Sprintf("/proc/%d/fd/%d", pid, int32(fd))
	path, err := os.Readlink(open)
	if err != nil {
		return
	}
	rel, ok := t.relative(strings.TrimSuffix(path, " (deleted)"))
	if !ok {
		return
	}
	if name == "" {
		name = rel
	}
	info, err := os.Stat(open)
	if err != nil || !info.Mode().IsRegular() && !info.IsDir() {
		return
	}
	c := Call{Op: op, Path: name, Ino: info.Sys().(*syscall.Stat_t).Ino, Mode: info.Mode()}
	if info.Mode().IsRegular() {
		c.Data, _ = os.ReadFile(open)
	}
	t.calls = append(t.calls, c)
}

// made records something that has just come under a name, or was changed by its name.
func (t *tracer) made(op, name string) {
	path := filepath.Join(t.below, name)
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	c := Call{Op: op, Path: name, Ino: info.Sys().(*syscall.Stat_t).Ino, Mode: info.Mode()}
	if info.Mode()&fs.ModeSymlink != 0 {
		text, _ := os.Readlink(path)
		c.Data = []byte(text)
	}
	t.calls = append(t.calls, c)
}

// path is a name that a call gives, below the directory that is watched.
func (t *tracer) path(pid int, dir, at uint64) (string, bool) {
	name := t.text(pid, at)
	if !filepath.IsAbs(name) {
		link := fmt.Sprintf("/proc/%d/cwd", pid)
		if int32(dir) != unix.AT_FDCWD {
			link = fmt.Sprintf("/proc/%d/fd/%d", pid, int32(dir))
		}
		above, err := os.Readlink(link)
		if err != nil {
			return "", false
		}
		name = filepath.Join(above, name)
	}
	return t.relative(name)
}

func (t *tracer) relative(path string) (string, bool) {
	if path == t.below {
		return "", true
	}
	return strings.CutPrefix(path, t.below+"/")
}

// text is a string of a thread that stands still.
func (t *tracer) text(pid int, at uint64) string {
	var all []byte
	for len(all) < unix.PathMax {
		part := t.bytes(pid, at+uint64(len(all)), 256-int(at+uint64(len(all)))%256) // no page is crossed
		if text, _, end := strings.Cut(string(part), "\x00"); end || len(part) == 0 {
			return string(all) + text
		}
		all = append(all, part...)
	}
	return string(all)
}

func (t *tracer) bytes(pid int, at uint64, n int) []byte {
	b := make([]byte, n)
	got, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
	if err != nil {
		return nil
	}
	return b[:got]
}
