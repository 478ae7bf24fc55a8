//go:build linux || darwin

package tree

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"mcpx/internal/atomicfile"
)

func TestRead(t *testing.T) {
	y := newYard(t, Options{})
	p, err := y.resolve("src/main.go", Read)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.Read(t.Context(), MaxEdit)
	if err != nil || string(c.Data) != "package main\n" || c.SHA256 != atomicfile.Sum(c.Data) || c.Size != int64(len(c.Data)) || c.Links != 1 {
		t.Errorf("read %+v, %v", c, err)
	}
	h, err := p.Hash(t.Context(), MaxHash)
	if err != nil || h.SHA256 != c.SHA256 || h.Data != nil {
		t.Errorf("hashed %+v, %v", h, err)
	}
	if _, err := p.Read(t.Context(), 12); CodeOf(err) != LimitExceeded {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := p.Read(t.Context(), 13); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	y.put("src/main.go", secret)
	if c, err := p.Read(t.Context(), MaxEdit); err != nil || string(c.Data) != secret {
		t.Errorf("what stands under the name now: %q, %v", c.Data, err)
	}
	left, leave := context.WithCancelCause(t.Context())
	gone := errors.New("the caller left")
	leave(gone)
	if _, err := p.Hash(left, MaxHash); !errors.Is(err, gone) {
		t.Errorf("after the caller left: %v", err)
	}
	if err := os.Remove(y.path("src/main.go")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(t.Context(), MaxEdit); CodeOf(err) != NotFound {
		t.Errorf("removed: %v", err)
	}
}

// meddler does something once, at the first byte that is read.
type meddler struct {
	io.Writer
	once *sync.Once
	do   func()
}

func (m meddler) Write(b []byte) (int, error) {
	m.once.Do(m.do)
	return m.Writer.Write(b)
}

// TestChangeWhileReading: what is given is the file in one state.
func TestChangeWhileReading(t *testing.T) {
	before, after := strings.Repeat("a", 1<<20), strings.Repeat("b", 1<<20)
	for name, change := range map[string]func(y *yard){
		"in place": func(y *yard) { y.put("f", after) },
		"renamed": func(y *yard) {
			y.put("g", after)
			if err := os.Rename(y.path("g"), y.path("f")); err != nil {
				y.t.Fatal(err)
			}
		},
		"a pipe": func(y *yard) {
			if err := os.Remove(y.path("f")); err != nil {
				y.t.Fatal(err)
			}
			makePipe(y.t, y.path("f"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, Options{})
			y.put("f", before)
			p, err := y.resolve("f", Read)
			if err != nil {
				t.Fatal(err)
			}
			var last *strings.Builder
			var once sync.Once
			c, err := p.Stream(t.Context(), MaxHash, func() io.Writer {
				last = &strings.Builder{}
				return meddler{last, &once, func() { change(y) }}
			})
			if name == "a pipe" {
				if CodeOf(err) != SpecialFile {
					t.Errorf("a pipe came in between: %v", err)
				}
				return
			}
			if err != nil || last.String() != after || c.SHA256 != atomicfile.Sum([]byte(after)) {
				t.Errorf("%v, and %d bytes of which the first is %.1s", err, last.Len(), last.String())
			}
		})
	}
	t.Run("all the time", func(t *testing.T) {
		y := newYard(t, Options{})
		y.put("f", before)
		p, err := y.resolve("f", Read)
		if err != nil {
			t.Fatal(err)
		}
		tries := 0
		_, err = p.Stream(t.Context(), MaxHash, func() io.Writer {
			tries++
			return meddler{io.Discard, &sync.Once{}, func() { y.put("f", before) }}
		})
		if CodeOf(err) != FileBusy || tries != maxReads {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}
