package atomicfile_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mcpx/internal/atomicfile"
	"mcpx/internal/test/faultdisk"
)

// world is a directory with one file that is swapped.
type world struct {
	t      *testing.T
	dir    string
	target string
	disk   *faultdisk.Disk
	swap   atomicfile.Swap
	wrote  []string // what others wrote under the name of the target, the last one last; "" removed
	serial int
}

// Contents of the file before and after.
const oldBytes, newBytes = "old bytes\n", "new bytes, and longer ones\n"

// shapes are the changes that a swap makes: contents before and after, "" no file.
var shapes = map[string][2]string{"replace": {oldBytes, newBytes}, "create": {"", newBytes}, "remove": {oldBytes, ""}}

func stateOf(content string) atomicfile.State {
	if content == "" {
		return atomicfile.State{Absent: true}
	}
	return atomicfile.State{SHA256: atomicfile.Sum([]byte(content))}
}

func newWorld(t *testing.T, dir string, shape [2]string, noExchange bool) *world {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: dir, target: filepath.Join(dir, "target"), disk: &faultdisk.Disk{Under: quick{}, NoExchange: noExchange}}
	if shape[0] != "" {
		w.write(w.target, shape[0])
	}
	w.swap = atomicfile.Swap{
		Disk: w.disk, Target: w.target, Staged: filepath.Join(dir, ".target.mcpx-rcp_1-0"),
		Old: stateOf(shape[0]), New: stateOf(shape[1]), Data: []byte(shape[1]), Perm: 0o600,
	}
	return w
}

// quick leaves out the waits for the disk.
type quick struct{ atomicfile.OS }

func (quick) SyncDir(string) error { return nil }

func (quick) Stage(path string, data []byte, like string, perm fs.FileMode) error {
	if like != "" {
		if _, err := os.Lstat(like); err != nil {
			return err
		}
	}
	return os.WriteFile(path, data, perm)
}

func (w *world) write(path, content string) {
	w.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// writers are what other processes do to the file.
var writers = map[string]func(w *world){
	"rename": func(w *world) {
		w.serial++
		content := fmt.Sprintf("renamed %d\n", w.serial)
		temp := filepath.Join(w.dir, "temp")
		w.write(temp, content)
		if err := os.Rename(temp, w.target); err != nil {
			w.t.Fatal(err)
		}
		w.wrote = append(w.wrote, content)
	},
	"in place": func(w *world) {
		w.serial++
		content := fmt.Sprintf("in place %d\n", w.serial)
		w.write(w.target, content)
		w.wrote = append(w.wrote, content)
	},
	"remove": func(w *world) {
		if err := os.Remove(w.target); err == nil {
			w.wrote = append(w.wrote, "")
		}
	},
}

// content is what stands under a name, "" nothing.
func content(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(raw)
}

// everything is all contents in the directory, and the names beside the target.
func (w *world) everything() (contents map[string]bool, others []string) {
	w.t.Helper()
	contents = map[string]bool{}
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		contents[content(w.t, filepath.Join(w.dir, e.Name()))] = true
		if e.Name() != "target" {
			others = append(others, e.Name())
		}
	}
	return contents, others
}

// whole checks that nothing of others is lost, that the target is in a state that somebody wanted, and that no file is
// left that nobody is told of.
func (w *world) whole(old, wanted string, kept []string) {
	t := w.t
	t.Helper()
	contents, others := w.everything()
	lost := func(wrote string) bool { return wrote != "" && !contents[wrote] }
	if n := len(w.wrote); n > 0 && lost(w.wrote[n-1]) {
		t.Errorf("lost %q; there is %v", w.wrote[n-1], contents)
	}
	now := content(t, w.target)
	if now != old && now != wanted && !slices.Contains(w.wrote, now) {
		t.Errorf("the target is %q", now)
	}
	if n := len(w.wrote); n > 0 && w.wrote[n-1] != "" && now == old {
		t.Errorf("the old bytes are back over %q", w.wrote[n-1])
	}
	for _, name := range others {
		if !slices.Contains(kept, filepath.Join(w.dir, name)) {
			t.Errorf("%s is left over, told of are %v", name, kept)
		}
	}
}

