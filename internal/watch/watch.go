// Package watch decides when files deserve another look: it notices that one of them may have changed, waits until its
// content stays the same, and says so. It refuses to know what the files mean and who asked for them.
//
// Invariant: what it says is a hint. A hint may be missing or wrong; contents that differ are found by the next rescan,
// and whoever gets a hint looks for himself.
package watch

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"mcpx/internal/key"
)

const (
	// rescanEvery is how often all files are compared, whatever was notified.
	rescanEvery = time.Minute
	// pollEvery is how often they are compared where notification is not there, or does not reach all of them.
	pollEvery = 2 * time.Second
	// settleFor is how long a content has to stay the same, so that a file is not looked at while it is written.
	settleFor = 500 * time.Millisecond
	// settleMost bounds the wait for a file that is written all the time.
	settleMost = 10 * time.Second
	// maxDirs bounds the watched directories: all agents together have less than 100, and a user has 8192 by default.
	maxDirs = 512
	// maxFiles bounds the files; those beyond it are not looked at.
	maxFiles = 4096
	// maxLinks bounds a chain of symbolic links, as the system does.
	maxLinks = 40
	// maxRounds bounds how often directories are looked at again that appear while they are about to be watched: each round
	// is one level deeper, unless somebody makes and removes them all the time, and then the next notification goes on.
	maxRounds = 64
)

// Config is what a Watcher needs.
type Config struct {
	Files func() []string // absolute paths of the files of interest; asked again at each rescan
	Dirs  []string        // directories in which more of them may appear: then Files is asked again
	Log   *slog.Logger
}

// Watcher watches the directories of files.
type Watcher struct {
	cfg     Config
	notify  *fsnotify.Watcher // nil: there is no notification
	add     func(dir string) error
	partial bool // notification does not reach all files
	files   map[string]*file
	touches map[string][]string // path of which a notification is of interest -> files
	rescan  time.Duration
	poll    time.Duration
}

// file is what is known of one file.
type file struct {
	seen  content
	moved *change // nil: it is as it was told
}

// change is a content that was not told yet.
type change struct {
	now          content
	since, first time.Time
}

func (c change) due() time.Time {
	if most := c.first.Add(settleMost); most.Before(c.since.Add(settleFor)) {
		return most
	}
	return c.since.Add(settleFor)
}

// New watches from now on: what changes after it returned is told by Run. Without notification it polls.
func New(c Config) *Watcher {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		c.Log.LogAttrs(context.Background(), slog.LevelWarn, "no notification of changed files: they are polled", slog.Any(key.Cause, err))
		notify = nil
	}
	return newWatcher(c, notify)
}

func newWatcher(c Config, notify *fsnotify.Watcher) *Watcher {
	w := &Watcher{cfg: c, notify: notify, add: notify.Add, files: map[string]*file{}, rescan: rescanEvery, poll: pollEvery}
	w.arm()
	for path, f := range w.files {
		f.seen = read(path, content{})
	}
	return w
}

// Run calls hint with the files whose content changed and then stayed the same, until ctx ends. It is called once.
func (w *Watcher) Run(ctx context.Context, hint func(changed []string)) {
	var events chan fsnotify.Event
	var failures chan error
	if w.notify != nil {
		events, failures = w.notify.Events, w.notify.Errors
		defer w.notify.Close()
	}
	rescan := time.NewTimer(w.pause())
	defer rescan.Stop()
	settle := time.NewTimer(0)
	defer settle.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e, open := <-events:
			if !open {
				w.notify, events, failures = nil, nil, nil
				rescan.Reset(w.pause())
				continue
			}
			w.notified(e)
		case err, open := <-failures:
			if !open {
				failures = nil
				continue
			}
			w.cfg.Log.LogAttrs(ctx, slog.LevelWarn, "notification of changed files failed", slog.Any(key.Cause, err))
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				w.compare(w.paths(), true)
			}
		case <-rescan.C:
			w.arm()
			w.compare(w.paths(), false)
			rescan.Reset(w.pause())
		case <-settle.C:
			if changed := w.settled(time.Now()); len(changed) > 0 {
				hint(changed)
			}
		}
		if next, some := w.next(); some {
			settle.Reset(time.Until(next))
		}
	}
}

// pause is the time until the next rescan.
func (w *Watcher) pause() time.Duration {
	if w.notify == nil || w.partial {
		return w.poll
	}
	return w.rescan
}

func (w *Watcher) paths() []string {
	all := make([]string, 0, len(w.files))
	for path := range w.files {
		all = append(all, path)
	}
	return all
}

