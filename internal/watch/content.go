package watch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"
)

// maxSize bounds what is read of one file, in bytes. A longer one has another size when it changes, or other times.
const maxSize = 16 << 20

// coarse is how far apart two changes may be that leave the same time at a file, on the coarsest file systems.
const coarse = 2 * time.Second

// What a file without a content is.
const (
	absent     = "absent"
	unreadable = "unreadable"
	irregular  = "irregular"
)

// content is what was read of a file.
type content struct {
	sum  string // SHA-256 in hex, or why there is none
	info fs.FileInfo
	at   time.Time // when it was read
}

// same says whether nothing happened between two contents. A file that was written anew with what it was before is another
// one: whoever was told may have seen, or written, what was there in between. So is one that others may write now, or no more.
func (c content) same(other content) bool {
	if c.sum != other.sum || (c.info == nil) != (other.info == nil) {
		return false
	}
	return c.info == nil || os.SameFile(c.info, other.info) && c.info.ModTime().Equal(other.info.ModTime()) && c.info.Mode() == other.info.Mode()
}

// read reads a file, through links. One that has the identity, size and time of the last content is not read again,
// unless it was read so soon after it was written that a change may have left the same time.
func read(path string, last content) content {
	now := content{at: time.Now()}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		now.sum = absent
		return now
	case err != nil:
		now.sum = unreadable
		return now
	case !info.Mode().IsRegular():
		now.sum = irregular // a pipe is not opened: that would wait
		return now
	}
	now.info = info
	if last.info != nil && os.SameFile(last.info, info) && last.info.Size() == info.Size() && last.info.Mode() == info.Mode() &&
		last.info.ModTime().Equal(info.ModTime()) && last.at.Sub(info.ModTime()) > coarse {
		return last
	}
	f, err := os.Open(path)
	if err != nil {
		now.sum = unreadable
		return now
	}
	defer f.Close()
	hash := sha256.New()
	n, err := io.Copy(hash, io.LimitReader(f, maxSize))
	if err != nil {
		now.sum = unreadable
		return now
	}
	if n == maxSize { // the rest counts by size and time
		_, _ = io.WriteString(hash, info.ModTime().String())
	}
	now.sum = hex.EncodeToString(hash.Sum(nil))
	return now
}
