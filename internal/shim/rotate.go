package shim

import (
	"os"
	"sync"
)

// stderrLogSize is the size at which stderr.log becomes stderr.log.1; the one before that is deleted.
const stderrLogSize = 1 << 20

// rotating is a log file of bounded size: the current file and the one before it.
type rotating struct {
	path  string
	limit int64

	mu   sync.Mutex // guards f and size
	f    *os.File
	size int64
}

func openRotating(path string, limit int64) (*rotating, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return &rotating{path: path, limit: limit, f: f, size: info.Size()}, nil
}

// write appends p. A full disk loses log lines and nothing else, so there is no error to report.
func (r *rotating) write(p []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.size+int64(len(p)) > r.limit && r.size > 0 {
		_ = r.f.Close()
		_ = os.Rename(r.path, r.path+".1")
		f, err := os.OpenFile(r.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			r.size = r.limit // try again with the next chunk
			return
		}
		r.f, r.size = f, 0
	}
	n, _ := r.f.Write(p)
	r.size += int64(n)
}

func (r *rotating) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.f.Close()
}