func both(t *testing.T, run func(t *testing.T, shape [2]string, noExchange bool)) {
	for name, shape := range shapes {
		for _, no := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/no-exchange=%v", name, no), func(t *testing.T) { run(t, shape, no) })
		}
	}
}

func TestSwapAndBack(t *testing.T) {
	both(t, func(t *testing.T, shape [2]string, no bool) {
		w := newWorld(t, t.TempDir(), shape, no)
		done, err := w.swap.Run(t.Context())
		if err != nil || done.Kept != "" || done.Exchanged == no {
			t.Fatalf("Run: %+v, %v", done, err)
		}
		if got := content(t, w.target); got != shape[1] {
			t.Fatalf("the target is %q, want %q", got, shape[1])
		}
		if v, err := w.swap.Decide(t.Context()); err != nil || v.At != atomicfile.AtNew {
			t.Errorf("Decide: %+v, %v", v, err)
		}
		back := w.swap.Reverse([]byte(shape[0]))
		if _, err := back.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if kept, err := back.Clean(t.Context()); kept != "" || err != nil {
			t.Errorf("Clean: %q, %v", kept, err)
		}
		w.whole(shape[0], shape[0], nil)
		if v, err := w.swap.Decide(t.Context()); err != nil || v.At != atomicfile.AtOld {
			t.Errorf("Decide: %+v, %v", v, err)
		}
	})
}

// steps is how many steps a swap has when nobody disturbs it.
func steps(t *testing.T, shape [2]string, no bool) []faultdisk.Step {
	t.Helper()
	w := newWorld(t, t.TempDir(), shape, no)
	if _, err := w.swap.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.swap.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w.disk.Steps
}

// gap says whether a step without an exchange is the one before which a rename by somebody else is lost.
func gap(s faultdisk.Step, no bool, target string) bool {
	return no && (s.Op == "replace" && s.To == target || s.Op == "remove" && s.Path == target)
}

// TestOthersWriteMeanwhile lets one or two other processes write before every step of a swap.
func TestOthersWriteMeanwhile(t *testing.T) {
	both(t, func(t *testing.T, shape [2]string, no bool) {
		all := steps(t, shape, no)
		dir := faultdisk.Dir(t)
		for first, write := range writers {
			for second, again := range writers {
				for i := range all {
					for k := i; k < len(all)+4; k++ { // giving back takes more steps than going forward
						w := newWorld(t, dir, shape, no)
						excused := false
						w.disk.Before = func(s faultdisk.Step) error {
							if s.N == i {
								excused = excused || gap(s, no, w.target)
								write(w)
							}
							if s.N == k && k > i {
								excused = excused || gap(s, no, w.target)
								again(w)
							}
							return nil
						}
						done, err := w.swap.Run(t.Context())
						kept := []string{done.Kept}
						if err == nil {
							more, err := w.swap.Clean(t.Context())
							if err != nil {
								t.Error(err)
							}
							kept = append(kept, more)
						} else if !errors.Is(err, atomicfile.ErrStale) {
							t.Errorf("%s before step %d, %s before step %d: %v", first, i, second, k, err)
						}
						if !excused {
							w.whole(shape[0], shape[1], kept)
						}
						if t.Failed() {
							t.Fatalf("%s before step %d, %s before step %d: %v", first, i, second, k, w.disk.Steps)
						}
					}
				}
			}
		}
	})
}

