//go:build unix

package process

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxHashed bounds the programs whose bytes are compared: reading 64 MiB takes a tenth of a second, once for each start.
// Larger ones are compared by what the file system says of them.
const maxHashed = 64 << 20

// Executable is the file of a program at one moment: enough to see later whether the file behind the same name has other
// bytes. The zero value stands for a file that nobody looked at.
type Executable struct {
	Path    string `json:"path"`             // as it was resolved for the start; may be a link
	Real    string `json:"real"`             // the file itself
	Size    int64  `json:"size"`             // bytes
	Mtime   int64  `json:"mtime"`            // of the content, nanoseconds since 1970
	Ctime   int64  `json:"ctime"`            // of the inode, the same unit; a copy that keeps mtime cannot keep this one
	Device  uint64 `json:"device"`           // of the file system
	Inode   uint64 `json:"inode"`            //
	Mode    uint32 `json:"mode"`             // st_mode
	Content string `json:"sha256,omitempty"` // hex; "" for a file over 64 MiB or one that may be run but not read
}

// SameAs reports whether both have the same bytes, whatever happened to name, owner and times. Files whose bytes were not
// read are the same when the file system shows no other content and mode.
func (e Executable) SameAs(other Executable) bool {
	switch {
	case e.sameFile(other):
		return true
	case e.Content != "" && other.Content != "":
		return e.Content == other.Content
	}
	e.Ctime = other.Ctime // this alone differs after a link to the file
	return e.sameFile(other)
}

// Recall describes the file at e.Path anew. Its bytes are not read again while the file system shows no difference to e;
// an e with nothing but a path describes a file for the first time.
func (e Executable) Recall() (Executable, error) { return examine(e.Path, e) }

// examine describes the file at path; what known says of its bytes is taken over when it is the same file.
func examine(path string, known Executable) (Executable, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place must not block
	if errors.Is(err, fs.ErrPermission) {
		return examineUnread(path) // a program may be executable and not readable
	}
	if err != nil {
		return Executable{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Executable{}, err
	}
	e, err := describe(path, info)
	if err != nil || e.Size > maxHashed || !info.Mode().IsRegular() {
		return e, err
	}
	if e.sameFile(known) {
		e.Content = known.Content
		return e, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.LimitReader(f, maxHashed+1)); err != nil {
		return Executable{}, fmt.Errorf("read %s: %w", path, err)
	}
	e.Content = hex.EncodeToString(h.Sum(nil))
	return e, nil
}

func examineUnread(path string) (Executable, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Executable{}, err
	}
	return describe(path, info)
}

func describe(path string, info fs.FileInfo) (Executable, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Executable{}, fmt.Errorf("%s: %w", path, ErrUnknown)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Executable{}, err
	}
	e := Executable{Path: path, Real: real, Size: info.Size(), Mtime: info.ModTime().UnixNano()}
	e.takeInode(st)
	return e, nil
}

// sameFile reports whether nothing that the file system tells of the file differs.
func (e Executable) sameFile(other Executable) bool {
	e.Path, e.Real, e.Content = other.Path, other.Real, other.Content
	return e == other
}
