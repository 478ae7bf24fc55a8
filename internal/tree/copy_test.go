//go:build linux || darwin

package tree

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mcpx/internal/atomicfile"
	"mcpx/internal/test/faultdisk"
)

// TestDW34Moving: DW-34. Somebody writes the next number into ten files, one after the other, again and again. A copy has them as they
// were at one instant, or is refused after a second try. MCPX_TEST_FULL makes it 200 rounds.
func TestDW34Moving(t *testing.T) {
	rounds := 20
	if os.Getenv("MCPX_TEST_FULL") != "" {
		rounds = 200
	}
	s := shedIn(t, faultdisk.Dir(t))
	put := func(file, n int) {
		path := s.path(fmt.Sprintf("f%d", file))
		if err := os.WriteFile(path+"~", []byte(strconv.Itoa(n)), 0o600); err != nil {
			t.Error(err)
			return
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Error(err)
		}
	}
	for file := range 10 {
		put(file, 0)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 1; ; n++ {
			for file := range 10 {
				put(file, n)
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(n%20) * time.Millisecond): // what the test is about: pauses of different lengths
				}
			}
		}
	}()
	defer func() {
		close(stop)
		<-stopped
	}()
	whole, refused := 0, 0
	for round := range rounds {
		to := filepath.Join(s.state, fmt.Sprint("copy-", round))
		_, err := s.root.CopyTo(t.Context(), to, to+"-blobs", CopyOptions{Twice: func(string) bool { return true }})
		if CodeOf(err) == Moved && err != nil {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		whole++
		var all []int
		for file := range 10 {
			raw, err := os.ReadFile(filepath.Join(to, fmt.Sprintf("f%d", file)))
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.Atoi(string(raw))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, n)
		}
		for i, n := range all { // f0 to fk hold n+1, the others n
			if i > 0 && (n > all[i-1] || n < all[0]-1) {
				t.Errorf("round %d: the copy is of no instant: %v", round, all)
			}
		}
	}
	t.Logf("%d copies of one instant, %d refused", whole, refused)
}

