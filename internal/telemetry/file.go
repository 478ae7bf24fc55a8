package telemetry

import (
	"fmt"
	"io"
	"os"
	"sync"
)

// The log of a detached daemon: ten files of 10 MB hold some weeks of an operator's timeline and are small enough to
// attach to a report.
const (
	LogFileBytes = 10 << 20
	LogFiles     = 10
)

// File is a log file that starts anew when it is full: path is the newest, path.1 the one before it.
type File struct {
	path  string
	bytes int64
	files int

	mu   sync.Mutex // guards file and size
	file *os.File
	size int64
}

var _ io.WriteCloser = (*File)(nil)

// OpenFile opens a log file for appending. bytes and files are the bounds, both at least 1.
func OpenFile(path string, bytes int64, files int) (*File, error) {
	if bytes < 1 || files < 1 {
		return nil, fmt.Errorf("telemetry: OpenFile: bounds are %d bytes and %d files, want at least 1", bytes, files)
	}
	f := &File{path: path, bytes: bytes, files: files}
	if err := f.openLocked(); err != nil {
		return nil, err
	}
	return f, nil
}

// Write appends one line. A line is never split over two files.
func (f *File) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return 0, os.ErrClosed
	}
	if f.size > 0 && f.size+int64(len(line)) > f.bytes {
		if err := f.rotateLocked(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(line)
	f.size += int64(n)
	return n, err
}

// Close closes the file; later writes fail.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}

func (f *File) openLocked() error {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close() // the error of Stat is the one to report
		return err
	}
	f.file, f.size = file, info.Size()
	return nil
}

func (f *File) rotateLocked() error {
	err := f.file.Close()
	f.file = nil
	if err != nil {
		return err
	}
	for i := f.files - 1; i > 0; i-- {
		from := f.path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", f.path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", f.path, i)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if f.files == 1 {
		if err := os.Remove(f.path); err != nil {
			return err
		}
	}
	return f.openLocked()
}
