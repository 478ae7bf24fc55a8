//go:build linux || darwin

package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

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