// notified looks at the files that a notification may be about.
func (w *Watcher) notified(e fsnotify.Event) {
	about, known := w.touches[e.Name]
	if !known && (!e.Has(fsnotify.Create) || !slices.Contains(w.cfg.Dirs, filepath.Dir(e.Name))) {
		return
	}
	if e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename) {
		fresh := w.arm() // a directory or a link may lead elsewhere now
		about = append(append(fresh, about...), w.touches[e.Name]...)
	}
	w.compare(about, true)
}

// compare notes which of the files are not as they were told. Without again, one whose size and times are the same is
// not read.
func (w *Watcher) compare(paths []string, again bool) {
	for _, path := range paths {
		f := w.files[path]
		if f == nil {
			continue
		}
		last := f.seen
		if again {
			last = content{sum: last.sum}
		}
		w.note(f, read(path, last), time.Now())
	}
}

// note takes what a file is now.
func (w *Watcher) note(f *file, now content, at time.Time) {
	switch {
	case now.same(f.seen):
		f.seen, f.moved = now, nil
	case f.moved == nil:
		f.moved = &change{now: now, since: at, first: at}
	case f.moved.now.sum != now.sum:
		f.moved.now, f.moved.since = now, at
	default:
		f.moved.now = now
	}
}

// settled reads what may have come to rest, and gives the files that did.
func (w *Watcher) settled(now time.Time) []string {
	var changed []string
	for path, f := range w.files {
		if f.moved == nil || now.Before(f.moved.due()) {
			continue
		}
		before := f.moved.now.sum
		w.note(f, read(path, content{}), now)
		if f.moved == nil || f.moved.now.sum != before && now.Before(f.moved.first.Add(settleMost)) {
			continue
		}
		f.seen, f.moved = f.moved.now, nil
		changed = append(changed, path)
	}
	slices.Sort(changed)
	return changed
}

// next is when something may have settled.
func (w *Watcher) next() (at time.Time, some bool) {
	for _, f := range w.files {
		if f.moved != nil && (!some || f.moved.due().Before(at)) {
			at, some = f.moved.due(), true
		}
	}
	return at, some
}

// arm asks for the files again, and watches the directories in which they are or would appear. It gives the files that are
// new to it.
func (w *Watcher) arm() (fresh []string) {
	// What was made in a directory before it was watched is told by nobody: after each new watch it is looked at again.
	for range maxRounds {
		fresh = append(fresh, w.ask()...)
		w.touches = map[string][]string{}
		want := map[string]bool{}
		for path := range w.files {
			w.reach(path, want)
		}
		for _, dir := range w.cfg.Dirs {
			w.reach(filepath.Join(dir, "*"), want) // any name that is in it
		}
		if !w.watch(want) {
			break
		}
	}
	return fresh
}

// ask asks which files are of interest, and gives those that are new. What is known of those that stay is kept.
func (w *Watcher) ask() (fresh []string) {
	paths := w.cfg.Files()
	if len(paths) > maxFiles {
		paths = paths[:maxFiles]
	}
	old := w.files
	w.files = map[string]*file{}
	for _, path := range paths {
		path = filepath.Clean(path)
		if w.files[path] != nil {
			continue
		}
		if w.files[path] = old[path]; w.files[path] == nil {
			w.files[path] = &file{seen: content{sum: absent}}
			fresh = append(fresh, path)
		}
	}
	return fresh
}

// reach adds what leads to a file: each link of the chain, and the directory of each, or the nearest one that is there.
func (w *Watcher) reach(path string, want map[string]bool) {
	for at, n := path, 0; n < maxLinks; n++ {
		dir := at
		for {
			w.touches[dir] = append(w.touches[dir], path)
			parent := filepath.Dir(dir)
			info, err := os.Stat(parent)
			if dir = parent; err == nil && info.IsDir() || dir == filepath.Dir(dir) {
				break
			}
		}
		want[dir] = true
		w.touches[dir] = append(w.touches[dir], path) // the directory itself may go
		target, err := os.Readlink(at)
		if err != nil {
			return
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(at), target)
		}
		at = target
	}
}

// watch makes the watched directories those that are wanted, and says whether one is new. Some may be refused: then the
// files are polled.
func (w *Watcher) watch(want map[string]bool) (added bool) {
	if w.notify == nil {
		return false
	}
	have := map[string]bool{}
	for _, dir := range w.notify.WatchList() {
		if have[dir] = want[dir]; !want[dir] {
			_ = w.notify.Remove(dir) // it may have gone by itself
			delete(have, dir)
		}
	}
	was := w.partial
	w.partial = false
	for dir := range want {
		if have[dir] {
			continue
		}
		if len(have) >= maxDirs || w.add(dir) != nil {
			w.partial = true
			continue
		}
		have[dir], added = true, true
	}
	if w.partial && !was {
		w.cfg.Log.LogAttrs(context.Background(), slog.LevelWarn, "not every directory of agents can be watched: their files are polled")
	}
	return added
}
