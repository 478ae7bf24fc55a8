//go:build unix

package shim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mcpx/internal/atomicfile"
	"mcpx/internal/fault"
	"mcpx/internal/operation"
)

// The input of a job is a directory with one file for each chunk, in the order of their names. A chunk is known by the
// operation that gave it, so the same one is never appended twice. The supervisor empties a chunk when the job has taken
// it, and gives it another name.
const (
	fedMark    = ".fed"
	eofMark    = ".eof"
	closedFile = "closed" // the job does not read any more
)

// spooled is one chunk.
type spooled struct {
	name string // without the mark fed
	by   string
	size int64
	fed  bool
	eof  bool
}

// readSpool lists the chunks.
func readSpool(dir string) (all []spooled, closed bool, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true, nil // a job without input
	}
	if err != nil {
		return nil, false, err
	}
	for _, e := range entries {
		name := e.Name()
		if name == closedFile {
			closed = true
		}
		_, rest, ok := strings.Cut(name, "-")
		if !ok || strings.HasPrefix(name, ".") {
			continue // being written
		}
		c := spooled{}
		rest, c.fed = strings.CutSuffix(rest, fedMark)
		c.by, c.eof = strings.CutSuffix(rest, eofMark)
		c.name = strings.TrimSuffix(name, fedMark)
		if c.eof {
			closed = true
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			c.fed = true // the supervisor has just given it the other name
		} else if err != nil {
			return nil, false, err
		} else if !c.fed {
			c.size = info.Size()
		}
		all = append(all, c)
	}
	return all, closed, nil
}

// chunkOf names the chunk of an operation.
func chunkOf(by string) string {
	sum := sha256.Sum256([]byte(by))
	return hex.EncodeToString(sum[:12])
}

func standing(all []spooled, closed bool) operation.JobInput {
	in := operation.JobInput{Closed: closed}
	for _, c := range all {
		in.Queued += int(c.size)
	}
	return in
}

// appendChunk adds a chunk. Nobody else may do so at the same time.
func appendChunk(dir string, c operation.Chunk) (operation.JobInput, error) {
	all, closed, err := readSpool(dir)
	if err != nil {
		return operation.JobInput{}, err
	}
	in := standing(all, closed)
	for _, one := range all {
		if one.by == chunkOf(c.By) {
			return in, nil
		}
	}
	if closed {
		return in, fault.New(fault.Conflict, "input-closed").Saying("its standard input is closed")
	}
	if in.Queued+len(c.Data) > operation.MaxInput {
		return in, fault.New(fault.Busy, "input-full").Saying("it has not read what was written before").Retrying(fault.AfterWait)
	}
	name := fmt.Sprintf("%08d-%s", len(all), chunkOf(c.By))
	if c.EOF {
		name += eofMark
	}
	if err := atomicfile.Write(filepath.Join(dir, name), c.Data, 0o600); err != nil {
		return in, err
	}
	in.Queued += len(c.Data)
	in.Closed = c.EOF
	return in, nil
}

// feed gives the job everything that waits, and reports whether there can be more.
func (j *job) feed() (more bool) {
	all, _, err := readSpool(j.dir.input())
	if err != nil {
		return true // tried again with the slow clock
	}
	for _, c := range all {
		if c.fed {
			continue
		}
		path := filepath.Join(j.dir.input(), c.name)
		data, err := os.ReadFile(path)
		if err != nil {
			return true
		}
		if _, err := j.child.Stdin.Write(data); err != nil {
			_ = os.WriteFile(filepath.Join(j.dir.input(), closedFile), nil, 0o600) // it is for the daemon; the job reads nothing more in any case
			return false
		}
		// What was read may be secret: it does not stay.
		if err := errors.Join(os.Truncate(path, 0), os.Rename(path, path+fedMark)); err != nil {
			return true
		}
		if c.eof {
			return false
		}
	}
	return true
}
