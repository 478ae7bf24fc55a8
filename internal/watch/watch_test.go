package watch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within bounds the wait for a hint; a loaded machine needs seconds.
const within = 30 * time.Second

// running watches files and gives the hints.
func running(t *testing.T, notify bool, paths ...string) <-chan []string {
	t.Helper()
	var source *fsnotify.Watcher
	if notify {
		var err error
		if source, err = fsnotify.NewWatcher(); err != nil {
			t.Skipf("skip: no notification here: %v", err)
		}
	}
	return follow(t, Config{Files: func() []string { return paths }, Log: slog.New(slog.DiscardHandler)}, source)
}

// follow gives the hints of a watcher.
func follow(t *testing.T, c Config, source *fsnotify.Watcher) <-chan []string {
	t.Helper()
	w := newWatcher(c, source)
	w.poll = 20 * time.Millisecond
	return run(t, w)
}

// run runs a watcher and gives the hints.
func run(t *testing.T, w *Watcher) <-chan []string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	hints, done := make(chan []string, 16), make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, func(changed []string) { hints <- changed })
	}()
	t.Cleanup(func() { stop(); <-done })
	return hints
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, hints <-chan []string, want ...string) {
	t.Helper()
	select {
	case got := <-hints:
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
	case <-time.After(within):
		t.Fatalf("no hint about %v within %s", want, within)
	}
}

// TestHints: each way in which agents change files is noticed, with notification and without.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, dir, path string)
		change func(t *testing.T, dir, path string)
	}{
		{"written in place", func(t *testing.T, _, path string) { write(t, path, "a") }, func(t *testing.T, _, path string) { write(t, path, "b") }},
		{"renamed over", func(t *testing.T, _, path string) { write(t, path, "a") }, func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "tmp"), "b")
			rename(t, filepath.Join(dir, "tmp"), path)
		}},
		{"appears", nil, func(t *testing.T, _, path string) { write(t, path, "a") }},
		{"goes", func(t *testing.T, _, path string) { write(t, path, "a") }, func(t *testing.T, _, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}},
		{"a link that leads elsewhere", func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "one"), "a")
			write(t, filepath.Join(dir, "two"), "b")
			link(t, "one", path)
		}, func(t *testing.T, dir, path string) {
			link(t, "two", filepath.Join(dir, "next"))
			rename(t, filepath.Join(dir, "next"), path)
		}},
		{"the other end of a link", func(t *testing.T, dir, path string) {
			if err := os.Mkdir(filepath.Join(dir, "dotfiles"), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "dotfiles", "real"), "a")
			link(t, filepath.Join("dotfiles", "real"), path)
		}, func(t *testing.T, dir, _ string) { write(t, filepath.Join(dir, "dotfiles", "real"), "b") }},
	} {
		for mode, notify := range map[string]bool{"notified": true, "polled": false} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path := filepath.Join(dir, "file")
				if c.before != nil {
					c.before(t, dir, path)
				}
				hints := running(t, notify, path, filepath.Join(dir, "other"))
				c.change(t, dir, path)
				expect(t, hints, path)
			})
		}
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// TestNewFiles: files that nobody has named before are found when they appear in a directory of interest, which may appear
// later itself; one that goes is told, and so is one that others may write now.
func TestNewFiles(t *testing.T) {
	source, err := fsnotify.NewWatcher()
	if err != nil {
		t.Skipf("skip: no notification here: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "a", "b")
	seen := map[string]bool{}
	hints := follow(t, Config{Log: slog.New(slog.DiscardHandler), Dirs: func() []string { return []string{dir} }, Files: func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "*.x"))
		if err != nil {
			t.Error(err)
		}
		for _, path := range found {
			seen[path] = true
		}
		return slices.Sorted(maps.Keys(seen))
	}}, source)
	one, two := filepath.Join(dir, "one.x"), filepath.Join(dir, "two.x")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, one, "1")
	expect(t, hints, one)
	write(t, filepath.Join(dir, "other"), "1")
	write(t, filepath.Join(dir, "staged"), "2")
	rename(t, filepath.Join(dir, "staged"), two)
	expect(t, hints, two)
	if err := os.Chmod(two, 0o622); err != nil {
		t.Fatal(err)
	}
	expect(t, hints, two)
	if err := os.Remove(one); err != nil {
		t.Fatal(err)
	}
	expect(t, hints, one)
}

// TestLaterDirectory: directories that appear, go, and appear again are followed.
func TestLaterDirectory(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "file")
	hints := running(t, true, path)
	for _, text := range []string{"one", "two"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
		expect(t, hints, path)
		if err := os.RemoveAll(filepath.Join(dir, "a")); err != nil {
			t.Fatal(err)
		}
		expect(t, hints, path)
	}
}

