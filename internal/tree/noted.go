package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"

	"mcpx/internal/process"
)

// notedFile is beside a working copy, and says what each file of it was when the copy was made.
const notedFile = "noted"

// notedBegins is the first line of a note, which says how the rest is written, and in which boot: for each file its number, size
// and times, hash, and path, and at the end the hash of all that. "" there can be no note here: a store through a map may not
// change a time, or nobody can tell a boot from the next one. A power loss may keep bytes and lose the time of their inode, so
// that under another boot a note means nothing.
func (p Packet) notedBegins() string {
	dir, err := os.Open(p.Dir)
	if err != nil {
		return ""
	}
	defer dir.Close()
	v, err := volumeOf(dir, p.Dir)
	if err != nil || !v.stamps {
		return ""
	}
	self, err := process.Identify(os.Getpid())
	if err != nil || self.Boot == "" {
		return ""
	}
	return "noted 2 " + self.Boot + "\n"
}

// inode is what a file was: whoever writes to it changes the time at which its inode was changed, which nobody can set.
type inode struct {
	ino               uint64
	size              int64
	modified, changed int64 // nanoseconds since 1970
}

func inodeOf(f Facts) inode {
	return inode{f.ID.Ino, f.Size, f.Modified.UnixNano(), f.changed.UnixNano()}
}

// Noted are files of a working copy by their paths, as they were when it was made. One that is still in that state has the
// bytes that it had: nobody had it open or mapped then, and they are made only where the first store through a map changes the
// state, too.
type Noted map[string]noted

type noted struct {
	inode
	sum [sha256.Size]byte
}

// digest is the digest of a file that is in the state in which it was noted; "" it is not.
func (n Noted) digest(path string, now Facts) string {
	was, ok := n[path]
	if !ok || was.inode != inodeOf(now) {
		return ""
	}
	return hex.EncodeToString(was.sum[:])
}

// Note writes down what the files of a copy are, before anybody is told of it. A file that was written at the time at which
// this is done, as far as the clock of the file system goes, is left out: it could be written to once more at that time. Where
// the state of a file does not tell of every store nothing is written.
func (p Packet) Note(n Noted) (err error) {
	begins := p.notedBegins()
	if begins == "" {
		return nil
	}
	f, err := os.OpenFile(filepath.Join(p.Dir, notedFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return writing(err, p.Dir)
	}
	defer func() { err = writing(errors.Join(err, f.Close()), p.Dir) }()
	now, err := factsOf(f)
	if err != nil {
		return err
	}
	raw := []byte(begins)
	for path, s := range n {
		if s.changed >= now.changed.UnixNano() {
			continue
		}
		for _, v := range []uint64{s.ino, uint64(s.size), uint64(s.modified), uint64(s.changed)} {
			raw = binary.BigEndian.AppendUint64(raw, v)
		}
		raw = append(raw, s.sum[:]...)
		raw = binary.BigEndian.AppendUint16(raw, uint16(len(path)))
		raw = append(raw, path...)
	}
	sum := sha256.Sum256(raw)
	_, err = f.Write(append(raw, sum[:]...))
	return err
}

// Noted reads what Note has written. What is not there as a whole, or is of another boot, says nothing, and everything has to be
// read.
func (p Packet) Noted() Noted {
	begins := p.notedBegins()
	raw, err := os.ReadFile(filepath.Join(p.Dir, notedFile))
	if err != nil || begins == "" || len(raw) < sha256.Size {
		return nil
	}
	raw, end := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	rest, ok := bytes.CutPrefix(raw, []byte(begins))
	if sum := sha256.Sum256(raw); !ok || !bytes.Equal(sum[:], end) {
		return nil
	}
	const fixed = 4*8 + sha256.Size + 2
	n := Noted{}
	for len(rest) >= fixed {
		var s noted
		s.ino, s.size = binary.BigEndian.Uint64(rest), int64(binary.BigEndian.Uint64(rest[8:]))
		s.modified, s.changed = int64(binary.BigEndian.Uint64(rest[16:])), int64(binary.BigEndian.Uint64(rest[24:]))
		copy(s.sum[:], rest[32:])
		length := int(binary.BigEndian.Uint16(rest[fixed-2:]))
		if rest = rest[fixed:]; length > len(rest) {
			return nil
		}
		n[string(rest[:length])], rest = s, rest[length:]
	}
	return n
}