// TestReadMeanwhile has a client write before one step of a swap, read before a later one, and write what it made of that
// before one later still. What it wrote first is in the file or beside it, though it may have read the file while its bytes
// were displaced.
func TestReadMeanwhile(t *testing.T) {
	both(t, func(t *testing.T, shape [2]string, no bool) {
		all := steps(t, shape, no)
		dir := faultdisk.Dir(t)
		const first, second = "the first edit\n", "the second edit\n"
		for _, inPlace := range []bool{false, true} {
			for i := range all {
				for k := i; k < len(all)+4; k++ {
					for m := k; m < len(all)+8; m++ { // some while it is guarded
						w := newWorld(t, dir, shape, no)
						w.swap.Guard = 100 * time.Microsecond
						excused, saw := false, ""
						write := func(s faultdisk.Step, text string) {
							excused = excused || gap(s, no, w.target)
							path := w.target
							if !inPlace {
								path = filepath.Join(w.dir, "temp")
							}
							w.write(path, text)
							if !inPlace {
								if err := os.Rename(path, w.target); err != nil {
									t.Fatal(err)
								}
							}
						}
						wrote := ""
						w.disk.Before = func(s faultdisk.Step) error {
							if s.N == i {
								wrote = content(t, w.target) + first
								write(s, wrote)
							}
							if s.N == k {
								saw = content(t, w.target)
							}
							if s.N == m {
								wrote = saw + second
								write(s, wrote)
							}
							return nil
						}
						done, err := w.swap.Run(t.Context())
						if err == nil {
							_, err = w.swap.Clean(t.Context())
						}
						if err != nil && !errors.Is(err, atomicfile.ErrStale) {
							t.Error(err)
						}
						contents, others := w.everything()
						for _, name := range others {
							if kept := filepath.Join(w.dir, name); kept != done.Kept && !slices.Contains(w.swap.Kept(), kept) {
								t.Errorf("%s is left over", name)
							}
						}
						everything := strings.Join(slices.Collect(maps.Keys(contents)), "")
						if !excused && !strings.Contains(everything, first) || !contents[wrote] && !excused {
							t.Errorf("lost: %q was written last, there is %v", wrote, contents)
						}
						if t.Failed() {
							t.Fatalf("in place %v; written before step %d, read before step %d, written again before step %d: %v", inPlace, i, k, m, w.disk.Steps)
						}
					}
				}
			}
		}
	})
}

// TestKilled ends the process before and after every step, with and without somebody who has written before, and again
// during the decision; the decision after that ends it.
func TestKilled(t *testing.T) {
	both(t, func(t *testing.T, shape [2]string, no bool) {
		all := steps(t, shape, no)
		dir := faultdisk.Dir(t)
		writers := map[string]func(w *world){"nobody": func(*world) {}, "rename": writers["rename"], "in place": writers["in place"], "remove": writers["remove"]}
		for who, write := range writers {
			for i := range all {
				for k := i; k < len(all)+4; k++ {
					for again := (i + k) % 3; again < 12; again += 3 {
						w := newWorld(t, dir, shape, no)
						excused := false
						w.disk.Before = func(s faultdisk.Step) error {
							if s.N == i {
								excused = gap(s, no, w.target)
								write(w)
							}
							if s.N == k {
								if s.Op == "stage" && again%2 == 0 {
									return faultdisk.ErrTorn
								}
								panic(faultdisk.Killed{})
							}
							return nil
						}
						faultdisk.Kill(func() { _, _ = w.swap.Run(t.Context()) })
						var kept []string
						decide := func() (v atomicfile.Verdict) {
							v, err := w.swap.Decide(t.Context())
							if err != nil {
								t.Errorf("Decide: %v", err)
							}
							return v
						}
						from := len(w.disk.Steps)
						w.disk.Before = func(s faultdisk.Step) error {
							if s.N == from+again {
								panic(faultdisk.Killed{})
							}
							return nil
						}
						faultdisk.Kill(func() { decide() })
						w.disk.Before = nil
						first := decide()
						second := decide()
						if first.At != second.At {
							t.Errorf("Decide says %s, then %s", first.At, second.At)
						}
						if second.At == atomicfile.AtNew {
							more, err := w.swap.Clean(t.Context())
							if err != nil {
								t.Error(err)
							}
							kept = append(kept, more)
						}
						// What is kept by a killed process is told by nobody; its name says what it is.
						_, others := w.everything()
						for _, name := range others {
							if strings.Contains(name, "-kept") {
								kept = append(kept, filepath.Join(w.dir, name))
							}
						}
						if !excused {
							w.whole(shape[0], shape[1], kept)
						}
						if t.Failed() {
							t.Fatalf("%s before step %d, killed at step %d, again %d steps into the decision: %v", who, i, k, again, w.disk.Steps)
						}
					}
				}
			}
		}
	})
}