// TestCloneFails: a file that cannot share its bytes is copied, and the others share theirs all the same, unless the system says
// that there is no sharing.
func TestCloneFails(t *testing.T) {
	project := t.TempDir()
	const files = 20
	for n := range files {
		if err := os.WriteFile(filepath.Join(project, fmt.Sprint(n)), fmt.Appendf(nil, "file %02d", n), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := Open(project, Options{ByPath: true})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, test := range []struct {
		err  error
		ends bool
	}{
		{unix.EINVAL, false},
		{unix.EPERM, false},
		{unix.ETXTBSY, false},
		{unix.EIO, false},
		{unix.EOPNOTSUPP, true},
		{unix.ENOSYS, true},
		{unix.ENOTTY, true},
		{unix.EXDEV, true},
		{errors.ErrUnsupported, true},
	} {
		for _, second := range []bool{false, true} { // which of the two copies cannot share
			dir := t.TempDir()
			p := Packet{dir}
			c := root.copier(p.Copy(), p.Blobs(), CopyOptions{Twice: func(string) bool { return true }})
			var shared, failed atomic.Int64
			c.clone = func(dst, src *os.File) error {
				if inBase := filepath.Dir(dst.Name()) == p.Blobs(); src.Name() == "7" && inBase == second {
					failed.Add(1)
					return test.err
				}
				shared.Add(1)
				data, err := io.ReadAll(io.NewSectionReader(src, 0, 100))
				if err == nil {
					_, err = dst.WriteAt(data, 0)
				}
				return err
			}
			if err := c.run(t.Context()); err != nil {
				t.Fatalf("%v: %v", test.err, err)
			}
			for n := range files {
				want := fmt.Sprintf("file %02d", n)
				copied, err := os.ReadFile(filepath.Join(p.Copy(), fmt.Sprint(n)))
				base, baseErr := p.Bytes(atomicfile.Sum([]byte(want)), 100)
				if string(copied) != want || string(base) != want {
					t.Errorf("%v: %q and %q, want %q; %v", test.err, copied, base, want, errors.Join(err, baseErr))
				}
			}
			all := int64(2 * (files - 1)) // of the other files, their copies and what is kept of BASE
			if second {
				all++
			}
			if failed.Load() != 1 || c.out.Shared || c.plain.Load() != test.ends || !test.ends && shared.Load() != all {
				t.Errorf("%v: failed %d times, shared %d of %d, ended: %t", test.err, failed.Load(), shared.Load(), all, c.plain.Load())
			}
		}
	}
}

// TestMoveAgain: a packet that was moved before is there, and one that is nowhere is not moved.
func TestMoveAgain(t *testing.T) {
	s := newShed(t)
	p, to := s.area.Packet("ws_1"), s.area.InTrash("ws_1")
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.area.Move(p, to); err != nil {
			t.Fatal(err)
		}
		if there, err := to.Exists(); err != nil || !there {
			t.Fatalf("moved: %v, %v", there, err)
		}
	}
	if err := s.area.Move(p, s.area.Aside("ws_1")); CodeOf(err) == "" {
		t.Errorf("one that is elsewhere: %v", err)
	}
}

// TestFlushAhead: a large copy is made durable while it is made, and an error of that is one of the copy though the last flush has none.
func TestFlushAhead(t *testing.T) {
	s := newShed(t)
	if err := os.WriteFile(s.path("a"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, fails := range map[string]bool{"well": false, "an error": true} {
		c := s.root.copier(filepath.Join(s.state, name), "", CopyOptions{})
		c.clone = func(_, _ *os.File) error { return errors.ErrUnsupported }
		c.out.Real = flushEvery - 1
		flushes := 0
		c.flush = func(string) error {
			if flushes++; flushes == 1 && fails {
				return unix.EIO
			}
			return nil
		}
		if err := c.run(t.Context()); errors.Is(err, unix.EIO) != fails || !fails && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if flushes != 2 {
			t.Errorf("%s: %d flushes", name, flushes)
		}
	}
}

// TestMovedIsNamed: a copy that is refused because files change names them: one that is written to, one that is new, and one that is
// gone.
func TestMovedIsNamed(t *testing.T) {
	for what, change := range map[string]func(s *shed, n int64) error{
		"written.txt": func(s *shed, n int64) error {
			return os.WriteFile(s.path("written.txt"), fmt.Append(nil, "version ", n), 0o600)
		},
		"new.txt": func(s *shed, n int64) error {
			return errors.Join(os.RemoveAll(s.path("new.txt")), os.WriteFile(s.path("new.txt"), fmt.Append(nil, "version ", n), 0o600))
		},
		"gone/there.txt": func(s *shed, n int64) error {
			return errors.Join(os.RemoveAll(s.path("gone")), os.MkdirAll(s.path("gone"), 0o700), os.WriteFile(s.path("gone/there.txt"), fmt.Append(nil, n), 0o600))
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newShed(t)
			if err := errors.Join(os.MkdirAll(s.path("gone"), 0o700), os.WriteFile(s.path("gone/there.txt"), nil, 0o600), os.WriteFile(s.path("written.txt"), nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex // guards changes, and what they change
			changes := int64(0)
			_, err := s.root.CopyTo(t.Context(), filepath.Join(s.state, "copy"), "", CopyOptions{Each: func() {
				mu.Lock()
				defer mu.Unlock()
				changes++
				if err := change(s, changes); err != nil {
					t.Error(err)
				}
			}})
			p, ok := errors.AsType[*Problem](err)
			if !ok || p.Code != Moved {
				t.Fatalf("copied: %v", err)
			}
			paths, _ := p.Details["paths"].([]string)
			if !strings.Contains(p.Message, path.Dir(what)) && !strings.Contains(p.Message, what) || len(paths) == 0 || len(paths) > maxMoved {
				t.Errorf("%s, %v", p.Message, paths)
			}
		})
	}
}
