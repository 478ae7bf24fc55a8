package tree

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"sync"
)

// A pack holds the bytes of many small files one behind the other, because a file for each takes longer to make than all
// else that a copy does. It is written once. Its index has a row for each, in the order of their hashes: the hash, where the
// bytes begin, and how many they are.
const (
	packFile  = "pack"
	packIndex = "pack.index"
	packRow   = sha256.Size + 8 + 8
	// packBuffer is what is written to a pack at once, in bytes.
	packBuffer = 1 << 20
)

// packed is a row of an index.
type packed struct {
	sum      [sha256.Size]byte
	at, size int64
}

// packer makes a pack. It is safe for use by several goroutines.
type packer struct {
	dir  string
	file *os.File

	mu   sync.Mutex // guards what follows
	out  *bufio.Writer
	end  int64
	rows map[[sha256.Size]byte]packed
}

func newPacker(dir string) (*packer, error) {
	f, err := os.OpenFile(filepath.Join(dir, packFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &packer{dir: dir, file: f, out: bufio.NewWriterSize(f, packBuffer), rows: map[[sha256.Size]byte]packed{}}, nil
}

// add adds bytes, once for each hash.
func (p *packer) add(sum [sha256.Size]byte, data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.rows[sum]; ok {
		return nil
	}
	p.rows[sum] = packed{sum, p.end, int64(len(data))}
	p.end += int64(len(data))
	_, err := p.out.Write(data)
	return err
}

// finish writes what is left, and the index. It is as durable as the file system of the directory is made afterwards.
func (p *packer) finish() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.out.Flush(); err != nil {
		return err
	}
	rows := make([]packed, 0, len(p.rows))
	for _, r := range p.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b packed) int { return bytes.Compare(a.sum[:], b.sum[:]) })
	index := make([]byte, 0, len(rows)*packRow)
	for _, r := range rows {
		index = append(index, r.sum[:]...)
		index = binary.BigEndian.AppendUint64(index, uint64(r.at))
		index = binary.BigEndian.AppendUint64(index, uint64(r.size))
	}
	return os.WriteFile(filepath.Join(p.dir, packIndex), index, 0o600)
}

func (p *packer) close() error { return p.file.Close() }

// findPacked finds bytes in the pack of a directory. fs.ErrNotExist: they are not there, or there is no pack.
func findPacked(dir, digest string) (packed, error) {
	row := packed{}
	if n, err := hex.Decode(row.sum[:], []byte(digest)); err != nil || n != sha256.Size {
		return row, fs.ErrNotExist
	}
	f, err := os.Open(filepath.Join(dir, packIndex))
	if err != nil {
		return row, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return row, err
	}
	rows, raw := int(info.Size()/packRow), make([]byte, packRow)
	read := func(n int) {
		if _, failed := f.ReadAt(raw, int64(n)*packRow); failed != nil {
			err = failed
		}
	}
	n := sort.Search(rows, func(n int) bool {
		read(n)
		return bytes.Compare(raw[:sha256.Size], row.sum[:]) >= 0
	})
	if n == rows {
		return row, errors.Join(err, fs.ErrNotExist)
	}
	if read(n); err == nil && !bytes.Equal(raw[:sha256.Size], row.sum[:]) {
		err = fs.ErrNotExist
	}
	row.at = int64(binary.BigEndian.Uint64(raw[sha256.Size:]))
	row.size = int64(binary.BigEndian.Uint64(raw[sha256.Size+8:]))
	return row, err
}

// readPacked reads bytes of the pack of a directory. fs.ErrNotExist, also when those that are there are others: a pack that is
// damaged has less than it had. LimitExceeded.
func readPacked(dir, digest string, limit int64) ([]byte, error) {
	row, err := findPacked(dir, digest)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, packFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if row.at < 0 || row.size < 0 || row.size > info.Size() || row.at > info.Size()-row.size {
		return nil, fs.ErrNotExist
	}
	if row.size > limit {
		return nil, tooLarge(digest, limit)
	}
	data := make([]byte, row.size)
	if _, err := f.ReadAt(data, row.at); err != nil {
		return nil, err
	}
	if sha256.Sum256(data) != row.sum {
		return nil, fs.ErrNotExist
	}
	return data, nil
}
