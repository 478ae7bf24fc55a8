package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"time"
)

// Bounds of what is read, in bytes.
const (
	MaxEdit = 8 << 20   // of a file that is read whole, for an edit or a window
	MaxHash = 512 << 20 // of a file that is read through, for its hash
)

// maxReads bounds the tries on a file that changes while it is read.
const maxReads = 5

// readAgain is the time before a file that changes is read again, for each try so far.
const readAgain = 2 * time.Millisecond

// Content is a file in one state.
type Content struct {
	Facts         // of the file that was read: judge these once more where another name of a file may be denied
	Data   []byte // nil after Stream
	SHA256 string // hex, of all bytes
}

// Read reads a file whole. LimitExceeded above limit bytes, FileBusy for a file that changes as often as it is read,
// SpecialFile, NotFound, FileDenied.
func (p *Place) Read(ctx context.Context, limit int64) (Content, error) {
	var all bytes.Buffer
	c, err := p.Stream(ctx, limit, func() io.Writer {
		all.Reset()
		return &all
	})
	c.Data = all.Bytes()
	if err != nil {
		c.Data = nil
	}
	return c, err
}

// Hash reads a file through, for its hash. The errors are those of Read.
func (p *Place) Hash(ctx context.Context, limit int64) (Content, error) {
	return p.Stream(ctx, limit, func() io.Writer { return io.Discard })
}

// Stream reads a file from its beginning into what begin gives, and again into what it gives then, if the file changed
// meanwhile. What the last writer got is the file in one state. The errors are those of Read.
func (p *Place) Stream(ctx context.Context, limit int64, begin func() io.Writer) (Content, error) {
	return p.read(ctx, limit, math.MaxInt64, begin, func(Content, io.ReaderAt) error { return nil })
}

// Copy writes a file of any size to w, as it is read, and gives its hash: of what was written, whatever becomes of the file.
// The errors are those of Read.
func (p *Place) Copy(ctx context.Context, w io.Writer) (sum string, err error) {
	f, err := openRegular(p.dir, p.base)
	if err != nil {
		return "", reading(err, p.Asked)
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, hash), canceled{ctx, f}); err != nil {
		return "", reading(err, p.Asked)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// View reads a file of any size through, as Stream does, and lets use look into it while it is in that state; what use has
// made of another state is made again. The hash of a file above MaxHash is left out. The errors are those of Read, and those
// of use.
func (p *Place) View(ctx context.Context, begin func() io.Writer, use func(Content, io.ReaderAt) error) (Content, error) {
	return p.read(ctx, math.MaxInt64-1, MaxHash, begin, use)
}

func (p *Place) read(ctx context.Context, limit, hashed int64, begin func() io.Writer, use func(Content, io.ReaderAt) error) (Content, error) {
	for try := range maxReads {
		c, same, err := readOnce(ctx, p.dir, p.base, limit, hashed, begin(), use)
		if err != nil {
			return Content{}, reading(err, p.Asked)
		}
		if same {
			return c, nil
		}
		if err := pause(ctx, time.Duration(try)*readAgain); err != nil {
			return Content{}, err
		}
	}
	return Content{}, refuse(FileBusy, "%s changes all the time", p.Asked)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// readOnce reads a file that is under a name. False: it changed meanwhile, or another one is under the name now.
func readOnce(ctx context.Context, dir *os.File, name string, limit, hashed int64, to io.Writer, use func(Content, io.ReaderAt) error) (Content, bool, error) {
	f, err := openRegular(dir, name)
	if err != nil {
		return Content{}, false, err
	}
	defer f.Close()
	c, same, err := readOpen(ctx, f, limit, hashed, to)
	if err != nil || !same {
		return Content{}, false, err
	}
	used := use(c, f)
	now, err := look(dir, name)
	if errors.Is(err, os.ErrNotExist) {
		return Content{}, false, nil
	}
	if err != nil || !now.same(c.Facts) {
		return Content{}, false, err
	}
	return c, true, used
}

// openRegular opens a regular file. It is looked at before it is opened, so that neither a pipe nor a device notices, and
// once it is open, because another one may have taken its place.
func openRegular(dir *os.File, name string) (*os.File, error) {
	facts, err := look(dir, name)
	if err != nil {
		return nil, err
	}
	if facts.Kind != File {
		return nil, noRegular(facts.Kind, name)
	}
	f, err := openContent(dir, name)
	if err != nil {
		return nil, err
	}
	if facts, err = factsOf(f); err == nil && facts.Kind != File {
		err = noRegular(facts.Kind, name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func noRegular(kind Kind, name string) error {
	if kind == Directory {
		return refuse(NotAFile, "%s is a directory", name)
	}
	return refuse(SpecialFile, "%s is no regular file", name)
}

// readOpen reads an open file from where it is, and makes its hash up to a size. False: it changed meanwhile.
func readOpen(ctx context.Context, f *os.File, limit, hashed int64, to io.Writer) (Content, bool, error) {
	before, err := factsOf(f)
	if err != nil {
		return Content{}, false, err
	}
	if before.Size > limit {
		return Content{}, false, tooLarge(f.Name(), limit)
	}
	sum := sha256.New()
	both := to
	if before.Size <= hashed {
		both = io.MultiWriter(sum, to)
	}
	n, err := io.Copy(both, io.LimitReader(canceled{ctx, f}, limit+1))
	if err != nil {
		return Content{}, false, err
	}
	if n > limit {
		return Content{}, false, tooLarge(f.Name(), limit)
	}
	after, err := factsOf(f)
	if err != nil {
		return Content{}, false, err
	}
	c := Content{Facts: after}
	if before.Size <= hashed {
		c.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
	return c, before.same(after) && n == after.Size, nil
}

func tooLarge(name string, limit int64) error {
	return refuse(LimitExceeded, "%s is larger than %d bytes", name, limit).With("limit", limit)
}

// canceled is a reader that ends with its context.
type canceled struct {
	ctx context.Context
	r   io.Reader
}

func (c canceled) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