// TestErrors lets every step fail, and every step do what it says it could not.
func TestErrors(t *testing.T) {
	both(t, func(t *testing.T, shape [2]string, no bool) {
		all := steps(t, shape, no)
		for _, errno := range []error{syscall.EIO, syscall.ENOSPC} {
			for i := range all {
				for _, done := range []bool{false, true} {
					w := newWorld(t, t.TempDir(), shape, no)
					fail := func(s faultdisk.Step) error {
						if s.N == i {
							return errno
						}
						return nil
					}
					if done {
						w.disk.After = fail
					} else {
						w.disk.Before = fail
					}
					_, err := w.swap.Run(t.Context())
					w.disk.Before, w.disk.After = nil, nil
					if err == nil {
						if i < len(all)-3 { // the last ones belong to Clean
							t.Errorf("step %d fails with %v and nobody says so", i, errno)
						}
					} else if !errors.Is(err, errno) {
						t.Errorf("step %d fails with %v, told is %v", i, errno, err)
					}
					v, err := w.swap.Decide(t.Context())
					if err != nil || v.At == atomicfile.AtOther || v.Kept != "" {
						t.Errorf("step %d fails with %v, done %v: Decide: %+v, %v", i, errno, done, v, err)
					}
					var kept []string
					if v.At == atomicfile.AtNew {
						if _, err := w.swap.Clean(t.Context()); err != nil {
							t.Error(err)
						}
					}
					w.whole(shape[0], shape[1], kept)
					if t.Failed() {
						t.Fatalf("step %d fails with %v, done %v: %v", i, errno, done, w.disk.Steps)
					}
				}
			}
		}
	})
}

// TestOpenWriter: a process that has the old file open for writing is waited for, and what it writes is not lost, whether
// it opened the file before the swap or at its last moment.
func TestOpenWriter(t *testing.T) {
	for _, test := range []struct {
		name   string
		late   bool
		closes bool
		want   error
	}{
		{"it writes and closes the file", false, true, atomicfile.ErrStale},
		{"it keeps the file open", false, false, atomicfile.ErrOpen},
		{"it opened it late, and closes it", true, true, atomicfile.ErrStale},
		{"it opened it late, and keeps it open", true, false, atomicfile.ErrOpen},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, t.TempDir(), shapes["replace"], false)
			var f *os.File
			open := func() {
				var err error
				if f, err = os.OpenFile(w.target, os.O_WRONLY, 0); err != nil {
					t.Error(err)
				}
			}
			exchanges := 0
			w.disk.Before = func(s faultdisk.Step) error {
				if s.Op == "exchange" {
					if exchanges++; exchanges == 1 && test.late {
						open()
					}
				}
				return nil
			}
			if !test.late {
				open()
			}
			write := func() {
				if _, err := f.WriteString("written late"); err != nil {
					t.Error(err)
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			}
			w.swap.Disk = slowly{w.disk, sync.OnceFunc(func() {
				if test.closes && f != nil {
					write()
				}
			}), func() bool { return f != nil }}
			done, err := w.swap.Run(t.Context())
			if !errors.Is(err, test.want) || done.Kept != "" {
				t.Errorf("Run: %+v, %v; want %v", done, err, test.want)
			}
			if want := map[bool]int{true: 2, false: 0}[test.late]; exchanges != want {
				t.Errorf("%d exchanges, want %d", exchanges, want)
			}
			if !test.closes {
				write()
			}
			w.wrote = append(w.wrote, content(t, w.target))
			if !strings.HasPrefix(w.wrote[0], "written late") {
				t.Errorf("the target is %q", w.wrote[0])
			}
			w.whole(oldBytes, newBytes, nil)
		})
	}
}

// slowly lets a writer that has the file open write while the swap waits for it.
type slowly struct {
	atomicfile.Disk
	write func()
	open  func() bool
}

func (d slowly) Settle(ctx context.Context, path string) (atomicfile.Content, error) {
	if !d.open() {
		return d.Disk.Settle(ctx, path)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		time.Sleep(4 * time.Millisecond) // most often while it waits; the outcome is the same before
		d.write()
	}()
	c, err := d.Disk.Settle(ctx, path)
	<-waited
	return c, err
}
