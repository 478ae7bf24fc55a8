//go:build unix

package shim

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"mcpx/internal/operation"
)

// Output of a job is kept in segments. Of a stream that has more than keptSegments the first and the last ones are kept:
// how it began and how it ended (durable-work.md section 13.3).
const (
	outputSegment = 1 << 20
	keptSegments  = 64
)

// segments takes one stream.
type segments struct {
	dir    string
	stream operation.Stream

	mu    sync.Mutex // guards the fields below
	file  *os.File   // the last segment; nil before the first byte
	index int
	size  int64 // of the last segment
	lost  int64
}

// write appends. What the disk does not take is counted, and the command goes on.
func (s *segments) write(p []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(p) > 0 {
		if s.file == nil || s.size == outputSegment {
			if err := s.next(); err != nil {
				s.lost += int64(len(p))
				return
			}
		}
		n, err := s.file.Write(p[:min(int64(len(p)), outputSegment-s.size)])
		s.size += int64(n)
		p = p[n:]
		if err != nil {
			s.lost += int64(len(p))
			return
		}
	}
}

// next begins a segment. What has to go for it goes first: the bound holds at every moment.
func (s *segments) next() error {
	index := s.index
	if s.file != nil {
		index++
	}
	if old := index - keptSegments + 1; old > 0 {
		if err := os.Remove(segmentPath(s.dir, s.stream, old)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f, err := os.OpenFile(segmentPath(s.dir, s.stream, index), os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	if s.file != nil {
		_ = s.file.Close() // its bytes are the kernel's
	}
	s.file, s.index, s.size = f, index, 0
	return nil
}

// sync makes what was written durable, and says what it is.
func (s *segments) sync() (written, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := written{Lost: s.lost}
	if s.file == nil {
		return w, nil
	}
	w.Bytes = int64(s.index)*outputSegment + s.size
	w.Dropped = int64(max(0, s.index-keptSegments+1)) * outputSegment
	return w, s.file.Sync()
}

func segmentPath(dir string, stream operation.Stream, index int) string {
	return filepath.Join(dir, fmt.Sprintf("%s.%06d", stream, index))
}

// readSegments reads a window of a stream, which may grow meanwhile.
func readSegments(dir string, stream operation.Stream, offset int64, most int) (operation.JobOutput, error) {
	out := operation.JobOutput{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return out, err
	}
	var kept []int
	for _, e := range entries {
		name, number, ok := strings.Cut(e.Name(), ".")
		if n, err := strconv.Atoi(number); ok && err == nil && name == string(stream) {
			kept = append(kept, n)
		}
	}
	if len(kept) == 0 {
		return out, nil
	}
	slices.Sort(kept)
	last := kept[len(kept)-1]
	info, err := os.Stat(segmentPath(dir, stream, last))
	if err != nil {
		return out, err
	}
	out.Size = int64(last)*outputSegment + info.Size()
	out.Dropped = int64(last+1-len(kept)) * outputSegment
	if offset < 0 {
		offset = max(0, out.Size+offset)
	}
	out.Offset = min(offset, out.Size)
	for _, n := range kept {
		from, to := int64(n)*outputSegment, min(int64(n+1)*outputSegment, out.Size)
		at := out.Offset + int64(len(out.Data))
		if to <= at {
			continue
		}
		if from > at {
			if len(out.Data) > 0 {
				return out, nil // what follows is not kept: a window never hides a gap
			}
			at, out.Offset = from, from
		}
		part := make([]byte, min(to-at, int64(most-len(out.Data))))
		got, err := readAt(segmentPath(dir, stream, n), part, at-from)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it had to go meanwhile
		}
		if err != nil {
			return out, err
		}
		if out.Data = append(out.Data, part[:got]...); len(out.Data) >= most {
			return out, nil
		}
	}
	return out, nil
}

func readAt(path string, into []byte, at int64) (int, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(into, at)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