// TestMadeBeforeItIsWatched: a directory that appears between the look at its parent and the watch on it is found.
func TestMadeBeforeItIsWatched(t *testing.T) {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		t.Skipf("skip: no notification here: %v", err)
	}
	defer notify.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "c", "file")
	w := newWatcher(Config{Files: func() []string { return []string{path} }, Log: slog.New(slog.DiscardHandler)}, notify)
	w.add = func(at string) error { // whoever makes the directories is always one step ahead
		if deeper, ok := map[string]string{filepath.Join(dir, "a"): "b", filepath.Join(dir, "a", "b"): "c"}[at]; ok {
			if err := os.Mkdir(filepath.Join(at, deeper), 0o700); err != nil {
				t.Error(err)
			}
		}
		return notify.Add(at)
	}
	if err := os.Mkdir(filepath.Join(dir, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.arm()
	if at := filepath.Dir(path); !slices.Contains(notify.WatchList(), at) {
		t.Errorf("%s is not watched, but %v", at, notify.WatchList())
	}
}

// TestSettle: a file is told when it rests, and one that never rests after the longest wait.
func TestSettle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	w := newWatcher(Config{Files: func() []string { return []string{path} }, Log: slog.New(slog.DiscardHandler)}, nil)
	start := time.Now()
	at := func(after time.Duration, text string) []string {
		write(t, path, text)
		return w.settled(start.Add(after))
	}
	write(t, path, "1")
	w.note(w.files[path], read(path, content{}), start)
	for _, step := range []struct {
		after time.Duration
		text  string
		want  []string
	}{
		{settleFor - 1, "1", nil},
		{settleFor, "2", nil}, // it is another one meanwhile
		{2*settleFor - 1, "2", nil},
		{2 * settleFor, "2", []string{path}},
		{3 * settleFor, "2", nil}, // it was told
	} {
		if d := cmp.Diff(step.want, at(step.after, step.text)); d != "" {
			t.Errorf("after %s: -want +got:\n%s", step.after, d)
		}
	}
	write(t, path, "3")
	w.note(w.files[path], read(path, content{}), start)
	told := time.Duration(0)
	for after := settleFor; told == 0 && after <= 2*settleMost; after += settleFor {
		if len(at(after, after.String())) > 0 {
			told = after
		}
	}
	if told != settleMost {
		t.Errorf("a file that is written all the time was told after %s, want %s", told, settleMost)
	}
	// A change that was taken back is told: somebody may have seen it.
	write(t, path, settleMost.String())
	if err := os.Chtimes(path, start, start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	w.note(w.files[path], read(path, content{}), start)
	if got := w.settled(start.Add(settleFor)); len(got) != 1 {
		t.Errorf("a change that was taken back was not told: %v", got)
	}
	w.compare(w.paths(), true)
	if _, some := w.next(); some {
		t.Error("a file that nobody touched is to be told")
	}
}

// TestBounds: more directories than may be watched are polled, the last ones, and it is said; a device is not opened.
func TestBounds(t *testing.T) {
	source, err := fsnotify.NewWatcher()
	if err != nil {
		t.Skipf("skip: no notification here: %v", err)
	}
	defer source.Close()
	dir := t.TempDir()
	var paths []string
	for i := range maxDirs + 1 {
		sub := filepath.Join(dir, time.Duration(i).String())
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, filepath.Join(sub, "file"))
	}
	files := paths
	w := newWatcher(Config{Files: func() []string { return files }, Log: slog.New(slog.DiscardHandler)}, source)
	if d := cmp.Diff([]string{paths[maxDirs]}, w.polled); d != "" || len(source.WatchList()) != maxDirs {
		t.Errorf("%d directories are watched, polled: %s", len(source.WatchList()), d)
	}
	if got, want := w.State(), (State{Dirs: maxDirs + 1, Polled: 1, Why: "mcpx watches 1024 directories at most"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	files = paths[:1]
	w.arm()
	if n := len(source.WatchList()); n != 1 || w.State() != (State{Dirs: 1}) || len(w.polled) != 0 {
		t.Errorf("%d directories are watched, %+v", n, w.State())
	}
	files = make([]string, maxFiles+2)
	for i := range files {
		files[i] = filepath.Join(dir, fmt.Sprint(i))
	}
	w.arm()
	if got, want := w.State(), (State{Dirs: 1, Left: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := read(os.DevNull, content{}); got.sum != irregular && runtime.GOOS != "windows" {
		t.Errorf("a device is %q", got.sum)
	}
}

// TestRefused: what the system does not watch is polled and told, and watched as soon as it may be.
func TestRefused(t *testing.T) {
	source, err := fsnotify.NewWatcher()
	if err != nil {
		t.Skipf("skip: no notification here: %v", err)
	}
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := os.Mkdir(full, 0o700); err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(dir, "a"), filepath.Join(full, "b")}
	w := newWatcher(Config{Files: func() []string { return paths }, Log: slog.New(slog.DiscardHandler)}, source)
	var may atomic.Bool
	w.add = func(at string) error {
		if at == full && !may.Load() {
			return syscall.ENOSPC
		}
		return source.Add(at)
	}
	_ = source.Remove(full)
	w.arm()
	if got, want := w.State(), (State{Dirs: 2, Polled: 1, Why: "the system allows this user no more watches (fs.inotify.max_user_watches)"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	w.poll = 20 * time.Millisecond
	hints := run(t, w)
	write(t, paths[1], "polled")
	expect(t, hints, paths[1])
	may.Store(true)
	w.Refresh()
	for w.State() != (State{Dirs: 2}) {
		time.Sleep(time.Millisecond)
	}
	write(t, paths[1], "notified")
	expect(t, hints, paths[1])
}

// TestTwoNames: one directory that has two names is watched once, and files are told by the names that they were asked for
// by.
func TestTwoNames(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	link(t, "real", filepath.Join(dir, "link"))
	one, two := filepath.Join(dir, "real", "file"), filepath.Join(dir, "link", "file")
	hints := running(t, true, one, two)
	for _, text := range []string{"a", "b"} {
		write(t, one, text)
		told := map[string]bool{} // one after the other, when they settle at different moments
		for !told[one] || !told[two] {
			select {
			case changed := <-hints:
				for _, name := range changed {
					told[name] = true
				}
			case <-time.After(within):
				t.Fatalf("after %q was written, only %v were told", text, told)
			}
		}
	}
}

// TestOtherDirectory: a directory that another one takes the place of is left, and the other one is watched.
func TestOtherDirectory(t *testing.T) {
	for _, c := range []struct {
		name   string
		before func(t *testing.T, dir string)
		other  func(t *testing.T, dir string)
	}{
		{"a link leads elsewhere", func(t *testing.T, dir string) {
			for _, name := range []string{"one", "two"} {
				if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			link(t, "one", filepath.Join(dir, "at"))
		}, func(t *testing.T, dir string) {
			link(t, "two", filepath.Join(dir, "next"))
			rename(t, filepath.Join(dir, "next"), filepath.Join(dir, "at"))
		}},
		{"moved away and made anew", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "at"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, dir string) {
			rename(t, filepath.Join(dir, "at"), filepath.Join(dir, "old"))
			if err := os.Mkdir(filepath.Join(dir, "at"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
		{"removed and made anew", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "at"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, dir string) {
			if err := os.RemoveAll(filepath.Join(dir, "at")); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, "at"), 0o700); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c.before(t, dir)
			path := filepath.Join(dir, "at", "file")
			write(t, path, "a")
			hints := running(t, true, path)
			c.other(t, dir)
			expect(t, hints, path) // it is not there
			for _, text := range []string{"b", "c"} {
				write(t, path, text)
				expect(t, hints, path)
			}
		})
	}
}

// TestRefresh: what is of interest from now on is told once, and then when it changes.
func TestRefresh(t *testing.T) {
	source, err := fsnotify.NewWatcher()
	if err != nil {
		t.Skipf("skip: no notification here: %v", err)
	}
	path := filepath.Join(t.TempDir(), "file")
	write(t, path, "a")
	var paths atomic.Pointer[[]string]
	paths.Store(&[]string{})
	w := newWatcher(Config{Files: func() []string { return *paths.Load() }, Log: slog.New(slog.DiscardHandler)}, source)
	hints := run(t, w)
	paths.Store(&[]string{path})
	w.Refresh()
	expect(t, hints, path)
	write(t, path, "b")
	expect(t, hints, path)
}

// TestInBetween: a file that is as it was told is told again when it was something else in between: whoever looks by himself
// may have seen that. So is one that became of interest and is not there.
func TestInBetween(t *testing.T) {
	start := func(t *testing.T) (path string, interest *atomic.Pointer[[]string], w *Watcher) {
		source, err := fsnotify.NewWatcher()
		if err != nil {
			t.Skipf("skip: no notification here: %v", err)
		}
		path, interest = filepath.Join(t.TempDir(), "file"), &atomic.Pointer[[]string]{}
		interest.Store(&[]string{path})
		return path, interest, newWatcher(Config{Files: func() []string { return *interest.Load() }, Log: slog.New(slog.DiscardHandler)}, source)
	}
	appears := func(t *testing.T, path string) {
		write(t, path, "a")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("it was noticed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		w := newWatcher(Config{Files: func() []string { return []string{path} }, Log: slog.New(slog.DiscardHandler)}, nil)
		write(t, path, "a")
		w.compare(w.paths(), true)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		w.compare(w.paths(), true)
		if got := w.settled(time.Now().Add(settleFor)); !slices.Equal(got, []string{path}) {
			t.Errorf("told of %v", got)
		}
	})
	t.Run("it was over before anybody looked", func(t *testing.T) {
		path, _, w := start(t)
		appears(t, path)
		expect(t, run(t, w), path)
	})
	t.Run("it was over before it was of interest", func(t *testing.T) {
		path, interest, w := start(t)
		interest.Store(&[]string{})
		w.arm()
		appears(t, path)
		interest.Store(&[]string{path})
		w.Refresh()
		expect(t, run(t, w), path)
	})
}
