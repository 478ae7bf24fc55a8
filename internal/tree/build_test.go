//go:build linux || darwin

package tree

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"mcpx/internal/workspace"
)

// TestSealUnderAMap: DW-53, and an open descriptor: whoever can still write to the outputs changes nothing of what is sealed.
func TestSealUnderAMap(t *testing.T) {
	y := newYard(t, Options{})
	const size = 1 << 20
	if err := os.MkdirAll(y.path("out"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(y.path("out/mapped"), make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(y.path("out/mapped"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := byte(1); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for i := 0; i < size; i += 4096 {
				mapped[i] = n
			}
		}
	})
	defer func() {
		close(stop)
		writer.Wait()
		if err := unix.Munmap(mapped); err != nil {
			t.Error(err)
		}
	}()
	area, err := y.root.Area(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer area.Close()
	sealed, moved, rounds := 0, 0, 200
	if testing.Short() {
		rounds = 20
	}
	for range rounds {
		b := area.Draft("cand_1")
		if err := area.Make(b); err != nil {
			t.Fatal(err)
		}
		all, err := y.root.Seal(t.Context(), b, []string{"out"}, func(string) bool { return false })
		switch {
		case CodeOf(err) == Moved:
			moved++
		case err != nil:
			t.Fatal(err)
		default:
			sealed++
			m, err := workspace.NewManifest(all)
			if err != nil {
				t.Fatal(err)
			}
			_, want := m.Encode()
			if d, hash, err := b.Verify(t.Context(), m, nil); err != nil || !d.Same() || hash != want {
				t.Fatalf("what was sealed is %+v, %s, not %s: %v", d, hash, want, err)
			}
		}
		if err := b.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d sealed, %d moving", sealed, moved)
	if entries, err := os.ReadDir(filepath.Dir(area.Draft("cand_1").Dir)); err != nil || len(entries) != 0 {
		t.Errorf("left are %v, %v", entries, err)
	}
}
